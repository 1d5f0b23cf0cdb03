"""The rows of each form: what library functions and ops are in the file."""

from bittern.base.errors import BitternError, code
from bittern.front.network.network import Network
from bittern.graph.node import Function, walk
from bittern.passes.applied import applied
from bittern.passes.network import integer_only
from bittern.passes.width import SUMMING
from bittern.runtime.onnx_export import layers, operations, stages
from bittern.runtime.onnx_export.file import File
from bittern.runtime.onnx_export.walk import LayerRow, OpRow, Walk
from bittern.types.values import Tensor

FLOATS_ONLY = code("N430", "a network of floats alone is not exported")

# fmt: off
LAYERS: dict[str, LayerRow] = {
    "dense.dense":                layers.dense,
    "matmul.matmul":              layers.matmul,
    "matmul.matmul_transposed":   layers.matmul,
    "convolution.conv1d":         layers.convolution,
    "convolution.conv2d":         layers.convolution,
    "convolution.conv3d":         layers.convolution,
    "convolution.depthwise1d":    layers.convolution,
    "convolution.depthwise2d":    layers.convolution,
    "convolution.conv1d_grouped": layers.convolution,
    "convolution.conv2d_grouped": layers.convolution,
    "convolution.pointwise2d":    layers.pointwise,
    "pooling.max_pool1d":         layers.max_pool,
    "pooling.max_pool2d":         layers.max_pool,
    "pooling.sum_pool1d":         layers.sum_pool,
    "pooling.sum_pool2d":         layers.sum_pool,
    "thresholds.sign_at":         stages.sign_at,
    "thresholds.ternary_at":      stages.ternary_at,
    "thresholds.levels":          stages.levels,
    "requantise.bias":            stages.bias,
    "requantise.requantise":      stages.requantise,
    "tflite.rescale":             stages.rescale,
    "tflite.average":             stages.average,
}

OPS: dict[str, OpRow] = {
    "param": operations.param,       "reshape": operations.reshape, "permute": operations.permute,
    "windows": operations.windows,   "pad": operations.pad,         "slice": operations.cut,
    "concat": operations.concat,     "broadcast": operations.broadcast,
    "sign": operations.sign,         "select": operations.select,   "not": operations.negate,
    "shr": operations.shift,         "lookup": operations.lookup,
    "argmax": operations.best,       "argmin": operations.best,
    **dict.fromkeys(("add", "sub", "mul", "div", "min", "max"), operations.binary),
    **dict.fromkeys(("eq", "ne", "lt", "le", "and", "or", "xor"), operations.binary),
    **dict.fromkeys(("neg", "abs", "sqrt", "round_even", "floor", "ceil"), operations.unary),
    **dict.fromkeys(("convert", "wrap", "sat", "round"), operations.convert),
}
# fmt: on


def standard(network: Network) -> bytes:
    """Return a network as standard ONNX (opset 17) that gives the same integers. Raises N201, N430, N431."""
    made, _ = integer_only(network.function, network.library)
    if not _computes_with_codes(made):
        raise BitternError(
            FLOATS_ONLY,
            f"`{network.name}` computes with floats alone; it has no layer of codes.",
            "Export it with the tool that it was made with, such as PyTorch or JAX; or `bittern quantize` it first.",
        )
    return Walk(File("onnx"), network, made, LAYERS, OPS).content()


def _computes_with_codes(function: Function) -> bool:
    for node in walk(function.result):
        layer = applied(node)
        if layer is not None and (layer.name in SUMMING or layer.name.startswith("thresholds.")):
            return True
        if node.kind not in ("const", "param") and isinstance(node.type, Tensor) and not node.type.element.is_float:
            return True
    return False
