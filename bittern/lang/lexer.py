"""Source text to tokens: names, numbers, operators, and line breaks where they end a statement.

Comes in: a Source. Goes out: Tokens with balanced brackets, and diagnostics E101 to E104, E107, E108, E111, E112, E118.
One compiled pattern reads the text once, so the time is linear in its length. A bracket that is missing is put in and
a character that means nothing becomes a token `skipped`; both count as *repaired*, and the parser stays silent there.

A line break ends a statement if the token before it can end an expression and the innermost open bracket is not `(`
or `[`. Brackets nest at most MAX_NESTING deep, so the recursion of every later pass is bounded.
"""

import re
from dataclasses import dataclass, field

from bittern.base.errors import code, nearest
from bittern.lang.source import Diagnostic, Source, Span
from bittern.types.elements import ELEMENTS

NOT_UTF8 = code("E101", "the file is not UTF-8 text")
UNKNOWN_CHARACTER = code("E102", "a character or operator that the language does not have")
MALFORMED_NUMBER = code("E103", "a malformed number")
UNKNOWN_SUFFIX = code("E104", "the suffix of a number is not an element type")
UNCLOSED_BRACKET = code("E107", "a bracket is not closed")
UNOPENED_BRACKET = code("E108", "a closing bracket has no opening one")
TOO_DEEP = code("E111", "nested too deeply")
STRAY_DOC = code("E112", "a documentation comment stands above no declaration")
TOO_MANY = code("E118", "too many syntax errors")

MAX_NESTING = 64
MAX_ERRORS = 100
MAX_NUMBER_LENGTH = 1000

DECLARATION_WORDS = frozenset(["use", "const", "struct", "fn", "inline"])
_CONTROL_WORDS = frozenset(["let", "if", "else", "for", "each", "while", "limit", "in", "with"])
KEYWORDS = DECLARATION_WORDS | _CONTROL_WORDS | frozenset(["where", "ideal", "own", "or", "and", "not"])

_TOKEN = re.compile(
    r"""[ \t\r]*(?:
      (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<comment>//[^\n]*)
    | (?P<operator>->|\.\.|==|!=|<=|>=|<<|>>|&&|\|\||\*\*|::|[-+*/%&|^~=<>!:,.@])
    | (?P<open>[(\[{])
    | (?P<close>[)\]}])
    | (?P<line>\n)
    | (?P<number>0[xX](?:\w|\.(?=\w)|(?<=[pP])[+-](?=\d))* | \d(?:\w|\.(?=\d)|(?<=[eE])[+-](?=\d))*(?:\.(?!\.)\w*)?)
    | (?P<end>\Z)
    | (?P<unknown>"[^"\n]*"|'[^'\n]*'|.)
    )""",
    re.VERBOSE | re.ASCII | re.DOTALL,
)
_NUMBER = re.compile(
    r"""(?P<text>
      0[xX][0-9a-fA-F]+(?:_[0-9a-fA-F]+)*(?:(?:\.[0-9a-fA-F]+)?[pP][+-]?\d{1,5})?
    | (?!0[xX])(?:0|[1-9]\d*(?:_\d+)*)(?:\.\d+(?:_\d+)*)?(?:[eE][+-]?\d{1,5})?
    )(?P<suffix>[A-Za-z]\w*)?""",
    re.VERBOSE | re.ASCII,
)
_CLOSER = {"(": ")", "[": "]", "{": "}"}
_ENDS_EXPRESSION = frozenset(["name", "number", ")", "]", "}", "skipped"])
_SUFFIXES = frozenset(name for name, element in ELEMENTS.items() if not element.is_format)
_FOREIGN = {  # operators of other languages, read whole so that the hint can name ours
    "&&": "write `and`",
    "||": "write `or`",
    "**": "powers are written as products, or with `pow` in an ideal body",
    "::": "write `.`",
    ";": "a line break ends a statement: remove the `;`",
    '"': "text is not a value: say it in a comment",
    "'": "text is not a value: say it in a comment",
    "#": "comments begin with `//`",
    "?": "write `if condition { a } else { b }`",
}


