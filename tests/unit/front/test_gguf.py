"""The GGUF reader: valid files as the `gguf` package reads them, each kind of lie refused by its own code."""

import struct
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gguf_files
import numpy as np
import pytest
from gguf_broken import BROKEN
from gguf_files import SAMPLES, build, number
from gguf_oracle import differences

from bittern.base.errors import CODES, BitternError
from bittern.front import gguf
from bittern.front.gguf import is_gguf, open_gguf
from bittern.front.gguf_types import TENSOR_TYPES

CHECKS = sorted({row.check for row in BROKEN.values()} - {""})


def written(folder: Path, data: bytes) -> Path:
    """Write a file and return its path."""
    path = folder / "model.gguf"
    path.write_bytes(data)
    return path


def refusal(path: Path) -> BitternError | None:
    """Return the error with which the file is refused, or None."""
    try:
        open_gguf(path).close()
    except BitternError as error:
        return error
    return None


@pytest.fixture(scope="module")
def package() -> Any:
    """The `gguf` package."""
    return pytest.importorskip("gguf", reason="the package gguf is the oracle here")


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_are_read_as_the_gguf_package_reads_them(name: str, tmp_path: Path, package: Any) -> None:
    path = written(tmp_path, build(SAMPLES[name])[0])
    assert is_gguf(path)
    with open_gguf(path) as checkpoint:
        assert differences(checkpoint, path, package) == []


def test_values_are_plain_python(tmp_path: Path) -> None:
    with open_gguf(written(tmp_path, build(SAMPLES["all"])[0])) as checkpoint:
        found = checkpoint.metadata
    numbers = {key: value for key, value in found.items() if key.startswith("a.")}
    assert numbers == {
        "a.u8": 200,
        "a.i8": -100,
        "a.u16": 60000,
        "a.i16": -30000,
        "a.u32": 4_000_000_000,
        "a.i32": -2_000_000_000,
        "a.f32": float(np.float32(1e-5)),
        "a.yes": True,
        "a.no": False,
        "a.u64": 2**64 - 1,
        "a.i64": -(2**63),
        "a.f64": 0.1,
    }
    assert {type(value) for value in numbers.values()} == {int, float, bool}
    assert found["general.architecture"] == "toy"
    assert found["b.tokens"] == ["", "a", "\u00e9\u00e8", "\u65e5\u672c", "\U0001f600 z", "<0x00>"]
    types, flags = found["b.types"], found["b.flags"]
    assert isinstance(types, np.ndarray) and types.dtype == np.int32 and types.tolist() == [1, 2, 3, -4, 5, 6]
    assert isinstance(flags, np.ndarray) and flags.dtype == np.bool_ and not flags.flags.writeable


def test_shapes_are_row_major_and_formats_are_blocks(tmp_path: Path) -> None:
    with open_gguf(written(tmp_path, build(SAMPLES["all"])[0])) as checkpoint:
        shapes = {name: checkpoint.tensors[name].shape for name in ("one", "two", "three", "four")}
        assert shapes == {"one": (5,), "two": (2, 3), "three": (2, 3, 4), "four": (3, 1, 2, 32)}
        assert checkpoint.array("four").shape == (3, 1, 2, 1, 34)
        for type_, (columns, size) in gguf_files.BLOCKS.items():
            if type_ in gguf_files.NEWER:
                continue
            info = checkpoint.tensors[f"t.{type_}"]
            assert info.shape == (3, 2 * columns) and info.size == 6 * size
            assert checkpoint.array(info.name).nbytes == info.size


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_their_code(name: str, tmp_path: Path) -> None:
    """Edge cases E1 (huge lengths, wrapping products, counts) and E2 (lies about types, alignment), and all others."""
    row = BROKEN[name]
    path = written(tmp_path, row.data())
    start = time.process_time()
    error = refusal(path)
    spent = time.process_time() - start
    assert error is not None, "accepted"
    assert error.code == row.code, str(error)
    assert all(word in error.what for word in ("`model.gguf`: ", *row.words)), error.what
    assert error.what.endswith(".") and error.remedy.endswith("."), str(error)
    assert len(error.what) < 300
    assert spent < 2, "bounded, whatever the lengths say; bench/check has the figure"


