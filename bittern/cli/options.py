"""What the commands take: readers of numbers, words, lists and folders, and the options that several commands share.

typer calls a reader with the text that was given (or with the default); a mistake is U111, which says what was given,
where, and what is allowed. An option is a type: `count: Count = 32`.
"""

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bittern.base.errors import BitternError, nearest
from bittern.cli.frame import BAD_ARGUMENTS

if TYPE_CHECKING:
    import numpy.typing as npt

PIXELS = ("auto", "raw", "unit", "signed")
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


def array_of(given: str) -> "npt.NDArray[Any]":
    """Return the array that FILE or FILE:NAME means; a file with a colon in its name is found. Errors: N461 to N463."""
    from bittern.front.arrays import read_array

    path, _, name = given.rpartition(":")
    is_whole = not path or Path(given).exists()
    return read_array(Path(given)) if is_whole else read_array(Path(path), name)


def _wrong(option: str, given: str, allowed: str) -> BitternError:
    return BitternError(BAD_ARGUMENTS, f"{option} is {_shown(given)}.", f"Give {allowed}.")


def _shown(given: str) -> str:
    return f"`{given}`" if len(given) <= 60 else f"`{given[:57]}...`"


def option(*names: str, help: str, metavar: str | None = None, parser: Callable[..., Any] | None = None) -> Any:
    """Return an option for an annotation. names: such as `-n`; none: that of the parameter. parser: its reader."""
    return typer.Option(*names, help=help, metavar=metavar, parser=parser)


_U32, _U64, _HOTTEST = (1 << 32) - 1, (1 << 64) - 1, 1e6

AsJson = Annotated[bool, option("--json", help="Print one JSON object, and no progress.")]
Quiet = Annotated[bool, option("--quiet", "-q", help="Show no progress.")]
Count = Annotated[int, option("-n", "--count", metavar="N", parser=whole("-n", 1), help="How many tokens to make.")]
Pixels = Annotated[
    str,
    option(
        "--pixels",
        metavar="RANGE",
        parser=word("--pixels", PIXELS),
        help="What bytes become for a real input: raw (0 to 255), unit (0 to 1), signed (-1 to 1); auto is unit.",
    ),
]
Context = Annotated[
    int | None,
    option("--ctx", metavar="N", parser=whole("--ctx", 1), help="Positions of the cache; else as many as needed."),
]
Cache = Annotated[
    str,
    option("--cache", metavar="ELEMENT", parser=word("--cache", CACHES), help=f"Of the cache: {', '.join(CACHES)}."),
]
ChipName = Annotated[str, option("--chip", metavar="NAME", help="The chip to run on; `auto`: the best that is here.")]
TierName = Annotated[str, option("--tier", metavar="NAME", help="A feature level of the chip; else the best one.")]
Threads = Annotated[
    int | None,
    option("--threads", metavar="N", parser=whole("--threads", 1, 1024), help="Cores to use; else all."),
]
Folders = Annotated[
    list[Path] | None,
    option(
        "--library",
        metavar="DIR",
        parser=folder("--library"),
        help="A folder of programs and families, before Bittern's own.",
    ),
]
Temperature = Annotated[
    float,
    option(
        "--temp",
        metavar="X",
        parser=real("--temp", 0, _HOTTEST),
        help="0 always takes the likeliest token; more varies more.",
    ),
]
TopK = Annotated[
    int, option("--top-k", metavar="N", parser=whole("--top-k", 0, _U32), help="Keep the N likeliest; 0 keeps all.")
]
TopP = Annotated[
    float,
    option("--top-p", metavar="X", parser=real("--top-p", 0, 1), help="Keep the likeliest of this total probability."),
]
MinP = Annotated[
    float,
    option(
        "--min-p",
        metavar="X",
        parser=real("--min-p", 0, 1),
        help="Keep what has this share of the best one's probability.",
    ),
]
Seed = Annotated[
    int, option("--seed", metavar="N", parser=whole("--seed", 0, _U64), help="The same seed gives the same text.")
]
