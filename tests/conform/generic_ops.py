"""Generated nodes of every primitive op: all elements and shapes that its rule accepts, as one function for each op."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from bittern.graph.node import Function, Node, Parameter, make_tuple, node, param
from bittern.graph.rules import result_type
from bittern.ops.table import OPS, ops
from bittern.types.dims import dim
from bittern.types.elements import BIT, ELEMENTS, U8, U32
from bittern.types.faults import TypeFault
from bittern.types.values import Tensor, tensor

ops()
PLAIN = [e for e in ELEMENTS.values() if not e.is_format]
REFUSED = {name for name, row in OPS.items() if row.ideal_only or row.effect}
Case = tuple[Sequence[Tensor], dict[str, Any]]

_PAIRS = frozenset(
    (
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "min",
        "max",
        "add_sat",
        "sub_sat",
        "mul_high",
        "eq",
        "ne",
        "lt",
        "le",
        "and",
        "or",
        "xor",
        "extract",
        "deposit",
    )
)
_SINGLE = frozenset(
    (
        "neg",
        "abs",
        "sqrt",
        "round_even",
        "floor",
        "ceil",
        "trunc",
        "not",
        "popcount",
        "clz",
        "ctz",
        "reverse_bits",
        "reverse_bytes",
        "bits",
    )
)
_SHIFTS = frozenset(("shl", "shr", "rotl", "rotr"))
_TO = frozenset(("convert", "wrap", "sat", "round", "sign", "from_bits"))
_REDUCED = frozenset(
    (
        "sum",
        "product",
        "max_of",
        "min_of",
        "argmax",
        "argmin",
        "all_of",
        "any_of",
        "xor_of",
        "scan_sum",
        "scan_max",
        "scan_xor",
    )
)
_SHAPES: tuple[tuple[int, ...], ...] = ((), (19,), (2, 34))
_LENGTHS: tuple[tuple[int, ...], ...] = ((0,), (5,), (1, 37), (2, 68))


def _dims(*sizes: int) -> tuple[Any, ...]:
    return tuple(dim(size) for size in sizes)


def _of_shape(kind: str) -> Iterator[Case]:
    for e in (ELEMENTS[name] for name in ("f32", "u8", "bit", "f16", "i4", "u64")):
        x = tensor(e, 4, 6)
        table: dict[str, list[Case]] = {
            "reshape": [([x], {"shape": _dims(3, 8)}), ([x], {"shape": _dims(24)}), ([tensor(e, 1)], {"shape": ()})],
            "permute": [([x], {"axes": (1, 0)}), ([tensor(e, 2, 3, 20)], {"axes": (2, 0, 1)})],
            "reverse": [([x], {"axis": 0}), ([x], {"axis": 1})],
            "slice": [
                ([x], {"axis": 1, "low": dim(1), "high": dim(6), "stride": 2}),
                ([tensor(e, 40)], {"axis": 0, "low": dim(3), "high": dim(36), "stride": 1}),
            ],
            "concat": [([x, x, tensor(e, 4, 1)], {"axis": 1}), ([x, tensor(e, 0, 6), x], {"axis": 0})],
            "stack": [([x, x], {"axis": 0}), ([x, x, x], {"axis": 2}), ([tensor(e), tensor(e)], {"axis": 0})],
            "pad": [([x, tensor(e)], {"axis": 1, "before": dim(2), "after": dim(3)})],
            "broadcast": [([x], {"shape": _dims(3)}), ([tensor(e)], {"shape": _dims(2, 9)})],
            "fill": [([tensor(e)], {"shape": _dims(5, 7)})],
            "windows": [([tensor(e, 3, 20)], {"axis": 1, "size": dim(4), "stride": 3, "dilation": 2})],
            "move": [([x], {"space": "host"})],
        }
        yield from table.get(kind, [])


def _of_index(kind: str) -> Iterator[Case]:
    i, rows = tensor(U32), tensor(U32, 9)
    for e in (ELEMENTS[name] for name in ("f32", "u8", "bit", "i4", "u64")):
        x, one = tensor(e, 4, 6), tensor(e)
        table: dict[str, list[Case]] = {
            "take": [
                ([x, i], {}),
                ([x, i, i], {}),
                ([x, rows], {}),
                ([x, rows, i], {}),
                ([x, rows, rows], {}),
                ([tensor(e, 5), tensor(U32, 2, 3)], {}),
            ],
            "dynamic_slice": [([x, i], {"length": dim(3)}), ([tensor(e, 40), i], {"length": dim(33)})],
            "update": [([x, i, tensor(e, 6)], {}), ([x, i, i, one], {}), ([tensor(e, 90), i, one], {})],
            "scatter": [
                ([x, rows, tensor(e, 9, 6)], {}),
                ([x, i, rows, tensor(e, 9)], {}),
                ([x, rows, rows, tensor(e, 9)], {}),
            ],
            "scatter_add": [([x, rows, tensor(e, 9, 6)], {}), ([tensor(e, 90), rows, tensor(e, 9)], {})],
            "lookup": [([tensor(e, 1 << bits), tensor(ELEMENTS[f"u{bits}"], 2, 9)], {}) for bits in (2, 4, 8)],
        }
        yield from table.get(kind, [])


def _of_bytes(kind: str) -> Iterator[Case]:
    for e in PLAIN:
        if kind == "from_bits" and e.bits > 8:
            yield [tensor(U8, 3, 20, e.bits // 8)], {"to": e}
            yield [tensor(U8, e.bits // 8)], {"to": e}
        if kind == "pack":
            for bits in range(1, 9):
                yield [tensor(e, 19)], {"bits": bits}
        if kind == "unpack" and 0 < e.bits <= 8:
            yield [tensor(U8, 20)], {"to": e, "count": dim(20 * 8 // e.bits)}
            yield [tensor(U8, 20)], {"to": e, "count": dim(17)}


def cases(kind: str) -> list[Case]:
    """Operand types and attributes for an op that its rule accepts."""
    found: list[Case] = []
    for shape in _SHAPES:
        for e in PLAIN:
            x = tensor(e, *shape)
            if kind in _PAIRS:
                found.append(([x, x], {}))
            if kind in _SINGLE:
                found.append(([x], {}))
            if kind in _SHIFTS:
                found.append(([x, tensor(U32, *shape)], {}))
            if kind == "select":
                found.append(([tensor(BIT, *shape), x, x], {}))
            if kind in _TO and shape == (19,):
                found += [([x], {"to": to}) for to in PLAIN]
    for shape, e in itertools.product(_LENGTHS, PLAIN):
        if kind in _REDUCED:
            found.append(([tensor(e, *shape)], {}))
        if kind == "dot":
            found += [([tensor(e, *shape)] * 2, {"to": ELEMENTS[to]}) for to in ("i32", "i64", "f32", "f64")]
            pairs = [[tensor(e, *shape), tensor(ELEMENTS[other], *shape)] for other in ("bit", "b1", "i4", "u8", "i16")]
            found += [(pair, {"to": ELEMENTS[to]}) for pair in pairs for to in ("i32", "i64")]
    if kind == "iota":
        found += [([], {"count": dim(n)}) for n in (0, 5, 300)]
    if kind == "size":
        found += [([], {"value": dim(n)}) for n in (0, 7, (1 << 32) + 3)]
    if kind == "blocks":
        found.append(([tensor(ELEMENTS["q4_0"], 3, 64)], {}))
    found += [*_of_shape(kind), *_of_index(kind), *_of_bytes(kind)]
    return [case for case in found if _accepted(kind, *case)]


def _accepted(kind: str, types: Sequence[Tensor], attributes: dict[str, Any]) -> bool:
    try:
        result_type(kind, list(types), attributes)
    except (TypeFault, KeyError):
        return False
    return True


def function_of(kind: str, chosen: Sequence[Case], strided: bool = False) -> Function:
    """One function that returns the op for every case. strided: operands are every second element of larger ones."""
    parameters: list[Parameter] = []
    results: list[Node] = []
    for types, attributes in chosen:
        inputs = []
        for type_ in types:
            wide = strided and bool(type_.shape) and not type_.element.is_format
            given = Tensor(type_.element, (*type_.shape[:-1], type_.shape[-1] * 2)) if wide else type_
            x = param(len(parameters), given)
            parameters.append(Parameter(given))
            if wide:
                axis = len(type_.shape) - 1
                part: dict[str, Any] = {"axis": axis, "low": dim(0), "high": type_.shape[-1] * 2, "stride": 2}
                x = node("slice", [x], part, type_)
            inputs.append(x)
        results.append(node(kind, inputs, attributes, result_type(kind, list(types), attributes)))
    return Function(0, tuple(parameters), results[0] if len(results) == 1 else make_tuple(results))
