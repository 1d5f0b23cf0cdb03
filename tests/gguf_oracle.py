"""The `gguf` package as the oracle of accepted files: the same keys, values, tensors, shapes, types and bytes."""

from pathlib import Path
from typing import Any

import numpy as np

from bittern.front.checkpoint import Checkpoint


def differences(checkpoint: Checkpoint, path: Path, package: Any) -> list[str]:
    """Return what the `gguf` package reads otherwise in the file, one phrase for each difference.

    package: the imported `gguf` module. Errors: whatever the package raises, which is a difference too. Types that are
    newer than the package have no oracle: a file with one is not compared.
    """
    known = {kind.name.lower() for kind in package.GGMLQuantizationType}
    if any(info.element.name not in known for info in checkpoint.tensors.values()):
        return []
    reader = package.GGUFReader(path)
    fields = {name: field for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    found = []
    if list(fields) != list(checkpoint.metadata):
        found.append(f"keys {list(fields)} and {list(checkpoint.metadata)}")
    for name, field in fields.items():
        if name in checkpoint.metadata and not _same_value(checkpoint.metadata[name], field):
            found.append(f"value of {name}")
    if [tensor.name for tensor in reader.tensors] != list(checkpoint.tensors):
        found.append("tensor names")
    for tensor in reader.tensors:
        if tensor.name in checkpoint.tensors:
            found += [f"{what} of {tensor.name}" for what in _tensor_differences(checkpoint, tensor)]
    return found


def _same_value(ours: Any, field: Any) -> bool:
    parts = [field.parts[index].tobytes() for index in field.data]
    kinds = [kind.name for kind in field.types]
    if kinds == ["STRING"]:
        return isinstance(ours, str) and [ours.encode()] == parts
    if kinds[0] != "ARRAY":
        kind = field.parts[field.data[0]].dtype
        again = np.asarray([ours], kind)
        return again.tobytes() == parts[0] or bool(np.isnan(again[0]))
    if kinds[1:] == ["STRING"]:
        return isinstance(ours, list) and [text.encode() for text in ours] == parts
    if len(kinds) == 1:
        return len(ours) == 0
    same_type = ours.dtype == field.parts[field.data[0]].dtype
    return bool(same_type and ours.tobytes() == b"".join(parts))


def _tensor_differences(checkpoint: Checkpoint, tensor: Any) -> list[str]:
    info = checkpoint.tensors[tensor.name]
    found = []
    if tuple(reversed(tensor.shape.tolist())) != info.shape:
        found.append(f"shape {tensor.shape} and {info.shape}")
    if tensor.tensor_type.name.lower() != info.element.name:
        found.append(f"type {tensor.tensor_type.name} and {info.element.name}")
    if (tensor.data_offset, tensor.n_bytes) != (info.offset, info.size):
        found.append("place")
    theirs = np.ascontiguousarray(tensor.data).reshape(-1).view(np.uint8)
    if not np.array_equal(theirs, np.frombuffer(checkpoint.bytes_of(tensor.name), np.uint8)):
        found.append("bytes")
    return found
