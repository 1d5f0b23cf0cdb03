"""Random graphs: prepared programs equal the plain interpreter bit for bit, whatever is folded, donated or copied."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from growing import grow
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain import interpret

from bittern.graph import batch, control, extent
from bittern.graph.evaluate import prepare
from bittern.graph.flow import FRESH
from bittern.graph.node import Function
from bittern.graph.prepare import Builder
from bittern.graph.program import Action, Program
from bittern.ops.table import Site, ops
from bittern.types.elements import BIT, F32, F64, I32, U8, U32, Element
from bittern.types.values import Tensor, tensor


def bits(array: Any) -> np.ndarray:
    """Return the bits of an array, any NaN as the same one."""
    array = np.asarray(array)
    if array.dtype.kind != "f":
        return array
    whole = np.ascontiguousarray(array).view(f"u{array.itemsize}")
    return np.where(np.isnan(array), np.uint64(1) << np.uint64(63), whole)


def equal(results: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether all leaves have the same element, shape and bits."""
    return all(
        np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(bits(a), bits(b))
        for a, b in zip(results, wanted, strict=True)
    )


def agrees(function: Function, arguments: list[np.ndarray], wanted: Sequence[Any]) -> bool:
    """Whether every way of preparing gives the wanted result, twice, and leaves its arguments alone."""
    kept = [argument.copy() for argument in arguments]
    program = prepare(function)
    first, second = program(*arguments), program(*arguments)
    partly = prepare(function, constants={0: arguments[0], 2: arguments[2]})(arguments[1], arguments[3])
    known = prepare(function, constants=dict(enumerate(arguments)))
    donated = prepare(function, donated=frozenset(range(4)))(*(argument.copy() for argument in arguments))
    if known.steps:
        return False
    results = (first, second, partly, known(), donated)
    return all(equal(result, wanted) for result in results) and equal(arguments, kept)


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32 - 1))
@example(160)
@example(8688)
def test_random_graphs(seed: int) -> None:
    function, arguments = grow(seed)
    assert agrees(function, arguments, interpret(function, list(arguments)))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_folding_and_overwriting_change_no_bit(seed: int) -> None:
    function, arguments = grow(seed)
    wanted = prepare(function)(*arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Builder, "is_exclusive", lambda self, value, others: False)
        assert equal(prepare(function)(*arguments), wanted)
    with pytest.MonkeyPatch.context() as patch:
        apply = Builder.apply
        patch.setattr(Builder, "apply", lambda self, *args, fold=False, **options: apply(self, *args, **options))
        assert equal(prepare(function)(*arguments), wanted)


