"""The chip interface: what lowers a model's program, runs it here, or refuses it by name.

A chip is a folder `chips/NAME/` whose file `chip.py` has one public object `CHIP`. `load` prepares a bound model once;
`start` gives a session with caches of its own. A session runs `forward` on tokens at places and `logits` on hidden
rows: decode steps, prefill chunks, batches and verification are calls of the one function.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest

if TYPE_CHECKING:
    from bittern.front.bind import BoundEncoder
    from bittern.front.bound import Bound
    from bittern.graph.node import Function
    from bittern.lang.library import Library
    from bittern.plan.watch import Watch

UNKNOWN_CHIP = code("R101", "no chip of this name")

Tokens = npt.NDArray[np.uint32]
Reals = npt.NDArray[np.floating[Any]]
Arrays = tuple[npt.NDArray[Any], ...]


class Session(Protocol):
    """One running model: its caches, of `context` positions for each of `sequences` sequences."""

    context: int
    sequences: int

    def forward(self, token: Tokens, sequence: Tokens, position: Tokens) -> Reals:
        """Run t tokens at their places; return the hidden states [t, d]. Caches change."""
        ...

    def logits(self, hidden: Reals) -> Reals:
        """Return the logits [k, vocab] of hidden rows [k, d]."""
        ...


@runtime_checkable
class FeedingSession(Protocol):
    """A session that gives hidden states only where they are wanted."""

    def feed(self, token: Tokens, sequence: Tokens, position: Tokens, rows: Sequence[int] = ()) -> Reals:
        """Run t tokens at their places; return the hidden states [k, d] of some rows alone, which ascend."""
        ...


@runtime_checkable
class GreedySession(Protocol):
    """A session that makes many tokens without coming back for each."""

    def greedy(self, tokens: Sequence[int], count: int, stops: Collection[int] = ()) -> list[int]:
        """Return what follows the tokens of sequence 0, the likeliest token each time.

        All tokens but the last were run before. At most `count` are made; one of `stops` is the last. What is returned
        last has not been run.
        """
        ...


@runtime_checkable
class ChoosingSession(Protocol):
    """A session that chooses the likeliest tokens of any sequence, and of several rows at once."""

    @property
    def is_ready(self) -> bool:
        """Whether `likeliest` of a few rows runs at once, with nothing to make first."""
        ...

    def greedy(
        self,
        tokens: Sequence[int],
        count: int,
        stops: Collection[int] = (),
        *,
        sequence: int = 0,
        watch: "Watch | None" = None,
    ) -> list[int]:
        """Return what follows the tokens of a sequence; see `GreedySession`.

        watch: it also ends when the last tokens stood in the text before, or seem to.
        """
        ...

    def likeliest(self, token: Tokens, sequence: Tokens, position: Tokens) -> list[int]:
        """Run t tokens at their places; return the likeliest token after each."""
        ...


@runtime_checkable
class KeepingSession(Protocol):
    """A session whose keys and values can be taken out, and put into another of equal bits, of any chip."""

    def positions(self, count: int, sequence: int = 0) -> list[npt.NDArray[Any]]:
        """Return the first positions of a sequence: for each leaf of the cache [layers, count, heads, values].

        Leaves that hold nothing are left out.
        """
        ...

    def put_positions(self, leaves: Sequence[npt.NDArray[Any]], sequence: int = 0) -> None:
        """Write the first positions of a sequence; what stood behind them is lost."""
        ...


class Loaded(Protocol):
    """A model prepared for a chip. artifact: what was made for it, a name and digest, or None."""

    artifact: Mapping[str, str] | None

    def start(self, context: int, sequences: int = 1) -> Session:
        """Return a session with empty caches."""
        ...


class Chip(Protocol):
    """One chip.

    tier: feature level or precision. mode: `hardware`, `emulated` or `model`. is_strict: gives the bits that all strict
    chips give.
    """

    name: str
    tier: str
    mode: str
    is_strict: bool

    def load(self, model: "Bound", cache: Path | None = None) -> Loaded:
        """Prepare a model. cache: a folder for what is worth keeping between runs, such as code.

        Raises BitternError with the refusal's code where the chip cannot run it.
        """
        ...


@runtime_checkable
class NativeChip(Protocol):
    """A chip that runs on one kind of machine, and there at several feature levels."""

    def is_here(self) -> bool:
        """Whether this machine is of that kind."""
        ...

    def at(self, tier: str = "", threads: int = 0) -> Chip:
        """Return the chip at a tier, "" for the best one, on so many threads, 0 for all cores."""
        ...


class LoadedEncoder(Protocol):
    """An encoder prepared for a chip."""

    def encode(self, token: Tokens) -> Reals:
        """Return the vectors [t, d] of a text's tokens."""
        ...

    def mean(self, vectors: Reals) -> Reals:
        """Return the mean [d] of vectors [t, d]."""
        ...

    def pool(self, vectors: Reals) -> Reals:
        """Return the vector [d] that the model's own pooler makes of vectors [t, d]; it must have one."""
        ...


@runtime_checkable
class EncodingChip(Protocol):
    """A chip that also runs encoders."""

    def load_encoder(self, model: "BoundEncoder") -> LoadedEncoder:
        """Prepare an encoder."""
        ...


class BoundFunction(Protocol):
    """A function with memory for one batch: fill the inputs, call, read the results. They stay the same arrays."""

    inputs: Arrays
    results: Arrays
    call: Callable[[], object]


class LoadedFunction(Protocol):
    """A function over a batch, prepared for a chip. Its one dimension is the batch."""

    def bound(self, batch: int) -> BoundFunction:
        """Return memory for a batch and what runs it there."""
        ...

    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> Arrays:
        """Run a batch. inputs: [b, ...] for each parameter, of its element, b >= 1. Returns the results [b, ...]."""
        ...


@runtime_checkable
class ComputingChip(Protocol):
    """A chip that also runs functions over batches, such as networks."""

    def load_function(
        self, function: "Function", library: "Library", cache: Path | None = None, fuse: bool = True
    ) -> LoadedFunction:
        """Prepare a function. cache: a folder for code. fuse: whether a plan may join applications.

        Raises BitternError with the refusal's code where the chip cannot run it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a chip does not run a model: stable code, what is missing, what would remove it."""

    code: str
    what: str
    remedy: str


def chip_names() -> list[str]:
    """Return the names of all chips: the reference first, then by name."""
    folder = Path(__file__).parent
    names = sorted(path.parent.name for path in folder.glob("*/chip.py"))
    return sorted(names, key=lambda name: (name != "reference", name))


def chip(name: str) -> Chip:
    """Return a chip by name. Raises R101."""
    if name not in chip_names():
        known = chip_names()
        remedy = nearest(name, known) or f"Known: {', '.join(known)}."
        raise BitternError(UNKNOWN_CHIP, f"There is no chip `{name}`.", remedy)
    made: Chip = import_module(f"bittern.chips.{name}.chip").CHIP
    return made
