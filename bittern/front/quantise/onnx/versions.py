"""Nodes of older versions of ONNX in the form of a newer one: what moved from attributes to inputs, and what changed.

Only operations that are run for calibration occur (`rows`), and only what changed from version 7 to 21 has a row here.
The converter of the package onnx is not used: it ends the process on some files.
(ONNX operators, changelog.)
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import shown

NOT_CONVERTED = code("N438", "the ONNX model cannot be brought to the version that is needed")

OLDEST = 7  # before it, broadcasting was another
Added: TypeAlias = Callable[[str, Any], str]  # adds a constant, by a wished name, and returns its name


def raised(row: Any, have: int, least: int, rank: int | None, add: Added) -> None:
    """Change a node, a `NodeProto` of version `have`, to the form of version `least`.

    rank: of its first input, None where it is not known. add: adds a constant. Errors: N438.
    """
    if have >= least:
        return
    if have < OLDEST:
        raise _not_converted(row, have, least, f"versions before {OLDEST} mean other broadcasting")
    version, rule = _ROWS.get(row.op_type, (0, None))
    if row.domain in ("", "ai.onnx") and rule is not None and have < version <= least:
        why = rule(row, rank, add)
        if why:
            raise _not_converted(row, have, least, why)


def _not_converted(row: Any, have: int, least: int, why: str) -> BitternError:
    return BitternError(
        NOT_CONVERTED,
        f"{row.op_type} ({shown(row.name)}) of version {have} cannot become one of version {least}: {why}.",
        "Export the model again with a newer version.",
    )


def _taken(row: Any, name: str) -> Any:
    """Remove an attribute and return it, or None."""
    for place, each in enumerate(row.attribute):
        if each.name == name:
            del row.attribute[place]
            return each
    return None


def _axes(row: Any, rank: int | None, add: Added) -> str:
    found = _taken(row, "axes")
    if found is not None:
        row.input.append(add(f"{row.output[0]}_axes", np.array(found.ints, np.int64)))
    return ""


def _pad(row: Any, rank: int | None, add: Added) -> str:
    pads, value = _taken(row, "pads"), _taken(row, "value")
    if pads is None:
        return "it has no pads"
    row.input.append(add(f"{row.output[0]}_pads", np.array(pads.ints, np.int64)))
    row.input.append(add(f"{row.output[0]}_value", np.array(value.f if value is not None else 0, np.float32)))
    return ""


def _clip(row: Any, rank: int | None, add: Added) -> str:
    ends = [_taken(row, name) for name in ("min", "max")]
    names = [
        "" if end is None else add(f"{row.output[0]}_{name}", np.array(end.f, np.float32))
        for name, end in zip(("low", "high"), ends, strict=True)
    ]
    row.input.extend(names if names[1] else names[:1] if names[0] else [])
    return ""


def _softmax(row: Any, rank: int | None, add: Added) -> str:
    found = _taken(row, "axis")
    axis = 1 if found is None else int(found.i)
    if axis != -1 and axis + 1 != rank:
        return "it runs over several axes together"
    own = row.attribute.add()
    own.name, own.type, own.i = "axis", 2, -1  # AttributeProto.INT
    return ""


def _identity(row: Any, rank: int | None, add: Added) -> str:
    row.op_type = "Identity"
    del row.attribute[:], row.output[1:], row.input[1:]
    return ""


def _batch_normalization(row: Any, rank: int | None, add: Added) -> str:
    spatial = _taken(row, "spatial")
    del row.output[1:]
    return "" if spatial is None or spatial.i == 1 else "it normalises each place by itself"


_ROWS: dict[str, tuple[int, Callable[[Any, int | None, Added], str]]] = {  # operation: the version that changed it
    "BatchNormalization": (9, _batch_normalization),
    "Clip": (11, _clip),
    "Pad": (11, _pad),
    "Dropout": (12, _identity),
    "Softmax": (13, _softmax),
    "Squeeze": (13, _axes),
    "Unsqueeze": (13, _axes),
    "ReduceMean": (18, _axes),
}
