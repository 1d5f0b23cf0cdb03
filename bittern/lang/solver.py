"""Generic arguments from the types of arguments, and conditions on dimensions.

Generic arguments come from the arguments, left to right; a dimension written as one name takes what it meets; a product
with one unknown factor, or its quotient by a number, is solved where that is exact. What stays open must be given in
brackets. A condition is shown by normal forms, by the `where` clauses of the caller, and by no size being negative.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from bittern.base.errors import code
from bittern.lang import syntax
from bittern.lang.context import Context, Generics
from bittern.lang.generics import (
    GENERIC_COUNT,
    GENERIC_KIND,
    KIND_TEXT,
    SEQUENCES,
    UNKNOWN_DIM,
    WEIGHT,
    as_type,
    counted,
    element_argument,
    fits_kind,
    is_kind,
    need_dim,
    need_size,
)
from bittern.lang.literals import number_value
from bittern.lang.source import Span, source_text
from bittern.lang.values import LangType, ListType, ManyType, StructType, TupleType
from bittern.types.dims import ZERO, Dim, Ratio, dim
from bittern.types.values import Tensor

GENERIC_OPEN = code("E305", "a generic argument cannot be found from the arguments")
NOT_PROVEN = code("E405", "a condition on dimensions does not hold or cannot be shown")

Condition = tuple[str, Dim, Dim]
_MOST_BOUNDS = 64
_RELATIONS = ("==", "!=", "<", "<=", ">", ">=")


# --- generic arguments


@dataclass(slots=True)
class Solver:
    """Finds generic arguments of one call. bound: what is known so far, in the caller's symbols."""

    declared: tuple[syntax.Generic, ...]
    bound: Generics
    later: list[tuple[syntax.Expr, Dim]] = field(default_factory=list)
    misfit: syntax.TypeExpr | None = None  # the first parameter whose argument has another form

    def kind(self, name: str) -> str | None:
        """Return the kind of a generic parameter ('' for a dimension), or None for other names."""
        return next((g.kind for g in self.declared if g.name.name == name), None)

    def meet(self, t: syntax.TypeExpr, actual: LangType, ctx: Context) -> None:
        """Learn from one parameter's type expression and the argument's type; mismatches are found afterwards."""
        if not self._meet(t, actual, ctx) and self.misfit is None:
            self.misfit = t

    def _meet(self, t: syntax.TypeExpr, actual: LangType, ctx: Context) -> bool:
        """Learn, and say whether the argument has the form of the parameter."""
        if isinstance(t, syntax.TupleType):
            if not isinstance(actual, TupleType) or len(actual.items) != len(t.items):
                return False
            met = [self._meet(part, item, ctx) for part, item in zip(t.items, actual.items, strict=True)]
            return all(met)
        name = t.name.name
        if name in SEQUENCES and len(t.arguments) == 2:
            return self._meet_sequence(name, t, actual, ctx)
        if isinstance(actual, Tensor):
            if is_kind(self.kind(name)):
                self.bound.elements.setdefault(name, actual.element)
            if len(t.arguments) != len(actual.shape) or ctx.module.find_struct(name) is not None:
                return False
            for argument, size in zip(t.arguments, actual.shape, strict=True):
                self.meet_dim(argument, size)
            return True
        if not isinstance(actual, StructType) or len(t.arguments) != len(actual.arguments):
            return False
        for argument, value in zip(t.arguments, actual.arguments, strict=True):
            if isinstance(value, Dim):
                self.meet_dim(argument, value)
            elif isinstance(argument, syntax.Name) and is_kind(self.kind(argument.name)):
                self.bound.elements.setdefault(argument.name, value)
        return True

    def _meet_sequence(self, name: str, t: syntax.NamedType, actual: LangType, ctx: Context) -> bool:
        if name == "list" and isinstance(actual, ListType):
            self.meet_dim(t.arguments[1], actual.length)
            return self._meet(as_type(ctx, t.arguments[0]), actual.item, ctx)
        if name == "many" and isinstance(actual, ManyType):
            self.meet_dim(t.arguments[1], actual.count)
            return self._meet(as_type(ctx, t.arguments[0]), actual.item, ctx)
        return False

    def meet_dim(self, e: syntax.Expr, size: Dim) -> None:
        """Learn from one dimension expression and the size it meets."""
        if isinstance(e, syntax.Name) and self.kind(e.name) == "":
            self.bound.dims.setdefault(e.name, size)
        else:
            self.later.append((e, size))

    def solve(self) -> list[syntax.Generic]:
        """Solve products and exact quotients with one unknown; return the parameters that stay open."""
        while any(self._solve_one(e, size) for e, size in self.later):
            pass
        return [g for g in self.declared if g.name.name not in (self.bound.elements if g.kind else self.bound.dims)]

    def _solve_one(self, e: syntax.Expr, size: Dim) -> bool:
        unknown = self._unknown(e)
        if len(unknown) != 1:
            return False
        divisor = dim(1)
        if isinstance(e, syntax.Binary) and e.operator == "/" and isinstance(e.right, syntax.Number):
            divisor, e = dim(int(number_value(e.right.text))), e.left
        factor = self._factor(e, unknown[0])
        if factor is None or factor == ZERO or (size * divisor) % factor != ZERO:
            return False
        self.bound.dims[unknown[0]] = size * divisor // factor
        return True

    def _unknown(self, e: syntax.Expr) -> list[str]:
        if isinstance(e, syntax.Name):
            return [e.name] if self.kind(e.name) == "" and e.name not in self.bound.dims else []
        if isinstance(e, syntax.Binary):
            return self._unknown(e.left) + self._unknown(e.right)
        return []

    def _factor(self, e: syntax.Expr, name: str) -> Dim | None:
        """Return f with e == f * name, or f == e where the name does not occur, or None."""
        if isinstance(e, syntax.Name):
            return dim(1) if e.name == name else self.bound.dims.get(e.name)
        if isinstance(e, syntax.Number):
            return None if e.is_real else dim(int(number_value(e.text)))
        if isinstance(e, syntax.Binary) and e.operator == "*":
            left, right = self._factor(e.left, name), self._factor(e.right, name)
            return None if left is None or right is None else left * right
        return None


