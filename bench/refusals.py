"""How long and how much memory the worst of the hostile inputs takes until it is refused, in a started process."""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

from figures import CannotMeasureError, Figure

_TESTS = Path(__file__).resolve().parent.parent / "tests"


def _rows() -> list[dict[str, Any]]:
    done = subprocess.run([sys.executable, str(_TESTS / "refusing.py")], capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasureError(f"the rows cannot be run: {(done.stderr.strip() or 'no word').splitlines()[-1]}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    if any(row["code"] != row["expected"] for row in found):
        raise CannotMeasureError("an input is not refused as it should be; the tests say which")
    return found


def _milliseconds() -> float:
    return 1000 * max(float(row["seconds"]) for row in _rows())


@cache
def _spared() -> float:
    """Return the most memory that an input took beyond four times its size, in MiB."""
    found = [row for row in _rows() if row["memory"] is not None]
    if not found:
        raise CannotMeasureError("this system does not tell the peak of memory")
    return max(float(row["memory"] - 4 * row["size"]) for row in found) / (1 << 20)


FIGURES = (
    Figure("refusals, slowest", "ms", _milliseconds, at_most=50, repeats=3),
    Figure("refusals, memory above 4 x file", "MiB", _spared, at_most=64, repeats=1),
)
