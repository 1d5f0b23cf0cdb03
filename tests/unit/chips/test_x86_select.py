"""What selection makes of small kernels: what is folded, where pointers are kept, what a loop comes out as."""

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from iced_x86 import Decoder, Formatter, FormatterSyntax

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.chips.x86 import compile as compile_module
from bittern.chips.x86.compile import Compiled, compile_kernel
from bittern.chips.x86.features import TIERS, Tier, is_here, read
from bittern.chips.x86.run import run_kernel
from bittern.chips.x86.select import control
from bittern.chips.x86.select.logic import reordered
from bittern.chips.x86.select.polynomial import atom, constant, number_of, plus, scaled, split, times
from bittern.chips.x86.select.selector import Selector
from bittern.chips.x86.select.shuffling import units

BEST, AVX2, SSE2 = TIERS[-1], TIERS[1], TIERS[0]
Array = npt.NDArray[Any]


def code_of(kernel: Kernel, tier: Tier = BEST) -> list[str]:
    """Return the instructions of a kernel as another disassembler prints them."""
    return text_of(compile_kernel(kernel, tier))


def text_of(made: Compiled) -> list[str]:
    """Return the instructions of a code."""
    formatter = Formatter(FormatterSyntax.INTEL)
    return [formatter.format(one) for one in Decoder(64, made.code.data[: made.code.size])]


def loop_of(code: list[str]) -> list[str]:
    """Return the last innermost loop: what lies between a jump back and the zero or copy before it."""
    ends = [k for k, line in enumerate(code) if line.split()[0] in ("jne", "jl")]
    starts = [k for k, line in enumerate(code[: ends[0]]) if line.startswith("nop")]
    return code[(starts[-1] + 1 if starts else 0) : ends[0] + 1]


def runs(kernel: Kernel, tier: Tier, buffers: dict[str, Array], dims: tuple[int, ...] = (), **given: Any) -> None:
    """Compare a run with the interpreter's, or skip where the processor lacks the tier."""
    if not is_here() or not tier.features <= read():
        pytest.skip(f"this processor does not run {tier.name}")
    wanted = {name: array.copy() for name, array in buffers.items()}
    interpret(kernel, wanted, dims, given)
    run_kernel(compile_kernel(kernel, tier), dims, buffers, given)
    for name, array in wanted.items():
        assert buffers[name].tobytes() == array.tobytes(), (name, tier.name)


def streamed(body: Callable[[Builder, Handle, dict[str, View]], None], rounds: int = 8) -> Kernel:
    """Return a kernel with a loop over 64 bytes of x a round; d has a number for each, y is written."""
    b = Builder("stream")
    views = {
        "x": b.buffer("x", "u8", 64 * rounds, "read"),
        "d": b.buffer("d", "f32", rounds, "read"),
        "q": b.buffer("q", "i32", rounds, "read"),
        "y": b.buffer("y", "u8", 64 * rounds, "update"),
    }
    with b.loop(0, rounds) as loop:
        (i,) = loop
        body(b, i, views)
    return b.build()


def arrays(rounds: int = 8) -> dict[str, Array]:
    """Return buffers for `streamed`."""
    rng = np.random.default_rng(3)
    return {
        "x": rng.integers(0, 256, 64 * rounds, dtype=np.uint8),
        "d": rng.standard_normal(rounds).astype(np.float32),
        "q": rng.integers(-9, 9, rounds).astype(np.int32),
        "y": np.zeros(64 * rounds, np.uint8),
    }


# --- what is folded


def test_a_broadcast_that_is_used_once_is_embedded() -> None:
    def once(b: Builder, i: Handle, v: dict[str, View]) -> None:
        v["y"].store(i * 64, v["x"].load("f32x16", i * 64) * v["d"].load("f32", i).broadcast(16))

    def twice(b: Builder, i: Handle, v: dict[str, View]) -> None:
        d = v["d"].load("f32", i).broadcast(16)
        v["y"].store(i * 64, v["x"].load("f32x16", i * 64) * d + d)

    loop = loop_of(code_of(streamed(once)))
    assert len(loop) <= 8 and any("vmulps" in line and "{1to16}" in line for line in loop), loop
    loop = loop_of(code_of(streamed(twice)))
    assert sum("vpbroadcastd" in line for line in loop) == 1 and not any("1to16" in line for line in loop)
    runs(streamed(once), BEST, arrays())
    runs(streamed(twice), BEST, arrays())


