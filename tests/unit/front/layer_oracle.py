"""What layers compute, in plain loops over whole numbers: one sample at a time, nothing of Bittern in it.

Arrays are int64 [places..., channels]. `p` holds the parameters of one layer by name. Where Bittern corrects, unrolls
or rounds by a trick, the code here does the plain thing: zeros are zeros, a transposed convolution scatters, a mean is
a fraction, a root has 60 digits.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import product
from math import floor
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Params = Mapping[str, Array]

getcontext().prec = 60
RANGES = {"b1": (-1, 1), "t": (-1, 1)} | {f"i{k}": (-(1 << k - 1), (1 << k - 1) - 1) for k in range(2, 9)}
RANGES |= {f"u{k}": (0, (1 << k) - 1) for k in range(2, 9)}


# --- sums


def dense(x: Array, p: Params) -> Array:
    out = np.zeros((*x.shape[:-1], len(p["weight"])), np.int64)
    for place in np.ndindex(out.shape):
        out[place] = sum(int(a) * int(b) for a, b in zip(p["weight"][place[-1]], x[place[:-1]], strict=True))
    return out


def framed(x: Array, pads: Any, value: int) -> Array:
    return np.pad(x, [*pads, (0, 0)], constant_values=value)


def same(n: int, size: int, stride: int, dilation: int) -> tuple[int, int]:
    missing = max((-(-n // stride) - 1) * stride + (size - 1) * dilation + 1 - n, 0)
    return missing // 2, missing - missing // 2


def patches(x: Array, size: Any, stride: Any, dilation: Any) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield every window's place and its values [p, q, ..., c]."""
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(x.shape, size, stride, dilation, strict=False)]
    for place in product(*map(range, counts)):
        where = [[o * s + i * d for i in range(k)] for o, k, s, d in zip(place, size, stride, dilation, strict=True)]
        yield place, x[np.ix_(*where)]


def over_windows(
    x: Array, size: int, of: Callable[[tuple[int, ...], Array], Any], *, stride: int = 1, dilation: int = 1,
    pads: Any = None, value: int = 0,
) -> Array:  # fmt: skip
    rank = x.ndim - 1
    seen = framed(x, pads or [(0, 0)] * rank, value)
    made = {
        place: of(place, patch) for place, patch in patches(seen, [size] * rank, [stride] * rank, [dilation] * rank)
    }
    counts = [max(place[axis] for place in made) + 1 for axis in range(rank)]
    out = np.zeros((*counts, len(next(iter(made.values())))), np.int64)
    for place, row in made.items():
        out[place] = row
    return out


def conv(x: Array, w: Array, size: int, **how: Any) -> Array:
    return over_windows(x, size, lambda _, patch: [int((kernel * patch).sum()) for kernel in w], **how)


def grouped(x: Array, w: Array, size: int, **how: Any) -> Array:
    each = w.shape[-1]

    def of(_: Any, patch: Array) -> list[int]:
        parts = [patch[..., g * each : (g + 1) * each] for g in range(len(w))]
        return [int((kernel * part).sum()) for kernels, part in zip(w, parts, strict=True) for kernel in kernels]

    return over_windows(x, size, of, **how)


def depthwise(x: Array, w: Array, size: int, **how: Any) -> Array:
    return over_windows(
        x, size, lambda _, patch: [int((w[..., c] * patch[..., c]).sum()) for c in range(w.shape[-1])], **how
    )


def local(x: Array, w: Array, size: int, **how: Any) -> Array:
    return over_windows(x, size, lambda place, patch: [int((kernel * patch).sum()) for kernel in w[place]], **how)


def transposed(x: Array, w: Array, stride: int, padding: int) -> Array:
    rank, size = x.ndim - 1, w.shape[1:-1]
    whole = np.zeros((*[(n - 1) * stride + k for n, k in zip(x.shape, size, strict=False)], len(w)), np.int64)
    for place in np.ndindex(x.shape[:-1]):
        for tap in np.ndindex(size):
            at = tuple(stride * i + j for i, j in zip(place, tap, strict=True))
            whole[at] += [int((w[(m, *tap)] * x[place]).sum()) for m in range(len(w))]
    return whole[(slice(padding, -padding or None),) * rank]


# --- activations


def requantise(s: int, multiplier: int, shift: int, low: int, high: int) -> int:
    return min(max(floor(Fraction(s * multiplier, 1 << shift) + Fraction(1, 2)), low), high)


def reached(s: int, at: Array, falling: bool) -> int:
    return sum(s <= int(one) if falling else s >= int(one) for one in np.atleast_1d(at))


def each_channel(s: Array, of: Callable[[int, int], int]) -> Array:
    out = np.zeros_like(s)
    for place in np.ndindex(s.shape):
        out[place] = of(int(s[place]), place[-1])
    return out


