"""Blocks: statements, `let`, patterns, and assignments to places."""

from bittern.base.errors import code
from bittern.graph.node import const
from bittern.lang import syntax
from bittern.lang.context import Context, Elaborated, Expected, Reject, expectation, handles_tuples
from bittern.lang.fitting import NOT_A_TENSOR, broadcast, fit
from bittern.lang.frame import Binding, Scope
from bittern.lang.generics import need_modes, resolve
from bittern.lang.indexing import index_value, locate_field
from bittern.lang.instances import CONST_TYPE as LET_TYPE
from bittern.lang.operators import operand
from bittern.lang.ownership import end_borrows, find, last_value, need_different, root_name, take_value
from bittern.lang.source import Span
from bittern.lang.values import LangType, TupleType, Value, one_of
from bittern.types.elements import U32
from bittern.types.faults import ELEMENT_MISMATCH, SHAPE_MISMATCH
from bittern.types.values import Tensor

PATTERN_MISFIT = code("E319", "a pattern does not fit its value")
NOT_A_PLACE = code("E320", "the left side of an assignment is not a place")
PLACE_SHARED = code("E504", "a place that is not owned is assigned")
PLACE_OUTSIDE = code("E506", "a body assigns to a place outside it")


@handles_tuples(syntax.Block)
def block(ctx: Context, e: Elaborated, expected: Expected) -> Value:
    """`{ statements result }` in the frame around it."""
    assert isinstance(e, syntax.Block)
    inner = ctx.block()
    for statement in e.statements:
        _run(inner, statement)
    inner.borrowed.clear()
    return last_value(inner, e.result, expected)


def _run(ctx: Context, s: syntax.Statement) -> None:
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
            return
        root = root_name(s.place)
        if root is not None:
            ctx.scope.bind(root.name, None, root.span)


# --- let


def _let(ctx: Context, s: syntax.Let) -> None:
    if s.type is None:
        value = take_value(ctx, s.value)
    else:
        need_modes(ctx, s.type, (), "a `let`")
        declared = resolve(ctx, s.type)
        value = take_value(ctx, s.value, expectation(declared))
        value = fit(ctx, value, declared, s.value.span, LET_TYPE, "the value is not of the written type")
    need_different(ctx, _names(s.pattern))
    _bind(ctx, s.pattern, value)


def _names(pattern: syntax.Pattern) -> list[syntax.Name]:
    """Return the names that a pattern binds."""
    if isinstance(pattern, syntax.NamePattern):
        return [pattern.name]
    return [name for part in pattern.items for name in _names(part)]


def _bind(ctx: Context, pattern: syntax.Pattern, value: Value) -> None:
    """Bind the names of a pattern to the parts of a value."""
    if isinstance(pattern, syntax.NamePattern):
        ctx.scope.bind(pattern.name.name, value, pattern.name.span)
        ctx.label(value.leaves, pattern.name)
        return
    count = len(pattern.items)
    if isinstance(pattern, syntax.TuplePattern):
        if not isinstance(value.type, TupleType) or len(value.type.items) != count:
            _misfit(ctx, pattern.span, value, f"a tuple of {count}")
        assert isinstance(value.type, TupleType)
        for part, item in zip(pattern.items, value.items(value.type.items), strict=True):
            _bind(ctx, part, item)
        return
    walked = None if isinstance(value.type, TupleType) else one_of(value.type)
    if walked is None or walked[1].constant != count:
        _misfit(ctx, pattern.span, value, f"an array of {count}")
    assert walked is not None
    for place, part in enumerate(pattern.items):
        leaves = [ctx.op("take", [leaf, const(place, U32)], pattern.span) for leaf in value.leaves]
        _bind(ctx, part, Value.of(walked[0], leaves, "fresh"))


def _misfit(ctx: Context, span: Span, value: Value, expected: str) -> None:
    found = f"a value of type {ctx.text(value.type)}"
    ctx.reject(PATTERN_MISFIT, span, "the pattern does not fit the value", found=found, expected=expected)


def _poison(ctx: Context, pattern: syntax.Pattern) -> None:
    for name in _names(pattern):
        ctx.scope.bind(name.name, None, name.span)


# --- places


