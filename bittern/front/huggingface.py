"""Hugging Face folders: config.json, safetensors files and their index, and what lies beside them, as a checkpoint.

In: a folder. Out: a `Checkpoint` in the neutral form, whose keys and tensor names are those of GGUF, so that one
binding file of a family serves both. The family that knows the folder's `model_type` says how, in the words of
`bittern/models/huggingface.py`. Tensors that only change their name stay views of the map; others are derived when they
are asked for, and say how. Vectors are widened to f32, as GGUF files hold them; that loses nothing.

Untrusted folders: all JSON is read strictly; a name in the index must be that of a file in the folder itself, and a
link must end in the folder, or in the folder of blobs of a download cache, as its handle shows once it is open.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.front.checkpoint import Checkpoint, Derived, Digests, MappedFile, Part, TensorInfo, Value, shown
from bittern.front.safetensors_file import read_json, read_safetensors
from bittern.models.family import family_of
from bittern.models.huggingface import Config, Neutral, Recipe
from bittern.types.elements import F32

BAD_CONFIG = code("F165", "the config.json of the folder is no JSON object or lacks a model_type")
NO_WEIGHTS = code("F166", "the folder holds no safetensors file")
BAD_INDEX = code("F167", "the index of the safetensors files is malformed")
ESCAPES = code("F168", "a file name of the index is not that of a file in the folder")
LINK_OUT = code("F169", "a file of the folder is a link that leads out of it")
INDEX_DISAGREES = code("F170", "the index and the safetensors files hold different tensors")
MISSING = code("F171", "the folder lacks a tensor that its configuration asks for")
UNFIT = code("F172", "a stored tensor cannot be brought into the form that the family needs")
BAD_SETTINGS = code("F314", "the tokenizer_config.json of the folder is malformed")
TOO_LARGE = code("F173", "a text file of the folder is larger than any model needs")

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_CONFIG_LIMIT = 1 << 20
_SETTINGS_LIMIT = 1 << 22
_INDEX_LIMIT = 1 << 24
_SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,200}\.safetensors")
_REMEDY = "Download the folder again."
_FLOATS = ("f32", "f16", "bf16")


def open_folder(path: Path, cache: Path | None = None, families: Sequence[Path] = ()) -> Checkpoint:
    """Open a folder, check all headers, and return it as a checkpoint that keeps its files mapped.

    cache: the folder in which digests are remembered between runs; None computes them anew. families: folders of
    families before Bittern's. Errors: F101 to F104, F150 to F173, F180 to F182, M110, M113.
    """
    opened: list[Part] = []
    try:
        config = Config(_json(path, "config.json", opened, cache, _CONFIG_LIMIT, BAD_CONFIG))
        model_type = config.get("model_type")
        if not isinstance(model_type, str):
            _refuse(BAD_CONFIG, path, "has a config.json without a `model_type`.")
        neutral = family_of(model_type, families).translate(config)
        stored = _stored(path, opened, cache)
        tensors, derived = _neutral_tensors(path, neutral, stored, opened)
    except BaseException:
        for part in opened:
            part.file.close()
        raise
    first, *more = opened
    return Checkpoint(
        "huggingface",
        first.file,
        MappingProxyType(_metadata(path, neutral)),
        MappingProxyType(tensors),
        first.digests,
        tuple(more),
        MappingProxyType(derived),
        path,
    )


def read_text(folder: Path, name: str, limit: int) -> bytes | None:
    """Return a small file of a folder, or None if it is not there. Errors: F102 to F104, F169, F173."""
    if not os.path.lexists(folder / name):
        return None
    file = _open(folder, name)
    try:
        if file.identity.size > limit:
            _refuse(
                TOO_LARGE,
                folder,
                f"has a {name} of {file.identity.size} bytes; the most that Bittern reads is {limit}.",
            )
        return bytes(file.data)
    finally:
        file.close()


def read_settings(folder: Path) -> Mapping[str, Any]:
    """Return what tokenizer_config.json says; nothing if it is not there. Errors: F314, F153, F102 to F104, F173."""
    data = read_text(folder, "tokenizer_config.json", _SETTINGS_LIMIT)
    return {} if data is None else read_json(data, "tokenizer_config.json", BAD_SETTINGS)


def _template(folder: Path) -> str | None:
    """Return the chat template: chat_template.jinja, or what tokenizer_config.json holds."""
    data = read_text(folder, "chat_template.jinja", _CONFIG_LIMIT)
    if data is not None:
        return data.decode("utf-8", "replace")
    found = read_settings(folder).get("chat_template")
    if isinstance(found, list):  # several by name
        rows = [row for row in found if isinstance(row, dict) and row.get("name") == "default"]
        found = rows[0].get("template") if rows else None
    if found is not None and not isinstance(found, str):
        _refuse(BAD_SETTINGS, folder, "has a `chat_template` in its tokenizer_config.json that is no text.")
    return found


def _open(folder: Path, name: str) -> MappedFile:
    """Open a file of the folder; a link must not lead out of it. Errors: F101 to F104, F169."""
    path = folder / name
    file = MappedFile(path)
    try:
        if path.is_symlink():
            _check_link(folder, path, file)
    except BaseException:
        file.close()
        raise
    return file


def _check_size(folder: Path, file: MappedFile, limit: int) -> None:
    if file.identity.size > limit:
        found = f"{shown(file.path.name)} of {file.identity.size} bytes"
        _refuse(TOO_LARGE, folder, f"has a {found}; the most that Bittern reads is {limit}.")


def _check_link(folder: Path, path: Path, file: MappedFile) -> None:
    """Refuse a link out of the folder. What counts is the file that was opened, not what the name says now."""
    target = Path(os.path.realpath(path))
    home = Path(os.path.realpath(folder))
    blobs = home.parent.parent / "blobs" if home.parent.name == "snapshots" else home
    status = target.lstat()
    same = (status.st_dev, status.st_ino) == (file.identity.device, file.identity.inode)
    if not same or not (target.is_relative_to(home) or target.parent == blobs):
        _refuse(LINK_OUT, folder, f"holds the link {shown(path.name)}, which leads out of it.", "Put the file there.")


def _json(folder: Path, name: str, opened: list[Part], cache: Path | None, limit: int, wrong: str) -> dict[str, Any]:
    """Open a JSON file of the folder, keep it among the parts, and return its object."""
    file = _open(folder, name)
    opened.append(Part(file, Digests(file.identity, cache)))
    if file.identity.size > limit:
        _refuse(
            TOO_LARGE, folder, f"has a {name} of {file.identity.size} bytes; the most that Bittern reads is {limit}."
        )
    return read_json(bytes(file.data), shown(name), wrong)


def _stored(folder: Path, opened: list[Part], cache: Path | None) -> dict[str, TensorInfo]:
    """Return all tensors of the folder's safetensors files, under their stored names."""
    if not os.path.lexists(folder / _INDEX):
        if not os.path.lexists(folder / _SINGLE):
            _refuse(NO_WEIGHTS, folder, f"has no {_SINGLE}.", "Other forms of weights are not read: convert them.")
        return _shard(folder, _SINGLE, opened, cache)
    index = _json(folder, _INDEX, opened, cache, _INDEX_LIMIT, BAD_INDEX).get("weight_map")
    if not isinstance(index, dict) or not index or not all(isinstance(name, str) for name in index.values()):
        _refuse(BAD_INDEX, folder, f"has a {_INDEX} without a `weight_map` of tensor names to file names.")
    found: dict[str, TensorInfo] = {}
    for name in sorted(set(index.values())):
        if not _SHARD.fullmatch(name):
            _refuse(ESCAPES, folder, f"has an index that names {shown(name)}, which is no safetensors file in it.")
        rows = _shard(folder, name, opened, cache)
        wanted = {tensor for tensor, place in index.items() if place == name}
        for tensor in sorted(wanted ^ set(rows)):
            where = "the index, but not the file" if tensor in wanted else "the file, but not the index"
            _refuse(INDEX_DISAGREES, folder, f"has {shown(tensor)} of {shown(name)} in {where}.")
        found |= rows
    return found


