"""The interpreter: control flow, barriers, races, private scratch, counts."""

import numpy as np
import pytest

from bittern.bitops.builder import Builder
from bittern.bitops.interpret import Fault, interpret
from bittern.bitops.kernel import Kernel


def meeting(barrier: bool) -> Kernel:
    """Let each of four rounds write its place, then read its neighbour's."""
    b = Builder("meeting")
    x, y = b.buffer("x", "i64", 4, "update"), b.buffer("y", "i64", 4, "write")
    with b.parallel(0, 4) as i:
        x.store(i, i.convert("i64") * 10)
        if barrier:
            b.barrier()
        y.store(i, x.load("i64", (i + 1) % 4))
    return b.build()


@pytest.mark.parametrize("backward", [False, True])
def test_a_barrier_orders_writes_and_reads(backward: bool) -> None:
    x, y = np.zeros(4, np.int64), np.zeros(4, np.int64)
    counts = interpret(meeting(True), {"x": x, "y": y}, backward=backward)
    assert y.tolist() == [10, 20, 30, 0] and counts.steps["barrier"] == 4


def test_a_race_is_found() -> None:
    for backward in (False, True):
        with pytest.raises(Fault, match="race"):
            interpret(meeting(False), {"x": np.zeros(4, np.int64), "y": np.zeros(4, np.int64)}, backward=backward)


def test_an_uneven_barrier_is_found() -> None:
    b = Builder("uneven")
    with b.parallel(0, 2) as i, b.when(i < 1):
        b.barrier()
    with pytest.raises(Fault, match="same barrier"):
        interpret(b.build(), {})


def test_scratch_is_private_and_junk() -> None:
    b = Builder("scratch")
    s, y = b.buffer("s", "u8", 1, "scratch"), b.buffer("y", "u8", 8, "update")
    with b.parallel(0, 4) as i:
        y.store(i, s.load("u8", 0))
        s.store(0, i.wrap("u8"))
        b.barrier()
        y.store(i + 4, s.load("u8", 0))
    y = np.zeros(8, np.uint8)
    interpret(b.build(), {"y": y})
    assert y.tolist() == [0xA5] * 4 + [0, 1, 2, 3]


def test_while_ends_by_its_test_or_its_limit() -> None:
    def run(limit: int, start: int) -> list[int]:
        b = Builder("halving")
        y = b.buffer("y", "i64", 2, "write")
        r = b.repeat(limit, b.const("i64", start), b.const("i64", 0))
        with r.test as (_, x, count):
            r.keep(x > 1)
        with r.body as (_, x, count):
            r.carry(x // 2, count + 1)
        y.store(0, r.results[0])
        y.store(1, r.results[1])
        found = np.zeros(2, np.int64)
        interpret(b.build(), {"y": found})
        return list(found.tolist())

    assert run(100, 37) == [1, 5] and run(3, 37) == [4, 3] and run(0, 37) == [37, 0] and run(9, 1) == [1, 0]


def test_loops_run_upwards_from_low_below_high() -> None:
    b = Builder("loop")
    y = b.buffer("y", "i64", 1, "write")
    with b.loop(3, 12, 4, b.const("i64", 0)) as loop:
        i, total = loop
        loop.carry(total * 100 + i.convert("i64"))
    y.store(0, loop.results[0])
    found = np.zeros(1, np.int64)
    interpret(b.build(), {"y": found})
    assert found[0] == 30711


def test_parameters_and_counts() -> None:
    b = Builder("given", ("n",))
    x, y = b.buffer("x", "f32", b.dims[0], "update"), b.buffer("y", "f16", 16, "write")
    at, factor = b.parameter("at", "index", 0, b.dims[0] - 16), b.parameter("factor", "f32")
    value = x.load("f32x16", at) * factor.broadcast(16)
    x.store(at, value)
    y.store(0, value.round("f16"), b.first(5, 16))
    u, v = np.arange(20, dtype=np.float32), np.zeros(16, np.float16)
    counts = interpret(b.build(), {"x": u, "y": v}, (20,), {"at": 3, "factor": 0.5})
    assert (
        u.tolist() == [0, 1, 2, *(k / 2 for k in range(3, 19)), 19] and v.tolist() == [1.5, 2, 2.5, 3, 3.5] + [0] * 11
    )
    assert counts.read == {"x": 64} and counts.written == {"x": 64, "y": 10} and counts.steps["mul"] == 1


def test_an_access_outside_is_found_whatever_was_proven() -> None:
    b = Builder("outside")
    x = b.buffer("x", "f32", 16, "update")
    x.store(1, x.load("f32x16", 0))
    with pytest.raises(Fault, match="`store` at bytes 4 to 68 of `x`, which has 64"):
        interpret(b.build(), {"x": np.zeros(16, np.float32)})
