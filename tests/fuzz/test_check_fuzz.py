"""Broken programs: whatever a text says, the checker answers with errors that have a place, and never fails itself."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bittern
from bittern.base.errors import CODES
from bittern.lang.check import check_text
from bittern.lang.source import Diagnostic

PACKAGE = Path(bittern.__file__).parent
GOLDEN = Path(__file__).parents[1] / "golden" / "check"
TOKEN = re.compile(r"\s+|//[^\n]*|[A-Za-z_]\w*|0x[0-9a-fA-F]+|\d[\d.]*\w*|.", re.DOTALL)
MOST = 6000  # characters of a program: longer ones take too long to try often


def programs() -> dict[str, list[str]]:
    """Return the tokens of programs of every kind, by name."""
    paths = [
        *PACKAGE.glob("std/*.btn"),
        *PACKAGE.glob("models/*.btn"),
        *GOLDEN.glob("E[2-6]*.btn"),
        *GOLDEN.glob("s*.btn"),
    ]
    texts = {path.stem: path.read_text("utf-8") for path in sorted(paths)}
    return {name: TOKEN.findall(text) for name, text in texts.items() if len(text) < MOST}


PROGRAMS = programs()
WORDS = sorted({token for tokens in PROGRAMS.values() for token in tokens if not token.isspace()})
FIXED = {"fn", "let", "for", "in", "with", "if", "else", "own", "where", "use", "const", "struct", "inline", "ideal"}


def mangled(tokens: list[str], seed: int) -> str:
    """Return a program with one to three tokens changed; mostly a name or number becomes another one of the program."""
    dice = random.Random(seed)
    tokens = list(tokens)
    for _ in range(dice.randint(1, 3)):
        kind = dice.random()
        words = [i for i, t in enumerate(tokens) if (t.isidentifier() and t not in FIXED) or t[:1].isdigit()]
        places = words if kind < 0.7 and words else [i for i, t in enumerate(tokens) if t.strip()]
        place, other = dice.choice(places), dice.choice(places)
        if kind < 0.6:
            tokens[place] = tokens[other]
        elif kind < 0.8:
            tokens[place] = dice.choice(WORDS)
        elif kind < 0.9:
            tokens[place], tokens[other] = tokens[other], tokens[place]
        else:
            tokens[place] = ""
    return "".join(tokens)


def assert_sound(found: list[Diagnostic], text: str) -> None:
    """Check that each diagnostic has a known code, a place in its text and words."""
    for each in found:
        assert each.code in CODES and each.message
        assert 0 <= each.span.start <= each.span.end <= len(each.span.source.text)
        for phrase in (each.message, each.found, each.expected, each.hint):
            assert ":type" not in phrase and not re.search(r"\bd\d\b|object at 0x|Dim\(", phrase), phrase
    assert len({(each.code, each.span.start, each.span.end) for each in found if each.span.source.text == text}) == len(
        [each for each in found if each.span.source.text == text]
    ), "an error is reported once"


@pytest.mark.req("K002")
@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(PROGRAMS)), st.integers(0, 2**32))
def test_mangled_programs_are_answered(name: str, seed: int) -> None:
    text = mangled(PROGRAMS[name], seed)
    assert_sound(check_text(text, f"{name}.btn"), text)


def test_the_programs_are_sound_before_they_are_mangled() -> None:
    assert len(PROGRAMS) > 60
    assert check_text("".join(PROGRAMS["softmax"]), "softmax.btn") == []


def test_a_mangled_program_is_noticed() -> None:
    """Planted fault: of edits of a good program, most are refused."""
    refused = [bool(check_text(mangled(PROGRAMS["softmax"], seed), "softmax.btn")) for seed in range(40)]
    assert sum(refused) > 25
