"""Bodies: blocks, `let`, places, maps, folds, `each`, `while` and `if`, each turned into its node."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bittern.base.errors import code, nearest
from bittern.graph.node import Node, choose, const, fold, item, map_over, repeat
from bittern.lang import syntax
from bittern.lang.builtins import EFFECT_NAMES
from bittern.lang.context import Context, Reject, expression, handles
from bittern.lang.terms import (
    NOT_A_TENSOR,
    broadcast,
    find,
    index_value,
    need_tensor,
    read,
    root_name,
    take_value,
    unpack_result,
)
from bittern.lang.frame import Binding, Frame, Scope, finish_together
from bittern.lang.generics import need_dim, resolve
from bittern.lang.source import Span
from bittern.lang.values import (
    LangType,
    ListType,
    StructType,
    TupleType,
    Value,
    is_same,
    leaf_types,
    many,
    one_of,
)
from bittern.types.dims import ZERO, Dim
from bittern.types.elements import BIT, U32, Element
from bittern.types.faults import ELEMENT_MISMATCH, SHAPE_MISMATCH
from bittern.types.values import Tensor, Token, Type

PATTERN_MISFIT = code("E319", "a pattern does not fit its value")
NOT_A_PLACE = code("E320", "the left side of an assignment is not a place")
LET_TYPE = code("E321", "a value differs from the type that is written for it")
CARRY_TYPE = code("E322", "a body gives back another type than it carries")
BRANCH_TYPE = code("E323", "the branches of an `if` have different types")
CONDITION_TYPE = code("E324", "a condition is one bit")
WALK_TYPE = code("E325", "a range or array to walk does not fit")
NAME_COUNT = code("E326", "wrong number of names for the ranges")
PLACE_SHARED = code("E504", "a place that is not owned is assigned")
PLACE_OUTSIDE = code("E506", "a body assigns to a place outside it")


# --- blocks and statements


@handles(syntax.Block)
def block(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`{ statements result }` in the frame around it."""
    assert isinstance(e, syntax.Block)
    inner = ctx.block()
    for statement in e.statements:
        run_statement(inner, statement)
    return take_value(inner, e.result, expected)


def run_statement(ctx: Context, s: syntax.Statement) -> None:
    """Elaborate one statement; after an error its names are poison and the next statement goes on."""
    ctx.borrowed.clear()
    try:
        if isinstance(s, syntax.Let):
            _let(ctx, s)
        else:
            _assign(ctx, s)
    except Reject as reject:
        ctx.caught(reject)
        if isinstance(s, syntax.Let):
            _poison(ctx, s.pattern)
        else:
            root = root_name(s.place)
            if root is not None:
                ctx.scope.bind(root.name, None, root.span)


def _let(ctx: Context, s: syntax.Let) -> None:
    if s.type is None:
        bind(ctx, s.pattern, take_value(ctx, s.value))
        return
    declared = resolve(ctx, s.type)
    element = declared.element if isinstance(declared, Tensor) else None
    value = take_value(ctx, s.value, element)
    if isinstance(declared, Tensor) and isinstance(value.type, Tensor) and declared.element == value.type.element:
        value = broadcast(ctx, value, declared.shape, s.value.span)
    if not is_same(value.type, declared, elements=not ctx.ideal):
        ctx.reject(
            LET_TYPE,
            s.value.span,
            "the value is not of the written type",
            found=ctx.text(value.type),
            expected=ctx.text(declared),
        )
    bind(ctx, s.pattern, value)


def bind(ctx: Context, pattern: syntax.Pattern, value: Value) -> None:
    """Bind the names of a pattern to the parts of a value."""
    if isinstance(pattern, syntax.NamePattern):
        ctx.scope.bind(pattern.name.name, value, pattern.name.span)
        ctx.label(value.leaves, pattern.name)
        return
    count = len(pattern.items)
    if isinstance(pattern, syntax.TuplePattern):
        if not isinstance(value.type, TupleType) or len(value.type.items) != count:
            _misfit(ctx, pattern, value, f"a tuple of {count}")
        assert isinstance(value.type, TupleType)
        start = 0
        for part, type_ in zip(pattern.items, value.type.items, strict=True):
            size = len(leaf_types(type_))
            bind(ctx, part, Value(type_, value.leaves[start : start + size], value.mode))
            start += size
        return
    walked = one_of(value.type)
    if walked is None or not isinstance(value.type, Tensor) or walked[1].constant != count:
        _misfit(ctx, pattern, value, f"an array of {count}")
    for place, part in enumerate(pattern.items):
        bind(ctx, part, ctx.value("take", [value.node, const(place, U32)], pattern.span))


