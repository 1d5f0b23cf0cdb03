"""Every rule of layout: what it makes has the same values in the same places, shown on arrays of distinct numbers.

Rows move values and never look at them, so what holds for distinct numbers holds for all of that shape.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from pass_cases import function, op, same_bits, word

from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, Node, const
from bittern.passes.layout import rewritten
from bittern.passes.layout_rules import ELEMENTWISE, ROWS, Layout
from bittern.passes.rewriting import map_graph
from bittern.types.dims import dim
from bittern.types.elements import F32, I32, U32
from bittern.types.values import Tensor, storage_shape, tensor

Make = Callable[..., Node]
LINE, TABLE, CUBE, ROW = tensor(I32, 6), tensor(I32, 4, 6), tensor(I32, 2, 3, 4), tensor(I32, 1, 6)


def sizes(*numbers: int) -> tuple[object, ...]:
    return tuple(dim(number) for number in numbers)


def cut(x: Node, low: int, high: int, stride: int = 1, axis: int = 0) -> Node:
    return op("slice", x, axis=axis, low=dim(low), high=dim(high), stride=stride)


def take(x: Node, *places: int) -> Node:
    return op("take", x, *map(word, places))


def update(x: Node, place: int, value: Node) -> Node:
    return op("update", x, word(place), value)


def seven(*shape: int) -> Node:
    return op("broadcast", const(7, I32), shape=sizes(*shape))


# rule -> parameter types and what makes a node that it changes
CASES: dict[str, list[tuple[Sequence[Tensor], Make]]] = {
    "same_shape": [([TABLE], lambda x: op("reshape", x, shape=sizes(4, 6)))],
    "reshape_twice": [([TABLE], lambda x: op("reshape", op("reshape", x, shape=sizes(24)), shape=sizes(2, 12)))],
    "permute_same": [([CUBE], lambda x: op("permute", x, axes=(0, 1, 2)))],
    "permute_twice": [
        ([CUBE], lambda x: op("permute", op("permute", x, axes=(1, 2, 0)), axes=(1, 2, 0))),
        ([CUBE], lambda x: op("permute", op("permute", x, axes=(2, 0, 1)), axes=(0, 2, 1))),
        ([tensor(I32, 3, 3, 3)], lambda x: op("permute", op("permute", x, axes=(2, 0, 1)), axes=(0, 2, 1))),
    ],
    "permute_of_ones": [([tensor(I32, 3, 1, 4)], lambda x: op("permute", x, axes=(1, 0, 2)))],
    "reverse_twice": [([TABLE], lambda x: op("reverse", op("reverse", x, axis=1), axis=1))],
    "reverse_one": [([ROW], lambda x: op("reverse", x, axis=0))],
    "of_spread": [
        ([LINE], lambda x: op("reshape", seven(4, 6), shape=sizes(24))),
        ([LINE], lambda x: cut(seven(6), 1, 4)),
        ([tensor(I32)], lambda x: op("reverse", op("fill", x, shape=sizes(5)), axis=0)),
    ],
    "broadcast_twice": [([LINE], lambda x: op("broadcast", op("broadcast", x, shape=sizes(2)), shape=sizes(3)))],
    "broadcast_of_none": [([LINE], lambda x: op("broadcast", x, shape=()))],
    "done_once": [
        ([tensor(I32)], lambda x: op("add", op("fill", x, shape=sizes(4)), seven(4))),
        ([tensor(I32)], lambda x: op("convert", op("fill", x, shape=sizes(4)), to=F32)),
    ],
    "move_nowhere": [([Tensor(I32, LINE.shape, "host")], lambda x: op("move", x, space="host"))],
    "slice_whole": [([TABLE], lambda x: cut(x, 0, 6, axis=1))],
    "slice_twice": [
        ([LINE], lambda x: cut(cut(x, 1, 6), 1, 4)),
        ([tensor(I32, 20)], lambda x: cut(cut(x, 1, 18, 3), 1, 6, 2)),
        ([tensor(I32, 20)], lambda x: cut(cut(x, 2, 20), 1, 17, 4)),
    ],
    "slice_of_concat": [([LINE, LINE], lambda x, y: cut(op("concat", x, y, axis=0), 7, 11, 2))],
    "slice_of_stack": [([LINE, LINE, LINE], lambda x, y, z: cut(op("stack", x, y, z, axis=0), 0, 3, 2))],
    "concat_one": [([TABLE], lambda x: op("concat", x, axis=1))],
    "concat_nested": [([LINE, LINE], lambda x, y: op("concat", x, op("concat", y, x, axis=0), axis=0))],
    "concat_empty": [([LINE, tensor(I32, 0)], lambda x, y: op("concat", y, x, y, axis=0))],
    "concat_of_slices": [
        ([LINE], lambda x: op("concat", cut(x, 0, 2), cut(x, 2, 5), axis=0)),
        ([LINE, LINE], lambda x, y: op("concat", y, cut(x, 1, 2), cut(x, 2, 5), cut(x, 1, 2), axis=0)),
    ],
    "take_of_spread": [([tensor(U32)], lambda i: op("take", seven(3, 2), i))],
    "take_of_broadcast": [([LINE, tensor(U32)], lambda x, i: op("take", op("broadcast", x, shape=sizes(2, 3)), i))],
    "take_of_stack": [
        ([LINE, LINE], lambda x, y: take(op("stack", x, y, axis=0), 1)),
        ([LINE, LINE], lambda x, y: take(op("stack", x, y, axis=0), 9)),
        ([LINE, LINE], lambda x, y: take(op("stack", x, y, axis=0), 0, 4)),
    ],
    "take_of_concat": [
        ([LINE, LINE], lambda x, y: take(op("concat", x, y, axis=0), 8)),
        ([TABLE, TABLE], lambda x, y: take(op("concat", x, y, axis=0), 99, 2)),
    ],
    "take_of_slice": [([LINE], lambda x: take(cut(x, 1, 6, 2), 2)), ([LINE], lambda x: take(cut(x, 1, 6, 2), 7))],
    "take_of_take": [([CUBE, tensor(U32)], lambda x, i: op("take", op("take", x, i), word(1), i))],
    "take_of_update": [
        ([LINE, tensor(I32)], lambda x, v: take(update(x, 3, v), 3)),
        ([LINE, tensor(I32)], lambda x, v: take(update(x, 3, v), 4)),
        ([LINE, tensor(I32)], lambda x, v: take(update(x, 8, v), 9)),
        ([TABLE, LINE], lambda x, v: take(update(x, 3, v), 3, 1)),
    ],
    "take_of_iota": [
        ([LINE], lambda x: take(op("iota", count=dim(9)), 5)),
        ([], lambda: take(op("iota", count=dim(9)), 50)),
    ],
    "only_element": [([ROW, tensor(U32)], lambda x, i: op("take", x, i))],
    "update_of_known": [
        ([LINE, tensor(I32)], lambda x, v: update(x, 2, v)),
        ([LINE, tensor(I32)], lambda x, v: update(x, 6, v)),
        ([LINE, LINE], lambda x, y: update(op("stack", x, y, axis=0), 1, x)),
    ],
    "stack_of_takes": [([TABLE], lambda x: op("stack", *(take(x, k) for k in range(4)), axis=0))],
    "stack_one": [([LINE], lambda x: op("stack", x, axis=1))],
    "stack_of_same": [([LINE], lambda x: op("stack", x, x, x, axis=0))],
    "known_slice": [
        ([LINE], lambda x: op("dynamic_slice", x, word(1), length=dim(3))),
        ([LINE], lambda x: op("dynamic_slice", x, word(9), length=dim(4))),
    ],
}
FLAT = [(name, number) for name, cases in CASES.items() for number in range(len(cases))]


def distinct(types: Sequence[Tensor]) -> list[np.ndarray]:
    """Return arrays in which no number occurs twice; a scalar u32 is a place beyond every axis."""
    made, start = [], 1
    for type_ in types:
        shape = storage_shape(type_)
        count = int(np.prod(shape))
        made.append(np.arange(start, start + count).reshape(shape).astype(type_.element.storage))
        start += count
    return made


def changed(old: Function) -> Function:
    """Return a function whose result was changed by the first row that matches."""
    return map_graph(old, lambda current, before: (rewritten(current) or current) if before is old.result else current)


@pytest.mark.parametrize(("name", "number"), FLAT)
def test_every_row_keeps_every_value_in_its_place(name: str, number: int) -> None:
    types, make = CASES[name][number]
    old = function(types, make)
    row = next(row for row in ROWS if row.name == name)
    made = row.change(old.result)
    assert made is not None and made is not old.result and made.type == old.result.type
    new = function(types, lambda *_: made)
    given = distinct(types)
    assert same_bits(evaluate(old, given), evaluate(new, given))
    assert same_bits(evaluate(changed(old), given), evaluate(old, given))


def test_every_row_has_a_case() -> None:
    assert [row.name for row in ROWS if row.name not in CASES] == []
    assert len({row.name for row in ROWS}) == len(ROWS) and all(row.doc for row in ROWS)


def test_what_a_row_cannot_tell_it_leaves() -> None:
    for types, make in (
        ([LINE], lambda x: cut(x, 1, 6)),
        ([LINE, tensor(U32)], lambda x, i: op("take", op("stack", x, x, axis=1), i)),
        ([LINE, tensor(U32), tensor(I32)], lambda x, i, v: op("take", op("update", x, i, v), word(1))),
        ([LINE, LINE], lambda x, y: cut(op("concat", x, y, axis=0), 4, 8)),
        ([TABLE], lambda x: op("permute", x, axes=(1, 0))),
    ):
        assert rewritten(function(types, make).result) is None


WRONG: dict[str, Callable[[Node], Node | None]] = {
    "a slice of a slice without the stride": lambda n: (
        cut(n.inputs[0].inputs[0], 2, 5) if n.kind == "slice" and n.inputs[0].kind == "slice" else None
    ),
    "permutations composed the wrong way": lambda n: (
        op("permute", n.inputs[0].inputs[0], axes=tuple(n["axes"][a] for a in n.inputs[0]["axes"]))  # type: ignore[index,misc,union-attr]
        if n.kind == "permute" and n.inputs[0].kind == "permute"
        else None
    ),
    "the other part of a stack": lambda n: n.inputs[0].inputs[0] if n.inputs and n.inputs[0].kind == "stack" else None,
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_planted_wrong_row_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Layout("wrong", (), fault, WRONG[fault])
    for name, number in FLAT:
        types, make = CASES[name][number]
        old = function(types, make)
        made = wrong.change(old.result)
        if made is not None and made.type == old.result.type:
            new = function(types, lambda *_, made=made: made)
            if not same_bits(evaluate(old, distinct(types)), evaluate(new, distinct(types))):
                return
    pytest.fail("no case noticed the fault")


def test_elementwise_ops_depend_on_one_value_each() -> None:
    """Reversing operands reverses the result, for every op that is said to go element by element."""
    from bittern.ops.table import ops

    assert ops().keys() >= ELEMENTWISE
    for kind in sorted(ELEMENTWISE):
        node = _some(kind)
        given = [np.array([3, 0, 250, 7]).astype(i.type.element.storage) for i in node.inputs]  # type: ignore[union-attr]
        whole = function([i.type for i in node.inputs], lambda *_, node=node: node)
        back = [np.ascontiguousarray(array[::-1]) for array in given]
        assert same_bits(np.ascontiguousarray(evaluate(whole, given)[::-1]), evaluate(whole, back)), kind


def _some(kind: str) -> Node:
    """Return an op of this kind on arrays of four."""
    from bittern.graph.node import param
    from bittern.types.elements import B1, BIT, F64, I8
    from bittern.types.faults import TypeFault

    for count in (1, 2, 3):
        for element in (U32, F32, BIT):
            for first in (BIT, element):
                for last in (U32, element):
                    elements = [first, *[element] * (count - 2), last] if count > 1 else [element]
                    for to in (F64, I8, B1):
                        attributes = {"to": to} if kind in ("convert", "wrap", "sat", "round", "sign") else {}
                        inputs = [param(k, tensor(e, 4)) for k, e in enumerate(elements)]
                        try:
                            return op(kind, *inputs, **attributes)
                        except TypeFault:
                            continue
    raise AssertionError(kind)
