"""Standalone executables: the bits of the network they were made from, and endings that say what went wrong."""

import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from bittern.chips.machine.elf import Segment, executable_file
from bittern.chips.x86.chip import X86
from bittern.chips.x86.features import is_here
from bittern.front.network.assembly import Assembly
from bittern.front.network.network import Network
from bittern.lang.library import Library
from bittern.runtime.exports import export
from bittern.runtime.network import NetworkModel

pytestmark = pytest.mark.skipif(not is_here(), reason="the chip x86 is not here")


def _network() -> Network:
    rng = np.random.default_rng(5)
    a = Assembly(Library.standard())
    x, y = a.input("left", "i8", (40,)), a.input("right", "i8", (40,))
    w = a.constant(rng.integers(-128, 128, (24, 40)), "i8")
    sums = a.op("add", a.call("dense.dense", w, x), a.call("dense.dense", w, y))
    signs = a.call(
        "thresholds.sign_at", sums, a.constant(np.zeros(24, np.int32), "i32"), a.constant(np.zeros(24, bool), "bit")
    )
    return a.network("two", {"sums": sums, "signs": signs})


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elf") / "two"
    export(_network(), path, "elf")
    return path


def _samples(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(7)
    return rng.integers(-128, 128, (count, 40), np.int8), rng.integers(-128, 128, (count, 40), np.int8)


@pytest.mark.req("C085")
def test_outputs_are_those_of_the_network(program: Path, tmp_path: Path) -> None:
    left, right = _samples(5)
    (tmp_path / "in").write_bytes(np.concatenate([left, right], axis=1).tobytes())
    assert subprocess.run([program, tmp_path / "in", tmp_path / "out"]).returncode == 0
    wanted = NetworkModel(_network(), "vm").run(left, right)
    rows = [row.tobytes() for pair in zip(wanted["sums"], wanted["signs"], strict=True) for row in pair]
    assert (tmp_path / "out").read_bytes() == b"".join(rows)
    piped = subprocess.run([program], input=(tmp_path / "in").read_bytes(), capture_output=True)
    assert piped.stdout == b"".join(rows) and not piped.stderr


@pytest.mark.parametrize(
    ("arguments", "given", "status", "words"),
    [
        (["missing"], b"", 2, "the input cannot be opened"),
        (["/dev/null", "missing/out"], b"", 3, "the output cannot be opened"),
        ([], bytes(81), 4, "ends inside a sample"),
        (["/dev/null", "/dev/full"], b"", 0, ""),
        (["/dev/zero", "/dev/full"], b"", 5, "the output cannot be written"),
    ],
)
def test_faults_end_with_a_line(
    arguments: list[str], given: bytes, status: int, words: str, program: Path, tmp_path: Path
) -> None:
    ended = subprocess.run([program, *arguments], input=given, capture_output=True, cwd=tmp_path, timeout=20)
    assert ended.returncode == status and words in ended.stderr.decode()


@pytest.mark.req("C085")
def test_the_file_is_static_and_no_segment_is_written_and_run(program: Path) -> None:
    data = program.read_bytes()
    count = struct.unpack_from("<H", data, 56)[0]
    kinds = [struct.unpack_from("<II", data, 64 + 56 * k) for k in range(count)]
    assert not any(kind in (2, 3) for kind, _ in kinds), "no dynamic part, no interpreter"
    assert not any(rights & 1 and rights & 2 for _, rights in kinds)


def test_each_build_gives_the_same_bytes(program: Path, tmp_path: Path) -> None:
    export(_network(), tmp_path / "again", "elf")
    assert (tmp_path / "again").read_bytes() == program.read_bytes()


def test_a_tier_below_the_best_runs_too(tmp_path: Path) -> None:
    left, right = _samples(2)
    data = X86("sse2").load_function(_network().function, Library.standard()).standalone()
    (tmp_path / "p").write_bytes(data)
    (tmp_path / "p").chmod(0o755)
    given = np.concatenate([left, right], axis=1).tobytes()
    wanted = NetworkModel(_network(), "vm").run(left, right)
    made = subprocess.run([tmp_path / "p"], input=given, capture_output=True).stdout
    assert made[: 24 * 4] == wanted["sums"][0].tobytes()


def test_segments_must_not_overlap() -> None:
    with pytest.raises(AssertionError):
        executable_file("x86-64", 0x1000, [Segment(0x1000, bytes(8), "rx"), Segment(0x1000, b"", "rw", 8)])
