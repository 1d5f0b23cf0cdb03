"""Laws of the whole table, generated over its rows: batching, what may be a view, and that no row is missing.

For each row operands are found by asking its type rule about every element of a palette, so a new row takes part at
once; a row whose operands are not a few arrays of one element needs a template here.
"""

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pytest
from row_cases import assert_same, bare, fronts, plant, values

from bittern.graph.flow import viewed
from bittern.graph.node import node, param
from bittern.ops.table import OPS, Array, Op, Site, ops
from bittern.types.dims import Dim, dim
from bittern.types.elements import (
    B1,
    BF16,
    BIT,
    ELEMENTS,
    F16,
    F32,
    F64,
    FORMATS,
    I8,
    I32,
    I64,
    U8,
    U32,
    U64,
    Element,
    T,
)
from bittern.types.faults import TypeFault
from bittern.types.values import Tensor, Type, storage_shape

PALETTE = [BIT, B1, T, ELEMENTS["u3"], ELEMENTS["i5"], U8, I8, ELEMENTS["i16"], U32, I64, U64, F16, BF16, F32, F64]
PALETTE.append(FORMATS["q4_0"])
WHOLE_NAMES = """
add sub mul div rem min max neg abs sqrt add_sat sub_sat mul_high round_even floor ceil trunc
eq ne lt le select
and or xor not shl shr rotl rotr popcount clz ctz reverse_bits reverse_bytes extract deposit bits from_bits
convert wrap sat round sign pack unpack blocks
reshape permute reverse slice concat stack pad broadcast fill iota size windows
take dynamic_slice update scatter scatter_add lookup
sum product max_of min_of argmax argmin all_of any_of xor_of dot scan_sum scan_max scan_xor
move read write send receive now entropy
exp log pow sin cos tanh erf
"""

Shape: TypeAlias = tuple[int, ...]
Operand: TypeAlias = tuple[Element | None, Shape]  # None: each element of the palette
Template: TypeAlias = tuple[tuple[Operand, ...], dict[str, Any]]
Case: TypeAlias = tuple[tuple[Tensor, ...], dict[str, Any], Tensor]

X: Operand = (None, (4, 2, 64))
ROW: Operand = (None, (3,))
ONE: Operand = (U32, ())
MANY: Operand = (U32, (3,))


def templates(name: str) -> list[Template]:
    """The operands and attributes to try for a row."""
    known: dict[str, list[Template]] = {
        "select": [(((BIT, (3,)), ROW, ROW), {})],
        "pack": [(((None, (9,)),), {"bits": k}) for k in range(1, 9)],
        "unpack": [(((U8, (9,)),), {"to": to, "count": dim(5)}) for to in PALETTE],
        "from_bits": [((x,), {"to": to}) for to in PALETTE for x in (ROW, (U8, (3, 2)), (U8, (3, 4)), (U8, (3, 8)))],
        "reshape": [((X,), {"shape": (2, 4, 64)}), ((X,), {"shape": (512,)})],
        "permute": [((X,), {"axes": axes}) for axes in ((1, 0, 2), (2, 0, 1))],
        "reverse": [((X,), {"axis": axis}) for axis in (0, 2)],
        "slice": [((X,), {"axis": 0, "low": 1, "high": 4, "stride": 2})],
        "concat": [((X, (None, (1, 2, 64))), {"axis": 0}), ((X, X, X), {"axis": 2})],
        "stack": [((X, X), {"axis": axis}) for axis in (0, 1, 3)] + [(((None, ()),) * 3, {"axis": 0})],
        "pad": [((X, (None, ())), {"axis": axis, "before": 2, "after": 1}) for axis in (0, 2)],
        "broadcast": [((X,), {"shape": (2, 3)}), (((None, ()),), {"shape": (70, 80)})],
        "fill": [(((None, ()),), {"shape": (2, 3)})],
        "iota": [((), {"count": 5})],
        "size": [((), {"value": 5})],
        "windows": [((X,), {"axis": 0, "size": 2, "stride": 1, "dilation": 2})],
        "blocks": [((X,), {})],
        "take": [
            ((X, ONE), {}),
            ((X, MANY), {}),
            ((X, ONE, MANY), {}),
            ((X, (U32, (2, 2)), ONE), {}),
            ((ROW, ONE), {}),
        ],
        "dynamic_slice": [((X, ONE), {"length": 2})],
        "update": [((X, ONE, (None, (2, 64))), {}), ((X, ONE, ONE, (None, (64,))), {}), ((ROW, ONE, (None, ())), {})],
        "scatter": [((X, MANY, (None, (3, 2, 64))), {}), ((X, ONE, MANY, (None, (3, 64))), {})],
        "scatter_add": [((X, MANY, (None, (3, 2, 64))), {}), ((X, MANY, ONE, (None, (3, 64))), {})],
        "lookup": [(((None, (8,)), (ELEMENTS["u3"], (5,))), {}), (((None, (256,)), (U8, ())), {})],
        "dot": [(((None, (40,)),) * 2, {"to": to}) for to in (I32, I64, F32, F64)],
        "move": [((X,), {"space": "device"})],
    }
    if name in known:
        return known[name]
    if name.startswith("scan_") or name.endswith("_of") or name in ("sum", "product", "argmax", "argmin"):
        return [(((None, (37,)),), {})]
    counts = [(U32, (3,))] if name in ("shl", "shr", "rotl", "rotr") else [ROW]
    arguments: list[tuple[Operand, ...]] = [(ROW,), (ROW, *counts), (ROW, ROW, ROW)]
    return [(given, {} if to is None else {"to": to}) for given in arguments for to in (None, *PALETTE)]


