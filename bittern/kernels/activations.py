"""Gated linear units over rows, and their quantisation for the product that follows.

| builder | buffers in order: element, size, access |
|---|---|
| `gate_rows(kind, n)` | gate f32[t n] read, up f32[t n] read, y f32[t n] write |
| .. `codes=True` | gate, up, then the codes (quantise.py); no y |
| .. `group=16` or `32` | gate_up f32[t 2n] read instead of gate, up: so many gates, then so many ups, and so on |

kind: `silu` (std silu_gate), `gelu_tanh` (gelu_tanh_gate), `relu_squared` (relu_squared_gate of models/bitnet).
One symbol `t`, the number of rows; n is any number, a multiple of 32 with codes or groups.
Parallel over rounds of `grain` values (a divisor of n, a multiple of 32; default: the largest up to 128 without t, so
that t * n / grain rounds are shared among threads as the rows of the product that made them). Every round is apart.
Definitions: std/activations.btn, std/quantise.btn.
"""

from collections.abc import Callable

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels import quantise
from bittern.kernels.elementary import gelu_tanh, silu
from bittern.kernels.elementwise import LANES, rounds


def _relu_squared(x: Handle) -> Handle:
    y = x.max(0.0)
    return y * y


_KINDS: dict[str, Callable[[Handle], Handle]] = {"silu": silu, "gelu_tanh": gelu_tanh, "relu_squared": _relu_squared}


def gate_rows(
    kind: str,
    n: int,
    *,
    group: int = 0,
    codes: bool = False,
    halves: bool = False,
    grain: int = 0,
    split: bool = True,
) -> Kernel:
    """Build activation(gate) * up; see the module."""
    assert group in (0, 16, 32) and (n % 32 == 0 or not (group or codes)), (n, group)
    b = Builder(f"{kind}_gate_rows", ("t",))
    (t,) = b.dims
    step = grain or next((g for g in (128, 64, 32, n) if n % g == 0), n)
    gate = b.buffer("gate_up" if group else "gate", "f32", t * n * (2 if group else 1), "read")
    up = gate if group else b.buffer("up", "f32", t * n, "read")
    activation = _KINDS[kind]

    def value(at: Handle, k: int, mask: "Handle | None" = None) -> Handle:
        """Lanes from element at + k on; at is a multiple of 32."""
        if not group:
            place, other = at + k, at + k
        else:
            place = at * 2 + (k // group * group + k)
            other = place + group
        return activation(gate.load("f32x16", place, mask)) * up.load("f32x16", other, mask)

    if codes:
        out = quantise.codes(b, t * n, halves)
        with rounds(b, t * (n // step), split) as i:
            _quantised(b, value, i * step, step, out)
        return b.build()
    y = b.buffer("y", "f32", t * n, "write")
    with rounds(b, t * (n // step), split) as i:
        _plain(b, value, i * step, step, y)
    return b.build()


def _quantised(b: Builder, value: Callable[..., Handle], start: Handle, count: int, out: quantise.Codes) -> None:
    """Emit the codes of `count` values from a place on."""
    blocks = count // quantise.BLOCK
    size = next(g for g in (4, 2, 1) if blocks % g == 0)

    def some(at: Handle) -> None:
        pairs = [(value(at, k * 32), value(at, k * 32 + LANES)) for k in range(size)]
        quantise.quantise_blocks(b, pairs, out, at // quantise.BLOCK)

    if blocks == size:
        some(start)
        return
    with b.loop(0, count, size * quantise.BLOCK) as loop:
        (i,) = loop
        loop.carry()
        some(start + i)


def _plain(b: Builder, value: Callable[..., Handle], start: Handle, count: int, y: View) -> None:
    """Emit `count` values from a place on."""
    if count % 32 == 0:
        with b.loop(0, count, 32) as loop:
            (i,) = loop
            loop.carry()
            for k in (0, LANES):
                y.store(start + i + k, value(start + i, k))
        return
    whole = count // LANES * LANES
    with b.loop(0, whole, LANES) as loop:
        (i,) = loop
        loop.carry()
        y.store(start + i, value(start + i, 0))
    mask = b.first(count - whole, LANES)
    y.store(start + whole, value(start + whole, 0, mask), mask)
