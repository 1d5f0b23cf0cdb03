"""`bittern explain`: a paragraph for every error of programs, and examples that show what they say."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from bittern.cli import COMMANDS, explain, main
from bittern.lang.check import check_text
from bittern.lang.render import as_text

LANGUAGE = sorted(name for name in explain.codes() if name.startswith("E"))


def test_every_error_of_programs_has_a_paragraph() -> None:
    paragraphs = explain.explanations()
    assert sorted(paragraphs) == LANGUAGE
    for name, text in paragraphs.items():
        assert text.endswith(".") and 30 < len(text) < 300 and "  " not in text, name


def test_every_other_code_has_cause_example_and_remedy() -> None:
    rows = explain.failures()
    assert sorted(rows) == sorted(set(explain.codes()) - set(LANGUAGE))
    for name, row in rows.items():
        for part in (row.cause, row.example, row.remedy):
            assert part[-1] == "." and part == part.strip() and "  " not in part, name
        assert 30 < len(row.cause) < 300 and 10 < len(row.example) < 140 and 10 < len(row.remedy) < 140, name
    causes = [row.cause for row in rows.values()]
    assert len(set(causes)) > len(causes) - 6, "each has words of its own"


def test_commands_in_the_remedies_exist() -> None:
    said = " ".join(f"{row.example} {row.remedy}" for row in explain.failures().values())
    named = set(re.findall(r"`bittern ([a-z]+)", said))
    assert len(named) > 5 and named <= set(COMMANDS)


def test_examples_say_what_is_recorded() -> None:
    examples = explain.examples()
    assert set(examples) <= set(LANGUAGE) and len(examples) >= len(LANGUAGE) - 8
    for name, example in examples.items():
        if name == "E101":
            continue  # the byte that is not UTF-8 cannot stand in a text
        file = example["diagnostic"].split(":", 1)[0]
        said = [as_text(fault) + "\n" for fault in check_text(example["program"], file)]
        assert example["diagnostic"] in said, name
        assert f"error[{name}]" in example["diagnostic"]


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "e109"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("E109 (syntax): comparisons are chained\n\nA comparison gives one bit")
    assert "An example:\n\n    " in out and "error[E109]" in out
    assert max(map(len, out.split("\n"))) <= 124
    assert main(["explain", "U111"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("U111 (usage): the arguments of the command are wrong\n\nAn option or argument is unknown")
    assert "\n\nFor example: `bittern generate -m smollm2 -p hi -n 0`.\n\nWhat to do: `bittern COMMAND --help`" in out


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "E109", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told) == ["code", "area", "title", "explanation", "example", "failure"]
    assert set(told["example"]) == {"program", "diagnostic"} and told["failure"] is None
    assert main(["explain", "F101", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["explanation"], told["example"]) == ("", None)
    assert set(told["failure"]) == {"cause", "example", "remedy"}


def test_an_example_of_another_code_is_noticed() -> None:
    examples = explain.examples()
    said = [as_text(fault) for fault in check_text(examples["E301"]["program"], "case.btn")]
    assert examples["E109"]["diagnostic"] not in said


def test_what_explain_reads_is_shipped() -> None:
    folder = Path(explain.__file__).parent
    settings = tomllib.loads((folder.parents[1] / "pyproject.toml").read_text("utf-8"))
    shipped = settings["tool"]["setuptools"]["package-data"]["bittern"]
    for name in ("explanations.txt", "failures.txt", "examples.json"):
        assert any(folder / name in folder.parent.glob(pattern) for pattern in shipped), name
