"""Bittern's networks beside every peer that runs on this processor, in turn, so that all see the same machine.

    python bench/networks.py --peers PYTHON [--data FOLDER] [--rounds 5] [--only gemm,conv_14x256] [--json FILE]

PYTHON is a Python with the peers' packages (see `peer_networks.py`); FOLDER has the models (BITTERN_TEST_DATA/models).
A round times Bittern, then the peer: A B A B ...; it counts only if other processes left the cores alone. Told are
medians, spread, the median of the rounds' ratios, and whether that reaches the bar. Bittern's binary convolutions are
timed as layers of a chain, as networks have them; the peers' are single.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from math import isnan
from pathlib import Path
from statistics import median
from typing import Any

from network_cases import CASES, Case
from report import scope
from rounds import FOLDER, Rounds, Worker, both

_PATIENCE = 30.0  # s: how long one case waits for quiet moments


@dataclass(slots=True, kw_only=True)
class Outcome(Rounds):
    """What a case gave beside one peer: seconds a call. is_missing: the peer, or the case on it, is not there."""

    case: Case
    peer: str
    is_missing: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as an object; times in seconds."""
        return {
            "case": self.case.name,
            "peer": self.peer,
            "threads": self.case.threads,
            "bar": self.case.bars[self.peer],
            "bittern": self.ours,
            "peer_seconds": self.theirs,
            "ratio": self.ratio,
            "dropped": self.dropped,
            "missing": self.is_missing,
        }

    def as_text(self) -> str:
        """Return one line for people."""
        head = f"{self.case.name:12} {self.case.threads} thread{'s' * (self.case.threads > 1)}  {self.peer:17}"
        if self.is_missing:
            return f"{head} is not there"
        if self.ratio is None:
            return f"{head} no quiet round of {len(self.dropped)}"
        bar = self.case.bars[self.peer]
        kept = "kept" if self.ratio >= bar else "MISSED"
        dropped = f", {len(self.dropped)} dropped" if self.dropped else ""
        return (
            f"{head} bittern {_spread(self.ours)}  peer {_spread(self.theirs)}  ratio {self.ratio:7.2f} (>= {bar:g}: "
            f"{kept})  of {len(self.ours)}{dropped}"
        )


def _spread(seconds: Sequence[float]) -> str:
    found = sorted(value * 1e6 for value in seconds)
    return f"{median(found):9.5g} us ({found[0]:.4g} to {found[-1]:.4g})"


def timed(case: Case, peer: str, pair: tuple[Worker, Worker], rounds: int) -> Outcome:
    """Time a case in rounds until there are as many quiet ones as wanted, or trying makes no sense any more."""
    outcome = Outcome(case=case, peer=peer)
    lines = (f"{case.name}:bittern", f"{case.name}:{peer}")
    asks = [partial(worker.ask, line) for worker, line in zip(pair, lines, strict=True)]
    outcome.is_missing = any(isnan(ask()) for ask in asks)
    if not outcome.is_missing:
        outcome.fill(pair, asks, rounds, _PATIENCE)
    return outcome


def workers(python: str, threads: int, data: str) -> AbstractContextManager[tuple[Worker, Worker]]:
    """Start both sides for so many threads."""
    return both(
        (sys.executable, str(FOLDER / "peer_bittern_networks.py"), str(threads), data),
        (python, str(FOLDER / "peer_networks.py"), str(threads), data),
    )


def _export(data: str, folder: str) -> None:
    """Write the network that ONNX Runtime runs as standard ONNX, and name it to the peers."""
    out = Path(folder) / "tfc.onnx"
    command = [sys.executable, "-m", "bittern", "export", str(Path(data) / "tfc_mnist/TFC_1W1A.onnx"), "-o", str(out)]
    subprocess.run([*command, "--to", "onnx"], check=True, stdout=subprocess.DEVNULL)
    os.environ["EXPORTED"] = str(out)


def parsed(given: list[str]) -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="bench/networks.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", default=os.environ.get("BITTERN_PEERS", ""), help="a Python with the peers")
    usual = Path(os.environ.get("BITTERN_TEST_DATA", FOLDER.parent.parent / "shared/data")) / "models"
    parser.add_argument("--data", default=str(usual), help="the folder with the models")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="starts of names of cases, such as gemm,conv_14x256")
    parser.add_argument("--json", default="", metavar="FILE", help="where the results go")
    arguments = parser.parse_args(given)
    if not arguments.peers:
        parser.error("name a Python that has the peers in --peers or BITTERN_PEERS")
    return arguments


def main(given: list[str]) -> int:
    """Measure, print, and write the results; 1 if a bar is missed."""
    arguments = parsed(given)
    starts = tuple(arguments.only.split(",")) if arguments.only else ("",)
    wanted = [case for case in CASES if case.name.startswith(starts)]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        if any(case.kind == "tfc" for case in wanted):
            _export(arguments.data, folder)
        for threads in sorted({case.threads for case in wanted}):
            with workers(arguments.peers, threads, arguments.data) as pair:
                for case in wanted:
                    for peer in case.bars if case.threads == threads else ():
                        outcomes.append(timed(case, peer, pair, arguments.rounds))
                        print(outcomes[-1].as_text(), flush=True)
    if arguments.json:
        hidden = (arguments.peers, arguments.json, arguments.data)
        command = " ".join(["bench/networks.py", *("..." if word in hidden else word for word in given)])
        found = {"command": command, "scope": scope(), "cases": [outcome.as_json() for outcome in outcomes]}
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    missed = [each for each in outcomes if each.ratio is not None and each.ratio < each.case.bars[each.peer]]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
