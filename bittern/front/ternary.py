"""Ternary matrices: a stored matrix as codes -1, 0, +1 and one scale for each row.

In: a tensor of a checkpoint in any float element or block format, or codes with a scale beside them. Out: both parts.
A matrix that is not ternary row by row is refused: nothing is rounded here. Codes take four times the bytes of the
stored matrix, so the graph's constant holds none: they are made again when somebody reads them.
"""

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.bound import Origin
from bittern.front.checkpoint import Checkpoint
from bittern.graph.node import Blob
from bittern.types.elements import T

if TYPE_CHECKING:
    from bittern.lang.library import Library

NOT_TERNARY = code("M114", "a matrix that must be ternary is not")

_BLOCK = 256  # values of a block in both ternary formats
_PAIRS = np.uint64(0x0303030303030303)  # the lowest two bits of eight bytes
_STEP = 1 << 12  # blocks that are split together: their digits stay in a cache of the processor

Codes: TypeAlias = npt.NDArray[np.int8]
Scales: TypeAlias = npt.NDArray[np.float32]


def split(checkpoint: Checkpoint, tensor: str, library: "Library | None" = None) -> tuple[Codes, Scales]:
    """Return codes [m, n] and scales [m] of the matrix `TENSOR.weight`; a factor `TENSOR.scale` joins the scales.

    library: says what the numbers of a stored matrix are; None: the standard one. Errors: F105 to F107, M114.
    """
    name = f"{tensor}.weight"
    info = checkpoint.info(name)
    if len(info.shape) != 2:
        raise _refused(name, f"has the shape {list(info.shape)}")
    if info.element == T:
        codes = checkpoint.array(name)
        scales = np.ones(len(codes), np.float32)
    else:
        found = _of_blocks(checkpoint.array(name), info.element.name)
        codes, scales = found if found is not None else _parted(name, _values(checkpoint, name, library))
    checkpoint.let_go(name)
    factor = f"{tensor}.scale"
    if factor in checkpoint.tensors:
        scales = scales * checkpoint.array(factor).reshape(-1).astype(np.float32)
    if scales.shape != codes.shape[:1] or not np.isfinite(scales).all():
        raise _refused(name, f"has scales of shape {list(scales.shape)} for {len(codes)} rows, or infinite ones")
    return codes.astype(np.int8, copy=False), scales


def codes_blob(checkpoint: Checkpoint, origin: Origin, library: "Library | None" = None) -> Blob:
    """Return the codes of a ternary matrix as a constant that is made when it is read. library: see `split`."""

    def read() -> memoryview:
        codes = split(checkpoint, origin.tensor, library)[0]
        return codes.reshape(-1).view(np.uint8).data

    return Blob(origin.digest, origin.size, read)


def _of_blocks(stored: npt.NDArray[np.uint8], element: str) -> tuple[Codes, Scales] | None:
    """Return codes and scales of a matrix in a ternary block format, as its `decode` and `_parted` would.

    stored: [m, blocks, bytes of a block]. None: another element, or a matrix that needs a closer look.
    """
    if element not in _DIGITS:
        return None
    rows, blocks, _ = stored.shape
    codes, scales = np.empty((rows, blocks * _BLOCK), np.int8), np.empty(rows, np.float32)
    step = max(_STEP // max(blocks, 1), 1)
    for low in range(0, rows, step):
        part = stored[low : low + step]
        signs = _DIGITS[element](part[..., :-2])
        is_ternary = signs.max(initial=0) <= 2
        signs -= 1
        scale = np.ascontiguousarray(part[..., -2:]).view("<f2")[..., 0].astype(np.float32)
        used = np.where(signs.view(np.uint64).any(axis=-1), np.abs(scale), np.float32(0))
        most = used.max(axis=1, initial=0)
        if not is_ternary or not np.isfinite(scale).all() or ((used != 0) & (used != most[:, None])).any():
            return None
        if (scale <= 0).any():
            signs *= np.sign(scale).astype(np.int8)[..., None]
        codes[low : low + step], scales[low : low + step] = signs.reshape(len(part), -1), most
    return codes, scales


def _pairs(stored: npt.NDArray[np.uint8]) -> Codes:
    """Return the digits of TQ2_0, [..., 64] -> [..., 256]: half a block's lowest bit pairs are its first ones."""
    words = np.ascontiguousarray(stored).view(np.uint64).reshape(-1, 2, 4)
    made = np.empty((len(words), 2, 4, 4), np.uint64)
    for place in range(4):
        made[:, :, place] = words >> np.uint64(2 * place) & _PAIRS
    return made.view(np.int8).reshape(*stored.shape[:-1], _BLOCK)


def _digits(stored: npt.NDArray[np.uint8]) -> Codes:
    """Return the digits of TQ1_0, five a byte, of the last bytes four. [..., 52] -> [..., 256]"""
    made = np.empty((*stored.shape[:-1], _BLOCK), np.int8)
    start = 0
    for low, high, count in ((0, 32, 5), (32, 48, 5), (48, 52, 4)):
        for place in range(count):
            made[..., start : start + high - low] = _digit_table()[place][stored[..., low:high]]
            start += high - low
    return made


@cache
def _digit_table() -> Codes:
    """Return the digit at each of five places of each byte, [5, 256]; a byte is a fraction of 256."""
    powers = np.array([1, 3, 9, 27, 81], np.uint8)
    rests = np.arange(256, dtype=np.uint8) * powers[:, None]
    return (rests.astype(np.uint16) * 3 >> 8).astype(np.int8)


_DIGITS: dict[str, Callable[[npt.NDArray[np.uint8]], Codes]] = {"tq2_0": _pairs, "tq1_0": _digits}


def _values(checkpoint: Checkpoint, name: str, library: "Library | None") -> npt.NDArray[np.float32]:
    """Return the numbers of a matrix, as its element's own `decode` gives them."""
    from bittern.graph.evaluate import evaluate
    from bittern.lang.elaborate import instance_for
    from bittern.lang.library import Library

    info = checkpoint.info(name)
    module = (library or Library.standard()).module("products")
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
