"""Kernels of 8-bit layers as machine code of each tier: equal to plain loops over windows, whatever the shape."""

from typing import Any

import numpy as np
import pytest
from bytes_cases import STORAGE, Array, Case, area, case, codes, depthwise_case, in_window, pooled, taps
from x86_kernels import NAMES, compiled, tier_of

from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.chips.x86.features import Tier
from bittern.chips.x86.run import run_kernel
from bittern.kernels.add_bytes import Factor, Sum, add_bytes
from bittern.kernels.blend_bytes import blend_bytes
from bittern.kernels.conv_shapes import Area, Conv, flattened
from bittern.kernels.gather_windows import gather_windows, gathered
from bittern.kernels.pool import Pool, max_pool, sum_pool
from bittern.kernels.requantise import SUM, Stage, records
from bittern.kernels.table_bytes import table_bytes

CHANNELS = (1, 3, 31, 33, 63, 65, 127)
BEST = NAMES[-1]


def ran(kernel: Kernel, tier: Tier, arrays: dict[str, Array], size: int, threads: int = 1, to: str = "y") -> Array:
    """Return what the threads' shares write, one after the other."""
    made = compiled(kernel, tier)
    y = np.full(size, 77, kernel.buffer(to).element.storage)
    for thread in range(threads):
        run_kernel(made, (), {**arrays, to: y}, None, thread, threads)
    return y


def check(made: Case, tier: Tier) -> None:
    """Compare a case on one and on three threads."""
    for threads in (1, 3):
        found = ran(made.kernel, tier, dict(made.arrays), made.wanted.size, threads)
        assert np.array_equal(found, made.wanted.reshape(-1)), (made.kernel.name, threads)


# --- convolutions

_SHAPES = [
    area((5, 6), 5, (3, 3), before=(1, 1), after=(1, 1), pad=-128),
    area((7, 9), 8, (5, 5), before=(2, 2), after=(2, 2), pad=127),
    area((9, 8), 3, (3, 3), strides=(2, 2), after=(1, 1), pad=-3),
    area((8, 9), 6, (3, 2), dilations=(2, 3), before=(2, 1), after=(0, 3), pad=5),
    area((6, 7), 7, (1, 1)),
    area((6, 7), 9, (1, 1), strides=(2, 3)),
    area((4, 5), 4, (2, 3), before=(3, 0), after=(3, 4), pad=17, element="u8"),
    area((1, 30), 2, (1, 7), strides=(1, 3), before=(0, 3), pad=200, element="u8"),
    area((1, 1), 70, (1, 1)),
    area((13, 1), 12, (4, 1), dilations=(3, 1)),
]


@pytest.mark.req("C020")
@pytest.mark.parametrize("number", range(len(_SHAPES)))
def test_shapes_and_paddings(number: int) -> None:
    check(case(_SHAPES[number], 19, "twice", images=2, seed=number), tier_of(BEST))


@pytest.mark.parametrize("tier", NAMES[:-1])
@pytest.mark.parametrize("kind", ["sum", "once", "twice", "relu", "left"])
def test_every_tier(kind: str, tier: str) -> None:
    small = area((3, 4), 5, (2, 2), strides=(1, 2), before=(1, 0), after=(0, 1), pad=-128)
    check(case(small, 17, kind), tier_of(tier))


@pytest.mark.parametrize("c", CHANNELS)
def test_channels_in(c: int) -> None:
    check(case(area((5, 4), c, (3, 3), before=(1, 1), after=(1, 1), pad=-128), 20, "relu", seed=c), tier_of(BEST))


@pytest.mark.parametrize("m", CHANNELS)
def test_channels_out(m: int) -> None:
    check(case(area((5, 7), 12, (3, 3), before=(0, 1), pad=9), m, "once", seed=m), tier_of(BEST))


@pytest.mark.parametrize("kind", ["sum", "once", "twice", "relu", "left"])
def test_output_stages(kind: str) -> None:
    check(case(area((3, 5), 16, (2, 2)), 35, kind), tier_of(BEST))


