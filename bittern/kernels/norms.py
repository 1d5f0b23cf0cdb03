"""Normalisation of rows, with what comes before it (a residual) and after it (quantisation), in one kernel.

| builder | buffers in order: element, size, access |
|---|---|
| `norm_rows(n, eps)` | x f32[t n] read, gain f32[n] read, y f32[t n] write |
| .. `codes=True` | x, gain, then the codes (quantise.py); no y |
| .. `plain=True, codes=True` | x, gain, y, then the codes |
| .. `kind="layer"` | bias f32[n] read after gain |
| .. `before="add"` | x update, more f32[t n] read, gain, ...: x becomes x + more first |
| .. `before="norm"` | x update, more, more_gain f32[n] read, gain, ...: x becomes x + rms_norm(more, more_gain) |
| `norm_residual(n, eps)` | x f32[t n] update, more f32[t n], more_gain f32[n] read: this without the norm after it |
| .. `fresh=True` | x read, more, more_gain, y f32[t n] write: y becomes that sum |

One symbol `t`, the number of rows; heads are rows too (norm_heads: t is tokens times heads, n the head dimension).
n is any number, a multiple of 32 with codes; eps is rounded to f32. `split`: see elementwise.py; `halves`: quantise.py.
Sums have 16 partials and one tree. Definitions: std/norms.btn, std/quantise.btn.
"""

from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels import quantise
from bittern.kernels.elementwise import each_vector, fold_vectors, rounds

_UNROLL = 6


def norm_rows(
    n: int,
    eps: float,
    *,
    kind: str = "rms",
    before: str = "",
    plain: "bool | None" = None,
    codes: bool = False,
    halves: bool = False,
    split: bool = True,
) -> Kernel:
    """Build the normalisation of rows; see the module. plain: whether y is written (default: if codes are not)."""
    assert kind in ("rms", "layer") and before in ("", "add", "norm"), (kind, before)
    b = Builder(f"{kind}_norm_rows", ("t",))
    (t,) = b.dims
    row = _Row(b, n, eps)
    x = b.buffer("x", "f32", t * n, "update" if before else "read")
    more = b.buffer("more", "f32", t * n, "read") if before else None
    more_gain = b.buffer("more_gain", "f32", n, "read") if before == "norm" else None
    gain = b.buffer("gain", "f32", n, "read")
    bias = b.buffer("bias", "f32", n, "read") if kind == "layer" else None
    keeps = not codes if plain is None else plain
    y = b.buffer("y", "f32", t * n, "write" if not codes else "update") if keeps else None
    out = quantise.codes(b, t * n, halves) if codes else None
    kept = y or b.buffer("row", "f32", n, "scratch")
    with rounds(b, t, split) as i:
        start = i * n
        if more is not None:
            row.add(x, more, more_gain, start, x)
        to = start if y is not None else b.index(0)
        if bias is None:
            row.rms(x, gain, start, kept, to)
        else:
            row.layer(x, gain, bias, start, kept, to)
        if out is not None:
            quantise.quantise_row(b, kept, to, out, i * (n // quantise.BLOCK), n)
    return b.build()


def norm_residual(n: int, eps: float, *, fresh: bool = False, split: bool = True) -> Kernel:
    """Build x + rms_norm(more, more_gain) for each row; see the module. fresh: into y, x stays."""
    b = Builder("norm_residual", ("t",))
    (t,) = b.dims
    x, more = b.buffer("x", "f32", t * n, "read" if fresh else "update"), b.buffer("more", "f32", t * n, "read")
    more_gain = b.buffer("more_gain", "f32", n, "read")
    y = b.buffer("y", "f32", t * n, "write") if fresh else x
    with rounds(b, t, split) as i:
        _Row(b, n, eps).add(x, more, more_gain, i * n, y)
    return b.build()


@dataclass(frozen=True, slots=True)
class _Row:
    """Emits what happens to one row of n values."""

    b: Builder
    n: int
    eps: float

    def add(self, x: View, more: View, gain: "View | None", start: Handle, to: View) -> None:
        """Store x + more, or x + rms_norm(more, gain), to where it should be."""
        scale = None if gain is None else self.scale_of(more, start)

        def emit(i: Handle, mask: "Handle | None") -> None:
            at = start + i
            v = more.load("f32x16", at, mask)
            if scale is not None and gain is not None:
                v = v * scale * gain.load("f32x16", i, mask)
            to.store(at, x.load("f32x16", at, mask) + v, mask)

        each_vector(self.b, self.b.index(0), self.n, _UNROLL, emit)

    def scale_of(self, x: View, start: Handle) -> Handle:
        """1 / sqrt(sum(x * x) / n + eps), in 16 lanes. Lanes beyond the row add +0 to partials that are never -0."""

        def square(total: Handle, at: Handle, mask: "Handle | None") -> Handle:
            v = x.load("f32x16", at, mask)
            return total + v * v

        total = fold_vectors(self.b, start, self.n, _UNROLL, self.b.const("f32x16", 0.0), square).fold("add")
        return self._reciprocal(total)

    def _reciprocal(self, total: Handle) -> Handle:
        root = (total / float(self.n) + self.eps).unary("sqrt")
        return (root.like(1.0) / root).broadcast(16)

    def rms(self, x: View, gain: View, start: Handle, y: View, to: Handle) -> None:
        """y = x * scale * gain."""
        scale = self.scale_of(x, start)

        def emit(i: Handle, mask: "Handle | None") -> None:
            y.store(to + i, x.load("f32x16", start + i, mask) * scale * gain.load("f32x16", i, mask), mask)

        each_vector(self.b, self.b.index(0), self.n, _UNROLL, emit)

    def layer(self, x: View, gain: View, bias: View, start: Handle, y: View, to: Handle) -> None:
        """y = (x - mean) * scale * gain + bias."""
        b, zero = self.b, self.b.const("f32x16", 0.0)

        def add(total: Handle, at: Handle, mask: "Handle | None") -> Handle:
            return total + x.load("f32x16", at, mask)

        mean = (fold_vectors(b, start, self.n, _UNROLL, zero, add).fold("add") / float(self.n)).broadcast(16)

        def square(total: Handle, at: Handle, mask: "Handle | None") -> Handle:
            centred = x.load("f32x16", at, mask) - mean
            return total + (centred * centred if mask is None else b.select(mask, centred * centred, 0.0))

        scale = self._reciprocal(fold_vectors(b, start, self.n, _UNROLL, zero, square).fold("add"))

        def emit(i: Handle, mask: "Handle | None") -> None:
            centred = x.load("f32x16", start + i, mask) - mean
            shifted = centred * scale * gain.load("f32x16", i, mask) + bias.load("f32x16", i, mask)
            y.store(to + i, shifted, mask)

        each_vector(b, b.index(0), self.n, _UNROLL, emit)
