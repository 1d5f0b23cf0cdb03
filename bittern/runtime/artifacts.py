"""What a bring-up writes: the model's program as text, its `.keg`, and the report, under a folder of the model's name."""

import json
import os
import re
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from bittern.front.bind import Bound
from bittern.front.checkpoint import Checkpoint
from bittern.graph.keg_write import ExternalBlob, write_keg
from bittern.graph.node import Blob, Function, functions_of, walk


def model_folder(bound: Bound, out: Path) -> Path:
    """Return the folder of a model under `out`, made if it is missing."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", bound.checkpoint.path.stem).strip("-.") or "model"
    folder = out / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def write_program(bound: Bound, out: Path) -> dict[str, str]:
    """Write `NAME.btn` and `NAME.keg`; return their paths. The keg refers to the checkpoint for the weights."""
    from bittern.lang.print_graph import print_functions

    folder = model_folder(bound, out)
    roots = {"forward": bound.forward, "head": bound.head}
    text, keg = folder / f"{bound.family.name}.btn", folder / f"{bound.family.name}.keg"
    write_whole(text, print_functions(roots).encode())
    write_keg(keg, roots, external_blobs(bound.checkpoint, roots.values()))
    return {"program": str(text), "keg": str(keg)}


def write_report(bound: Bound, out: Path, report: dict[str, Any]) -> Path:
    """Write the report as JSON; return its path."""
    path = model_folder(bound, out) / "report.json"
    write_whole(path, json.dumps(report, indent=1, ensure_ascii=False).encode() + b"\n")
    return path


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    os.replace(file.name, path)


def external_blobs(checkpoint: Checkpoint, functions: Any) -> dict[bytes, ExternalBlob]:
    """Return where in the checkpoint the constants of functions lie, by digest."""
    found: dict[bytes, ExternalBlob] = {}
    places = {checkpoint.blob(name).digest: info for name, info in checkpoint.tensors.items()}
    for blob in _blobs(functions):
        info = places.get(blob.digest)
        if info is not None and blob.size >= 4096:
            found[blob.digest] = ExternalBlob(
                checkpoint.path.name, bytes.fromhex(checkpoint.sha256), info.offset, info.size
            )
    return found


def _blobs(functions: Any) -> list[Blob]:
    seen: set[bytes] = set()
    blobs: list[Blob] = []
    stack: list[Function] = list(functions)
    while stack:
        function = stack.pop()
        if function.id in seen:
            continue
        seen.add(function.id)
        for node in walk(function.result):
            stack.extend(functions_of(node))
            blobs.extend(value for _, value in node.attributes if isinstance(value, Blob))
        if function.ideal is not None:
            stack.append(function.ideal)
    return blobs
