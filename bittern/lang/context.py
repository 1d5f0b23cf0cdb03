"""What an elaboration carries along: the module, the generic arguments, the frame and scope, and where errors go."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from bittern.base.errors import code
from bittern.graph.node import Node, node
from bittern.lang import syntax
from bittern.lang.frame import Frame, Scope
from bittern.lang.source import Diagnostic, Span
from bittern.lang.values import LangType, Value, leaf_types, type_text
from bittern.ops.table import ops
from bittern.types.dims import Dim, apply_facts
from bittern.types.elements import Element
from bittern.types.faults import TypeFault
from bittern.types.values import Tensor, Type

if TYPE_CHECKING:
    from bittern.lang.library import Library, Module

POISONED = code("E200", "depends on a name whose definition has an error")


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
        span = diagnostic.span
        key = (diagnostic.code, span.source.name, span.start, span.end)
        if key not in self._seen:
            self._seen.add(key)
            self.found.append(diagnostic)


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

    names: the names of the dimension symbols, by position, for messages. callers: names of the functions around, to
    find recursion. ideal: the body states a meaning over the reals. effects: what the function's type allows.
    borrowed: owned names read through `&` in the call that is being elaborated. labels, lines: names and places of nodes.
    """

    library: "Library"
    module: "Module"
    generics: Generics
    frame: Frame
    scope: Scope
    errors: Errors
    names: tuple[str, ...] = ()
    callers: tuple[str, ...] = ()
    ideal: bool = False
    effects: tuple[str, ...] = ()
    borrowed: dict[str, Span] = field(default_factory=dict)
    labels: dict[bytes, str] = field(default_factory=dict)
    lines: dict[bytes, tuple[str, int]] = field(default_factory=dict)

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
        return replace(self, frame=frame, scope=Scope(frame, self.scope), borrowed={})

    def block(self) -> "Context":
        """Return the context of an inner block of the same frame."""
        return replace(self, scope=Scope(self.frame, self.scope))

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

    def caught(self, reject: Reject) -> None:
        """Keep the diagnostic of a statement that was left."""
        if reject.diagnostic is not None:
            self.errors.add(reject.diagnostic)

    def text(self, type_: LangType | Dim) -> str:
        """Print a type or dimension with the names of this function."""
        if isinstance(type_, Dim):
            return type_.text(self.names)
        return type_text(type_, self.names)

    def op(self, kind: str, inputs: Sequence[Node], span: Span, **attributes: object) -> Node:
        """Return a primitive op's node, or reject with the row's own words."""
        row = ops()[kind]
        try:
            type_ = row.rule(tuple(i.type for i in inputs), attributes)
        except TypeFault as fault:
            names = [self.text(d) if isinstance(d, Dim) else str(d) for d in fault.dims]
            self.reject(
                fault.code,
                span,
                f"`{kind}` does not fit its operands",
                found=fault.found.format(*names) if names else fault.found,
                expected=fault.expected.format(*names) if names else fault.expected,
                hint=fault.hint.format(*names) if names else fault.hint,
            )
        return node(kind, inputs, attributes, type_)  # type: ignore[arg-type]

    def value(self, kind: str, inputs: Sequence[Node], span: Span, **attributes: object) -> Value:
        """Return a primitive op of one tensor result as a fresh value."""
        made = self.op(kind, inputs, span, **attributes)
        assert isinstance(made.type, Tensor), made.type
        return Value(made.type, (made,), "fresh")


def placeholder(type_: LangType) -> Value:
    """Return a value of the type that stands for a result which is not known yet (generic check, or after an error)."""
    leaves = tuple(_unknown(leaf, index) for index, leaf in enumerate(leaf_types(type_)))
    return Value(type_, leaves, "fresh")


def _unknown(type_: Type, index: int) -> Node:
    return node("unknown", (), {"index": index}, type_)


Handler = Callable[[Context, syntax.Expr, Element | None], Value]
_handlers: dict[type, Handler] = {}


def handles(kind: type) -> Callable[[Handler], Handler]:
    """Declare the decorated function as what elaborates one kind of expression."""

    def declare(handler: Handler) -> Handler:
        _handlers[kind] = handler
        return handler

    return declare


def expression(ctx: Context, e: syntax.Expr, expected: Element | None = None) -> Value:
    """Elaborate an expression. expected: the element that a bare literal takes, if the context says one."""
    return _handlers[type(e)](ctx, e, expected)
