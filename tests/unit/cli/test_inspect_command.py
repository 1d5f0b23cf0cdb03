"""`bittern inspect` from end to end: text, JSON, facts, differences, files, and refusals with codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from bittern.cli import main
from bittern.graph.facts import TEN


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """A call of the command line: status, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny Llama."""
    return tiny_models.save(tmp_path, tiny_models.llama())


def test_text_and_json(run: Any, model: Path) -> None:
    status, out, err = run("inspect", model)
    assert (status, err) == (0, "") and "a GGUF checkpoint" in out and "forward = llama.forward[f16]" in out
    status, out, err = run("inspect", model, "--json")
    record = json.loads(out)
    assert (status, err) == (0, "") and record["kind"] == "gguf" and set(record["roots"]) == {"forward", "head"}
    assert record["refusal"] is None and len(record["tensors"]) > 10


@pytest.mark.req("K011")
def test_the_ten_facts_of_a_node(run: Any, model: Path) -> None:
    status, out, _ = run("inspect", model, "--facts", "layer.0.q")
    assert status == 0 and len(out.splitlines()) == 11
    for fact in TEN:
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {fact} ")]
        assert line.removeprefix(f"  {fact}").strip(), fact
    status, out, _ = run("inspect", model, "--facts", "layer.0.q", "--json")
    assert list(json.loads(out)["facts"]) == list(TEN)


def test_two_files(run: Any, model: Path, tmp_path: Path) -> None:
    status, out, _ = run("inspect", model, model)
    assert status == 0 and "forward: equal" in out and "head: equal" in out
    other = tiny_models.save(tmp_path, tiny_models.llama(seed=2), "other.gguf")
    status, out, _ = run("inspect", model, other)
    assert status == 0 and "forward: they part at" in out and "nodes only left" in out
    status, out, _ = run("inspect", model, other, "--json")
    assert not json.loads(out)["roots"]["forward"]["equal"]


def test_a_page(run: Any, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("inspect", model, "--html", page) == (0, f"wrote {page}\n", "")
    assert page.read_text("utf-8").startswith("<!doctype html>")
    status, out, _ = run("inspect", model, model, "--html", page, "--json")
    assert status == 0 and json.loads(out)["roots"]["head"]["equal"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--facts", "layer.0.z"), "R122"),
        (("--facts", "q"), "R123"),
        (("--html", "{tmp}/missing/x.html"), "R124"),
        (("{model}", "--facts", "layer.0.q"), "U111"),
        (("--html", ""), "U111"),
        (("{tmp}/nothing.keg",), "U112"),
    ],
)
def test_refusals(run: Any, model: Path, tmp_path: Path, arguments: tuple[str, ...], code: str) -> None:
    given = [argument.format(tmp=tmp_path, model=model) for argument in arguments]
    status, out, err = run("inspect", model, *given)
    assert (status, out) == (1, "") and f"error[{code}]" in err
    status, out, err = run("inspect", model, *given, "--json")
    assert status == 1 and json.loads(out)["error"]["code"] == code and "Traceback" not in err


def test_no_file_is_written_for_a_wrong_node(run: Any, model: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert run("inspect", model, "--facts", "layer.0.z", "--html", page)[0] == 1
    assert not page.exists()
