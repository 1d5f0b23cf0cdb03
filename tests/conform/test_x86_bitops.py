"""Every kind on every element, and kernels, as code of every tier: the bits are the interpreter's.

The lane-wise cases come from the table of kinds; a kind that no case here compiles is a fault.
"""

from random import Random
from typing import Any

import numpy as np
import pytest
import x86_kernels
from x86_kernels import NAMES, compiled, compiled_kinds, equal, fused, mnemonics, run_both, tier_of
from x86_walks import MEMORY, Walker

import bitops_cases  # isort: skip
import test_expand_lanes as moves  # isort: skip
from bitops_cases import Case  # isort: skip
from bitops_examples import EXAMPLES  # isort: skip
from test_random_kernels import ELEMENTS, SIZE, Grower  # isort: skip

from bittern.base.errors import BitternError
from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Kernel
from bittern.bitops.kinds import KINDS, kinds
from bittern.bitops.lanes import lanes
from bittern.chips.x86.features import Tier
from bittern.chips.x86.run import run_kernel
from bittern.chips.x86.select import arithmetic
from bittern.chips.x86.select.table import LANE_WISE, Row

PARTS = {name: list(part) for name, part in zip("abcdef", np.array_split(sorted(kinds()), 6), strict=True)}
CASES = list(bitops_cases.cases())
EXACT = ("bits", "round", "select", "reinterpret")  # whose NaN is stated, or passed on
_INPUTS: dict[tuple[str, ...], list[Any]] = {}


def inputs(elements: tuple[str, ...]) -> list[Any]:
    """Return operands: edges with one another, and random bits."""
    if elements not in _INPUTS:
        rng = np.random.default_rng(2)
        grid = bitops_cases.inputs(elements, rng)
        chosen = rng.permutation(len(grid[0]))[:1536] if len(grid[0]) > 3000 else np.arange(len(grid[0]))
        columns = [np.concatenate([g[chosen], g[:512]]) for g in grid]
        _INPUTS[elements] = [np.ascontiguousarray(np.resize(c, 2048)) for c in columns]
    return _INPUTS[elements]


