"""The chip interface: what lowers a model's program, runs it here, or refuses it by name.

A chip is a folder `chips/NAME/` whose file `chip.py` has one public object `CHIP`. `load` prepares a bound model once;
`start` gives a session with caches of its own. A session runs `forward` on tokens at places and `logits` on hidden
rows: decode steps, prefill chunks, batches and verification are calls of the one function.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.front.bind import Bound, BoundEncoder

UNKNOWN_CHIP = code("R101", "no chip of this name")

Tokens = npt.NDArray[np.uint32]
Reals = npt.NDArray[np.floating[Any]]


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

    def load(self, model: Bound) -> Loaded:
        """Prepare a model. Raises BitternError with the refusal's code where the chip cannot run it."""
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

    def load_encoder(self, model: BoundEncoder) -> LoadedEncoder:
        """Prepare an encoder."""
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
