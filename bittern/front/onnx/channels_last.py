"""Operations of QONNX whose tensors are channels last: they are the standard ones under another order of axes.

Nothing moves: inputs are seen in the standard's order, results in the file's; the network stores channels last anyway.
A convolution's kernel is [m, spatial, c / group] here.
"""

from collections.abc import Callable
from dataclasses import replace

from bittern.front.onnx.shaping import transposed
from bittern.front.onnx.table import LAST, QONNX, STANDARD, Row, Site, row, row_for
from bittern.front.onnx.values import FileNode, Known, Wire, coding_of

_STANDARD = 17  # version of the standard that these follow


def _standard(name: str) -> Row:
    found = row_for(STANDARD, name, _STANDARD)
    assert found is not None, name
    return found


def _wrapped(name: str, turns_kernel: bool = False) -> Callable[[Site], Wire]:
    """Return the rule of a standard operation for channels last."""

    def rule(site: Site) -> Wire:
        x = site.wire(0)
        rank = len(x.shape)
        if not x.is_batched or rank < 2:
            site.refuse(f"its input has {x.rank} axes", "[b, spatial, c]")
        first = transposed(x, (rank - 1, *range(rank - 1)))
        others = [_kernel(each) if turns_kernel and place == 0 else each for place, each in enumerate(site.inputs[1:])]
        inner = replace(site, node=_named(site.node, name), inputs=(first, *others), version=_STANDARD)
        made = _standard(name).rule(inner)
        result = made if isinstance(made, (Known, Wire)) else made[0]
        assert isinstance(result, Wire), name
        return transposed(result, (*range(1, rank), 0))

    return rule


def _named(node: FileNode, name: str) -> FileNode:
    return replace(node, op=name)


def _kernel(given: "Known | Wire | None") -> "Known | Wire | None":
    """Return a kernel [m, spatial, c] as [m, c, spatial]."""
    if not isinstance(given, Known) or given.array.ndim < 3:
        return given
    axes = (0, given.array.ndim - 1, *range(1, given.array.ndim - 1))
    if given.codes is None or given.coding is None:
        return Known(given.array.transpose(axes))
    parts = [each if each.ndim == 0 else each.transpose(axes) for each in (given.coding.scale, given.coding.zero)]
    return Known(given.array.transpose(axes), given.codes.transpose(axes), given.element, coding_of(*parts))


_CONV = "auto_pad dilations group kernel_shape pads strides"
_POOL = "auto_pad ceil_mode dilations kernel_shape pads strides"
_NORM = "epsilon momentum spatial training_mode"

row("Conv", "a convolution", inputs=(2, 3), attributes=_CONV, domain=LAST)(_wrapped("Conv", turns_kernel=True))
row("MaxPool", "the greatest of each window", attributes=f"{_POOL} storage_order", domain=LAST)(_wrapped("MaxPool"))
row("AveragePool", "the mean of each window", attributes=f"{_POOL} count_include_pad", domain=LAST)(
    _wrapped("AveragePool")
)
row("BatchNormalization", "x * s + t for each channel", inputs=(5, 5), attributes=_NORM, domain=LAST)(
    _wrapped("BatchNormalization")
)


@row("MaxPoolNHWC", "the greatest of each window", attributes="kernel_shape strides pads ceil_mode", domain=QONNX)
def _max_pool(site: Site) -> Wire:
    return _wrapped("MaxPool")(site)
