"""What the commands take: numbers, words, lists and folders, each read with one message for all its mistakes.

typer calls a reader with the text that was given (or with the default); a mistake is U111, which says what was given,
where, and what is allowed.
"""

from collections.abc import Callable
from math import isfinite
from pathlib import Path

from bittern.base.errors import BitternError, nearest
from bittern.cli.frame import BAD_ARGUMENTS

CACHES = ("f16", "f32", "int8")

_MOST = (1 << 31) - 1
Number = int | float | str


def whole(option: str, low: int, high: int = _MOST) -> Callable[[Number], int]:
    """Return a reader of whole numbers from low to high."""

    def read(given: Number) -> int:
        text = str(given)
        digits = text[1:] if text.startswith("-") else text
        is_number = digits.isascii() and digits.isdecimal() and len(digits) < 40
        if not is_number or not low <= int(text) <= high:
            raise _wrong(option, text, f"a whole number from {low} to {high}")
        return int(text)

    return read


def real(option: str, low: float, high: float) -> Callable[[Number], float]:
    """Return a reader of decimal numbers from low to high."""

    def read(given: Number) -> float:
        text = str(given)
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not isfinite(value) or not low <= value <= high:
            raise _wrong(option, text, f"a number from {low:.10g} to {high:.10g}")
        return value

    return read


def word(option: str, allowed: tuple[str, ...]) -> Callable[[str], str]:
    """Return a reader of one of a few words."""

    def read(given: str) -> str:
        if given not in allowed:
            raise BitternError(BAD_ARGUMENTS, f"{option} does not know `{given}`.", nearest(given, list(allowed)))
        return given

    return read


def folder(option: str) -> Callable[[str | Path], Path]:
    """Return a reader of paths: an empty one is a variable that was not set, not this folder."""

    def read(given: str | Path) -> Path:
        if not str(given):
            raise _wrong(option, str(given), "the path of a folder")
        return Path(given)

    return read


def words(given: str) -> tuple[str, ...]:
    """Return the words of a comma-separated option, without blanks and empty ones."""
    return tuple(part.strip() for part in given.split(",") if part.strip())


def token_ids(given: str) -> list[int]:
    """Read the token ids of --tokens: numbers with commas between them, none left out."""
    parts = [part.strip() for part in given.split(",")]
    wrong = [part for part in parts if not (part.isascii() and part.isdecimal() and len(part) < 20)]
    if wrong:
        what = f"{_shown(wrong[0])} is not a token id in --tokens."
        raise BitternError(BAD_ARGUMENTS, what, "Give numbers from 0 with commas between them, such as 1,2,3.")
    return [int(part) for part in parts]


def _wrong(option: str, given: str, allowed: str) -> BitternError:
    return BitternError(BAD_ARGUMENTS, f"{option} is {_shown(given)}.", f"Give {allowed}.")


def _shown(given: str) -> str:
    return f"`{given}`" if len(given) <= 60 else f"`{given[:57]}...`"