def cases(row: Op) -> Iterator[Case]:
    """Yield operands that the row's own rule accepts, with its attributes and result type."""
    seen: set[tuple[tuple[Tensor, ...], str]] = set()
    for operands, attributes in templates(row.name):
        for element in PALETTE:
            shapes = [(element if e is None else e, shape) for e, shape in operands]
            if any(e.is_format and (not shape or shape[-1] % e.columns) for e, shape in shapes):
                continue
            types = tuple(Tensor(e, tuple(dim(n) for n in shape)) for e, shape in shapes)
            if (types, repr(attributes)) in seen or (types, "{}") in seen:  # it needs no attribute
                continue
            try:
                result = row.rule(types, attributes)
            except TypeFault:
                continue
            assert isinstance(result, Tensor), row.name
            seen.add((types, repr(attributes)))
            yield types, {k: v.constant if isinstance(v, Dim) else v for k, v in attributes.items()}, result


def operand(type_: Tensor, front: Shape, place: int, ideal: bool, rng: np.random.Generator) -> Array:
    """A random operand with batch axes, not always contiguous; u32 behind the first one are places and counts."""
    shape = (*front, *storage_shape(type_))
    if type_.element == U32 and place:
        return rng.choice(np.array([0, 0, 1, 1, 2, 3, 31, 2**32 - 1], np.uint32), shape)
    if ideal and type_.element.is_float:
        return rng.standard_normal(shape)
    x = values(type_.element, shape, rng)
    return np.flip(np.ascontiguousarray(np.flip(x, -1)), -1) if x.ndim and rng.random() < 0.5 else x


def check_batching(row: Op, case: Case, seed: int, ideal: bool) -> None:
    """Over batch axes, also of size 1, a row gives what it gives element by element."""
    types, attributes, result = case
    rng = np.random.default_rng(seed)
    full = (2, 3)
    given = [
        operand(t, f, k, ideal, rng) for k, (t, f) in enumerate(zip(types, fronts(rng, len(types), full), strict=True))
    ]
    before = [x.copy() for x in given]
    whole = bare(row.name, Site(2, types, result, attributes, ideal), *given)
    assert whole.shape[2:] == storage_shape(result), (row.name, whole.shape, result)
    assert all(size in (1, limit) for size, limit in zip(whole.shape[:2], full, strict=True)), (row.name, whole.shape)
    whole = np.broadcast_to(whole, (*full, *whole.shape[2:]))
    for i, j in np.ndindex(*full):
        one = [np.asarray(x[i % x.shape[0], j % x.shape[1]]) for x in given]
        single = bare(row.name, Site(0, types, result, attributes, ideal), *one)
        if ideal and single.dtype.kind == "f":
            np.testing.assert_allclose(whole[i, j], single, rtol=1e-12, atol=1e-12, err_msg=row.name)
        else:
            assert_same(whole[i, j], single, row.name, attributes)
            assert ideal or single.dtype == np.dtype(result.element.storage), (row.name, single.dtype)
        scalars = [x[()] if x.ndim == 0 else x for x in one]  # numpy scalars are as good as arrays
        assert np.asarray(bare(row.name, Site(0, types, result, attributes, ideal), *scalars)).shape == single.shape
    for x, old in zip(given, before, strict=True):
        assert x.tobytes() == old.tobytes(), row.name
    check_views(row, case, given, ideal)


