"""The type rule of every kind of node, and the check of a whole function.

Primitive ops have their rule in their row (`bittern.ops`); the rules of the structural kinds are here. What is checked
is what a reader of untrusted graphs must know: every type is the one that the rule gives, bodies fit their node,
symbols and parameters exist, and `ideal only` ops stand in ideal bodies alone.

A rule compares dimensions by normal form, first as they are, then rewritten with the facts of the function.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from bittern.base.errors import code, nearest
from bittern.graph.node import Attribute, Blob, Function, Node, walk
from bittern.ops.table import Op, ops
from bittern.types.dims import Dim, apply_facts
from bittern.types.elements import BIT, U32
from bittern.types.faults import ATTRIBUTE_UNFIT, ELEMENT_MISMATCH, RANK_UNFIT, SHAPE_MISMATCH, TypeFault
from bittern.types.values import Tensor, Tuple, Type, storage_shape, text
from bittern.types.values import substitute as substitute_type

KIND_UNKNOWN = code("F219", "a node has a kind that does not exist, or not there")

Facts: TypeAlias = Sequence[tuple[Dim, Dim]]
_COUNTER = Tensor(U32)
_CONDITION = Tensor(BIT)


@cache
def _table() -> Mapping[str, Op]:
    return ops()


def result_type(kind: str, types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts = ()) -> Type:
    """Return the type of a node of this kind with inputs of these types, or raise TypeFault.

    The type of a `param` or `const` is declared, so these have no rule.
    """
    rule = _RULES.get(kind)
    if rule is not None:
        return rule(types, attributes, facts)
    row = _table().get(kind)
    if row is None:
        raise TypeFault(KIND_UNKNOWN, f"the kind `{kind}`", "a structural kind or an op", nearest(kind, [*_table()]))
    try:
        return row.rule(tuple(types), attributes)
    except TypeFault:
        if not facts:
            raise
        rewritten = {name: _rewritten(value, facts) for name, value in attributes.items()}
        return row.rule(tuple(with_facts(t, facts) for t in types), rewritten)


def with_facts(type_: Type, facts: Facts) -> Type:
    """Return the type with its dimensions rewritten by the facts."""
    if isinstance(type_, Tensor):
        return Tensor(type_.element, tuple(apply_facts(size, facts) for size in type_.shape), type_.space)
    if isinstance(type_, Tuple):
        return Tuple(tuple(with_facts(item, facts) for item in type_.items))
    return type_


def is_same(left: Type, right: Type, facts: Facts = ()) -> bool:
    """Whether two types are equal under the facts."""
    return left == right or (bool(facts) and with_facts(left, facts) == with_facts(right, facts))


def _rewritten(value: Attribute, facts: Facts) -> Attribute:
    if isinstance(value, Dim):
        return apply_facts(value, facts)
    if isinstance(value, tuple):
        return tuple(_rewritten(item, facts) for item in value)
    return value


# --- structural kinds


def _expect(found: Type, expected: Type, facts: Facts, what: str) -> None:
    if not is_same(found, expected, facts):
        both = isinstance(found, Tensor) and isinstance(expected, Tensor) and found.element == expected.element
        raise TypeFault(SHAPE_MISMATCH if both else ELEMENT_MISMATCH, f"{what} is {text(found)}", text(expected))


def _expect_count(found: int, expected: int, what: str) -> None:
    if found != expected:
        raise TypeFault(RANK_UNFIT, f"{found} {what}", str(expected))


def _function(attributes: Mapping[str, Attribute], name: str) -> Function:
    value = attributes[name]
    if not isinstance(value, Function):
        raise TypeFault(ATTRIBUTE_UNFIT, f"`{name}` is no function", "a function")
    return value


def _number(attributes: Mapping[str, Attribute], name: str, low: int, high: int) -> int:
    value = attributes[name]
    if type(value) is not int or not low <= value <= high:
        raise TypeFault(ATTRIBUTE_UNFIT, f"`{name}` is {value!r}", f"a number from {low} to {high}")
    return value


def _takes(body: Function, types: Sequence[Type], facts: Facts, what: str) -> None:
    _expect_count(len(body.params), len(types), f"parameters of the {what}")
    for index, (parameter, given) in enumerate(zip(body.params, types, strict=True)):
        _expect(given, parameter.type, facts, f"input {index} of the {what}")


def _joined(types: Sequence[Type]) -> Type:
    return types[0] if len(types) == 1 else Tuple(tuple(types))


def _call(types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts) -> Type:
    function, dims = _function(attributes, "function"), attributes["dims"]
    if not isinstance(dims, tuple):
        raise TypeFault(ATTRIBUTE_UNFIT, "`dims` is no list of dimensions", "a list of dimensions")
    sizes = [size for size in dims if isinstance(size, Dim)]
    _expect_count(len(sizes) if len(sizes) == len(dims) else -1, function.dims, "dimension arguments")
    _expect_count(len(types), len(function.params), "arguments")
    for index, (parameter, given) in enumerate(zip(function.params, types, strict=True)):
        _expect(given, substitute_type(parameter.type, sizes), facts, f"argument {index}")
    for top, bottom in function.facts:
        rest = apply_facts(top.substitute(sizes) % bottom.substitute(sizes), facts)
        if rest.constant:
            raise TypeFault(SHAPE_MISMATCH, f"a remainder of {rest.constant}", "what the function asks for: 0")
    return substitute_type(function.result.type, sizes)


def _tuple(types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts) -> Type:
    return Tuple(tuple(types))


def _item(types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts) -> Type:
    _expect_count(len(types), 1, "inputs")
    whole = types[0]
    if not isinstance(whole, Tuple):
        raise TypeFault(ELEMENT_MISMATCH, text(whole), "a tuple")
    return whole.items[_number(attributes, "index", 0, len(whole.items) - 1)]


def _if(types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts) -> Type:
    then, otherwise = _function(attributes, "then"), _function(attributes, "otherwise")
    _expect(types[0], _CONDITION, facts, "the condition")
    _takes(then, types[1:], facts, "first branch")
    _takes(otherwise, types[1:], facts, "second branch")
    _expect(otherwise.result.type, then.result.type, facts, "the second branch")
    return then.result.type


def _for(types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts) -> Type:
    body = _function(attributes, "body")
    _expect(types[0], _COUNTER, facts, "the low bound")
    _expect(types[1], _COUNTER, facts, "the high bound")
    carries = _number(attributes, "carries", 1, len(types) - 2)
    _takes(body, [_COUNTER, *types[2:]], facts, "loop")
    _expect(body.result.type, _joined(types[2 : 2 + carries]), facts, "the result of the loop")
    return body.result.type


def _while(types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts) -> Type:
    test, body = _function(attributes, "test"), _function(attributes, "body")
    _expect(types[0], _COUNTER, facts, "the limit")
    carries = _number(attributes, "carries", 1, len(types) - 1)
    _takes(test, types[1:], facts, "condition")
    _takes(body, types[1:], facts, "loop")
    _expect(test.result.type, _CONDITION, facts, "the condition")
    _expect(body.result.type, _joined(types[1 : 1 + carries]), facts, "the result of the loop")
    return body.result.type


def _map(types: Sequence[Type], attributes: Mapping[str, Attribute], facts: Facts) -> Type:
    body, count = _function(attributes, "body"), attributes["count"]
    if not isinstance(count, Dim):
        raise TypeFault(ATTRIBUTE_UNFIT, "`count` is no dimension", "a dimension")
    mapped = _number(attributes, "mapped", 0, len(types))
    items: list[Type] = []
    for index, given in enumerate(types[:mapped]):
        if not isinstance(given, Tensor) or not given.shape:
            raise TypeFault(RANK_UNFIT, f"input {index} is {text(given)}", "an array")
        if apply_facts(given.shape[0], facts) != apply_facts(count, facts):
            raise TypeFault(SHAPE_MISMATCH, f"input {index} has {{0}} items", "{1}", dims=(given.shape[0], count))
        items.append(Tensor(given.element, given.shape[1:], given.space))
    _takes(body, [*items, *types[mapped:]], facts, "map")
    return stacked(body.result.type, count)


def stacked(type_: Type, count: Dim) -> Type:
    """Return the type of `count` such values: an array of each tensor."""
    if isinstance(type_, Tensor):
        return Tensor(type_.element, (count, *type_.shape), type_.space)
    if isinstance(type_, Tuple):
        return Tuple(tuple(stacked(item, count) for item in type_.items))
    raise TypeFault(ELEMENT_MISMATCH, text(type_), "a body without effects")


_Rule: TypeAlias = Callable[[Sequence[Type], Mapping[str, Attribute], Facts], Type]
_RULES: dict[str, _Rule] = {
    "call": _call,
    "tuple": _tuple,
    "item": _item,
    "if": _if,
    "for": _for,
    "while": _while,
    "map": _map,
}
_ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "param": ("index",),
    "const": ("data",),
    "call": ("dims", "function"),
    "tuple": (),
    "item": ("index",),
    "if": ("otherwise", "then"),
    "for": ("body", "carries"),
    "while": ("body", "carries", "test"),
    "map": ("body", "count", "mapped"),
}


# --- whole functions


@dataclass(frozen=True, slots=True)
class Setting:
    """What a function's nodes may rely on: number of dimension symbols, facts, and whether it is an ideal body."""

    dims: int
    facts: tuple[tuple[Dim, Dim], ...]
    ideal: bool


