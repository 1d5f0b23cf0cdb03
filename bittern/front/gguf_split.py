"""Models in several GGUF files: `NAME-00001-of-00003.gguf` and its siblings become one checkpoint.

In: one opened part, and how to open another. Out: one checkpoint with the tensors of all parts; its metadata is the
first part's. Parts say which they are (`split.no` from 0, `split.count`, `split.tensors.count` for all together), and
nothing else ties them to each other, so everything that can be compared is: the numbers, the names of the files, keys
that two parts share, the tensors and how many they are. (GGUF specification, naming convention and split keys.)
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import NOT_FOUND, Checkpoint, Part, TensorInfo, Value, shown

SPLIT_KEYS = code("F142", "the keys that describe a split GGUF file are missing or impossible")
SPLIT_NAME = code("F143", "the name of a part of a split GGUF file does not say which part it is")
PART_MISSING = code("F144", "a part of a split GGUF file is missing")
PART_FOREIGN = code("F145", "a part of a split GGUF file belongs to another model")
SPLIT_TENSORS = code("F146", "the parts of a split GGUF file do not hold the tensors that they announce")

PART_LIMIT = 1 << 10
_NUMBER, _COUNT, _TENSORS = "split.no", "split.count", "split.tensors.count"
_OWN = (_NUMBER, "general.alignment")  # keys in which parts may differ
_NAME = re.compile(r"(.*)-([0-9]{5})-of-([0-9]{5})\.gguf", re.DOTALL)
_ALL = "Put all parts of the model into one folder, under the names that they came with."


def is_split(checkpoint: Checkpoint) -> bool:
    """Whether an opened file is a part of several, by its keys; its name must not say otherwise. Errors: F142, F143."""
    named = _NAME.fullmatch(checkpoint.file.path.name)
    is_part = named is not None and int(named[3]) > 1
    if not is_part and not any(key in checkpoint.metadata for key in (_NUMBER, _COUNT, _TENSORS)):
        return False
    count = _whole(checkpoint, _COUNT, 1, PART_LIMIT)
    if is_part or count > 1:
        _check_name(checkpoint, _number(checkpoint), count)
    return count > 1


def part_path(path: Path, number: int) -> Path:
    """Return the path of another part. path: of one part. number: from 0. Errors: F143 if the name has no numbers."""
    found = _NAME.fullmatch(path.name)
    if found is None:
        raise BitternError(
            SPLIT_NAME,
            f"{shown(path.name)} is a part of a model, but its name is not like `NAME-00001-of-00003.gguf`.",
            "Rename all parts so that the name says which part it is.",
        )
    return path.with_name(f"{found[1]}-{number + 1:05}-of-{found[3]}.gguf")


def joined(opened: Checkpoint, open_part: Callable[[Path], Checkpoint]) -> Checkpoint:
    """Return the checkpoint of all parts. opened: one of them, or a whole model; it is closed if the others do not fit.

    Errors: F142 to F146, and whatever opening a part raises.
    """
    parts = [opened]
    try:
        if not is_split(opened):
            return opened
        count, number = _whole(opened, _COUNT, 1, PART_LIMIT), _number(opened)
        for place in range(count):
            if place != number:
                parts.append(_sibling(opened, place, open_part))
        ordered = sorted(parts, key=_number)
        tensors = _tensors(ordered)
    except BaseException:
        for part in parts:
            part.close()
        raise
    first, *others = ordered
    more = tuple(Part(part.file, part.digests) for part in others)
    return Checkpoint(first.kind, first.file, first.metadata, MappingProxyType(tensors), first.digests, more)


def _whole(part: Checkpoint, key: str, low: int, high: int) -> int:
    value = part.metadata.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
        return value
    given = f"is {shown(value)}" if key in part.metadata else "is missing"
    raise BitternError(
        SPLIT_KEYS,
        f"{shown(part.path.name)}: `{key}` {given}; a whole number from {low} to {high} is allowed.",
        "Split the model again, or download its parts again.",
    )


def _number(part: Checkpoint) -> int:
    return _whole(part, _NUMBER, 0, _whole(part, _COUNT, 1, PART_LIMIT) - 1)


def _check_name(part: Checkpoint, number: int, count: int) -> None:
    """Compare the numbers in a file's name with its keys."""
    path = part.file.path
    found = _NAME.fullmatch(part_path(path, number).name)
    assert found is not None, path
    if path != part_path(path, number) or int(found[3]) != count:
        raise BitternError(
            SPLIT_NAME,
            f"{shown(path.name)} holds part {number + 1} of {count}, which its name does not say.",
            "Give the parts their own names back.",
        )


