"""What stands between two tokens of one line: nothing or one blank."""

from bittern.lang.expressions import PRECEDENCE, PREFIXES
from bittern.lang.lexer import KEYWORDS
from bittern.lang.pieces import Piece

_TIGHT_BEFORE = frozenset([",", ":", ")", "]", "..", "."])
_TIGHT_AFTER = frozenset(["(", "[", "..", ".", "@"])


def is_prefix(piece: Piece, before: Piece | None) -> bool:
    """Say whether a sign stands before its only operand. before: the piece before it."""
    return piece.kind in PREFIXES and (piece.begins or before is None or not before.ends_value)


def is_operator(piece: Piece, before: Piece | None) -> bool:
    """Say whether a piece stands between two operands."""
    return piece.kind in PRECEDENCE and not is_prefix(piece, before)


def gap(before: Piece | None, left: Piece, right: Piece) -> str:
    """Return what stands between two neighbours. before: the piece before `left`."""
    if right.kind in (".", "..") and left.kind == "number":
        return " " if right.kind == "." else ""  # a number would take the point
    if right.kind in _TIGHT_BEFORE or left.kind in _TIGHT_AFTER:
        return ""
    if left.kind == "{" and right.kind == "}":
        return ""
    if left.kind in PREFIXES and left.kind not in KEYWORDS and is_prefix(left, before):
        return " " if left.kind == right.kind == "&" else ""
    if right.kind in ("(", "["):
        return "" if left.kind == "name" or left.kind in (")", "]", "number") else " "
    return " "
