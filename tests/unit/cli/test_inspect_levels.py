"""`bittern inspect --level`: the same operations under the same names, from the graph to the machine code."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from bittern.cli import main
from bittern.graph.facts import TEN
from bittern.runtime import inspect_levels
from bittern.runtime.inspect_levels import instructions

PROGRAM = """
fn square[n](x: f32[n]) -> f32[n] { x * x }

/// The mean of the squares.
fn mean_square[n](x: f32[n]) -> f32 {
  let squares = square(x)
  sum(squares) / f32(n)
}
"""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """A call of the command line: status, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A small program."""
    path = tmp_path / "small.btn"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny Llama whose heads read a key head each by pairs, as the native kernels take them."""
    return tiny_models.save(tmp_path, tiny_models.llama())


@pytest.mark.req("K003")
def test_operations_keep_their_names_at_every_level(run: Any, program: Path) -> None:
    told = {}
    for level in (1, 2, 3, 4):
        sizes = ("--dims", "n=64") if level > 2 else ()
        status, out, err = run("inspect", f"{program}:mean_square", "--level", level, *sizes, "--full")
        assert (status, err) == (0, ""), level
        told[level] = out
    assert "squares = call small.square" in told[1]
    assert "squares = mul" in told[2] and "call" not in told[2].split("passes that")[0].replace("calls", "")
    for level in (3, 4):
        assert "squares" in told[level] and "sum" in told[level], level
    assert "kernel small.mean_square()" in told[3] and "load p0" in told[3]


@pytest.mark.req("K014")
def test_every_node_leads_to_a_range_of_machine_code(run: Any, program: Path) -> None:
    _, out, _ = run("inspect", f"{program}:mean_square", "--level", 2, "--dims", "n=64", "--json")
    after = json.loads(out)
    function = after["functions"][after["roots"]["mean_square"]]
    ids = {node["id"] for node in function["nodes"] if node["op"] in ("mul", "sum", "div")}
    status, out, err = run(
        "inspect", f"{program}:mean_square", "--level", 4, "--dims", "n=64", "--tier", "avx2", "--json"
    )
    assert (status, err) == (0, "")
    root = json.loads(out)["roots"]["mean_square"]
    (kernel,) = root["kernels"]
    assert root["tier"] == "avx2" and root["sizes"] == {"n": 64} and root["bytes"] >= kernel["end"]
    (launch,) = kernel["launches"]
    assert ids <= set(launch["nodes"]) and "squares" in launch["operations"]
    starts = [stretch["start"] for stretch in kernel["code"]]
    ends = [stretch["end"] for stretch in kernel["code"]]
    assert [kernel["start"], *ends] == [*starts, kernel["end"]], "the stretches cover the kernel without a gap"
    assert all(stretch["instructions"] for stretch in kernel["code"] if stretch["operation"] != "constants")


def test_level_two_says_what_the_passes_did(run: Any, program: Path) -> None:
    status, out, _ = run("inspect", program, "--level", 2, "--json")
    record = json.loads(out)
    assert status == 0 and record["level"] == 2
    assert [step["pass"] for step in record["passes"]["mean_square"]] == ["inline"]
    status, out, _ = run("inspect", program, "--level", 2, "--without", "inline", "--json")
    assert json.loads(out)["passes"]["mean_square"] == [] and "inline" in json.loads(out)["about"]["without"]


def test_facts_of_a_node_after_the_passes(run: Any, program: Path) -> None:
    status, out, _ = run("inspect", program, "--level", 2, "--facts", "mean_square/squares")
    assert status == 0 and len(out.splitlines()) == 1 + len(TEN)
    assert "operation          mul" in out
    status, out, _ = run("inspect", program, "--level", 2, "--facts", "mean_square/squares", "--json")
    assert list(json.loads(out)["facts"]) == list(TEN)


def test_a_model_after_the_passes(run: Any, model: Path) -> None:
    """Calls that the plan has kernels for stay, under names that say where they stand."""
    status, out, err = run("inspect", model, "--level", 2, "--dims", "t=1", "--json")
    assert (status, err) == (0, "")
    record = json.loads(out)
    function = record["functions"][record["roots"]["forward"]]
    names = {node["label"] for node in function["nodes"]}
    assert {"layer.0.block.y", "layer.1.block.y", "layer.0.q"} <= names
    assert not any("call llama.block" in str(node["calls"]) for node in function["nodes"])
    status, out, _ = run("inspect", f"{model}:head", "--level", 2)
    assert status == 0 and "head = llama.head" in out and "forward" not in out.splitlines()[3]


def test_a_model_as_kernels_and_as_machine_code(run: Any, model: Path) -> None:
    status, out, err = run("inspect", f"{model}:head", "--level", 3)
    assert (status, err) == (0, "") and "head (t = 1): 2 kernels, 2 launches" in out and "products.matvec_q4_1" in out
    status, out, err = run("inspect", f"{model}:head", "--level", 4, "--tier", "avx2", "--json")
    assert (status, err) == (0, "")
    kernels = json.loads(out)["roots"]["head"]["kernels"]
    assert [kernel["start"] % 64 for kernel in kernels] == [0, 0]
    assert all(a["end"] <= b["start"] for a, b in pairwise(kernels))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("{program}:mean", "--level", "2"), "R127"),
        (("{program}:mean_square", "--level", "3"), "R128"),
        (("{program}", "--level", "2", "--dims", "m=3"), "R128"),
        (("{program}", "--level", "2", "--without", "inlining"), "R141"),
        (("{program}", "--level", "3", "--dims", "n=8", "--facts", "squares"), "U111"),
        (("{program}", "{program}", "--level", "2"), "U111"),
        (("{program}", "--level", "5"), "U111"),
        (("{program}", "--level", "2", "--dims", "n"), "U111"),
        (("{program}", "--level", "4", "--dims", "n=8", "--tier", "avx9"), "R162"),
        (("{program}", "--level", "2", "--facts", "cubes"), "R122"),
        (("{program}", "--level", "2", "--html", "x.html"), "U111"),
        (("{program}", "--dims", "n=8"), "U111"),
    ],
)
def test_refusals(run: Any, program: Path, arguments: tuple[str, ...], code: str) -> None:
    given = [argument.format(program=program) for argument in arguments]
    status, out, err = run("inspect", *given)
    assert (status, out) == (1, "") and f"error[{code}]" in err
    status, out, err = run("inspect", *given, "--json")
    assert status == 1 and json.loads(out)["error"]["code"] == code and "Traceback" not in err


def test_a_checkpoint_without_a_program_is_refused_as_it_is(run: Any, tmp_path: Path) -> None:
    data = tiny_models.llama(keys={"general.architecture": "llamb"})
    path = tiny_models.save(tmp_path, data)
    status, out, err = run("inspect", path)
    assert status == 0 and "no graph" in out
    status, _, err = run("inspect", path, "--level", 3)
    assert status == 1 and "error[M1" in err


def test_bytes_are_shown_where_no_disassembler_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    code = bytes.fromhex("4801d8c3")  # add rax, rbx; ret
    shown = instructions(code, 64)
    monkeypatch.setitem(__import__("sys").modules, "iced_x86", None)
    plain = inspect_levels.instructions(code, 64)
    assert plain == ["0x000040  48 01 d8 c3"]
    assert [line.split()[0] for line in shown][:1] == ["0x000040"]
