"""Bittern beside llama.cpp on the same file, in turn, so that both see the same machine.

    python bench/peers.py MODEL --llama PYTHON [--chip auto] [--rounds 5] [--threads 1,2] [--only tg128] [--json FILE]

PYTHON is a Python that has `llama-cpp-python`, built on this machine. Both load the file once, in processes of their
own that are bound to so many cores, and answer one after the other: A B A B ... A round counts only if other processes
left the cores alone in both runs. Told are medians, spread, the median of the rounds' ratios, and how fast memory is
read in the same run. A case without quiet rounds is told as such and makes no figure.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from report import scope
from rounds import FOLDER, Rounds, Worker, both

_PATIENCE = 90.0  # s: how long one case waits for quiet moments


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to time. kind: `pp` (a prompt at once) or `tg` (tokens one by one). depth: tokens before."""

    kind: str
    count: int
    depth: int = 0

    @property
    def name(self) -> str:
        """The name in reports, as `llama-bench` writes it."""
        return f"{self.kind}{self.count}" + (f"@{self.depth}" if self.depth else "")


CASES = (Case("tg", 128), Case("pp", 512), Case("tg", 64, 1024))


@dataclass(slots=True, kw_only=True)
class Outcome(Rounds):
    """What one case gave with so many threads. read: bytes a second. weights: bytes that a decode step reads."""

    case: Case
    threads: int
    read: float = 0.0
    weights: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as an object; speeds are tokens a second."""
        count = self.case.count
        fraction = self.weights * count / median(self.ours) / self.read if self.ours and self.read else None
        return {
            **asdict(self.case),
            "name": self.case.name,
            "threads": self.threads,
            "bittern": [count / seconds for seconds in self.ours],
            "llama": [count / seconds for seconds in self.theirs],
            "ratio": self.ratio,
            "ratios": [b / a for a, b in zip(self.ours, self.theirs, strict=True)],
            "read_bytes_per_second": self.read,
            "fraction_of_read_speed": fraction if self.case.kind == "tg" else None,
            "dropped": [[count / seconds for seconds in pair] for pair in self.dropped],
        }

    def as_text(self) -> str:
        """Return one line for people."""
        head = f"{self.case.name:12} {self.threads} thread{'s' * (self.threads > 1)}"
        if self.ratio is None:
            seen = [median(row) for row in zip(*self.dropped, strict=True)]
            shown = ", ".join(f"{self.case.count / seconds:.4g}" for seconds in seen)
            return f"{head}  no quiet round of {len(self.dropped)}; disturbed medians {shown} tokens/s"
        ours, theirs = (_spread(self.case.count, values) for values in (self.ours, self.theirs))
        dropped = f", {len(self.dropped)} dropped" if self.dropped else ""
        return f"{head}  bittern {ours}  llama.cpp {theirs}  ratio {self.ratio:.3f}  of {len(self.ours)}{dropped}"


def _spread(count: int, seconds: Sequence[float]) -> str:
    speeds = sorted(count / value for value in seconds)
    return f"{median(speeds):.4g} ({speeds[0]:.4g} to {speeds[-1]:.4g}) tokens/s"


def workers(arguments: argparse.Namespace, threads: int) -> AbstractContextManager[tuple[Worker, Worker]]:
    """Start both peers for so many threads."""
    model, positions = str(Path(arguments.model).resolve()), str(2048)
    return both(
        (sys.executable, str(FOLDER / "peer_bittern.py"), model, str(threads), arguments.chip),
        (arguments.llama, str(FOLDER / "peer_llama.py"), model, str(threads), positions),
    )


def timed(case: Case, threads: int, pair: tuple[Worker, Worker], rounds: int) -> Outcome:
    """Time a case in rounds; see `Rounds.fill`."""
    outcome = Outcome(case=case, threads=threads, weights=int(pair[0].about["weights"]))
    asks = [partial(worker.ask, case.kind, case.count, case.depth) for worker in pair]
    for ask in asks:  # what is built on the first run is no part of a round
        ask()
    outcome.fill(pair, asks, rounds, _PATIENCE)
    outcome.read = pair[0].ask("read")
    return outcome


def parsed(given: list[str]) -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(prog="bench/peers.py", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("--llama", default=os.environ.get("BITTERN_PEERS", ""), help="a Python with llama-cpp-python")
    parser.add_argument("--chip", default="auto")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only", default="", help="names of cases, such as tg128,pp512")
    parser.add_argument("--json", default="", metavar="FILE", help="where the results go")
    arguments = parser.parse_args(given)
    if not arguments.llama:
        parser.error("name a Python that has llama-cpp-python in --llama or BITTERN_PEERS")
    return arguments


def main(given: list[str]) -> int:
    """Measure, print, and write the results."""
    arguments = parsed(given)
    wanted = [case for case in CASES if not arguments.only or case.name in arguments.only.split(",")]
    outcomes: list[Outcome] = []
    about: list[dict[str, Any]] = []
    for threads in map(int, arguments.threads.split(",")):
        with workers(arguments, threads) as pair:
            about = [worker.about for worker in pair]
            for case in wanted:
                outcomes.append(timed(case, threads, pair, arguments.rounds))
                print(outcomes[-1].as_text(), flush=True)
    if arguments.json:
        shown = ["bench/peers.py", Path(arguments.model).name, *given[1:]]
        hidden = (arguments.llama, arguments.json)
        command = " ".join("..." if word in hidden else word for word in shown)
        found = {
            "command": command,
            "scope": scope(),
            "model": {"name": Path(arguments.model).name, "size": Path(arguments.model).stat().st_size},
            "peers": about,
            "cases": [outcome.as_json() for outcome in outcomes],
        }
        Path(arguments.json).write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
