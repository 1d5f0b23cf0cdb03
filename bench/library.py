"""How long `bittern check` takes for the whole library and all models: wall time of a whole process."""

import subprocess
import sys
from pathlib import Path
from time import perf_counter

from figures import CannotMeasureError, Figure

_ROOT = Path(__file__).resolve().parent.parent
_FOLDERS = ("bittern/std", "bittern/models")


def _seconds() -> float:
    start = perf_counter()
    done = subprocess.run([sys.executable, "-m", "bittern", "check", *_FOLDERS], cwd=_ROOT, capture_output=True)
    if done.returncode:
        raise CannotMeasureError("the library has errors: `bittern check bittern/std` says which")
    return perf_counter() - start


FIGURES = (Figure("check of the whole library", "s", _seconds, at_most=2, repeats=5),)