def _sibling(opened: Checkpoint, place: int, open_part: Callable[[Path], Checkpoint]) -> Checkpoint:
    """Open another part and make sure that it belongs to the opened one."""
    count = _whole(opened, _COUNT, 1, PART_LIMIT)
    path = part_path(opened.file.path, place)
    try:
        part = open_part(path)
    except BitternError as fault:
        if fault.code != NOT_FOUND:
            raise
        raise BitternError(
            PART_MISSING, f"{shown(path.name)}, part {place + 1} of {count}, is not in {shown(path.parent)}.", _ALL
        ) from fault
    try:
        _check_kin(opened, part, place, count)
    except BaseException:
        part.close()
        raise
    return part


def _check_kin(opened: Checkpoint, part: Checkpoint, place: int, count: int) -> None:
    """Compare what two parts say. The first part may know more than the others, never less."""
    for key in (_NUMBER, _COUNT, _TENSORS):
        wanted: object = {_NUMBER: place, _COUNT: count}.get(key, opened.metadata.get(key))
        if not _same(part.metadata.get(key), wanted):
            raise _foreign(part, key, part.metadata.get(key), wanted)
    first, other = (part, opened) if place == 0 else (opened, part)
    for key, value in other.metadata.items():
        is_shared = key in first.metadata or (_number(first) == 0 and _number(other) != 0)
        if key not in _OWN and is_shared and not _same(value, first.metadata.get(key)):
            raise _foreign(part, key, part.metadata.get(key), opened.metadata.get(key))


def _same(a: object, b: object) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        left, right = np.asarray(a), np.asarray(b)
        return left.dtype == right.dtype and left.tobytes() == right.tobytes()
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _foreign(part: Checkpoint, key: str, found: Value | None, wanted: object) -> BitternError:
    return BitternError(
        PART_FOREIGN,
        f"{shown(part.file.path.name)} does not belong to its siblings: "
        f"its {shown(key)} is {_short(found)}, theirs {_short(wanted)}.",
        _ALL,
    )


def _short(value: object) -> str:
    if value is None:
        return "missing"
    return "another list" if isinstance(value, (list, np.ndarray)) else shown(value)


def _tensors(parts: list[Checkpoint]) -> dict[str, TensorInfo]:
    """Return the tensors of all parts in their order; each knows its part."""
    found: dict[str, TensorInfo] = {}
    for place, part in enumerate(parts):
        for name, info in part.tensors.items():
            if name in found:
                raise BitternError(
                    SPLIT_TENSORS,
                    f"The tensor {shown(name)} is in {shown(parts[found[name].part].file.path.name)} and "
                    f"in {shown(part.file.path.name)}.",
                    _ALL,
                )
            found[name] = TensorInfo(name, info.element, info.shape, info.offset, info.size, place)
    _check_total(parts[0].metadata, parts[0], len(found))
    return found


def _check_total(metadata: Mapping[str, Value], first: Checkpoint, count: int) -> None:
    announced = _whole(first, _TENSORS, 0, 1 << 31)
    if announced != count:
        raise BitternError(
            SPLIT_TENSORS,
            f"The parts of {shown(first.file.path.name)} hold {count} tensors; `{_TENSORS}` announces {announced}.",
            _ALL,
        )