def _misfit(ctx: Context, pattern: syntax.Pattern, value: Value, expected: str) -> None:
    ctx.reject(
        PATTERN_MISFIT, pattern.span, "the pattern does not fit the value", found=ctx.text(value.type), expected=expected
    )


def _poison(ctx: Context, pattern: syntax.Pattern) -> None:
    if isinstance(pattern, syntax.NamePattern):
        ctx.scope.bind(pattern.name.name, None, pattern.name.span)
    else:
        for part in pattern.items:
            _poison(ctx, part)


def _assign(ctx: Context, s: syntax.Assign) -> None:
    """`p.f[i, j] = v`: the name is bound to a new value in which the place holds v."""
    root = root_name(s.place)
    if root is None or ctx.scope.find(root.name) is None:
        ctx.reject(
            NOT_A_PLACE,
            s.place.span,
            "this cannot be assigned",
            expected="a local name with fields and indices",
            hint="a new name is made by `let`" if root is not None else "",
        )
    binding, home = find(ctx, root)
    if home.frame is not ctx.frame:
        ctx.reject(
            PLACE_OUTSIDE,
            root.span,
            f"`{root.name}` belongs outside this body",
            hint=f"carry it (`with {root.name}`) and give it back at the end of the body",
        )
    whole = ctx.scope.read(binding, home)
    if whole.mode == "":
        ctx.reject(
            PLACE_SHARED,
            root.span,
            f"`{root.name}` is shared, so it cannot change in place",
            hint=f"take it as `own`, or start from a copy: `let {root.name} = copy({root.name})`",
        )
    changed = _put(ctx, whole, s.place, s.value)
    ctx.scope.bind(root.name, replace(changed, mode=whole.mode), root.span)


def _put(ctx: Context, whole: Value, place: syntax.Expr, value: syntax.Expr) -> Value:
    """Return the value of the root with the place replaced. whole: the root's value."""
    if isinstance(place, syntax.Name):
        ctx.reject(NOT_A_PLACE, place.span, "a whole name is not assigned", hint="write `let`")
    indices: tuple[syntax.Range, ...] = ()
    if isinstance(place, syntax.Index):
        indices, base = place.items, place.base
    else:
        base = place
    start, type_ = _locate(ctx, whole.type, base)
    count = len(leaf_types(type_))
    if not indices:
        new = take_value(ctx, value)
        if not is_same(new.type, type_, elements=not ctx.ideal):
            ctx.reject(
                LET_TYPE, value.span, "the value does not fit the field", found=ctx.text(new.type), expected=ctx.text(type_)
            )
        leaves = new.leaves
    else:
        if not isinstance(type_, Tensor):
            ctx.reject(NOT_A_TENSOR, base.span, "only arrays have indexed places", found=ctx.text(type_))
        leaves = (_updated(ctx, whole.leaves[start], type_, place, indices, value),)
    return replace(whole, leaves=(*whole.leaves[:start], *leaves, *whole.leaves[start + count :]))


def _updated(
    ctx: Context,
    old: Node,
    type_: Tensor,
    place: syntax.Expr,
    indices: tuple[syntax.Range, ...],
    value: syntax.Expr,
) -> Node:
    if len(indices) > len(type_.shape) or any(i.high is not None for i in indices):
        ctx.reject(NOT_A_PLACE, place.span, "a place takes one index for each leading dimension, and no ranges")
    where = [index_value(ctx, i.low, size) for i, size in zip(indices, type_.shape, strict=False)]
    rest = type_.shape[len(indices) :]
    many_rows = next((w.tensor.shape for w in where if w.tensor.shape), ())
    new = need_tensor(ctx, expression(ctx, value, type_.element), value)
    new = broadcast(ctx, new, (*many_rows, *rest), value.span)
    if new.tensor.element != type_.element and not ctx.ideal:
        ctx.reject(
            ELEMENT_MISMATCH, value.span, "the value does not fit the place", found=ctx.text(new.type), expected=str(type_.element)
        )
    if new.tensor.shape != (*many_rows, *rest):
        ctx.reject(
            SHAPE_MISMATCH,
            value.span,
            "the value does not fit the place",
            found=ctx.text(new.type),
            expected=ctx.text(Tensor(type_.element, (*many_rows, *rest))),
        )
    kind = "scatter" if many_rows else "update"
    return ctx.op(kind, [old, *(w.node for w in where), new.node], place.span)


