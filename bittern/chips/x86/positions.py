"""Positions of a cache in the order of the graph, taken out of the order in which the kernels keep them and put back.

What is taken is the same on every chip of equal bits, so that a state moves from one to another. How a layer lies in
memory is told by `kernels/cache_store.py`; layers begin on cache lines.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.chips.x86.weights import LINE, Bytes
from bittern.kernels.cache_store import CacheShape
from bittern.plan.flow import Value
from bittern.plan.rules.attention import is_tiled

Array = npt.NDArray[Any]

_LEAVES = ("k", "v", "kd", "vd")
_LANES = 16  # positions in a tile


@dataclass(frozen=True, slots=True)
class Leaf:
    """One leaf of a cache. name: of its buffer. shape: [layers, sequences, positions, heads, values]."""

    name: str
    memory: Bytes
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]
    layout: CacheShape | None  # None: it lies as in the graph

    def taken(self, sequence: int, count: int) -> Array:
        """Return the first positions of a sequence: [layers, count, heads, values]."""
        found = self._view(sequence, count)
        return np.ascontiguousarray(found.reshape(found.shape[0], -1, *self.shape[3:])[:, :count])

    def put(self, sequence: int, values: Array) -> None:
        """Write the first positions of a sequence; of those behind them nothing is kept for certain."""
        count = values.shape[1]
        view = self._view(sequence, count)
        assert np.may_share_memory(view, self.memory), "a copy instead of a view"
        room = np.zeros((view.shape[0], view.size // (view.shape[0] * self._row), *self.shape[3:]), self.dtype)
        room[:, :count] = values
        view[...] = room.reshape(view.shape)

    @property
    def _row(self) -> int:
        return self.shape[3] * self.shape[4]

    def _view(self, sequence: int, count: int) -> Array:
        """Return a view of whole tiles whose axes are, when flattened, [layers, positions, heads, values]."""
        layers, _, c, g, w = self.shape
        if self.layout is None:
            return self.memory.view(self.dtype).reshape(self.shape)[:, sequence, :count]
        size = self.layout.sizes()[self.name] * self.dtype.itemsize
        rows = self.memory.reshape(layers, -(-size // LINE) * LINE)[:, :size].view(self.dtype)
        heads = rows.reshape(layers, self.layout.s, g, -1)[:, sequence]
        if self.name == "v":
            return heads.reshape(layers, g, c, w)[:, :, :count].transpose(0, 2, 1, 3)
        each = 4 if self.name == "k" and self.layout.element == "i8" else 1
        tiles = heads.reshape(layers, g, -1, w // each, _LANES, each)[:, :, : -(-count // _LANES)]
        return tiles.transpose(0, 2, 4, 1, 3, 5)


def leaves_of(values: Sequence[Value], memory: Sequence[Bytes], sequences: int, context: int) -> list[Leaf]:
    """Return the leaves of a cache that hold anything. values: those of the plan, in the order of the graph."""
    sizes = (0, sequences, context)
    shapes = [tuple(length.value(sizes) for length in value.type.shape) for value in values]
    layout: CacheShape | None = None
    if len(values) == len(_LEAVES) and is_tiled(values[0]):
        _, s, c, g, h = shapes[0]
        layout = CacheShape(values[0].type.element.name, s, c, g, h, True)
    names = _LEAVES if len(values) == len(_LEAVES) else [f"leaf {k}" for k in range(len(values))]
    return [
        Leaf(name, held, np.dtype(value.type.element.storage), shape, layout)
        for name, value, held, shape in zip(names, values, memory, shapes, strict=True)
        if 0 not in shape
    ]
