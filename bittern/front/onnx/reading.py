"""Reading an ONNX file: untrusted bytes become a checked `FileGraph`, and that becomes a network.

The package `onnx` only decodes the messages, after `scan` has bounded them; nothing of the file is executed. Names are
unique, every input is made before it is used, constants have exactly the bytes that their shapes ask for.
"""

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import MappedFile, shown
from bittern.front.network.network import Network
from bittern.front.onnx.external import Folder
from bittern.front.onnx.importer import import_graph
from bittern.front.onnx.scan import MALFORMED, check_bytes
from bittern.front.onnx.tensors import array_of, element_name
from bittern.front.onnx.values import Array, FileGraph, FileInput, FileNode
from bittern.lang.library import Library

NO_ONNX = code("N201", "the package onnx is not installed")
BAD_GRAPH = code("N204", "the graph of the ONNX file is not well formed")
UNREAD_PART = code("N209", "the ONNX file has parts that Bittern does not read")

_MENDED = "Export the model again."
_LONGEST_NAME = 4096
_ANNOTATION = "finn_datatype"
UNREAD = object()  # an attribute that no operation of the table takes: a graph, a type, a sparse tensor


def read_onnx(
    path: Path, library: Library | None = None, *, shapes: Mapping[str, Sequence[int]] | None = None
) -> Network:
    """Return the network of an ONNX or QONNX file.

    library: where the functions of its layers are found, the standard one if None. shapes: of inputs that the file
    leaves open, by name, with the batch in front. Errors: F101 to F106, N201 to N209, N220 to N223.
    """
    return import_graph(read_graph(path), library or Library.standard(), shapes)


def read_graph(path: Path) -> FileGraph:
    """Return a file's graph, checked and with its constants as arrays. Errors: F101 to F106, N201 to N209."""
    path = Path(path)
    file = MappedFile(path)
    try:
        data = bytes(file.data[:])
    finally:
        file.close()
    with Folder(path.parent) as folder:
        return graph_of(data, path.stem, folder, shown(path.name))


def graph_of(data: bytes, name: str, folder: Folder | None = None, where: str = "The file") -> FileGraph:
    """Return the graph of a file's bytes. folder: of external data, or None for none. Errors: N201 to N209."""
    check_bytes(data, where)
    try:
        onnx: Any = import_module("onnx")
    except ImportError as fault:
        raise BitternError(
            NO_ONNX, "ONNX files are read with the package onnx.", "`pip install onnx` brings it."
        ) from fault
    try:
        model = onnx.ModelProto.FromString(data)
        return _Reader(name, folder, where).graph(model)
    except Exception as fault:
        if type(fault).__name__ != "DecodeError":
            raise
        raise BitternError(MALFORMED, f"{where} cannot be decoded: {str(fault)[:120]}.", _MENDED) from fault


