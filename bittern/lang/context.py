"""What an elaboration carries along: the module, the generic arguments, the frame and scope, and where errors go."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from bittern.base.errors import code
from bittern.graph.node import Attribute, Node, node
from bittern.lang import syntax
from bittern.lang.frame import Binding, Frame, Scope
from bittern.lang.source import Diagnostic, Span
from bittern.lang.values import LangType, TupleType, Value, changed_dims, leaf_types, type_text
from bittern.ops.table import ops
from bittern.types.dims import Dim, DimTooLargeError, apply_facts, without_facts
from bittern.types.elements import Element
from bittern.types.faults import (
    ATTRIBUTE_UNFIT,
    ELEMENT_MISMATCH,
    ELEMENT_UNFIT,
    RANK_UNFIT,
    SHAPE_MISMATCH,
    TypeFault,
)
from bittern.types.values import Tensor, Type

if TYPE_CHECKING:
    from bittern.lang.library import Library, Module

Elaborated: TypeAlias = syntax.Expr | syntax.ConstDecl


DIM_TOO_LARGE = code("E407", "a dimension has too many terms or factors")

_FAULTS = {
    ELEMENT_MISMATCH: "`{}` is given different element types",
    ELEMENT_UNFIT: "`{}` is not defined for this element type",
    ATTRIBUTE_UNFIT: "an argument of `{}` is out of its range",
    SHAPE_MISMATCH: "the dimensions do not fit `{}`",
    RANK_UNFIT: "`{}` needs another number of dimensions",
}


class Reject(Exception):
    """Leaves the statement that is being elaborated. The diagnostic is None where the cause was reported already."""

    def __init__(self, diagnostic: Diagnostic | None) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Errors:
    """The diagnostics of one check, each once however often a function is instantiated."""

    found: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[str, str, int, int]] = field(default_factory=set)

    def add(self, diagnostic: Diagnostic) -> None:
        """Keep a diagnostic unless the same one is there."""
        key = _key(diagnostic)
        if key not in self._seen:
            self._seen.add(key)
            self.found.append(diagnostic)

    def forget(self, count: int) -> list[Diagnostic]:
        """Drop all but the first `count` diagnostics; return those dropped."""
        dropped = self.found[count:]
        del self.found[count:]
        self._seen.difference_update(map(_key, dropped))
        return dropped

    def of(self, source: str) -> list[Diagnostic]:
        """Return the diagnostics in the source of this name."""
        return [each for each in self.found if each.span.source.name == source]


def _key(diagnostic: Diagnostic) -> tuple[str, str, int, int]:
    span = diagnostic.span
    return diagnostic.code, span.source.name, span.start, span.end


@dataclass(slots=True)
class Generics:
    """Generic arguments by name. facts: pairs (top, bottom) with top % bottom == 0. relations: other `where` facts."""

    dims: dict[str, Dim] = field(default_factory=dict)
    elements: dict[str, Element] = field(default_factory=dict)
    facts: tuple[tuple[Dim, Dim], ...] = ()
    relations: tuple[tuple[str, Dim, Dim], ...] = ()

    def normal(self, value: Dim) -> Dim:
        """Return the dimension rewritten with the facts."""
        return apply_facts(value, self.facts)


@dataclass(slots=True)
class Context:
    """One function (or inlined call) under elaboration.

    names: the names of the dimension symbols, by position, for messages. callers: the declarations that are being
    elaborated around, to find recursion. ideal: the body states a meaning over the reals. effects: what the function's
    type allows. borrowed: owned names read through `&` in the call that is being elaborated. labels, lines: names and
    places of nodes. inlined: calls in inlined bodies that were inlined in turn.
    """

    library: "Library"
    module: "Module"
    generics: Generics
    frame: Frame
    scope: Scope
    errors: Errors
    names: tuple[str, ...] = ()
    callers: "tuple[syntax.Declared, ...]" = ()
    ideal: bool = False
    effects: tuple[str, ...] = ()
    borrowed: dict[Binding, Span] = field(default_factory=dict)
    labels: dict[bytes, str] = field(default_factory=dict)
    inlined: list[Span] = field(default_factory=list)
    lines: dict[bytes, tuple[str, int]] = field(default_factory=dict)

    @staticmethod
    def outside(module: "Module", callers: "tuple[syntax.Declared, ...]" = ()) -> "Context":
        """Return a context in which no function is: that of a constant, or of the fields of a struct."""
        frame = Frame("function", None, ())
        library = module.library
        return Context(library, module, Generics(), frame, Scope(frame), library.errors, callers=callers)

    def label(self, leaves: Sequence[Node], name: syntax.Name) -> None:
        """Remember what the program calls these nodes, and where; of a function's own nodes only."""
        if self.frame.kind != "function" or name.name == "_":
            return
        for place, leaf in enumerate(leaves):
            text = name.name if len(leaves) == 1 else f"{name.name}.{place}"
            if leaf.kind != "param" and leaf.id not in self.labels:
                self.labels[leaf.id] = text
                self.lines[leaf.id] = (name.span.source.name, name.span.source.position(name.span.start)[0])

    def within(self, frame: Frame) -> "Context":
        """Return the context inside a body."""
        return replace(self, frame=frame, scope=Scope(frame, self.scope, frame.kind), borrowed={})

    def block(self, body: str = "") -> "Context":
        """Return the context of an inner block of the same frame. body: its kind if it is a body (`each`)."""
        return replace(self, scope=Scope(self.frame, self.scope, body))

    def is_caller(self, declaration: "syntax.Declared") -> bool:
        """Whether a declaration is being elaborated around this place."""
        return any(caller is declaration for caller in self.callers)

    def reject(
        self,
        code_: str,
        span: Span,
        message: str,
        *,
        found: str = "",
        expected: str = "",
        hint: str = "",
        notes: tuple[tuple[Span, str], ...] = (),
    ) -> NoReturn:
        """Report an error and leave the statement."""
        raise Reject(Diagnostic(code_, span, message, found, expected, hint, notes))

    def every(self, parts: "Sequence[Callable[[], Value]]") -> list[Value]:
        """Elaborate parts that do not depend on each other, so that each of them reports its own error."""
        values: list[Value] = []
        for part in parts:
            try:
                values.append(part())
            except Reject as reject:
                self.caught(reject)
        if len(values) < len(parts):
            raise Reject(None)
        return values

    def reject_unknown(self, code_: str, span: Span, message: str, hint: str = "") -> NoReturn:
        """Report an unknown name, unless a syntax error has hidden declarations: then the name may be one of them."""
        if self.module.is_hiding():
            raise Reject(None)
        self.reject(code_, span, message, hint=hint)

    def caught(self, reject: Reject) -> None:
        """Keep the diagnostic of a statement that was left."""
        if reject.diagnostic is not None:
            self.errors.add(reject.diagnostic)

    def text(self, type_: LangType | Dim) -> str:
        """Print a type or dimension as this function writes it: with its names, and without what facts add."""
        if isinstance(type_, Dim):
            return without_facts(type_, self.generics.facts).text(self.names)
        return type_text(changed_dims(type_, lambda size: without_facts(size, self.generics.facts)), self.names)

    def op(self, kind: str, inputs: Sequence[Node], span: Span, shown: str = "", **attributes: Attribute) -> Node:
        """Return a primitive op's node, or reject with the row's own words. shown: how the program writes the op."""
        row = ops()[kind]
        try:
            type_ = row.rule(tuple(i.type for i in inputs), attributes)
        except TypeFault as fault:
            self.reject(
                fault.code,
                span,
                _FAULTS[fault.code].format(shown or kind),
                found=self._fault_text(fault.found, fault.dims),
                expected=self._fault_text(fault.expected, fault.dims),
                hint=self._fault_text(fault.hint, fault.dims),
            )
        return node(kind, inputs, attributes, type_)

    def _fault_text(self, text: str, dims: tuple[object, ...]) -> str:
        """Fill a rule's phrase: its dimensions by number, and this function's names for `d0`, `d1`, ..."""
        if dims:
            text = text.format(*(self.text(d) if isinstance(d, Dim) else str(d) for d in dims))
        places = dict(enumerate(self.names))
        return re.sub(r"\bd(\d+)\b", lambda match: places.get(int(match[1]), match[0]), text)

    def value(self, kind: str, inputs: Sequence[Node], span: Span, shown: str = "", **attributes: Attribute) -> Value:
        """Return a primitive op of one tensor result as a fresh value."""
        made = self.op(kind, inputs, span, shown, **attributes)
        assert isinstance(made.type, Tensor), made.type
        return Value.of(made.type, (made,), "fresh")


