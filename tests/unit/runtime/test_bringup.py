"""Bring-up on tiny checkpoints: the report, the files, refusals, and that the model really is its program."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models

import bittern
from bittern.base.errors import BitternError
from bittern.chips.chip import Refusal, chip_names
from bittern.runtime.bringup import agreeing, bring_up, mismatch
from bittern.runtime.report import ChipReport, Forced, Mismatch

ROOT = Path(bittern.__file__).parent
SCHEMA = json.loads((ROOT.parent / "docs" / "report.schema.json").read_text("utf-8"))


def faults(value: object, schema: dict[str, Any], place: str = "$") -> Iterator[str]:
    """Yield where a value is not what a JSON schema says: of type, enum, properties, required, items, $ref, anyOf."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        tried = [list(faults(value, option, place)) for option in schema["anyOf"]]
        if all(tried):
            yield min(tried, key=len)[0]
        return
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "null": type(None)}
    named = schema.get("type", [])
    allowed = [kinds[name] for name in ([named] if isinstance(named, str) else named)]
    if allowed and (isinstance(value, bool) or not any(isinstance(value, kind) for kind in allowed)):
        yield f"{place}: {value!r} is no {named}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{place}: {value!r} is not {schema['pattern']}"
    if isinstance(value, dict):
        rows = schema.get("properties", {})
        yield from (f"{place}: no {key}" for key in schema.get("required", ()) if key not in value)
        for key, item in value.items():
            if key in rows or isinstance(schema.get("additionalProperties"), dict):
                yield from faults(item, rows.get(key) or schema["additionalProperties"], f"{place}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{place}: {key} is not in the schema"
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from faults(item, schema.get("items", {}), f"{place}[{number}]")


@pytest.mark.req("L04", "L05")
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_report(family: str, tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, getattr(tiny_models, family)())
    report = bring_up(path, tokens=[1, 2, 3], count=6, out=tmp_path / "out")
    found = json.loads(json.dumps(report.as_json()))
    assert not list(faults(found, SCHEMA))
    assert found["model"]["family"] == family
    assert found["tokens_prompt"] == [1, 2, 3]
    assert [chip["chip"] for chip in found["chips"]] == chip_names()
    for chip in found["chips"]:
        assert chip["status"] == "ran" and chip["mode"] == "hardware"
        assert len(chip["tokens"]) == chip["of"] == 6
        assert chip["tokens_per_second"] > 0
        assert len(chip["logits_sha256"]) == 64
    assert found["chips"][0]["agree"] == 6 and found["chips"][0]["mismatch"] is None
    assert "reference:f64  ran on hardware" in report.as_text()


@pytest.mark.req("L01", "L02")
def test_files(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama())
    report = bring_up(path, tokens=[1, 2], count=2, chips=["reference"], out=tmp_path / "out")
    folder = tmp_path / "out" / "tiny"
    assert sorted(p.name for p in folder.iterdir()) == ["llama.btn", "llama.keg", "report.json"]
    assert "fn forward" in (folder / "llama.btn").read_text()
    assert json.loads((folder / "report.json").read_text())["graph"] == report.graph
    assert {cut["name"] for cut in report.cuts} == {"decode_step", "prefill_chunk", "head"}
    assert len({cut["id"] for cut in report.cuts}) == 3
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    bring_up(path, tokens=[1, 2], count=2, chips=["reference"], out=tmp_path / "out")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


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
    assert vm.forced is not None and vm.forced.agree >= 3, report.as_text()
    assert all(miss.logit_diff < 0.2 for miss in vm.forced.misses)


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
    assert report.model["family"] == "toy" and "family toy" in report.as_text()
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

    from bittern.runtime import origin

    path = tiny_models.save(tmp_path, tiny_models.llama())
    row = replace(next(iter(origin.PINNED.values())), name="tiny", size=path.stat().st_size)
    monkeypatch.setitem(origin.PINNED, "tiny", row)
    report = bring_up(path, tokens=[1], count=1, chips=["reference"])
    assert len(report.warnings) == 1 and "`tiny`" in report.warnings[0] and row.sha256 in report.warnings[0]
    assert report.as_json()["warnings"] == report.warnings and report.warnings[0] in report.as_text()
    right = replace(row, sha256=report.source["sha256"])
    monkeypatch.setitem(origin.PINNED, "tiny", right)
    report = bring_up(path, tokens=[1], count=1, chips=["reference"])
    assert not report.warnings and report.source["pinned"] == "tiny"


def test_a_model_of_the_store_that_was_changed(tmp_path: Path) -> None:
    from bittern.runtime.store import Entry, Store

    store = Store(tmp_path / "store")
    data = tiny_models.llama()
    complete = tiny_models.save(store.folder("tmp"), data)
    entry = store.adopt(complete, Entry("mine", complete, len(data), "ab" * 32, "Free"))
    report = bring_up(entry.path, tokens=[1], count=1, chips=["reference"], store=store, out=tmp_path / "out")
    assert len(report.warnings) == 1 and "`mine`" in report.warnings[0]
    assert [folder.name for folder in (tmp_path / "out").iterdir()] == ["mine"], "not the digest that names the file"


def test_mismatch_tells_a_tie_from_a_bug() -> None:
    import numpy as np

    reference = np.array([1.0, 3.0, 2.9, 0.0], np.float32)
    tie = np.array([1.0, 2.95, 2.96, 0.0], np.float32)
    found = mismatch(4, tie, reference)
    assert isinstance(found, Mismatch)
    assert (found.at, found.rank) == (4, 2) and abs(found.margin - 0.1) < 1e-6
    assert found.logit_diff == found.margin and found.error < 0.1
    bug = np.array([1.0, -3.0, 0.0, 9.0], np.float32)
    found = mismatch(4, bug, reference)
    assert found.rank == 4 and found.logit_diff == 3.0 and found.error == 9.0
    unknown = np.array([1.0, 3.0, 2.9, np.nan], np.float32)
    assert mismatch(0, bug, unknown).rank == 4, "NaN counts as the least"


class Odd:
    """A chip that lowers nothing: it refuses, or it runs the strict program with a planted fault."""

    name, tier, mode, is_strict = "odd", "none", "model", False

    def __init__(self, fault: float | None) -> None:
        self.fault = fault

    def load(self, model: Any) -> Any:
        """Refuse, or plant the fault in the head."""
        from bittern.chips.vm.chip import CHIP

        if self.fault is None:
            raise BitternError("R109", "It has no room.", "Buy some.")
        loaded, fault = CHIP.load(model), self.fault

        class Session:
            """A session whose logit of token 0 is off."""

            def __init__(self, inner: Any) -> None:
                self.inner, self.forward = inner, inner.forward

            def logits(self, hidden: Any) -> Any:
                found = self.inner.logits(hidden).copy()
                found[:, 0] += fault
                return found

        class Loaded:
            artifact = None

            def start(self, context: int, sequences: int = 1) -> Any:
                return Session(loaded.start(context, sequences))

        return Loaded()


def plant(monkeypatch: pytest.MonkeyPatch, odd: Odd) -> None:
    """Make the planted chip one that is known."""
    from bittern.runtime import bringup

    plain = bringup.chip
    monkeypatch.setattr(bringup, "chip_names", lambda: ["reference", "vm", "odd"])
    monkeypatch.setattr(bringup, "chip", lambda name: odd if name == "odd" else plain(name))


def test_logits_that_are_not_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chips that agree on NaN agree on nothing, so the report says so; and there is one NaN in digests."""
    import numpy as np

    from bittern.runtime import bringup

    plain = bringup.chip
    odd = {"reference": Odd(float("nan")), "vm": Odd(-float("nan"))}
    monkeypatch.setattr(bringup, "chip", lambda name: odd.get(name) or plain(name))
    report = bring_up(tiny_models.save(tmp_path, tiny_models.llama()), tokens=[1], count=2, chips=["vm"])
    assert any("NaN" in warning for warning in report.warnings)
    assert len({row.logits_sha256 for row in report.chips}) == 1
    strange = np.array([0x7FC00001, 0xFFC00000], np.uint32).view(np.float32)
    assert bringup._canonical(strange).tobytes() == bytes.fromhex("0000c07f" * 2)


@pytest.mark.req("L03", "L09")
def test_a_chip_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Odd(None))
    path = tiny_models.save(tmp_path, tiny_models.llama())
    report = bring_up(path, tokens=[1], count=2)
    assert [chip.status for chip in report.chips] == ["ran", "ran", "refused"]
    assert report.chips[2].refusal == Refusal("R109", "It has no room.", "Buy some.")
    found = json.loads(json.dumps(report.as_json()))
    assert not list(faults(found, SCHEMA))
    assert found["chips"][2]["refusal"] == {"code": "R109", "what": "It has no room.", "remedy": "Buy some."}
    assert "odd:none  refused  R109: It has no room.\n  Buy some." in report.as_text()


@pytest.mark.req("L07")
def test_a_chip_with_a_fault_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, Odd(100.0))
    path = tiny_models.save(tmp_path, tiny_models.llama())
    report = bring_up(path, tokens=[1, 2], count=4, chips=["odd", "vm"])
    odd, vm = report.chips
    assert odd.agree == 0 and odd.tokens == (0, 0, 0, 0)
    assert odd.mismatch is not None and odd.mismatch.at == 0 and odd.mismatch.error > 99
    assert odd.mismatch.rank > 2 and odd.forced is not None and odd.forced.agree == 0
    assert [miss.at for miss in odd.forced.misses] == [0, 1, 2, 3]
    assert odd.logits_sha256 != vm.logits_sha256
    assert not list(faults(json.loads(json.dumps(report.as_json())), SCHEMA))
    text = report.as_text()
    assert "leaves the reference at token 0" in text and "misses token 3" in text


def test_forced_agreement_is_counted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chip that errs once leaves the reference for good, but agrees wherever it is fed the reference's tokens."""
    path = tiny_models.save(tmp_path, tiny_models.llama())
    plain = bring_up(path, tokens=[1, 2], count=6, chips=["reference"]).reference.tokens
    other = (plain[2] + 1) % 100

    class Once(Odd):
        def load(self, model: Any) -> Any:
            loaded = super().load(model)
            calls = {"logits": 0}
            start = loaded.start

            def once(context: int, sequences: int = 1) -> Any:
                session = start(context, sequences)
                true = session.logits

                def logits(hidden: Any) -> Any:
                    found = true(hidden)
                    calls["logits"] += 1
                    if calls["logits"] == 2 + 3:  # two calls warm it up
                        found[:, other] = found.max() + 1
                    return found

                session.logits = logits
                return session

            loaded.start = once
            return loaded

    plant(monkeypatch, Once(0.0))
    report = bring_up(path, tokens=[1, 2], count=6, chips=["odd", "vm"])
    odd, vm = report.chips
    assert vm.agree == 6 and vm.mismatch is None
    assert odd.agree == 2 and odd.tokens[2] == other
    assert odd.mismatch is not None and odd.mismatch.at == 2
    assert odd.forced == Forced(6, 6)


def test_lowered_is_shown() -> None:
    from bittern.runtime.report import _chip

    lines = _chip(ChipReport("fpga", "board", "lowered", "model", 4, artifact={"name": "x"}))
    assert lines == ["fpga:board  lowered on model"]
