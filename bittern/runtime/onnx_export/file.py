"""An ONNX file under way: nodes in order, constants once each, and values that know what they hold.

Whole numbers travel as float32 where all of them lie within 24 bits, so that products run as float matrix products and
are exact; other whole numbers as int64. Truth values are booleans.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from bittern.front.network.network import Network, Port
from bittern.front.quantise.onnx.graph import onnx_package
from bittern.types.elements import Element

Array = npt.NDArray[Any]
Carrier = Literal["real", "small", "wide", "truth"]

QONNX = "qonnx.custom_op.general"
SMALL = 1 << 24  # whole numbers up to here are exact as float32
OPSET = 17
_IR = 8
BATCH = "N"
_DTYPES: dict[Carrier, Any] = {"real": np.float32, "small": np.float32, "wide": np.int64, "truth": np.bool_}


class Unsaid(Exception):
    """What a node means has no form in the file; the text says why."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the file.

    name: of the tensor. carrier: how it travels. low, high: bounds of whole numbers. rank: of the array that it stands
    for. is_first: its channels stand behind the batch, not last. is_thin: axes in front of it are repeated. array: what
    it is where it is constant.
    """

    name: str
    carrier: Carrier
    low: int = 0
    high: int = 0
    rank: int = 0
    is_first: bool = False
    is_thin: bool = False
    array: Array | None = field(default=None, compare=False, repr=False)

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers."""
        return self.carrier in ("small", "wide")

    @property
    def reach(self) -> int:
        """The greatest magnitude."""
        return max(abs(self.low), abs(self.high))


@dataclass(slots=True)
class File:
    """See the module. form: `onnx`, `qdq` or `qonnx`. bare: the same constant has one name."""

    form: str
    onnx: Any = field(default_factory=onnx_package)
    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    bare: dict[tuple[str, tuple[int, ...], bytes], str] = field(default_factory=dict)
    count: int = 0

    def constant(self, array: npt.ArrayLike, dtype: Any = None) -> str:
        """Return the name of a constant."""
        stored = np.asarray(array, dtype)
        stored = np.ascontiguousarray(stored).reshape(stored.shape)
        key = (stored.dtype.str, stored.shape, stored.tobytes())
        if key not in self.bare:
            self.bare[key] = name = f"constant_{len(self.bare)}"
            self.constants[name] = self.onnx.numpy_helper.from_array(stored, name)
        return self.bare[key]

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; returns its name."""
        self.count += 1
        name = f"{kind}_{self.count}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def cast(self, name: str, dtype: Any) -> str:
        """Return a value as another type."""
        return self.op("Cast", name, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    # Values.

    def whole(self, name: str, low: int, high: int, carrier: Carrier, like: Value) -> Value:
        """Return whole numbers with the layout of another value."""
        return replace(like, name=name, carrier=carrier, low=low, high=high, array=None)

    def known(self, array: Array, is_real: bool) -> Value:
        """Return a constant value."""
        if array.dtype == np.bool_:
            return Value("", "truth", 0, 1, array.ndim, array=array)
        if is_real:
            return Value("", "real", rank=array.ndim, array=array.astype(np.float32))
        low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
        carrier: Carrier = "small" if max(-low, high) <= SMALL else "wide"
        return Value("", carrier, low, high, array.ndim, array=array.astype(np.int64))

    def named(self, value: Value, carrier: Carrier | None = None, is_first: bool = False, rank: int = 0) -> str:
        """Return the name of a value as a carrier holds it, constants with their channels where `is_first` says."""
        wanted = carrier or value.carrier
        if value.array is not None:
            array = value.array
            if is_first and array.ndim:
                array = array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim < rank else array
                array = np.moveaxis(array, -1, 1)
                while array.ndim and array.shape[0] == 1:
                    array = array[0]
            return self.constant(array, _DTYPES[wanted])
        return value.name if _DTYPES[wanted] == _DTYPES[value.carrier] else self.cast(value.name, _DTYPES[wanted])

    def last(self, value: Value) -> Value:
        """Return a value with its channels last."""
        if not value.is_first:
            return value
        order = [0, *range(2, value.rank), 1]
        return replace(value, name=self.op("Transpose", value.name, perm=order), is_first=False)

    def first(self, value: Value) -> Value:
        """Return a value with its channels behind the batch."""
        if value.is_first or value.rank < 3:
            return value
        order = [0, value.rank - 1, *range(1, value.rank - 1)]
        return replace(value, name=self.op("Transpose", self.named(value), perm=order), is_first=True)

    def row(self, array: Array, like: Value, dtype: Any = np.float32) -> str:
        """Return a constant for each channel [c], or a scalar, as it stands beside a value."""
        if array.ndim and like.is_first:
            array = array.reshape(-1, *(1,) * (like.rank - 2))
        return self.constant(array, dtype)

    # The end.

    def content(self, network: Network, results: list[Value]) -> bytes:
        """Return the bytes of the file that computes a network."""
        helper = self.onnx.helper
        outputs = []
        for port, value in zip(network.outputs, results, strict=True):
            dtype = port_dtype(port.element)
            last = self.last(value)
            end = self.cast(last.name, dtype) if _DTYPES[last.carrier] != dtype else last.name
            self.nodes.append(helper.make_node("Identity", [end], [port.name], name=f"output_{port.name}"))
            outputs.append(self._port(port))
        self._shorten([port.name for port in network.outputs])
        read = {name for node in self.nodes for name in node.input}
        kept = [tensor for name, tensor in self.constants.items() if name in read]
        inputs = [self._port(port) for port in network.inputs]
        graph = helper.make_graph(self.nodes, network.name or "network", inputs, outputs, kept)
        sets = [helper.make_opsetid("", OPSET)]
        if any(node.domain for node in self.nodes):
            sets.append(helper.make_opsetid(QONNX, 1))
        model = helper.make_model(graph, opset_imports=sets, ir_version=_IR, producer_name="bittern")
        content: bytes = model.SerializeToString(deterministic=True)
        return content

    def _shorten(self, outputs: list[str]) -> None:
        """Let nodes write outputs themselves where an Identity would only rename."""
        readers = [name for node in self.nodes for name in node.input]
        makers = {node.output[0]: node for node in self.nodes}
        for node in [each for each in self.nodes if each.op_type == "Identity" and each.output[0] in outputs]:
            maker = makers.get(node.input[0])
            if maker is not None and readers.count(node.input[0]) == 1:
                maker.output[0] = node.output[0]
                self.nodes.remove(node)

    def _port(self, port: Port) -> Any:
        number = self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(port_dtype(port.element)))
        return self.onnx.helper.make_tensor_value_info(port.name, number, [BATCH, *port.shape])


def port_dtype(element: Element) -> Any:
    """Return the type in which inputs and outputs of an element stand in the file."""
    return np.dtype(element.storage)
