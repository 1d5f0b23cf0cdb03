"""Bring-up of an encoder and `bittern embed`, on the tiny recorded checkpoint with a tokenizer beside it."""

import json
import shutil
from pathlib import Path

import family_files as f
import numpy as np
import pytest
from test_bringup import SCHEMA, faults

import bittern
from bittern.base.errors import BitternError
from bittern.chips.chip import chip, chip_names
from bittern.cli import main
from bittern.graph.keg import read_keg
from bittern.runtime.encoder_bringup import bring_up_encoder, cosine

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "man", "eats", "food", "##s", "dog", "the", "sleep")
TOKENS = [2, 5, 7, 9, 3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The golden encoder with a tokenizer of a few words."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    path = tmp_path / "tiny"
    shutil.copytree(f.GOLDEN / "bert", path)
    backend = Tokenizer(models.WordPiece({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    backend.decoder = decoders.WordPiece()
    backend.add_special_tokens(list(WORDS[:4]))
    backend.save(str(path / "tokenizer.json"))
    return path


@pytest.mark.req("L04", "L05")
def test_report(folder: Path, tmp_path: Path) -> None:
    report = bring_up_encoder(folder, prompt="The dogs sleep", out=tmp_path / "out")
    found = json.loads(json.dumps(report.as_json()))
    assert not list(faults(found, SCHEMA["$defs"]["encoder"]))
    assert found["tokens_prompt"] == [2, 10, 9, 8, 11, 3]
    assert [row["chip"] for row in found["chips"]] == chip_names()
    by_name = {row["chip"]: row for row in found["chips"]}
    assert by_name["reference"]["cosine"] == pytest.approx(1) and by_name["reference"]["error"] == 0
    assert by_name["vm"]["cosine"] > 1 - 1e-9 and 0 < by_name["vm"]["error"] < 1e-5
    text = report.as_text()
    assert "family bert" in text and "cosine with the reference 1.000000000" in text and "one vector by `mean`" in text


@pytest.mark.req("L01", "L02")
def test_files(folder: Path, tmp_path: Path) -> None:
    reports = [bring_up_encoder(folder, tokens=TOKENS, out=tmp_path / name) for name in ("a", "b")]
    homes = [tmp_path / name / "tiny" for name in ("a", "b")]
    assert sorted(path.name for path in homes[0].iterdir()) == ["bert.btn", "bert.keg", "report.json"]
    for path in homes[0].iterdir():
        assert path.read_bytes() == (homes[1] / path.name).read_bytes(), path.name
    assert "fn encode" in (homes[0] / "bert.btn").read_text() and reports[0].prompt is None
    assert set(read_keg(homes[0] / "bert.keg").functions) == {"encode", "mean", "pool"}
    assert json.loads((homes[0] / "report.json").read_text())["graph"] == reports[0].graph


@pytest.mark.parametrize("pooling", ["mean", "pool", "first"])
def test_poolings(pooling: str, folder: Path) -> None:
    report = bring_up_encoder(folder, tokens=TOKENS, pooling=pooling, chips=["reference"])
    with bittern.load_encoder(folder, chip="reference") as encoder:
        assert report.norm == pytest.approx(float(np.linalg.norm(encoder.embed(TOKENS, pooling))))


def test_failures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, code in (
        ({"tokens": []}, "R103"),
        ({"tokens": [999]}, "R104"),
        ({"tokens": [1] * 65}, "R117"),
        ({"tokens": TOKENS, "pooling": "meen"}, "R118"),
        ({"tokens": TOKENS, "chips": ["no"]}, "R101"),
        ({"tokens": TOKENS, "library": [folder / "no"]}, "R112"),
    ):
        with pytest.raises(BitternError) as caught:
            bring_up_encoder(folder, **given)
        assert caught.value.code == code, given
    with pytest.raises(BitternError) as caught:
        bring_up_encoder(f.GOLDEN / "llama", tokens=TOKENS)
    assert caught.value.code == "M116"


def test_a_chip_that_runs_no_encoders_is_a_refusal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bittern.runtime.encoder._chip", lambda name: object() if name == "vm" else chip(name))
    report = bring_up_encoder(folder, tokens=TOKENS, chips=["vm"])
    assert report.chips[0].status == "refused" and report.chips[0].refusal is not None
    assert report.chips[0].refusal.code == "R119" and "R119" in report.as_text()
    assert not list(faults(json.loads(json.dumps(report.as_json())), SCHEMA["$defs"]["encoder"]))


def test_the_command_brings_up_what_there_is(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bringup", str(folder), "--prompt", "a man", "--json"]) == 0
    assert not list(faults(json.loads(capsys.readouterr().out), SCHEMA["$defs"]["encoder"]))
    assert main(["bringup", str(folder), "--tokens", "1,2,3", "-q"]) == 0
    assert "given as ids, 3 tokens" in capsys.readouterr().out
    assert main(["generate", "-m", str(folder), "-p", "a", "-q"]) == 1
    assert "bittern embed" in capsys.readouterr().err


def test_embed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["a man eats", "the dog sleeps", "a man eats"]
    assert main(["embed", str(folder), *texts, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["texts"] == texts and len(found["vectors"]) == 3 and len(found["vectors"][0]) == 32
    assert found["cosine"][0][2] == pytest.approx(1) and found["cosine"][0][1] < 0.999
    with bittern.load_encoder(folder) as encoder:
        assert np.array_equal(np.float32(found["vectors"][0]), encoder.embed(texts[0]))
    assert main(["embed", str(folder), *texts]) == 0
    assert "1.0000" in (out := capsys.readouterr().out) and "the dog sleeps" in out
    assert main(["embed", str(folder), texts[0], "--pooling", "pool", "--chip", "reference"]) == 0
    assert "32 values" in capsys.readouterr().out
    assert main(["embed", str(folder), "a", "--pooling", "meen"]) == 1
    assert "U111" in capsys.readouterr().err


def test_cosine_of_nothing() -> None:
    assert cosine(np.zeros(3), np.ones(3)) == 0
    assert cosine(np.float32([1, 0]), np.float32([0, 2])) == 0 and cosine(np.ones(2), np.float32([3, 3])) == 1
