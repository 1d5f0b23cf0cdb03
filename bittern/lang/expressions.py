"""The grammar of expressions, blocks, statements, patterns and types; declarations are in `parser`.

One token of look-ahead. Binary operators are reduced with a stack of operators (Dijkstra's shunting yard), so their
precedence costs no recursion; prefix and postfix operators are loops. What recurses is bounded by MAX_NESTING, the
height of the tree by MAX_HEIGHT.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from bittern.base.errors import code
from bittern.lang import syntax
from bittern.lang.cursor import UNEXPECTED, Cursor, Recover
from bittern.lang.lexer import KEYWORDS, MAX_NESTING, TOO_DEEP, Reports, Tokens
from bittern.lang.source import Span

MISSING_BLOCK = code("E106", "a block in braces is missing")
CHAINED_COMPARISON = code("E109", "comparisons are chained")
NO_VALUE = code("E113", "a block does not end with its value")
UNUSED_VALUE = code("E114", "a value in the middle of a block is not used")
MISSING_ELSE = code("E115", "an `if` has no `else`")
NOT_A_PLACE = code("E117", "the left side of an assignment is not a place")

MAX_HEIGHT = 200

PRECEDENCE: dict[str, int] = {  # a higher number binds tighter; all are left associative
    "or": 1,
    "and": 2,
    **dict.fromkeys(["==", "!=", "<", "<=", ">", ">="], 3),  # one comparison, no chains
    "|": 4,
    "^": 5,
    "&": 6,
    **dict.fromkeys(["<<", ">>"], 7),
    **dict.fromkeys(["+", "-"], 8),
    **dict.fromkeys(["*", "/", "%"], 9),
}
COMPARISONS = frozenset(["==", "!=", "<", "<=", ">", ">="])
PREFIXES = frozenset(["-", "~", "not", "&"])
CONTROLS = frozenset(["if", "for", "each", "while"])

_STATEMENT_END = frozenset(["newline"])
_BLOCK_START = frozenset(["{", "newline"])
_OPERAND_HINTS = {
    "own": "`own` stands in types only; a value is moved by its name alone",
    "let": "a `let` stands on a line of its own in a block",
    "!": "write `not`",
    "{": "braces hold blocks only: struct values use parentheses, `Point(x: 1.0, y: 2.0)`",
    "else": "`else` stands on the line of the `}` before it",
    "=": "a place is assigned with one `=`, and `x += 1` is written `x = x + 1`",
    "newline": "a long expression is broken after an operator or inside brackets",
    "fn": "functions are not values: declare it at the top of the file and call it by name",
}

T = TypeVar("T")


class Expressions(Cursor):
    """Parses everything that can stand inside a declaration. high: the height of the tree parsed last."""

    def __init__(self, tokens: Tokens, reports: Reports) -> None:
        super().__init__(tokens, reports)
        self.high = 0
        self.headers = 0  # in how many control expressions we are, outside of their blocks

    # --- operators

    def expression(self) -> syntax.Expr:
        """Parse `operand { operator operand }`."""
        outer, self.high = self.high, 0
        start = self.starts[self.at]
        result = self._operand()
        if self.kind in PRECEDENCE:
            result = self._binary(start, result)
        if self.high > MAX_HEIGHT:
            message = f"an expression has more than {MAX_HEIGHT} operators or levels"
            self.fault(TOO_DEEP, message, hint="bind parts with `let`, or use `sum` over an array")
        self.high = max(self.high, outer)
        return result

    def _binary(self, start: int, first: syntax.Expr) -> syntax.Expr:
        operands: list[tuple[syntax.Expr, int, int]] = [(first, start, self.ends[self.at - 1])]
        operators: list[tuple[int, str, int]] = []

        def reduce() -> None:
            _, operator, at = operators.pop()
            right, _, end = operands.pop()
            left, begin, _ = operands.pop()
            sign = Span(self.source, at, at + len(operator))
            operands.append((syntax.Binary(Span(self.source, begin, end), operator, left, right, sign), begin, end))

        while self.kind in PRECEDENCE:
            rank, operator = PRECEDENCE[self.kind], self.kind
            while operators and operators[-1][0] >= rank:
                if operator in COMPARISONS and operators[-1][1] in COMPARISONS:
                    message = f"`{operators[-1][1]}` and `{operator}` are chained"
                    hint = "join two comparisons with `and`, or put one in parentheses"
                    self.fault(CHAINED_COMPARISON, message, expected="one comparison", hint=hint)
                reduce()
            operators.append((rank, operator, self.starts[self.at]))
            self.high += 1
            self.advance()
            start = self.starts[self.at]
            right = self._operand()
            operands.append((right, start, self.ends[self.at - 1]))
        while operators:
            reduce()
        return operands[0][0]

    def _operand(self) -> syntax.Expr:
        outer, self.high = self.high, 0
        if self.kind in CONTROLS:
            result = self._control()
        elif self.kind in PREFIXES:
            result = self._prefixed()
        else:
            result = self._postfix()
        if self.high < outer:
            self.high = outer
        return result

    def _prefixed(self) -> syntax.Expr:
        signs: list[tuple[str, int]] = []
        while self.kind in PREFIXES:
            signs.append((self.kind, self.starts[self.at]))
            self.advance()
        if self.kind in CONTROLS:
            self.unexpected("a value", f"put the `{self.kind}` in parentheses")
        result = self._postfix()
        self.high += len(signs)
        if self.high <= MAX_HEIGHT:
            for sign, start in reversed(signs):
                result = syntax.Unary(self.span_from(start), sign, result)
        return result

    def _postfix(self) -> syntax.Expr:
        start = self.starts[self.at]
        result = self._atom()
        while True:
            if self.kind == "(":
                arguments = self.items(")", self._argument)
                result = syntax.Call(self.span_from(start), result, arguments)
            elif self.kind == "[":
                ranges = self.items("]", self._range)
                result = syntax.Index(self.span_from(start), result, ranges)
            elif self.kind == ".":
                self.advance()
                name = self.name("the name of a field")
                result = syntax.Field(self.span_from(start), result, name)
            else:
                return result
            self.high += 1

    def _argument(self) -> syntax.Argument:
        start, first = self.starts[self.at], self.at
        value = self.expression()
        if self.kind == ":" and isinstance(value, syntax.Name) and self.at == first + 1:
            self.advance()
            label, value = value, self.expression()
            return syntax.Argument(self.span_from(start), label, value)
        return syntax.Argument(self.span_from(start), None, value)

    def _range(self) -> syntax.Range:
        start = self.starts[self.at]
        low = self.expression()
        high = self.expression() if self.take("..") else None
        return syntax.Range(self.span_from(start), low, high)

    # --- atoms

    def _atom(self) -> syntax.Expr:
        if self.kind == "name":
            return self.name("a value")
        if self.kind == "number":
            span = self.here()
            text, suffix = self.tokens.numbers[self.at]
            self.advance()
            return syntax.Number(span, text, suffix)
        start = self.starts[self.at]
        if self.kind == "(":
            items = self.items(")", self.expression)
            if len(items) == 1:
                return items[0]
            self.high += 1
            return syntax.TupleLiteral(self.span_from(start), items)
        if self.kind == "[":
            return self._array(start)
        if self.kind in ("limit", "ideal"):
            return self.name("a value")
        before = self.kinds[self.at - 1]
        missing = f"a value is missing after `{before}`" if before in PRECEDENCE else ""
        self.unexpected("a value", _OPERAND_HINTS.get(self.kind, missing))

    def _array(self, start: int) -> syntax.Expr:
        self.advance()
        items: list[syntax.Expr] = []
        while self.kind != "]":
            items.append(self.expression())
            if self.kind == "for" and len(items) == 1:
                self.advance()
                names, ranges = self._walk()
                self.expect("]", "`,` or `]`")
                self.high += 1
                return syntax.Map(self.span_from(start), items[0], names, ranges)
            if not self.take(",") and self.kind != "]":
                self.unexpected("`,` or `]`", self._gap_hint())
        self.advance()
        self.high += 1
        return syntax.ArrayLiteral(self.span_from(start), tuple(items))

    def items(self, closer: str, parse: Callable[[], T]) -> tuple[T, ...]:
        """Parse the opening bracket at which we stand, a list with an optional trailing comma, and the closer."""
        self.advance()
        found: list[T] = []
        while self.kind != closer:
            found.append(parse())
            if not self.take(",") and self.kind != closer:
                self.unexpected(f"`,` or `{closer}`", self._gap_hint())
        self.advance()
        return tuple(found)

    def _gap_hint(self) -> str:
        if self.kind in ("name", "number", "("):
            return "is an operator or a `,` missing?"
        return "compare with `==`" if self.kind == "=" else ""

    # --- control

    def _control(self) -> syntax.Expr:
        depth = self.depths[self.at]
        if self.headers + depth > MAX_NESTING:
            message = f"expressions are nested more than {MAX_NESTING} deep"
            self.fault(TOO_DEEP, message, hint="bind inner parts with `let`")
        start, word = self.starts[self.at], self.kind
        self.headers += 1
        try:
            self.advance()
            if word == "if":
                result = self._if(start)
            elif word == "while":
                result = self._while(start)
            else:
                result = self._loop(start, unrolled=word == "each")
        except Recover:
            self._check_block_anyway(depth)
            raise
        finally:
            self.headers -= 1
        self.high += 1
        return result

    def _check_block_anyway(self, depth: int) -> None:
        """After a fault in a header, parse the block that follows on its line, for the errors inside it."""
        self.skip_to(_BLOCK_START, depth)
        if self.kind == "{" and self.depths[self.at] == depth:
            self._own_block("here")

    def _own_block(self, where: str) -> syntax.Block:
        """Parse a block of the control expression at hand; its bracket counts as a level, so the header does not."""
        self.headers -= 1
        try:
            return self.block(where)
        finally:
            self.headers += 1

    def _if(self, start: int) -> syntax.Expr:
        condition = self.expression()
        then = self._own_block("after the condition")
        if self.kind == "newline" and self.kinds[self.at + 1] == "else":
            self.advance()
            hint = "a line break ends a statement: write `} else {`"
            self.report(MISSING_ELSE, self.here(), "`else` stands on the line of the `}` before it", hint=hint)
        elif self.kind != "else":
            hint = "an `if` is a value, so it needs both: `if condition { a } else { b }`"
            self.fault(MISSING_ELSE, "the `if` has no `else`", self.found(), "`else`", hint)
        self.advance()
        otherwise = self._control() if self.kind in CONTROLS else self._own_block("after `else`")
        return syntax.If(self.span_from(start), condition, then, otherwise)

    def _loop(self, start: int, unrolled: bool) -> syntax.Expr:
        names, ranges = self._walk()
        carries = self._carries()
        body = self._own_block("after the carried values")
        return syntax.For(self.span_from(start), names, ranges, carries, body, unrolled)

    def _while(self, start: int) -> syntax.Expr:
        condition = self.expression()
        self.expect("limit", hint="a `while` states its largest number of rounds: `while condition limit n with ...`")
        limit = self.expression()
        carries = self._carries()
        body = self._own_block("after the carried values")
        return syntax.While(self.span_from(start), condition, limit, carries, body)

    def _walk(self) -> tuple[tuple[syntax.Name, ...], tuple[syntax.Range, ...]]:
        """Parse `names in ranges`."""
        names = [self.name("the name of a loop variable")]
        while self.take(","):
            names.append(self.name("the name of a loop variable"))
        self.expect("in", "`,` or `in`")
        ranges = [self._range()]
        while self.take(","):
            ranges.append(self._range())
        return tuple(names), tuple(ranges)

    def _carries(self) -> tuple[syntax.Carry, ...]:
        self.expect("with", hint="a loop carries its values: `with sum = 0.0`; to build an array write `[... for ...]`")
        carries = [self._carry()]
        while self.take(","):
            carries.append(self._carry())
        return tuple(carries)

    def _carry(self) -> syntax.Carry:
        start = self.starts[self.at]
        name = self.name("the name of a carried value")
        value = self.expression() if self.take("=") else None
        return syntax.Carry(self.span_from(start), name, value)

    # --- blocks and statements

    def block(self, where: str) -> syntax.Block:
        """Parse `{ statements result }` with recovery at each line. where: a phrase for a missing `{`."""
        if self.kind != "{":
            self._missing_block(where)
        start, depth = self.starts[self.at], self.depths[self.at] + 1
        self.advance()
        items: list[syntax.Expr | syntax.Statement | None] = []  # None: a statement with an error
        while self.kind != "}":
            self._note_unused(items)
            try:
                item = self._statement()
                items.append(item)
                if self.kind not in ("newline", "}"):
                    self.unexpected("a line break or an operator", self._line_hint(item))
            except Recover:
                self.failed = True
                items.append(None)
                self.skip_to(_STATEMENT_END, depth)
            self.take("newline")
        result = self._result(items)
        self.advance()
        statements = tuple(item for item in items[:-1] if isinstance(item, syntax.Let | syntax.Assign))
        return syntax.Block(self.span_from(start), statements, result)

    def _missing_block(self, where: str) -> None:
        """Fault where `{` should be; a `{` on the next line is reported and taken."""
        bare = self.kinds[self.at - 1] == "else"
        if bare or self.kind in ("newline", "end", "}", ")", "]") or self.kind in KEYWORDS:
            if self.kind == "newline" and self.kinds[self.at + 1] == "{":
                self.report(MISSING_BLOCK, self.here(), "`{` stands on the line that it belongs to", "", "`{`")
                return self.advance()
            hint = "put the value in braces: `{ value }`"
            self.fault(MISSING_BLOCK, f"a block is missing {where}", self.found(), "`{`", hint)
        self.unexpected("an operator or `{`")

    def _note_unused(self, items: list[syntax.Expr | syntax.Statement | None]) -> None:
        if items and items[-1] is not None and not isinstance(items[-1], syntax.Let | syntax.Assign):
            hint = "bind it with `let`, assign it to a place, or remove it"
            message = "only the last line of a block is its value"
            self.report(
                UNUSED_VALUE, items[-1].span, message, "a value that nothing uses", "`let` or an assignment", hint
            )

    def _result(self, items: list[syntax.Expr | syntax.Statement | None]) -> syntax.Expr:
        last = items[-1] if items else None
        if last is not None and not isinstance(last, syntax.Let | syntax.Assign):
            return last
        if last is not None or not items:
            found = "an empty block" if last is None else "a statement"
            hint = "a block is worth its last line: add the value"
            self.report(NO_VALUE, self.here(), "the block does not end with its value", found, "an expression", hint)
        return syntax.TupleLiteral(self.here(), ())

    def _line_hint(self, item: syntax.Expr | syntax.Statement) -> str:
        if self.kind == "{":
            return _OPERAND_HINTS["{"]
        if self.kind == "let":
            return _OPERAND_HINTS["let"]
        if self.kind == "=" and isinstance(item, syntax.Let | syntax.Assign):
            return "compare with `==`"
        if isinstance(item, syntax.Name) and item.name in ("var", "mut", "return", "def", "loop", "match"):
            return f"there is no `{item.name}`: values are bound with `let`, and a block is worth its last line"
        return "one statement a line"

    def _statement(self) -> syntax.Expr | syntax.Statement:
        start = self.starts[self.at]
        if self.take("let"):
            return self._let(start)
        place = self.expression()
        if self.kind != "=":
            return place
        if not _is_place(place):
            hint = "bind a new name with `let`, or compare with `==`"
            if isinstance(place, syntax.Index):
                hint = "write all indices in one pair of brackets, after the fields: `x.field[i, j] = value`"
            expected = "a name with fields and indices: `x[i] = ...` or `x.field[i, j] = ...`"
            self.report(NOT_A_PLACE, place.span, "the left side cannot be assigned", "", expected, hint)
        self.advance()
        value = self.expression()
        return syntax.Assign(self.span_from(start), place, value)

    def _let(self, start: int) -> syntax.Let:
        pattern = self._pattern()
        annotation = self.type_expression() if self.take(":") else None
        self.expect("=", "`=`" if annotation is not None else "`:` or `=`")
        value = self.expression()
        return syntax.Let(self.span_from(start), pattern, annotation, value)

    def _pattern(self) -> syntax.Pattern:
        start = self.starts[self.at]
        if self.kind == "(":
            items = self.items(")", self._pattern)
            return items[0] if len(items) == 1 else syntax.TuplePattern(self.span_from(start), items)
        if self.kind == "[":
            items = self.items("]", self._pattern)
            return syntax.ArrayPattern(self.span_from(start), items)
        name = self.name("a name, `(` or `[`")
        return syntax.NamePattern(name.span, name)

    # --- types

    def type_expression(self) -> syntax.TypeExpr:
        """Parse `[own | &] name [arguments] [@ space]` or a tuple of types."""
        start = self.starts[self.at]
        mode = self.kind if self.kind in ("own", "&") else ""
        if mode:
            self.advance()
        if self.kind == "(":
            items = self.items(")", self.type_expression)
            if len(items) == 1:
                return self._grouped(start, mode, items[0])
            return syntax.TupleType(self.span_from(start), mode, items)
        name = self.name("a type")
        arguments = self.items("]", self.expression) if self.kind == "[" else ()
        space = self.name("a space: `host`, `device`, `pinned`, `unified` or `remote`") if self.take("@") else None
        return syntax.NamedType(self.span_from(start), mode, name, arguments, space)

    def _grouped(self, start: int, mode: str, item: syntax.TypeExpr) -> syntax.TypeExpr:
        if mode and item.mode:
            span = self.span_from(start)
            hint = "keep one of them"
            self.report(UNEXPECTED, span, f"a type is `{mode}` and `{item.mode}` at once", "", "one of them", hint)
        return replace(item, mode=mode or item.mode)


def _is_place(expr: syntax.Expr) -> bool:
    if isinstance(expr, syntax.Index):
        expr = expr.base
    while isinstance(expr, syntax.Field):
        expr = expr.base
    return isinstance(expr, syntax.Name)
