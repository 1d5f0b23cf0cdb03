"""The lines of a declaration from its pieces: where each begins, its indent, and where a list ends with a comma."""

from dataclasses import dataclass, field

from bittern.lang.pieces import CLOSERS, OPENERS, Piece
from bittern.lang.spacing import gap

STEP = 2
_HEADS = frozenset(["fn", "inline", "struct"])
_CONTROLS = frozenset(["if", "for", "each", "while"])


@dataclass(slots=True)
class Line:
    """One line. first, last: places of its pieces. inner: the indent of the comments above it."""

    first: int
    last: int
    indent: int
    inner: int
    above: list[str]
    code: str = ""
    comment: str = ""


@dataclass(slots=True)
class _Bracket:
    kind: str
    closer: int  # the indent of a line that begins with the closing bracket
    inside: int  # the indent of the lines between
    is_block: bool  # whether it is a block of statements
    is_tall: bool  # whether what is inside begins on a line of its own and the closing bracket does


@dataclass(slots=True)
class _State:
    stack: list[_Bracket] = field(default_factory=list)
    controls: list[tuple[int, int]] = field(default_factory=list)  # open heads of loops: brackets around, indent
    in_head: bool = False  # in the head of a function or struct
    indent: int = 0  # of this line


def indented(pieces: list[Piece]) -> list[Line]:
    """Return the lines of a declaration."""
    state = _State(in_head=pieces[0].kind in _HEADS)
    lines: list[Line] = []
    for place, piece in enumerate(pieces):
        if piece.breaks or not lines:
            state.indent = _indent(state, pieces, place)
            inner = state.stack[-1].inside if piece.kind in CLOSERS and state.stack else state.indent
            lines.append(Line(place, place, state.indent, inner, piece.above))
        lines[-1].last = place
        _step(state, pieces, place)
    for line in lines:
        line.code = _code(pieces, line)
        line.comment = pieces[line.last].after
    return lines


def is_map(pieces: list[Piece], opener: int) -> bool:
    """Say whether a square bracket holds `body for names in ranges`."""
    return map_word(pieces, opener) >= 0


def map_word(pieces: list[Piece], opener: int) -> int:
    """Return the place of the `for` of a map, or -1."""
    if pieces[opener].kind != "[":
        return -1
    place = opener + 1
    while place < pieces[opener].partner:
        if pieces[place].kind in OPENERS:
            place = pieces[place].partner
        elif pieces[place].kind == "for" and pieces[place - 1].ends_value:
            return place
        place += 1
    return -1


def commas(pieces: list[Piece], opener: int) -> list[int]:
    """Return the places of the commas directly inside a bracket."""
    found, place = [], opener + 1
    while place < pieces[opener].partner:
        if pieces[place].kind in OPENERS:
            place = pieces[place].partner
        elif pieces[place].kind == ",":
            found.append(place)
        place += 1
    return found


def is_list(pieces: list[Piece], opener: int) -> bool:
    """Say whether a comma may follow the last item inside a bracket."""
    if is_map(pieces, opener):
        return False
    if pieces[opener].kind == "{":
        return pieces[0].kind == "struct" and pieces[opener].partner == len(pieces) - 1
    is_applied = opener > 0 and pieces[opener - 1].ends_value
    return is_applied or pieces[opener].kind == "[" or bool(commas(pieces, opener))


def _indent(state: _State, pieces: list[Piece], place: int) -> int:
    """Return the indent of a line that begins at this place."""
    piece = pieces[place]
    if not state.stack:
        if place == 0 or piece.kind == "end":
            return 0
        return 2 * STEP if state.in_head else STEP
    around = state.stack[-1]
    if piece.kind in CLOSERS:
        return around.closer if around.is_tall else around.inside
    if around.is_block:
        is_head = bool(state.controls) and state.controls[-1][0] == len(state.stack)
        return around.inside if piece.begins else around.inside + STEP * (2 if is_head else 1)
    goes_on = around.is_tall and pieces[place - 1].kind not in (",", around.kind) and not _is_walk(pieces, place)
    return around.inside + (STEP if goes_on else 0)


def _is_walk(pieces: list[Piece], place: int) -> bool:
    return pieces[place].kind == "for" and pieces[place - 1].ends_value


def _step(state: _State, pieces: list[Piece], place: int) -> None:
    """Go over one piece."""
    piece, indent = pieces[place], state.indent
    if piece.kind in _CONTROLS and not (_is_walk(pieces, place) and not piece.begins):
        state.controls.append((len(state.stack), indent))
    elif piece.kind == "{":
        base = indent
        if not state.stack:
            base = 0
        elif state.controls and state.controls[-1][0] == len(state.stack):
            base = state.controls.pop()[1]
        is_block = bool(state.stack) or pieces[0].kind != "struct"
        state.stack.append(_Bracket("{", base, base + STEP, is_block, pieces[place + 1].breaks))
        state.in_head = False
    elif piece.kind in OPENERS:
        is_tall = pieces[place + 1].breaks and pieces[piece.partner].breaks
        is_deep = not is_tall and state.in_head and indent == 0
        state.stack.append(_Bracket(piece.kind, indent, indent + STEP * (2 if is_deep else 1), False, is_tall))
    elif piece.kind in CLOSERS:
        closed = state.stack.pop()
        if closed.kind == "{":
            state.indent = closed.closer


def _code(pieces: list[Piece], line: Line) -> str:
    """Return the text of a line without its indent and comment."""
    parts: list[str] = []
    for place in range(line.first, line.last + 1):
        piece = pieces[place]
        if place > line.first:
            parts.append(gap(pieces[place - 2] if place > 1 else None, pieces[place - 1], piece))
        parts.append(piece.text)
    if _needs_comma(pieces, line.last + 1):
        parts.append(",")
    return "".join(parts)


def _needs_comma(pieces: list[Piece], closer: int) -> bool:
    """Say whether a comma stands before the bracket at this place: one that ends a list and a line of its own."""
    if closer >= len(pieces) or pieces[closer].kind not in CLOSERS or not pieces[closer].breaks:
        return False
    opener = pieces[closer].partner
    return opener + 1 < closer and pieces[opener + 1].breaks and is_list(pieces, opener)
