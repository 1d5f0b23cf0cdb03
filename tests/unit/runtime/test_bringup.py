"""Bring-up on tiny checkpoints: the report, the files, refusals, and that the model really is its program."""

import json
from pathlib import Path

import pytest
import tiny_models

import bittern
from bittern.base.errors import BitternError
from bittern.runtime.bringup import Mismatch, agreeing, bring_up

ROOT = Path(bittern.__file__).parent
KEYS = {
    "source",
    "model",
    "graph",
    "cuts",
    "prompt",
    "tokens_prompt",
    "reference",
    "chips",
    "files",
    "warnings",
    "seconds",
}
CHIP_KEYS = {
    "chip",
    "tier",
    "status",
    "mode",
    "tokens",
    "text",
    "agree",
    "of",
    "mismatch",
    "forced",
    "logits_sha256",
    "tokens_per_second",
    "artifact",
    "refusal",
}


@pytest.mark.req("L04", "L05")
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_report(family: str, tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, getattr(tiny_models, family)())
    report = bring_up(path, tokens=[1, 2, 3], count=6, out=tmp_path / "out")
    found = json.loads(json.dumps(report.as_json()))
    assert set(found) == KEYS
    assert found["model"]["family"] == family
    assert found["tokens_prompt"] == [1, 2, 3]
    assert [chip["chip"] for chip in found["chips"]] == ["reference", "vm"]
    for chip in found["chips"]:
        assert set(chip) >= CHIP_KEYS
        assert chip["status"] == "ran" and chip["mode"] == "hardware"
        assert len(chip["tokens"]) == chip["of"] == 6
        assert chip["tokens_per_second"] > 0
        assert len(chip["logits_sha256"]) == 64
    assert found["chips"][0]["agree"] == 6 and found["chips"][0]["mismatch"] is None
    assert "reference:f64  ran on hardware" in report.as_text()


@pytest.mark.req("L01", "L02")
def test_files(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama())
    report = bring_up(path, tokens=[1], count=2, chips=["reference"], out=tmp_path / "out")
    folder = tmp_path / "out" / "tiny"
    assert sorted(p.name for p in folder.iterdir()) == ["llama.btn", "llama.keg", "report.json"]
    assert "fn forward" in (folder / "llama.btn").read_text()
    assert json.loads((folder / "report.json").read_text())["graph"] == report.graph
    assert {cut["name"] for cut in report.cuts} == {"decode_step", "prefill_chunk", "head"}
    assert len({cut["id"] for cut in report.cuts}) == 3
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix != ".json"}
    bring_up(path, tokens=[1], count=2, chips=["reference"], out=tmp_path / "out")
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix != ".json"} == before


@pytest.mark.req("K008")
def test_one_graph_for_all_chips_and_contexts(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama())
    graphs = {
        bring_up(path, tokens=[1], count=2, chips=[chip], context=context).graph
        for chip in ("reference", "vm")
        for context in (8, 32)
    }
    assert len(graphs) == 1


def test_a_second_run_is_the_same(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.gemma3())
    first, second = (bring_up(path, tokens=[5, 6], count=5) for _ in range(2))
    assert [c.logits_sha256 for c in first.chips] == [c.logits_sha256 for c in second.chips]
    assert [c.tokens for c in first.chips] == [c.tokens for c in second.chips]


@pytest.mark.parametrize("element", sorted(tiny_models.TYPES))
def test_every_format(element: str, tmp_path: Path) -> None:
    """Strict and reference logits are close in every format: the products are those of the decoded weights."""
    shape = tiny_models.Shape(d=256, h=64, ff=256, vocab=64, layers=1)
    path = tiny_models.save(tmp_path, tiny_models.llama(element, shape))
    report = bring_up(path, tokens=[1, 2, 3, 4], count=4, cache="f32")
    vm = report.chips[1]
    assert vm.forced is not None and vm.forced >= 3, report.as_text()
    assert all(miss.logit_diff < 0.2 for miss in vm.misses)


@pytest.mark.req("L01", "L03")
def test_the_model_is_its_program(tmp_path: Path) -> None:
    """A planted edit in `llama.btn` changes the logits; the program is found in a folder, nothing else is touched."""
    path = tiny_models.save(tmp_path, tiny_models.llama())
    plain = bring_up(path, tokens=[1, 2, 3], count=3, chips=["vm"])
    overlay = tmp_path / "programs"
    overlay.mkdir()
    text = (ROOT / "models" / "llama.btn").read_text()
    assert "silu_gate(linear(w.gate, f), linear(w.up, f))" in text
    (overlay / "llama.btn").write_text(text.replace("silu_gate(", "gelu_tanh_gate("))
    edited = bring_up(path, tokens=[1, 2, 3], count=3, chips=["vm"], library=[overlay])
    assert edited.graph != plain.graph
    assert edited.chips[0].logits_sha256 != plain.chips[0].logits_sha256


