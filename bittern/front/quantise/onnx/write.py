"""Writing what was quantised as an ONNX file: standard QDQ, or QONNX.

QDQ stores codes (8 bits, or 4 bits for every smaller width) before a DequantizeLinear; tensors go through
QuantizeLinear and DequantizeLinear, or through DynamicQuantizeLinear. QONNX keeps the quantised weights as f32 before a
Quant or BipolarQuant, which finds the same codes again, and has all widths for tensors too.
(ONNX operators, versions 13 and 21; QONNX, `Quant` and `BipolarQuant`.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.quantise.codes import values_of
from bittern.front.quantise.onnx.calibrate import Weights
from bittern.front.quantise.onnx.graph import Graph, onnx_package
from bittern.front.quantise.onnx.versions import raised
from bittern.front.quantise.scales import Scale
from bittern.front.quantise.widths import Grid, Width

NO_FORM = code("N435", "the form of the ONNX file cannot hold these widths or scales")

FORMS = ("qdq", "qonnx")
QONNX = "qonnx.custom_op.general"
_LEAST_IR = 8  # the first in which constants need not be inputs, and today's viewers read


@dataclass(frozen=True, slots=True)
class Tensors:
    """How computed tensors are quantised. scales: of those with fixed scales; dynamic: those with scales as it runs."""

    width: Width | None
    scales: Mapping[str, tuple[Grid, Scale]]
    dynamic: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """What is written. name: `qdq` or `qonnx`. version: of ONNX, the least. ranks: of tensors, as far as known."""

    name: str
    version: int
    ranks: Mapping[str, int]


def least_version(form: str, weights: Width, tensors: Width | None, grouped: bool) -> int:
    """Return the version of ONNX that the file needs. Errors: N435."""
    if form == "qonnx":
        if grouped:
            raise _refused("QONNX has no scales by group of columns", "Take --form qdq, or a scale for each channel.")
        return 1
    if tensors is not None and tensors.name not in ("4", "8"):
        raise _refused(f"QDQ has no codes of width {tensors.name} for tensors", "Take --form qonnx, or 4 or 8 bits.")
    return 21 if grouped or weights.name != "8" or (tensors is not None and tensors.name == "4") else 13


def _refused(what: str, remedy: str) -> BitternError:
    return BitternError(NO_FORM, f"{what}.", remedy)


@dataclass(slots=True)
class _Writer:
    """A file under way. added: new constants. named: by tensor, what its readers take instead."""

    onnx: Any
    graph: Graph
    form: str
    added: list[Any] = field(default_factory=list)
    named: dict[str, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def constant(self, name: str, array: npt.NDArray[Any], kind: str = "") -> str:
        """Add a constant and return its name; kind: the file's element where numpy has none, such as INT4."""
        name = self.fresh(name)
        if kind in ("INT4", "UINT4"):
            codes = np.append(array.reshape(-1), [0] * (array.size % 2)).astype(np.int64) & 15
            packed = (codes[0::2] | codes[1::2] << 4).astype(np.uint8).tobytes()
            number = getattr(self.onnx.TensorProto, kind)
            self.added.append(self.onnx.helper.make_tensor(name, number, array.shape, packed, raw=True))
        else:
            self.added.append(self.onnx.numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: Any) -> Any:
        """Return a node of the file. attributes: also its `domain`."""
        return self.onnx.helper.make_node(op, inputs, [output], name=output, **attributes)

    def fresh(self, name: str) -> str:
        """Return a name that nothing in the file has, and take it."""
        if not self.taken:
            self.taken.update(self.graph.constants, (self.graph.input,))
            self.taken.update(each for node in self.graph.nodes for each in (*node.inputs, *node.outputs))
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    # Weights.

    def weight(self, weights: Weights, width: Width, symmetric: bool) -> list[Any]:
        """Return the nodes that make a layer's weights."""
        name = weights.layer.weight
        self.named[name] = self.fresh(f"{name}_quantised")
        if self.form == "qonnx":
            return [self._weight_qonnx(weights, width, symmetric)]
        codes = weights.layer.restored(np.stack(weights.codes), self.graph.constants[name].shape)
        kind = _kind(width, symmetric)
        dtype = np.dtype(np.uint8 if kind == "UINT8" else np.int8)
        stored = self.constant(f"{name}_codes", codes.astype(dtype) if kind[-1] == "8" else codes, kind)
        scale, zero, attributes = _laid_out(weights)
        inputs = [stored, self.constant(f"{name}_scale", scale)]
        inputs.append(self.constant(f"{name}_zero", zero.astype(dtype) if kind[-1] == "8" else zero, kind))
        return [self.node("DequantizeLinear", inputs, self.named[name], **attributes)]

    def _weight_qonnx(self, weights: Weights, width: Width, symmetric: bool) -> Any:
        layer = weights.layer
        shape = self.graph.constants[layer.weight].shape
        values = [values_of(codes, scales) for codes, scales in zip(weights.codes, weights.scales, strict=True)]
        own = self.constant(f"{layer.weight}_values", layer.restored(np.stack(values), shape))
        scale, zero, _ = _laid_out(weights)
        if scale.ndim:
            places = [-1 if axis == layer.axis else 1 for axis in range(len(shape))]
            scale, zero = scale.reshape(places), zero.reshape(places)
        return self._quant(own, self.named[layer.weight], width, symmetric, scale, zero)

    def _quant(self, given: str, made: str, width: Width, symmetric: bool, scale: Any, zero: Any) -> Any:
        """Return a node of QONNX that quantises a tensor."""
        inputs = [given, self.constant(f"{made}_scale", np.asarray(scale, np.float32))]
        if width.name == "b1":
            return self.node("BipolarQuant", inputs, made, domain=QONNX)
        inputs.append(self.constant(f"{made}_zero", np.asarray(zero, np.float32)))
        inputs.append(self.constant(f"{made}_bits", np.array(width.bits, np.float32)))
        narrow = int(symmetric and width.low == -width.high)
        attributes = {"signed": int(symmetric), "narrow": narrow, "rounding_mode": "ROUND"}
        return self.node("Quant", inputs, made, domain=QONNX, **attributes)

    # Computed tensors.

    def tensor(self, name: str, width: Width, grid: Grid, scale: Scale) -> list[Any]:
        """Return the nodes that quantise a computed tensor with a fixed scale."""
        made = self.named[name] = self.fresh(f"{name}_quantised")
        if self.form == "qonnx":
            return [self._quant(name, made, width, grid.symmetric, np.float32(scale.scale), np.float32(scale.zero))]
        kind = _kind(width, grid.symmetric)
        zero = np.array(scale.zero, np.uint8 if kind == "UINT8" else np.int8)
        inputs = [self.constant(f"{name}_scale", np.array(scale.scale, np.float32))]
        inputs.append(self.constant(f"{name}_zero", zero, kind))
        coded = self.fresh(f"{name}_codes")
        return [
            self.node("QuantizeLinear", [name, *inputs], coded),
            self.node("DequantizeLinear", [coded, *inputs], made),
        ]

    def dynamic(self, name: str) -> list[Any]:
        """Return the nodes that quantise a computed tensor with the scale of its own range, to 8 bits."""
        made = self.named[name] = self.fresh(f"{name}_quantised")
        parts = [self.fresh(f"{name}_{part}") for part in ("codes", "scale", "zero")]
        first = self.onnx.helper.make_node("DynamicQuantizeLinear", [name], parts, name=parts[0])
        return [first, self.node("DequantizeLinear", parts, made)]


