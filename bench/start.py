"""How long Bittern takes to start, and how much memory it takes to run: whole processes, from their start.

A second start finds what the first one kept: digests, code, plans. Python's own bytecode is kept too, as an installed
package has it.
"""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from time import perf_counter

from figures import CannotMeasureError, Figure
from generation import model_path
from ternary_model import main as write_ternary

_TOKEN = ("-m", "bittern", "generate", "-p", "The capital of France is", "-n", "1", "--quiet", "-m")
_MEMORY = """
import sys
from math import prod
from pathlib import Path
import numpy as np
from bittern.runtime.binding import bound_model
from bittern.runtime.choice import prepared
from bittern.runtime.model import open_checkpoint
from bittern.runtime.store import Store
store, room = Store(Path(sys.argv[2])), (1, 1, 512)
with open_checkpoint(Path(sys.argv[1]), store) as checkpoint:
    bound = bound_model(checkpoint, "f16", (), store)
    model = prepared(bound, "x86", cache=store.root)[1]
    place = np.arange(5, dtype=np.uint32)
    session = model.start(room[-1])
    session.likeliest(place, np.zeros(5, np.uint32), place)
    session.greedy(range(6), 4)
    cache = sum(prod(size.value(room) for size in leaf.shape) * leaf.element.bits // 8 for leaf in bound.outline.leaves)
    known = checkpoint.size + model.weights.packed_bytes + cache
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024 - known)
"""


def _seconds(*arguments: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return perf_counter() - start


def _milliseconds(*arguments: str) -> float:
    return 1000 * _seconds(*arguments)


@cache
def _home() -> "tempfile.TemporaryDirectory[str]":
    """Return a folder for what is kept between starts; it lives as long as this process."""
    return tempfile.TemporaryDirectory()


def _environment() -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    home = _home().name
    return {**given, "BITTERN_HOME": home, "PYTHONPYCACHEPREFIX": f"{home}/bytecode", "OPENBLAS_NUM_THREADS": "1"}


def _run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=_environment())
    if done.returncode:
        raise CannotMeasureError((done.stderr.strip().splitlines() or ["it failed without a word"])[-1])
    return done.stdout


@cache
def _first_start(path: str) -> None:
    _run(*_TOKEN, path)


def _second_start() -> float:
    """Return the seconds from the start of a process to the end of it, one token later."""
    path = model_path()
    _first_start(path)
    start = perf_counter()
    _run(*_TOKEN, path)
    return perf_counter() - start


def _above(path: str) -> float:
    """Return the MB that a process takes at most above file, repacked weights and cache."""
    if not Path("/proc/self/status").exists():
        raise CannotMeasureError("this system does not tell the peak of a process")
    return float(_run("-c", _MEMORY, path, _home().name)) / 1e6


@cache
def _ternary() -> str:
    path = f"{_home().name}/ternary.gguf"
    write_ternary([path, "--layers", "3"])
    return path


FIGURES = (
    Figure("python itself", "ms", lambda: _milliseconds("-c", "pass"), repeats=11),
    Figure("import bittern", "ms", lambda: _milliseconds("-c", "import bittern"), at_most=150, repeats=11),
    Figure("bittern --help", "ms", lambda: _milliseconds("-m", "bittern", "--help"), at_most=150, repeats=11),
    Figure("bittern pull --help", "ms", lambda: _milliseconds("-m", "bittern", "pull", "--help"), repeats=11),
    Figure("first token, second start", "s", _second_start, at_most=0.5, repeats=11),
    Figure("peak memory above file, weights and cache", "MB", lambda: _above(model_path()), at_most=100, repeats=3),
    Figure("the same of a ternary model", "MB", lambda: _above(_ternary()), at_most=100, repeats=3),
)
