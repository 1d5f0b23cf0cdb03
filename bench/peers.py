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
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import quiet
from report import scope

_FOLDER = Path(__file__).resolve().parent
_TRIES = 4  # times as many rounds as are wanted, at most
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


@dataclass(slots=True)
class Outcome:
    """What one case gave with so many threads.

    ours, theirs: seconds of quiet rounds, in order. dropped: rounds that other processes disturbed. read: bytes a
    second. weights: bytes that a decode step of Bittern reads.
    """

    case: Case
    threads: int
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    dropped: list[tuple[float, float]] = field(default_factory=list)
    read: float = 0.0
    weights: int = 0

    @property
    def ratio(self) -> float | None:
        """How many times as fast as llama.cpp Bittern is: the median over the rounds; None without a quiet one."""
        return median(b / a for a, b in zip(self.ours, self.theirs, strict=True)) if self.ours else None

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


class Worker:
    """A peer in a process of its own."""

    def __init__(self, *command: str) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_FOLDER)
        self.about: dict[str, Any] = json.loads(self._line())

    def ask(self, kind: str, count: int = 0, depth: int = 0) -> float:
        """Have it measure, and return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{kind} {count} {depth}\n")
        self._process.stdin.flush()
        return float(self._line())

    def used(self) -> float:
        """Return the seconds of processor time that it has used, all threads together."""
        parts = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"bench/peers.py: {' '.join(map(str, self._process.args))} ended without an answer")
        return line


@contextmanager
def workers(arguments: argparse.Namespace, threads: int) -> Iterator[tuple[Worker, Worker]]:
    """Start both peers for so many threads."""
    model, positions = str(Path(arguments.model).resolve()), str(2048)
    ours = Worker(sys.executable, str(_FOLDER / "peer_bittern.py"), model, str(threads), arguments.chip)
    try:
        theirs = Worker(arguments.llama, str(_FOLDER / "peer_llama.py"), model, str(threads), positions)
        try:
            yield ours, theirs
        finally:
            theirs.close()
    finally:
        ours.close()


def timed(case: Case, threads: int, pair: tuple[Worker, Worker], rounds: int) -> Outcome:
    """Time a case in rounds until there are as many quiet ones as wanted, or until trying makes no sense any more."""
    outcome = Outcome(case, threads, weights=int(pair[0].about["weights"]))
    for worker in pair:  # what is built on the first run is no part of a round
        worker.ask(case.kind, case.count, case.depth)
    end = perf_counter() + _PATIENCE
    while len(outcome.ours) < rounds and len(outcome.ours) + len(outcome.dropped) < rounds * _TRIES:
        seconds, is_quiet = [], True
        for worker in pair:
            quiet.wait(min(3.0, max(end - perf_counter(), 0.0)))
            before = moment_of(pair)
            seconds.append(worker.ask(case.kind, case.count, case.depth))
            is_quiet = is_quiet and quiet.is_quiet(before, moment_of(pair)) is not False
        if is_quiet:
            outcome.ours.append(seconds[0])
            outcome.theirs.append(seconds[1])
        else:
            outcome.dropped.append((seconds[0], seconds[1]))
        if perf_counter() > end:
            break
    outcome.read = pair[0].ask("read")
    return outcome


def moment_of(pair: Sequence[Worker]) -> quiet.Moment | None:
    """Return a reading in which the work of both peers is our own."""
    found = quiet.now()
    return None if found is None else replace(found, own=found.own + sum(worker.used() for worker in pair))


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