class Reports:
    """The diagnostics of one file: at most one at a place, at most MAX_ERRORS, then one that says so."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.found: list[Diagnostic] = []
        self._places: set[int] = set()

    def forget(self, name: str, start: int, end: int) -> None:
        """Drop the reports with this code at characters start to end: they follow from another one."""
        self.found = [each for each in self.found if each.code != name or not start <= each.span.start < end]

    def add(
        self,
        name: str,
        start: int,
        end: int,
        message: str,
        found: str = "",
        expected: str = "",
        hint: str = "",
        notes: tuple[tuple[Span, str], ...] = (),
    ) -> None:
        """Report an error at characters start to end, unless one is known there already."""
        if start in self._places or len(self.found) > MAX_ERRORS:
            return
        self._places.add(start)
        span = Span(self.source, start, end)
        if len(self.found) == MAX_ERRORS:
            hint = "mend the errors above first"
            self.found.append(Diagnostic(TOO_MANY, span, f"more than {MAX_ERRORS} syntax errors", hint=hint))
        else:
            self.found.append(Diagnostic(name, span, message, found, expected, hint, notes))


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a file as parallel lists; the last one is of kind `end`.

    kinds: the word or sign itself, or `name`, `number`, `newline`, `skipped`, `end`. starts, ends: characters.
    depths: how many brackets are open around the token (around both brackets of a pair equally many).
    numbers: text without underscores, and suffix, of the token at a position.
    docs: `///` comments (start, end) before the token at a position. repaired: tokens that the lexer put in.
    """

    source: Source
    kinds: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    numbers: dict[int, tuple[str, str]] = field(default_factory=dict)
    docs: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    repaired: set[int] = field(default_factory=set)


def decode(name: str, data: bytes) -> tuple[Source, list[Diagnostic]]:
    """Return the bytes of a file as a Source; E101 at the first byte that is not UTF-8."""
    try:
        return Source(name, data.decode("utf-8")), []
    except UnicodeDecodeError as error:
        source = Source(name, data.decode("utf-8", "replace"))
        at = len(data[: error.start].decode("utf-8"))
        found = f"byte 0x{data[error.start]:02x} at offset {error.start}"
        span = Span(source, at, at + 1)
        hint = "save the file as UTF-8"
        return source, [Diagnostic(NOT_UTF8, span, "the file is not UTF-8 text", found, "UTF-8", hint)]


def tokenize(source: Source, reports: Reports) -> Tokens:
    """Return the tokens of a source; errors go to reports, and the tokens are balanced whatever the text is."""
    return _Lexer(source, reports).run()


