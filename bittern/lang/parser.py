"""Tokens to syntax tree: files and declarations, with recovery, so that all independent errors come at once.

The tree holds only the declarations without a syntax error. Parsing never raises, whatever the text is, and takes
time linear in its length.
"""

from bisect import bisect_left
from contextlib import suppress

from bittern.base.errors import code, nearest
from bittern.lang import syntax
from bittern.lang.cursor import Recover
from bittern.lang.expressions import Expressions
from bittern.lang.lexer import DECLARATION_WORDS, STRAY_DOC, TOO_MANY, UNOPENED_BRACKET, Reports, tokenize
from bittern.lang.source import Diagnostic, Source, Span

UNKNOWN_KIND = code("E116", "the kind of a generic parameter is unknown")

KINDS = ("type", "int", "float", "format")

_HEADER_WORDS = frozenset(["->", "!", "where", "{", "ideal"])
_BODY_START = frozenset(["{"])
_FIELD_END = frozenset([",", "newline"])
_TOP_HINTS = {
    "let": "a value at the top of a file is a constant: `const NAME: type = value`",
    "ideal": "an `ideal` block follows the body of its function",
    "def": "write `fn`",
    "func": "write `fn`",
    "function": "write `fn`",
    "import": "write `use`",
    "class": "write `struct`",
    "pub": "everything is public: remove it",
}


def parse(source: Source) -> tuple[syntax.File, list[Diagnostic]]:
    """Parse a file; return its tree and all independent syntax errors, in the order of their places.

    Declarations with an error are left out of the tree. Errors: E102 to E118.
    """
    reports = Reports(source)
    parser = _Parser(tokenize(source, reports), reports)
    declarations = parser.file()
    parser.report_stray_docs()
    found = sorted(reports.found, key=lambda each: (each.code == TOO_MANY, each.span.start))
    places = sorted(each.span.start for each in found)
    sound = tuple(each for each in declarations if not _holds_any(each.span, places))
    return syntax.File(Span(source, 0, len(source.text)), sound), found


def _holds_any(span: Span, places: list[int]) -> bool:
    at = bisect_left(places, span.start)
    return at < len(places) and places[at] < span.end


