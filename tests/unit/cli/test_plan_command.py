"""`bittern plan` and `bittern compare` from end to end: text, JSON, runs, and refusals with codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from bittern.chips.x86.features import is_here
from bittern.cli import main
from bittern.plan.ablate import NAMES

here = pytest.mark.skipif(not is_here(), reason="this machine is no x86-64 with Linux or macOS")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """A call of the command line: status, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return status, out, err

    return call


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama."""
    return tiny_models.save(tmp_path_factory.mktemp("models"), tiny_models.llama())


def _json(run: Any, *arguments: object) -> Any:
    status, out, err = run(*arguments, "--json")
    assert (status, err) == (0, ""), err
    return json.loads(out)


def test_text_folds_what_repeats(run: Any, model: Path) -> None:
    status, out, err = run("plan", model, "--tier", "avx2", "--threads", 2)
    assert (status, err) == (0, "") and out.startswith("step of llama.forward[f16].step, planned for x86:avx2\n")
    (row,) = (line for line in out.splitlines() if "attention_of_few" in line)
    assert "all, shared, barrier" in row and row.split()[-4] == "2", "two layers, one row"
    for word in ("vectors of 256 bits, 2 threads", "movement  none", "needs     no capability", "predicted, one run"):
        assert word in out
    status, more, _ = run("plan", model, "--tier", "avx2", "--threads", 2, "--full")
    assert status == 0 and sum("attention_of_few" in line for line in more.splitlines()) == 2
    assert "packed" in more and "shared at 0" in more


@pytest.mark.req("K008", "K009")
def test_tiers_and_tokens_have_plans_of_their_own_of_one_graph(run: Any, model: Path) -> None:
    found = [_json(run, "plan", model, "--tier", tier) for tier in ("sse2", "avx2", "avx512-vnni")]
    found += [_json(run, "plan", model, "--tier", "sse2", "--tokens", tokens) for tokens in (2, "any")]
    found.append(_json(run, "plan", model, "--tier", "sse2", "--no-fuse"))
    assert len({each["plan"] for each in found}) == len(found)
    assert len({each["graph"] for each in found}) == 1
    assert [each["target"]["vector_bits"] for each in found[:3]] == [128, 256, 512]
    assert len({each["function"]["id"] for each in found if each["cut"] == "step"}) == 1


@pytest.mark.req("K023")
def test_explain_names_candidates_costs_and_the_winner(run: Any, model: Path) -> None:
    record = _json(run, "plan", model, "--tier", "avx2", "--explain")
    (first, *_) = (each for each in record["decisions"] if each["won"] == "attention_of_few")
    assert [each["rule"] for each in first["candidates"]][:2] == ["attention_of_few", "attention_to_codes"]
    assert all(each["modelled_seconds"] > 0 for each in first["candidates"]) and "cheapest" in first["reason"]
    status, out, _ = run("plan", model, "--tier", "avx2", "--explain")
    assert status == 0 and "decisions, costs modelled" in out and "2 times: attention_of_few; cheapest" in out


@here
@pytest.mark.req("K034", "K035")
def test_savings_are_counted_by_both_runs(run: Any, model: Path) -> None:
    record = _json(run, "plan", model, "--savings", "--run", "--threads", 2)
    assert record["savings_counted"] == {"ledger": record["savings"], "same_bits": True}
    assert record["counted"] == record["predicted"] and record["savings"]["launches"]["removed"] > 0
    status, out, _ = run("plan", model, "--savings", "--run", "--threads", 2)
    assert status == 0 and "counted, one run: equal to the prediction" in out
    assert "their counters say the same, their results are equal in every bit" in out


def test_code_shows_width_and_spills(run: Any, model: Path) -> None:
    """What the compiler makes of each kernel: another tier is other code of another width."""
    asked = ("plan", model, "--code", "--cut", "head", "--tier")
    found = {tier: _json(run, *asked, tier)["code"] for tier in ("sse2", "avx512-vnni")}
    for narrow, wide in zip(*found.values(), strict=True):
        assert (narrow["kernel"], narrow["arguments"]) == (wide["kernel"], wide["arguments"])
        assert (narrow["vector_bits"], wide["vector_bits"]) == (128, 512)
    (narrow, *_), (wide, *_) = ([each for each in code if each["kernel"] == "matvec"] for code in found.values())
    assert narrow["instructions"] > wide["instructions"] > 0 and narrow["stores"] >= wide["stores"]
    status, out, _ = run(*asked, "avx2")
    assert status == 0 and "machine code" in out and "spills  reloads" in out


def test_without_fusing(run: Any, model: Path) -> None:
    fused, single = (_json(run, "plan", model, "--tier", "avx2", *more) for more in ((), ("--no-fuse",)))
    assert fused["fused"] and not single["fused"]
    assert len(single["regions"]) > len(fused["regions"]) and all(
        len(region["covers"]) == 1 for region in single["regions"] if region["rule"] not in ("greedy", "watch")
    )
    assert single["predicted"]["macs"] == fused["predicted"]["macs"]


@pytest.mark.req("K057", "K058")
def test_compare_drops_one_fact_at_a_time(run: Any, model: Path) -> None:
    record = _json(run, "compare", model, "--tier", "avx2")
    assert [each["fact"] for each in record["facts"]] == list(NAMES)
    status, out, err = run("compare", model, "--tier", "avx2")
    assert (status, err) == (0, "") and all(f"\n  {name} " in out for name in NAMES)
    status, out, _ = run("compare", model, "--tier", "avx2", "--ablate", "tokens", "--threads", 1)
    assert status == 0 and "matvec (split)\n   -> product: matmul (split)" in out
    status, out, _ = run("compare", model, "--tier", "avx2", "--ablate", "last")
    assert status == 0 and "no decision changes" in out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", "MODEL", "--tokens", "0"), "U111"),
        (("plan", "MODEL", "--tokens", "some"), "U111"),
        (("plan", "MODEL", "--cut", "layer"), "U111"),
        (("plan", "MODEL", "--cut", "step", "--tokens", "4"), "U111"),
        (("plan", "MODEL", "--savings", "--no-fuse"), "U111"),
        (("plan", "MODEL", "--chip", "vm"), "P104"),
        (("plan", "MODEL", "--tier", "avx1024"), "R162"),
        (("plan", "MODEL", "--tokens", "16", "--depth", "510", "--tier", "sse2"), "P105"),
        (("plan", "nothing"), "U112"),
        (("compare", "MODEL", "--ablate", "owner"), "P103"),
    ],
)
def test_refusals(run: Any, model: Path, arguments: tuple[str, ...], code: str) -> None:
    status, out, err = run(*(model if each == "MODEL" else each for each in arguments), "--json")
    assert status == 1 and json.loads(out)["error"]["code"] == code and f"error[{code}]" in err
