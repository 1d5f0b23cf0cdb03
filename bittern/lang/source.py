"""Source text, places in it, and diagnostics that point at them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """One file of source text. name: the path as the user wrote it."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 1; a column counts characters."""
        before = self.text[:offset]
        line = before.count("\n") + 1
        return line, offset - (before.rfind("\n") + 1) + 1

    def line(self, number: int) -> str:
        """Return the text of a line without its line break."""
        return self.text.split("\n")[number - 1]


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a source: characters start (inclusive) to end (exclusive)."""

    source: Source
    start: int
    end: int

    def to(self, other: "Span") -> "Span":
        """Return the piece from the start of this one to the end of the other."""
        return Span(self.source, self.start, other.end)


def source_text(span: Span) -> str:
    """Return the characters of a span."""
    return span.source.text[span.start : span.end]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error in a program: stable code, place, what was found, what was expected, what to do.

    message: one sentence for people. found, expected, hint may be empty. notes: other places with a phrase each.
    """

    code: str
    span: Span
    message: str
    found: str = ""
    expected: str = ""
    hint: str = ""
    notes: tuple[tuple[Span, str], ...] = ()
