"""What a layer would have given by another rule: the mistakes that networks are known for, computed with numpy.

Each function takes the values that a node really had (codes and sums as i64) and yields pairs (mistake, result). A
result that equals what the other side has, value for value, says what went wrong there.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from bittern.runtime.observed import Array

Numbers: TypeAlias = Any  # an array, or a number of numpy's
Guess: TypeAlias = tuple[str, str, Array]  # class, mistake, what it gives
Double: TypeAlias = Callable[[Sequence[Array]], Iterator[Guess]]

TIE, ROUNDING, SATURATION, SCALE, ZERO = "tie", "rounding", "saturation", "scale", "zero point"
THRESHOLD, FALLING, BIAS, LAYOUT, PADDING = "threshold", "falling", "bias", "layout", "padding"

_WAYS: dict[str, str] = {
    "up": TIE,
    "even": TIE,
    "away": TIE,
    "down": TIE,
    "floor": ROUNDING,
    "ceil": ROUNDING,
    "zero": ROUNDING,
}
"""How a number becomes whole: to the nearest with ties so, or in one direction; and the class of a mix-up."""
_TOLD = {
    "up": "ties go up",
    "even": "ties go to even",
    "away": "ties go away from zero",
    "down": "ties go down",
    "floor": "everything is rounded down",
    "ceil": "everything is rounded up",
    "zero": "fractions are cut off",
}


def shifted(x: Array, count: Numbers, way: str) -> Array:
    """Return x / 2^count made whole. x, count: i64."""
    made: Array
    half = (np.int64(1) << count) >> 1
    low: Array = x >> count
    rest = x - (low << count)
    if way in ("floor", "ceil", "zero"):
        goes_up = {"floor": False, "ceil": rest != 0, "zero": (rest != 0) & (x < 0)}[way]
        made = low + goes_up
        return made
    is_tie = (rest == half) & (count > 0)
    goes_up = {"up": True, "down": False, "even": low & 1 == 1, "away": x > 0}[way]
    made = low + ((rest > half) | (is_tie & goes_up))
    return made


def whole(x: Array, way: str) -> Array:
    """Return real numbers made whole; the numbers stay floats."""
    if way in ("floor", "ceil", "zero"):
        made: Array = {"floor": np.floor, "ceil": np.ceil, "zero": np.trunc}[way](x)
        return made
    low = np.floor(x)
    is_tie = x - low == 0.5
    goes_up = {"up": True, "down": False, "even": low % 2 == 1, "away": x > 0}[way]
    return np.where(is_tie, low + np.where(goes_up, 1, 0), np.rint(x))


def requantise(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of `requantise.requantise`: x, multiplier, shift, zero, low, high."""
    x, multiplier, shift, zero, low, high = given

    def stage(way: str = "up", d: int = 0, z: int = 0, low: Numbers = low, high: Numbers = high) -> Array:
        return _clipped(shifted(x * multiplier, np.maximum(shift + d, 0), way) + zero + z, low, high)

    yield from _rounded("up", lambda way: stage(way))
    yield from _shared(stage, low, high)
    product = shifted(x * multiplier, shift, "up") + zero
    yield SATURATION, "values beyond the ends wrap", _wrapped(product, low, high)
    yield (
        ROUNDING,
        "the product is cut to 32 bits first",
        np.clip(shifted((x * multiplier).astype(np.int32).astype(np.int64), shift, "up") + zero, low, high),
    )


def _rounded(own: str, make: Callable[[str], Array]) -> Iterator[Guess]:
    for way, kind in _WAYS.items():
        if way != own:
            yield kind, _TOLD[way], make(way)


def _shared(stage: Callable[..., Array], low: Numbers, high: Numbers) -> Iterator[Guess]:
    """Yield the mistakes of all output stages: ends, shift, zero."""
    for what, ends in (
        (f"the upper end is {int(high) - 1}", (low, high - 1)),
        (f"the lower end is {int(low) + 1}", (low + 1, high)),
        ("both ends are one further in", (low + 1, high - 1)),
        ("the lower end is 0", (np.int64(0), high)),
        ("the ends are those of the element", (np.int64(-128), np.int64(127))),
    ):
        yield SATURATION, what, stage(low=ends[0], high=ends[1])
    for d in (-2, -1, 1, 2):
        yield SCALE, f"the shift is {abs(d)} too {'large' if d > 0 else 'small'}", stage(d=d)
    for z in (1, -1, 128, -128):
        yield ZERO, f"the zero point is {abs(z)} too {'large' if z > 0 else 'small'}", stage(z=z)


def _clipped(x: Array, low: Numbers, high: Numbers) -> Array:
    made: Array = np.clip(x, low, high)
    return made


