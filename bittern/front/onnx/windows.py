"""How windows lie on the spatial axes of a tensor: what convolutions and pools share.

The standard's words: kernel_shape, strides, dilations, pads (all begins, then all ends), auto_pad, ceil_mode. A window
that would begin in the padding behind does not exist; what ceil_mode adds is more padding behind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from bittern.front.onnx.shaping import padded
from bittern.front.onnx.table import Site
from bittern.front.onnx.values import Array, Wire
from bittern.graph.node import Node

MOST = 1 << 28  # places of all windows of one sample and channel


@dataclass(frozen=True, slots=True)
class Laid:
    """Windows on axes of the given sizes; tuples have one number for each spatial axis. extra: of `after`, the part
    that only ceil_mode asks for."""

    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    extra: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many windows lie on each axis."""
        rows = zip(self.sizes, self.kernel, self.strides, self.dilations, self.before, self.after, strict=True)
        return tuple((n + low + high - (k - 1) * d - 1) // s + 1 for n, k, s, d, low, high in rows)

    @property
    def is_padded(self) -> bool:
        """Whether any axis is padded."""
        return any(self.before) or any(self.after)

    def inside(self, counts_padding: bool) -> Array:
        """Return how many places of each window count. counts_padding: those in the padding do, but for `extra`."""
        total = np.ones((), np.int64)
        for axis in range(len(self.sizes)):
            low, high = self.before[axis], self.after[axis]
            real = np.zeros(low + self.sizes[axis] + high, np.int64)
            real[low : low + self.sizes[axis]] = 1
            if counts_padding:
                real[: len(real) - self.extra[axis]] = 1
            starts = np.arange(self.counts[axis]) * self.strides[axis]
            places = np.arange(self.kernel[axis]) * self.dilations[axis]
            total = np.multiply.outer(total, real[starts[:, None] + places].sum(1))
        return total


def laid(site: Site, sizes: Sequence[int], kernel: Sequence[int]) -> Laid:
    """Return the windows that a node's attributes ask for."""
    rank = len(sizes)
    strides, dilations = (_numbers(site, name, rank) for name in ("strides", "dilations"))
    if len(kernel) != rank or min((*kernel, *strides, *dilations)) < 1:
        site.refuse("its kernel, strides or dilations do not fit its axes", "one number from 1 for each spatial axis")
    before, after = _pads(site, sizes, kernel, strides, dilations)
    extra = [0] * rank
    if site.whole("ceil_mode"):
        for axis in range(rank):
            room = sizes[axis] + before[axis] + after[axis] - (kernel[axis] - 1) * dilations[axis] - 1
            count = -(-room // strides[axis]) + 1
            if (count - 1) * strides[axis] >= sizes[axis] + before[axis]:
                count -= 1
            extra[axis] = max(0, (count - 1) * strides[axis] - room)
    after = [high + more for high, more in zip(after, extra, strict=True)]
    made = Laid(*(tuple(each) for each in (sizes, kernel, strides, dilations, before, after, extra)))
    if min(made.counts) < 1 or prod(made.counts) * prod(kernel) > MOST or max((*before, *after)) > 1 << 20:
        site.refuse(f"its windows {list(kernel)} do not fit {list(sizes)}", "windows that fit the padded axes")
    return made


def _numbers(site: Site, name: str, rank: int) -> tuple[int, ...]:
    found = site.wholes(name) or (1,) * rank
    if len(found) != rank or max(found) > 1 << 20:
        site.refuse(f"its {name} {list(found)} do not fit {rank} axes", "one number for each spatial axis")
    return found


def _pads(
    site: Site, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return what is put before and after each axis."""
    rank = len(sizes)
    how = site.text("auto_pad", "NOTSET")
    if how == "NOTSET":
        pads = site.wholes("pads") or (0,) * (2 * rank)
        if len(pads) != 2 * rank or min(pads) < 0:
            site.refuse(f"its pads {list(pads)} do not fit", "two numbers from 0 for each spatial axis")
        return list(pads[:rank]), list(pads[rank:])
    if how == "VALID":
        return [0] * rank, [0] * rank
    if how not in ("SAME_UPPER", "SAME_LOWER"):
        site.refuse(f"its auto_pad is `{how}`", "NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    missing = [
        max(0, (-(-n // s) - 1) * s + (k - 1) * d + 1 - n)
        for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    small, large = [each // 2 for each in missing], [each - each // 2 for each in missing]
    return (small, large) if how == "SAME_UPPER" else (large, small)


def channels_last(rank: int) -> tuple[int, ...]:
    """Return the order of a sample [c, spatial] that is stored channels last. rank: of spatial axes."""
    return (*range(1, rank + 1), 0)


def padded_last(site: Site, x: Wire, windows: Laid, value: float) -> Wire:
    """Return x padded on its spatial axes by a number."""
    for axis, (low, high) in enumerate(zip(windows.before, windows.after, strict=True)):
        if low or high:
            x = padded(site, x, 1 + axis, low, high, value)
    return x


def windowed(site: Site, node: Node, windows: Laid) -> Node:
    """Return all windows of a node [b, spatial, ...]: [b, o, p, v, q, ...]."""
    rows = zip(windows.kernel, windows.strides, windows.dilations, strict=True)
    for axis, (size, stride, dilation) in enumerate(rows):
        node = site.emitter.assembly.op("windows", node, axis=1 + 2 * axis, size=size, stride=stride, dilation=dilation)
    return node
