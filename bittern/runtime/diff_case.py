"""A difference and what is known of it: both arrays, the node that made them, and what the node was given.

Because the node is the first one that differs, what it was given is equal on both sides. So the mistakes that are known
for its kind of work can be computed, and one that gives exactly what the other side has explains it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from bittern.graph.node import Node
from bittern.passes.applied import Applied
from bittern.runtime.diff_doubles import DOUBLES, clamp
from bittern.runtime.observed import Array
from bittern.types.elements import Element


@dataclass(slots=True)
class Case:
    """Two arrays that differ. left, right: [b, ...], whole numbers as i64, real ones as they are. element: of the node.

    layer: the library function that the node applies. given: its arguments, or the node's inputs; () if unknown.
    """

    left: Array
    right: Array
    element: Element
    node: Node
    layer: Applied | None = None
    given: Sequence[Array] = ()
    differs: Array = field(init=False)
    exact: dict[str, str] = field(init=False)  # classes that give the other side exactly, the likeliest first
    channels: Array = field(init=False)

    def __post_init__(self) -> None:
        self.differs = different(self.left, self.right)
        size = self.left.shape[-1] if self.is_alike and self.left.ndim > 1 else 1
        rows = self.differs.reshape(-1, size) if self.is_alike else np.ones((1, 1), bool)
        self.channels = np.asarray(rows.any(axis=0))
        self.exact = _explained(self) if self.is_alike else {}

    @property
    def is_alike(self) -> bool:
        """Whether both have one shape."""
        return self.left.shape == self.right.shape

    @property
    def name(self) -> str:
        """The library function, or the kind of the node."""
        return self.layer.name if self.layer is not None else self.node.kind

    @property
    def is_real(self) -> bool:
        """Whether the values are floats."""
        return self.left.dtype.kind == "f"

    def steps(self) -> Array:
        """Return right - left where they differ."""
        made: Array = self.right[self.differs] - self.left[self.differs]
        return made


def different(left: Array, right: Array) -> Array:
    """Return where two arrays differ: floats by their bits, one NaN like another. All of them if the shapes differ."""
    if left.shape != right.shape:
        return np.ones(left.shape, bool)
    if left.dtype.kind == "f" and right.dtype == left.dtype:
        bits = f"u{left.dtype.itemsize}"
        made: Array = left.view(bits) != right.view(bits)
        return made & ~(np.isnan(left) & np.isnan(right))
    made = left != right
    return made & ~(np.isnan(left) & np.isnan(right)) if left.dtype.kind == right.dtype.kind == "f" else made


def _explained(case: Case) -> dict[str, str]:
    """Return the classes of the mistakes that give exactly what the other side has, with the evidence."""
    found: dict[str, str] = {}
    some = int(case.channels.sum())
    where = f" in channel {listed(case.channels)}" if some < len(case.channels) and some <= 3 else ""
    for kind, mistake, made in _guesses(case):
        if kind not in found and made.shape == case.right.shape and _is_equal(case, made):
            found[kind] = f"the other side is exactly what comes out if {mistake}{where}"
    return found


def _guesses(case: Case) -> Iterator[tuple[str, str, Array]]:
    double = DOUBLES.get(case.name)
    if not case.given:
        return
    if case.name == "sat":
        yield from clamp(case.given[:1], case.element.low, case.element.high)
    if double is None or (case.name == "add" and len(case.given) != 2):
        return
    is_bounded = case.name.startswith("round") and not case.element.is_float
    with np.errstate(all="ignore"):
        for kind, mistake, made in double(case.given):
            yield kind, mistake, np.clip(made, case.element.low, case.element.high) if is_bounded else made


def _is_equal(case: Case, made: Array) -> bool:
    """Whether a guess gives what the other side has, in the channels that differ."""
    if case.left.ndim < 2:
        return not different(_like(made, case.right), case.right).any()
    return bool(np.array_equal(made[..., case.channels], case.right[..., case.channels]))


def _like(made: Array, like: Array) -> Array:
    return made.astype(like.dtype) if made.dtype.kind == like.dtype.kind else made


def listed(mask: Array) -> str:
    """Return the places that a mask marks, the first of them."""
    return short([int(k) for k in np.flatnonzero(mask)])


def short(numbers: Sequence[int]) -> str:
    """Return numbers as text, the first of them."""
    return ", ".join(map(str, numbers[:6])) + (" ..." if len(numbers) > 6 else "")
