"""Bad programs and the exact words about them: `check/NAME.btn` and `check/NAME.txt`.

With BITTERN_UPDATE_GOLDEN=1 the texts are written anew; the change is read in the diff.
"""

import os
import re
from pathlib import Path

import pytest

from bittern.base.errors import CODES
from bittern.lang.check import check_text
from bittern.lang.lexer import decode
from bittern.lang.render import as_text

FOLDER = Path(__file__).parent / "check"
CASES = sorted(path.stem for path in FOLDER.glob("*.btn"))
UPDATE = os.environ.get("BITTERN_UPDATE_GOLDEN") == "1"
AREAS = ("E1", "E2", "E3", "E4", "E5", "E6")  # whose codes must each have a case
ELSEWHERE = {  # codes that no program text causes, and who shows them
    "E120": "tests/unit/lang/test_print_graph.py",
    "E211": "tests/unit/lang/test_library.py",
    "E212": "tests/unit/lang/test_library.py",
}


def rendered(case: str) -> str:
    """Return what is said about a case."""
    path = FOLDER / f"{case}.btn"
    source, errors = decode(path.name, path.read_bytes())
    return "".join(as_text(error) + "\n" for error in errors or check_text(source.text, source.name))


@pytest.mark.parametrize("case", CASES)
def test_words(case: str) -> None:
    said, recorded = rendered(case), FOLDER / f"{case}.txt"
    if UPDATE:
        recorded.write_text(said, encoding="utf-8")
    assert said == recorded.read_text(encoding="utf-8")


@pytest.mark.parametrize("case", CASES)
def test_a_case_shows_the_code_in_its_name(case: str) -> None:
    shown = re.findall(r"error\[(\w+)\]", rendered(case))
    assert shown, "a case in this folder has an error"
    named = re.match(r"[A-Z]\d{3}(?=_)", case)
    if named:
        assert named.group() in shown


@pytest.mark.req("K002")
def test_every_code_has_a_case() -> None:
    named = {case.split("_")[0] for case in CASES}
    assert sorted(code for code in CODES if code.startswith(AREAS) and code not in {*named, *ELSEWHERE}) == []


def test_no_text_is_left_without_a_case() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.txt")) == CASES


def test_another_word_is_noticed() -> None:
    recorded = (FOLDER / "E109_chained_comparison.txt").read_text(encoding="utf-8")
    assert rendered("E109_chained_comparison") == recorded
    assert rendered("E109_chained_comparison").replace("chained", "linked") != recorded
