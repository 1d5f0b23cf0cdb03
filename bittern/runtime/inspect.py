"""Inspection: what a file holds, collected into one neutral tree that text, JSON, page and ONNX are written from.

In: a `.keg`, a `.btn` program, a GGUF file or a Hugging Face folder. Out: what is known of the file, its metadata and
tensors where it is a checkpoint, and its graph. A checkpoint whose program cannot be made is shown without a graph,
with the refusal that says why; any other fault of a file is an error as it is everywhere. Nothing is executed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.front.bind import BoundEncoder, bind_checkpoint, bind_encoder
from bittern.front.bound import Bound
from bittern.front.checkpoint import Checkpoint, Value, shown
from bittern.front.gguf import is_gguf
from bittern.graph.difference import nodes_of
from bittern.graph.keg import read_keg
from bittern.graph.keg_format import MAGIC as KEG_MAGIC
from bittern.graph.node import Blob, Function
from bittern.lang.check import check_module
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library, Module, mark
from bittern.models.family import family
from bittern.runtime.graph_record import program_record
from bittern.runtime.model import open_checkpoint
from bittern.runtime.store import Store

NO_KIND = code("R120", "the file is of no kind that can be inspected")
UNREADABLE = code("R121", "the file to inspect cannot be read")

_KINDS = "a `.keg`, a `.btn` program, a GGUF file, or a Hugging Face folder"
_NETWORKS = (".onnx", ".tflite", ".npz")
_SHOWN_ITEMS = 8  # of an array in the metadata
_SHOWN_TEXT = 400  # characters of one value


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A tensor of a checkpoint. bits: of one value. steps: how it is made if it is not stored as it is."""

    name: str
    element: str
    shape: tuple[int, ...]
    bits: float
    offset: int
    size: int
    file: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a file holds. kind: `keg`, `program`, `gguf` or `huggingface`. about: facts of the file, for people.

    roots: its functions by label. refusal: why a checkpoint has no graph here.
    """

    path: str
    kind: str
    about: Mapping[str, Any]
    roots: Mapping[str, Function]
    metadata: Mapping[str, str] = field(default_factory=dict)
    tensors: tuple[TensorRow, ...] = ()
    refusal: BitternError | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the whole tree as plain values."""
        return {
            "path": self.path,
            "kind": self.kind,
            "about": dict(self.about),
            "metadata": dict(self.metadata),
            "tensors": [
                {
                    "name": row.name,
                    "element": row.element,
                    "shape": list(row.shape),
                    "bits": row.bits,
                    "offset": row.offset,
                    "size": row.size,
                    "file": row.file,
                    "steps": list(row.steps),
                }
                for row in self.tensors
            ],
            "refusal": None if self.refusal is None else self.refusal.as_json(),
            **program_record(self.roots),
        }


def inspect_path(path: Path, store: Store | None = None, library: Sequence[Path] = ()) -> Inspection:
    """Return what a file or folder holds. store: keeps digests between runs. library: folders before Bittern's.

    Raises F1xx, F2xx, E212, R120, R121, U101.
    """
    with inspecting(path, store, library) as found:
        return found


@contextmanager
def inspecting(path: Path, store: Store | None = None, library: Sequence[Path] = ()) -> Iterator[Inspection]:
    """Give what a file or folder holds, as `inspect_path`, and keep its weights readable meanwhile."""
    try:
        kind = kind_of(path)
    except OSError as fault:
        what = f"{shown(path)} cannot be read: {fault.strerror or fault}."
        raise BitternError(UNREADABLE, what, "Check the path and its permissions.") from fault
    if kind == "keg":
        yield _keg(path)
    elif kind == "program":
        yield _program(path, library)
    elif kind in ("gguf", "huggingface"):
        with open_checkpoint(path, store, library) as checkpoint:
            yield _checkpoint(path, checkpoint, library)
    else:
        more = " A network is shown by `bittern summary` and `bittern plan`." * (path.suffix in _NETWORKS)
        what = f"{shown(path)} is none of the kinds that can be inspected."
        raise BitternError(NO_KIND, what, f"Give {_KINDS}.{more}")


def kind_of(path: Path) -> str:
    """Return the kind of a file by its first bytes, then by its name; '' if it is of none. Raises OSError."""
    if path.is_dir():
        return "huggingface" if (path / "config.json").exists() else ""
    if path.suffix == ".btn":
        return "program" if path.is_file() or not path.exists() else ""
    if is_gguf(path) or path.suffix == ".gguf":
        return "gguf"
    if path.suffix == ".keg":
        return "keg"
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return "keg" if file.read(len(KEG_MAGIC)) == KEG_MAGIC else ""