@dataclass(slots=True)
class NodeFault(Exception):
    """A node that breaks its rule. function: in which it stands. fault: what the rule says."""

    function: Function
    node: Node
    fault: TypeFault


def check(function: Function, *, ideal: bool = False, known: set[tuple[bytes, Setting]] | None = None) -> None:
    """Check a function with its bodies and its ideal body; callees are functions of their own and not entered.

    known: bodies that were checked before, which this call extends. Errors: NodeFault for the first node that is wrong.
    """
    done = set() if known is None else known
    work = [(function, Setting(function.dims, function.facts, ideal))]
    while work:
        current, setting = work.pop()
        if (current.id, setting) in done:
            continue
        done.add((current.id, setting))
        for node in walk(current.result):
            try:
                _check_node(node, current, setting)
            except TypeFault as fault:
                raise NodeFault(current, node, fault) from None
            if node.kind != "call":
                work.extend((body, setting) for _, body in node.attributes if isinstance(body, Function))
        if current.ideal is not None:
            work.append((current.ideal, Setting(setting.dims, setting.facts, True)))


def _check_node(node: Node, function: Function, setting: Setting) -> None:
    names = tuple(name for name, _ in node.attributes)
    if names != _ATTRIBUTES.get(node.kind, names):
        raise TypeFault(ATTRIBUTE_UNFIT, f"attributes {', '.join(names)}", ", ".join(_ATTRIBUTES[node.kind]))
    used = _symbols(node.type) | {s for _, value in node.attributes for s in _symbols(value)}
    if used and max(used) >= setting.dims:
        raise TypeFault(ATTRIBUTE_UNFIT, f"dimension parameter {max(used)}", f"one below {setting.dims}")
    if node.kind == "param":
        index = _number(dict(node.attributes), "index", 0, len(function.params) - 1)
        _expect(node.type, function.params[index].type, (), f"parameter {index}")
    elif node.kind == "const":
        _check_const(node)
    else:
        row = _table().get(node.kind)
        if row is not None and row.ideal_only and not setting.ideal:
            raise TypeFault(KIND_UNKNOWN, f"`{node.kind}` in an ordinary body", "an `ideal` body")
        _expect(node.type, _guarded(node, setting.facts), setting.facts, "the recorded type")