@pytest.mark.req("C020")
@pytest.mark.parametrize("parts", [2, 5])
@pytest.mark.parametrize("dilation", [1, 2])
def test_parted_channels(parts: int, dilation: int) -> None:
    seen = area((7, 7), 3 * parts, (3, 3), dilations=(dilation, dilation), before=(2, 2), after=(2, 2), pad=-1)
    check(case(seen, 17, "twice", parts=parts), tier_of(BEST))


@pytest.mark.parametrize("shape", [(1, 600, 130), (1, 600, 8), (5, 64, 96), (64, 33, 40)])
def test_dense_layers(shape: tuple[int, int, int]) -> None:
    rows, n, m = shape
    check(case(area((1, rows), n, (1, 1)), m, "twice"), tier_of(BEST))


def test_large_layers_are_cut_into_rounds() -> None:
    wide = area((24, 24), 16, (3, 3), before=(1, 1), after=(1, 1), pad=3)
    assert Conv(wide, 32).cut[0] < 24
    check(case(wide, 32, "relu"), tier_of(BEST))
    dense = area((1, 1), 512, (1, 1))
    assert Conv(dense, 256).over_blocks
    check(case(dense, 256, "once"), tier_of(BEST))


@pytest.mark.parametrize("tier", NAMES)
@pytest.mark.parametrize("number", [0, 2, 3, 6])
def test_gathered_windows(number: int, tier: str) -> None:
    seen = _SHAPES[number]
    x, (p, q) = codes(seen, 2, number), seen.window
    wanted = np.zeros((2, *seen.counts, p * q * seen.c), np.int64)
    for row, column, i, j in taps(seen):
        at = (i * q + j) * seen.c
        wanted[:, row, column, at : at + seen.c] = in_window(seen, x, row, column, i, j) + seen.flip
    to = gathered(seen, 2)
    made = ran(gather_windows(seen, 2), tier_of(tier), {"x": x.reshape(-1)}, to.places * to.c)
    found = made.reshape(*wanted.shape[:3], to.c)[..., : wanted.shape[3]]
    assert np.array_equal(found, wanted.astype(np.uint8))


def test_unsigned_codes_are_read_in_place() -> None:
    for seen in (
        area((6, 7), 8, (1, 1), element="u8"),
        area((6, 7), 4, (3, 3), strides=(1, 2), element="u8"),
        area((5, 30), 3, (2, 4), dilations=(3, 1), element="u8"),
        area((30, 30), 128, (1, 1), element="u8"),
    ):
        conv = Conv(flattened(seen), 18)
        assert conv.is_direct
        check(case(seen, 18, "twice", images=2), tier_of(BEST))
    assert not Conv(area((6, 7), 3, (3, 3), element="u8"), 18).is_direct, "a group would read behind the end"


def test_long_rows_are_cut_too() -> None:
    """A row that no near copy holds: the first and the last part have padding, those between have none."""
    long = area((1, 2000), 96, (1, 5), before=(0, 2), after=(0, 2), pad=-128)
    assert long.counts[1] // Conv(long, 5).cut[1] > 1 and Conv(flattened(long), 5).fits
    check(case(long, 5, "relu"), tier_of(BEST))
    check(depthwise_case(long, "relu"), tier_of(BEST))
    flat = area((30, 30), 128, (1, 1))
    assert Conv(flattened(flat), 3).cut[1] < 900
    check(case(flat, 3, "once"), tier_of(BEST))
    wide = area((2, 900), 97, (1, 3), before=(0, 1), after=(0, 3), pad=-128)
    assert wide.counts[1] // Pool(wide).cut[1] > 1
    y = ran(max_pool(wide, 1), tier_of(BEST), {"x": codes(wide, 1, 3).reshape(-1)}, wide.places * 97)
    assert np.array_equal(y, pooled(wide, codes(wide, 1, 3), "max").reshape(-1))


def test_the_interpreter_agrees() -> None:
    for made in (case(_SHAPES[0], 5, "twice"), depthwise_case(area((4, 5), 5, (3, 3), before=(1, 1)), "relu")):
        y = np.zeros(made.wanted.size, made.wanted.dtype)
        interpret(made.kernel, {**made.arrays, "y": y})
        assert np.array_equal(y, made.wanted.reshape(-1))


