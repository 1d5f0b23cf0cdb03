"""Breaks lines that are too long: at the widest bracket, after the loosest operator, or after a comma."""

from bittern.lang.expressions import PRECEDENCE
from bittern.lang.lines import STEP, Line, commas, indented, is_list, map_word
from bittern.lang.pieces import OPENERS, Piece
from bittern.lang.spacing import gap, is_operator

WIDTH = 120


def break_long_lines(pieces: list[Piece]) -> None:
    """Begin new lines in one declaration until every line keeps to the width or cannot be broken."""
    stuck: set[int] = set()
    while True:
        long = [line for line in indented(pieces) if line.indent + len(line.code) > WIDTH and line.first not in stuck]
        if not long:
            return
        for line in long:
            if not _break(pieces, line):
                stuck.add(line.first)


def _break(pieces: list[Piece], line: Line) -> bool:
    """Break one line; say whether it could be."""
    ends = _ends(pieces, line)
    outer = _outermost(pieces, line)
    opener = max(outer, key=lambda place: ends[pieces[place].partner] - ends[place], default=-1)
    if line.first == 0 and pieces[0].kind in ("fn", "inline"):
        opener = next((place for place in outer if pieces[place].kind == "("), opener)
    wide = ends[pieces[opener].partner] - ends[opener] if opener >= 0 else 0
    places = _places(pieces, line, outer)
    listed = _listed(pieces, line, places)
    if listed:
        _after(pieces, listed, ends)
        return True
    signs = [place for place in places if is_operator(pieces[place], pieces[place - 1])]
    loosest = min((PRECEDENCE[pieces[place].kind] for place in signs), default=0)
    after = [place for place in signs if PRECEDENCE[pieces[place].kind] == loosest]
    if not after or wide > len(line.code) // 2:
        if opener >= 0:
            _open(pieces, opener, line.indent, ends)
            return True
        after = after or [place for place in places if pieces[place].kind == ","]
    if after:
        _after(pieces, after, ends)
    return bool(after)


def _after(pieces: list[Piece], places: list[int], ends: dict[int, int]) -> None:
    """Begin a line after the last of these places that keeps to the width, or else after the first."""
    fitting = [place for place in places if ends[place] <= WIDTH]
    pieces[(fitting[-1] if fitting else places[0]) + 1].breaks = True


def _listed(pieces: list[Piece], line: Line, places: list[int]) -> list[int]:
    """Return the commas of a list that goes on from this line, or of what a loop carries."""
    begin = next((p for p in places if pieces[p].kind == "with" or pieces[p].partner > line.last), -1)
    return [place for place in places if begin >= 0 and place > begin and pieces[place].kind == ","]


def _ends(pieces: list[Piece], line: Line) -> dict[int, int]:
    """Return the column behind each piece of a line."""
    ends, column = {}, line.indent
    for place in range(line.first, line.last + 1):
        if place > line.first:
            column += len(gap(pieces[place - 2] if place > 1 else None, pieces[place - 1], pieces[place]))
        column += len(pieces[place].text)
        ends[place] = column
    return ends


def _outermost(pieces: list[Piece], line: Line) -> list[int]:
    """Return the brackets that open and close on a line and hold something, without those inside them."""
    found, place = [], line.first
    while place <= line.last:
        piece = pieces[place]
        if piece.kind in OPENERS and piece.partner <= line.last:
            if piece.partner > place + 1:
                found.append(place)
            place = piece.partner
        place += 1
    return found


def _places(pieces: list[Piece], line: Line, outer: list[int]) -> list[int]:
    """Return the places of a line, but its last, that are in none of these brackets."""
    found, place = [], line.first
    while place < line.last:
        found.append(place)
        place = pieces[place].partner if place in outer else place
        place += 1
    return found


def _open(pieces: list[Piece], opener: int, indent: int, ends: dict[int, int]) -> None:
    """Put what is inside a bracket on lines of its own: one an item, but as many numbers as fit."""
    closer = pieces[opener].partner
    walk = map_word(pieces, opener)
    if walk >= 0 and ends[walk - 1] <= WIDTH:
        pieces[walk].breaks = True
        return
    pieces[opener + 1].breaks = pieces[closer].breaks = True
    if walk >= 0:
        pieces[walk].breaks = True
    if not is_list(pieces, opener):
        return
    firsts = [opener + 1, *(comma + 1 for comma in commas(pieces, opener))]
    items = list(zip(firsts, [*firsts[1:], closer + 1], strict=True))
    is_table = all(end - first <= 3 and pieces[end - 2].kind == "number" for first, end in items)
    begin = ends[opener]
    for first, end in items:
        if not is_table or ends[end - 1] - begin > WIDTH - indent - STEP:
            pieces[first].breaks = True
            begin = ends[first - 1] + 1