def _guarded(node: Node, facts: Facts) -> Type:
    """Return the type by rule; attributes that a rule cannot even read are a fault too."""
    try:
        return result_type(node.kind, [i.type for i in node.inputs], dict(node.attributes), facts)
    except (LookupError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError) as fault:
        raise TypeFault(ATTRIBUTE_UNFIT, f"attributes that the rule cannot read ({fault!r})", "its own") from fault


def _check_const(node: Node) -> None:
    data, type_ = node["data"], node.type
    if node.inputs or not isinstance(data, Blob):
        raise TypeFault(ATTRIBUTE_UNFIT, "a constant without data, or with inputs", "its data alone")
    if not isinstance(type_, Tensor) or any(size.constant is None or size.constant < 0 for size in type_.shape):
        raise TypeFault(ATTRIBUTE_UNFIT, text(type_), "an array of constant shape")
    element = type_.element
    if element.is_format and (not type_.shape or (type_.shape[-1].constant or 0) % element.columns):
        raise TypeFault(SHAPE_MISMATCH, text(type_), f"whole blocks of {element.columns} in a row")
    size = _dtype_size(element.storage)
    for count in storage_shape(type_):
        size *= count
    if size != data.size:
        raise TypeFault(SHAPE_MISMATCH, f"{data.size} bytes", f"{size} bytes for {text(type_)}")


def _dtype_size(storage: str) -> int:
    import numpy as np

    return np.dtype(storage).itemsize


def _symbols(value: Any) -> set[int]:
    """Return the dimension symbols that occur in a type or an attribute; callees have symbols of their own."""
    if isinstance(value, Dim):
        return value.symbols() if value.constant is None else set()
    if isinstance(value, Tensor):
        return {s for size in value.shape for s in _symbols(size)}
    if isinstance(value, Tuple):
        return {s for item in value.items for s in _symbols(item)}
    if isinstance(value, tuple):
        return {s for item in value for s in _symbols(item)}
    return set()