def _shard(folder: Path, name: str, opened: list[Part], cache: Path | None) -> dict[str, TensorInfo]:
    file = _open(folder, name)
    opened.append(Part(file, Digests(file.identity, cache)))
    return read_safetensors(file, len(opened) - 1)


def _metadata(folder: Path, neutral: Neutral) -> dict[str, Value]:
    """Return the neutral metadata, with the architecture in front of its keys."""
    found: dict[str, Value] = {"general.architecture": neutral.architecture, "general.name": folder.absolute().name}
    template = _template(folder)
    if template is not None:
        found["tokenizer.chat_template"] = template
    return found | {f"{neutral.architecture}.{key}": value for key, value in neutral.metadata.items()}


def _neutral_tensors(
    folder: Path, neutral: Neutral, stored: Mapping[str, TensorInfo], parts: Sequence[Part]
) -> tuple[dict[str, TensorInfo], dict[str, Derived]]:
    """Return the tensors by neutral name, and how the derived ones are made. Stored ones that no recipe takes keep
    their names: binding refuses them."""
    prefix = neutral.prefix
    names = {name if name.startswith(prefix) else prefix + name: info for name, info in stored.items()}
    tensors: dict[str, TensorInfo] = {}
    derived: dict[str, Derived] = {}
    used: set[str] = set()
    for name, recipe in neutral.tensors.items():
        sources = [_source(folder, source, name, names) for source in recipe.sources]
        used.update(recipe.sources)
        tensors[name], made = _cooked(folder, name, recipe, sources, parts)
        if made is not None:
            derived[name] = made
    skipped = re.compile("|".join(neutral.skipped) or r"\b\B")
    rest = {name: info for name, info in names.items() if name not in used and not skipped.fullmatch(name)}
    return tensors | {f"{name} (stored)": info for name, info in rest.items()}, derived