def quantised(s: Array, p: Params, element: str, by_levels: bool = False) -> Array:
    low, high = RANGES[element]
    if element == "b1":
        return each_channel(s, lambda v, c: 2 * reached(v, p["threshold"][c], bool(p["falling"][c])) - 1)
    if element == "t" or by_levels:
        return each_channel(s, lambda v, c: low + reached(v, p["thresholds"][c], bool(p["falling"][c])))
    return each_channel(s, lambda v, c: requantise(v, int(p["multiplier"][c]), int(p["shift"][c]), low, high))


def shaped(s: Array, kind: str, p: Params) -> Array:
    most = (1 << 31) - 1

    def prelu(v: int, c: int) -> int:
        m, k = int(p["slope_multiplier"][c]), int(p["slope_shift"][c])
        return v if v >= 0 else requantise(v, m, k, -most - 1, most)

    def piece(v: int, c: int) -> int:
        j = reached(v, p["knots"][c], False)
        m, k = int(p["slope_multiplier"][c, j]), int(p["slope_shift"][c, j])
        return requantise(v, m, k, -most - 1, most) + int(p["offset"][c, j])

    of: dict[str, Callable[[int, int], int]] = {
        "relu": lambda v, c: max(v, 0),
        "prelu": prelu,
        "rprelu": lambda v, c: prelu(v - int(p["before"][c]), c) + int(p["after"][c]),
        "piecewise": piece,
    }
    return each_channel(s, of[kind]) if kind in of else s


def activated(s: Array, kind: str, p: Params, element: str) -> Array:
    return quantised(shaped(s, kind, p), p, element, kind == "levels")


def batch_norm(s: Array, p: Params, eps: float) -> Array:
    x = s.astype(np.float32)
    deviation = np.sqrt(p["variance"] + np.float32(eps))
    return np.asarray((x - p["mean"]) / deviation * p["gain"] + p["bias"])


def real_codes(y: Array, element: str) -> Array:
    low, high = RANGES[element]
    if element == "b1":
        return np.where(y < 0, -1, 1)
    if element == "t":
        return np.sign(np.rint(y)).astype(np.int64)
    return np.clip(np.rint(y * np.float32(high)), low, high).astype(np.int64)


def normalised(x: Array, p: Params, element: str, fraction: int, eps: float) -> Array:
    """Return codes of one set of values that are normalised together. x: [n]; thresholds: [n, k]."""
    n, total = len(x), int(x.sum())
    square = n * int((x * x).sum()) - total * total + max(1, round(n * n * eps))
    root = Decimal(square).sqrt()
    out = []
    for v, at, falls in zip(x, p["thresholds"], p["falling"], strict=True):
        a = (n * int(v) - total) << fraction
        out.append(sum(Decimal(a) <= int(one) * root if falls else Decimal(a) >= int(one) * root for one in at))
    return np.array(out) * (2 if element == "b1" else 1) + RANGES[element][0]