@pytest.fixture
def tiny_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every map runs in parts of a few bytes."""
    for name, size in (("_WHOLE", 0), ("_PART", 12), ("_FOLDED", 0), ("_FOLDED_PART", 8), ("_SHARE", 0)):
        monkeypatch.setattr(extent, name, size)


@pytest.mark.usefixtures("tiny_parts")
def test_maps_in_parts_change_no_bit() -> None:
    for seed in range(60):
        function, arguments = grow(seed)
        assert agrees(function, arguments, interpret(function, list(arguments))), seed


def _first_part_only(body: Program, arrays: int, lead: int, length: int, size: int) -> Action:
    whole = batch.in_parts(body, arrays, lead, length, size)
    only = batch.in_parts(body, arrays, lead, length, length)
    part = (*(slice(None),) * lead, slice(0, size))
    return lambda *values: [
        np.concatenate([a[part], b[(*part[:-1], slice(0, length - size))]], lead)
        for a, b in zip(whole(*values), only(*values), strict=True)
    ]


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "always in place": lambda patch: patch.setattr(
        Builder, "is_exclusive", lambda self, value, others: value.array is None
    ),
    "aliases forgotten": lambda patch: patch.setattr(
        Builder, "is_exclusive", lambda self, value, others: value.array is None and value.roots <= self._owned
    ),
    "no copy on entry": lambda patch: patch.setattr(control._Loop, "_to_copy", lambda self: set()),
    "parts misplaced": lambda patch: patch.setattr("bittern.graph.prepare.in_parts", _first_part_only),
    "masks off": lambda patch: patch.setattr(batch, "merge", lambda mask, new, old, ranks: tuple(new)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_random_graphs_find_planted_faults(
    fault: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    cases = [grow(seed) for seed in range(120)]
    if fault == "parts misplaced":
        request.getfixturevalue("tiny_parts")
    FAULTS[fault](monkeypatch)
    for function, arguments in cases:
        wanted = interpret(function, list(arguments))
        try:
            result = prepare(function)(*arguments)
        except (AssertionError, IndexError, ValueError):
            return
        if not equal(result, wanted):
            return
    pytest.fail("no random graph noticed the fault")


# --- the table of what shares memory, against the rows themselves


def words(text: str) -> list[str]:
    return text.split()


def _operands(kind: str, n: int, element: Element) -> tuple[list[Tensor], Tensor, dict[str, Any]] | None:
    """Return operand types, result type and attributes with which a row can run, or None where it cannot."""
    whole = element.is_integer
    x = tensor(element, n)
    if kind in ("and", "or", "xor", "not") and not (whole or element == BIT):
        return None
    pairs = words("add sub mul div min max eq ne lt le")
    whole_pairs = words("rem add_sat sub_sat mul_high and or xor extract deposit")
    singles = words("neg abs")
    floats = words("sqrt round_even floor ceil trunc exp log sin cos tanh erf")
    whole_singles = words("not popcount clz ctz")
    rows = words("sum product max_of min_of argmax argmin scan_sum scan_max")
    if kind in pairs or (kind in whole_pairs and whole):
        return [x, x], tensor(BIT, n) if kind in ("eq", "ne", "lt", "le") else x, {}
    if kind in singles or (kind in whole_singles and whole) or (kind in floats and element.is_float):
        return [x], x, {}
    if kind in ("shl", "shr", "rotl", "rotr") and whole:
        return [x, tensor(U32, n)], x, {}
    if kind == "pow" and element.is_float:
        return [x, x], x, {}
    if kind == "select":
        return [tensor(BIT, n), x, x], x, {}
    if kind in rows:
        return [x], x if kind.startswith("scan") else tensor(U32 if kind.startswith("arg") else element), {}
    if kind in ("all_of", "any_of", "xor_of", "scan_xor") and whole:
        return [x], x if kind.startswith("scan") else tensor(element), {}
    if kind == "dot":
        to = element if element.is_float else I32 if element.bits <= 8 else None
        return None if to is None else ([x, x], tensor(to), {"to": to})
    if kind == "concat":
        return [x], x, {"axis": 0}
    if kind == "stack":
        return [x], tensor(element, 1, n), {"axis": 0}
    if kind == "pad":
        return [x, tensor(element)], x, {"axis": 0, "before": 0, "after": 0}
    if kind == "pack" and element == U8:
        return [x], x, {"bits": 8}
    if kind == "unpack" and element == U8:
        return [x], x, {"to": U8, "count": n}
    if kind == "lookup":
        return [tensor(element, 256), tensor(U8, n)], x, {}
    if kind == "iota" and element == U32:
        return [], x, {"count": n}
    if kind == "size" and element == U32:
        return [], tensor(U32), {"value": n}
    return None


@pytest.mark.parametrize("kind", sorted(FRESH))
def test_fresh_rows_never_return_a_view(kind: str) -> None:
    row, rng, tried = ops()[kind], Random(kind), 0
    for n in (1, 2, 8, 16, 17, 32):
        for element in (U8, U32, I32, F32, F64):
            for lead in (0, 1, 2):
                for ideal in (False, True):
                    case = _operands(kind, n, element)
                    if case is None or (row.ideal_only and not ideal):
                        continue
                    types, result, attributes = case
                    arrays = [_array(rng, type_, lead, ideal) for type_ in types]
                    meaning = row.ideal if ideal and row.ideal else row.meaning
                    with np.errstate(all="ignore"):
                        made = meaning(Site(lead, tuple(types), result, attributes, ideal), *arrays)
                    assert not any(np.may_share_memory(made, array) for array in arrays), (n, element, lead, ideal)
                    tried += 1
    assert tried


def _array(rng: Random, type_: Tensor, lead: int, ideal: bool) -> np.ndarray:
    shape = (2,) * lead + tuple(size.value(()) for size in type_.shape)
    dtype = np.float64 if ideal and type_.element.is_float else np.dtype(type_.element.storage)
    return np.array([rng.randrange(2) for _ in range(int(np.prod(shape)))], dtype).reshape(shape)


def test_views_of_overlapping_elements_cannot_be_written() -> None:
    x, site = np.arange(6, dtype=np.uint32), {"axis": 0, "size": 3, "stride": 1, "dilation": 1}
    windows = ops()["windows"].meaning(Site(0, (tensor(U32, 6),), tensor(U32, 4, 3), site), x)
    wide = ops()["broadcast"].meaning(Site(0, (tensor(U32, 6),), tensor(U32, 2, 6), {"shape": (2,)}), x)
    filled = ops()["fill"].meaning(Site(0, (tensor(U32),), tensor(U32, 6), {"shape": (6,)}), np.asarray(np.uint32(1)))
    assert not any(array.flags.writeable for array in (windows, wide, filled))