def test_a_dot_starts_from_its_sum_and_takes_codes_under_a_mask() -> None:
    def body(b: Builder, i: Handle, v: dict[str, View]) -> None:
        codes, column = v["x"].load("u8x64", i * 64), v["q"].load("i32", i).broadcast(16).reinterpret("i8")
        v["y"].store(i * 64, (codes & 15).dot(column))

    loop = loop_of(code_of(streamed(body)))
    names = [line.split()[0] for line in loop]
    assert names.count("vpdpbusd") == 1 and names.count("vpandd") == 1 and names.count("vpxord") == 1
    assert not any(line.startswith("vmov") and "[" not in line for line in loop), "no copies"
    assert any("vpdpbusd" in line and "{1to16}" in line for line in loop)


def test_conversions_read_memory() -> None:
    def body(b: Builder, i: Handle, v: dict[str, View]) -> None:
        wide = v["x"].load("f16x16", i * 64).convert("f32")
        v["y"].store(i * 64, wide + v["x"].load("u8x16", i * 64 + 32).convert("i32").convert("f32"))

    loop = loop_of(code_of(streamed(body)))
    assert any(line.startswith("vcvtph2ps zmm") and "[" in line for line in loop)
    assert any(line.startswith("vpmovzxbd zmm") and "[" in line for line in loop)


def test_a_load_does_not_move_behind_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(b: Builder, i: Handle, v: dict[str, View]) -> None:
        old = v["y"].load("f32x16", i * 64)
        v["y"].store(i * 64, v["x"].load("f32x16", i * 64))
        v["y"].store(i * 64, v["x"].load("f32x16", i * 64).max(b.const("f32x16", 0.5)) + old)

    for tier in TIERS:
        runs(streamed(body), tier, {**arrays(), "x": np.full(512, 0x41, np.uint8)})
    monkeypatch.setattr(Selector, "_may_change", lambda self, store, waiting: False)
    with pytest.raises(AssertionError):
        runs(streamed(body), BEST, {**arrays(), "x": np.full(512, 0x41, np.uint8)})


# --- logic


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_tables_follow_their_inputs(order: tuple[int, ...]) -> None:
    for table in range(256):
        found = reordered(table, list(order))
        for row in range(8):
            inputs = [row >> 2 & 1, row >> 1 & 1, row & 1]
            old = [0, 0, 0]
            for new, which in enumerate(order):
                old[which] = inputs[new]
            assert found >> row & 1 == table >> (old[0] << 2 | old[1] << 1 | old[2]) & 1


def test_trees_of_three_inputs_are_one_instruction() -> None:
    rng = Random(4)
    for _ in range(12):
        ops = [rng.choice(["and", "or", "xor"]) for _ in range(3)]
        flip = rng.random() < 0.5

        def body(b: Builder, i: Handle, v: dict[str, View], ops: Any = ops, flip: bool = flip) -> None:
            x = [v["x"].load("u32x16", i * 64), v["y"].load("u32x16", i * 64), v["q"].load("u32", i).broadcast(16)]
            first = x[0].binary(ops[0], ~x[1] if flip else x[1])
            v["y"].store(i * 64, ~first.binary(ops[1], x[2]).binary(ops[2], x[0]))

        kernel = streamed(body)
        names = [line.split()[0] for line in loop_of(code_of(kernel))]
        assert sum(n.startswith(("vpand", "vpor", "vpxor")) for n in names) == 0, names
        assert names.count("vpternlogd") == 1
        runs(kernel, BEST, arrays())


