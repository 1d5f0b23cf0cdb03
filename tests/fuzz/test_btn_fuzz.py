"""Mutated programs: the library, the models and the golden cases, with words dropped, repeated, exchanged.

Whatever a text says, the checker answers with diagnostics that have a place and speak of the text, and never fails.

By hand: `python tests/fuzz/test_btn_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import random
import re
import sys
from dataclasses import replace
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
_WORD = re.compile(r"\s+|//[^\n]*|[A-Za-z_]\w*|0x[0-9a-fA-F]+|\d[\d.]*\w*|.", re.DOTALL)
_PLACES = (
    "bittern/std/**/*.btn",
    "bittern/models/*.btn",
    "tests/golden/check/E[2-6]*.btn",
    "tests/golden/check/s*.btn",
)
_SOURCES = {
    path.stem: _WORD.findall(path.read_text("utf-8"))
    for place in _PLACES
    for path in sorted(ROOT.glob(place))
    if path.stat().st_size < 6000
}
_INNER = re.compile(r":type|\bd\d\b|object at 0x|Dim\(")  # words of ours that no diagnostic may say
_GRAMMAR = {"fn", "let", "for", "in", "with", "if", "else", "own", "where", "use", "const", "struct", "inline", "ideal"}
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
    if chance.random() < 0.5:
        return "".join(_renamed(chance, _SOURCES[name]))
    words = fuzzing.mutated_words(chance, _SOURCES[name], _SPARE)
    if chance.random() < 0.1:
        words = fuzzing.mutated_words(chance, words, _SOURCES[chance.choice(sorted(_SOURCES))])
    return "".join(words)


def _renamed(chance: random.Random, words: list[str]) -> list[str]:
    """Return a program in which one to three names or numbers became others of it: the text still parses mostly."""
    made = list(words)
    places = [at for at, word in enumerate(made) if (word[0].isalnum() or word[0] == "_") and word not in _GRAMMAR]
    for _ in range(chance.randint(1, 3) if places else 0):
        made[chance.choice(places)] = made[chance.choice(places)]
    return made


def judge(text: str) -> str:
    """Check a program; return the code of its first error. Errors: AssertionError as for `outcome_of`."""
    found: list[Diagnostic] = []

    def read() -> None:
        found[:] = check_text(text, "program.btn", _library())

    fuzzing.outcome_of(read, SECONDS)
    assert_sound(found, text)
    return found[0].code if found else "accepted"


def assert_sound(found: list[Diagnostic], text: str) -> None:
    """Check that each diagnostic has a known code, a place in its text and words for people, and is said once."""
    for each in found:
        assert each.code in CODES and each.message and as_text(each), each
        assert 0 <= each.span.start <= each.span.end <= len(each.span.source.text), each
        for phrase in (each.message, each.found, each.expected, each.hint):
            assert all(inner in text for inner in _INNER.findall(phrase)), phrase
    own = [(each.code, each.span.start, each.span.end) for each in found if each.span.source.text == text]
    assert len(own) == len(set(own)), own


@pytest.mark.req("K002")
def test_mutated_programs() -> None:
    outcomes = fuzzing.run(2.0, fuzzing.fresh_seed(), case, judge)
    assert len(outcomes) > 3, outcomes


def test_the_programs_are_sound_before_they_are_mutated() -> None:
    assert len(_SOURCES) > 60
    assert judge("".join(_SOURCES["softmax"])) == "accepted"


def test_most_renamed_programs_are_refused() -> None:
    """Planted fault: of edits of a good program, most are noticed."""
    made = ["".join(_renamed(random.Random(seed), _SOURCES["softmax"])) for seed in range(40)]
    assert sum(judge(text) != "accepted" for text in made) > 20


def test_a_diagnostic_without_a_place_is_found() -> None:
    """Planted fault: the same error said twice, and one that shows what only we know."""
    text = "fn f() -> u32 { x }"
    (good,) = check_text(text, "program.btn", _library())
    assert_sound([good], text)
    for bad in ([good, good], [replace(good, message="Dim(3) is no number")]):
        with pytest.raises(AssertionError):
            assert_sound(bad, text)


def test_an_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a checker that stumbles over the second error."""

    def stumbling(library: Library) -> list[Diagnostic]:
        return library.errors.found[: 1 // (len(library.errors.found) < 2)]

    monkeypatch.setattr(check, "_ordered", stumbling)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        fuzzing.run(30.0, 1, case, judge)


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