def _locate(ctx: Context, type_: LangType, place: syntax.Expr) -> tuple[int, LangType]:
    """Return where a field path starts among the root's leaves, and its type."""
    if isinstance(place, syntax.Name):
        return 0, type_
    if not isinstance(place, syntax.Field):
        ctx.reject(NOT_A_PLACE, place.span, "a place is a name, then fields, then indices")
    start, outer = _locate(ctx, type_, place.base)
    if isinstance(outer, StructType):
        for name, field in outer.fields:
            if name == place.name.name:
                return start, field
            start += len(leaf_types(field))
    from bittern.lang.terms import UNKNOWN_FIELD

    known = [name for name, _ in outer.fields] if isinstance(outer, StructType) else []
    ctx.reject(
        UNKNOWN_FIELD,
        place.name.span,
        f"a value of type {ctx.text(outer)} has no field `{place.name.name}`",
        hint=nearest(place.name.name, known),
    )


# --- what is walked


@dataclass(frozen=True, slots=True)
class Walk:
    """One thing that is walked. low: of a range, the first number. value: of an array, the array."""

    span: Span
    count: Dim
    low: Dim | None
    value: Value | None
    item: LangType


def _static_walk(ctx: Context, r: syntax.Range) -> Walk:
    if r.high is not None:
        low, high = need_dim(ctx, r.low), need_dim(ctx, r.high)
        return Walk(r.span, high - low, low, None, Tensor(U32))
    value = read(ctx, r.low)
    walked = one_of(value.type)
    if walked is None:
        ctx.reject(
            WALK_TYPE,
            r.span,
            "this cannot be walked",
            found=ctx.text(value.type),
            expected="an array, or a range `low..high`",
        )
    return Walk(r.span, walked[1], None, value, walked[0])


def _same_counts(ctx: Context, walks: Sequence[Walk]) -> Dim:
    for walk in walks[1:]:
        if walk.count != walks[0].count:
            ctx.reject(
                WALK_TYPE,
                walk.span,
                "ranges that are walked together differ in length",
                found=f"{ctx.text(walks[0].count)} and {ctx.text(walk.count)}",
                expected="equal lengths",
            )
    return walks[0].count


def _one_name_each(ctx: Context, names: tuple[syntax.Name, ...], ranges: tuple[syntax.Range, ...]) -> None:
    if len(names) != len(ranges):
        ctx.reject(
            NAME_COUNT,
            names[0].span.to(names[-1].span),
            f"{len(names)} names walk {len(ranges)} ranges",
            expected="one name for each range",
        )


