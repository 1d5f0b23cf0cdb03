"""Recurrent layers with quantised gates, in whole numbers alone (`recurrent.lstm`, `recurrent.gru`).

A gate is a share of k: how many of its thresholds its sum reaches. The hidden state is codes of the layer's width.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from bittern.base.errors import BitternError
from bittern.front.network.assembly import BATCH
from bittern.front.network.dense import need_codes, need_numbers
from bittern.front.network.draft import TOO_WIDE, WRONG_NUMBER, WRONG_SHAPE, Array, Flow, Initial, flow, limited
from bittern.front.network.layer import Layer
from bittern.front.network.widths import Width
from bittern.graph.node import Node
from bittern.types.elements import I32, Element

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft


@dataclass(frozen=True, slots=True, eq=False)
class Recurrent(Layer):
    """What recurrent layers share. x: [s, inputs] codes -> [units] codes, or [s, units] if `sequences`.

    weights: their width. bits: that of the hidden state. gate_levels: into how many parts a gate cuts what it passes;
    0 takes as many as the width of the state has (1 for signs).
    """

    inputs: int
    units: int
    weights: Width = field(default="b1", kw_only=True)
    bits: Width = field(default="b1", kw_only=True)
    gate_levels: int = field(default=0, kw_only=True)
    sequences: bool = field(default=False, kw_only=True)

    def checked(self, draft: "Draft", x: Flow) -> Flow:
        """Return the sequence. Raises N102, N106, N107."""
        need_numbers(inputs=self.inputs, units=self.units)
        if not 0 <= self.gate_levels <= 255:
            raise BitternError(WRONG_NUMBER, f"`gate_levels` is {self.gate_levels}.", "Give 1 to 255.")
        if len(x.shape) != 2:
            what = f"It takes steps of {self.inputs} values and gets {list(x.shape)}."
            raise BitternError(WRONG_SHAPE, what, "Reshape what comes before it.")
        return need_codes(draft, x, (x.shape[0], self.inputs), f"steps of {self.inputs} values")

    def levels(self, state: Element) -> int:
        """Return how many parts a gate has."""
        return self.gate_levels or max(1, state.high - state.low if state.name != "b1" else 1)

    def weight(self, draft: "Draft", name: str, gates: int, columns: int) -> tuple[Array, Node]:
        """Return the weights of all gates, [gates, units, columns]."""
        element, shape = draft.element(self.weights), (gates, self.units, columns)
        w = draft.parameter(name, element, shape, lambda numbers: numbers.codes(element, shape))
        return w, draft.constant(name, w, element)

    def bounded(self, draft: "Draft", x: Flow, state: Element, *arrays: Array) -> None:
        """Note N108 where a gate's sum, or what a gate passes, could leave 32 bits. arrays: weights and biases."""
        columns = (self.inputs * max(-x.low, x.high), self.units * max(1, -state.low, state.high))
        greatest = [int(np.abs(array.astype(np.int64)).max(initial=0)) for array in arrays]
        sums = columns[0] * greatest[0] + columns[1] * greatest[1] + sum(greatest[2:])
        most = sums * (self.levels(state) if self.KIND == "gru" else 1)  # the reset gate is multiplied in
        limited(draft, x.node, -most, most, 1.0)

    def numbers(self, draft: "Draft", name: str, shape: tuple[int, ...], initial: Initial) -> tuple[Array, Node]:
        """Return a parameter of whole numbers."""
        array = draft.parameter(name, I32, shape, initial)
        return array, draft.constant(name, array, I32)

    def finished(self, draft: "Draft", states: Node, steps: int) -> Flow:
        """Return the states of all steps, or the last one."""
        if self.sequences:
            return flow(states)
        last = draft.a.op("slice", states, axis=1, low=steps - 1, high=steps, stride=1)
        return flow(draft.a.op("reshape", last, shape=(BATCH, self.units)))

    def hidden(self, draft: "Draft", state: Element) -> Node:
        """Return the hidden state before the first step: 0, or +1 for signs."""
        return draft.a.constant(np.full(self.units, 1 if state.name == "b1" else 0), state.name)


def even(count: int, reach: float) -> Array:
    """Return thresholds at equal distances around 0. reach: of the outermost ones."""
    steps = (2 * np.arange(count) + 1 - count) * (reach / max(count, 1))
    made: Array = np.rint(steps).astype(np.int64)
    return made


def gates(count: int, reach: float) -> Array:
    """Return initial thresholds of gates, which let most pass."""
    return even(count, reach / 2) - round(reach / 2)


def codes_of(state: Element) -> tuple[int, int]:
    """Return how many thresholds a number of this element is made by, and the lowest code, with as many above 0.

    Signs take two equal thresholds, which make -1 or +1 of -1 and the count.
    """
    return (2, -1) if state.name in ("b1", "t") else (2 * state.high, -state.high)


def candidates(state: Element, reach: float) -> Array:
    """Return initial thresholds of candidates and of what leaves a cell."""
    return np.zeros(2, np.int64) if state.name == "b1" else even(codes_of(state)[0], reach)


