"""Measure the figures and print them with what they were measured on; status 1 if a bound is missed.

Only quiet measurements count (see `quiet`). A row has the median, the bound, the verdict and the spread.
"""

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
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "as the command line sets them"),
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
    head = f"{figure.name:32}"
    if outcome.verdict == "not measured":
        return f"{head} {'-':>9} {figure.unit:9} {bound:10} not measured: {outcome.reason}"
    shown = outcome.values or outcome.dropped
    verdict = outcome.verdict if bound or not outcome.values else ""
    parts = [f"{head} {median(shown):9.3g} {figure.unit:9} {bound:10} {verdict:9}"]
    parts.append(f"{shown[0]:.3g} .. {shown[-1]:.3g} of {len(shown)}")
    if not outcome.values:
        parts.append("no quiet moment: other processes used the cores all the time")
    elif outcome.dropped:
        parts.append(f"{len(outcome.dropped)} dropped: other processes used the cores")
    elif not outcome.is_gated:
        parts.append("not gated: this system does not tell what other processes did")
    return "  ".join(parts)


def main(arguments: list[str]) -> int:
    """Measure and print; return the exit status."""
    unknown = [word for word in arguments if word.startswith("-") and word not in ("--json", "--quick")]
    if unknown:
        print(f"bench/check: no option {unknown[0]}; there are --json and --quick", file=sys.stderr)
        return 2
    as_json, is_quick = "--json" in arguments, "--quick" in arguments
    wanted = [word for word in arguments if not word.startswith("-")]
    chosen = [figure for figure in figures() if not wanted or any(word in figure.name for word in wanted)]
    chosen = [figure for figure in chosen if not (is_quick and figure.is_long)]
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