def written_generics(
    ctx: Context, brackets: Sequence[syntax.Expr], declared: tuple[syntax.Generic, ...], what: str
) -> Generics:
    """Return the generic arguments that a call gives in brackets, from the first on."""
    bound = Generics(facts=ctx.generics.facts)
    if len(brackets) > len(declared):
        ctx.reject(
            GENERIC_COUNT,
            brackets[len(declared)].span,
            f"`{what}` takes {counted(len(declared), 'generic argument')}",
            found=str(len(brackets)),
            expected=", ".join(g.name.name for g in declared) or "none",
        )
    for generic, argument in zip(declared, brackets, strict=False):
        if generic.kind:
            bound.elements[generic.name.name] = element_argument(ctx, argument, generic.kind)
        else:
            bound.dims[generic.name.name] = need_size(ctx, argument)
    return bound


def need_solved(ctx: Context, solver: Solver, span: Span, what: str) -> None:
    """Reject a call whose arguments leave a generic parameter open, or give it an element of the wrong kind."""
    missing = solver.solve()
    if missing:
        names = ", ".join(f"`{g.name.name}`" for g in missing)
        given = ", ".join(g.name.name for g in solver.declared[: solver.declared.index(missing[-1]) + 1])
        ctx.reject(
            GENERIC_OPEN,
            span,
            f"the arguments of `{what}` do not say what {names} is",
            hint=f"give it in brackets: `{what}[{given}](...)`",
        )
    for generic in solver.declared:
        element = solver.bound.elements.get(generic.name.name) if generic.kind else None
        if element is not None and not fits_kind(element, generic.kind) and element != WEIGHT:
            ctx.reject(
                GENERIC_KIND,
                span,
                f"`{element}` does not fit `{generic.name.name}` of `{what}`",
                expected=KIND_TEXT[generic.kind],
                notes=((generic.span, "declared here"),),
            )


