"""`bittern generate` beyond one prompt: several at once, states, speculation, and where it runs."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from bittern.chips.x86.features import is_here
from bittern.cli import main


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tiny_models.llama(shape=tiny_models.Shape(vocab=259), keys=tiny_models.tokenizer(), is_tied=False, seed=6)
    return tiny_models.save(tmp_path_factory.mktemp("model"), data)


@pytest.fixture
def generate(model: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """A call of `bittern generate`: its status, stdout and stderr."""

    def call(*options: object) -> tuple[int, str, str]:
        status = main(["generate", "-m", str(model), "--ignore-eos", "-q", *(str(option) for option in options)])
        out, err = capsys.readouterr()
        return status, out, err

    return call


PROMPTS = ("ab c", "q", "xyz xyz xyz")


@pytest.mark.parametrize("chip", ["vm", "auto"])
def test_several_prompts(generate: Any, chip: str) -> None:
    alone = [generate("-p", prompt, "-n", 8, "--chip", chip)[1] for prompt in PROMPTS]
    given = [option for prompt in PROMPTS for option in ("-p", prompt)]
    assert generate(*given, "-n", 8, "--chip", chip) == (0, "\n".join(alone), "")
    found = json.loads(generate(*given, "-n", 8, "--chip", chip, "--json")[1])
    assert [text["prompt"] for text in found["texts"]] == list(PROMPTS)
    assert [text["text"] + "\n" for text in found["texts"]] == alone
    assert all(len(text["tokens"]) == 8 and text["stopped"] == "count" for text in found["texts"])


def test_a_state_goes_on(generate: Any, tmp_path: Path) -> None:
    state, later = tmp_path / "state", tmp_path / "later"
    whole = json.loads(generate("-p", "ab c", "-n", 12, "--json")[1])
    first = json.loads(generate("-p", "ab c", "-n", 5, "--save", state, "--json")[1])
    assert first["tokens"] == whole["tokens"][:5]
    second = json.loads(generate("--restore", state, "-p", "", "-n", 7, "--save", later, "--json", "--chip", "vm")[1])
    assert second["tokens"] == whole["tokens"][5:]
    more = json.loads(generate("--restore", later, "-p", "d", "-n", 3, "--json")[1])
    assert more["tokens_prompt"] == [*whole["tokens_prompt"], *whole["tokens"], ord("d")]


def test_states_that_are_refused(generate: Any, tmp_path: Path) -> None:
    status, _, err = generate("--restore", tmp_path / "none", "-p", "a")
    assert status == 1 and "R151" in err
    status, _, err = generate("--save", tmp_path / "state", "-p", "a", "-p", "b")
    assert status == 1 and "U111" in err


def test_where_and_how_it_runs_changes_no_text(generate: Any) -> None:
    calls: list[tuple[object, ...]] = [(), ("--no-speculation",), ("--chip", "vm")]
    if is_here():
        calls.append(("--threads", 1))
    found = [json.loads(generate("-p", "xyz xyz xyz", "-n", 24, "--json", *options)[1]) for options in calls]
    assert all(each["tokens"] == found[0]["tokens"] for each in found)
    assert [each["chip"] for each in found] == ["x86" if is_here() else "vm"] * 2 + ["vm"] + ["x86"] * (len(calls) - 3)


@pytest.mark.parametrize(
    ("options", "code"),
    [(("--threads", 0), "U111"), (("--chip", "vm", "--tier", "avx2"), "R115"), (("--chip", "x"), "R101")],
)
def test_what_is_refused(generate: Any, options: tuple[object, ...], code: str) -> None:
    status, _, err = generate("-p", "a", *options)
    assert status == 1 and code in err
