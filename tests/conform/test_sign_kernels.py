"""Layers on packed bits as machine code of each tier equal a plain integer computation bit for bit."""

from dataclasses import replace

import numpy as np
import pytest
from sign_cases import (
    SIGNED_TWO,
    SIGNS,
    TERNARY,
    TWO,
    Array,
    Case,
    convolved,
    make,
    packed,
    planes_of,
    pooled,
    reached,
    run,
    thresholds,
)

from bittern.bitops.interpret import interpret
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.features import TIERS, Tier, is_here, read, tier
from bittern.chips.x86.run import run_kernel
from bittern.kernels.bits_of_sums import bits_of_sums, table_rows
from bittern.kernels.code_product import (
    Codes,
    code_arithmetic,
    code_base,
    code_counts,
    code_product,
    packed_codes,
)
from bittern.kernels.field import Field
from bittern.kernels.limits import bases, limits, sign_base
from bittern.kernels.pool_planes import pool_planes
from bittern.kernels.sign_product import Coding, sign_arithmetic, sign_product
from bittern.kernels.window_results import Stage, tiles

pytestmark = pytest.mark.skipif(not is_here(), reason="this processor or system does not run x86-64 code")

DENSE = Field()
PADDED = Field((6, 7), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1))
STRIDED = Field((9, 12), (3, 2), (2, 3), (2, 2), (1, 2), (2, 0))
WHOLE = Field((2, 3), (2, 3))
CHANNELS = (1, 31, 33, 63, 64, 65, 127)
SIGN_PLANES, TWO_PLANES, CODE_PLANES = ((0,),), ((0,), (1,)), ((0, 1, 2), (1,))


def best_tier() -> Tier:
    """The fastest tier of this processor."""
    return tier(read())


def tier_named(name: str) -> Tier:
    """A tier, or skip where this processor lacks it."""
    wanted = next(each for each in TIERS if each.name == name)
    if not wanted.features <= read():
        pytest.skip(f"this processor lacks {sorted(wanted.features - read())}")
    return wanted


def check_scores(case: Case, of: Tier, symbol: bool = False) -> None:
    """Compare the sums."""
    found = run(case, Stage(), of, symbol=symbol)
    assert (found.reshape(case.sums.shape) == case.sums).all(), case.field


def check_planes(case: Case, of: Tier, planes: tuple[tuple[int, ...], ...], pool: tuple[int, int] = (1, 1)) -> None:
    """Compare packed bits."""
    k = max(map(max, planes)) + 1
    at, falling = thresholds(case, k)
    found = run(case, Stage(k, planes, pool=pool), of, at, falling).view(np.uint64)
    wanted = planes_of(pooled(reached(case, at, falling), pool), planes)
    assert (found == wanted.reshape(-1)).all(), (case.field, planes)


@pytest.mark.req("C019", "C045")
@pytest.mark.parametrize("channels", CHANNELS)
def test_dense_layers_of_any_number_of_channels(channels: int) -> None:
    for batch in (1, 64):
        case = make(DENSE, channels, 21, batch, "signs", SIGNS, None)
        check_scores(case, best_tier())
        check_planes(case, best_tier(), SIGN_PLANES)


@pytest.mark.req("C019", "C046")
@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("padding", [None, 1, -1])
def test_convolutions_with_every_padding(channels: int, padding: int | None) -> None:
    case = make(PADDED, channels, 18, 2, "signs", SIGNS, padding)
    check_scores(case, best_tier())
    check_planes(case, best_tier(), SIGN_PLANES)


@pytest.mark.parametrize("padding", [None, 1])
def test_strides_and_dilations(padding: int | None) -> None:
    case = make(STRIDED, 129, 16, 2, "signs", SIGNS, padding)
    check_scores(case, best_tier())
    check_planes(case, best_tier(), SIGN_PLANES)


@pytest.mark.req("C020", "C081")
@pytest.mark.parametrize("weights", ["signs", "ternary", "u2", "i2", "i3"])
@pytest.mark.parametrize("coding", [SIGNS, TERNARY, TWO, SIGNED_TWO], ids=["b1", "t", "u2", "i2"])
def test_few_bits_meet_few_bits(weights: str, coding: Coding) -> None:
    case = make(PADDED, 70, 17, 1, weights, coding, -1 if coding == SIGNS else 0)
    check_scores(case, best_tier())
    for planes in (SIGN_PLANES, TWO_PLANES, CODE_PLANES):
        check_planes(make(DENSE, 70, 17, 9, weights, coding, None), best_tier(), planes)


