"""Speed of a model on one chip: prompt and new tokens a second, and what that is of the memory's speed.

A bench loads a model once and runs it again and again from a fresh start, so that spread is seen. What is built (code,
unpacked weights) is built in a first run, whose time is told apart. Every value is kept in the order it was measured;
the median stands for them.

A decode step reads nearly all weights once, so memory bounds it from above: `fraction` is the weights' bytes as the
file holds them, times the tokens a second, of the speed at which this machine reads memory in the same run.
"""

import os
import platform
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from bittern import __version__
from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress
from bittern.chips.chip import Chip, GreedySession, Loaded, Session
from bittern.front.bound import Bound
from bittern.runtime.binding import bound_model
from bittern.runtime.choice import AUTO, prepared
from bittern.runtime.decode import check_room, greedy, run_last, run_rows, start
from bittern.runtime.model import open_checkpoint
from bittern.runtime.origin import source_of
from bittern.runtime.sample import MOST_TOKENS, check_range
from bittern.runtime.store import Store

NO_THREADS = code("R114", "the number of threads cannot be set here")

_PROBE = 1 << 28  # bytes that the probe reads, more than any cache holds
_PROBES = 5
_PRIME = 7919  # spreads the token ids of the prompt over the vocabulary


@dataclass(frozen=True, slots=True)
class Series:
    """Measured values in the order of the runs."""

    values: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """Return median, extremes and all values."""
        return {
            "median": median(self.values),
            "least": min(self.values),
            "greatest": max(self.values),
            "values": list(self.values),
        }

    def as_text(self) -> str:
        """Return median and spread."""
        return f"{median(self.values):.4g} ({min(self.values):.4g} to {max(self.values):.4g}, of {len(self.values)})"


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What was measured.

    prompt_speed, token_speed: tokens a second. first_token: seconds from the start of the prompt to its first token.
    load: seconds to open, bind and hash. build: seconds that the first runs took beyond the median of the later ones.
    peak: bytes of memory at most, None where the system does not say. read_speed: bytes a second, by all threads.
    weights: bytes that a decode step reads, as stored.
    """

    source: Mapping[str, Any]
    about: Mapping[str, Any]
    prompt_speed: Series
    token_speed: Series
    first_token: Series
    load: float
    build: float
    peak: int | None
    read_speed: Series
    weights: int

    @property
    def fraction(self) -> float:
        """How much of the memory's read speed the weights of the new tokens are."""
        return self.weights * median(self.token_speed.values) / median(self.read_speed.values)

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "source": dict(self.source),
            **self.about,
            "prompt_tokens_per_second": self.prompt_speed.as_json(),
            "tokens_per_second": self.token_speed.as_json(),
            "first_token_seconds": self.first_token.as_json(),
            "load_seconds": self.load,
            "build_seconds": self.build,
            "peak_bytes": self.peak,
            "read_bytes_per_second": self.read_speed.as_json(),
            "weight_bytes_per_token": self.weights,
            "fraction_of_read_speed": self.fraction,
        }

    def as_text(self) -> str:
        """Return lines for people."""
        about, machine = self.about, self.about["machine"]
        depth = f" after {about['depth']}" if about["depth"] else ""
        gigabytes = Series(tuple(value / 1e9 for value in self.read_speed.values))
        peak = "unknown" if self.peak is None else f"{self.peak / 1e6:.0f} MB"
        share = f"the weights of the new tokens are {self.fraction:.1%} of it"
        return "\n".join(
            [
                f"{self.source['path']}, {self.source['size'] / 1e6:.1f} MB, cache {about['cache']}",
                f"{about['chip']}:{about['tier']} on {machine['cpu']}, {about['threads']} of {machine['cores']} cores",
                f"  prompt       {self.prompt_speed.as_text()} tokens/s, {about['prompt']} tokens",
                f"  new tokens   {self.token_speed.as_text()} tokens/s, {about['count']} tokens{depth}",
                f"  first token  {self.first_token.as_text()} s",
                f"  load         {self.load:.3f} s; building {self.build:.3f} s",
                f"  memory       {peak} at most",
                f"  read probe   {gigabytes.as_text()} GB/s; {share}",
            ]
        )


class Bench:
    """A model on a chip, ready to be timed. Use as a context manager: it holds the checkpoint open."""

    def __init__(self, bound: Bound, made: Chip, loaded: Loaded, load: float) -> None:
        """Use `open_bench`. load: seconds that it took."""
        self.bound = bound
        self.chip = made
        self.load = load
        self._loaded = loaded
        self._sessions: dict[int, Session] = {}
        self._filled: dict[int, int] = {}  # how many tokens of `_ids` the cache of a session holds

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.bound.checkpoint.close()

    def prompt(self, count: int) -> float:
        """Return the seconds from the start of a prompt of so many tokens to its first token."""
        ids = self._ids(count)
        session = self._session(count)
        started = perf_counter()
        greedy(run_last(session, ids))
        seconds = perf_counter() - started
        self._filled[count] = count
        return seconds

    def tokens(self, count: int, depth: int = 0) -> float:
        """Return the seconds for so many new tokens, each the likeliest, after `depth` others, which are not timed."""
        ids = self._ids(depth + 1)
        session = self._session(depth + count)
        if self._filled.get(depth + count, 0) < depth:
            run_rows(session, ids[:depth])
        self._filled[depth + count] = depth
        started = perf_counter()
        made = 0
        while made < count:
            if isinstance(session, GreedySession):
                new = session.greedy(ids, count - made)
            else:
                new = [greedy(run_last(session, ids[-1:], len(ids) - 1))]
            ids += new
            made += len(new)
        return perf_counter() - started

    def _ids(self, count: int) -> list[int]:
        """Return token ids that are spread over the vocabulary, the same every time."""
        return [place * _PRIME % self.bound.dims["vocab"] for place in range(1, count + 1)]

    def _session(self, positions: int) -> Session:
        """Return the session of this many positions; each run writes every place anew that it sees."""
        check_room([0], positions, positions, self.bound.dims["vocab"], self.bound.dims.get("places"))
        if positions not in self._sessions:
            self._sessions[positions] = start(self._loaded, positions)
        return self._sessions[positions]


