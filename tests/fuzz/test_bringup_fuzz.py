"""The whole way of a mutated checkpoint: `bittern bringup`. It ends by a code, or with a report; nothing is left half.

By hand: `python tests/fuzz/test_bringup_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import contextlib
import io
import json
import random
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import fuzzing
import gguf_files as g
import pytest
import tiny_models

from bittern.base.errors import CODES
from bittern.cli import main

SHAPE = tiny_models.Shape(layers=1, d=32, heads=2, g=1, h=16, ff=32, vocab=259, context=64)
_TEMPLATE = "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
_FILES = {
    name: tiny_models.llama(name, SHAPE, keys=tiny_models.tokenizer(_TEMPLATE))
    for name in ("f32", "f16", "q4_0", "q8_0")
}
_NUMBERS = (0, 1, 2, 3, 255, 2**31, 2**32 - 1, 1e-30, float("nan"), float("inf"), 1e30, "x", "../../x", "")
Case = tuple[str, bytes]


def case(seed: int, number: int) -> Case:
    """Return the name of a mutated checkpoint, and its bytes; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    name = chance.choice(sorted(_FILES))
    if chance.random() < 0.5:
        data = bytearray(_FILES[name])
        place = chance.randrange(len(data) if chance.random() < 0.3 else 9000)
        data[place : place + 1] = bytes([chance.randrange(256)])
        return name, fuzzing.mutated_bytes(chance, bytes(data)) if chance.random() < 0.3 else bytes(data)
    keys: dict[str, object] = {}
    for key in chance.choices(_KEYS, k=chance.choice((1, 1, 2))):
        keys[key] = chance.choice((*_NUMBERS, None, g.number(key, g.I32, -1), g.number(key, g.U64, 2**64 - 1)))
    return name, tiny_models.llama(name, SHAPE, keys=tiny_models.tokenizer(_TEMPLATE) | keys)


_KEYS = (
    *("general.architecture", "general.alignment", "general.name", "general.quantization_version", "general.file_type"),
    *(f"llama.{key}" for key in ("block_count", "context_length", "embedding_length", "feed_forward_length")),
    *(f"llama.attention.{key}" for key in ("head_count", "head_count_kv", "key_length", "value_length", "scale")),
    *(
        "llama.attention.layer_norm_rms_epsilon",
        "llama.rope.freq_base",
        "llama.rope.dimension_count",
        "llama.vocab_size",
    ),
    *("llama.rope.scaling.type", "llama.rope.scaling.factor", "llama.expert_count", "llama.unknown.key"),
    *(f"tokenizer.ggml.{key}" for key in ("model", "pre", "bos_token_id", "eos_token_id", "add_bos_token")),
)


def judge(made: Case) -> str:
    """Bring a checkpoint up; return its outcome. Errors: AssertionError for a half-written folder, or another end."""
    _, data = made
    with tempfile.TemporaryDirectory() as home:
        path, out = Path(home) / "m.gguf", Path(home) / "out"
        path.write_bytes(data)
        stdout, stderr = io.StringIO(), io.StringIO()
        chips = "reference,vm"  # machine code takes seconds to make for each new shape
        command = ["bringup", str(path), "--tokens", "1,2,3", "-n", "2", "--chips", chips, "--out", str(out), "--json"]
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            status = main(command)
        said = json.loads(stdout.getvalue())
        assert "Traceback" not in stderr.getvalue(), stderr.getvalue()
        left = sorted(found.name for found in Path(home).iterdir())
        if status == 0:
            assert (out / "m" / "report.json").exists() or any(out.rglob("*.json")), left
            return "accepted"
        assert status == 1 and said["error"]["code"] in CODES, (status, said)
        assert left == ["m.gguf"], f"{said['error']['code']} left {left}"
        code: str = said["error"]["code"]
        return code


def test_mutated_checkpoints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """EDGE_CASES E1, E2: a hostile file ends the command by a code, and leaves nothing behind."""
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path))
    outcomes = fuzzing.run(3.0, fuzzing.fresh_seed(), case, judge)
    assert outcomes.total() > 0, outcomes


def test_what_is_left_behind_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a command that fails after it began to write."""

    def careless(command: list[str]) -> int:
        Path(command[command.index("--out") + 1]).mkdir()
        print(json.dumps({"error": {"code": "F110", "what": "x", "remedy": "y"}}))
        return 1

    monkeypatch.setattr(sys.modules[__name__], "main", careless)
    with pytest.raises(AssertionError, match="F110 left"):
        judge(case(1, 1))


if __name__ == "__main__":
    import os

    with tempfile.TemporaryDirectory() as store:
        os.environ["BITTERN_HOME"] = store
        fuzzing.main(sys.argv[1:], case, judge)
