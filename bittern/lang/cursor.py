"""Where the parser stands among the tokens, and how it reports an error and goes on.

A fault is reported once and raised as Recover; the nearest block, list of fields or file catches it and skips to
where the next part begins. At tokens that the lexer put in, the cause is reported already, so nothing is said.
"""

from typing import NoReturn

from bittern.base.errors import code
from bittern.lang.lexer import KEYWORDS, Reports, Tokens
from bittern.lang.source import Span
from bittern.lang.syntax import Name

UNEXPECTED = code("E105", "the text does not go on as the grammar says")
RESERVED_WORD = code("E110", "a reserved word is used as a name")

_PHRASES = {"newline": "the end of the line", "end": "the end of the file"}


class Recover(Exception):
    """Unwinds to the nearest place from which parsing can go on; the error is reported already."""


class Cursor:
    """The tokens and a place among them.

    failed: whether there was a fault since it was last set to False. quiet: whether faults are not reported.
    """

    def __init__(self, tokens: Tokens, reports: Reports) -> None:
        self.source = tokens.source
        self.tokens = tokens
        self.reports = reports
        self.kinds = tokens.kinds
        self.starts = tokens.starts
        self.ends = tokens.ends
        self.depths = tokens.depths
        self.at = 0
        self.kind = tokens.kinds[0]
        self.failed = False
        self.quiet = False

    def advance(self) -> None:
        """Go to the next token; the last one stays."""
        if self.kind != "end":
            self.at += 1
            self.kind = self.kinds[self.at]

    def span_from(self, start: int) -> Span:
        """Return the span from a character to the end of the token before this one."""
        return Span(self.source, start, self.ends[self.at - 1])

    def here(self) -> Span:
        """Return the span of this token."""
        return Span(self.source, self.starts[self.at], self.ends[self.at])

    def take(self, kind: str) -> bool:
        """Step over a token of this kind and say whether it was there."""
        if self.kind == kind:
            self.advance()
            return True
        return False

    def expect(self, kind: str, expected: str = "", hint: str = "") -> None:
        """Step over a token of this kind, or fault. expected: the phrase for it, if not the sign itself."""
        if self.kind != kind:
            self.unexpected(expected or f"`{kind}`", hint)
        self.advance()

    def name(self, what: str, hint: str = "") -> Name:
        """Step over a name and return it, or fault; what: the phrase for it, such as `the name of a field`."""
        if self.kind != "name":
            if self.kind in KEYWORDS:
                message = f"`{self.kind}` is a reserved word"
                self.fault(
                    RESERVED_WORD, message, f"`{self.kind}`", what, hint or f"write `{self.kind}_`, for instance"
                )
            self.unexpected(what, hint)
        start, end = self.starts[self.at], self.ends[self.at]
        self.at += 1
        self.kind = self.kinds[self.at]
        return Name(Span(self.source, start, end), self.source.text[start:end])

    def found(self) -> str:
        """Return a phrase for this token."""
        if self.kind in _PHRASES:
            return _PHRASES[self.kind]
        text = self.source.text[self.starts[self.at] : self.ends[self.at]]
        return f"`{text}`" if len(text) <= 40 else f"`{text[:40]}...`"

    def unexpected(self, expected: str, hint: str = "") -> NoReturn:
        """Fault: this token does not fit; expected: a phrase for what would."""
        self.fault(UNEXPECTED, f"{self.found()} does not fit here", self.found(), expected, hint)

    def fault(self, name: str, message: str, found: str = "", expected: str = "", hint: str = "") -> NoReturn:
        """Report an error at this token and unwind."""
        self.report(name, self.here(), message, found, expected, hint)
        raise Recover

    def report(self, name: str, span: Span, message: str, found: str = "", expected: str = "", hint: str = "") -> None:
        """Report an error and go on, silent at a token that the lexer repaired."""
        self.failed = True
        if not self.quiet and self.at not in self.tokens.repaired:
            self.reports.add(name, span.start, span.end, message, found, expected, hint)

    def skip_to(self, kinds: frozenset[str], depth: int) -> None:
        """Skip to a token of one of the kinds with this many brackets around it, or to where they are left."""
        while self.kind != "end" and self.depths[self.at] >= depth:
            if self.kind in kinds and self.depths[self.at] == depth:
                return
            self.advance()