def open_bench(
    path: Path,
    *,
    chip: str = AUTO,
    tier: str = "",
    cache: str = "f16",
    store: Store | None = None,
    library: Sequence[Path] = (),
) -> Bench:
    """Load a model for timing; arguments and errors as for `bittern.load`. tier: of the chip; "" for the best."""
    started = perf_counter()
    checkpoint = open_checkpoint(path, store, library)
    try:
        bound = bound_model(checkpoint, cache, library)
        made, loaded = prepared(bound, chip, tier=tier, cache=None if store is None else store.root)
        return Bench(bound, made, loaded, perf_counter() - started)
    except BaseException:
        checkpoint.close()
        raise


def measure(
    path: Path,
    *,
    chip: str = AUTO,
    tier: str = "",
    prompt: int = 512,
    count: int = 128,
    depth: int = 0,
    repeats: int = 3,
    threads: int | None = None,
    cache: str = "f16",
    store: Store | None = None,
    library: Sequence[Path] = (),
    progress: Progress | None = None,
) -> BenchReport:
    """Measure a model on a chip.

    prompt, count, depth: tokens of the prompt, new ones, and those before the new ones. threads: cores that this
    process may use from now on; None: all that it may. Raises what `bittern.load` does, R110, R114, R117.
    """
    for name, value, low in (("prompt", prompt, 1), ("count", count, 1), ("depth", depth, 0), ("repeats", repeats, 1)):
        check_range(name, value, low, MOST_TOKENS)
    used = use_threads(threads)
    progress = progress or Progress()
    with open_bench(path, chip=chip, tier=tier, cache=cache, store=store, library=library) as bench:
        with progress.task("build"):
            first = bench.prompt(prompt) + bench.tokens(count, depth)
        prompts, tokens = [], []
        with progress.task("measure", repeats, "runs") as task:
            for _ in range(repeats):
                prompts.append(bench.prompt(prompt))
                tokens.append(bench.tokens(count, depth))
                task.advance()
        peak = peak_memory()
        about = {
            "chip": bench.chip.name,
            "tier": bench.chip.tier,
            "threads": used,
            "cache": cache,
            "prompt": prompt,
            "count": count,
            "depth": depth,
            "version": __version__,
            "machine": machine(),
        }
        return BenchReport(
            source={key: value for key, value in source_of(bench.bound.checkpoint).items() if key != "sha256_origin"},
            about=about,
            prompt_speed=Series(tuple(prompt / value for value in prompts)),
            token_speed=Series(tuple(count / value for value in tokens)),
            first_token=Series(tuple(prompts)),
            load=bench.load,
            build=max(first - median(prompts) - median(tokens), 0.0),
            peak=peak,
            read_speed=read_speed(used),
            weights=weights_of(bench.bound),
        )


def use_threads(threads: int | None) -> int:
    """Let this process use so many cores only, and return how many it uses; None changes nothing. Raises R114."""
    can = hasattr(os, "sched_setaffinity")
    allowed = sorted(os.sched_getaffinity(0)) if can else list(range(os.cpu_count() or 1))
    if threads is None or threads == len(allowed):
        return len(allowed)
    if not can or threads > len(allowed):
        why = f"{len(allowed)} are there" if can else "this system does not bind processes to cores"
        raise BitternError(NO_THREADS, f"{threads} threads were asked for, and {why}.", "Leave `--threads` out.")
    os.sched_setaffinity(0, allowed[:threads])
    return threads


def weights_of(bound: Bound) -> int:
    """Return the bytes of weights that one decode step reads, as the checkpoint stores them.

    Of an embedding that is not the output matrix it reads one row; of experts, those that a token uses.
    """
    tensors = dict(bound.checkpoint.tensors)
    total = 0
    if "output.weight" in tensors and "token_embd.weight" in tensors:
        embedding = tensors.pop("token_embd.weight")
        total += embedding.size // embedding.shape[0]
    for name, info in tensors.items():
        shared = "_exps." in name
        total += info.size * bound.dims["used"] // bound.dims["experts"] if shared else info.size
    return total


def read_speed(threads: int) -> Series:
    """Return the bytes a second that so many threads read from memory together: products of a long array and itself."""
    data = np.ones(_PROBE // 4, np.float32)
    parts = np.array_split(data, threads)

    def read(part: Any) -> None:
        np.dot(part, part)

    values = []
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_PROBES + 1):
            started = perf_counter()
            list(pool.map(read, parts))
            values.append(data.nbytes / (perf_counter() - started))
    return Series(tuple(values[1:]))  # the first one starts the threads


def peak_memory() -> int | None:
    """Return the most bytes of memory that this process has held, or None where the system does not say."""
    try:
        import resource
    except ImportError:  # no such thing on Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(most) if sys.platform == "darwin" else int(most) * 1024


def machine() -> dict[str, Any]:
    """Return what the figures hold for: processor, cores, system, versions."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
