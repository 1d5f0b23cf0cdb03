"""How long the whole suite takes: `make test` on two cores, without setting up."""

import os
import subprocess
from pathlib import Path
from time import perf_counter

from figures import CannotMeasureError, Figure

_ROOT = Path(__file__).resolve().parent.parent


def _minutes() -> float:
    start = perf_counter()
    done = subprocess.run(["make", "--no-print-directory", "test"], cwd=_ROOT, capture_output=True, text=True)
    if done.returncode:
        last = (done.stdout.strip() or done.stderr.strip() or "it failed without a word").splitlines()[-1]
        raise CannotMeasureError(f"the suite fails: {last}")
    if (os.cpu_count() or 1) < 2:
        raise CannotMeasureError("the bound is one for two cores")
    return (perf_counter() - start) / 60


FIGURES = (Figure("make test", "min", _minutes, at_most=8, repeats=1, is_long=True),)
