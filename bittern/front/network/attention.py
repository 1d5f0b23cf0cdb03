"""Attention on codes in whole numbers alone: self-, cross- and multi-head, with relative positions.

The exponential is a table of falling weights, one for each step of 2^shift below the greatest score; a result is a mean
by these weights (`attention_of_codes`), rounded once, then brought to codes by one multiplier of each channel.
"""

from dataclasses import dataclass, field
from math import log2
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bittern.base.errors import BitternError
from bittern.front.network.activation import Activation, Named, quantised
from bittern.front.network.assembly import BATCH, Argument
from bittern.front.network.dense import Dense, need_numbers
from bittern.front.network.draft import UNFIT_ELEMENT, WRONG_NUMBER, WRONG_SHAPE, Array, Flow
from bittern.front.network.layer import Composite, Layer
from bittern.front.network.value import Value
from bittern.front.network.widths import Width, is_code
from bittern.graph.node import Node
from bittern.graph.node import call as call_node
from bittern.types.dims import dim
from bittern.types.elements import ELEMENTS, I32

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft

_STEPS = 8  # of the table, in which the weights fall by e
_TABLE = 64
_SCALE = 16  # of a mean before it becomes codes


@dataclass(frozen=True, slots=True, eq=False)
class Attention(Layer):
    """Attention of queries over keys and values. q: [t, heads * h], k: [s, heads * h], v: [s, heads * c] codes.

    -> [t, heads * c] codes of `bits`. heads: how many. causal: no query sees a key behind its place. distance: relative
    positions up to so many places away are added to the scores; 0 for none. Parameters: `weights_of_scores` u16 [64],
    `relative` i32 [heads, 2 * distance + 1], and those of the quantiser.
    Definitions: `attention_of_codes.multi_head_attention_of_codes`, `relative_bias`.
    """

    KIND: ClassVar[str] = "attention"

    heads: int = 1
    causal: bool = field(default=False, kw_only=True)
    distance: int = field(default=0, kw_only=True)
    bits: Width = field(default="b1", kw_only=True)

    def draw(self, draft: "Draft", q: Flow, k: Flow, v: Flow) -> Flow:
        """Draw scores, weights, means and codes. Raises N102, N105, N106, N107."""
        need_numbers(heads=self.heads)
        need_numbers(0, distance=self.distance)
        for each in (q, k, v):
            if not is_code(each.element):
                raise BitternError(UNFIT_ELEMENT, f"It gets {each.element}.", "Put activations before it.")
        shapes = [list(each.shape) for each in (q, k, v)]
        fits = (
            [len(each) for each in shapes] == [2, 2, 2]
            and shapes[0][1] == shapes[1][1]
            and shapes[1][0] == shapes[2][0]
        )
        if not fits:
            what = f"Queries, keys and values have the shapes {', '.join(map(str, shapes))}."
            raise BitternError(WRONG_SHAPE, what, "Give [t, h], [s, h] and [s, c].")
        if shapes[0][1] % self.heads or shapes[2][1] % self.heads:
            what = f"{shapes[0][1]} and {shapes[2][1]} channels are no whole number of {self.heads} heads."
            raise BitternError(WRONG_NUMBER, what, "Take a number of heads that divides both.")
        return self._drawn(draft, q, k, v)

    def _drawn(self, draft: "Draft", q: Flow, k: Flow, v: Flow) -> Flow:
        a, g = draft.a, self.heads
        (t, width), s, out = q.shape, k.shape[0], v.shape[1]
        parts = [a.op("reshape", x.node, shape=(BATCH, x.shape[0], g, x.shape[1] // g)) for x in (q, k, v)]
        u16 = ELEMENTS["u16"]
        table = draft.parameter("weights_of_scores", u16, (_TABLE,), lambda _: falling())
        spread = (width / g) ** 0.5 * q.rms * k.rms
        shift = max(0, min(31, round(log2(max(1.0, spread / _STEPS)))))
        seen = np.tril(np.ones((t, s), np.bool_)) if self.causal else np.ones((t, s), np.bool_)
        held = draft.constant("weights_of_scores", table, u16)
        given: list[Argument] = [*parts, self._bias(draft, t, s), a.constant(seen, "bit"), held, shift, _SCALE]
        made = a.call("attention_of_codes.multi_head_attention_of_codes", *given)
        means = Flow(a.op("reshape", made, shape=(BATCH, t, out)), _SCALE * v.low, _SCALE * v.high, _SCALE * v.rms / 2)
        return quantised(draft, means, draft.element(self.bits))

    def _bias(self, draft: "Draft", t: int, s: int) -> Node:
        """Return what positions add to the scores, [heads, t, s]."""
        if not self.distance:
            return draft.a.constant(np.zeros((self.heads, t, s), np.int64), "i32")
        shape = (self.heads, 2 * self.distance + 1)
        initial = -np.abs(np.arange(shape[1]) - self.distance)
        relative = draft.parameter("relative", I32, shape, lambda _: initial)
        function = draft.a.library.function("attention_of_codes.relative_bias")
        start = draft.a.constant(0, "u32")
        sizes = {"t": t, "s": s, "n": shape[1]}
        dims = [dim(sizes[name]) for name in function.labels.dims]
        rows = [call_node(function, [draft.a.constant(row, "i32"), start], dims) for row in relative]
        return draft.a.op("stack", *rows, axis=0)


@dataclass(frozen=True, slots=True, eq=False)
class MultiHeadAttention(Composite):
    """Multi-head attention (Vaswani et al. 2017): projections to queries, keys and values, heads, a projection back.

    Called on x: [t, channels] codes it is self-attention; on x and memory: [s, channels] cross-attention.
    -> [t, channels] sums, or codes behind `activation`. Layers: `query`, `key`, `value`, `heads`, `output`; weights and
    codes between them have the widths `weights` and `inner_bits`.
    """

    KIND: ClassVar[str] = "multi_head_attention"

    channels: int
    heads: int
    causal: bool = field(default=False, kw_only=True)
    distance: int = field(default=0, kw_only=True)
    weights: Width = field(default="b1", kw_only=True)
    inner_bits: Width = field(default="b1", kw_only=True)
    activation: Named | Activation | None = field(default=None, kw_only=True)
    bits: Width | None = field(default=None, kw_only=True)

    def compose(self, x: Value, memory: Value | None = None) -> Value:
        """Return the layers."""
        q, k, v = (
            Dense(self.channels, self.channels, weights=self.weights, activation=_to(self.inner_bits), name=name)(value)
            for name, value in (("query", x), ("key", memory or x), ("value", memory or x))
        )
        heads = Attention(self.heads, causal=self.causal, distance=self.distance, bits=self.inner_bits, name="heads")
        back = Dense(
            self.channels,
            self.channels,
            weights=self.weights,
            activation=self.activation,
            bits=self.bits,
            name="output",
        )
        return back(heads(q, k, v))


def _to(bits: Width) -> Activation:
    """Return the activation that makes codes of a width."""
    kinds = {"b1": "sign", "1": "sign", "binary": "sign", "t": "ternary", "ternary": "ternary"}
    return Activation(kinds.get(str(bits), "linear"), bits)


def falling() -> Array:
    """Return 65535 / e^(i / 8) for i from 0 to 63, each made of the one before by one rounding, so equal everywhere."""
    made = [65535]
    for _ in range(_TABLE - 1):
        made.append((made[-1] * 57835 + 32768) >> 16)  # 57835 / 65536 is e^(-1/8)
    return np.array(made)