def _wrapped(x: Array, low: Numbers, high: Numbers) -> Array:
    bits = max(int(high - low).bit_length(), 1)
    span = 1 << bits
    start = 0 if low >= 0 else -(span >> 1)
    return (x - start) % span + start


def rescale(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of `tflite.rescale`: acc, multiplier, shift, zero, low, high."""
    acc, multiplier, shift, zero, low, high = given

    def stage(
        first: str = "up", second: str = "away", d: int = 0, z: int = 0, low: Numbers = low, high: Numbers = high
    ) -> Array:
        total = shift - d
        x = (acc << np.maximum(total, 0)).astype(np.int32).astype(np.int64)
        product = np.clip(shifted(x * multiplier, np.int64(31), first), -(1 << 31), (1 << 31) - 1)
        return _clipped(shifted(product, np.maximum(-total, 0), second) + zero + z, low, high)

    def single(way: str) -> Array:
        left = acc * multiplier << np.maximum(shift, 0)
        return _clipped(shifted(left, 31 + np.maximum(-shift, 0), way) + zero, low, high)

    yield ROUNDING, "one rounding instead of two, ties up", single("up")
    yield ROUNDING, "one rounding instead of two, ties away from zero", single("away")
    yield from _rounded("away", lambda way: stage(second=way))
    for way in ("floor", "zero"):
        yield ROUNDING, f"both roundings: {_TOLD[way]}", stage(way, way)
    yield from _shared(stage, low, high)
    far = np.int64(1 << 40)
    yield SATURATION, "values beyond the ends wrap", _wrapped(stage(low=-far, high=far), low, high)


def _reached(x: Array, at: Array, falls: Array, less: str = "<=", more: str = ">=") -> Array:
    up = x >= at if more == ">=" else x > at
    down = x <= at if less == "<=" else x < at
    return np.where(falls, down, up)


def sign_at(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of `thresholds.sign_at`: x, at, falling."""
    x, at, falling = given

    def stage(at: Array = at, falls: Array = falling != 0, **strict: str) -> Array:
        return np.where(_reached(x, at, falls, **strict), 1, -1)

    yield from _thresholds(stage, at, falling)


def _thresholds(stage: Callable[..., Array], at: Array, falling: Array) -> Iterator[Guess]:
    """Yield the mistakes of all comparisons with thresholds."""
    for d in (1, -1, 2, -2):
        moved = at + d
        yield THRESHOLD, f"every threshold is {abs(d)} too {'large' if d > 0 else 'small'}", stage(at=moved)
    yield TIE, "a value at its threshold counts as not reaching it", stage(less="<", more=">")
    yield FALLING, "falling channels are compared as rising ones", stage(falls=np.zeros_like(falling, bool))
    yield FALLING, "rising channels are compared as falling ones", stage(falls=np.ones_like(falling, bool))
    yield FALLING, "every comparison is turned over", stage(falls=falling == 0)


def levels(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of `thresholds.levels`: x, at [c, k], falling, low."""
    x, at, falling, low = given

    def stage(at: Array = at, falls: Array = falling != 0, d: int = 0, top: int = 0, **strict: str) -> Array:
        reached = _reached(x[..., None], at, falls[..., None], **strict).sum(-1)
        made: Array = low + d + np.minimum(reached, at.shape[-1] - top)
        return made

    yield from _thresholds(stage, at, falling)
    yield SATURATION, "the last level is never reached", stage(top=1)
    for d in (1, -1):
        yield ZERO, f"the lowest level is {int(low) + d}", stage(d=d)


def ternary_at(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of `thresholds.ternary_at`: x, at [c, 2], falling."""
    x, at, falling = given

    def stage(at: Array = at, falls: Array = falling != 0, **strict: str) -> Array:
        made: Array = _reached(x[..., None], at, falls[..., None], **strict).sum(-1) - 1
        return made

    yield from _thresholds(stage, at, falling)


def bias(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of `requantise.bias`: x, b."""
    x, b = given
    yield BIAS, "the bias is left out", x + 0 * b
    yield BIAS, "the bias is subtracted", x - b
    yield BIAS, "the bias is added twice", x + 2 * b
    yield BIAS, "the biases stand in the reverse order", x + b[..., ::-1]


def added(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of a sum of two arrays."""
    x, y = given
    yield BIAS, "the second operand is left out", x
    yield BIAS, "the first operand is left out", y
    yield BIAS, "the second operand is subtracted", x - y


def round_op(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of rounding real numbers to the nearest, ties to even."""
    (x,) = given
    yield from _rounded("even", lambda way: whole(x, way))


def one_way(own: str) -> Double:
    """Return the mistakes of rounding real numbers in one direction."""

    def double(given: Sequence[Array]) -> Iterator[Guess]:
        (x,) = given
        for way in _WAYS:
            if way != own:
                yield ROUNDING, _TOLD[way], whole(x, way)

    return double


def sign(given: Sequence[Array]) -> Iterator[Guess]:
    """Yield mistakes of the sign."""
    (x,) = given
    yield TIE, "the sign of 0 is -1", np.where(x > 0, 1, -1)
    yield TIE, "the sign of 0 is 0", np.sign(x)
    yield TIE, "the sign of -0 is -1", np.where((x > 0) | ((x == 0) & ~np.signbit(x)), 1, -1)


def best(pick: Callable[..., Any]) -> Double:
    """Return the mistakes of finding the place of the greatest (or least) value."""

    def double(given: Sequence[Array]) -> Iterator[Guess]:
        (x,) = given
        yield TIE, "of equal values the last one is taken", x.shape[-1] - 1 - pick(x[..., ::-1], axis=-1)

    return double


def clamp(given: Sequence[Array], low: int, high: int) -> Iterator[Guess]:
    """Yield mistakes of a saturating conversion."""
    (x,) = given
    ends = np.int64(low), np.int64(high)
    yield SATURATION, "values beyond the ends wrap", _wrapped(x, *ends)
    yield SATURATION, f"the upper end is {high - 1}", np.clip(x, low, high - 1)
    yield SATURATION, f"the lower end is {low + 1}", np.clip(x, low + 1, high)


# function -> letters of weights, of what they meet, of the result; those that only the first two have are summed
PRODUCTS: dict[str, tuple[str, str, str]] = {
    "dense.dense": ("mn", "n", "m"),
    "convolution.conv1d": ("mpc", "opc", "om"),
    "convolution.conv2d": ("mpqc", "opvqc", "ovm"),
    "convolution.conv3d": ("mpqrc", "opvqurc", "ovum"),
    "convolution.depthwise1d": ("pc", "opc", "oc"),
    "convolution.depthwise2d": ("pqc", "opvqc", "ovc"),
    "convolution.conv1d_grouped": ("gmpc", "opgc", "ogm"),
    "convolution.conv2d_grouped": ("gmpqc", "opvqgc", "ovgm"),
    "convolution.local1d": ("ompc", "opc", "om"),
    "convolution.local2d": ("ovmpqc", "opvqc", "ovm"),
}

_ORDERS = 24  # orders of axes that are tried

_AXES = {"m": "output channels", "n": "inputs", "c": "input channels", "p": "rows", "q": "columns", "r": "depths"}


def product(letters: tuple[str, str, str]) -> Double:
    """Return the mistakes of a sum of products: weights stored in another order, or with another sign."""
    own, met, made = letters

    def result(w: Array, x: Array) -> Array:
        found: Array = np.einsum(f"{own},...{met}->...{made}", w, x, optimize=True)
        return found

    def double(given: Sequence[Array]) -> Iterator[Guess]:
        w, x = given
        for i in range(w.ndim):
            name = _AXES.get(own[i], own[i])
            yield LAYOUT, f"the weights' {name} stand in the reverse order", result(np.flip(w, i), x)
            for step in (1, -1):
                yield LAYOUT, f"the weights' {name} are one place off", result(np.roll(w, step, i), x)
            for k in range(i + 1, w.ndim):
                other = _AXES.get(own[k], own[k])
                if w.shape[i] == w.shape[k]:
                    yield LAYOUT, f"the weights' {name} and {other} are swapped", result(np.swapaxes(w, i, k), x)
                turned = np.flip(w, (i, k))
                yield LAYOUT, f"the weights' {name} and {other} stand in the reverse order", result(turned, x)
        for axes in list(permutations(range(w.ndim)))[1:_ORDERS]:
            stored = ", ".join(_AXES.get(own[i], own[i]) for i in axes)
            read = w.transpose(axes).reshape(w.shape)
            yield LAYOUT, f"the weights are stored as {stored} and read in another order", result(read, x)
        yield "sign", "the weights are negated", result(-w, x)
        if w.size and w.min() < 0:
            yield "sign", "the weights are read without a sign", result(w & 0xFF, x)
            yield "sign", "the inputs are read without a sign", result(w, x & 0xFF)

    return double


DOUBLES: dict[str, Double] = {
    "requantise.requantise": requantise,
    "requantise.bias": bias,
    "tflite.rescale": rescale,
    "thresholds.sign_at": sign_at,
    "thresholds.levels": levels,
    "thresholds.ternary_at": ternary_at,
    **{name: product(letters) for name, letters in PRODUCTS.items()},
    "add": added,
    "round": round_op,
    "round_even": round_op,
    **{way: one_way(own) for way, own in (("floor", "floor"), ("ceil", "ceil"), ("trunc", "zero"))},
    "sign": sign,
    "argmax": best(np.argmax),
    "argmin": best(np.argmin),
}
"""By the name of a library function, or the kind of a node."""