def test_a_wrong_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(b: Builder, i: Handle, v: dict[str, View]) -> None:
        x, y = v["x"].load("u32x16", i * 64), v["q"].load("u32", i).broadcast(16)
        v["y"].store(i * 64, (x & y) ^ (x | 0x0F0F0F0F))

    runs(streamed(body), BEST, arrays())
    monkeypatch.setattr("bittern.chips.x86.select.logic.reordered", lambda table, order: table ^ 2)
    with pytest.raises(AssertionError):
        runs(streamed(body), BEST, arrays())


# --- places


def test_accesses_that_differ_by_constants_share_a_pointer() -> None:
    def body(b: Builder, i: Handle, v: dict[str, View]) -> None:
        parts = [v["x"].load("u8x16", i * 64, offset=16 * k) for k in range(4)]
        v["y"].store(i * 64, parts[0] ^ parts[1] ^ parts[2] ^ parts[3])

    loop = loop_of(code_of(streamed(body)))
    assert sum(line.startswith("add r") for line in loop) == 2 and "dec" in loop[-2] and loop[-1].startswith("jne")


def test_an_index_with_a_scale_needs_no_pointer() -> None:
    b = Builder("scaled", ("n",))
    (n,) = b.dims
    x, y = b.buffer("x", "f32", n * 16, "read"), b.buffer("y", "f32", n * 16, "write")
    with b.loop(0, n * 16, 16) as loop:
        (i,) = loop
        y.store(i, x.load("f32x16", i) + 1.0)
    body = loop_of(code_of(b.build()))
    assert sum(line.startswith("add r") for line in body) == 1 and any("*4]" in line for line in body)
    for n_ in (0, 1, 5):
        u = np.random.default_rng(1).standard_normal(16 * n_).astype(np.float32)
        runs(b.build(), BEST, {"x": u, "y": np.zeros_like(u)}, (n_,))


def test_a_pointer_that_does_not_advance_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(b: Builder, i: Handle, v: dict[str, View]) -> None:
        v["y"].store(i * 64, v["x"].load("u8x64", i * 64))

    runs(streamed(body), BEST, arrays())
    monkeypatch.setattr(control, "_advance", lambda s, register, bytes_: None)
    with pytest.raises(AssertionError):
        runs(streamed(body), BEST, arrays())


def test_polynomials() -> None:
    x, y = atom(1), atom(2)
    square = times(plus(x, y), plus(x, y, -1))
    assert square == {(1, 1): 1, (2, 2): -1} and split(square, 1) is None
    assert split(plus(times(x, y), constant(5)), 2) == ({(1,): 1}, {(): 5})
    assert number_of(plus(scaled(x, 3), x, -3)) == 0 and number_of(constant(7)) == 7 and number_of(x) is None


def test_picks_in_wider_units() -> None:
    assert units([2, 3, 0, 1], 4, 8) == ([1, 0], 8)
    assert units([2, 3, 1, 0], 4, 8) == ([2, 3, 1, 0], 4)
    assert units(list(range(16)), 1, 8) == ([0, 1], 8)


def test_parts_of_a_register_are_carried_as_they_are() -> None:
    b = Builder("parts")
    x, y = b.buffer("x", "f32", 64, "read"), b.buffer("y", "f32", 64, "write")
    v = x.load("f32x16", 0)
    with b.loop(0, 3, 1, v.part(0, 8), v.part(0, 4), v.part(8, 8)) as loop:
        i, p, q, r = loop
        loop.carry(x.load("f32x16", i * 16).part(0, 8) + r, (p + r).part(0, 4) * q, p)
    p, q, r = loop.results
    for k, value in enumerate((p, q, r, v)):
        y.store(16 * k, value)
    floats = np.random.default_rng(1).standard_normal(64).astype(np.float32)
    for tier in TIERS:
        runs(b.build(), tier, {"x": floats, "y": np.zeros(64, np.float32)})


# --- threads, marks, refusals


