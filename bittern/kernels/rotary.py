"""Rotary position embedding of heads, with the norm before it and the factor behind it.

| builder | buffers in order: element, size, access |
|---|---|
| `rotary_rows(turn, heads)` | x f32[t heads h], pos u32[t], cos, sin f32[context h/2] read, y f32[t heads h] write |
| .. `turn.eps` set | gain f32[h] read after sin: each head is normalised (rms_norm) before |

`Turn` says how: order `pairs` (adjacent values) or `halves` (value i and i + h/2); context: rows of the table; scale:
a factor after the turn, 1 for none. One symbol `t`, the number of tokens, over which rounds are parallel. h is a
multiple of 8. A position outside the table reads its last row.
Definitions: std/rotary.btn; two products and one sum for each value, each rounded; then one product with the factor.

In pairs, x0 * c - x1 * s and x0 * s + x1 * c are x * [c c] + [x1 x0] * [-s s]: negation is exact, sums commute.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.elementwise import rounds

Load = Callable[[int, int], Handle]  # first value of a head, lanes -> those values


_HELD = 4  # pieces whose cosines and sines stay in registers


@dataclass(frozen=True, slots=True)
class Turn:
    """How heads are turned; see the module. eps: of the norm within each head, None for none."""

    order: str
    h: int
    context: int
    scale: float = 1.0
    eps: "float | None" = None

    @property
    def lanes(self) -> int:
        """How many pairs are turned at a time."""
        return next(n for n in (16, 8, 4) if (self.h // 2) % n == 0)


@dataclass(frozen=True, slots=True)
class Table:
    """The buffers that all heads share."""

    cos: View
    sin: View

    @classmethod
    def declare(cls, b: Builder, turn: Turn) -> "Table":
        """Declare cos and sin."""
        size = turn.context * (turn.h // 2)
        return cls(b.buffer("cos", "f32", size, "read"), b.buffer("sin", "f32", size, "read"))


def rotary_rows(turn: Turn, heads: int, *, split: bool = True) -> Kernel:
    """Build the turn of all heads of t tokens; see the module."""
    b = Builder("rotary_rows", ("t",))
    (t,) = b.dims
    h = turn.h
    x, pos = b.buffer("x", "f32", t * (heads * h), "read"), b.buffer("pos", "u32", t, "read")
    table = Table.declare(b, turn)
    gain = b.buffer("gain", "f32", h, "read") if turn.eps is not None else None
    y = b.buffer("y", "f32", t * (heads * h), "write")
    with rounds(b, t, split) as i:
        angles = angles_of(b, turn, table, pos.load("u32", i))
        with b.loop(0, heads) as loop:
            (head,) = loop
            loop.carry()
            start = (i * heads + head) * h
            turned = turn_head(b, turn, angles, load_from(x, start), gain)
            for first, v in turned:
                y.store(start + first, v * turn.scale if turn.scale != 1.0 else v)
    return b.build()


def load_from(x: View, start: Handle) -> Load:
    """Return how values of a head are loaded that begins at a place."""
    return lambda first, lanes: x.load(f"f32x{lanes}", start + first)


Angles = Callable[[int], tuple[Handle, Handle]]  # number of a piece -> what its values are multiplied by


def angles_of(b: Builder, turn: Turn, table: Table, pos: Handle) -> Angles:
    """Emit the loads of cosines and sines of a position, once for short heads, else where they are used. pos: u32."""
    lanes, half = turn.lanes, turn.h // 2
    start = pos.convert("index").min(turn.context - 1) * half
    count = half // lanes * (1 if turn.order == "halves" else 2)

    def piece(k: int) -> tuple[Handle, Handle]:
        j = k if turn.order == "halves" else k // 2
        c, s = (v.load(f"f32x{lanes}", start + j * lanes) for v in (table.cos, table.sin))
        if turn.order == "halves":
            return c, s
        places = [(k % 2 * lanes + i) // 2 for i in range(lanes)]
        return c.shuffle(places), s.shuffle([p + (lanes if i % 2 == 0 else 0) for i, p in enumerate(places)], -s)

    if count > _HELD:
        return piece
    found = [piece(k) for k in range(count)]
    return found.__getitem__


def turn_head(
    b: Builder, turn: Turn, angles: Angles, load: Load, gain: "View | None" = None
) -> "list[tuple[int, Handle]]":
    """Emit one head, normalised first if turn.eps says so. -> (first value, lanes) in ascending order."""
    lanes, h = turn.lanes, turn.h
    if turn.eps is not None and gain is not None:
        load = _normalised(b, turn, load, gain)
    if turn.order == "halves":
        low, high = [], []
        for j in range(h // 2 // lanes):
            c, s = angles(j)
            x, y = load(j * lanes, lanes), load(h // 2 + j * lanes, lanes)
            low.append((j * lanes, x * c - y * s))
            high.append((h // 2 + j * lanes, x * s + y * c))
        return low + high
    swapped = [k ^ 1 for k in range(lanes)]
    made = []
    for j in range(h // lanes):
        c, s = angles(j)
        x = load(j * lanes, lanes)
        made.append((j * lanes, x * c + x.shuffle(swapped) * s))
    return made


def _normalised(b: Builder, turn: Turn, load: Load, gain: View) -> Load:
    """Emit the norm's scale of a head and return how its normalised values are loaded."""
    assert turn.eps is not None and turn.h % 16 == 0
    total = b.const("f32x16", 0.0)
    for first in range(0, turn.h, 16):
        v = load(first, 16)
        total = total + v * v
    root = (total.fold("add") / float(turn.h) + turn.eps).unary("sqrt")
    scale = root.like(1.0) / root
    return lambda first, lanes: load(first, lanes) * scale.broadcast(lanes) * gain.load(f"f32x{lanes}", first)