def group_norm(x: Array, p: Params, element: str, groups: int, fraction: int = 8, eps: float = 1e-5) -> Array:
    out, each = np.zeros_like(x), x.shape[-1] // groups
    for g in range(groups):
        part = x[..., g * each : (g + 1) * each]
        repeated = {
            name: np.concatenate([p[name][g * each : (g + 1) * each]] * (part.size // each))
            for name in ("thresholds", "falling")
        }
        made = normalised(part.reshape(-1), repeated, element, fraction, eps)
        out[..., g * each : (g + 1) * each] = made.reshape(part.shape)
    return out


def layer_norm(x: Array, p: Params, element: str, fraction: int = 8, eps: float = 1e-5) -> Array:
    rows = [normalised(row, p, element, fraction, eps) for row in x.reshape(-1, x.shape[-1])]
    return np.array(rows).reshape(x.shape)


# --- pooling


def mean(total: int, area: int, element: str) -> int:
    if element == "b1":
        return 1 if total >= 0 else -1
    return floor(Fraction(total, area) + Fraction(1, 2))


def average_pool(x: Array, element: str, size: int, **how: Any) -> Array:
    def of(_: Any, patch: Array) -> list[int]:
        rows = patch.reshape(-1, patch.shape[-1])
        return [mean(int(column.sum()), len(rows), element) for column in rows.T]

    return over_windows(x, size, of, value=1 if element == "b1" else 0, **how)


def max_pool(x: Array, element: str, size: int, **how: Any) -> Array:
    rows = lambda _, patch: patch.reshape(-1, patch.shape[-1]).max(0)  # noqa: E731
    return over_windows(x, size, rows, value=RANGES[element][0], **how)


def philox(counter: int, stream: int, seed: int) -> int:
    """Return the 64 bits that std `draw` states (Salmon et al. 2011), in plain arithmetic."""
    x, k = [counter & 0xFFFFFFFF, counter >> 32, stream, 0], [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = x[0] * 0xD2511F53, x[2] * 0xCD9E8D57
        x = [b >> 32 ^ x[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ x[3] ^ k[1], a & 0xFFFFFFFF]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return x[1] << 32 | x[0]


def stochastic_pool(x: Array, size: int, seed: int) -> Array:
    counter = iter(range(1 << 30))

    def of(_: Any, patch: Array) -> list[int]:
        return [_drawn(column, philox(next(counter), 0, seed)) for column in patch.reshape(-1, patch.shape[-1]).T]

    return over_windows(x, size, of, stride=size)


def _drawn(values: Array, random: int) -> int:
    mass = [max(int(v), 0) for v in values]
    target = random * sum(mass) >> 64
    for v, reach in zip(values, np.cumsum(mass), strict=True):
        if target < reach:
            return int(v)
    return int(values[0])


# --- recurrent layers and attention


def half_even(top: int, bottom: int) -> int:
    return round(Fraction(top, bottom)) if bottom else 0


def as_state(y: int, element: str) -> int:
    if element == "b1":
        return 1 if y >= 0 else -1
    return (y > 0) - (y < 0) if element == "t" else y


def lstm(x: Array, p: Params, element: str, most: int) -> Array:
    m = p["weight"].shape[1]
    low = -max(1, RANGES[element][1])
    k = p["gate"].shape[-1]
    h, c, all_ = [1 if element == "b1" else 0] * m, [0] * m, []
    for row in x:
        new_h, new_c = [], []
        for u in range(m):
            s = [_score(p, g, u, row, h) + int(p["bias"][g, u]) for g in range(4)]
            gate = [reached(s[g], p["gate"][j, u], False) for j, g in enumerate((0, 1, 3))]
            candidate = reached(s[2], p["candidate"][u], False) + low
            bound = most * -low
            cell = min(max(half_even(gate[1] * c[u] + gate[0] * candidate, k), -bound), bound)
            new_c.append(cell)
            new_h.append(as_state(half_even(gate[2] * (reached(cell, p["squash"][u], False) + low), k), element))
        h, c = new_h, new_c
        all_.append(h)
    return np.array(all_)


def gru(x: Array, p: Params, element: str) -> Array:
    m, k = p["weight"].shape[1], p["gate"].shape[-1]
    low = -max(1, RANGES[element][1])
    h, all_ = [1 if element == "b1" else 0] * m, []
    for row in x:
        new_h = []
        for u in range(m):
            here = [int((p["weight"][g, u] * row).sum()) + int(p["bias"][g, u]) for g in range(3)]
            back = [sum(int(a) * b for a, b in zip(p["recurrent"][g, u], h, strict=True)) for g in range(3)]
            reset = reached(here[0] + back[0], p["gate"][0, u], False)
            update = reached(here[1] + back[1], p["gate"][1, u], False)
            score = here[2] + half_even(reset * (back[2] + int(p["reset_bias"][u])), k)
            candidate = reached(score, p["candidate"][u], False) + low
            new_h.append(as_state(half_even(update * h[u] + (k - update) * candidate, k), element))
        h = new_h
        all_.append(h)
    return np.array(all_)


def _score(p: Params, gate: int, unit: int, row: Array, h: list[int]) -> int:
    own = int((p["weight"][gate, unit] * row).sum())
    return own + sum(int(a) * b for a, b in zip(p["recurrent"][gate, unit], h, strict=True))


def attention(
    q: Array, k: Array, v: Array, p: Params, element: str, *, heads: int, causal: bool, distance: int, shift: int
) -> Array:
    width, out = q.shape[1] // heads, v.shape[1] // heads
    means = np.zeros((len(q), v.shape[1]), np.int64)
    for g, i in product(range(heads), range(len(q))):
        seen = [j for j in range(len(k)) if j <= i or not causal]
        scores = {}
        for j in seen:
            s = int((q[i, g * width : (g + 1) * width] * k[j, g * width : (g + 1) * width]).sum())
            scores[j] = s + (int(p["relative"][g, min(max(j - i + distance, 0), 2 * distance)]) if distance else 0)
        top = max(scores.values())
        weight = {j: int(p["weights_of_scores"][min((top - s) >> shift, 63)]) for j, s in scores.items()}
        for c in range(out):
            total = sum(weight[j] * int(v[j, g * out + c]) for j in seen)
            means[i, g * out + c] = half_even(16 * total, sum(weight.values()))
    return quantised(means, p, element)