def _keg(path: Path) -> Inspection:
    keg = read_keg(path)
    about: dict[str, Any] = {"size": keg.size, "sha256": keg.sha256}
    about |= {f"note {name}": text for name, text in keg.notes.items()}
    return Inspection(str(path), "keg", about, keg.functions)


def _program(path: Path, library: Sequence[Path]) -> Inspection:
    """Read and check one program; every function of it is a root, overloads by their element.

    A bring-up writes program and `.keg` with one name; large constants of the text are then those of the `.keg`.
    """
    known = Library.standard(*library)
    known.blobs = _blobs_beside(path)
    try:
        module = known.load(path.stem, [path], path.parent)
        size = path.stat().st_size
    except OSError as fault:
        what = f"{shown(path)} cannot be read: {fault.strerror or fault}."
        raise BitternError(UNREADABLE, what, "Check the path and its permissions.") from fault
    check_module(module)
    known.raise_errors()
    return Inspection(str(path), "program", {"size": size, "module": module.name}, _functions(module))


def _blobs_beside(path: Path) -> dict[bytes, Blob]:
    """Return the constants of the `.keg` beside a program, which has the bytes that its text names by their SHA-256."""
    beside = path.with_suffix(".keg")
    if not beside.is_file():
        return {}
    nodes = (node for root in read_keg(beside).functions.values() for node in nodes_of(root) if node.kind == "const")
    blobs = (node["data"] for node in nodes)
    return {blob.digest: blob for blob in blobs if isinstance(blob, Blob)}


def _functions(module: Module) -> dict[str, Function]:
    roots: dict[str, Function] = {}
    for name, members in module.functions.items():
        for declaration in members:
            label = f"{name}[{mark(declaration)}]" if len(members) > 1 else name
            roots[label] = instance_for(module, declaration, {})
    return roots


def _checkpoint(path: Path, checkpoint: Checkpoint, library: Sequence[Path]) -> Inspection:
    metadata = {key: _value_text(value) for key, value in checkpoint.metadata.items()}
    about: dict[str, Any] = {
        "size": checkpoint.size,
        "sha256": checkpoint.sha256,
        "architecture": metadata.get("general.architecture", ""),
        "name": metadata.get("general.name", ""),
        "parameters": sum(prod(info.shape) for info in checkpoint.tensors.values()),
        "files": len(checkpoint.parts),
    }
    refusal: BitternError | None = None
    roots: dict[str, Function] = {}
    try:
        roots, dims = _bound(checkpoint, Library.standard(*library))
        about["dims"] = dims
    except BitternError as fault:
        refusal = fault
    return Inspection(str(path), checkpoint.kind, about, roots, metadata, _tensors(checkpoint), refusal)


def _bound(checkpoint: Checkpoint, library: Library) -> tuple[dict[str, Function], dict[str, int]]:
    """Return the functions of a checkpoint's program, and its sizes. Raises M1xx, E212."""
    architecture = checkpoint.metadata.get("general.architecture")
    if isinstance(architecture, str) and family(architecture, library.folders).encodes:
        encoder = bind_encoder(checkpoint, library)
        return _encoder_roots(encoder), dict(encoder.dims)
    bound = bind_checkpoint(checkpoint, library)
    return _decoder_roots(bound), dict(bound.dims)


def _decoder_roots(bound: Bound) -> dict[str, Function]:
    return {"forward": bound.forward, "head": bound.head}


def _encoder_roots(encoder: BoundEncoder) -> dict[str, Function]:
    pool = {} if encoder.pool is None else {"pool": encoder.pool}
    return {"encode": encoder.encode, "mean": encoder.mean, **pool}


def _tensors(checkpoint: Checkpoint) -> tuple[TensorRow, ...]:
    rows = []
    for name, info in checkpoint.tensors.items():
        values = prod(info.shape)
        derived = checkpoint.derived.get(name)
        rows.append(
            TensorRow(
                name,
                info.element.name,
                info.shape,
                round(8 * info.size / values, 4) if values else 0.0,
                info.offset,
                info.size,
                checkpoint.parts[info.part].file.path.name,
                derived.steps if derived else (),
            )
        )
    return tuple(rows)


def _value_text(value: Value) -> str:
    """Return a value of the metadata as text; of a long array the first items and their number."""
    if isinstance(value, np.ndarray | list):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        first = ", ".join(_short(str(item), 40) for item in items[:_SHOWN_ITEMS])
        more = f", ... ({len(items)} items)" if len(items) > _SHOWN_ITEMS else ""
        return f"[{first}{more}]"
    return _short(str(value), _SHOWN_TEXT)


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
