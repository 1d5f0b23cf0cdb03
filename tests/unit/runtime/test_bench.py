"""`bittern bench` on tiny models: what is timed, and that figures are what they say."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median

import family_files as f
import numpy as np
import pytest
import tiny_models

from bittern.base.errors import BitternError
from bittern.chips.chip import chip
from bittern.cli import main
from bittern.front.checkpoint import Checkpoint
from bittern.runtime import bench
from bittern.runtime.bench import Series, measure, open_bench, read_speed, use_threads, weights_of
from bittern.runtime.binding import bound_model
from bittern.runtime.model import open_checkpoint


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny Llama."""
    return tiny_models.save(tmp_path, tiny_models.llama())


@pytest.fixture(autouse=True)
def _small_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_PROBE", 1 << 20)


def test_report(model: Path) -> None:
    report = measure(model, chip="vm", prompt=6, count=3, depth=2, repeats=4)
    found = json.loads(json.dumps(report.as_json()))
    assert (found["chip"], found["prompt"], found["count"], found["depth"], found["cache"]) == ("vm", 6, 3, 2, "f16")
    for name in ("prompt_tokens_per_second", "tokens_per_second", "first_token_seconds"):
        values = found[name]["values"]
        assert len(values) == 4 and found[name]["median"] == median(values) and found[name]["least"] == min(values)
    assert np.allclose(
        6 / np.array(found["first_token_seconds"]["values"]), found["prompt_tokens_per_second"]["values"]
    )
    expected = found["weight_bytes_per_token"] * found["tokens_per_second"]["median"]
    assert found["fraction_of_read_speed"] == pytest.approx(expected / found["read_bytes_per_second"]["median"])
    assert found["load_seconds"] > 0 and found["build_seconds"] >= 0
    assert found["source"]["sha256"] and found["machine"]["cores"] and "sha256_origin" not in found["source"]
    text = report.as_text()
    assert "6 tokens" in text and "3 tokens after 2" in text and "GB/s" in text


def test_runs_start_afresh(model: Path) -> None:
    """What is timed is the same computation each time: a session that is used again gives the same tokens."""
    made: list[list[int]] = []
    with open_bench(model, chip="vm") as ready:
        session = ready._session(9)
        original = session.forward

        def watched(token: object, sequence: object, position: object) -> object:
            made[-1] += np.asarray(token).tolist() + np.asarray(position).tolist()
            return original(token, sequence, position)

        session.forward = watched  # type: ignore[method-assign]
        for count, depth in ((4, 5), (4, 5), (7, 2), (4, 5)):
            made.append([])
            ready.tokens(count, depth)
    assert len(made[0]) == len(made[1]) + 2 * 5, "what lies before is run once"
    assert made[0][10:] == made[1] and made[3] == made[0], "a shorter one before it has overwritten the end"


class Alone:
    """A session that makes tokens by itself, fewer at a time than it is asked for."""

    context = 100
    sequences = 1

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def forward(self, token: object, sequence: object, position: object) -> object:
        """Run nothing."""
        return np.zeros((np.asarray(token).size, 4), np.float32)

    def logits(self, hidden: object) -> object:
        """Give no logits."""
        return np.zeros((len(np.asarray(hidden)), 8), np.float32)

    def greedy(self, tokens: list[int], count: int, stops: object = ()) -> list[int]:
        """Make three tokens at most."""
        self.asked.append((len(tokens), count))
        return [1] * min(count, 3)


def test_sessions_that_make_tokens_by_themselves_do(model: Path) -> None:
    with open_bench(model, chip="vm") as ready:
        alone = Alone()
        ready._sessions[12] = alone  # type: ignore[assignment]
        ready.tokens(8, 4)
    assert alone.asked == [(5, 8), (8, 5), (11, 2)]


def test_weights_of_a_step(model: Path) -> None:
    def bytes_read(
        path: Path, change: Callable[[Checkpoint], None] = lambda checkpoint: None
    ) -> tuple[int, Checkpoint]:
        with open_checkpoint(path, None) as checkpoint:
            return weights_of(bound_model(checkpoint, "f32")), checkpoint

    found, checkpoint = bytes_read(model)
    total = sum(info.size for info in checkpoint.tensors.values())
    tied = "output.weight" not in checkpoint.tensors
    embedding = checkpoint.tensors["token_embd.weight"]
    assert found == total if tied else found == total - embedding.size + embedding.size // embedding.shape[0]
    found, checkpoint = bytes_read(f.GOLDEN / "qwen3moe")
    experts = sum(info.size for name, info in checkpoint.tensors.items() if "_exps" in name)
    embedding = checkpoint.tensors["token_embd.weight"]
    total = sum(info.size for info in checkpoint.tensors.values())
    assert found == total - experts // 2 - embedding.size + embedding.size // embedding.shape[0], "3 of 6 experts"


def test_failures(model: Path) -> None:
    for given, code in (
        ({"prompt": 0}, "R110"),
        ({"depth": -1}, "R110"),
        ({"repeats": 0}, "R110"),
        ({"chip": "no"}, "R101"),
        ({"tier": "avx512"}, "R115"),
        ({"cache": "f8"}, "R106"),
        ({"threads": 10**6}, "R114"),
    ):
        with pytest.raises(BitternError) as caught:
            measure(model, **{"chip": "vm", "prompt": 2, "count": 1, "repeats": 1, **given})
        assert caught.value.code == code, given
    for path, code in ((f.GOLDEN / "bert", "M115"), (f.GOLDEN / "gpt2", "R117")):
        with pytest.raises(BitternError) as caught:
            measure(path, chip="vm", prompt=2, count=65, repeats=1)
        assert caught.value.code == code


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system does not bind processes to cores")
def test_threads_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.sched_getaffinity(0)
    try:
        assert use_threads(None) == len(allowed) and os.sched_getaffinity(0) == allowed
        assert use_threads(1) == 1 and os.sched_getaffinity(0) == {min(allowed)}
    finally:
        os.sched_setaffinity(0, allowed)
    monkeypatch.delattr(os, "sched_setaffinity")
    with pytest.raises(BitternError, match="does not bind"):
        use_threads(10**6)


def test_the_probe_reads_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for threads in (1, 2):
        assert len(read_speed(threads).values) == 5 and min(read_speed(threads).values) > 1e6


def test_the_command(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", str(model), "--pp", "4", "--tg", "2", "--repeats", "2", "--chip", "reference"]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["tier"] == chip("reference").tier
    assert main([*arguments, "-q"]) == 0
    assert "new tokens" in capsys.readouterr().out
    assert main(["bench", str(model), "--tg", "0"]) == 1
    assert "U111" in capsys.readouterr().err


def test_series() -> None:
    assert Series((3.0, 1.0, 2.0)).as_json() == {
        "median": 2.0,
        "least": 1.0,
        "greatest": 3.0,
        "values": [3.0, 1.0, 2.0],
    }
    assert Series((3.0, 1.0, 2.0)).as_text() == "2 (1 to 3, of 3)"
