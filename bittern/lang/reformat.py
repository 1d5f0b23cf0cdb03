"""Formats source text: `bittern fmt`.

The author's words, parentheses, numbers, comments and line breaks stay; the rest has one form, without options:

- Lines are indented by two columns for each block or bracket, by four in the head of a declaration or loop that goes
  on, so that it stands apart from the body. A bracket that closes on a line of its own opens at the end of one.
- One blank at most between tokens; blank lines are single, and stand around functions and structs.
- A comment behind code stands in column 60, or three columns behind longer code; neighbours share the column.
- Lists with one item a line end with a comma. Lines longer than 120 columns are broken (`breaking`).

The text parses to the same tree; formatting it again changes nothing.
"""

from dataclasses import dataclass, fields, is_dataclass

from bittern.lang.breaking import break_long_lines
from bittern.lang.lines import indented
from bittern.lang.parser import parse
from bittern.lang.pieces import CLOSERS, OPENERS, Piece, comments_of, pieces_of
from bittern.lang.source import Diagnostic, Source

COMMENT_COLUMN = 59  # columns before a comment behind code
COMMENT_GAP = 3  # at least so many of them are blank
_LINKED = frozenset(["use", "const"])  # declarations that may stand without a blank line between them


def reformat(source: Source) -> tuple[str, list[Diagnostic]]:
    """Return the formatted text; where there are syntax errors, the text as it is, and them."""
    tree, errors = parse(source)
    if errors:
        return source.text, errors
    found = pieces_of(source)
    comments = comments_of(found)
    _separate(found)
    declarations = _declarations(found)
    for declaration in declarations:
        _settle(declaration)
        break_long_lines(declaration)
    text = "".join(_text(declaration) for declaration in declarations)
    again = Source(source.name, text)
    made, faults = parse(again)
    assert not faults and _shape(made.declarations) == _shape(tree.declarations), "formatting keeps the tree"
    assert comments_of(pieces_of(again)) == comments, "formatting keeps the comments"
    return text, []


def _separate(found: list[Piece]) -> None:
    """Put a blank line around every function and struct, and take away those at the ends of the text and of blocks."""
    depth, last = 0, ""
    for place, piece in enumerate(found):
        before = found[place - 1] if place else None
        if piece.kind == "end" or piece.kind in CLOSERS:
            while piece.above and not piece.above[-1]:
                piece.above.pop()
        if before is not None and before.kind in OPENERS:
            while piece.above and not piece.above[0]:
                piece.above.pop(0)
        is_first = depth == 0 and piece.begins and piece.kind != "end"
        is_linked = last == piece.kind and last in _LINKED
        if is_first and before is not None and not is_linked and "" not in piece.above:
            piece.above.insert(0, "")
        last = piece.kind if is_first else last
        depth += (piece.kind in OPENERS) - (piece.kind in CLOSERS)


def _declarations(found: list[Piece]) -> list[list[Piece]]:
    """Split the pieces at the declarations; partners become places within their declaration."""
    starts, depth = [], 0
    for place, piece in enumerate(found):
        if (depth == 0 and piece.begins) or piece.kind == "end":
            starts.append(place)
        depth += (piece.kind in OPENERS) - (piece.kind in CLOSERS)
    parts = []
    for start, end in zip(starts, [*starts[1:], len(found)], strict=True):
        for piece in found[start:end]:
            piece.partner -= start if piece.partner >= 0 else 0
        parts.append(found[start:end])
    return parts


def _settle(pieces: list[Piece]) -> None:
    """Make the line breaks of one declaration agree with its brackets; lists get or lose their last comma."""
    for place, piece in enumerate(pieces):
        if place == 0:
            piece.breaks = True
        elif piece.kind == "," and not piece.is_held and not pieces[place - 1].after:
            piece.breaks = False
    is_function = pieces[0].kind in ("fn", "inline")
    depth = 0
    for place, piece in enumerate(pieces):
        if piece.kind == "{":
            inner, closer = pieces[place + 1], pieces[piece.partner]
            is_tall = inner.breaks or closer.breaks or closer.is_held or (is_function and depth == 0)
            inner.breaks = closer.breaks = is_tall
            if not pieces[place - 1].after and not piece.is_held:
                piece.breaks = False
        elif piece.kind in ("(", "["):
            inner, closer = pieces[place + 1], pieces[piece.partner]
            is_forced = closer.is_held or bool(pieces[piece.partner - 1].after)
            closer.breaks = is_forced or (closer.breaks and inner.breaks)
        depth += (piece.kind in OPENERS) - (piece.kind in CLOSERS)
    for piece in pieces[1:]:
        piece.breaks = piece.breaks or piece.is_held


@dataclass(slots=True)
class _Line:
    code: str
    comment: str


def _text(pieces: list[Piece]) -> str:
    """Return the text of one declaration, with the comments above it."""
    lines: list[_Line] = []
    for line in indented(pieces):
        lines += [_Line("", "") if not above else _Line(" " * line.inner + above, "") for above in line.above]
        if line.code.strip():
            lines.append(_Line(" " * line.indent + line.code, line.comment))
    out: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        while lines[at].comment and end < len(lines) and lines[end].comment:
            end += 1
        column = max(COMMENT_COLUMN, *(len(line.code) + COMMENT_GAP for line in lines[at:end]), 0)
        out += [f"{line.code:{column}}{line.comment}" if line.comment else line.code for line in lines[at:end]]
        at = end
    return "".join(line + "\n" for line in out)


def _shape(node: object) -> object:
    """Return a tree as nested tuples, without its places."""
    if isinstance(node, tuple):
        return tuple(_shape(each) for each in node)
    if not is_dataclass(node):
        return node
    kept = (each.name for each in fields(node) if each.name not in ("span", "operator_span"))
    return (type(node), *(_shape(getattr(node, name)) for name in kept))