@pytest.mark.parametrize("name", [each.name for each in TIERS])
def test_each_tier(name: str) -> None:
    of = tier_named(name)
    for case in (make(DENSE, 65, 18, 9, "signs", SIGNS, None), make(PADDED, 33, 18, 1, "ternary", TERNARY, 0)):
        check_scores(case, of)
        check_planes(case, of, TWO_PLANES)
    check_planes(make(PADDED, 33, 18, 1, "signs", SIGNS, None), of, SIGN_PLANES, (2, 2))


def test_any_number_of_samples() -> None:
    for batch in (1, 7, 8, 13):
        check_scores(make(DENSE, 200, 40, batch, "signs", SIGNS, None), best_tier(), symbol=True)
        check_scores(make(PADDED, 20, 16, batch, "signs", SIGNS, 1), best_tier(), symbol=True)


def test_a_window_of_the_whole_image() -> None:
    check_planes(make(WHOLE, 70, 20, 3, "ternary", TERNARY, None), best_tier(), TWO_PLANES)
    check_planes(make(WHOLE, 33, 20, 12, "signs", SIGNS, None), best_tier(), SIGN_PLANES)


def test_pools_are_joined() -> None:
    uneven = Field((8, 9), (3, 3), (1, 1), (1, 1), (1, 1), (1, 2))
    check_planes(make(uneven, 33, 20, 2, "signs", SIGNS, None), best_tier(), SIGN_PLANES, (2, 2))
    check_planes(make(uneven, 33, 80, 2, "ternary", TERNARY, 0), best_tier(), TWO_PLANES, (2, 3))


@pytest.mark.parametrize(("k", "element", "low", "step"), [(1, "i8", -1, 2), (3, "u8", 0, 1), (15, "i8", -8, 1)])
def test_codes_one_to_a_byte(k: int, element: str, low: int, step: int) -> None:
    for m in (20, 32):
        case = make(PADDED, 33, m, 2, "signs", SIGNS, None)
        at, falling = thresholds(case, k)
        found = run(case, Stage(k, (), element, low, step), best_tier(), at, falling)
        assert (found == (low + step * reached(case, at, falling)).reshape(-1)).all()


@pytest.mark.req("C020")
@pytest.mark.parametrize("element", ["u8", "i8"])
def test_bytes_meet_few_bits(element: str) -> None:
    for field, channels, m, batch in ((DENSE, 75, 33, 1), (DENSE, 64, 33, 9), (PADDED, 3, 20, 2), (STRIDED, 5, 40, 2)):
        check_codes(field, channels, m, batch, element, best_tier())
    check_codes(Field((3, 4), (3, 4)), 5, 40, 9, element, best_tier())
    check_codes(PADDED, 16, 20, 1, element, best_tier(), (2, 2))


@pytest.mark.parametrize("name", [each.name for each in TIERS])
def test_bytes_on_each_tier(name: str) -> None:
    check_codes(PADDED, 3, 20, 1, "i8", tier_named(name))


def check_codes(
    field: Field, channels: int, m: int, batch: int, element: str, of: Tier, pool: tuple[int, int] = (1, 1)
) -> None:
    """Compare the packed bits and the scores of a layer that reads bytes; outside is the code 7."""
    rng, is_signed = np.random.default_rng([channels, m]), element == "i8"
    x = rng.integers(-128 if is_signed else 0, 128 if is_signed else 256, (batch, *field.size, channels))
    w = rng.integers(-2, 2, (m, *field.window, channels)).astype(np.int8)
    case = Case(field, "", SIGNS, 7, w, x, convolved(field, w, x, 7))
    at, falling = thresholds(case, 2)
    codes, arithmetic = w.reshape(m, field.taps, channels), code_arithmetic(field, channels)
    base, rows = code_base(codes, element), tiles(m, arithmetic) * arithmetic.rows
    made = limits(base, 1, at, falling, code_counts(codes), rows, "u32")
    given = {"x": x.astype(np.int8 if is_signed else np.uint8).reshape(-1), "w": packed_codes(codes)}
    counts = pooled(reached(case, at, falling), pool)
    stages = [(Stage(2, TWO_PLANES, pool=pool), {"add": made.add, "limit": made.limit})]
    stages += [(Stage(), {"base": bases(base, rows)})] if pool == (1, 1) else []
    for stage, tables in stages:
        kernel = code_product(field, Codes(element, channels, 7), m, stage, batch)
        y = np.full(kernel.buffer("y").size.value(()), 77, kernel.buffer("y").element.storage)
        for thread in range(2):
            run_kernel(compile_kernel(kernel, of), (), {**given, **tables, "y": y}, None, thread, 2)
        wanted = planes_of(counts, TWO_PLANES) if stage.planes else case.sums
        assert ((y.view(np.uint64) if stage.planes else y) == wanted.reshape(-1)).all(), (field, stage)