def placeholder(type_: LangType, modes: str | Sequence[str] = "fresh") -> Value:
    """Return a value of the type that stands for a result which is not known yet (generic check, or after an error)."""
    leaves = tuple(_unknown(leaf, index) for index, leaf in enumerate(leaf_types(type_)))
    return Value.of(type_, leaves).marked(modes)


def _unknown(type_: Type, index: int) -> Node:
    return node("unknown", (), {"index": index}, type_)


Expected: TypeAlias = Element | tuple["Expected", ...] | None  # what literals take: one element, or one for each item
Handler: TypeAlias = Callable[[Context, Elaborated, Element | None], Value]
WideHandler: TypeAlias = Callable[[Context, Elaborated, Expected], Value]
_handlers: dict[type, Handler] = {}
_wide_handlers: dict[type, WideHandler] = {}


def handles(kind: type) -> Callable[[Handler], Handler]:
    """Declare the decorated function as what elaborates one kind of expression."""

    def declare(handler: Handler) -> Handler:
        _handlers[kind] = handler
        return handler

    return declare


def handles_tuples(kind: type) -> Callable[[WideHandler], WideHandler]:
    """Declare the decorated function as what elaborates one kind of expression, whose value may be a tuple."""

    def declare(handler: WideHandler) -> WideHandler:
        _wide_handlers[kind] = handler
        return handler

    return declare


def expression(ctx: Context, e: Elaborated, expected: Expected = None) -> Value:
    """Elaborate an expression. expected: the elements that bare literals take, if the context says some."""
    wide = _wide_handlers.get(type(e))
    try:
        if wide is not None:
            return wide(ctx, e, expected)
        return _handlers[type(e)](ctx, e, expected if isinstance(expected, Element) else None)
    except DimTooLargeError as fault:
        ctx.reject(DIM_TOO_LARGE, e.span, "a dimension here is too large to be compared with others", found=str(fault))


def expectation(type_: LangType) -> Expected:
    """Return the elements that literals take where a value of this type is expected."""
    if isinstance(type_, Tensor):
        return type_.element
    return tuple(expectation(item) for item in type_.items) if isinstance(type_, TupleType) else None


def items_expected(expected: Expected, count: int) -> Sequence[Expected]:
    """Return what is expected of each item of a tuple."""
    return expected if isinstance(expected, tuple) and len(expected) == count else (None,) * count
