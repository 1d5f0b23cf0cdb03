"""Measure the figures and print them with what they were measured on; status 1 if a bound is missed."""

import json
import os
import platform
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median

from figures import Figure, Outcome, measured

_FOLDER = Path(__file__).resolve().parent


def figures() -> list[Figure]:
    """Return the figures of all files beside this one that have some."""
    names = sorted(path.stem for path in _FOLDER.glob("*.py") if "\nFIGURES = " in path.read_text("utf-8"))
    return [figure for name in names for figure in import_module(name).FIGURES]


def scope() -> dict[str, object]:
    """Return what the figures hold for: machine, versions, commit."""
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=_FOLDER, capture_output=True, text=True)
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "commit": git.stdout.strip() or "unknown",
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _row(outcome: Outcome) -> str:
    figure = outcome.figure
    bound = f"<= {figure.at_most:g}" if figure.at_most is not None else ""
    bound = f">= {figure.at_least:g}" if figure.at_least is not None else bound
    if not outcome.values:
        return f"{figure.name:32} {'-':>9} {figure.unit:9} {bound:10} not measured: {outcome.reason}"
    low, high = outcome.values[0], outcome.values[-1]
    spread = f"{low:.3g} .. {high:.3g} of {len(outcome.values)}"
    verdict = outcome.verdict if bound else ""
    return f"{figure.name:32} {median(outcome.values):9.3g} {figure.unit:9} {bound:10} {verdict:8} {spread}"


def main(arguments: list[str]) -> int:
    """Measure and print; return the exit status."""
    as_json = "--json" in arguments
    wanted = [word for word in arguments if not word.startswith("-")]
    chosen = [figure for figure in figures() if not wanted or any(word in figure.name for word in wanted)]
    about = scope()
    if not as_json:
        print("\n".join(f"{name:8} {value}" for name, value in about.items()), end="\n\n")
    outcomes = []
    for figure in chosen:
        outcomes.append(measured(figure))
        if not as_json:
            print(_row(outcomes[-1]), flush=True)
    if as_json:
        print(json.dumps({"scope": about, "figures": [outcome.as_json() for outcome in outcomes]}, indent=2))
    return 1 if any(outcome.verdict == "missed" for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