def counts_of(case: Case, tier: Tier) -> set[int]:
    """Return the numbers of lanes to try a case with: one, a register of the tier, a small part of it."""
    kind, elements, attributes = case
    types = [lanes(e) for e in elements]
    (result,) = KINDS[kind].rule(tuple(types), attributes)
    widest = max((t.element.bits for t in (*types, result) if not t.is_mask), default=8)
    full = 8 * tier.vector // widest
    return {1, full} | ({max(2, full // 8)} if tier.vector == 64 else set())


def check(case: Case, count: int, tier: Tier) -> None:
    """Compare a case on vectors with the meaning of its row."""
    kind, elements, _ = case
    operands = inputs(elements)
    if {"f32", "bf16"} <= {*elements, case[2].get("to", "")}:  # only NaNs whose upper half says so
        operands = [np.where(np.isnan(x), np.float32(np.nan), x) if x.dtype == np.float32 else x for x in operands]
    of, wanted = bitops_cases.meant(case, operands)
    found = np.zeros(len(operands[0]), of.dtype)
    arrays = {f"x{k}": x.astype(np.uint8) if x.dtype == bool else x for k, x in enumerate(operands)}
    made = compiled(bitops_cases.vector_kernel(case, count), tier)
    run_kernel(made, (len(found),), {**arrays, "y": found})
    wanted = np.asarray(wanted, of.dtype)
    assert bitops_cases.same_bits(of, found, wanted, kind in EXACT), (case, count)
    assert not fused(mnemonics(made)) if kind in ("mul", "add", "round") else True


@pytest.mark.req("C073")
@pytest.mark.parametrize("part", sorted(PARTS))
@pytest.mark.parametrize("name", NAMES)
def test_lane_wise_kinds(name: str, part: str) -> None:
    tier, done = tier_of(name), 0
    for case in CASES:
        if case[0] in PARTS[part]:
            for count in counts_of(case, tier):
                check(case, count, tier)
                done += 1
    assert done > 10 or part == "f"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("example", sorted(EXAMPLES))
def test_example_kernels(example: str, name: str) -> None:
    given, tier = EXAMPLES[example](), tier_of(name)
    for threads in (1, 2, 5):
        found, _ = run_both(given.kernel, tier, given.buffers, given.dims, threads=threads)
        for buffer, wanted in given.expected.items():
            assert found[buffer].tobytes() == wanted.tobytes(), (buffer, threads)


def check_bytes(kernel: Kernel, tier: Tier, **parameters: int) -> None:
    """Compare a kernel over 256 bytes x and 256 bytes y."""
    x = np.random.default_rng(11).integers(0, 256, moves.SIZE, dtype=np.uint8)
    buffers = {"x": x, "y": np.arange(moves.SIZE, dtype=np.uint8)}
    found, wanted = run_both(kernel, tier, buffers, (), parameters)
    assert equal(found, wanted), np.flatnonzero(found["y"] != wanted["y"])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of", ["u8x64", "i16x32", "f32x16", "u64x8", "u8x16", "f16x16", "i32x4"])
def test_lanes_that_move(of: str, name: str) -> None:
    for kind in ("shuffle", "halves", "lanes", "broadcast", "mask", "reinterpret"):
        check_bytes(moves.built(moves.moving(kind, of)), tier_of(name))


LOOKUPS = [
    ("u8x64", "u8x64", 1), ("u8x64", "u8x64", 2), ("u8x16", "u8x16", 1), ("u8x64", "u8x16", 4), ("u8x16", "f32x16", 1),
    ("u32x16", "u32x16", 1), ("u16x32", "i16x32", 2), ("u8x32", "u8x32", 8), ("u8x64", "u8x16", 1),
    ("u8x16", "u8x64", 2), ("u32x16", "f32x8", 2), ("u32x4", "f32x4", 1), ("u64x8", "f64x8", 2), ("u64x2", "i64x2", 1),
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_lookups(name: str) -> None:
    for codes, table, tables in LOOKUPS:
        size = lanes(table).bytes

        def body(b: Builder, x: Any, y: Any, row: Any = (codes, table, tables, size)) -> None:
            codes, table, tables, size = row
            places = [(k * size) % (moves.SIZE - size + 1) for k in range(tables)]
            y.store(0, x.load(codes, 0).lookup(*[x.load(table, place) for place in places]))

        check_bytes(moves.built(body), tier_of(name))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("of", ["u8x64", "u16x32", "f32x16", "u64x8", "u8x16", "f32x4", "u8x8", "f32x2", "u16x4"])
def test_masked_accesses(of: str, name: str) -> None:
    of_, tier = lanes(of), tier_of(name)
    each = of_.element.bits // 8

    def body(b: Builder, x: Any, y: Any) -> None:
        count = b.index(moves.Handle(b, b.parameters[0].value))
        mask = b.first(count, of_.count)
        value = x.load(of, moves.SIZE - count * each, mask)
        y.store(3, value, mask & value.reinterpret(f"u{8 * each}").ne(0))

    kernel = moves.built(body, count=(-2, of_.count))
    for count in {-2, 0, 1, of_.count // 2 + 1, of_.count}:
        check_bytes(kernel, tier, count=count)


@pytest.mark.parametrize("name", NAMES)
def test_packed_codes_gathers_dots_control(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tier: Any = tier_of(name)
    monkeypatch.setattr(moves, "check", lambda kernel, target, **given: check_bytes(kernel, tier, **given))
    for bits in range(1, 9):
        moves.test_packed_codes(bits, tier)
    for of, steps in (("f32x16", "i32x16"), ("u8x16", "u8x16"), ("u64x8", "u64x8")):
        moves.test_gather(of, steps, tier)
    moves.test_dots(tier)
    moves.test_control(tier)


@pytest.mark.parametrize("name", NAMES)
def test_random_kernels(name: str) -> None:
    """The seed is part of the message; what it finds becomes a case."""
    tier = tier_of(name)
    for seed in range(30 if tier.vector > 16 else 10):
        count = (8, 16, 4, 32)[seed % 4]
        kernel = Grower(Random(seed), count).grown()
        rng = np.random.default_rng(5)
        buffers = {e: bitops_cases.random(e, SIZE * count, rng) for e in ELEMENTS}
        found, wanted = run_both(kernel, tier, buffers, (SIZE,))
        same = [bitops_cases.same_bits(lanes(e), found[e], wanted[e], False) for e in ELEMENTS]
        assert all(same), f"seed {seed}, {count} lanes"


@pytest.mark.parametrize("name", NAMES)
def test_random_walks_through_memory(name: str) -> None:
    """The seed is part of the message; what it finds becomes a case."""
    tier, rng = tier_of(name), np.random.default_rng(1)
    buffers = {
        "x": rng.integers(0, 2**32, MEMORY, dtype=np.uint32),
        "c": rng.integers(0, 256, 256, dtype=np.uint8),
        "y": rng.integers(0, 2**32, MEMORY, dtype=np.uint32),
    }
    first = 100 * NAMES.index(name)
    for seed in range(first, first + 12):
        kernel = Walker(Random(seed)).walked()
        assert equal(*run_both(kernel, tier, buffers, (3,))), f"seed {seed}"


@pytest.mark.parametrize("name", NAMES)
def test_dots_of_masked_bytes(name: str) -> None:
    """Masks decide how the tiers without VNNI multiply; the numbers are the largest that there are."""
    for mask in (0x0F, 0xF0, 0x80, 0x81, 0x7F, 0x30, 0xFF, 0xFE, 0x08):

        def body(b: Builder, x: Any, y: Any, mask: int = mask) -> None:
            zero = x.load("u8x64", 0) ^ x.load("u8x64", 0)
            edge = b.const("i8x64", [(-128, 127, -128, -128)[k % 4] for k in range(64)]).reinterpret("u8") | zero
            y.store(0, (x.load("u8x64", 0) & mask).dot(x.load("i8x64", 64), x.load("i32x16", 128)))
            y.store(64, ((zero | 255) & mask).dot(edge.reinterpret("i8")))

        check_bytes(moves.built(body), tier_of(name))


def test_a_barrier_and_a_large_scratch_are_refused() -> None:
    b = Builder("meeting", ("n",))
    with b.parallel(0, b.dims[0]):
        b.barrier()
    with pytest.raises(BitternError, match="barrier inside"):
        compiled(b.build(), tier_of("sse2"))
    b = Builder("heap")
    b.buffer("s", "u8", 1 << 19, "scratch").store(0, b.const("u8", 1))
    with pytest.raises(BitternError, match="larger than 262144 bytes") as refused:
        compiled(b.build(), tier_of("sse2"))
    assert refused.value.code == "R166"


@pytest.mark.parametrize("name", NAMES)
def test_wide_products(name: str) -> None:
    """Even lanes of all edges with all edges; what lies in the odd lanes does not matter."""
    edges = bitops_cases.edges("i32")
    pairs = np.stack([np.repeat(edges, len(edges)), np.tile(edges, len(edges))])
    rng = np.random.default_rng(3)
    for count in (4, 8, 16):
        b = Builder("wide")
        x, y = (b.buffer(each, "i32", count, "read") for each in "xy")
        b.buffer("z", "i64", count // 2, "write").store(
            0, x.load(f"i32x{count}", 0).binary("mul_wide", y.load(f"i32x{count}", 0))
        )
        made = compiled(b.build(), tier_of(name))
        for start in range(0, pairs.shape[1] - count // 2, count // 2):
            u, v = (rng.integers(-(1 << 31), 1 << 31, count).astype(np.int32) for _ in range(2))
            u[::2], v[::2] = pairs[:, start : start + count // 2]
            z = np.zeros(count // 2, np.int64)
            run_kernel(made, (), {"x": u, "y": v, "z": z})
            assert (z == u[::2].astype(np.int64) * v[::2]).all()


def test_no_kind_is_left_out() -> None:
    """Runs last in the file: the tests before it have compiled every kind of the table."""
    if not {"for", "gather", "lookup"} <= compiled_kinds:
        pytest.skip("the other tests of this file did not run here")
    missing = set(kinds()) - compiled_kinds
    assert not missing, missing


# --- planted faults


def small(kind: str, element: str, tier: Tier) -> None:
    """Check a kind on an element with a register of the tier."""
    case = next(c for c in CASES if c[0] == kind and c[1] == (element, element))
    check(case, 8 * tier.vector // lanes(element).element.bits, tier)


@pytest.mark.parametrize(
    ("kind", "element", "planted"),
    [
        ("add", "f32", Row("vsubps")),
        ("and", "u8", None),
        ("sub_sat", "u8", Row("vpsubb")),
        ("shr", "i32", Row("vpsrlvd")),
    ],
)
def test_a_wrong_opcode_is_found(kind: str, element: str, planted: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    tier = tier_of("avx2")
    if planted is None:
        monkeypatch.setattr("bittern.chips.x86.select.emission.Emission.op", _wrong_op(tier))
    else:
        monkeypatch.setitem(LANE_WISE, (kind, element), planted)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        case = next(c for c in CASES if c[0] == kind and c[1][0] == element)
        check(case, 8 * tier.vector // lanes(element).element.bits, tier)


def _wrong_op(tier: Tier) -> Any:
    from bittern.chips.x86.select.emission import Emission

    right = Emission.op

    def wrong(self: Any, mnemonic: str, *rest: Any, **named: Any) -> Any:
        return right(self, "vpor" if mnemonic == "vpand" else mnemonic, *rest, **named)

    return wrong


@pytest.mark.parametrize("name", NAMES)
def test_swapped_operands_of_min_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tier, right = tier_of(name), arithmetic.binary

    def swapped(s: Any, step: Any, row: Any) -> None:
        from dataclasses import replace

        right(s, replace(step, operands=step.operands[::-1]), row)

    small("min", "f32", tier)
    monkeypatch.setattr(arithmetic, "binary", swapped)
    with pytest.raises(AssertionError):
        small("min", "f32", tier)


def test_a_fused_instruction_is_found() -> None:
    made = compiled(EXAMPLES["q8_0_matvec"]().kernel, tier_of("avx2"))
    assert not fused(mnemonics(made))
    from dataclasses import replace

    planted = bytes.fromhex("c4e26da8cb") + made.code.data  # vfmadd213ps ymm1, ymm2, ymm3
    worse = replace(made, code=replace(made.code, data=planted, size=made.code.size + 5))
    assert fused(mnemonics(worse)) == ["VFMADD213PS"]


def test_a_wrong_share_of_the_rounds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given, tier = EXAMPLES["q8_0_matvec"](), tier_of("sse2")
    found, wanted = run_both(given.kernel, tier, given.buffers, given.dims, threads=2)
    assert equal(found, wanted)
    made = compiled(given.kernel, tier)
    alone = {name: array.copy() for name, array in given.buffers.items()}
    run_kernel(made, given.dims, alone, thread=1, threads=2)
    assert not equal(alone, wanted)


assert x86_kernels.NAMES == NAMES