def _assign(ctx: Context, s: syntax.Assign) -> None:
    """`p.f[i, j] = v`: the name is bound to a new value in which the place holds v."""
    root = root_name(s.place)
    if root is None or isinstance(s.place, syntax.Name):
        hint = f"write `let {root.name} = ...`" if root is not None else ""
        ctx.reject(
            NOT_A_PLACE, s.place.span, "this cannot be assigned", expected="fields and indices of a name", hint=hint
        )
    is_fixed = root.name in ctx.generics.dims or ctx.module.find_const(root.name) is not None
    if is_fixed and ctx.scope.find(root.name) is None:
        ctx.reject(NOT_A_PLACE, root.span, f"`{root.name}` does not change", expected="a local name")
    binding, home = find(ctx, root)
    _need_inside(ctx, root, binding, home)
    whole = ctx.scope.read(binding, home)
    start, type_ = _locate(ctx, whole.type, s.place.base if isinstance(s.place, syntax.Index) else s.place)
    old = whole.part(type_, start)
    if not old.is_given:
        ctx.reject(
            PLACE_SHARED,
            root.span,
            f"`{root.name}` is shared, so it cannot change in place",
            hint=_copy_hint(root.name, home),
            notes=((binding.span, "it comes from here"),),
        )
    new = _updated(ctx, old, s.place, s.value) if isinstance(s.place, syntax.Index) else _field(ctx, old, s.value)
    end_borrows(ctx, root, binding, home)
    end = start + len(old.leaves)
    leaves = (*whole.leaves[:start], *new.leaves, *whole.leaves[end:])
    modes = (*whole.modes[:start], *new.modes, *whole.modes[end:])
    ctx.scope.bind(root.name, Value(whole.type, leaves, modes), root.span)


def _copy_hint(name: str, home: Scope) -> str:
    """Return how a shared name becomes one that may change."""
    if home.body in ("for", "while", "each"):
        return f"carry a copy: `with {name} = copy({name})`"
    hint = f"start from a copy: `let {name} = copy({name})`"
    return hint if home.parent is not None else f"take it as `own`, or {hint}"


def _need_inside(ctx: Context, root: syntax.Name, binding: Binding, home: Scope) -> None:
    """Reject a place that belongs outside this body: what changes in a body comes in and goes out by name."""
    bodies = ctx.scope.bodies_below(home)
    if not bodies:
        return
    if bodies[0] == "map":
        hint = "write a `for` that carries it"
    elif bodies[0] == "if":
        hint = f"begin the block with `let {root.name} = {root.name}` and end it with `{root.name}`"
    else:
        hint = f"carry it (`with {root.name}`) and end the body with `{root.name}`"
    note = ((binding.span, "it belongs here"),)
    ctx.reject(PLACE_OUTSIDE, root.span, f"`{root.name}` belongs outside this body", hint=hint, notes=note)


def _locate(ctx: Context, type_: LangType, place: syntax.Expr) -> tuple[int, LangType]:
    """Return where a field path starts among the root's leaves, and its type."""
    if isinstance(place, syntax.Name):
        return 0, type_
    if not isinstance(place, syntax.Field):
        expected = "a name, then fields, then indices in one bracket"
        ctx.reject(NOT_A_PLACE, place.span, "this cannot be assigned", expected=expected)
    start, outer = _locate(ctx, type_, place.base)
    inside, field = locate_field(ctx, outer, place.name)
    return start + inside, field


def _field(ctx: Context, old: Value, e: syntax.Expr) -> Value:
    """Return the new value of a whole field."""
    new = take_value(ctx, e, expectation(old.type))
    return fit(ctx, new, old.type, e.span, LET_TYPE, "the value is not of the type of the field")


def _updated(ctx: Context, old: Value, place: syntax.Index, e: syntax.Expr) -> Value:
    """Return the array with the indexed place replaced."""
    type_, indices = old.type, place.items
    if not isinstance(type_, Tensor):
        found = f"a value of type {ctx.text(type_)}"
        ctx.reject(
            NOT_A_TENSOR, place.base.span, "only arrays have places with indices", found=found, expected="an array"
        )
    if len(indices) > len(type_.shape) or any(i.high is not None for i in indices):
        ctx.reject(
            NOT_A_PLACE,
            place.span,
            "this cannot be assigned",
            found=f"{len(indices)} indices into {ctx.text(type_)}" if len(indices) > len(type_.shape) else "a range",
            expected="one index for each of the first dimensions",
            hint="" if len(indices) > len(type_.shape) else "an array of indices writes several places: `iota(n)`",
        )
    where = [index_value(ctx, i.low, size) for i, size in zip(indices, type_.shape, strict=False)]
    rows = next((w.tensor.shape for w in where if w.tensor.shape), ())
    wanted = Tensor(type_.element, (*rows, *type_.shape[len(indices) :]))
    new = broadcast(ctx, operand(ctx, e, type_.element), wanted.shape, e.span)
    is_other = new.tensor.element != type_.element and not ctx.ideal
    fit(ctx, new, wanted, e.span, ELEMENT_MISMATCH if is_other else SHAPE_MISMATCH, "the value does not fit the place")
    made = ctx.op("scatter" if rows else "update", [old.node, *(w.node for w in where), new.node], place.span)
    return Value(type_, (made,), old.modes)