@handles(syntax.Map)
def map_expression(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`[body for names in ranges]`: a map node over the arrays."""
    assert isinstance(e, syntax.Map)
    _one_name_each(ctx, e.names, e.ranges)
    walks = [_static_walk(ctx, r) for r in e.ranges]
    count = _same_counts(ctx, walks)
    mapped: list[Node] = []
    for walk in walks:
        mapped.extend(walk.value.leaves if walk.value is not None else [_numbers(ctx, walk)])
    frame = Frame("map", ctx.frame, tuple(leaf for walk in walks for leaf in leaf_types(walk.item)))
    inner = ctx.within(frame)
    parameters = frame.parameters()
    for name, walk in zip(e.names, walks, strict=True):
        size = len(leaf_types(walk.item))
        inner.scope.bind(name.name, Value(walk.item, tuple(parameters[:size])), name.span)
        del parameters[:size]
    result = take_value(inner, e.body, expected)
    if isinstance(result.type, ListType):
        ctx.reject(WALK_TYPE, e.body.span, "a list of structs cannot be an item of an array")
    body, captures = frame.finish(result.leaves, len(ctx.names))
    node = map_over(body, count, mapped, captures)
    return unpack_result(many(result.type, count), node)


def _numbers(ctx: Context, walk: Walk) -> Node:
    numbers = ctx.op("iota", [], walk.span, count=walk.count)
    if walk.low is None or walk.low == ZERO:
        return numbers
    low = ctx.op("broadcast", [ctx.op("size", [], walk.span, value=walk.low)], walk.span, shape=(walk.count,))
    return ctx.op("add", [numbers, low], walk.span)


# --- folds


@handles(syntax.For)
def for_expression(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`for` makes a fold node; `each` unrolls over the structs of a list."""
    assert isinstance(e, syntax.For)
    if e.unrolled:
        return _each(ctx, e)
    _one_name_each(ctx, e.names, e.ranges)
    low, high, walks = _bounds(ctx, e.ranges)
    starts = [_start(ctx, carry, expected if len(e.carries) == 1 else None) for carry in e.carries]
    effects = sorted(ctx.frame.tokens) if _has_effects(ctx, e.body) else []
    frame, inner = _carrying(ctx, "for", [Tensor(U32)], e.carries, starts, effects)
    position = frame.parameters()[0]
    for name, walk in zip(e.names, walks, strict=True):
        inner.scope.bind(name.name, _walked(inner, ctx.frame, walk, position, name.span), name.span)
    result = block(inner, e.body, None)
    leaves = _given_back(inner, e, starts, result) + [inner.frame.tokens[f] for f in effects]
    (body,), captures = finish_together([(frame, leaves)], len(ctx.names))
    inputs = [leaf for s in starts for leaf in s.leaves] + [ctx.frame.tokens[f] for f in effects]
    node = fold(body, low, high, inputs, captures)
    return _carried(ctx, starts, node, effects)


def _bounds(ctx: Context, ranges: tuple[syntax.Range, ...]) -> tuple[Node, Node, list[Walk | syntax.Range]]:
    """Return low and high of the index, and what each name walks."""
    walks: list[Walk | syntax.Range] = []
    static: list[Walk] = []
    for r in ranges:
        if r.high is not None and not (_is_dim(ctx, r.low) and _is_dim(ctx, r.high)):
            if len(ranges) > 1:
                ctx.reject(WALK_TYPE, r.span, "a range with computed bounds is walked alone")
            low = _bound(ctx, r.low)
            high = _bound(ctx, r.high)
            return low, high, [r]
        static.append(_static_walk(ctx, r))
    walks.extend(static)
    count = _same_counts(ctx, static)
    first = static[0].low if len(static) == 1 and static[0].low is not None else ZERO
    if len(static) == 1 and static[0].low is not None:
        walks = [ranges[0]]
    low = ctx.op("size", [], static[0].span, value=first)
    return low, ctx.op("size", [], static[0].span, value=first + count), walks


def _is_dim(ctx: Context, e: syntax.Expr) -> bool:
    from bittern.lang.generics import dim_of

    return dim_of(ctx, e) is not None


def _bound(ctx: Context, e: syntax.Expr) -> Node:
    value = need_tensor(ctx, expression(ctx, e, U32), e)
    if value.type != Tensor(U32):
        ctx.reject(WALK_TYPE, e.span, "a bound of a range is one u32", found=ctx.text(value.type), expected="u32")
    return value.node


def _walked(inner: Context, home: Frame, walk: Walk | syntax.Range, position: Node, span: Span) -> Value:
    """Return what a name of a `for` stands for in a round: the index, or an element of an array."""
    if isinstance(walk, syntax.Range):
        return Value(Tensor(U32), (position,))
    if walk.low is not None:
        start = inner.op("size", [], span, value=walk.low)
        return inner.value("add", [position, start], span)
    assert walk.value is not None
    leaves = [inner.op("take", [inner.frame.bring(leaf, home), position], span) for leaf in walk.value.leaves]
    return Value(walk.item, tuple(leaves))


def _start(ctx: Context, carry: syntax.Carry, expected: Element | None) -> Value:
    written = carry.start if carry.start is not None else carry.name
    return expression(ctx, written, expected)


def _carrying(
    ctx: Context,
    kind: str,
    before: list[Type],
    carries: tuple[syntax.Carry, ...],
    starts: Sequence[Value],
    effects: Sequence[str],
) -> tuple[Frame, Context]:
    """Return the frame of a body that carries values, with the carried names bound."""
    types = [*before, *(leaf for s in starts for leaf in leaf_types(s.type)), *(Token(f) for f in effects)]
    frame = Frame(kind, ctx.frame, tuple(types))
    parameters = frame.parameters()[len(before) :]
    inner = ctx.within(frame)
    for carry, start in zip(carries, starts, strict=True):
        size = len(start.leaves)
        mode = start.mode
        inner.scope.bind(carry.name.name, Value(start.type, tuple(parameters[:size]), mode), carry.name.span)
        del parameters[:size]
    frame.tokens.update(zip(effects, parameters, strict=True))
    return frame, inner


def _given_back(ctx: Context, e: syntax.For | syntax.While, starts: Sequence[Value], result: Value) -> list[Node]:
    """Return the leaves that a body gives back, checked against what it carries."""
    wanted = starts[0].type if len(starts) == 1 else TupleType(tuple(s.type for s in starts))
    if isinstance(result.type, Tensor) and isinstance(wanted, Tensor) and result.type.element == wanted.element:
        result = broadcast(ctx, result, wanted.shape, e.body.result.span)
    if not is_same(result.type, wanted, elements=not ctx.ideal):
        ctx.reject(
            CARRY_TYPE,
            e.body.result.span,
            "the body gives back another type than it carries",
            found=ctx.text(result.type),
            expected=ctx.text(wanted),
        )
    return list(result.leaves)


def _carried(ctx: Context, starts: Sequence[Value], node: Node, effects: Sequence[str]) -> Value:
    """Return the result of a fold as a value, and leave the tokens it gave back."""
    type_ = starts[0].type if len(starts) == 1 else TupleType(tuple(s.type for s in starts))
    mode = "own" if any(s.mode == "own" for s in starts) else "fresh"
    count = len(leaf_types(type_))
    for place, effect in enumerate(effects):
        ctx.frame.tokens[effect] = item(node, count + place)
    if effects:
        return Value(type_, tuple(item(node, i) for i in range(count)), mode)
    return unpack_result(type_, node, mode)


def _each(ctx: Context, e: syntax.For) -> Value:
    """`each w, l in list with x {..}`: the body once for each struct, in this frame."""
    value = read(ctx, e.ranges[0].low)
    if len(e.ranges) != 1 or e.ranges[0].high is not None or not isinstance(value.type, ListType):
        ctx.reject(WALK_TYPE, e.ranges[0].span, "`each` walks one list of structs", found=ctx.text(value.type))
    if len(e.names) > 2:
        ctx.reject(NAME_COUNT, e.names[2].span, "`each` names the struct and its index", expected="one or two names")
    type_ = value.type
    items = type_.items if type_.items is not None else (type_.item,)
    carried = [_start(ctx, carry, None) for carry in e.carries]
    start = 0
    for place, item_type in enumerate(items):
        inner = ctx.block()
        size = len(leaf_types(item_type))
        inner.scope.bind(e.names[0].name, Value(item_type, value.leaves[start : start + size]), e.names[0].span)
        start += size
        if len(e.names) == 2:
            inner.scope.bind(e.names[1].name, Value(Tensor(U32), (const(place, U32),)), e.names[1].span)
        for carry, state in zip(e.carries, carried, strict=True):
            inner.scope.bind(carry.name.name, state, carry.name.span)
        result = block(inner, e.body, None)
        leaves = _given_back(inner, e, carried, result)
        fresh: list[Value] = []
        for state in carried:
            count = len(state.leaves)
            fresh.append(Value(state.type, tuple(leaves[:count]), state.mode or "fresh"))
            del leaves[:count]
        carried = fresh
    if len(carried) == 1:
        return carried[0]
    mode = "own" if any(s.mode == "own" for s in carried) else "fresh"
    return Value(TupleType(tuple(s.type for s in carried)), tuple(n for s in carried for n in s.leaves), mode)


@handles(syntax.While)
def while_expression(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`while test limit n with carries {..}`."""
    assert isinstance(e, syntax.While)
    limit = _bound(ctx, e.limit)
    starts = [_start(ctx, carry, expected if len(e.carries) == 1 else None) for carry in e.carries]
    effects = sorted(ctx.frame.tokens) if _has_effects(ctx, e.body) else []
    test_frame, test_ctx = _carrying(ctx, "while", [], e.carries, [s.shared() for s in starts], effects)
    test_frame.tokens.clear()
    condition = _condition(test_ctx, e.condition)
    frame, inner = _carrying(ctx, "while", [], e.carries, starts, effects)
    result = block(inner, e.body, None)
    leaves = _given_back(inner, e, starts, result) + [inner.frame.tokens[f] for f in effects]
    (test, body), captures = finish_together([(test_frame, [condition]), (frame, leaves)], len(ctx.names))
    inputs = [leaf for s in starts for leaf in s.leaves] + [ctx.frame.tokens[f] for f in effects]
    return _carried(ctx, starts, repeat(test, body, limit, inputs, captures), effects)


def _condition(ctx: Context, e: syntax.Expr) -> Node:
    value = need_tensor(ctx, expression(ctx, e, BIT), e)
    if value.type != Tensor(BIT):
        ctx.reject(
            CONDITION_TYPE,
            e.span,
            "a condition is one bit",
            found=ctx.text(value.type),
            expected="bit",
            hint="compare: `x != 0`, or reduce with `all_of`, `any_of`",
        )
    return value.node


@handles(syntax.If)
def if_expression(ctx: Context, e: syntax.Expr, expected: Element | None) -> Value:
    """`if condition {..} else {..}`: both sides give one type."""
    assert isinstance(e, syntax.If)
    condition = _condition(ctx, e.condition)
    effects = sorted(ctx.frame.tokens) if _has_effects(ctx, e.then) or _has_effects(ctx, e.otherwise) else []
    sides = []
    before = _moves(ctx.scope)
    after = dict(before)
    for written in (e.then, e.otherwise):
        frame = Frame("if", ctx.frame, ())
        frame.tokens.update({f: frame.bring(ctx.frame.tokens[f], ctx.frame) for f in effects})
        inner = ctx.within(frame)
        value = take_value(inner, written, expected)
        sides.append((frame, value))
        for binding, moved in _moves(ctx.scope).items():
            after[binding] = after.get(binding) or moved
            binding.moved = before.get(binding)
    for binding, moved in after.items():
        binding.moved = moved
    (then_frame, then), (else_frame, otherwise) = sides
    if not is_same(then.type, otherwise.type, elements=not ctx.ideal):
        ctx.reject(
            BRANCH_TYPE,
            e.otherwise.span,
            "the branches have different types",
            found=f"{ctx.text(then.type)} and {ctx.text(otherwise.type)}",
            expected="one type",
        )
    then_leaves = [*then.leaves, *(then_frame.tokens[f] for f in effects)]
    else_leaves = [*otherwise.leaves, *(else_frame.tokens[f] for f in effects)]
    (yes, no), captures = finish_together([(then_frame, then_leaves), (else_frame, else_leaves)], len(ctx.names))
    node = choose(condition, yes, no, captures)
    mode = "own" if "own" in (then.mode, otherwise.mode) else "fresh"
    count = len(then.leaves)
    for place, effect in enumerate(effects):
        ctx.frame.tokens[effect] = item(node, count + place)
    if effects:
        return Value(then.type, tuple(item(node, i) for i in range(count)), mode)
    return unpack_result(then.type, node, mode)


def _moves(scope: Scope | None) -> dict[Binding, Span | None]:
    """Return all bindings in sight with the place where each was moved; both sides of an `if` start from the same."""
    found: dict[Binding, Span | None] = {}
    while scope is not None:
        found.update((binding, binding.moved) for binding in scope.names.values())
        scope = scope.parent
    return found


def _has_effects(ctx: Context, e: object) -> bool:
    """Whether anything in a syntax tree calls an op or function with an effect."""
    if isinstance(e, syntax.Call):
        callee = e.callee.base if isinstance(e.callee, syntax.Index) else e.callee
        if isinstance(callee, syntax.Name):
            if callee.name in EFFECT_NAMES:
                return True
            found = ctx.module.find_functions(callee.name)
            if any(member.effects for overloads in found for member in overloads.members):
                return True
    if isinstance(e, tuple):
        return any(_has_effects(ctx, part) for part in e)
    if hasattr(e, "__dataclass_fields__") and not isinstance(e, Span):
        return any(_has_effects(ctx, getattr(e, name)) for name in e.__dataclass_fields__)
    return False