def _source(folder: Path, name: str, wanted: str, names: Mapping[str, TensorInfo]) -> TensorInfo:
    if name not in names:
        what = f"has no tensor {shown(name)} (for `{wanted}`)."
        _refuse(MISSING, folder, what, nearest(name, list(names)) or "The configuration asks for it.")
    return names[name]


def _cooked(
    folder: Path, name: str, recipe: Recipe, sources: Sequence[TensorInfo], parts: Sequence[Part]
) -> tuple[TensorInfo, Derived | None]:
    """Return what a neutral tensor is, and how it is made if it is not stored as it is."""
    if any((s.shape, s.element) != (sources[0].shape, sources[0].element) for s in sources[1:]) and not recipe.as_f32:
        _refuse(UNFIT, folder, f"has tensors of several shapes or types for {shown(name)}: {_listed(sources)}.")
    try:
        shape = recipe.shape(sources[0].shape if sources else ())
    except (ValueError, IndexError, TypeError) as fault:
        _refuse(UNFIT, folder, f"has {_listed(sources)}, which {shown(name)} cannot be made of: {fault}.")
    element = sources[0].element if sources else F32
    is_wide = recipe.as_f32 or (len(shape) == 1 and element.name in _FLOATS)
    if recipe.make is None and (element == F32 or not is_wide):
        (only,) = sources
        return TensorInfo(name, only.element, only.shape, only.offset, only.size, only.part), None
    steps = ([] if not is_wide or element == F32 else [f"{element} widened to f32"]) + [recipe.step] * bool(recipe.step)
    result = recipe.element or (F32 if is_wide else element)
    size = int(np.prod(shape, dtype=object)) * np.dtype(result.dtype).itemsize

    def make() -> npt.NDArray[Any]:
        arrays = [_array(info, parts[info.part], is_wide) for info in sources]
        return np.asarray(recipe.make(*arrays) if recipe.make else arrays[0])

    return TensorInfo(name, result, shape, 0, size), Derived(tuple(steps), make)


def _array(info: TensorInfo, part: Part, is_wide: bool) -> npt.NDArray[Any]:
    """Return a stored tensor, widened to f32 if so asked."""
    view = memoryview(part.file.data)[info.offset : info.offset + info.size]
    found: npt.NDArray[Any] = np.frombuffer(view, np.dtype(info.element.dtype).newbyteorder("<")).reshape(info.shape)
    if not is_wide:
        return found
    if info.element.name == "bf16":
        return (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float32)


def _listed(sources: Sequence[TensorInfo]) -> str:
    return ", ".join(f"{shown(info.name)} {info.element}{list(info.shape)}" for info in sources[:3])


def _refuse(code: str, folder: Path, what: str, remedy: str = _REMEDY) -> NoReturn:
    raise BitternError(code, f"The folder {shown(folder.name or folder)} {what}", remedy)
