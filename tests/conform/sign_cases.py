"""Layers on packed signs and few bits: random cases, and what a plain integer computation makes of them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.features import Tier
from bittern.chips.x86.run import run_kernel
from bittern.kernels.field import Field
from bittern.kernels.limits import bases, classes_of, coded, limits, sign_base, sign_counts
from bittern.kernels.pack_planes import pack_planes, pack_values
from bittern.kernels.sign_product import Coding, sign_arithmetic, sign_product
from bittern.kernels.window_results import Stage, tiles, words

Array = npt.NDArray[Any]
SIGNS = Coding()
TERNARY = Coding((1, 1), 1, -1)
TWO = Coding((1, 2), 1, 0)
SIGNED_TWO = Coding((1, 2), 1, -2)
ELEMENTS = {"signs": (-1, 1), "ternary": (-1, 1), "u2": (0, 3), "i2": (-2, 1), "i3": (-4, 3)}


@dataclass
class Case:
    """Weights, values and the exact sums. w: [m, p, q, c], x: [b, h, w, c], sums: [b, oh, ow, m]."""

    field: Field
    weights: str
    coding: Coding
    padding: int | None
    w: Array
    x: Array
    sums: Array

    @property
    def m(self) -> int:
        return len(self.w)

    @property
    def channels(self) -> int:
        return int(self.w.shape[-1])


def make(
    field: Field, c: int, m: int, b: int, weights: str, coding: Coding, padding: int | None, seed: int = 0
) -> Case:
    """Make a case. padding: a value, or None for exact zeros."""
    rng = np.random.default_rng([seed, c, m, b])
    (low, high), shape = ELEMENTS[weights], (m, *field.window, c)
    w = rng.choice([-1, 1], shape) if weights == "signs" else rng.integers(low, high + 1, shape)
    levels = [coding.beta + coding.alpha * k for k in range(coding.total + 1)]
    x = rng.choice(levels, (b, *field.size, c))
    sums = convolved(field, w, x, padding or 0)
    return Case(field, weights, coding, padding, w.astype(np.int8), x.astype(np.int8), sums)


def convolved(field: Field, w: Array, x: Array, padding: int) -> Array:
    """Compute the sums by plain loops over windows."""
    (oh, ow), (p, q) = field.out, field.window
    pads = [(0, 0), (field.before[0], field.after[0]), (field.before[1], field.after[1]), (0, 0)]
    whole = np.pad(x.astype(np.int64), pads, constant_values=padding)
    made = np.zeros((len(x), oh, ow, len(w)), np.int64)
    for i in range(oh):
        for j in range(ow):
            rows = [i * field.strides[0] + k * field.dilations[0] for k in range(p)]
            columns = [j * field.strides[1] + k * field.dilations[1] for k in range(q)]
            patch = whole[:, rows][:, :, columns]
            made[:, i, j] = patch.reshape(len(x), -1) @ w.reshape(len(w), -1).T.astype(np.int64)
    return made


def packed(case: Case, of: Tier) -> tuple[Array, Array]:
    """Pack weights and values by machine code."""
    arithmetic = sign_arithmetic(case.weights, case.coding, case.channels)
    count, taps = tiles(case.m, arithmetic), case.field.taps
    w = np.full(count * taps * arithmetic.inner * 2 * 8 * arithmetic.weights, 0xEE, np.uint64)
    kernel = pack_planes(case.m, taps, case.channels, case.weights)
    run_kernel(compile_kernel(kernel, of), (), {"source": case.w.view(np.uint8).reshape(-1), "w": w})
    places = case.x.size // case.channels
    x = np.full(places * arithmetic.span, 0xEE, np.uint64)
    kernel = pack_values("i8", case.channels, tests_of(case.coding), places)
    run_kernel(compile_kernel(kernel, of), (), {"x": case.x.reshape(-1), "y": x})
    return w, x


def tests_of(coding: Coding) -> tuple[tuple[str, int], ...]:
    if coding.alpha == 2:
        return (("ge", 1),)
    if coding.coefficients == (1, 1):
        return (("ge", coding.beta + 1), ("ge", coding.beta + 2))
    return tuple((f"bit {k}", coding.beta) for k in range(len(coding.coefficients)))


def run(
    case: Case,
    stage: Stage,
    of: Tier,
    at: Array | None = None,
    falling: Array | None = None,
    symbol: bool = False,
    threads: int = 2,
) -> Array:
    """Run the layer by all threads, one after the other. at: [m, k] thresholds. -> y, flat."""
    arithmetic = sign_arithmetic(case.weights, case.coding, case.channels)
    classes = classes_of(case.field, case.padding is None)
    stage = replace(stage, classes=len(classes.valid))
    is_planes = case.weights not in ("signs", "ternary")
    codes = case.w.reshape(case.m, case.field.taps, case.channels)
    base = sign_base(codes, classes.valid, case.coding.alpha, case.coding.beta, case.coding.total, is_planes)
    rows = tiles(case.m, arithmetic) * arithmetic.rows
    w, x = packed(case, of)
    arrays = {"w": w, "x": x}
    if at is None or falling is None:
        arrays["base"] = bases(base, rows)
    else:
        counts = sign_counts(codes, case.coding.total, is_planes)
        found = limits(base, arithmetic.scale, at, falling, counts, rows, "u64")
        arrays |= {"add": found.add, "limit": found.limit}
    if len(classes.valid) > 1:
        arrays["classes"] = classes.number
    samples, sizes = (None, (len(case.x),)) if symbol else (len(case.x), ())
    kernel = sign_product(
        case.field, case.channels, case.m, case.weights, case.coding, stage, padding=case.padding, samples=samples
    )
    buffer = kernel.buffer("y")
    arrays["y"] = np.full(buffer.size.value(sizes), 77, buffer.element.storage)
    compiled = compile_kernel(kernel, of)
    for thread in range(threads):
        run_kernel(compiled, sizes, arrays, None, thread, threads)
    return arrays["y"]


def thresholds(case: Case, k: int, seed: int = 1) -> tuple[Array, Array]:
    """Make thresholds near the sums, some never and some always reached."""
    rng = np.random.default_rng([seed, case.m, k])
    flat = case.sums.reshape(-1, case.m)
    at = np.stack([rng.choice(flat[:, row], k) for row in range(case.m)]) + rng.integers(-1, 2, (case.m, k))
    at[rng.random(at.shape) < 0.05] = 2**31 - 1
    at[rng.random(at.shape) < 0.05] = -(2**31)
    return at.astype(np.int32), rng.random(case.m) < 0.5


def reached(case: Case, at: Array, falling: Array) -> Array:
    """Count the thresholds that are reached. -> [b, oh, ow, m]."""
    x, at = case.sums[..., None], at.astype(np.int64)
    found: Array = np.where(falling[:, None], x <= at, x >= at).sum(axis=-1)
    return found


def pooled(numbers: Array, pool: tuple[int, int]) -> Array:
    """Take the greatest of windows that do not overlap. numbers: [b, h, w, m]."""
    b, h, w, m = numbers.shape
    rows, columns = h // pool[0], w // pool[1]
    cut = numbers[:, : rows * pool[0], : columns * pool[1]]
    found: Array = cut.reshape(b, rows, pool[0], columns, pool[1], m).max(axis=(2, 4))
    return found


def planes_of(numbers: Array, planes: tuple[tuple[int, ...], ...]) -> Array:
    """Pack what the planes hold for so many thresholds reached. numbers: [..., m] -> [..., planes, words] u64."""
    m = numbers.shape[-1]
    most = max(max(plane) for plane in planes) + 1
    table = np.array(coded(planes, most))
    held = table[numbers]
    made: Array = np.zeros((*numbers.shape[:-1], len(planes), 64 * words(m)), np.uint8)
    for plane in range(len(planes)):
        made[..., plane, :m] = held >> plane & 1
    packed_bits: Array = np.packbits(made, axis=-1, bitorder="little").view(np.uint64)
    return packed_bits