# --- conditions


def condition_of(ctx: Context, e: syntax.Expr) -> Condition:
    """Return a `where` clause as (operator, left, right)."""
    if not isinstance(e, syntax.Binary) or e.operator not in _RELATIONS:
        expected = "such as `n % 32 == 0` or `m <= n`"
        ctx.reject(UNKNOWN_DIM, e.span, "a `where` clause compares two dimensions", expected=expected)
    return e.operator, need_dim(ctx, e.left), need_dim(ctx, e.right)


def learn(ctx: Context, clauses: Sequence[syntax.Expr]) -> None:
    """Take the `where` clauses of a function as facts about its dimensions, which are rewritten with them."""
    facts: set[tuple[Dim, Dim]] = set()
    relations = []
    for clause in clauses:
        operator, left, right = condition_of(ctx, clause)
        relations.append((operator, left, right))
        assert isinstance(clause, syntax.Binary)
        divided = clause.left
        if operator == "==" and right == ZERO and isinstance(divided, syntax.Binary) and divided.operator == "%":
            top, bottom = need_dim(ctx, divided.left), need_dim(ctx, divided.right)
            if top.constant is None:
                facts.add((top, bottom))
    generics = ctx.generics
    generics.facts = tuple(sorted(facts, key=lambda fact: (-(fact[1].constant or 0), fact[0].rank(), fact[1].rank())))
    generics.relations = tuple((o, generics.normal(left), generics.normal(right)) for o, left, right in relations)
    generics.dims = {name: generics.normal(size) for name, size in generics.dims.items()}


def prove(generics: Generics, condition: Condition) -> bool | None:
    """Whether a condition on dimensions holds: True, False, or None where it cannot be told."""
    operator, left, right = condition
    left, right = generics.normal(left), generics.normal(right)
    if operator in (">", ">="):
        return prove(generics, ("<" if operator == ">" else "<=", right, left))
    known = (left - right).constant
    if known is not None:
        return {"==": known == 0, "!=": known != 0, "<": known < 0, "<=": known <= 0}[operator]
    relations = generics.relations
    if operator in ("==", "!="):
        known_so = [a - b for relation, a, b in relations if relation == operator]
        if left - right in known_so or right - left in known_so:
            return True
        is_apart = operator == "!=" and True in (
            prove(generics, ("<", left, right)),
            prove(generics, ("<", right, left)),
        )
        return True if is_apart else None
    return True if _is_below(left - right + (operator == "<"), relations) else None


def _is_below(value: Dim, relations: Sequence[Condition]) -> bool:
    """Whether value <= 0: by itself, or because it is at most what a relation says is <= 0. Sizes are whole numbers."""
    limits = [ZERO]
    for operator, left, right in relations:
        if operator in ("<", "<=", "=="):
            limits.append(left - right + (operator == "<"))
        if operator in (">", ">=", "=="):
            limits.append(right - left + (operator == ">"))
    return any(_never_negative(limit - value) for limit in limits)


def _never_negative(value: Dim) -> bool:
    """Whether no sizes make the dimension negative, as far as its coefficients and the bounds of `_least` show.

    At most _MOST_BOUNDS bounds are tried, so that the answer comes at once.
    """
    bottoms = {a.bottom.constant for m, _ in value.terms for a in m if isinstance(a, Ratio)}
    waiting, seen = [value], {value}
    for _ in range(_MOST_BOUNDS):
        if not waiting:
            return False
        current = waiting.pop()
        if _has_no_minus(current):
            return True
        for monomial, factor in current.terms:
            atom = monomial[0] if len(monomial) == 1 else None
            rest = current - Dim(((monomial, factor),))
            for least in _least(atom, factor, bottoms) if isinstance(atom, Ratio) else ():
                if rest + least not in seen:
                    seen.add(rest + least)
                    waiting.append(rest + least)
    return False


