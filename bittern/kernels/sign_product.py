"""Products of numbers of one or two, seldom more, bits in planes, 64 to a word: by counting bits.

A value is `alpha * sum of (coefficient * bit) + beta`, its bits in planes. Signs are one plane, alpha 2, beta -1.
Weights are signs, ternary numbers (where they are +1; where they are not 0), or planes of two's complement or unsigned
numbers.

Of signs w and a plane x, `sum w x = ones(w) - ones(w ^ x)`; of ternary numbers, where z are not zero,
`ones(w & z) - ones((w ^ x) & z)`; of planes `ones(w & x)`. All that does not depend on x goes to the thresholds. So a
product of any of these with a plane of values costs as much as signs with signs: one logical step, one count and one
addition for 512 of them. Coefficients are powers of two; sums of higher ones are doubled on the way.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.field import Field
from bittern.kernels.window_product import WindowProduct
from bittern.kernels.window_results import Arithmetic, Pair, Stage, words


@dataclass(frozen=True, slots=True)
class Coding:
    """Values as planes: alpha * sum of coefficient * bit + beta. coefficients: powers of two."""

    coefficients: tuple[int, ...] = (1,)
    alpha: int = 2
    beta: int = -1

    @property
    def total(self) -> int:
        """The sum of all coefficients."""
        return sum(self.coefficients)

    def bits(self, value: int) -> tuple[int, ...] | None:
        """Return the planes of a value, or None if it has none."""
        rest, odd = divmod(value - self.beta, self.alpha)
        if odd or not 0 <= rest <= self.total:
            return None
        found = []
        for k, coefficient in sorted(enumerate(self.coefficients), key=lambda each: -each[1]):
            taken = rest >= coefficient
            rest -= coefficient * taken
            found.append((k, int(taken)))
        return tuple(bit for _, bit in sorted(found)) if rest == 0 else None


SIGNS = Coding()
WEIGHTS = {"signs": 1, "ternary": 2}  # vectors of a row and word; planes have one each


def weight_planes(weights: str) -> int:
    """Return the vectors of weights of a row and word. weights: `signs`, `ternary`, `u2` .. or `i2` .. ."""
    return WEIGHTS.get(weights) or int(weights[1:])


def sign_arithmetic(weights: str, coding: Coding, channels: int) -> Arithmetic:
    """Return the arithmetic of weights (see `weight_planes`) and values of so many channels."""
    is_planes = weights not in WEIGHTS
    pairs: dict[int, list[Pair]] = {}
    for plane in range(weight_planes(weights) if is_planes else 1):
        is_less = weights[0] == "i" and plane == int(weights[1:]) - 1
        for value, coefficient in enumerate(coding.coefficients):
            exponent = plane + coefficient.bit_length() - 1
            pairs.setdefault(exponent, []).append(Pair(plane, value, is_less))
    passes = tuple(tuple(pairs.get(exponent, ())) for exponent in range(max(pairs), -1, -1))
    add = {"signs": _add_signs, "ternary": _add_ternary}.get(weights, _add_planes)
    scale = coding.alpha if is_planes else -coding.alpha
    name = f"{weights}_{len(coding.coefficients)}"
    count = words(channels)
    return Arithmetic(
        name, "u64", 8, "u64x8", count, len(coding.coefficients), weight_planes(weights), passes, add, scale
    )


def _add_signs(total: Handle, w: Sequence[Handle], x: Handle, pair: Pair) -> Handle:
    return total + (w[0] ^ x).unary("popcount")


def _add_ternary(total: Handle, w: Sequence[Handle], x: Handle, pair: Pair) -> Handle:
    return total + ((w[0] ^ x) & w[1]).unary("popcount")


def _add_planes(total: Handle, w: Sequence[Handle], x: Handle, pair: Pair) -> Handle:
    found = (w[0] & x).unary("popcount")
    return total - found if pair.is_less else total + found


def sign_product(
    field: Field,
    channels: int,
    m: int,
    weights: str,
    coding: Coding,
    stage: Stage,
    *,
    padding: int | None = None,
    samples: int | None = None,
) -> Kernel:
    """Return the kernel of m rows of weights times windows of packed values of so many channels.

    padding: the value that edges are padded with; None for exact zeros of values that cannot be zero: then `stage` has
    classes. Buffers: see `WindowProduct`; x: u64 [samples, places, planes, words], w: as `pack_planes` makes it.
    """
    arithmetic = sign_arithmetic(weights, coding, channels)
    bits = coding.bits(padding) if padding is not None else (0,) * len(coding.coefficients)
    assert bits is not None, (coding, padding)
    full = [(1 << min(64, channels - 64 * k)) - 1 for k in range(words(channels))]
    fill = [word if bit else 0 for bit in bits for word in full]
    return WindowProduct(field, m, arithmetic, stage, fill, samples).kernel()