@pytest.mark.parametrize("m", [1, 15, 16, 40, 64, 127])
@pytest.mark.parametrize("stage", [Stage(1, SIGN_PLANES), Stage(3, CODE_PLANES), Stage(1, (), "i8", -1, 2)])
def test_sums_are_compared(m: int, stage: Stage) -> None:
    rng, k = np.random.default_rng([m, stage.thresholds]), stage.thresholds
    sums = rng.integers(-50, 50, (7, m)).astype(np.int32)
    sums[0, 0], sums[1, 0] = 2**31 - 1, -(2**31)
    at = rng.integers(-50, 50, (m, k)).astype(np.int32)
    at[rng.random(at.shape) < 0.2] = rng.choice([2**31 - 1, -(2**31)])
    falling = rng.random(m) < 0.5
    counts = np.where(falling[:, None], sums[..., None] <= at, sums[..., None] >= at).sum(axis=-1)
    made = limits(np.zeros((1, m), np.int64), 1, at, falling, (-(2**31), 2**31 - 1), table_rows(m), "u32")
    kernel = bits_of_sums(m, stage, 7)
    y = np.full(kernel.buffer("y").size.value(()), 7, kernel.buffer("y").element.storage)
    arrays = {"x": sums.reshape(-1), "add": made.add, "limit": made.limit, "y": y}
    run_kernel(compile_kernel(kernel, best_tier()), (), arrays)
    wanted = planes_of(counts, stage.planes) if stage.planes else stage.low + stage.step * counts
    assert ((y.view(np.uint64) if stage.planes else y) == wanted.reshape(-1)).all()


@pytest.mark.parametrize(
    "field", [Field((6, 7), (2, 2), (2, 2)), Field((6, 7), (3, 3), (2, 1), (1, 2), (1, 2), (1, 2))]
)
def test_pools_of_planes(field: Field) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**63, (2, *field.size, 3), dtype=np.uint64)
    pads = [(0, 0), (field.before[0], field.after[0]), (field.before[1], field.after[1]), (0, 0)]
    whole, wanted = np.pad(x, pads), np.zeros((2, *field.out, 3), np.uint64)
    for i, j, p, q in np.ndindex(*field.out, *field.window):
        row, column = i * field.strides[0] + p * field.dilations[0], j * field.strides[1] + q * field.dilations[1]
        wanted[:, i, j] |= whole[:, row, column]
    y = np.full(wanted.size, 7, np.uint64)
    run_kernel(compile_kernel(pool_planes(field, 3, 2), best_tier()), (), {"x": x.reshape(-1), "y": y})
    assert (y == wanted.reshape(-1)).all()


def test_the_interpreter_agrees() -> None:
    case = make(Field((4, 4), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)), 20, 16, 1, "signs", SIGNS, 1)
    w, x = packed(case, best_tier())
    found = interpreted(case, w, x)
    assert (found.reshape(case.sums.shape) == case.sums).all()


def interpreted(case: Case, w: Array, x: Array) -> Array:
    """Run a layer of signs, padded with +1, by the interpreter."""
    arithmetic = sign_arithmetic("signs", SIGNS, case.channels)
    codes = case.w.reshape(case.m, case.field.taps, case.channels)
    base = sign_base(codes, np.ones((1, case.field.taps), np.bool_), 2, -1, 1, is_planes=False)
    y = np.full(case.sums.size, 77, np.int32)
    kernel = sign_product(case.field, case.channels, case.m, "signs", SIGNS, Stage(), padding=1, samples=len(case.x))
    interpret(kernel, {"x": x, "w": w, "base": bases(base, arithmetic.rows), "y": y})
    return y


def test_planted_faults_are_found() -> None:
    case = make(Field((4, 4), (3, 3), (1, 1), (1, 1), (1, 1), (1, 1)), 20, 16, 1, "signs", SIGNS, 1)
    w, x = packed(case, best_tier())
    broken = w.copy()
    broken[3] ^= np.uint64(1)  # a weight
    assert (interpreted(case, broken, x).reshape(case.sums.shape) != case.sums).any()
    broken = w.copy()
    broken[0] |= np.uint64(1 << 40)  # a bit above the channels
    assert (interpreted(case, broken, x).reshape(case.sums.shape) != case.sums).any()
    other = replace(case, padding=-1)  # another padding
    assert (run(other, Stage(), best_tier()).reshape(case.sums.shape) != case.sums).any()
    at, falling = thresholds(case, 1)
    wanted = planes_of(reached(case, at, falling), SIGN_PLANES).reshape(-1)
    late = run(case, Stage(1, SIGN_PLANES), best_tier(), at + 1, falling).view(np.uint64)  # a threshold too high
    assert (late != wanted).any()
    turned = run(case, Stage(1, SIGN_PLANES), best_tier(), at, ~falling).view(np.uint64)
    assert (turned != wanted).any()
