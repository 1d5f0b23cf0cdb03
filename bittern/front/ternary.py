"""Ternary matrices: a stored matrix as codes -1, 0, +1 and one scale for each row.

In: a tensor of a checkpoint in any float element or block format, or codes with a scale beside them. Out: both parts.
A matrix that is not ternary row by row is refused: nothing is rounded here.
"""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import Checkpoint
from bittern.graph.evaluate import evaluate
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library
from bittern.types.elements import T

NOT_TERNARY = code("M114", "a matrix that must be ternary is not")

Codes: TypeAlias = npt.NDArray[np.int8]
Scales: TypeAlias = npt.NDArray[np.float32]


def split(checkpoint: Checkpoint, tensor: str, library: Library) -> tuple[Codes, Scales]:
    """Return codes [m, n] and scales [m] of the matrix `TENSOR.weight`; a factor `TENSOR.scale` joins the scales.

    Errors: F105 to F107, M114.
    """
    name = f"{tensor}.weight"
    info = checkpoint.info(name)
    if len(info.shape) != 2:
        raise _refused(name, f"has the shape {list(info.shape)}")
    if info.element == T:
        codes = checkpoint.array(name)
        scales = np.ones(len(codes), np.float32)
    else:
        codes, scales = _parted(name, _values(checkpoint, name, library))
    factor = f"{tensor}.scale"
    if factor in checkpoint.tensors:
        scales = scales * checkpoint.array(factor).reshape(-1).astype(np.float32)
    if scales.shape != codes.shape[:1] or not np.isfinite(scales).all():
        raise _refused(name, f"has scales of shape {list(scales.shape)} for {len(codes)} rows, or infinite ones")
    return codes.astype(np.int8), scales


def _values(checkpoint: Checkpoint, name: str, library: Library) -> npt.NDArray[np.float32]:
    """Return the numbers of a matrix, as its element's own `decode` gives them."""
    info = checkpoint.info(name)
    module = library.module("products")
    function = f"decode_{info.element.name}"
    if module is None or function not in module.functions:
        raise _refused(name, f"is stored as {info.element}")
    made = instance_for(module, module.functions[function][0], {})
    found: Any = evaluate(made, [checkpoint.array(name)], info.shape)
    return np.asarray(found, np.float32)


def _parted(name: str, values: npt.NDArray[np.float32]) -> tuple[Codes, Scales]:
    """Return signs and the one magnitude of each row. A row of zeros has scale 0."""
    scales: Scales = np.abs(values).max(axis=1)
    odd = (values != 0) & (np.abs(values) != scales[:, None])
    if odd.any():
        row = int(np.flatnonzero(odd.any(axis=1))[0])
        raise _refused(name, f"has values of several magnitudes in row {row}")
    return np.sign(values).astype(np.int8), scales


def _refused(name: str, what: str) -> BitternError:
    return BitternError(
        NOT_TERNARY,
        f"The tensor `{name}` {what}.",
        "The family needs rows of -1, 0, +1 times one scale: convert it so.",
    )
