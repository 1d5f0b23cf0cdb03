"""What the tests of shape, index and reduction rows share: a call with its invariants, layouts, random values.

`call` goes through rule and meaning of a row of the table, so a planted row is called just as well.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bittern.ops.table import OPS, Array, Site, ops
from bittern.types.elements import Element, Kind
from bittern.types.faults import TypeFault
from bittern.types.values import Tensor, tensor

ops()


def call(
    name: str, types: Sequence[Element | Tensor], *arrays: Any, lead: int = 0, ideal: bool = False, **attributes: Any
) -> Array:
    """Apply a row; check the result's dtype and shape, and that the operands are left alone.

    types: an element stands for an array of the operand's own shape.
    """
    given = [np.asarray(a) for a in arrays]
    kinds = tuple(t if isinstance(t, Tensor) else tensor(t, *a.shape[lead:]) for t, a in zip(types, given, strict=True))
    result = OPS[name].rule(kinds, attributes)
    assert isinstance(result, Tensor)
    before = [a.copy() for a in given]
    for array in given:
        array.flags.writeable = False
    value = bare(name, Site(lead, kinds, result, attributes, ideal), *given)
    assert value.shape[lead:] == Site(lead, kinds, result, attributes).shape, (name, value.shape, result)
    if not ideal:
        assert value.dtype == np.dtype(result.element.storage), (name, value.dtype, result.element)
    for array, old in zip(given, before, strict=True):
        assert array.tobytes() == old.tobytes(), name
    return value


def bare(name: str, site: Site, *arrays: Array) -> Array:
    """Apply the meaning alone; a warning is an error."""
    row = OPS[name]
    meaning = row.ideal if site.ideal and row.ideal is not None else row.meaning
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        return np.asarray(meaning(site, *arrays))


def plant(monkeypatch: pytest.MonkeyPatch, name: str, meaning: Callable[..., Any]) -> None:
    """Plant another meaning in the table for the rest of a test."""
    monkeypatch.setitem(OPS, name, replace(OPS[name], meaning=meaning, ideal=None))


def refuses(code: str, words: str, name: str, types: Sequence[Any], **attributes: Any) -> TypeFault:
    """Check that a rule refuses these types with this code and these words, dimensions as d0, d1, ..."""
    with pytest.raises(TypeFault) as caught:
        OPS[name].rule(tuple(types), attributes)
    fault = caught.value
    dims = [d.text([]) for d in fault.dims]  # type: ignore[attr-defined]
    said = f"{fault.found.format(*dims)} / {fault.expected.format(*dims)} / {fault.hint}"
    assert fault.code == code and words in said, (fault.code, said)
    return fault


def bits(x: Array) -> Array:
    """The stored bits, every NaN of f16, f32 and f64 as one, -0 apart from +0."""
    x = np.asarray(x)
    if x.dtype.kind != "f":
        return x
    return np.where(np.isnan(x), np.array(np.nan, x.dtype), x).view(f"u{x.dtype.itemsize}")


def assert_same(found: Array, expected: Array, *context: object) -> None:
    """Check shape, dtype and bits."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype, (found, expected, context)
    assert np.array_equal(bits(found), bits(expected)), (found, expected, context)


def layouts(x: Array) -> Iterator[tuple[str, Array]]:
    """The same values in every kind of memory that numpy can hold them in. x: [..., n]."""
    yield "contiguous", np.ascontiguousarray(x)
    yield "reversed axes", np.asfortranarray(x)
    yield "last axis outermost", np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1)
    yield (
        "negative strides",
        np.ascontiguousarray(x[(slice(None, None, -1),) * x.ndim])[(slice(None, None, -1),) * x.ndim],
    )
    wide = np.zeros((*(2 * size for size in x.shape),), x.dtype)
    wide[(slice(None, None, 2),) * x.ndim] = x
    yield "gaps", wide[(slice(None, None, 2),) * x.ndim]
    back = np.ascontiguousarray(x[..., ::-1])
    yield "last axis backwards", back[..., ::-1]
    loose = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape)
    yield "unaligned", loose
    if x.ndim > 1:
        yield "batch axes swapped", np.ascontiguousarray(x.swapaxes(0, -2)).swapaxes(0, -2)


def values(element: Element, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random stored values of an element; floats of all sizes, with zeros, infinities and NaN among them."""
    if element.kind is Kind.FLOAT and element.storage.startswith("float"):
        size = np.ldexp(rng.standard_normal(shape), rng.integers(-12, 12, shape))
        odd = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan]), shape)
        return np.where(rng.random(shape) < 0.1, odd, size).astype(element.storage)
    if element.kind is Kind.FLOAT:
        return rng.integers(0, 1 << element.bits, shape).astype(element.storage)
    if element.kind is Kind.SIGN:
        return rng.choice(np.array([-1, 1] if element.name == "b1" else [-1, 0, 1], np.int8), shape)
    low, high = (0, 255) if element.is_format else (element.low, element.high)
    return rng.integers(low, high, shape, np.uint64 if low == 0 else np.int64, endpoint=True).astype(element.storage)


def fronts(rng: np.random.Generator, count: int, full: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Batch axes for operands: each of full size or of size 1, one operand with all of them full."""
    chosen = [tuple(int(size) if rng.random() < 0.6 else 1 for size in full) for _ in range(count)]
    if count:
        chosen[int(rng.integers(count))] = full
    return chosen


def rough(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Array:
    """Floats of many sizes, so that the bits of a sum show its order."""
    return np.ldexp(rng.standard_normal(shape), rng.integers(-15, 15, shape)).astype(dtype)