def _has_no_minus(value: Dim) -> bool:
    """Whether all coefficients are positive, also inside quotients and remainders."""
    return all(f > 0 and all(isinstance(a, int) or _has_no_minus(a.top) for a in m) for m, f in value.terms)


def _least(atom: Ratio, factor: int, bottoms: Collection[int | None]) -> Iterator[Dim]:
    """Yield dimensions without this atom that are at most factor * atom.

    x % c = x - c * (x / c), and x - c < c * (x / c) <= g * (x / g) where g divides c (g = 1: the bound is x).
    """
    top, bottom = atom.top, atom.bottom.constant
    if not bottom:
        return
    times = factor // bottom  # rounded down, so also what is left of factor stays a bound where x is not negative
    if atom.kind == "%":
        yield (top - top // bottom * bottom) * factor
    elif factor % bottom and not _has_no_minus(top):
        return
    elif times >= 0:
        yield (top - (bottom - 1)) * times
    else:
        for part in (1, *bottoms):
            if part and part < bottom and bottom % part == 0:
                yield top // part * part * times


def check_where(ctx: Context, there: Context, declaration: syntax.FunctionDecl, span: Span) -> None:
    """Check a callee's conditions on dimensions with the caller's facts. there: the callee's names."""
    for clause in declaration.where:
        outcome = prove(ctx.generics, condition_of(there, clause))
        if outcome:
            continue
        sides = _with_sizes(ctx, there, clause)
        ctx.reject(
            NOT_PROVEN,
            span,
            f"`{declaration.name.name}` needs `{source_text(clause.span)}`",
            found=f"`{sides}` does not hold" if outcome is False else f"cannot tell whether `{sides}`",
            hint="" if outcome is False else f"promise it in this function: `where {sides}`",
            notes=((clause.span, "the condition"),),
        )


def _with_sizes(ctx: Context, there: Context, e: syntax.Expr) -> str:
    """Print a callee's condition with the dimensions of the call in it."""
    if isinstance(e, syntax.Binary):
        return f"{_with_sizes(ctx, there, e.left)} {e.operator} {_with_sizes(ctx, there, e.right)}"
    if isinstance(e, syntax.Name):
        text = ctx.text(need_dim(there, e))
        return f"({text})" if " " in text else text
    return source_text(e.span)


def inside(kind: str, size: Dim, attributes: Mapping[str, Dim | int]) -> tuple[tuple[Dim, Dim], ...]:
    """Return the pairs (less, more) that hold if a part of an axis lies inside it.

    kind: `slice`, `windows` or `dynamic_slice`. size: of the axis. attributes: the dimensions and numbers of the op.
    """
    sizes = {name: dim(value) for name, value in attributes.items()}
    if kind == "slice":
        return (ZERO, sizes["low"]), (sizes["low"], sizes["high"]), (sizes["high"], size)
    if kind == "windows":
        return (((sizes["size"] - 1) * sizes["dilation"] + 1, size),)
    return ((sizes["length"], size),)


def need_inside(ctx: Context, span: Span, kind: str, shape: Sequence[Dim], axis: int, **attributes: Dim | int) -> None:
    """Reject a part of an array that may reach beyond it; what surely does, and a wrong axis, are left to the rule."""
    if not 0 <= axis < len(shape):
        return
    for less, more in inside(kind, shape[axis], attributes):
        if prove(ctx.generics, ("<=", less, more)) is None:
            relation = f"{ctx.text(less)} <= {ctx.text(more)}"
            ctx.reject(
                NOT_PROVEN,
                span,
                f"`{kind}` may reach beyond its array",
                found=f"cannot tell whether `{relation}`",
                hint=f"promise it in this function: `where {relation}`",
            )
