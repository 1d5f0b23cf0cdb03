"""Mutated TFLite files: a refusal by code or a network, never anything else, in bounded time.

Run about two seconds in the tests; any time by hand, with counts at the end:

    python tests/fuzz/test_tflite_fuzz.py SECONDS [SEED]

A mutation changes, cuts, repeats or drops bytes, or puts a telling number in a word of 1, 2, 4 or 8 bytes.
"""

import random
import struct
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT.parent)]

import fuzzing  # noqa: E402

from bittern.front.tflite import flatbuffer  # noqa: E402
from bittern.front.tflite.importer import network_of  # noqa: E402
from bittern.front.tflite.schema import parse_model  # noqa: E402
from bittern.lang.library import Library  # noqa: E402

SECONDS = 1.0  # of processor time for one file; most take a few milliseconds

with np.load(ROOT / "golden" / "tflite" / "operators.npz") as _FILE:
    _SEEDS = {name: _FILE[name].tobytes() for name in _FILE.files if name.endswith("/model")}
_NAMES = sorted(_SEEDS)
_SMALL = (*range(12), 16, 64, 127, 128, 254)
_WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def case(seed: int, number: int) -> bytes:
    """Return a mutated file; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    data = bytearray(_SEEDS[chance.choice(_NAMES)])
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        width = chance.choice((1, 2, 4, 4, 8))
        place = chance.randrange(len(data) // width) * width
        value = chance.choice(_SMALL if chance.random() < 0.7 else fuzzing.NUMBERS) & (1 << 8 * width) - 1
        struct.pack_into(f"<{_WIDTHS[width]}", data, place, value)
    made = bytes(data)
    return fuzzing.mutated_bytes(chance, made) if chance.random() < 0.2 else made


def judge(data: bytes) -> str:
    """Read a file and make its network; return its outcome."""
    library = _library()

    def read() -> None:
        network_of(parse_model(data, "fuzz"), library, keep_state=len(data) % 2 == 0)

    outcome = fuzzing.outcome_of(read, SECONDS)
    assert outcome == "accepted" or "N300" < outcome < "N330", outcome
    return outcome


@cache
def _library() -> Library:
    return Library.standard()


def test_mutated_files() -> None:
    """EDGE_CASES E1, E2."""
    outcomes = fuzzing.run(2.0, fuzzing.fresh_seed(), case, judge)
    assert outcomes["accepted"] and len(outcomes) > 4, outcomes


def test_a_reader_without_a_check_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a reader that does not look where it reads ends in another way than a refusal."""
    monkeypatch.setattr(flatbuffer.Bytes, "need", lambda *_: None)
    with pytest.raises(AssertionError, match="case .* of seed 1"):
        fuzzing.run(30.0, 1, case, judge)


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
