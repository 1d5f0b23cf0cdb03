"""Constants by their bytes: `stored` holds them in the text, `blob` names them by their SHA-256.

`stored[f32](0x0000803f, [1])`: the bytes from first to last, two hexadecimal digits each, or 0 for none.
`blob[q4_1](0x..., [m, n])`: the SHA-256 of the bytes. A program can be checked, hashed and compared without them; to be
run, the library must have them at hand (`Library.blobs`, filled from a checkpoint or a `.keg`).
A program that was printed from a graph has them where no literal has the value: arrays of floats, NaN, weights.
"""

from math import prod

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.graph.node import Blob, blob, const_blob
from bittern.lang import syntax
from bittern.lang.builtin_table import Brackets, builtin
from bittern.lang.context import Context
from bittern.lang.generics import element_of
from bittern.lang.op_arguments import arguments, dims_of, need_bracket
from bittern.lang.values import Value
from bittern.types.arrays import is_valid
from bittern.types.elements import BIT, Element
from bittern.types.values import Tensor, storage_shape

STORED_BYTES = code("E330", "the bytes of a constant do not fit its type")
BLOB_MISSING = code("R134", "the bytes of a constant are not at hand")


@builtin("stored")
def _stored(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    """`stored[e](0x..., shape)`: a constant from its bytes."""
    type_, data = _parts(ctx, e, brackets)
    _expect_size(ctx, e, type_, len(data))
    is_bits = type_.element == BIT and any(byte > 1 for byte in data)
    if is_bits or (type_.element.bits < 8 and not is_valid(np.frombuffer(data, type_.element.storage), type_.element)):
        ctx.reject(STORED_BYTES, e.span, f"a byte is not a value of `{type_.element}`")
    return Value.of(type_, (const_blob(blob(data), type_),), "fresh")


@builtin("blob")
def _blob(ctx: Context, e: syntax.Call, brackets: Brackets, expected: Element | None) -> Value:
    """`blob[e](0x..., shape)`: a constant whose bytes have this SHA-256."""
    type_, digest = _parts(ctx, e, brackets)
    if len(digest) != 32:
        ctx.reject(STORED_BYTES, e.span, "a SHA-256 has 32 bytes", found=f"{len(digest)} bytes")
    known = ctx.library.blobs.get(digest)
    if known is not None:
        _expect_size(ctx, e, type_, known.size)
    return Value.of(type_, (const_blob(known or _absent(digest, _size(type_)), type_),), "fresh")


def _absent(digest: bytes, size: int) -> Blob:
    """Return bytes that are known by their SHA-256 alone; reading them is R134."""

    def read() -> bytes:
        raise BitternError(
            BLOB_MISSING,
            f"The bytes with the SHA-256 {digest.hex()[:16]}... are not at hand.",
            "Load the checkpoint or the `.keg` that has them.",
        )

    return Blob(digest, size, read)


def _parts(ctx: Context, e: syntax.Call, brackets: Brackets) -> tuple[Tensor, bytes]:
    """Return the type that a call states, and its hexadecimal number as bytes."""
    element = element_of(ctx, need_bracket(ctx, e, brackets, "an element type"))
    given = arguments(ctx, e, "bytes", "shape")
    shape, digits = dims_of(ctx, given["shape"]), given["bytes"]
    text = digits.text if isinstance(digits, syntax.Number) else ""
    text = "0x" if text == "0" else text
    if not text.startswith("0x") or "p" in text or len(text) % 2 or any(size.constant is None for size in shape):
        ctx.reject(
            STORED_BYTES,
            e.span,
            "a stored constant has bytes and sizes that are known numbers",
            expected="two hexadecimal digits for each byte, such as `stored[f32](0x0000803f, [1])`",
        )
    if element.is_format and (not shape or (shape[-1].constant or 0) % element.columns):
        ctx.reject(STORED_BYTES, e.span, f"a row of {element} has whole blocks of {element.columns} values")
    return Tensor(element, shape), bytes.fromhex(text[2:])


def _expect_size(ctx: Context, e: syntax.Call, type_: Tensor, found: int) -> None:
    size = _size(type_)
    if found != size:
        ctx.reject(
            STORED_BYTES,
            e.span,
            "the bytes do not fit the type",
            found=f"{found} bytes",
            expected=f"{size} bytes for {ctx.text(type_)}",
        )


def _size(type_: Tensor) -> int:
    return prod(storage_shape(type_)) * np.dtype(type_.element.storage).itemsize
