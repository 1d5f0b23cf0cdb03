"""Mutated safetensors files: a refusal by code, or what the library of the format reads too; never looser.

By hand: `python tests/fuzz/test_safetensors_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import json
import random
import struct
import sys
import tempfile
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import fuzzing
import pytest

from bittern.front import safetensors_file
from bittern.front.checkpoint import MappedFile
from bittern.front.safetensors_file import read_safetensors

SECONDS = 0.05  # of processor time, for one file
_TYPES = tuple(safetensors_file._DTYPES)
_SIZES = {
    "F64": 8,
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "I64": 8,
    "U64": 8,
    "I32": 4,
    "U32": 4,
    "I16": 2,
    "U16": 2,
    "I8": 1,
    "U8": 1,
}


def case(seed: int, number: int) -> bytes:
    """Return a mutated file; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}} if chance.random() < 0.3 else {}
    end = 0
    for place in range(chance.randrange(4)):
        kind, shape = chance.choice(list(_SIZES)), [chance.randrange(1, 5) for _ in range(chance.randrange(4))]
        size = _SIZES[kind]
        for length in shape:
            size *= length
        header[f"t{place}"] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    if chance.random() < 0.7:
        header = fuzzing.mutated_json(chance, header, [*_TYPES, [0, 4], [4], [2, 2], {"dtype": "U8"}])
    text = json.dumps(header).encode() + b" " * chance.randrange(9)
    data = struct.pack("<Q", len(text)) + text + bytes(end)
    return fuzzing.mutated_bytes(chance, data) if chance.random() < 0.5 else data


def judge(data: bytes) -> str:
    """Read a file; return its outcome. Errors: AssertionError where the library refuses or sees other tensors."""
    found: dict[str, Any] = {}

    def read() -> None:
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as target:
            target.write(data)
            target.flush()
            file = MappedFile(Path(target.name))
            try:
                found.update(read_safetensors(file))
            finally:
                file.close()

    outcome = fuzzing.outcome_of(read, SECONDS)
    assert not outcome.startswith("F1") or outcome == "F104" or "F150" <= outcome <= "F164", outcome
    if outcome == "accepted":
        _judge_accepted(data, found)
    return outcome


def _judge_accepted(data: bytes, found: dict[str, Any]) -> None:
    try:
        import safetensors
    except ImportError:
        return
    read: Any = safetensors.deserialize
    try:
        theirs = {name: (tuple(row["shape"]), bytes(row["data"])) for name, row in read(data)}
    except Exception as fault:
        raise AssertionError(f"accepted, but the library says: {fault}") from fault
    ours = {name: (info.shape, data[info.offset : info.offset + info.size]) for name, info in found.items()}
    assert ours == theirs


def test_mutated_files() -> None:
    """EDGE_CASES E4: never looser than the format's own library."""
    pytest.importorskip("safetensors", reason="the oracle needs `safetensors`")
    outcomes = fuzzing.run(1.0, fuzzing.fresh_seed(), case, judge)
    assert outcomes["accepted"] and len(outcomes) > 8, outcomes


@pytest.mark.parametrize("check", ["_check_place", "_check_metadata"])
def test_a_reader_without_a_check_is_found(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: without the check the fuzzer finds a file that the library refuses."""
    pytest.importorskip("safetensors", reason="the oracle needs `safetensors`")
    monkeypatch.setattr(safetensors_file, check, lambda *_: None)
    with pytest.raises(AssertionError, match="case .* of seed 1"):
        fuzzing.run(30.0, 1, case, judge)


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