def test_b1_another_block_size_under_the_same_number_is_said(tmp_path: Path) -> None:
    """Edge case B1: programs gave number 42 to blocks of 128 values too; such a file is refused, and told why."""
    for name in ("Q2_0 with 128 values", "Q2_0 with 128 values, last"):
        error = refusal(written(tmp_path, BROKEN[name].data()))
        assert error is not None and "42 is Q2_0 with blocks of 64 values" in error.remedy


def test_b6_formats_of_another_version_are_refused(tmp_path: Path) -> None:
    """Edge case B6: a field that says another version of the encoding is never passed over; without blocks it is."""
    key = number("general.quantization_version", gguf_files.U32, 1)
    coded, plain = gguf_files.Row(b"w", (64, 2), 8), gguf_files.Row(b"w", (64, 2), 0)
    error = refusal(written(tmp_path, build(gguf_files.File((key,), (coded,)))[0]))
    assert error is not None and error.code == "F141"
    assert refusal(written(tmp_path, build(gguf_files.File((key,), (plain,)))[0])) is None
    current = number("general.quantization_version", gguf_files.U32, 2)
    assert refusal(written(tmp_path, build(gguf_files.File((current,), (coded,)))[0])) is None


def test_every_code_of_the_reader_has_a_broken_file() -> None:
    declared = {code for code in vars(gguf).values() if isinstance(code, str) and code in CODES and code >= "F110"}
    assert declared == {row.code for row in BROKEN.values()}