class _Lexer:
    def __init__(self, source: Source, reports: Reports) -> None:
        self.text = source.text
        self.tokens = Tokens(source)
        self.reports = reports
        self.stack: list[tuple[str, int]] = []  # open brackets and the positions of their tokens
        self.line = 0  # how many tokens stand on the lines above
        self.upset = -1  # from which token on this line the brackets are repaired; -1: not at all
        self.beyond = 0  # how many brackets are open beyond MAX_NESTING; what is inside them is dropped

    def run(self) -> Tokens:
        text, stack, tokens = self.text, self.stack, self.tokens
        kinds, starts, ends, depths = tokens.kinds, tokens.starts, tokens.ends, tokens.depths
        for match in _TOKEN.finditer(text, 1 if text.startswith("\ufeff") else 0):
            group = match.lastgroup
            assert group is not None
            start, end = match.span(group)
            if group == "name":
                kind = text[start:end]
                if kind not in KEYWORDS:
                    kind = "name"
                elif stack and (kind == "let" or kind in DECLARATION_WORDS):
                    self._close_before(kind, start)
            elif group == "operator":
                kind = text[start:end]
                if kind in _FOREIGN:
                    self._unknown(start, end)
                    continue
            elif group == "line":
                if kinds and kinds[-1] in _ENDS_EXPRESSION and not self.beyond and (not stack or stack[-1][0] == "{"):
                    self._add("newline", start, end)
                self._settle()
                self.line = len(kinds)
                continue
            elif group == "end":
                break
            else:
                self._rare(group, start, end)
                continue
            if not self.beyond:
                kinds.append(kind)
                starts.append(start)
                ends.append(end)
                depths.append(len(stack))
        self._finish()
        return tokens

    def _rare(self, group: str, start: int, end: int) -> None:
        if group == "open":
            self._open(self.text[start], start)
        elif group == "close":
            self._close(self.text[start], start)
        elif group == "comment":
            self._comment(start, end)
        elif self.beyond:
            return
        elif group == "number":
            self._number(start, end)
        else:
            self._unknown(start, end)

    def _add(self, kind: str, start: int, end: int, repaired: bool = False) -> None:
        tokens = self.tokens
        if repaired:
            tokens.repaired.add(len(tokens.kinds))
        tokens.kinds.append(kind)
        tokens.starts.append(start)
        tokens.ends.append(end)
        tokens.depths.append(len(self.stack))

    def _number(self, start: int, end: int) -> None:
        written = self.text[start:end]
        match = _NUMBER.fullmatch(written) if len(written) <= MAX_NUMBER_LENGTH else None
        if match is None or (_is_whole_hexadecimal(match["text"]) and (match["suffix"] or "u8") not in _SUFFIXES):
            shown = _shortened(written)
            hint = _number_hint(written)
            forms = "a number such as `12`, `1_000`, `0x1f`, `1.5`, `1e-6` or `0x1p-100`"
            self.reports.add(MALFORMED_NUMBER, start, end, "the number is malformed", f"`{shown}`", forms, hint)
            value = "0", ""
        else:
            suffix = match["suffix"] or ""
            if suffix and suffix not in _SUFFIXES:
                self._suffix(written, suffix, start, end)
                suffix = ""
            value = match["text"].replace("_", ""), suffix
        self.tokens.numbers[len(self.tokens.kinds)] = value
        self._add("number", start, end)

    def _suffix(self, written: str, suffix: str, start: int, end: int) -> None:
        if (suffix.lower().startswith("e") and suffix[1:].isdigit()) or suffix in ("e", "E", "p", "P"):
            hint = "an exponent has one to five digits"
        elif written[:2].lower() in ("0b", "0o"):
            hint = "write the number in decimal or with `0x`"
        elif suffix in ELEMENTS:
            hint = "a block format has no single values: write `f32`"
        else:
            hint = nearest(suffix, sorted(_SUFFIXES)) or "leave the suffix away, or put an operator before the name"
        message = f"`{suffix}` is not the suffix of a number"
        expected = "an element type such as `f32`, `u8` or `i64`"
        self.reports.add(UNKNOWN_SUFFIX, end - len(suffix), end, message, f"`{written}`", expected, hint)

    def _unknown(self, start: int, end: int) -> None:
        tokens = self.tokens
        if self.beyond:
            return
        if tokens.kinds and tokens.kinds[-1] == "skipped" and tokens.ends[-1] == start:
            tokens.ends[-1] = end
            return
        sign = self.text[start:end]
        shown = f"`{_shortened(sign)}`" if sign.isprintable() else f"the character U+{ord(sign[0]):04X}"
        foreign = _FOREIGN.get(sign) or _FOREIGN.get(sign[0])
        if foreign:
            hint = foreign
        elif sign.isalnum():
            hint = "names are made of the letters a to z and A to Z, digits and `_`"
        else:
            hint = "remove it, or put it in a comment"
        self.reports.add(UNKNOWN_CHARACTER, start, end, f"{shown} means nothing here", hint=hint)
        self._add("skipped", start, end, repaired=True)

    def _comment(self, start: int, end: int) -> None:
        if not self.text.startswith("///", start) or self.text.startswith("////", start):
            return
        if self.line == len(self.tokens.kinds):
            self.tokens.docs.setdefault(self.line, []).append((start, end))
        else:
            message = "a `///` comment stands on a line of its own, above what it documents"
            self.reports.add(STRAY_DOC, start, end, message, hint="write `//`, or move it up")

    def _disturb(self, at: int) -> None:
        """Say that the parser shall be silent from this token to the end of the line, where a bracket is repaired."""
        self.upset = at if self.upset < 0 else min(self.upset, at)

    def _settle(self) -> None:
        if self.upset >= 0:
            self.tokens.repaired.update(range(self.upset, len(self.tokens.kinds)))
            self.upset = -1

    def _open(self, bracket: str, start: int) -> None:
        if self.beyond or len(self.stack) == MAX_NESTING:
            if not self.beyond:
                message = f"brackets are nested more than {MAX_NESTING} deep"
                hint = "bind inner parts with `let`"
                self.reports.add(TOO_DEEP, start, start + 1, message, hint=hint)
                self._add("skipped", start, start + 1, repaired=True)
            self.beyond += 1
            return
        self._add(bracket, start, start + 1)
        self.stack.append((bracket, len(self.tokens.kinds) - 1))

    def _close(self, bracket: str, start: int) -> None:
        if self.beyond:
            self.beyond -= 1
            return
        stack = self.stack
        partner = self._partner(bracket)
        if partner is not None:
            if partner < len(stack) - 1:
                self._unclosed(start, start + 1, f"this `{bracket}` closes an outer bracket")
                self._disturb(len(self.tokens.kinds))
            self._close_down_to(partner + 1, start)
            stack.pop()
            self._add(bracket, start, start + 1)
        elif stack and stack[-1][0] != "{" and bracket != "}":
            opened, at = stack.pop()
            note = (self._token_span(at), f"`{opened}` was opened here")
            wanted = _CLOSER[opened]
            self._unopened(start, f"`{opened}` is closed by `{bracket}`", f"`{wanted}`", f"write `{wanted}`", (note,))
            self._add(wanted, start, start + 1)
        else:
            self._unopened(start, f"`{bracket}` closes nothing", "", "remove it, or open the bracket before it")
            self._add("skipped", start, start + 1, repaired=True)

    def _partner(self, bracket: str) -> int | None:
        """Return the place in the stack of the bracket that this one closes.

        `)` and `]` do not reach out of a `{`. A `}` amid a line does not reach beyond it out of a `(` or `[`.
        """
        for place in range(len(self.stack) - 1, -1, -1):
            opened, at = self.stack[place]
            if _CLOSER[opened] == bracket:
                amid = bracket == "}" and place < len(self.stack) - 1 and self.line < len(self.tokens.kinds)
                return None if amid and at < self.line else place
            if opened == "{" and bracket != "}":
                return None
        return None

    def _unopened(
        self, start: int, message: str, expected: str, hint: str, notes: tuple[tuple[Span, str], ...] = ()
    ) -> None:
        if self.upset < 0:
            found = f"`{self.text[start]}`"
            self.reports.add(UNOPENED_BRACKET, start, start + 1, message, found, expected, hint, notes)
        self._disturb(len(self.tokens.kinds))

    def _unclosed(self, start: int, end: int, why: str) -> None:
        opened, at = self.stack[-1]
        span, wanted = self._token_span(at), _CLOSER[opened]
        notes = ((Span(self.tokens.source, start, end), why),)
        message, hint = f"`{opened}` is not closed", f"add `{wanted}`"
        if self.upset < 0 or self.upset > at:
            self.reports.add(UNCLOSED_BRACKET, span.start, span.end, message, "", f"`{wanted}`", hint, notes)
        if opened != "{":
            self.tokens.repaired.update(range(at + 1, len(self.tokens.kinds)))

    def _token_span(self, at: int) -> Span:
        return Span(self.tokens.source, self.tokens.starts[at], self.tokens.ends[at])

    def _close_down_to(self, size: int, start: int) -> None:
        ends = self.tokens.ends
        while len(self.stack) > size:
            opened, _ = self.stack.pop()
            at = ends[-1] if ends else start
            self._add(_CLOSER[opened], at, at, repaired=True)

    def _close_before(self, word: str, start: int) -> None:
        """Close what cannot be open where a line begins with `let` or the first word of a declaration."""
        if self.line != len(self.tokens.kinds):
            return
        size = len(self.stack) if word == "let" else 0
        while word == "let" and size and self.stack[size - 1][0] != "{":
            size -= 1
        if (self.beyond and word == "let") or size == len(self.stack):
            return
        docs = self.tokens.docs.pop(len(self.tokens.kinds), None)
        if not self.beyond:
            self._unclosed(start, start + len(word), f"`{word}` cannot stand inside these brackets")
        self.beyond = 0
        self._close_down_to(size, start)
        self._add("newline", self.tokens.ends[-1], self.tokens.ends[-1], repaired=True)
        if docs:
            self.tokens.docs[len(self.tokens.kinds)] = docs

    def _finish(self) -> None:
        self._settle()
        tokens, last = self.tokens, len(self.text)
        docs = tokens.docs.pop(len(tokens.kinds), None)
        if self.stack and not self.beyond:
            self._unclosed(last, last, "the file ends here")
        self._close_down_to(0, last)
        if docs:
            tokens.docs[len(tokens.kinds)] = docs
        at = tokens.ends[-1] if tokens.ends else last
        self._add("end", at, at)


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "..."


def _is_whole_hexadecimal(text: str) -> bool:
    return text[:2] in ("0x", "0X") and "p" not in text.lower()


def _number_hint(written: str) -> str:
    if len(written) > MAX_NUMBER_LENGTH:
        return f"a number has at most {MAX_NUMBER_LENGTH} characters"
    if written.lower().startswith("0x"):
        if "." in written and "p" not in written.lower():
            return "a hexadecimal number with a point needs an exponent: `0x1.8p0`"
        return "hexadecimal digits are 0 to 9 and a to f"
    if "." in written and not written.partition(".")[2][:1].isdigit():
        return f"put a digit after the point: `{written.partition('.')[0]}.0`"
    if written.count(".") > 1:
        return "a number has one point"
    if len(written) > 1 and written[0] == "0" and written[1:].isdigit():
        return f"write `{written.lstrip('0') or '0'}`"
    if "_" in written:
        return "an underscore stands between two digits"
    return "an exponent has one to five digits"
