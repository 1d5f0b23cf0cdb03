"""Windows of TFLite's convolutions and pooling: padding, then the ops `windows` along rows and columns."""

from typing import Any, NamedTuple, NoReturn

import numpy.typing as npt

from bittern.front.tflite.site import Site, Value
from bittern.graph.node import Node

SAME, VALID = 0, 1


class Walk(NamedTuple):
    """How windows walk one axis: before and after are paddings."""

    size: int
    stride: int
    dilation: int
    before: int
    after: int


def walk(site: Site, padding: int, length: int, size: int, stride: int, dilation: int = 1) -> Walk:
    """Return the windows of one axis; padding SAME puts the odd one at the end. Raises N321."""
    reach = (size - 1) * dilation + 1
    if min(length, size, stride, dilation) < 1 or padding not in (SAME, VALID):
        site.refuse(f"has windows of {size} with stride {stride} and dilation {dilation}", "Convert the model again.")
    if padding == VALID:
        if reach > length:
            site.refuse(f"has windows of {reach} places on an axis of {length}", "Convert the model again.")
        return Walk(size, stride, dilation, 0, 0)
    count = -(-length // stride)
    spare = max((count - 1) * stride + reach - length, 0)
    return Walk(size, stride, dilation, spare // 2, spare - spare // 2)


def windowed(site: Site, x: Node, first: int, rows: Walk, columns: Walk, filler: Node) -> Node:
    """Return [.., h, w, c] as [.., o, p, v, q, c]. first: the axis h. filler: the value of the padding."""
    for axis, way in ((first, rows), (first + 1, columns)):
        if way.before or way.after:
            x = site.a.op("pad", x, filler, axis=axis, before=way.before, after=way.after)
    x = site.a.op("windows", x, axis=first, size=rows.size, stride=rows.stride, dilation=rows.dilation)
    return site.a.op("windows", x, axis=first + 2, size=columns.size, stride=columns.stride, dilation=columns.dilation)


def refuse_shapes(site: Site, x: Value, w: npt.NDArray[Any]) -> NoReturn:
    """Raise N321: the shapes of an input and of its filter do not fit. w: the filter."""
    site.refuse(f"has an input of shape {list(x.shape)} and a filter of {list(w.shape)}", "Convert the model again.")
