"""Mutated GGUF files: a refusal by code or a checkpoint, never anything else, in bounded time and memory.

Run about a second in the tests; any time by hand, with counts at the end:

    python tests/fuzz/test_gguf_fuzz.py SECONDS [SEED]
    python tests/fuzz/test_gguf_fuzz.py --case SEED NUMBER     one case again; leaves its file as fuzz-SEED-NUMBER.gguf

A mutation flips bytes, cuts, repeats or drops pieces, or puts a telling number in a field of the header. What is
accepted must be read alike by the `gguf` package where that is installed: stricter is right, looser is a fault.
"""

import random
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT.parent)]

import pytest  # noqa: E402
from gguf_files import SAMPLES, Field, build  # noqa: E402
from gguf_oracle import differences  # noqa: E402

from bittern.base.errors import CODES, BitternError  # noqa: E402
from bittern.front import gguf  # noqa: E402
from bittern.front.gguf import open_gguf  # noqa: E402

TIME_LIMIT = 0.05  # seconds of processor time for one file
SPARE = 64 << 20  # bytes of memory besides four times the file

_SEEDS = {name: build(file) for name, file in SAMPLES.items() if name != "long key"}
_POWERS = (8, 16, 31, 32, 33, 60, 61, 62, 63, 64)
_NUMBERS = sorted({*range(14), 255, 48, 40, 42, *(max(0, 2**p + d) for p in _POWERS for d in (-32, -1, 0, 1, 32))})
_LETTERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def case(seed: int, number: int) -> tuple[bytes, list[str]]:
    """Return a mutated file and what was done to it; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    name = chance.choice(sorted(_SEEDS))
    whole, fields = _SEEDS[name]
    data = bytearray(whole)
    done = [name]
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        done.append(chance.choice(_MUTATIONS)(chance, data, fields))
    return bytes(data), done


def _edit_field(chance: random.Random, data: bytearray, fields: list[Field]) -> str:
    found = chance.choice(fields)
    letter = _LETTERS[found.size]
    if found.offset + found.size > len(data):
        return "nothing"
    (old,) = struct.unpack_from("<" + letter, data, found.offset)
    near = [old + step for step in (-32, -8, -1, 1, 8, 32)] + [old * 2, len(data) - found.offset, len(data)]
    value = chance.choice([*_NUMBERS, *near, chance.getrandbits(64)]) % (1 << 8 * found.size)
    struct.pack_into("<" + letter, data, found.offset, value)
    return f"{found.kind} at {found.offset}: {old} -> {value}"


def _flip_bytes(chance: random.Random, data: bytearray, _: list[Field]) -> str:
    places = [chance.randrange(len(data)) for _ in range(chance.choice((1, 1, 2, 5)) if data else 0)]
    for place in places:
        data[place] ^= 1 << chance.randrange(8)
    return f"bits at {places}"


def _set_bytes(chance: random.Random, data: bytearray, _: list[Field]) -> str:
    if not data:
        return "nothing"
    place = chance.randrange(len(data))
    size = chance.choice((1, 2, 4, 8))
    data[place : place + size] = bytes([chance.choice((0, 0xFF, 0x80, 0x7F))]) * size
    return f"{size} bytes at {place}"


def _cut(chance: random.Random, data: bytearray, _: list[Field]) -> str:
    length = chance.choice((chance.randrange(len(data) + 1), max(0, len(data) - chance.randrange(1, 64))))
    del data[length:]
    return f"cut to {length}"


def _drop(chance: random.Random, data: bytearray, _: list[Field]) -> str:
    place, size = chance.randrange(len(data) + 1), chance.choice((1, 4, 8, 12, 32))
    del data[place : place + size]
    return f"drop {size} at {place}"


def _repeat(chance: random.Random, data: bytearray, fields: list[Field]) -> str:
    source, size = chance.choice(fields).offset, chance.choice((1, 8, 13, 33, 100))
    place = chance.choice(fields).offset
    data[place:place] = data[source : source + size]
    return f"repeat {size} from {source} at {place}"


_MUTATIONS: tuple[Callable[[random.Random, bytearray, list[Field]], str], ...] = (
    _edit_field,
    _edit_field,
    _edit_field,
    _flip_bytes,
    _set_bytes,
    _cut,
    _drop,
    _repeat,
)


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Let the process take at most four times `size` and 64 MiB more than it has now, where the system can say so."""
    statistics = Path("/proc/self/statm")
    if not statistics.exists():
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    now = int(statistics.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 4 * size + SPARE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def judge(path: Path, data: bytes, package: Any = None) -> str:
    """Read one file; return `accepted` or the code of the refusal. Errors: AssertionError for any other end."""
    path.write_bytes(data)
    for attempt in range(3):  # a slow one gets another chance: the collector of a large process may have run in it
        start = time.thread_time()
        try:
            with bounded_memory(len(data)):
                open_gguf(path).close()
            outcome = "accepted"
        except BitternError as error:
            assert error.code in CODES and error.what and error.remedy, error
            outcome = error.code
        except BaseException as fault:
            raise AssertionError(f"{type(fault).__name__} instead of a refusal: {fault}") from fault
        spent = time.thread_time() - start
        if spent < TIME_LIMIT:
            break
        assert attempt < 2, f"{spent * 1000:.0f} ms of processor time"
    if outcome == "accepted":
        _judge_accepted(path, package)
    return outcome


def _judge_accepted(path: Path, package: Any) -> None:
    """Every tensor must be there, and as the package reads it."""
    with open_gguf(path) as checkpoint:
        try:
            found = [name for name, info in checkpoint.tensors.items() if checkpoint.array(name).nbytes != info.size]
            found += differences(checkpoint, path, package) if package else []
        except Exception as fault:
            raise AssertionError(f"accepted, but then {type(fault).__name__}: {fault}") from fault
    assert not found, found


def run(seconds: float, seed: int, folder: Path, package: Any = None) -> Counter[str]:
    """Judge cases for some seconds; return how often each outcome came. Errors: AssertionError that names the case."""
    outcomes: Counter[str] = Counter()
    until = time.monotonic() + seconds
    number = 0
    while time.monotonic() < until:
        data, done = case(seed, number)
        try:
            outcomes[judge(folder / "case.gguf", data, package)] += 1
        except AssertionError as fault:
            raise AssertionError(f"case {number} of seed {seed} ({'; '.join(done)}): {fault}") from fault
        number += 1
    return outcomes


def _package() -> Any:
    try:
        import gguf as package
    except ImportError:
        return None
    return package


def test_mutated_files_end_in_a_refusal_or_a_checkpoint(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    outcomes = run(1.0, seed, tmp_path, _package())
    assert outcomes["accepted"] and len(outcomes) > 5, outcomes


def test_cases_repeat() -> None:
    assert case(5, 77) == case(5, 77) != case(5, 78)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, str]:
    """Mutated files and how they end."""
    folder = tmp_path_factory.mktemp("fuzz")
    return {data: _outcome(folder, data) for data, _ in (case(1, number) for number in range(500))}


@pytest.mark.parametrize("check", ["room", "count", "sizes", "place", "overlap", "key", "alignment"])
def test_a_reader_without_a_check_is_found(
    check: str, truth: dict[bytes, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted fault: without the check the fuzzer must find a case that ends wrongly, or that ends otherwise."""
    monkeypatch.setattr(gguf, f"_check_{check}", lambda *_: None)
    assert any(_outcome(tmp_path, data) != outcome for data, outcome in truth.items())


def _outcome(folder: Path, data: bytes) -> str:
    try:
        return judge(folder / "case.gguf", data)
    except AssertionError as fault:
        return str(fault).partition(":")[0]


def main(arguments: list[str]) -> None:
    """Run the fuzzer by hand, or one of its cases again."""
    package = _package()
    if arguments[:1] == ["--case"]:
        seed, number = int(arguments[1]), int(arguments[2])
        data, done = case(seed, number)
        print("; ".join(done))
        print(judge(Path(f"fuzz-{seed}-{number}.gguf"), data, package))
        return
    seconds = float(arguments[0]) if arguments else 10.0
    seed = int(arguments[1]) if len(arguments) > 1 else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}, {seconds:g} s, oracle: {'the gguf package' if package else 'none (gguf is not installed)'}")
    with tempfile.TemporaryDirectory() as folder:
        outcomes = run(seconds, seed, Path(folder), package)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:9} {outcome:9} {CODES.get(outcome, '')}")
    print(f"{outcomes.total():9} cases, nothing else happened")


if __name__ == "__main__":
    main(sys.argv[1:])
