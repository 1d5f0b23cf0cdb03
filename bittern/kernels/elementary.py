"""The elementary functions of the library, lane by lane: the same operations in the same order, so the same bits.

| function | what it emits |
|---|---|
| `exp(x)`, `sigmoid(x)`, `tanh(x)`, `silu(x)`, `gelu_tanh(x)` | x: f32 or a vector of f32 -> the same type |

Where the definition rounds `n = round_even(v)` and takes `round[i32](n)`, 12582912 is added and taken away instead:
|v| < 152 < 2^22, the sign of a zero n cannot be seen (r is x then, either way up to its sign, and 1 + r is 1), and the
low bits of the sum are n. A NaN gives some n, and the product with a NaN is a NaN.
Definitions: std/elementary.btn, std/activations.btn.
"""

from bittern.bitops.handle import Handle

_MAGIC = 12582912.0  # 1.5 * 2^23
_MAGIC_BITS = 0x4B400000
_hex = float.fromhex

_LOG2_E = _hex("0x1.715476p+0")
_LN2_HIGH, _LN2_LOW = 0.693359375, _hex("-0x1.bd0106p-13")
_C7, _C6, _C5 = _hex("0x1.a273f2p-13"), _hex("0x1.6d5168p-10"), _hex("0x1.110feep-7")
_C4, _C3, _C2 = _hex("0x1.5554e4p-5"), _hex("0x1.555556p-3"), 0.5
_TANH = tuple(map(_hex, ("-0x1.767a14p-8", "0x1.524c40p-6", "-0x1.b842c4p-5", "0x1.11075ep-3", "-0x1.555534p-2")))


def exp(x: Handle) -> Handle:
    """Emit e^x. x: f32 lanes."""
    y = x.like(88.8).min(x.like(-104.0).max(x))
    t = y * _LOG2_E + _MAGIC
    n = t - _MAGIC
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    p = (r * _C7 + _C6) * r2 + (r * _C5 + _C4)
    q = p * r2 + (r * _C3 + _C2)
    i = t.reinterpret("i32") - _MAGIC_BITS
    half = i >> 1
    return (r.like(1.0) + (r + r2 * q)) * _power_of_2(half) * _power_of_2(i - half)


def _power_of_2(n: Handle) -> Handle:
    """Emit 2^n for -126 <= n <= 127. n: i32 lanes."""
    return ((n + 127) << 23).reinterpret("f32")


def sigmoid(x: Handle) -> Handle:
    """Emit 1 / (1 + e^-x)."""
    return x.like(1.0) / (exp(-x) + 1.0)


def tanh(x: Handle) -> Handle:
    """Emit the hyperbolic tangent: a polynomial below 0.625, else 1 - 2 / (e^2x + 1)."""
    a = x.unary("abs")
    z = x * x
    p = z * _TANH[0]
    for c in _TANH[1:-1]:
        p = (p + c) * z
    near = x + x * ((p + _TANH[-1]) * z)
    far = x.like(1.0) - x.like(2.0) / (exp(a * 2.0) + 1.0)
    choose = x.builder.select
    return choose(a < 0.625, near, choose(x < 0.0, -far, far))


def silu(x: Handle) -> Handle:
    """Emit x / (1 + e^-x)."""
    return x / (exp(-x) + 1.0)


def gelu_tanh(x: Handle) -> Handle:
    """Emit 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    inner = (x + (x * x * x) * 0.044715) * 0.7978845608028654
    return (x * 0.5) * (tanh(inner) + 1.0)