TOY = """use attention
use products

/// A model of one matrix: the next token's logits are a row of it.
struct Toy[vocab, d, g, h] { embed: weight[vocab, d], head: weight[vocab, d] }

/// token: [t] -> [t, d] f32. The cache stays as it is.
fn forward[t, s, c, e: type, b, layers, vocab, d, g, h](m: &Toy[vocab, d, g, h], token: u32[t], at: &Place[t],
    cache: own Cache[e, layers, s, c, g, h, b]) -> (f32[t, d], own Cache[e, layers, s, c, g, h, b]) {
  (embed(m.embed, token), cache)
}

/// x: [t, d] -> [t, vocab] f32.
fn head[t, vocab, d, g, h](m: &Toy[vocab, d, g, h], x: f32[t, d]) -> f32[t, vocab] {
  linear(m.head, x)
}
"""
TOY_BINDING = '''"""Binding of the toy family."""

from bittern.models.family import Binding, Facts, Weight


def bind(facts: Facts) -> Binding:
    """Return dimensions and fields."""
    d = facts.whole("embedding_length")
    dims = {"layers": 1, "vocab": facts.tensors["token_embd.weight"][0], "d": d, "g": 1, "h": 1}
    return Binding(dims, {"embed": Weight("token_embd.weight"), "head": Weight("output.weight")})
'''


@pytest.mark.req("L03")
def test_a_toy_family_is_two_files(tmp_path: Path) -> None:
    import gguf_files as g
    import numpy as np

    rng = np.random.default_rng(4)
    rows = tuple(
        g.Row(name.encode(), (32, 50), 0, data=rng.standard_normal((50, 32)).astype("<f4").tobytes())
        for name in ("token_embd.weight", "output.weight")
    )
    keys = (g.string("general.architecture", "toy"), g.number("toy.embedding_length", g.U32, 32))
    path = tiny_models.save(tmp_path, g.build(g.File(keys, rows))[0])
    with pytest.raises(BitternError) as caught:
        bring_up(path, tokens=[1], count=2)
    assert caught.value.code == "M101"
    overlay = tmp_path / "families"
    overlay.mkdir()
    (overlay / "toy.btn").write_text(TOY)
    (overlay / "toy.py").write_text(TOY_BINDING)
    report = bring_up(path, tokens=[1], count=8, library=[overlay])
    assert report.model["family"] == "toy"
    assert report.chips[1].agree == 8


def test_refused_inputs(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama())
    cases = [
        ({"tokens": []}, "R103"),
        ({"tokens": [100]}, "R104"),
        ({"tokens": [-1]}, "R104"),
        ({"tokens": [1, 2, 3], "context": 4}, "R102"),
        ({"tokens": [1], "chips": ["vn"]}, "R101"),
        ({"tokens": [1], "chips": []}, "R108"),
        ({"prompt": "words"}, "R107"),
        ({"tokens": [1], "cache": "f8"}, "R106"),
    ]
    for arguments, code in cases:
        with pytest.raises(BitternError) as caught:
            bring_up(path, count=4, out=tmp_path / "out", **arguments)  # type: ignore[arg-type]
        assert caught.value.code == code, arguments
        assert caught.value.what and caught.value.remedy
    assert not (tmp_path / "out").exists(), "something was left behind"


@pytest.mark.req("L07")
def test_agreeing() -> None:
    assert agreeing([1, 2, 3], [1, 2, 3]) == 3
    assert agreeing([1, 2, 3], [1, 4, 3]) == 1
    assert agreeing([], [1]) == 0
    assert agreeing([2], [1]) == 0


def test_a_pinned_model_with_other_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from bittern.runtime import bringup

    path = tiny_models.save(tmp_path, tiny_models.llama())
    row = replace(next(iter(bringup.PINNED.values())), name="tiny", size=path.stat().st_size)
    monkeypatch.setitem(bringup.PINNED, "tiny", row)
    report = bring_up(path, tokens=[1], count=1, chips=["reference"])
    assert len(report.warnings) == 1 and "`tiny`" in report.warnings[0]
    assert report.as_json()["warnings"] == report.warnings


def test_mismatch_tells_a_tie_from_a_bug() -> None:
    import numpy as np

    from bittern.runtime.bringup import _mismatch

    reference = np.array([1.0, 3.0, 2.9, 0.0], np.float32)
    tie = np.array([1.0, 2.95, 2.96, 0.0], np.float32)
    found = _mismatch(4, tie, reference)
    assert isinstance(found, Mismatch)
    assert (found.at, found.rank) == (4, 2) and abs(found.margin - 0.1) < 1e-6
    assert found.logit_diff == found.margin and found.error < 0.1
    bug = np.array([1.0, -3.0, 0.0, 9.0], np.float32)
    found = _mismatch(4, bug, reference)
    assert found.rank == 4 and found.logit_diff == 3.0 and found.error == 9.0
