"""What `bittern diff` compares: the sides, how they are spelled, and how each gives outputs and values inside.

A side is `NETWORK@WORDS`, words with colons between them, in any order: a chip (`vm`, `x86`) and its tier, the graph
that runs (`source`, `passed`), whether a plan joins layers (`fused`, `unfused`); or a peer, `onnxruntime` or `tflite`,
with the form of its kernels. `@WORDS` alone is the network of the other side. Or it is a record that
`bittern run --record` wrote.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bittern.base.errors import BitternError, code, nearest
from bittern.chips.chip import ComputingChip, NativeChip, chip_names
from bittern.chips.x86.features import TIERS
from bittern.front.network.network import Network
from bittern.graph.node import Function
from bittern.passes.network import integer_only
from bittern.runtime.choice import AUTO, chosen
from bittern.runtime.network import NO_NETWORKS, NetworkModel
from bittern.runtime.observed import Array, Point, observed, observing, points

NO_SIDE = code("N443", "a side of a comparison is spelled wrong")

LEVELS = ("source", "passed")
FUSING = ("fused", "unfused")
PEERS: dict[str, tuple[str, ...]] = {"onnxruntime": ("plain", "optimised"), "tflite": ("reference", "default")}
"""Peers, and the words for how they compute; the first one is what they do without a word."""


class Side(Protocol):
    """One of two things to compare.

    name: as it was spelled.
    """

    name: str

    @property
    def network(self) -> Network:
        """What it runs."""
        ...

    @property
    def function(self) -> Function:
        """The graph whose nodes its points are."""
        ...

    @property
    def points(self) -> Sequence[Point]:
        """What can be observed, in the order of the graph."""
        ...

    def outputs(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Return the outputs of the program as it is, by name."""
        ...

    def values(self, wanted: Sequence[Point], inputs: Sequence[Array]) -> dict[bytes, Array]:
        """Return the values of some points, by the id of the node; those that cannot be shown are left out."""
        ...


@dataclass(slots=True)
class Run:
    """A network on a chip. level: the graph that runs, `source` or `passed`."""

    name: str
    network: Network
    chip: str = AUTO
    tier: str = ""
    level: str = "passed"
    fuse: bool = True
    cache: Path | None = None
    _function: Function | None = field(default=None, repr=False)

    @property
    def function(self) -> Function:
        """The graph that runs."""
        if self._function is None:
            source = self.network.function
            self._function = source if self.level == "source" else integer_only(source, self.network.library)[0]
        return self._function

    @property
    def points(self) -> Sequence[Point]:
        """See `Side`."""
        return points(self.function)

    def outputs(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """See `Side`."""
        found = self._computing().load_function(self.function, self.network.library, self.cache, self.fuse).run(inputs)
        return {port.name: value for port, value in zip(self.network.outputs, found, strict=True)}

    def values(self, wanted: Sequence[Point], inputs: Sequence[Array]) -> dict[bytes, Array]:
        """See `Side`."""
        nodes = list({each.node.id: each.node for each in wanted}.values())
        if not nodes:
            return {}
        function = observing(self.function, nodes)
        return observed(
            self._computing().load_function(function, self.network.library, self.cache, self.fuse), nodes, inputs
        )

    def _computing(self) -> ComputingChip:
        made = chosen(self.chip, 0, self.tier)
        if not isinstance(made, ComputingChip):
            raise BitternError(NO_NETWORKS, f"The chip `{self.chip}` runs no networks.", "Run it on `vm`.")
        return made


def run_of(model: NetworkModel, *, fuse: bool = True) -> Run:
    """Return the side that a loaded network is."""
    chip = model.chip
    tier = chip.tier if isinstance(chip, NativeChip) else ""
    return Run(chip.name, model.network, chip.name, tier, fuse=fuse, _function=model.program)


@dataclass(frozen=True, slots=True)
class Spelling:
    """A side as it was spelled. path: of the network or record, '' for that of the other side."""

    text: str
    path: str
    words: tuple[str, ...]

    @property
    def peer(self) -> str:
        """The peer that is named, or ''."""
        return next((word for word in self.words if word in PEERS), "")


def spelled(text: str) -> Spelling:
    """Return the parts of a side. Raises N443."""
    path, mark, rest = text.rpartition("@")
    if not mark or Path(text).exists():
        return Spelling(text, text, ())
    found = Spelling(text, path, tuple(word for word in rest.split(":") if word))
    _check_words(found)
    return found


def _check_words(found: Spelling) -> None:
    """Raise N443 for unknown words, two of one kind, and words that do not go together."""
    peer = found.peer
    kinds = {"peer": tuple(PEERS), "kernels": PEERS[peer]} if peer else _kinds()
    known = [word for words in kinds.values() for word in words]
    for word in found.words:
        if word not in known:
            what = f"`{found.text}` has the word `{word}`" + (f", which `{peer}` does not take." if peer else ".")
            allowed = known if peer else [*known, *PEERS]
            hint = nearest(word, allowed)
            raise BitternError(NO_SIDE, what, hint or f"Known: {', '.join(allowed)}.")
    for kind, words in kinds.items():
        given = [word for word in found.words if word in words]
        if len(given) > 1:
            what = f"`{found.text}` has two words for the {kind}: `{given[0]}` and `{given[1]}`."
            raise BitternError(NO_SIDE, what, "Give one of them.")


def _kinds() -> dict[str, tuple[str, ...]]:
    chips = tuple(name for name in chip_names() if name != "reference")
    return {"chip": (AUTO, *chips), "tier": tuple(each.name for each in TIERS), "level": LEVELS, "fusing": FUSING}


def run_side(found: Spelling, network: Network, cache: Path | None = None) -> Run:
    """Return the run that a side spells."""
    kinds = _kinds()
    given = {kind: next((w for w in found.words if w in words), "") for kind, words in kinds.items()}
    chip = given["chip"] or ("x86" if given["tier"] else AUTO)
    return Run(
        found.text,
        network,
        chip,
        given["tier"],
        given["level"] or "passed",
        given["fusing"] != "unfused",
        cache,
    )
