"""What a bring-up writes: the model's program as text, its `.keg`, and the record of the run, in a folder of the model.

All files are made in a folder beside their places and moved there together when everything has gone well; after a
failure or an interrupt nothing is there that was not there before. A second run writes the same bytes.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bittern.base.errors import BitternError, code
from bittern.base.json_text import json_text
from bittern.front.bind import BoundEncoder
from bittern.front.bound import Bound
from bittern.front.checkpoint import Checkpoint
from bittern.graph.keg_write import ExternalBlob, write_keg
from bittern.graph.node import Blob, Function, functions_of, walk
from bittern.lang.print_graph import print_functions

NOT_WRITTEN = code("R111", "the folder for the results cannot be written")

_KEPT_INSIDE = 4096  # bytes: constants of the checkpoint up to this size are copied into the `.keg`


def model_folder(name: str, out: Path) -> Path:
    """Return the folder of a model under `out`: its name without what folders do not take."""
    return out / (re.sub(r"[^\w.-]+", "-", name).strip("-.") or "model")


def file_names(bound: Bound | BoundEncoder) -> dict[str, str]:
    """Return the names of the files that a bring-up writes, by kind."""
    name = bound.family.name
    return {"program": f"{name}.btn", "keg": f"{name}.keg", "report": "report.json"}


@contextmanager
def staged(target: Path, names: Mapping[str, str]) -> Iterator[Path]:
    """Give a folder to write files to; when the block ends well they move into `target`, else nothing stays.

    target: a folder, made if it is missing. names: of the files that are to be moved, by kind. Raises R111.
    """
    made: list[Path] = []
    try:
        with _writing(target):
            made += _make_folders(target)
            taken = [target / name for name in names.values() if (target / name).is_dir()]
            if taken:
                raise IsADirectoryError(21, "there is a folder of that name", str(taken[0]))
            part = Path(tempfile.mkdtemp(prefix=".part-", dir=target))
        try:
            yield part
            with _writing(target):
                for name in names.values():
                    os.replace(part / name, target / name)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    except BaseException:
        for folder in reversed(made):
            with suppress(OSError):
                folder.rmdir()
        raise


def roots_of(bound: Bound | BoundEncoder) -> dict[str, Function]:
    """Return the functions of a model's program by name."""
    if isinstance(bound, Bound):
        return {"forward": bound.forward, "head": bound.head}
    pool = {} if bound.pool is None else {"pool": bound.pool}
    return {"encode": bound.encode, "mean": bound.mean} | pool


def write_program(bound: Bound | BoundEncoder, folder: Path) -> None:
    """Write the program as text and as `.keg`, which refers to the checkpoint for the weights. Raises F222, R111."""
    roots = roots_of(bound)
    names = file_names(bound)
    with _writing(folder):
        (folder / names["program"]).write_text(print_functions(roots), "utf-8", newline="\n")
    write_keg(folder / names["keg"], roots, _external_blobs(bound.checkpoint, tuple(roots.values())))


def write_report(bound: Bound | BoundEncoder, folder: Path, record: Mapping[str, Any]) -> None:
    """Write what of the report is the same in every run. Raises R111."""
    with _writing(folder):
        (folder / file_names(bound)["report"]).write_text(json_text(record) + "\n", "utf-8", newline="\n")


@contextmanager
def _writing(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        named = error.filename2 or error.filename or place
        raise BitternError(
            NOT_WRITTEN,
            f"`{os.fsdecode(named)}` cannot be written: {error.strerror or error}.",
            "Name another folder with `--out`, or mend this one.",
        ) from error


def _make_folders(path: Path) -> list[Path]:
    """Make a folder and its parents; return those that were missing, outermost first."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    missing.reverse()
    for place, folder in enumerate(missing):
        try:
            folder.mkdir()
        except OSError:
            for earlier in reversed(missing[:place]):
                earlier.rmdir()
            raise
    if not path.is_dir():
        raise NotADirectoryError(20, "there is a file of that name", str(path))
    return missing


def _external_blobs(checkpoint: Checkpoint, functions: tuple[Function, ...]) -> dict[bytes, ExternalBlob]:
    """Return where in the checkpoint the larger constants of functions lie, by digest."""
    places = {}
    for name, info in checkpoint.tensors.items():
        if info.size >= _KEPT_INSIDE and name not in checkpoint.derived:
            part = checkpoint.parts[info.part]
            shown = part.file.path.name.encode("utf-8", "replace").decode()
            digest = checkpoint.blob(name).digest
            places[digest] = ExternalBlob(shown, bytes.fromhex(part.sha256), info.offset, info.size)
    return {blob.digest: places[blob.digest] for blob in _blobs(functions) if blob.digest in places}


def _blobs(functions: tuple[Function, ...]) -> Iterator[Blob]:
    """Yield the constants of functions and of all that they call."""
    seen: set[bytes] = set()
    stack = list(functions)
    while stack:
        function = stack.pop()
        if function.id in seen:
            continue
        seen.add(function.id)
        for node in walk(function.result):
            stack.extend(functions_of(node))
            yield from (value for _, value in node.attributes if isinstance(value, Blob))
        if function.ideal is not None:
            stack.append(function.ideal)