# --- depthwise

_DEPTHWISE = [
    area((6, 5), 64, (3, 3), before=(1, 1), after=(1, 1), pad=-128),
    area((7, 8), 20, (5, 5), before=(2, 2), after=(2, 2), pad=1),
    area((9, 11), 33, (3, 3), strides=(2, 2), before=(0, 0), after=(1, 1), pad=4),
    area((9, 9), 16, (3, 2), dilations=(2, 3), before=(2, 1), after=(2, 2), pad=-9),
    area((5, 6), 3, (4, 1), element="u8", pad=255, before=(3, 0)),
    area((1, 40), 17, (1, 9), before=(0, 4), after=(0, 4)),
    area((5, 5), 48, (5, 5)),
]


@pytest.mark.req("C020")
@pytest.mark.parametrize("number", range(len(_DEPTHWISE)))
def test_depthwise(number: int) -> None:
    check(depthwise_case(_DEPTHWISE[number], "twice", seed=number), tier_of(BEST))


@pytest.mark.parametrize("tier", NAMES[:-1])
def test_depthwise_of_every_tier(tier: str) -> None:
    check(depthwise_case(area((3, 5), 19, (3, 3), before=(1, 1), after=(1, 1), pad=-128), "relu"), tier_of(tier))


@pytest.mark.parametrize("c", CHANNELS)
def test_depthwise_channels(c: int) -> None:
    check(depthwise_case(area((4, 6), c, (3, 3), before=(1, 1), after=(1, 1), pad=-128), "relu", 2), tier_of(BEST))


# --- pools

_POOLS = [
    area((6, 8), 64, (2, 2), strides=(2, 2)),
    area((5, 7), 80, (3, 3), strides=(2, 2), before=(1, 1), after=(1, 1), pad=-128),
    area((5, 7), 33, (2, 3), element="u8", before=(0, 1), pad=0),
    area((25, 5), 16, (25, 5)),
    area((1, 50), 1, (1, 40), dilations=(1, 1)),
    area((20, 20), 5, (18, 18)),
]


@pytest.mark.req("C024")
@pytest.mark.parametrize(("number", "tier"), [*((k, BEST) for k in range(len(_POOLS))), *((2, t) for t in NAMES[:-1])])
def test_pools(number: int, tier: str) -> None:
    seen, of = _POOLS[number], tier_of(tier)
    x = codes(seen, 2, number)
    wanted = pooled(seen, x, "max").astype(STORAGE[seen.element])
    assert np.array_equal(ran(max_pool(seen, 2), of, {"x": x.reshape(-1)}, wanted.size), wanted.reshape(-1))
    sums, count = pooled(seen, x, "sum"), seen.window[0] * seen.window[1]
    low, high = (-100, 100) if seen.element == "i8" else (3, 255)
    mean = Stage("mean", seen.element, low, high, count=count)
    away = np.sign(sums) * ((np.abs(sums) + count // 2) // count)
    for stage, found in ((SUM, sums), (mean, np.clip(away, low, high))):
        taken = seen.flip * count if Pool(seen).is_copied else 0
        r = records(stage, np.full(seen.c, -taken, np.int64))
        y = ran(sum_pool(seen, stage, 2), of, {"x": x.reshape(-1), "r": r}, found.size)
        assert np.array_equal(y, found.reshape(-1))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 125, 1000, 1 << 20])
