"""Other programs as a side of a comparison: ONNX Runtime and TFLite's interpreter run the same file.

All tensors of the file are asked for, and each is brought into the order and coding of the node that it became here, so
that it is compared with that node. Both packages are optional. A sample is run by itself: files fix the batch.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.front.network.network import Network
from bittern.front.onnx.values import Wire
from bittern.graph.node import Function
from bittern.lang.library import Library
from bittern.runtime.diff_sides import PEERS, Spelling
from bittern.runtime.observed import Array, Point, points

NO_PEER = code("N444", "the package of a peer is not installed")
PEER_REFUSES = code("N445", "a peer does not run the file")

_FILES = {"onnxruntime": ".onnx", "tflite": ".tflite"}
_PACKAGES = {"onnxruntime": ("onnxruntime", "onnxruntime"), "tflite": ("ai_edge_litert.interpreter", "ai-edge-litert")}


@dataclass(slots=True)
class Peer:
    """A side that another program runs. places: the tensor of the file that each node is, by the node's id."""

    name: str
    network: Network
    path: Path
    kind: str
    form: str
    places: Mapping[bytes, "Place"]
    _found: dict[str, Array] = field(default_factory=dict, repr=False)

    @property
    def function(self) -> Function:
        """The graph of the file, as it is imported here."""
        return self.network.function

    @property
    def points(self) -> Sequence[Point]:
        """Nodes that are tensors of the file."""
        return [each for each in points(self.function) if each.node.id in self.places]

    def outputs(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """See `Side`."""
        found = self._tensors(inputs)
        return {port.name: _stored(found[port.name], port.element.storage) for port in self.network.outputs}

    def values(self, wanted: Sequence[Point], inputs: Sequence[Array]) -> dict[bytes, Array]:
        """See `Side`."""
        found = self._tensors(inputs)
        pairs = [(each.node, self.places.get(each.node.id)) for each in wanted]
        return {
            node.id: place.stored(found[place.tensor], node.type)
            for node, place in pairs
            if place is not None and place.tensor in found
        }

    def _tensors(self, inputs: Sequence[Array]) -> dict[str, Array]:
        """Return the tensors of the file, [b, ...]; they are kept, since inputs do not change."""
        if not self._found:
            run = _onnx_samples if self.kind == "onnxruntime" else _tflite_samples
            try:
                rows = run(self, inputs)
            except BitternError:
                raise
            except Exception as fault:  # whatever another program raises about the file
                said = str(fault).strip().splitlines()
                raise BitternError(
                    PEER_REFUSES,
                    f"`{self.kind}` does not run `{self.path.name}`: {(said or [type(fault).__name__])[0][:200]}.",
                    "Give a file of standard operations; `bittern export` writes one.",
                ) from fault
            names = [name for name in rows[0] if all(name in row for row in rows)]
            self._found.update({name: np.stack([row[name] for row in rows]) for name in names})
        return self._found


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node is found in the file. wire: how an ONNX tensor is stored here; None: as it is in the file."""

    tensor: str
    wire: Wire | None = None

    def stored(self, value: Array, type_: Any) -> Array:
        """Return the tensor as the node stores it; what is no code of the node stays a number."""
        if self.wire is None:
            return _stored(value.reshape(len(value), *_sizes(type_)), type_.element.storage)
        sample = value.reshape(len(value), *self.wire.shape).transpose(0, *(1 + axis for axis in self.wire.order))
        if self.wire.coding is not None:
            sample = _codes(sample, self.wire)
        return _stored(sample.reshape(len(value), *_sizes(type_)), type_.element.storage)


def _codes(values: Array, wire: Wire) -> Array:
    """Return the codes that stand for numbers; those that no code stands for lie between codes."""
    assert wire.coding is not None, wire
    parts = []
    for part in (wire.coding.scale, wire.coding.zero):
        parts.append(part.transpose(wire.order) if part.ndim else part)
    scale, zero = parts
    near = np.rint(values / scale + zero)
    is_exact = (near - zero).astype(np.float32) * scale == values
    return near if is_exact.all() else np.where(is_exact, near, values.astype(np.float64) / scale + zero)


def _stored(value: Array, storage: str) -> Array:
    """Return values as they are stored here, where that loses nothing."""
    with np.errstate(all="ignore"):
        made = value.astype(np.dtype(storage))
    if value.dtype.kind == made.dtype.kind == "f":
        return made if value.dtype == made.dtype else value
    return made if np.array_equal(made, value) else value


def _sizes(type_: Any) -> list[int]:
    return [size.constant for size in type_.shape[1:]]


def peer_side(spelling: Spelling, path: Path, library: Library) -> Peer:
    """Return the side that a peer is. Raises N444, N445, and what the reader of the file raises."""
    kind, suffix = spelling.peer, _FILES[spelling.peer]
    if path.suffix.lower() != suffix:
        raise BitternError(PEER_REFUSES, f"`{kind}` runs {suffix} files, `{path.name}` is none.", f"Give a {suffix}.")
    _package(kind)
    form = next((word for word in spelling.words if word in PEERS[kind]), PEERS[kind][0])
    if kind == "tflite":
        from bittern.front.tflite.importer import open_tflite

        network = open_tflite(path, library)
        labels = network.function.labels.nodes
        return Peer(spelling.text, network, path, kind, form, {key: Place(name) for key, name in labels.items()})
    from bittern.front.onnx.importer import import_with_wires
    from bittern.front.onnx.reading import read_graph

    network, wires = import_with_wires(read_graph(path), library)
    places: dict[bytes, Place] = {}
    for name, wire in wires.items():
        places.setdefault(wire.node.id, Place(name, wire))
    return Peer(spelling.text, network, path, kind, form, places)


def _package(kind: str) -> Any:
    module, package = _PACKAGES[kind]
    try:
        return import_module(module)
    except ImportError as fault:
        raise BitternError(
            NO_PEER, f"`{kind}` needs the package {package}, which is not here.", f"`pip install {package}` brings it."
        ) from fault


def _onnx_samples(peer: Peer, inputs: Sequence[Array]) -> list[dict[str, Array]]:
    """Run each sample with every tensor of the file as an output."""
    onnx: Any = import_module("onnx")
    runtime = _package("onnxruntime")
    model = onnx.load(str(peer.path))
    declared = {each.name for each in model.graph.output}
    made = {name for node in model.graph.node for name in node.output if name}
    inside = [place.tensor for place in peer.places.values() if place.tensor in made - declared]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in inside)
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    if peer.form == "plain":
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    rows = []
    for k in range(len(inputs[0])):
        feed = {}
        for port, each, wanted in zip(peer.network.inputs, inputs, session.get_inputs(), strict=True):
            count = wanted.shape[0] if isinstance(wanted.shape[0], int) else 1
            sample = np.repeat(each[k : k + 1], count, axis=0)
            feed[port.name] = sample.astype(_ONNX_TYPES.get(wanted.type, sample.dtype))
        rows.append({name: _first(value) for name, value in zip(names, session.run(names, feed), strict=True)})
    return rows


_ONNX_TYPES = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8}


def _first(value: Array) -> Array:
    """Return the first sample of a batch; what has no batch axis is one."""
    array: Array = np.asarray(value)
    return array[0] if array.ndim else array


def _tflite_samples(peer: Peer, inputs: Sequence[Array]) -> list[dict[str, Array]]:
    """Run each sample in a process of its own, which the interpreter may bring down; it does for some files."""
    wanted = {place.tensor for place in peer.places.values()}
    names = [port.name for port in peer.network.outputs]
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(tflite_samples, str(peer.path), peer.form, wanted, names, list(inputs)).result()
        except BrokenProcessPool as fault:
            raise BitternError(
                PEER_REFUSES,
                f"TFLite's interpreter crashes on `{peer.path.name}`.",
                f"Try its other kernels, {' or '.join(f'`tflite:{form}`' for form in PEERS['tflite'])}.",
            ) from fault


def tflite_samples(
    path: str, form: str, wanted: set[str], outputs: Sequence[str], inputs: Sequence[Array]
) -> list[dict[str, Array]]:
    """Return the tensors of each sample, by name, from TFLite's interpreter, its state reset before each.

    form: of the kernels. wanted: names of tensors inside, all of which are kept. outputs: what the outputs are called.
    """
    package = _package("tflite")
    kinds = package.OpResolverType
    with catch_warnings(action="ignore"):  # that all tensors are kept takes memory
        run = package.Interpreter(
            model_path=path,
            experimental_op_resolver_type=kinds.BUILTIN_REF if form == "reference" else kinds.BUILTIN,
            experimental_preserve_all_tensors=True,
            num_threads=1,
        )
    run.allocate_tensors()
    places = {row["name"]: row["index"] for row in run.get_tensor_details() if row["name"] in wanted}
    places |= {name: row["index"] for name, row in zip(outputs, run.get_output_details(), strict=False)}
    rows = []
    for k in range(len(inputs[0])):
        run.reset_all_variables()
        for each, row in zip(inputs, run.get_input_details(), strict=True):
            run.set_tensor(row["index"], each[k].reshape(row["shape"]).astype(row["dtype"]))
        run.invoke()
        found: dict[str, Array] = {}
        for name, index in places.items():
            try:
                found[name] = _sample(np.array(run.get_tensor(index)))
            except ValueError:  # a tensor that these kernels never write
                continue
        rows.append(found)
    return rows


def _sample(value: Array) -> Array:
    return value[0] if value.ndim and value.shape[0] == 1 else value