class _Reader:
    """Reads one file. defined: names of tensors that are known so far."""

    def __init__(self, name: str, folder: Folder | None, where: str) -> None:
        self.name, self.folder, self.where = name, folder, where
        self.defined: set[str] = set()

    def graph(self, model: Any) -> FileGraph:
        """Return the graph of a decoded model."""
        graph = model.graph
        self._check_parts(model)
        constants = self._constants(graph.initializer)
        inputs = [self._declared(each) for each in graph.input]
        for each in inputs:
            if each.name not in constants:
                self._define(each.name)
        nodes = tuple(self._node(place, each) for place, each in enumerate(graph.node))
        outputs = tuple(self._declared(each) for each in graph.output)
        self._check_outputs(outputs)
        return FileGraph(
            self.name,
            self._versions(model.opset_import),
            tuple(inputs),
            outputs,
            nodes,
            constants,
            _annotations(graph.quantization_annotation),
            self._facts(model),
        )

    def _check_parts(self, model: Any) -> None:
        parts = {
            "functions of its own": len(model.functions),
            "training information": len(model.training_info),
            "sparse constants": len(model.graph.sparse_initializer),
        }
        for what, count in parts.items():
            if count:
                raise BitternError(UNREAD_PART, f"{self.where} has {what}.", "Export the model without them.")
        if not model.HasField("graph") or not model.graph.node:
            self._wrong("has no operations")
        if not model.opset_import:
            self._wrong("does not say which version of the operations it uses")

    def _versions(self, imports: Iterable[Any]) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in imports:
            if found.setdefault(each.domain, each.version) != each.version:
                self._wrong(f"uses two versions of the domain {shown(each.domain or 'ai.onnx')}")
        return found

    def _constants(self, tensors: Iterable[Any]) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for each in tensors:
            self._define(each.name)
            found[each.name] = array_of(each, each.name, self.folder)
        return found

    def _define(self, name: str) -> None:
        if name in self.defined or not _is_name(name):
            bad = f"has the impossible tensor name {shown(name)}"
            self._wrong(f"defines the tensor {shown(name)} twice" if name in self.defined else bad)
        self.defined.add(name)

    def _declared(self, info: Any) -> FileInput:
        if not _is_name(info.name):
            self._wrong(f"has an input or output with the impossible name {shown(info.name)}")
        kind = info.type.WhichOneof("value")
        if kind not in ("tensor_type", None):
            raise BitternError(
                UNREAD_PART, f"{shown(info.name)} is a {kind.removesuffix('_type')}, no tensor.", "Export tensors only."
            )
        tensor = info.type.tensor_type
        shape = None
        if tensor.HasField("shape"):
            sizes = (each.dim_value if each.HasField("dim_value") else 0 for each in tensor.shape.dim)
            shape = tuple(size if size > 0 else None for size in sizes)
        return FileInput(info.name, element_name(tensor.elem_type), shape)

    def _node(self, place: int, node: Any) -> FileNode:
        name = node.name or f"{node.op_type}_{place}"
        for each in node.input:
            if each and each not in self.defined:
                self._wrong(f"uses the tensor {shown(each)} in {shown(name)} before anything makes it")
        attributes: dict[str, Any] = {}
        for each in node.attribute:
            if each.name in attributes or each.ref_attr_name or not each.name:
                self._wrong(f"gives {shown(name)} the attribute {shown(each.name)} twice or by reference")
            attributes[each.name] = self._attribute(name, each)
        for each in node.output:
            if each:
                self._define(each)
        if not any(node.output):
            self._wrong(f"has the operation {shown(name)} without outputs")
        return FileNode(name, node.op_type, node.domain, tuple(node.input), tuple(node.output), attributes)

    def _attribute(self, name: str, attribute: Any) -> Any:
        """Return an attribute as a Python value, by its stated type (files of the first versions state none)."""
        kind = attribute.type or next((k for k, (field, _) in _KINDS.items() if _is_set(attribute, field)), 0)
        if kind == _TENSOR:
            return array_of(attribute.t, f"{name}.{attribute.name}", self.folder)
        if kind not in _KINDS:
            return UNREAD
        field, make = _KINDS[kind]
        try:
            return make(getattr(attribute, field))
        except UnicodeDecodeError:
            self._wrong(f"has text in {shown(name)} that is no UTF-8")

    def _check_outputs(self, outputs: Sequence[FileInput]) -> None:
        names = [each.name for each in outputs]
        if not names or len(set(names)) != len(names):
            self._wrong("has no outputs, or one twice")
        for name in names:
            if name not in self.defined:
                self._wrong(f"promises the output {shown(name)}, which nothing makes")

    def _facts(self, model: Any) -> dict[str, str]:
        made = {
            "producer": f"{model.producer_name} {model.producer_version}".strip()[:200],
            "ir_version": str(model.ir_version),
            "operations": ", ".join(f"{each.domain or 'ai.onnx'} {each.version}" for each in model.opset_import)[:400],
        }
        return {key: value for key, value in made.items() if value}

    def _wrong(self, what: str) -> NoReturn:
        raise BitternError(BAD_GRAPH, f"{self.where} {what}.", _MENDED)


_TENSOR = 4
_KINDS: dict[int, tuple[str, Any]] = {  # number of AttributeProto.AttributeType: field, what it becomes
    1: ("f", float),
    2: ("i", int),
    3: ("s", lambda text: text.decode()),
    _TENSOR: ("t", None),
    6: ("floats", tuple),
    7: ("ints", tuple),
    8: ("strings", lambda texts: tuple(text.decode() for text in texts)),
}


def _is_name(name: str) -> bool:
    """Whether a tensor's name can be told to people: some printable characters, not too many."""
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable()


def _is_set(attribute: Any, field: str) -> bool:
    if field in ("floats", "ints", "strings"):
        return len(getattr(attribute, field)) > 0
    return bool(attribute.HasField(field))


def _annotations(annotations: Iterable[Any]) -> dict[str, str]:
    """Return the QONNX data type of each tensor that has one."""
    found: dict[str, str] = {}
    for each in annotations:
        for pair in each.quant_parameter_tensor_names:
            if pair.key == _ANNOTATION:
                found[each.tensor_name] = pair.value
    return found
