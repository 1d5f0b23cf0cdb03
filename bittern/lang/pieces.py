"""Source text to pieces: the tokens with the comments, blank lines and line breaks that stand between them.

The tree and the tokens forget these; the formatter needs every one of them. Only texts without a syntax error have
pieces.
"""

from dataclasses import dataclass, field

from bittern.lang.lexer import Reports, tokenize
from bittern.lang.source import Source

OPENERS = frozenset("([{")
CLOSERS = frozenset(")]}")
_GOES_ON = frozenset(["->", "!", "where", "{", "ideal"])  # a line that begins so goes on with the head above


@dataclass(slots=True)
class Piece:
    """One token and what stands around it.

    kind, text: as the lexer says; the last piece of a text is of kind `end`. above: comments on lines of their own
    between the piece before and this one, '' for a blank line. after: a comment behind it on its line, or ''.
    breaks: whether the author began a line with it. begins: whether it begins a statement, as the lexer sees it.
    partner: of a bracket, the place of the other one; else -1. A comma before a closing bracket is no piece.
    """

    kind: str
    text: str
    above: list[str] = field(default_factory=list)
    after: str = ""
    breaks: bool = False
    begins: bool = False
    partner: int = -1

    @property
    def ends_value(self) -> bool:
        """Whether an expression can end with it."""
        return self.kind in ("name", "number") or self.kind in CLOSERS

    @property
    def is_held(self) -> bool:
        """Whether it has to begin a line because a comment stands before it."""
        return any(self.above)


def pieces_of(source: Source) -> list[Piece]:
    """Return the pieces of a text without syntax errors."""
    tokens = tokenize(source, Reports(source))
    found: list[Piece] = []
    brackets: list[int] = []
    at, begins = 1 if source.text.startswith("\ufeff") else 0, True
    for kind, start, end in zip(tokens.kinds, tokens.starts, tokens.ends, strict=True):
        if kind == "newline":
            begins = True
            continue
        if kind == "end":
            start = end = len(source.text)
        piece = Piece(kind, source.text[start:end], begins=begins and kind not in _GOES_ON)
        if kind in CLOSERS and found[-1].kind == ",":
            comma = found.pop()
            piece.above += comma.above
        _fill_gap(source.text[at:start] + "\n" * (kind == "end"), found, piece)
        if kind in OPENERS:
            brackets.append(len(found))
        elif kind in CLOSERS:
            piece.partner = brackets.pop()
            found[piece.partner].partner = len(found)
        found.append(piece)
        at, begins = end, kind == "{"
    return found


def comments_of(found: list[Piece]) -> list[str]:
    """Return all comments, in order."""
    texts: list[str] = []
    for piece in found:
        texts += [line for line in piece.above if line]
        texts += [piece.after] if piece.after else []
    return texts


def _fill_gap(gap: str, found: list[Piece], piece: Piece) -> None:
    """Read the text between the last piece and the next: comments, blank lines, line breaks."""
    first, *lines = [line.strip() for line in gap.split("\n")]
    if not found or (first and found[-1].after):
        lines = [first, *lines]
    elif first:
        found[-1].after = _comment(first)
    piece.breaks = bool(lines) or piece.is_held
    for line in lines[:-1]:
        if line or (piece.above and piece.above[-1]) or (not piece.above and found):
            piece.above.append(_comment(line))


def _comment(text: str) -> str:
    """Return a comment with a blank after its slashes."""
    slashes = len(text) - len(text.lstrip("/"))
    is_bare = slashes in (2, 3) and len(text) > slashes and text[slashes].isalnum()
    return f"{text[:slashes]} {text[slashes:]}" if is_bare else text