def _kind(width: Width, symmetric: bool) -> str:
    return ("INT" if symmetric else "UINT") + ("8" if width.name == "8" else "4")


def _laid_out(weights: Weights) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32], dict[str, int]]:
    """Return scales and zero points as DequantizeLinear takes them, with its attributes."""
    first = weights.scales[0]
    layer = weights.layer
    if first.group:
        parts = (first.scale.T, first.zero.T) if layer.axis == 1 else (first.scale, first.zero)
        return *parts, {"axis": 1 - layer.axis, "block_size": first.group}
    if first.scale.size == 1 and all(one is first for one in weights.scales):
        return first.scale.reshape(()), first.zero.reshape(()), {}
    scale = np.concatenate([one.scale[:, 0] for one in weights.scales])
    return scale, np.concatenate([one.zero[:, 0] for one in weights.scales]), {"axis": layer.axis}


def written(
    model: Any, graph: Graph, weights: list[Weights], width: Width, symmetric: bool, tensors: Tensors, form: Form
) -> bytes:
    """Return the file of a quantised model. model: the parsed file; graph: of it, folded. Errors: N438."""
    onnx = onnx_package()
    writer = _Writer(onnx, graph, form.name)
    least = max(graph.version, form.version)
    rows = {tuple(row.output): row for row in model.graph.node}
    made: list[Any] = [node for each in weights for node in writer.weight(each, width, symmetric)]
    made += _quantised(writer, graph.input, tensors)
    for node in graph.nodes:
        row = onnx.NodeProto()
        row.CopyFrom(rows[node.outputs])
        for place, name in enumerate(node.inputs):
            row.input[place] = writer.named.get(name, name)
        raised(row, graph.version, least, form.ranks.get(node.inputs[0]), writer.constant)
        made.append(row)
        for name in node.outputs:
            made += _quantised(writer, name, tensors)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    _fill(onnx, result, graph, made, writer.added)
    for version in result.opset_import:
        if version.domain in ("", "ai.onnx"):
            version.version = least
    if form.name == "qonnx" and not any(row.domain == QONNX for row in result.opset_import):
        result.opset_import.append(onnx.helper.make_opsetid(QONNX, 1))
    result.ir_version = max(result.ir_version, 10 if least >= 21 else _LEAST_IR)
    result.producer_name, result.producer_version = "bittern", ""
    content: bytes = result.SerializeToString(deterministic=True)
    return content


def _quantised(writer: _Writer, name: str, tensors: Tensors) -> list[Any]:
    if name in tensors.dynamic:
        return writer.dynamic(name)
    if name not in tensors.scales or tensors.width is None:
        return []
    return writer.tensor(name, tensors.width, *tensors.scales[name])


def _fill(onnx: Any, result: Any, graph: Graph, nodes: list[Any], added: list[Any]) -> None:
    """Put nodes and the constants that they read into the file's graph; its outputs and its one input stay."""
    read = {name for node in nodes for name in node.input} | {row.name for row in result.graph.output}
    known = {row.name: row for row in result.graph.initializer}
    kept = [known[name] for name in known if name in read]
    folded = [name for name in graph.constants if name in read and name not in known]
    kept += [onnx.numpy_helper.from_array(np.asarray(graph.constants[name], order="C"), name) for name in folded]
    kept = [_copied(onnx, row) for row in kept]
    inputs = [_copied(onnx, row) for row in result.graph.input if row.name == graph.input]
    for part, rows in (("node", nodes), ("initializer", [*kept, *added]), ("input", inputs), ("value_info", [])):
        result.graph.ClearField(part)
        getattr(result.graph, part).extend(rows)


def _copied(onnx: Any, row: Any) -> Any:
    copy = type(row)()
    copy.CopyFrom(row)
    return copy