class _Parser(Expressions):
    def file(self) -> list[syntax.Declaration]:
        """Parse all declarations; return those that parsed without a fault."""
        found: list[syntax.Declaration] = []
        while True:
            while self.take("newline"):
                pass
            if self.kind == "end":
                return found
            begin, self.failed, self.high, self.headers = self.at, False, 0, 0
            try:
                declaration = self._declaration()
                if self.kind not in ("newline", "end") and self.kind not in DECLARATION_WORDS:
                    self.unexpected("a line break")
                if not self.failed:
                    found.append(declaration)
            except Recover:
                self._skip_declaration(begin)

    def _skip_declaration(self, begin: int) -> None:
        """Skip to the next declaration; closing braces and comments on the way are no errors of their own."""
        fault = self.ends[self.at]
        if self.at == begin:
            self.advance()
        while self.kind != "end" and not (self.kind in DECLARATION_WORDS and self.depths[self.at] == 0):
            self.tokens.docs.pop(self.at, None)
            self.advance()
        self.reports.forget(UNOPENED_BRACKET, fault, self.starts[self.at])

    def report_stray_docs(self) -> None:
        """Report the `///` comments that no declaration took."""
        for comments in self.tokens.docs.values():
            start, end = comments[0]
            hint = "write `//` for a comment, or put it above a `fn`, `struct` or `const`"
            self.reports.add(STRAY_DOC, start, end, "the `///` comment documents nothing", hint=hint)

    def _declaration(self) -> syntax.Declaration:
        start, word = self.starts[self.at], self.kind
        if word == "use":
            return self._use(start)
        doc = self._doc()
        if word not in DECLARATION_WORDS:
            text = self.source.text[start : self.ends[self.at]]
            expected = "`use`, `const`, `struct`, `fn` or `inline fn`"
            self.unexpected(expected, _TOP_HINTS.get(text, nearest(text, sorted(DECLARATION_WORDS))))
        self.advance()
        if word == "const":
            return self._const(start, doc)
        if word == "struct":
            return self._struct(start, doc)
        if word == "inline":
            self.expect("fn")
        return self._function(start, doc, word == "inline")

    def _doc(self) -> str:
        lines = [self.source.text[start + 3 : end] for start, end in self.tokens.docs.pop(self.at, [])]
        return "\n".join(line.removeprefix(" ").rstrip() for line in lines)

    def _use(self, start: int) -> syntax.Use:
        self.advance()
        path = [self.name("the name of a module")]
        while self.take("."):
            path.append(self.name("the name of a declaration"))
        return syntax.Use(self.span_from(start), tuple(path))

    def _const(self, start: int, doc: str) -> syntax.ConstDecl:
        name = self.name("the name of the constant")
        self.expect(":", hint="a constant states its type: `const NAME: type = value`")
        type_ = self.type_expression()
        self.expect("=")
        value = self.expression()
        return syntax.ConstDecl(self.span_from(start), name, type_, value, doc)

    def _struct(self, start: int, doc: str) -> syntax.StructDecl:
        name = self.name("the name of the struct")
        generics = self._generics()
        if self.kind != "{":
            self.unexpected("`{`", "the fields follow in braces: `struct Point { x: f32, y: f32 }`")
        fields = self._fields("}", "the name of a field")
        return syntax.StructDecl(self.span_from(start), name, generics, fields, doc)

    def _function(self, start: int, doc: str, inline: bool) -> syntax.FunctionDecl:
        name = generics = parameters = result = None
        effects: tuple[syntax.Name, ...] = ()
        where: tuple[syntax.Expr, ...] = ()
        try:
            name = self.name("the name of the function")
            generics = self._generics()
            parameters = self._parameters()
            result = self._result_type()
            effects = self._effects()
            where = self._where()
        except Recover:
            self.failed = True
            self._skip_to_body()
        body = self.block("after the head of the function")
        ideal = None
        self._over_line_break()
        if self.take("ideal"):
            ideal = self.block("after `ideal`")
        span = self.span_from(start)
        if name is None or generics is None or parameters is None or result is None:
            raise Recover
        return syntax.FunctionDecl(span, name, inline, generics, parameters, result, effects, where, body, ideal, doc)

    def _skip_to_body(self) -> None:
        while self.kind != "end" and not (self.kind in DECLARATION_WORDS and self.depths[self.at] == 0):
            if self.kind == "{" and self.depths[self.at] == 0:
                return
            self.advance()
        raise Recover

    def _over_line_break(self) -> None:
        """Step over a line break before a later part of the same head; a head is not a statement."""
        if self.kind == "newline" and self.kinds[self.at + 1] in _HEADER_WORDS:
            self.advance()

    def _parameters(self) -> tuple[syntax.FieldDecl, ...]:
        if self.kind != "(":
            self.unexpected("`(`", "the parameters follow in parentheses, also if there are none: `fn name() -> type`")
        return self._fields(")", "the name of a parameter")

    def _result_type(self) -> syntax.TypeExpr:
        self._over_line_break()
        self.expect("->", hint="every function states the type of its result: `-> f32`")
        return self.type_expression()

    def _effects(self) -> tuple[syntax.Name, ...]:
        self._over_line_break()
        if not self.take("!"):
            return ()
        effects = [self.name("an effect: `fs`, `net`, `clock`, `random` or `device`")]
        while self.take(","):
            effects.append(self.name("an effect: `fs`, `net`, `clock`, `random` or `device`"))
        return tuple(effects)

    def _where(self) -> tuple[syntax.Expr, ...]:
        self._over_line_break()
        if not self.take("where"):
            return ()
        facts = [self.expression()]
        while self.take(","):
            facts.append(self.expression())
        self._over_line_break()
        return tuple(facts)

    def _generics(self) -> tuple[syntax.Generic, ...]:
        return self.items("]", self._generic) if self.kind == "[" else ()

    def _generic(self) -> syntax.Generic:
        start = self.starts[self.at]
        name = self.name("the name of a generic parameter")
        kind = ""
        if self.take(":"):
            span = self.here()
            kind = self.name("a kind: `type`, `int`, `float` or `format`").name
            if kind not in KINDS:
                expected = "`type`, `int`, `float` or `format`"
                close = nearest(kind, list(KINDS))
                hint = close if close.startswith("Did") else "a dimension has no kind: leave it away"
                self.report(UNKNOWN_KIND, span, f"`{kind}` is not a kind of parameter", f"`{kind}`", expected, hint)
        return syntax.Generic(self.span_from(start), name, kind)

    def _fields(self, closer: str, what: str) -> tuple[syntax.FieldDecl, ...]:
        """Parse the opening bracket at which we stand and `name: type` fields, with recovery at each comma."""
        depth = self.depths[self.at] + 1
        self.advance()
        fields: list[syntax.FieldDecl] = []
        told, bad = False, -1  # bad: where the field before this one has an error
        while True:
            self.take("newline")
            if self.take(closer):
                return tuple(fields)
            self.quiet = bad >= 0 and "\n" not in self.source.text[bad : self.starts[self.at]]
            try:
                fields.append(self._field(what))
                bad = -1
                if self.kind == "newline" and self.kinds[self.at + 1] not in (closer, ","):
                    if not told:
                        self._report_missing_comma(closer)
                    told = True
                    continue
                self.take("newline")
                if not self.take(",") and self.kind != closer:
                    self.unexpected(f"`,` or `{closer}`")
            except Recover:
                bad = self.starts[self.at]
                self.failed = True
                self.skip_to(_FIELD_END, depth)
                self.take(",")
            finally:
                self.quiet = False

    def _report_missing_comma(self, closer: str) -> None:
        """Report a line break where a comma should be, and go on as if it were there."""
        with suppress(Recover):
            self.unexpected(f"`,` or `{closer}`", "put a comma after each field")

    def _field(self, what: str) -> syntax.FieldDecl:
        start = self.starts[self.at]
        name = self.name(what)
        self.expect(":", hint="write `name: type`")
        type_ = self.type_expression()
        return syntax.FieldDecl(self.span_from(start), name, type_)
