"""Syntax tree to canonical text: indent of two, no parentheses that precedence makes idle, lines of 120.

The text parses to an equal tree up to spans, and formatting that tree gives the same text. Comments `//` are not in the
tree and do not come back; documentation does.
"""

from collections.abc import Iterable

from bittern.lang import syntax
from bittern.lang.expressions import COMPARISONS, PRECEDENCE
from bittern.lang.layout import (
    LINE_END,
    NOTHING,
    SPACE,
    Document,
    bracketed,
    group,
    is_forced,
    joined,
    lay_out,
    nest,
)

WIDTH = 120


def format_file(file: syntax.File) -> str:
    """Return the canonical text of a file: one blank line between declarations, none between `use` lines."""
    parts: list[str] = []
    before: syntax.Declaration | None = None
    for declaration in file.declarations:
        if before is not None and not (isinstance(before, syntax.Use) and isinstance(declaration, syntax.Use)):
            parts.append("")
        parts.append(lay_out(_declaration(declaration), WIDTH))
        before = declaration
    return "".join(part + "\n" for part in parts)


def format_expression(expr: syntax.Expr) -> str:
    """Return the canonical text of one expression."""
    return lay_out(_expression(expr), WIDTH)


def format_type(type_: syntax.TypeExpr) -> str:
    """Return the canonical text of one type."""
    return lay_out(_type(type_), WIDTH)


# --- declarations


def _declaration(declaration: syntax.Declaration) -> Document:
    if isinstance(declaration, syntax.Use):
        return "use " + ".".join(name.name for name in declaration.path)
    doc = _doc(declaration.doc)
    if isinstance(declaration, syntax.ConstDecl):
        type_ = _type(declaration.type)
        return [doc, f"const {declaration.name.name}: ", type_, " = ", _expression(declaration.value)]
    if isinstance(declaration, syntax.StructDecl):
        fields = bracketed("{", _fields(declaration.fields), "}", inner=" ")
        return [doc, f"struct {declaration.name.name}", _generics(declaration.generics), " ", fields]
    return [doc, *_function(declaration)]


def _doc(doc: str) -> list[Document]:
    if not doc:
        return []
    return [part for line in doc.split("\n") for part in (f"/// {line}".rstrip(), LINE_END)]


def _function(function: syntax.FunctionDecl) -> list[Document]:
    head: list[Document] = ["inline fn " if function.inline else "fn ", function.name.name]
    head += [_generics(function.generics), bracketed("(", _fields(function.parameters), ")")]
    head += [" -> ", _type(function.result)]
    if function.effects:
        head += [" ! ", ", ".join(name.name for name in function.effects)]
    if function.where:
        head += [" where ", group(nest(*joined(_expressions(function.where))))]
    head += [" ", _tall(function.body)]
    if function.ideal is not None:
        head += [" ideal ", _tall(function.ideal)]
    return head


def _generics(generics: tuple[syntax.Generic, ...]) -> Document:
    items: list[Document] = [f"{each.name.name}: {each.kind}" if each.kind else each.name.name for each in generics]
    return bracketed("[", items, "]") if items else ""


def _fields(fields: tuple[syntax.FieldDecl, ...]) -> list[Document]:
    return [[f"{each.name.name}: ", _type(each.type)] for each in fields]


# --- types and patterns


def _type(type_: syntax.TypeExpr) -> Document:
    mode = "own " if type_.mode == "own" else type_.mode
    if isinstance(type_, syntax.TupleType):
        return [mode, bracketed("(", [_type(item) for item in type_.items], ")")]
    parts: list[Document] = [mode, type_.name.name]
    if type_.arguments:
        parts.append(bracketed("[", _expressions(type_.arguments), "]"))
    if type_.space is not None:
        parts.append(f" @{type_.space.name}")
    return parts


def _pattern(pattern: syntax.Pattern) -> Document:
    if isinstance(pattern, syntax.NamePattern):
        return pattern.name.name
    items = [_pattern(item) for item in pattern.items]
    return bracketed("(", items, ")") if isinstance(pattern, syntax.TuplePattern) else bracketed("[", items, "]")


# --- blocks


def _tall(block: syntax.Block) -> Document:
    """Return a block with one line for each of its statements."""
    lines: list[Document] = []
    for statement in block.statements:
        lines += [LINE_END, _statement(statement)]
    return ["{", nest(*lines, LINE_END, _expression(block.result)), LINE_END, "}"]


def _block(block: syntax.Block) -> Document:
    """Return a block that may stand on one line, together with the group around it, if it has no statements."""
    if block.statements:
        return _tall(block)
    return ["{", nest(SPACE, _expression(block.result)), SPACE, "}"]


def _statement(statement: syntax.Statement) -> Document:
    if isinstance(statement, syntax.Assign):
        return [_expression(statement.place), " = ", _expression(statement.value)]
    annotation: list[Document] = [] if statement.type is None else [": ", _type(statement.type)]
    return ["let ", _pattern(statement.pattern), *annotation, " = ", _expression(statement.value)]