@pytest.mark.parametrize("tier", TIERS, ids=lambda t: t.name)
def test_every_round_runs_on_one_thread(tier: Tier) -> None:
    if not is_here() or not tier.features <= read():
        pytest.skip(f"this processor does not run {tier.name}")
    b = Builder("rounds", ("n",))
    (n,) = b.dims
    y = b.buffer("y", "u32", n * 3 + 2, "update")
    with b.parallel(2, n * 3 + 2, 3) as i:
        y.store(i, y.load("u32", i) + 1)
    made = compile_kernel(b.build(), tier)
    for rounds in (0, 1, 2, 7, 64):
        for threads in (1, 2, 3, 8):
            found, wanted = np.zeros(3 * rounds + 2, np.uint32), np.zeros(3 * rounds + 2, np.uint32)
            for thread in range(threads):
                run_kernel(made, (rounds,), {"y": found}, thread=thread, threads=threads)
            wanted[2::3] = 1
            assert (found == wanted).all(), (rounds, threads)
            alone = np.zeros(3 * rounds + 2, np.uint32)
            run_kernel(made, (rounds,), {"y": alone}, thread=threads - 1, threads=threads)
            mine = range(rounds * (threads - 1) // threads, rounds)
            assert list(np.flatnonzero(alone)) == [2 + 3 * r for r in mine]


def test_labels_become_ranges_of_addresses() -> None:
    b = Builder("marked")
    x, y = b.buffer("x", "f32", 16, "read"), b.buffer("y", "f32", 16, "write")
    with b.labelled("first"):
        v = x.load("f32x16", 0) * 3.0
    with b.labelled("second"):
        y.store(0, v.unary("sqrt"))
    marks = compile_kernel(b.build(), BEST).marks
    assert [text for _, text in marks if text] == ["first", "second"] and [p for p, _ in marks] == sorted(
        p for p, _ in marks
    )


def test_wrong_arrays_do_not_run() -> None:
    if not is_here():
        pytest.skip("this machine does not run x86-64 code of System V")
    made = compile_kernel(streamed(lambda b, i, v: v["y"].store(i * 64, v["x"].load("u8x16", i * 64))), SSE2)
    for name, wrong in (("x", np.zeros(511, np.uint8)), ("d", np.zeros(8)), ("y", np.zeros(1024, np.uint8)[::2])):
        with pytest.raises(AssertionError):
            run_kernel(made, (), {**arrays(), name: wrong})
    with pytest.raises(AssertionError):
        run_kernel(made, (1,), arrays())


def test_many_constants_go_to_memory() -> None:
    def body(b: Builder, i: Handle, v: dict[str, View]) -> None:
        x = v["x"].load("f32x16", i * 64)
        for k in range(40):
            x = x * (1.5 + k) + (k - 7.25)
        v["y"].store(i * 64, x)

    for tier in TIERS:
        made = compile_kernel(streamed(body), tier)
        assert made.counts.loads == 0 and made.counts.stores == 0, (tier.name, made.counts)
        runs(streamed(body), tier, arrays())


def test_scratch_lies_in_an_aligned_frame() -> None:
    b = Builder("scratch")
    x, y = b.buffer("x", "u32", 64, "read"), b.buffer("y", "u32", 64, "write")
    s = b.buffer("s", "u32", 64, "scratch")
    with b.loop(0, 64, 16) as loop:
        (i,) = loop
        s.store(i, x.load("u32x16", i))
    with b.loop(0, 64) as loop:
        (i,) = loop
        y.store(i, s.load("u32", b.index(63) - i))
    for tier in TIERS:
        numbers = np.arange(64, dtype=np.uint32)
        runs(b.build(), tier, {"x": numbers, "y": np.zeros(64, np.uint32)})
        assert compile_kernel(b.build(), tier).frame >= 256


def test_no_rule_puts_together_what_was_expanded() -> None:
    dropped = {"select_min", "select_max", "rotate", "rotate_turned"}
    assert {rule.name for rule in compile_module._RULES}.isdisjoint(dropped)
    case = streamed(lambda b, i, v: v["y"].store(i * 64, v["x"].load("u64x8", i * 64).min(7)))
    runs(case, AVX2, arrays())
    runs(replace(case, name="again"), SSE2, arrays())
