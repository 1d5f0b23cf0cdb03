"""The comparison with peers: only quiet rounds count, ratios are those of a round, and a dead peer ends the run."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tiny_models

ROOT = Path(__file__).resolve().parents[3]
BENCH = ROOT / "bench"


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module bench/peers.py."""
    monkeypatch.syspath_prepend(str(BENCH))
    import peers

    monkeypatch.setattr(sys.modules["quiet"], "wait", lambda seconds: True)
    yield peers
    for name in ("peers", "report", "rounds", "figures", "quiet"):
        sys.modules.pop(name, None)


class Scripted:
    """A peer that answers what it was told to."""

    def __init__(self, *answers: float) -> None:
        self.about = {"name": "scripted", "weights": 1000}
        self.answers = iter(answers)
        self.asked: list[tuple[Any, ...]] = []

    def ask(self, kind: str, count: int = 0, depth: int = 0) -> float:
        """Give the next answer."""
        self.asked.append((kind, count, depth))
        return next(self.answers)

    def used(self) -> float:
        """Say that nothing was used."""
        return 0.0


def test_ratios_are_those_of_a_round(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["quiet"], "now", lambda: None)
    pair = Scripted(9.0, 1.0, 2.0, 4.0, 500.0), Scripted(9.0, 2.0, 2.0, 2.0)
    found = peers.timed(peers.Case("tg", 8), 1, pair, 3)
    assert (found.ours, found.theirs, found.dropped) == ([1.0, 2.0, 4.0], [2.0, 2.0, 2.0], [])
    assert found.ratio == 1.0 and found.read == 500.0
    told = found.as_json()
    assert told["bittern"] == [8.0, 4.0, 2.0] and told["llama"] == [4.0, 4.0, 4.0]
    assert told["ratios"] == [2.0, 1.0, 0.5] and told["name"] == "tg8"
    assert told["fraction_of_read_speed"] == 1000 * 4.0 / 500.0
    assert "ratio 1.000" in found.as_text() and "of 3" in found.as_text()
    assert pair[0].asked[-1] == ("read", 0, 0) and pair[1].asked == [("tg", 8, 0)] * 4


def test_a_disturbed_round_counts_for_neither(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = iter([True, True, True, False, False, True, True, True])
    monkeypatch.setattr(sys.modules["quiet"], "now", lambda: None)
    monkeypatch.setattr(sys.modules["quiet"], "is_quiet", lambda before, after: next(verdicts))
    pair = Scripted(9.0, 1.0, 7.0, 7.0, 1.0, 500.0), Scripted(9.0, 2.0, 7.0, 7.0, 2.0)
    found = peers.timed(peers.Case("pp", 8), 2, pair, 2)
    assert found.ours == [1.0, 1.0] and found.theirs == [2.0, 2.0] and found.dropped == [(7.0, 7.0), (7.0, 7.0)]
    assert "2 dropped" in found.as_text() and found.as_json()["fraction_of_read_speed"] is None


def test_without_a_quiet_round_there_is_no_figure(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["quiet"], "now", lambda: None)
    monkeypatch.setattr(sys.modules["quiet"], "is_quiet", lambda before, after: False)
    found = peers.timed(peers.Case("tg", 8, 4), 1, (Scripted(*[1.0] * 20), Scripted(*[2.0] * 20)), 2)
    assert found.ratio is None and len(found.dropped) == 8 and found.as_json()["ratio"] is None
    assert "no quiet round of 8" in found.as_text() and "tg8@4" in found.as_text()


def test_the_work_of_the_peers_is_our_own(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["quiet"], "now", lambda: sys.modules["quiet"].Moment(1.0, 5.0, 2.0))
    busy = Scripted()
    busy.used = lambda: 3.0  # type: ignore[method-assign]
    assert sys.modules["rounds"].moment_of([busy, Scripted()]).own == 5.0


def test_two_real_processes(peers: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bittern on a tiny model beside a peer that only sleeps."""
    model = tiny_models.save(tmp_path, tiny_models.llama())
    fake = tmp_path / "python"
    fake.write_text(
        f'#!{sys.executable}\nimport sys, time\nprint(\'{{"name": "fake"}}\', flush=True)\n'
        "for line in sys.stdin:\n    time.sleep(0.01)\n    print(0.01, flush=True)\n"
    )
    fake.chmod(0o755)
    peers.CASES = (peers.Case("tg", 4, 2), peers.Case("pp", 6))
    results = tmp_path / "peers.json"
    given = [str(model), "--llama", str(fake), "--chip", "vm", "--rounds", "1", "--threads", "1"]
    assert peers.main([*given, "--json", str(results)]) == 0
    found = json.loads(results.read_text())
    assert [row["name"] for row in found["cases"]] == ["tg4@2", "pp6"]
    assert found["peers"][1]["name"] == "fake" and found["scope"]["cores"] and str(tmp_path) not in found["command"]
    assert all(len(row["bittern"]) == len(row["llama"]) <= 1 for row in found["cases"])
    assert "tg4@2" in capsys.readouterr().out


def test_a_peer_that_dies_is_told(peers: ModuleType) -> None:
    with pytest.raises(SystemExit, match="ended without an answer"):
        peers.Worker(sys.executable, "-c", "pass")


def test_a_peer_must_be_named(peers: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BITTERN_PEERS", raising=False)
    with pytest.raises(SystemExit):
        peers.main(["model.gguf"])