# --- expressions


def _expressions(items: Iterable[syntax.Expr]) -> list[Document]:
    return [_expression(item) for item in items]


def _expression(expr: syntax.Expr) -> Document:
    match expr:
        case syntax.Name():
            return expr.name
        case syntax.Number():
            return expr.text + expr.suffix
        case syntax.Call():
            return [_base(expr.callee), bracketed("(", [_argument(each) for each in expr.arguments], ")")]
        case syntax.Index():
            return [_base(expr.base), bracketed("[", [_range(each) for each in expr.items], "]")]
        case syntax.Field():
            return [_base(expr.base), "." + expr.name.name]
        case syntax.Unary():
            return _unary(expr)
        case syntax.Binary():
            return _binary(expr)
        case syntax.TupleLiteral():
            return bracketed("(", _expressions(expr.items), ")")
        case syntax.ArrayLiteral():
            return bracketed("[", _expressions(expr.items), "]")
        case syntax.Map():
            return _map(expr)
        case syntax.If():
            return group(*_if(expr))
        case syntax.For() | syntax.While():
            return group(_loop_head(expr), " ", _block(expr.body))
        case syntax.Block():
            return group(_block(expr))


def _argument(argument: syntax.Argument) -> Document:
    value = _expression(argument.value)
    return value if argument.label is None else [f"{argument.label.name}: ", value]


def _range(item: syntax.Range) -> Document:
    low = _expression(item.low)
    return low if item.high is None else [low, "..", _expression(item.high)]


def _grouped(expr: syntax.Expr) -> Document:
    return group("(", nest(NOTHING, _expression(expr)), NOTHING, ")")


def _base(expr: syntax.Expr) -> Document:
    """Return what a call, an index or a field applies to; a number would run into the point of a field."""
    loose = syntax.Unary | syntax.Binary | syntax.If | syntax.For | syntax.While | syntax.Number
    return _grouped(expr) if isinstance(expr, loose) else _expression(expr)


def _unary(expr: syntax.Unary) -> Document:
    sign = "not " if expr.operator == "not" else expr.operator
    inner = expr.operand
    if isinstance(inner, syntax.Binary | syntax.If | syntax.For | syntax.While):
        return [sign, _grouped(inner)]
    if isinstance(inner, syntax.Unary) and inner.operator == expr.operator == "&":
        return ["& ", _expression(inner)]  # two signs together would be read as one operator
    return [sign, _expression(inner)]


def _binary(expr: syntax.Binary) -> Document:
    """Return a chain of operators of one precedence, broken after each of them if it is too long."""
    rank = PRECEDENCE[expr.operator]
    links: list[tuple[str, syntax.Expr]] = []
    first: syntax.Expr = expr
    while isinstance(first, syntax.Binary) and PRECEDENCE[first.operator] == rank:
        links.append((first.operator, first.right))
        first = first.left
        if expr.operator in COMPARISONS:
            break
    head = _operand(first, rank + (expr.operator in COMPARISONS))
    tail = [(operator, _operand(right, rank + 1)) for operator, right in reversed(links)]
    if any(is_forced(right) for _, right in tail):
        return [head, *(part for operator, right in tail for part in (f" {operator} ", right))]
    return group(head, nest(*(part for operator, right in tail for part in (f" {operator}", SPACE, right))))


def _operand(expr: syntax.Expr, least: int) -> Document:
    """Return an operand, in parentheses if it is an operator that binds looser than `least`."""
    if isinstance(expr, syntax.Binary) and PRECEDENCE[expr.operator] < least:
        return _grouped(expr)
    return _expression(expr)


def _map(expr: syntax.Map) -> Document:
    walk = [
        "for ",
        ", ".join(name.name for name in expr.names),
        " in ",
        *joined([_range(each) for each in expr.ranges]),
    ]
    return group("[", nest(NOTHING, _expression(expr.body), SPACE, *walk), NOTHING, "]")


def _if(expr: syntax.If) -> list[Document]:
    parts: list[Document] = []
    otherwise: syntax.Expr = expr
    while isinstance(otherwise, syntax.If):
        parts += ["if ", _expression(otherwise.condition), " ", _block(otherwise.then), " else "]
        otherwise = otherwise.otherwise
    return [*parts, _block(otherwise) if isinstance(otherwise, syntax.Block) else _expression(otherwise)]


def _loop_head(expr: syntax.For | syntax.While) -> Document:
    if isinstance(expr, syntax.While):
        head: list[Document] = ["while ", _expression(expr.condition), " limit ", _expression(expr.limit)]
    else:
        names = ", ".join(name.name for name in expr.names)
        head = ["each " if expr.unrolled else "for ", names, " in ", *joined([_range(each) for each in expr.ranges])]
    carries = [_carry(carry) for carry in expr.carries]
    return group(nest(*head, " with ", *joined(carries)))


def _carry(carry: syntax.Carry) -> Document:
    return carry.name.name if carry.start is None else [f"{carry.name.name} = ", _expression(carry.start)]