@dataclass(frozen=True, slots=True, eq=False)
class LSTM(Recurrent):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000) with quantised gates.

    Gates in order: input, forget, candidate, output. Parameters: `weight` [4, units, inputs], `recurrent` [4, units,
    units], `bias` [4, units], `gate` [3, units, levels], `candidate` and `squash` [units, codes - 1]. most: the
    greatest magnitude of a cell, in candidates.
    """

    KIND: ClassVar[str] = "lstm"

    most: int = field(default=8, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the sequence. Raises N102, N105, N106, N107."""
        need_numbers(most=self.most)
        x, state, m = self.checked(draft, x), draft.element(self.bits), self.units
        k, (j, low), reach = self.levels(state), codes_of(state), _reach(x, state, self)
        weight, w = self.weight(draft, "weight", 4, self.inputs)
        back, r = self.weight(draft, "recurrent", 4, m)
        bias, b = self.numbers(draft, "bias", (4, m), lambda _: np.zeros((4, m), np.int64))
        self.bounded(draft, x, state, weight, back, bias)
        greatest = max(1, state.high)
        if k * (self.most + 1) * greatest > I32.high:
            what = f"Cells of {self.most * greatest} times gates of {k} do not fit 32 bits."
            raise BitternError(TOO_WIDE, what, "Give a smaller `most`.")
        leaves = [
            w,
            r,
            b,
            self.numbers(draft, "gate", (3, m, k), lambda _: gates(k, reach))[1],
            self.numbers(draft, "candidate", (m, j), lambda _: candidates(state, reach))[1],
            draft.a.constant(low, "i32"),
            self.numbers(draft, "squash", (m, j), lambda _: candidates(state, 2.0 * greatest))[1],
            draft.a.constant(low, "i32"),
            draft.a.constant(self.most * greatest, "i32"),
        ]
        given = [self.hidden(draft, state), draft.a.constant(np.zeros(m, np.int64), "i32"), x.node, *leaves]
        made = applied(draft, "recurrent.lstm", given, x, w, state, mapped=2)
        return self.finished(draft, draft.a.items(made)[0], x.shape[0])


@dataclass(frozen=True, slots=True, eq=False)
class GRU(Recurrent):
    """A gated recurrent unit (Cho et al. 2014) with quantised gates.

    Gates in order: reset, update, candidate. Parameters: `weight` [3, units, inputs], `recurrent` [3, units, units],
    `bias` [3, units], `reset_bias` [units], `gate` [2, units, levels], `candidate` [units, codes - 1].
    """

    KIND: ClassVar[str] = "gru"

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the sequence. Raises N102, N105, N106, N107."""
        x, state, m = self.checked(draft, x), draft.element(self.bits), self.units
        k, (j, low), reach = self.levels(state), codes_of(state), _reach(x, state, self)
        weight, w = self.weight(draft, "weight", 3, self.inputs)
        back, r = self.weight(draft, "recurrent", 3, m)
        bias, b = self.numbers(draft, "bias", (3, m), lambda _: np.zeros((3, m), np.int64))
        reset, rb = self.numbers(draft, "reset_bias", (m,), lambda _: np.zeros(m, np.int64))
        self.bounded(draft, x, state, weight, back, bias, reset)
        leaves = [
            w,
            r,
            b,
            rb,
            self.numbers(draft, "gate", (2, m, k), lambda _: even(k, reach))[1],
            self.numbers(draft, "candidate", (m, j), lambda _: candidates(state, reach))[1],
            draft.a.constant(low, "i32"),
        ]
        made = applied(draft, "recurrent.gru", [self.hidden(draft, state), x.node, *leaves], x, w, state, mapped=1)
        return self.finished(draft, made, x.shape[0])


def applied(draft: "Draft", name: str, given: list[Node], x: Flow, w: Node, state: Element, mapped: int) -> Node:
    """Return a recurrent function of the library applied to every sample. mapped: the place of the sequence."""
    own = {"a": w.type.element.name, "e": x.element.name}  # type: ignore[union-attr]
    overload = "" if state.is_integer else state.name
    elements = own | ({"f": state.name} if state.is_integer else {})
    function = draft.a.library.function(name, elements=elements, overload=overload)
    return draft.a.apply(name, function, given, 1, [place == mapped for place in range(len(given))])


def _reach(x: Flow, state: Element, layer: Recurrent) -> float:
    """Return twice the expected root mean square of a gate's sum."""
    weight = {"b1": 1.0, "t": 0.8}.get(str(layer.weights))
    if weight is None:
        weight = max(1.0, (1 << max(0, int("".join(filter(str.isdigit, str(layer.weights))) or 1) - 1)) / 3**0.5)
    back = 1.0 if state.name == "b1" else max(1.0, state.high / 3**0.5)
    return 2.0 * weight * float((layer.inputs * x.rms**2 + layer.units * back**2) ** 0.5)
