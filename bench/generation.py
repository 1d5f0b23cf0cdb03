"""SmolLM2-135M, Q4_1: how long it takes to load, and how fast the chips go. The model must be in the store."""

import json
import os
import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path

from figures import CannotMeasureError, Figure

from bittern.runtime.pinned import PINNED

_LOAD = """
import sys
from pathlib import Path
from time import perf_counter
from bittern.runtime.model import load
from bittern.runtime.store import Store
start = perf_counter()
with load(Path(sys.argv[1]), store=Store(Path(sys.argv[2]))) as model:
    assert len(model.bound.checkpoint.sha256) == 64  # of the whole file; those of all tensors came with binding
    print(perf_counter() - start)
"""


@cache
def model_path() -> str:
    """Return where the model is: in the folder BITTERN_TEST_MODELS, or in the store."""
    folder = os.environ.get("BITTERN_TEST_MODELS")
    for path in sorted(Path(folder).glob("*.gguf")) if folder else ():
        if path.stat().st_size == PINNED["smollm2"].size:
            return str(path)
    done = _bittern("models", "--json")
    for row in json.loads(done.stdout)["models"]:
        if row["name"] == "smollm2" and row["path"]:
            return str(row["path"])
    raise CannotMeasureError("smollm2 is not in the store: run `make pull`")


def _bittern(*arguments: str) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run([sys.executable, "-m", "bittern", *arguments], capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasureError(_fault(done.stderr))
    return done


def _fault(text: str) -> str:
    """Return the line of stderr that says what failed."""
    lines = text.strip().splitlines() or ["it failed without a word"]
    return next((line for line in lines if line.startswith(("error[", "bittern.base.errors"))), lines[-1])


def _load() -> float:
    """Return the seconds in which a new process loads, binds and hashes the file with an empty cache."""
    with tempfile.TemporaryDirectory() as empty:
        command = [sys.executable, "-c", _LOAD, model_path(), empty]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "BITTERN_HOME": empty})
    if done.returncode:
        raise CannotMeasureError(_fault(done.stderr))
    return float(done.stdout)


def _speed(chip: str) -> float:
    """Return the tokens per second of a chip, prompt included, as bring-up reports them."""
    prompt = ("--prompt", "The capital of France is", "-n", "32")
    report = json.loads(_bittern("bringup", model_path(), *prompt, "--chips", chip, "--json").stdout)
    for row in report["chips"]:
        if row["chip"] == chip and row["tokens_per_second"]:
            return float(row["tokens_per_second"])
    raise CannotMeasureError(f"{chip} did not run")


FIGURES = (
    Figure("SmolLM2: load, bind and hash", "s", _load, at_most=1.0),
    Figure("SmolLM2 on vm", "tokens/s", partial(_speed, "vm"), at_least=10, repeats=3),
    Figure("SmolLM2 on reference", "tokens/s", partial(_speed, "reference"), at_least=10, repeats=3),
)