def check_views(row: Op, case: Case, given: list[Array], ideal: bool) -> None:
    """A result shares memory only with the operands of which the evaluator knows it (`flow.viewed`)."""
    types, attributes, result = case
    made = node(row.name, [param(k, t) for k, t in enumerate(types)], attributes, result)
    allowed = viewed(made, ideal)
    for lead in (0, 2):
        parts = given if lead else [np.asarray(x[0, 0]) for x in given]
        found = bare(row.name, Site(lead, types, result, attributes, ideal), *parts)
        for place, x in enumerate(parts):
            assert place in allowed or not np.shares_memory(found, x), (row.name, place)


def check_row(row: Op) -> None:
    accepted = 0
    for case in cases(row):
        for seed in range(4):
            if not row.ideal_only:
                check_batching(row, case, seed, ideal=False)
            check_batching(row, case, seed, ideal=True)
        accepted += 1
    assert accepted, f"no operands known for `{row.name}`: add a template"


PURE = [row for row in ops().values() if row.effect is None]


@pytest.mark.parametrize("name", [row.name for row in PURE])
def test_batching(name: str) -> None:
    check_row(OPS[name])


@pytest.mark.parametrize("name", [row.name for row in PURE])
def test_batches_of_no_elements(name: str) -> None:
    """A map over nothing: operands with a batch axis of size 0."""
    row = OPS[name]
    for types, attributes, result in cases(row):
        for empty in range(max(1, len(types))):
            rng = np.random.default_rng(0)
            ideal = row.ideal_only
            given = [operand(t, (0 if k == empty else 1,), k, ideal, rng) for k, t in enumerate(types)]
            found = bare(name, Site(1, types, result, attributes, ideal), *given)
            assert found.shape == (0 if types else 1, *storage_shape(result)), (name, found.shape)


def test_the_table_is_whole() -> None:
    """Every op that the language knows has one row, and no other exists."""
    assert sorted(ops()) == sorted(WHOLE_NAMES.split())


def test_rows_say_what_they_are() -> None:
    for name, row in ops().items():
        assert row.name == name
        assert row.doc and "\n" not in row.doc and row.doc[-1] != "." and len(row.doc) < 110, (name, row.doc)
        assert not (row.ideal_only and row.ideal), name


def test_wrong_numbers_of_operands_are_faults() -> None:
    """No rule reads operands that are not there, or passes over one too many."""
    variadic = ("concat", "stack", "take", "update", "scatter", "scatter_add")
    for row in PURE:
        for types, attributes, _ in cases(row):
            less: tuple[Type, ...] = types[:-1]
            if types and row.name not in variadic:
                with pytest.raises(TypeFault):
                    row.rule(less, attributes)
            if row.name not in variadic:
                with pytest.raises(TypeFault):
                    row.rule((*types, Tensor(U32, (dim(3),))), attributes)
            break


def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def over_the_batch(site: Site, x: Array) -> Array:
        return (
            np.asarray(np.add.reduce(x, 0, dtype=x.dtype))
            if site.lead
            else np.asarray(np.add.reduce(x, -1, dtype=x.dtype))
        )

    def first_of_the_batch(site: Site, x: Array, *indices: Array) -> Array:
        place = tuple(int(i.reshape(-1)[0]) % n for i, n in zip(indices, x.shape[site.lead :], strict=False))
        return np.asarray(x[(slice(None),) * site.lead + place])

    def writes_its_operand(site: Site, x: Array) -> Array:
        return np.negative(x, out=x)

    for name, fault in (
        ("sum", over_the_batch),
        ("take", first_of_the_batch),
        ("neg", writes_its_operand),
        ("add", lambda site, x, y: x),
    ):
        plant(monkeypatch, name, fault)
        with pytest.raises(AssertionError):
            check_row(OPS[name])
