"""Diagnostics as text for people.

The caret stands under the right character whatever the line holds: tabs are shown as spaces up to the next multiple
of four columns, wide characters count two columns, combining ones none, and what cannot be printed becomes a mark.
"""

from unicodedata import category, east_asian_width

from bittern.lang.source import Diagnostic, Span

MAX_SHOWN = 160  # characters of a line; of a longer one, a window around the place is shown

_TAB = 4
_UNPRINTABLE = "\N{REPLACEMENT CHARACTER}"
_BOLD, _RED, _BLUE, _CYAN = "1", "1;31", "1;34", "1;36"


def as_text(diagnostic: Diagnostic, colour: bool = False) -> str:
    """Return a diagnostic as lines of text: place, line with carets, found, expected, hint, notes; no final line break.

    colour: whether to add ANSI colours.
    """
    kind = _paint(f"error[{diagnostic.code}]", _RED, colour)
    lines = [f"{_paint(_place(diagnostic.span), _BOLD, colour)}: {kind}: {diagnostic.message}"]
    lines += _excerpt(diagnostic.span, _RED, colour)
    for label, text in (
        ("found", diagnostic.found),
        ("expected", diagnostic.expected),
        ("hint", diagnostic.hint),
    ):
        if text:
            lines.append(f"  {_paint(f'{label}:', _BOLD, colour)} {text}")
    for span, phrase in diagnostic.notes:
        lines.append(f"{_paint(_place(span), _BOLD, colour)}: {_paint('note', _CYAN, colour)}: {phrase}")
        lines += _excerpt(span, _CYAN, colour)
    return "\n".join(lines)


def _place(span: Span) -> str:
    line, column = span.source.position(span.start)
    return f"{span.source.name}:{line}:{column}"


def _paint(text: str, style: str, colour: bool) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if colour else text


def _excerpt(span: Span, style: str, colour: bool) -> list[str]:
    """Return the first line of a span and the line of carets below it."""
    number, column = span.source.position(span.start)
    line = span.source.line(number).rstrip("\r")
    first = min(column - 1, len(line))
    last = min(max(first + span.end - span.start, first), len(line))
    line, first, last = _window(line, first, last)
    shown, columns = _columns(line)
    width = max(columns[last] - columns[first], 1)
    label = str(number)
    bar = _paint("|", _BLUE, colour)
    carets = _paint("^" * width, style, colour)
    return [
        f"  {_paint(label, _BLUE, colour)} {bar} {shown}".rstrip(),
        f"  {' ' * len(label)} {bar} {' ' * columns[first]}{carets}",
    ]


def _window(line: str, first: int, last: int) -> tuple[str, int, int]:
    """Cut a long line to the neighbourhood of characters first to last; return it with their new places."""
    if len(line) <= MAX_SHOWN:
        return line, first, last
    low = max(0, min(first - MAX_SHOWN // 3, len(line) - MAX_SHOWN))
    high = low + MAX_SHOWN
    before, after = "... " if low else "", " ..." if high < len(line) else ""
    shift = len(before) - low
    return before + line[low:high] + after, first + shift, min(last, high) + shift


def _columns(line: str) -> tuple[str, list[int]]:
    """Return a line as it is shown, and the column (from 0) of each of its characters and of its end."""
    shown: list[str] = []
    columns = [0]
    for character in line:
        at = columns[-1]
        if character == "\t":
            character = " " * (_TAB - at % _TAB)
            width = len(character)
        else:
            width = _width(character)
            if width < 0:
                character, width = _UNPRINTABLE, 1
        shown.append(character)
        columns.append(at + width)
    return "".join(shown), columns


def _width(character: str) -> int:
    """Return how many columns a character takes; -1 if it cannot be printed."""
    kind = category(character)
    if kind in ("Mn", "Me"):
        return 0
    if kind in ("Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"):
        return -1
    return 2 if east_asian_width(character) in "WF" else 1
