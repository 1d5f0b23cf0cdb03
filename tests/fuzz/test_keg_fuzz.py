"""Random damage to `.keg` files: bytes, cuts, and edits of the header behind a right frame.

Whatever is done, the reader refuses by a code, soon and within its memory, or returns functions whose ids prove them.
Run alone for longer: `python tests/fuzz/test_keg_fuzz.py SECONDS [SEED]`.
"""

import hashlib
import sys
import tempfile
import tracemalloc
from copy import deepcopy
from pathlib import Path
from random import Random
from time import monotonic, process_time
from typing import Any

import cbor2
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

from graph_builder import random_function

from bittern.base.errors import BitternError
from bittern.graph import keg_format as form
from bittern.graph.difference import nodes_of
from bittern.graph.keg import read_keg, write_keg
from bittern.graph.keg_tables import Tables
from bittern.graph.node import Function, functions_of
from bittern.graph.rules import check

SECONDS_ALLOWED = 0.25  # of the processor, for one refusal of a file of some kilobytes


def damage(data: bytes, rng: Random) -> bytes:
    """Return the bytes with a few of them changed, cut out, repeated or added."""
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 5)):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(5):
            case 0 if place < len(changed):
                changed[place] ^= 1 << rng.randrange(8)
            case 1:
                del changed[place : place + rng.randrange(1, 200)]
            case 2:
                changed[place:place] = rng.randbytes(rng.randrange(1, 100))
            case 3:
                changed = changed[:place]
            case _:
                changed[place:place] = changed[: rng.randrange(1, 200)]
    return bytes(changed)


def edit(header: Any, rng: Random) -> Any:
    """Return the plain values with one place in them replaced, dropped, repeated or moved."""
    places: list[tuple[Any, Any]] = []
    stack = [header]
    while stack:
        current = stack.pop()
        keys = list(current) if isinstance(current, dict) else range(len(current))
        for key in keys:
            places.append((current, key))
            if isinstance(current[key], list | dict):
                stack.append(current[key])
    holder, key = rng.choice(places)
    other_holder, other_key = rng.choice(places)
    old = holder[key]
    values = [
        0, 1, -1, 2**40, True, None, "", "f32", "add", b"", bytes(32), [], {}, [[1, []]], {"dim": 0}, {"function": 0},
        rng.randrange(64), deepcopy(other_holder[other_key]),
        old + rng.choice([-1, 1]) if type(old) is int else old,
        old[::-1] if isinstance(old, bytes | str | list) else old,
    ]  # fmt: skip
    if isinstance(holder, list) and rng.random() < 0.3:
        match rng.randrange(3):
            case 0:
                del holder[key]
            case 1:
                holder.insert(rng.randrange(len(holder) + 1), old)
            case _:
                rng.shuffle(holder)
    else:
        holder[key] = rng.choice(values)
    return header


def forged(data: bytes, rng: Random) -> bytes:
    """Return a file with an edited header in a right frame."""
    length = form.PREAMBLE.unpack_from(data)[2]
    blobs = data[form.aligned(64 + length) :]
    header = cbor2.loads(data[64 : 64 + length])
    for _ in range(rng.randrange(1, 4)):
        header = edit(header, rng)
    return framed(header, blobs)


def framed(header: Any, blobs: bytes) -> bytes:
    """Return a file of this header and these blobs with a right frame."""
    encoded = cbor2.dumps(header, canonical=True)
    start = form.aligned(64 + len(encoded))
    frame = form.PREAMBLE.pack(form.MAGIC, 1, len(encoded), start + len(blobs), hashlib.sha256(encoded).digest())
    return (frame + encoded).ljust(start, b"\0") + blobs


def rehashed(function: Function) -> bytes:
    """Return the id of a function, computed again from its parts."""
    return Function(
        function.dims, function.params, function.result, function.facts, function.effects, function.ideal
    ).id


def attack(path: Path, content: bytes) -> tuple[str, set[bytes]]:
    """Read damaged bytes; return the code of the refusal, or '' and the ids of what was read."""
    path.write_bytes(content)
    start = process_time()
    try:
        keg = read_keg(path)
    except BitternError as fault:
        assert process_time() - start < SECONDS_ALLOWED, f"{fault} took {process_time() - start:.3f} s"
        assert fault.code in form.CODES_OF_READING, fault
        assert str(path) in fault.what
        return fault.code, set()
    for function in keg.functions.values():
        assert rehashed(function) == function.id
        check(function)
    return "", {function.id for function in keg.functions.values()}


def parts_of(function: Function) -> set[bytes]:
    """Return the ids of a function and of all functions that it names."""
    return {function.id, *(f.id for n in nodes_of(function) for f in functions_of(n))}


def fuzz(seconds: float, seed: int, folder: Path) -> dict[str, int]:
    """Attack for some seconds; return how often each code came, '' for files that were read."""
    rng, path = Random(seed), folder / "a.keg"
    codes: dict[str, int] = {}
    end = monotonic() + seconds
    while monotonic() < end:
        function = random_function(rng.randrange(2**32), rng.randrange(2, 10), 1)
        write_keg(path, {"main": function}, notes={"a": "b"})
        data, proven = path.read_bytes(), parts_of(function)
        for _ in range(20):
            content = rng.choice([damage, forged, forged])(data, rng)
            code, read = attack(path, content)
            assert read <= proven, f"seed {seed}: a program was read that nobody wrote"
            codes[code] = codes.get(code, 0) + 1
    return codes


@pytest.mark.req("K005")
def test_damaged_files_are_refused_by_code(tmp_path: Path) -> None:
    seed = 20240229
    codes = fuzz(1.0, seed, tmp_path)
    assert len(codes) >= 8, f"seed {seed}: {codes}"


def test_memory_stays_small(tmp_path: Path) -> None:
    rng, path = Random(7), tmp_path / "a.keg"
    write_keg(path, {"main": random_function(3, 10, 1)})
    data = path.read_bytes()
    tracemalloc.start()
    for _ in range(60):
        content = rng.choice([damage, forged])(data, rng)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        attack(path, content)
        assert tracemalloc.get_traced_memory()[1] - before <= 4 * len(content) + (64 << 20)
    tracemalloc.stop()


def test_a_reader_that_skips_the_id_check_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: without the check a forged program is read, and its id is none that was written."""
    path, function = tmp_path / "a.keg", random_function(8, 10, 1)
    write_keg(path, {"main": function})
    data = path.read_bytes()
    length = form.PREAMBLE.unpack_from(data)[2]
    header = cbor2.loads(data[64 : 64 + length])
    row = next(row for row in header["entries"] if row[2] in ("add", "mul", "sub", "min"))
    row[2] = "max"
    content = framed(header, data[form.aligned(64 + length) :])
    assert attack(path, content) == ("F212", set())
    monkeypatch.setattr(Tables, "_expect_id", lambda *_: None)
    code, read = attack(path, content)
    assert code == "" and not read <= parts_of(function)


if __name__ == "__main__":
    import resource

    chosen = int(sys.argv[2]) if len(sys.argv) > 2 else int(monotonic() * 1000) % 2**32
    print(f"seed {chosen}")
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # a fault in here must not eat the machine
    with tempfile.TemporaryDirectory() as temporary:
        print(dict(sorted(fuzz(float(sys.argv[1]), chosen, Path(temporary)).items())))
