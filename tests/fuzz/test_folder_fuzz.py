"""Mutated Hugging Face folders: configuration, index, tokenizer settings, weights. A refusal by code, or a model.

By hand: `python tests/fuzz/test_folder_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import json
import random
import sys
import tempfile
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import family_files
import fuzzing
import hostile

from bittern.front.bind import bind_checkpoint
from bittern.front.huggingface import open_folder
from bittern.runtime.model import tokenizer_of

SECONDS = 2.0  # of processor time, for one folder: binding elaborates the program of the family
_SPARE = (
    "gelu",
    "silu",
    "yarn",
    "default",
    "../x.safetensors",
    "model.safetensors",
    ["full_attention"],
    {"rope_type": "linear"},
)
_FOLDERS = {
    name: {
        path.name: path.read_bytes()
        for path in (family_files.GOLDEN / name).iterdir()
        if not path.name.startswith("oracle")
    }
    for name in ("llama", "llama3", "gemma3", "gpt2", "bert", "bitnet", "qwen3moe", "phi3")
}


def case(seed: int, number: int) -> dict[str, bytes]:
    """Return a mutated folder; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    files = dict(_FOLDERS[chance.choice(sorted(_FOLDERS))])
    if chance.random() < 0.3:
        files["tokenizer.json"] = json.dumps(hostile.TOKENIZER).encode()
        files["tokenizer_config.json"] = (
            b'{"bos_token": "a", "chat_template": "{{ messages }}", "eos_token": {"content": "b"}}'
        )
    for _ in range(chance.choice((1, 1, 2))):
        texts = [name for name in files if name.endswith(".json")]
        name = chance.choice([*texts, *texts, *files])
        if name.endswith(".json") and chance.random() < 0.8:
            try:
                files[name] = json.dumps(fuzzing.mutated_json(chance, json.loads(files[name]), _SPARE)).encode()
            except ValueError:
                continue
        else:
            files[name] = fuzzing.mutated_bytes(chance, files[name])
    return files


def judge(files: dict[str, bytes]) -> str:
    """Open and bind a folder; return its outcome."""

    def read() -> None:
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                (Path(folder) / name).write_bytes(data)
            with open_folder(Path(folder)) as checkpoint:
                tokenizer_of(checkpoint, None)
                bind_checkpoint(checkpoint, hostile.LIBRARY)

    return fuzzing.outcome_of(read, SECONDS)


def test_mutated_folders() -> None:
    """EDGE_CASES E5, E7: nothing in a folder leads out of it, and nothing in it is run."""
    outcomes = fuzzing.run(2.0, fuzzing.fresh_seed(), case, judge)
    assert len(outcomes) > 3, outcomes


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
