"""The syntax tree of `.btn`: what the parser makes and the elaborator reads. Every node knows its span.

Names are not resolved here: `name[...]` is an Index whether it indexes a value or instantiates a function or a type.
"""

from dataclasses import dataclass
from typing import TypeAlias

from bittern.lang.source import Span

# --- expressions


@dataclass(frozen=True, slots=True)
class Number:
    """A number. text: as written without suffix and underscores (`0x1f`, `1e-6`, `0x1p-100`); suffix: `f64` or ''."""

    span: Span
    text: str
    suffix: str

    @property
    def is_real(self) -> bool:
        """Whether it is written with a point or an exponent."""
        if self.text.lower().startswith("0x"):
            return "p" in self.text.lower() or "." in self.text
        return any(mark in self.text for mark in ".eE")


@dataclass(frozen=True, slots=True)
class Name:
    """A name."""

    span: Span
    name: str


@dataclass(frozen=True, slots=True)
class TupleLiteral:
    """`(a, b)`; always two items or more, or none."""

    span: Span
    items: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class ArrayLiteral:
    """`[a, b, c]`."""

    span: Span
    items: tuple["Expr", ...]


@dataclass(frozen=True, slots=True)
class Range:
    """`low..high`, half open; with high None: one value (an index, or an array to walk)."""

    span: Span
    low: "Expr"
    high: "Expr | None"


@dataclass(frozen=True, slots=True)
class Map:
    """`[body for names in ranges]`."""

    span: Span
    body: "Expr"
    names: tuple[Name, ...]
    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a call; label is the name before the colon, or None."""

    span: Span
    label: Name | None
    value: "Expr"


@dataclass(frozen=True, slots=True)
class Call:
    """`callee(arguments)`."""

    span: Span
    callee: "Expr"
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """`base[items]`: an index, a slice, or generic arguments of a function or type."""

    span: Span
    base: "Expr"
    items: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """`base.name`."""

    span: Span
    base: "Expr"
    name: Name


@dataclass(frozen=True, slots=True)
class Unary:
    """`-x`, `~x`, `not x`, `&x`; operator is one of `-` `~` `not` `&`."""

    span: Span
    operator: str
    operand: "Expr"


@dataclass(frozen=True, slots=True)
class Binary:
    """`left operator right`; operators: or and == != < <= > >= | ^ & << >> + - * / %."""

    span: Span
    operator: str
    left: "Expr"
    right: "Expr"
    operator_span: Span


@dataclass(frozen=True, slots=True)
class Carry:
    """`name = start` after `with`; start None: the value that the name has outside."""

    span: Span
    name: Name
    start: "Expr | None"


@dataclass(frozen=True, slots=True)
class If:
    """`if condition {..} else {..}`; otherwise is a Block, or another control expression after `else`."""

    span: Span
    condition: "Expr"
    then: "Block"
    otherwise: "Expr"


@dataclass(frozen=True, slots=True)
class For:
    """`for names in ranges with carries {..}` (a loop node); with `unrolled` it is `each` (over a list of structs)."""

    span: Span
    names: tuple[Name, ...]
    ranges: tuple[Range, ...]
    carries: tuple[Carry, ...]
    body: "Block"
    unrolled: bool


@dataclass(frozen=True, slots=True)
class While:
    """`while condition limit n with carries {..}`."""

    span: Span
    condition: "Expr"
    limit: "Expr"
    carries: tuple[Carry, ...]
    body: "Block"


@dataclass(frozen=True, slots=True)
class Block:
    """`{ statements result }`."""

    span: Span
    statements: tuple["Statement", ...]
    result: "Expr"


Expr: TypeAlias = (
    Number | Name | TupleLiteral | ArrayLiteral | Map | Call | Index | Field | Unary | Binary | If | For | While | Block
)

# --- types


@dataclass(frozen=True, slots=True)
class NamedType:
    """`own f32[n, 32] @ device`. mode: `own`, `&` or ''. arguments: dimensions, elements or types, as expressions."""

    span: Span
    mode: str
    name: Name
    arguments: tuple[Expr, ...]
    space: Name | None


@dataclass(frozen=True, slots=True)
class TupleType:
    """`(a, b)`."""

    span: Span
    mode: str
    items: tuple["TypeExpr", ...]


TypeExpr: TypeAlias = NamedType | TupleType

# --- statements


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Binds one name; `_` binds nothing."""

    span: Span
    name: Name


@dataclass(frozen=True, slots=True)
class TuplePattern:
    """`(a, b)`: takes a tuple apart."""

    span: Span
    items: tuple["Pattern", ...]


@dataclass(frozen=True, slots=True)
class ArrayPattern:
    """`[a, b]`: takes the first axis of an array apart."""

    span: Span
    items: tuple["Pattern", ...]


Pattern: TypeAlias = NamePattern | TuplePattern | ArrayPattern


@dataclass(frozen=True, slots=True)
class Let:
    """`let pattern: type = value`."""

    span: Span
    pattern: Pattern
    type: TypeExpr | None
    value: Expr


@dataclass(frozen=True, slots=True)
class Assign:
    """`place = value`; the place is a name with fields and indices: `cache.k[l, seq, pos]`."""

    span: Span
    place: Expr
    value: Expr


Statement: TypeAlias = Let | Assign

# --- declarations


@dataclass(frozen=True, slots=True)
class Generic:
    """One generic parameter; kind '' is a dimension, else `type`, `int`, `float` or `format`."""

    span: Span
    name: Name
    kind: str


@dataclass(frozen=True, slots=True)
class FieldDecl:
    """`name: type`, a parameter or a field of a struct."""

    span: Span
    name: Name
    type: TypeExpr


@dataclass(frozen=True, slots=True)
class Use:
    """`use module.name`."""

    span: Span
    path: tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class ConstDecl:
    """`const NAME: type = value`. doc: the `///` lines above, without the slashes."""

    span: Span
    name: Name
    type: TypeExpr
    value: Expr
    doc: str


@dataclass(frozen=True, slots=True)
class StructDecl:
    """`struct Name[generics] { fields }`."""

    span: Span
    name: Name
    generics: tuple[Generic, ...]
    fields: tuple[FieldDecl, ...]
    doc: str


@dataclass(frozen=True, slots=True)
class FunctionDecl:
    """`inline fn name[generics](parameters) -> result ! effects where facts { body } ideal { body }`."""

    span: Span
    name: Name
    inline: bool
    generics: tuple[Generic, ...]
    parameters: tuple[FieldDecl, ...]
    result: TypeExpr
    effects: tuple[Name, ...]
    where: tuple[Expr, ...]
    body: Block
    ideal: Block | None
    doc: str


Declared: TypeAlias = ConstDecl | StructDecl | FunctionDecl
Declaration: TypeAlias = Use | Declared


@dataclass(frozen=True, slots=True)
class File:
    """One parsed file."""

    span: Span
    declarations: tuple[Declaration, ...]
