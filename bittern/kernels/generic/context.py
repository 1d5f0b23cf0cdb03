"""What the making of one kernel shares: the emitter, memory, and what an op is told of its node."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import View as Buffer
from bittern.graph.flow import Flow
from bittern.kernels.generic.emitter import Emitter
from bittern.kernels.generic.filling import materialised
from bittern.kernels.generic.scalars import Where, stored
from bittern.kernels.generic.views import Constant, Memory, View, memory
from bittern.types.elements import Element

MOST_SCRATCH = 64 << 10  # bytes in the frame; more is a workspace


@dataclass(frozen=True, slots=True)
class Site(Where):
    """Where an op is lowered. shape: of the result, as stored."""

    shape: tuple[int, ...] = ()


@dataclass
class Context:
    """See the module.

    constants: the bytes of a constant -> its buffer. constant_arrays: what is in a buffer. live: the values of each
    function that is being laid out, outermost first. held: buffers that loops around here carry values in.
    """

    e: Emitter
    flow: Flow = field(default_factory=lambda: Flow(False))
    constants: dict[tuple[str, bytes], Buffer] = field(default_factory=dict)
    constant_arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    live: list[list[View | None]] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.e.declare_scratch = self.declare

    def declare(self, element: str, size: int) -> Buffer:
        """Declare memory for temporaries: in the frame while there is room, else as a workspace."""
        e = self.e
        size = max(size, 1)
        used = sum(b.size.value(()) * b.element.bits // 8 for b in e.buffers if b.access == "scratch")
        count = sum(b.name[0] in "sw" for b in e.buffers)
        made = e.buffer(f"s{count}", element, size, "scratch")
        if used + size * made.buffer.element.bits // 8 > MOST_SCRATCH:
            e.buffers.pop()
            made = e.buffer(f"w{count}", element, size, "update")
        return made

    def constant(self, view: Constant) -> Buffer:
        """Return the buffer of a constant; equal constants share one."""
        data = np.ascontiguousarray(view.array)
        key = (stored(view.element), data.tobytes())
        found = self.constants.get(key)
        if found is not None and found.buffer in self.e.buffers:
            return found
        self.constants.pop(key, None)
        name = f"c{len(self.constant_arrays)}"
        self.constants[key] = made = self.e.buffer(name, key[0], max(data.size, 1), "read")
        self.constant_arrays[name] = data
        return made

    def known(self, element: Element, array: npt.NDArray[Any]) -> Constant:
        """Return a view of known numbers."""
        return Constant(element, array.shape, frozenset(), 0, 8, 0, array, self.constant)

    # --- ownership

    def is_exclusive(self, view: View, others: Sequence[View] = ()) -> bool:
        """Whether the memory of a view may be overwritten now: it holds this value alone, and nothing else reads it."""
        if not isinstance(view, Memory) or not view.owned:
            return False
        held = [v for values in self.live for v in values if v is not None]
        return all(view.name not in v.reads for v in (*held, *others))

    def own(self, view: View, others: Sequence[View] = ()) -> Memory:
        """Return the value in memory that may be overwritten: its own, or a copy."""
        if self.is_exclusive(view, others):
            assert isinstance(view, Memory)
            return view
        return materialised(self.e, view)

    def release(self, view: View | None, others: Sequence[View] = ()) -> None:
        """Let the memory of a value that died be used again."""
        if isinstance(view, Memory) and view.buffer is not None and view.buffer.buffer.access == "scratch":
            if (
                view.name in self.held
                or view.offset.terms
                or view.offset.number
                or view.size != view.buffer.buffer.size.constant
            ):
                return
            if self.is_exclusive(view, others) and all(entry[2] != view.name for entry in self.e.free):
                self.e.release(view.buffer)


def borrowed(view: View) -> View:
    """Return the view without the right to overwrite its memory."""
    if isinstance(view, Memory) and view.owned:
        assert view.buffer is not None
        return memory(view.element, view.shape, view.buffer, view.offset)
    return view
