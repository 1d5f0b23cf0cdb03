"""Mutated programs: the library and the models, with words dropped, repeated, exchanged. Diagnostics, never more.

By hand: `python tests/fuzz/test_btn_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import random
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import fuzzing
import pytest
from hostile import LIBRARY

from bittern.base.errors import CODES
from bittern.lang import check
from bittern.lang.check import check_text
from bittern.lang.library import Library
from bittern.lang.render import as_text
from bittern.lang.source import Diagnostic

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 4.0  # of processor time, for one program of at most some hundred lines
_WORD = re.compile(r"\s+|//[^\n]*|\w+|.", re.DOTALL)
_SOURCES = {
    path.stem: _WORD.findall(path.read_text("utf-8"))
    for folder in ("std", "models")
    for path in sorted((ROOT / "bittern" / folder).rglob("*.btn"))
    if path.stat().st_size < 6000
}
_SPARE = (
    *("(", ")", "[", "]", "{", "}", ",", "..", ".", ":", "=", "->", "&", "+", "-", "*", "/", "%", "<", "==", "\n", " "),
    *(
        "own ",
        "let ",
        "if ",
        "else ",
        "for ",
        "each ",
        "while ",
        "limit ",
        "with ",
        "in ",
        "where ",
        "ideal ",
        "inline ",
    ),
    *("use ", "fn ", "struct ", "const ", "! fs", "@device", "f32", "u8", "t", "b1", "bit", "q4_0", "weight", "list"),
    *("0", "1", "2", "4294967296", "1e99", "0x1p-100", "1.5", "n", "x", "n * n", "n / 2", "sum(x)", "x[0]", "(x, x)"),
    *("[i for i in 0..n]", "for i in 0..n with x { x }", "concat(x, x)", "fill(0.0, [n])", "\0", "é", "'", '"', "//"),
)


def _library() -> Library:
    """Return a library of its own that shares what is read of the shipped one."""
    return Library(LIBRARY.folders, modules=dict(LIBRARY.modules), instances=dict(LIBRARY.instances))


def case(seed: int, number: int) -> str:
    """Return a mutated program; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    name = chance.choice(sorted(_SOURCES))
    words = fuzzing.mutated_words(chance, _SOURCES[name], _SPARE)
    if chance.random() < 0.1:
        words = fuzzing.mutated_words(chance, words, _SOURCES[chance.choice(sorted(_SOURCES))])
    return "".join(words)


def judge(text: str) -> str:
    """Check a program; return the code of its first error. Errors: AssertionError as for `outcome_of`."""
    found: list[str] = []

    def read() -> None:
        found.clear()
        for error in check_text(text, "program.btn", _library()):
            assert error.code in CODES and as_text(error), error
            found.append(error.code)

    fuzzing.outcome_of(read, SECONDS)
    return found[0] if found else "accepted"


def test_mutated_programs() -> None:
    outcomes = fuzzing.run(2.0, fuzzing.fresh_seed(), case, judge)
    assert len(outcomes) > 3, outcomes


def test_an_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a checker that stumbles over the second error."""

    def stumbling(library: Library) -> list[Diagnostic]:
        return library.errors.found[: 1 // (len(library.errors.found) < 2)]

    monkeypatch.setattr(check, "_ordered", stumbling)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        fuzzing.run(30.0, 1, case, judge)


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