def test_means_are_divisions(count: int) -> None:
    """Sums near multiples and halves of the count, and the greatest that are allowed."""
    seen = area((1, 1), 1, (1, 1))
    stage = Stage("mean", "i8", -128, 127, count=count)
    most = min(128 * count, (1 << 29) - 1)
    near = [k * count // 2 + d for k in (-255, -9, -2, -1, 0, 1, 2, 9, 254) for d in (-1, 0, 1)]
    for total in (*near, most, -most):
        if abs(total) <= most:
            y = np.zeros(1, np.int8)
            x, r = np.zeros(1, np.int8), records(stage, np.array([total - seen.flip]))
            interpret(sum_pool(seen, stage, 1), {"x": x, "r": r, "y": y})
            wanted = (abs(total) + count // 2) // count * (1 if total > 0 else -1)
            assert y[0] == np.clip(wanted, -128, 127), (total, count)


# --- element by element


def sums(seed: int, element: str = "i8", less: bool = False) -> Sum:
    """Return a sum as an importer makes it: one of both scales is half of twice the larger."""
    rng = np.random.default_rng(seed)
    ratio, last = rng.uniform(0.05, 1), rng.uniform(0.6, 3)
    first, second = factor(0.5, rng, element), factor(0.5 * ratio, rng, element)
    if seed % 2:
        first, second = second, first
    low, high = (-128, 127) if element == "i8" else (0, 200)
    end = factor(2.0**-19 * last, rng, element)
    return Sum(element, first, second, 20, Factor(0, end.multiplier, end.shift), int(end.zero), low, high, less)


def factor(real: float, rng: Any, element: str) -> Factor:
    """Return a real factor as multiplier and shift, with a random zero."""
    fraction, shift = np.frexp(real)
    multiplier = round(float(fraction) * (1 << 31))
    zero = int(rng.integers(-128, 128) if element == "i8" else rng.integers(0, 256))
    return Factor(zero, *((multiplier, int(shift)) if multiplier < 1 << 31 else (1 << 30, int(shift) + 1)))


def all_pairs(element: str) -> tuple[Array, Array]:
    least = -128 if element == "i8" else 0
    values = np.arange(least, least + 256).astype(STORAGE[element])
    return np.repeat(values, 256), np.tile(values, 256)


@pytest.mark.parametrize("less", [False, True])
@pytest.mark.parametrize("element", ["i8", "u8"])
def test_sums_of_all_pairs(element: str, less: bool) -> None:
    found = 0
    for seed in range(6):
        total = sums(seed, element, less)
        assert total.is_exact()
        x, y = all_pairs(element)
        wanted, line = total.table().astype(STORAGE[element]).reshape(-1), total.line()
        made = ran(add_bytes(x.size, total), tier_of(BEST), {"x": x, "y": y}, x.size, to="z")
        assert np.array_equal(made, wanted), seed
        if line is not None:
            found += 1
            made = ran(blend_bytes(x.size, line), tier_of(BEST), {"x": x, "y": y}, x.size, 2, to="z")
            assert np.array_equal(made, wanted), seed
    assert found >= 5, "nearly every sum is a line"


@pytest.mark.parametrize(("n", "tier"), [*((n, BEST) for n in (1, 15, 32, 127, 200)), *((81, t) for t in NAMES[:-1])])
def test_any_number_of_values(n: int, tier: str) -> None:
    rng, of, total = np.random.default_rng(n), tier_of(tier), sums(2)
    x, y = (rng.integers(-128, 128, n).astype(np.int8) for _ in range(2))
    wanted, line = total.table()[x.astype(int) + 128, y.astype(int) + 128], total.line()
    assert line is not None
    for kernel in (add_bytes(n, total), blend_bytes(n, line)):
        assert np.array_equal(ran(kernel, of, {"x": x, "y": y}, n, to="z"), wanted)
    table = rng.integers(0, 256, 256).astype(np.uint8)
    bits = x.view(np.uint8)
    assert np.array_equal(ran(table_bytes(n), of, {"x": bits, "table": table}, n), table[bits])


# --- planted faults


def test_faults_are_seen() -> None:
    """A weight, a bias, a record and the padding, each off by one."""
    seen = area((4, 4), 5, (3, 3), before=(1, 1), after=(1, 1), pad=-128)
    good, tier = case(seen, 18, "twice"), tier_of(BEST)
    check(good, tier)
    for name, place in (("w", 3), ("r", 1), ("r", 67), ("r", 256)):
        spoilt = {key: array.copy() for key, array in good.arrays.items()}
        spoilt[name][place] ^= 0x40
        assert not np.array_equal(ran(good.kernel, tier, spoilt, good.wanted.size), good.wanted.reshape(-1)), name
    other = case(Area(*{**dict(zip(Area.__slots__, seen.arguments(), strict=True)), "pad": -127}.values()), 18, "twice")
    assert not np.array_equal(other.wanted, good.wanted)