@pytest.mark.parametrize("check", CHECKS)
def test_a_reader_without_a_check_is_noticed(check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: each check is taken out; a file that it refuses must then get another answer."""
    monkeypatch.setattr(gguf, f"_check_{check}", lambda *_: None)
    noticed = 0
    for row in BROKEN.values():
        if row.check == check:
            try:
                error = refusal(written(tmp_path, row.data()))
            except Exception:  # whatever an unchecked reader stumbles over
                noticed += 1
            else:
                noticed += error is None or error.code != row.code
    assert noticed


def test_a_wrong_byte_order_of_dimensions_is_noticed(tmp_path: Path, package: Any) -> None:
    """Planted fault: the file that the oracle sees has another shape and another byte."""
    path = written(tmp_path, build(SAMPLES["shapes"])[0])
    with open_gguf(path) as checkpoint:
        other = tmp_path / "other.gguf"
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        place = data.index(b"\x02\0\0\0" + (3).to_bytes(8, "little") + (2).to_bytes(8, "little"))
        data[place + 4], data[place + 12] = 2, 3
        other.write_bytes(data)
        assert [phrase.split()[0] for phrase in differences(checkpoint, other, package)] == ["shape", "bytes"]


def test_every_known_type_is_read_or_refused_by_its_name(tmp_path: Path, package: Any) -> None:
    assert {kind.value for kind in package.GGMLQuantizationType} <= set(TENSOR_TYPES)
    for kind in package.GGMLQuantizationType:
        name, element = TENSOR_TYPES[kind.value]
        assert name == kind.name
        row = gguf_files.Row(b"w", (256,), kind.value, data=bytes(2048))
        error = refusal(written(tmp_path, build(gguf_files.File((), (row,)))[0]))
        assert (error is None) == bool(element)
        assert error is None or (error.code == "F136" and kind.name in error.what)
        if element:
            assert gguf_files.BLOCKS[kind.value] == package.GGML_QUANT_SIZES[kind]


def test_control_characters_and_long_names_stay_out_of_messages(tmp_path: Path) -> None:
    name = "\x1b[2J" + "n" * 60000
    error = refusal(written(tmp_path, build(gguf_files.File((number(name, gguf_files.BOOL, 9),)))[0]))
    assert error is not None and "\\x1b[2J" in error.what and "\x1b" not in error.what and len(error.what) < 200


def test_is_gguf_answers_for_anything(tmp_path: Path) -> None:
    assert not is_gguf(tmp_path)
    assert not is_gguf(tmp_path / "missing")
    assert not is_gguf(written(tmp_path, b""))
    assert not is_gguf(written(tmp_path, b"GGU"))
    assert is_gguf(written(tmp_path, b"GGUF and nonsense"))


def test_nothing_stays_open_after_a_refusal(tmp_path: Path) -> None:
    path = written(tmp_path, BROKEN["cut"].data())
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    for _ in range(50):
        assert refusal(path) is not None
    after = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0
    assert after <= before


_GREEDY = """
import sys
from pathlib import Path
from bittern.base.errors import BitternError
from bittern.front.gguf import open_gguf

def peak():  # not getrusage, which may still show the peak of the parent
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

start = peak()
try:
    open_gguf(Path(sys.argv[1]))
except BitternError as error:
    print(error.code, peak() - start)
"""


def _many_objects() -> bytes:
    """As many keys and tensors as are allowed, in the fewest bytes."""
    keys = tuple(number(f"{i:x}", gguf_files.F64, i + 0.5) for i in range(gguf.KEY_LIMIT))
    rows = tuple(gguf_files.Row(f"{i:x}".encode(), (1,), 24, offset=0, data=b"") for i in range(gguf.TENSOR_LIMIT))
    return build(gguf_files.File(keys, rows, after=b"\0"))[0]


def _wide_strings(length: int, total: int) -> bytes:
    """Strings of letters that one sign at their end makes four bytes wide in memory; two tensors in one place."""
    word = gguf_files.text(b"v" * (length - 4) + "\U0001f600".encode())
    count = total // len(word)
    key = gguf_files.Key(b"w", gguf_files.ARRAY, struct.pack("<IQ", gguf_files.STRING, count) + word * count)
    rows = tuple(gguf_files.Row(name, (1,), 24, offset=0, data=b"") for name in (b"a", b"b"))
    return build(gguf_files.File((key,), rows, after=b"\0"))[0]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (_many_objects, "F140"),  # two tensors in one place: found last, so the whole header was read
        (partial(_wide_strings, gguf.STRING_LIMIT, 52 << 20), "F140"),
        (partial(_wide_strings, 40, 24 << 20), "F140"),
        (partial(_wide_strings, 40, 64 << 20), "F114"),
        (partial(_wide_strings, 5, 24 << 20), "F114"),
    ],
    ids=["objects", "long strings", "short strings", "more short strings", "tiny strings"],
)
def test_the_greediest_headers_keep_to_their_memory(make: Callable[[], bytes], code: str, tmp_path: Path) -> None:
    """Four times the file and 64 MiB at most, above what the process has before."""
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of memory is read from /proc, which this system does not have")
    path = written(tmp_path, make())
    run = subprocess.run([sys.executable, "-c", _GREEDY, str(path)], capture_output=True, text=True, check=True)
    found, spent = run.stdout.split()
    allowed = 4 * path.stat().st_size + (64 << 20)
    print(f"{int(spent) >> 20} MiB of {allowed >> 20} MiB")
    assert found == code
    assert path.stat().st_size // 4 < int(spent) <= allowed


def test_smollm2_is_read_as_the_gguf_package_reads_it(smollm2: Path, package: Any) -> None:
    with open_gguf(smollm2) as checkpoint:
        assert len(checkpoint.tensors) == 272 and len(checkpoint.metadata) == 33
        assert checkpoint.tensors["blk.0.ffn_gate.weight"].shape == (1536, 576)
        assert differences(checkpoint, smollm2, package) == []


def test_gemma3_is_read_as_the_gguf_package_reads_it(gemma3: Path, package: Any) -> None:
    with open_gguf(gemma3) as checkpoint:
        assert {info.element.name for info in checkpoint.tensors.values()} == {"f32", "q8_0", "q5_0", "q4_k", "q6_k"}
        assert differences(checkpoint, gemma3, package) == []
