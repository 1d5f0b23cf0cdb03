"""The exponential and the gates made of it, operation by operation as the library defines them, in place."""

from collections.abc import Callable

import numpy as np

from bittern.chips.vm.ordered import PIECE, scratch
from bittern.graph.program import CallSite
from bittern.ops.table import Array

f32 = np.float32
_hex = float.fromhex

_LOW, _HIGH = f32(-104.0), f32(88.8)
_LOG2_E = f32(_hex("0x1.715476p+0"))
_LN2_HIGH, _LN2_LOW = f32(0.693359375), f32(_hex("-0x1.bd0106p-13"))
_C7, _C6 = f32(_hex("0x1.a273f2p-13")), f32(_hex("0x1.6d5168p-10"))
_C5, _C4 = f32(_hex("0x1.110feep-7")), f32(_hex("0x1.5554e4p-5"))
_C3, _C2 = f32(_hex("0x1.555556p-3")), f32(0.5)
_TANH = tuple(
    f32(_hex(c)) for c in ("-0x1.767a14p-8", "0x1.524c40p-6", "-0x1.b842c4p-5", "0x1.11075ep-3", "-0x1.555534p-2")
)
_ONE, _TWO, _HALF = f32(1.0), f32(2.0), f32(0.5)


def exp_in_place(x: Array) -> None:
    """Replace x by `elementary.exp(x)`. x: contiguous f32 of any shape."""
    flat = x.reshape(-1)
    for start in range(0, flat.size, PIECE // 4):
        _exp(flat[start : start + PIECE // 4])


def _exp(x: Array) -> None:
    n, r2, p = scratch.take("exp", 3, x.size)
    np.maximum(x, _LOW, out=x)  # no zero is among the bounds, and a NaN stays a NaN
    np.minimum(x, _HIGH, out=x)
    np.multiply(x, _LOG2_E, out=n)
    np.rint(n, out=n)
    np.multiply(n, _LN2_HIGH, out=p)
    np.subtract(x, p, out=x)
    np.multiply(n, _LN2_LOW, out=p)
    r = np.subtract(x, p, out=x)
    np.multiply(r, r, out=r2)
    i = n.astype(np.int32)  # of a NaN anything: it meets the NaN at the end
    np.multiply(r, _C7, out=p)
    np.add(p, _C6, out=p)
    np.multiply(p, r2, out=p)
    np.multiply(r, _C5, out=n)
    np.add(n, _C4, out=n)
    np.add(p, n, out=p)
    np.multiply(p, r2, out=p)
    np.multiply(r, _C3, out=n)
    np.add(n, _C2, out=n)
    np.add(p, n, out=p)
    np.multiply(r2, p, out=p)
    np.add(r, p, out=x)
    np.add(x, _ONE, out=x)
    half = i >> 1
    np.multiply(x, _power_of_2(half.copy()), out=x)
    np.multiply(x, _power_of_2(np.subtract(i, half, out=i)), out=x)


def _power_of_2(n: Array) -> Array:
    """Return 2^n; n: i32, overwritten."""
    n += np.int32(127)
    n <<= np.int32(23)
    return n.view(np.float32)


def silu_gate(site: CallSite) -> "Callable[..., Array] | None":
    """Prepare `activations.silu_gate`."""
    return None if site.ideal else _gate(_silu)


def gelu_tanh_gate(site: CallSite) -> "Callable[..., Array] | None":
    """Prepare `activations.gelu_tanh_gate`."""
    return None if site.ideal else _gate(_gelu_tanh)


def _gate(activation: Callable[[Array, Array], None]) -> Callable[..., Array]:
    def run(gate: Array, up: Array) -> Array:
        y = np.empty(gate.shape, np.float32)
        given, made = np.ascontiguousarray(gate).reshape(-1), y.reshape(-1)
        for start in range(0, made.size, PIECE // 4):
            here = slice(start, start + PIECE // 4)
            activation(given[here], made[here])
        return np.multiply(y, up, out=y) if y.shape == up.shape else y * up

    return run


def _silu(x: Array, y: Array) -> None:
    np.negative(x, out=y)
    _exp(y)
    np.add(y, _ONE, out=y)
    np.divide(x, y, out=y)


def _gelu_tanh(x: Array, y: Array) -> None:
    np.multiply(x, x, out=y)
    np.multiply(y, x, out=y)
    np.multiply(y, f32(0.044715), out=y)
    np.add(x, y, out=y)
    np.multiply(y, f32(0.7978845608028654), out=y)
    t = _tanh(y)
    np.add(t, _ONE, out=t)
    np.multiply(x, _HALF, out=y)
    np.multiply(y, t, out=y)


def _tanh(x: Array) -> Array:
    """Return `elementary.tanh(x)`."""
    a = np.abs(x)
    z = x * x
    p = z * _TANH[0]
    for c in _TANH[1:-1]:
        p += c
        p *= z
    p += _TANH[-1]
    p *= z
    p *= x
    p += x
    far = a * _TWO
    _exp(far)
    far += _ONE
    np.divide(_TWO, far, out=far)
    np.subtract(_ONE, far, out=far)
    np.negative(far, out=far, where=x < 0)
    return np.where(a < f32(0.625), p, far)
