"""Operators of TFLite with a state: LSTMs over sequences, and filters over time (SVDF)."""

from math import frexp, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.network.assembly import BATCH
from bittern.front.tflite.factors import RANGES
from bittern.front.tflite.site import Site
from bittern.graph.node import Node

Array = npt.NDArray[Any]

_TANH = 4
_W, _R, _PEEPHOLE, _BIAS, _PROJECTION, _HIDDEN, _CELL, _NORM = 1, 5, 9, 12, 16, 18, 19, 20  # places among the inputs
_GATE_SCALE = np.float32(2**-12)  # of what the functions of the gates take
_GATES = 4
_PLAIN = "LSTMs with four gates and nothing else are supported, batch first."


def unidirectional_sequence_lstm(site: Site) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: int8 with an int16 cell state, or float."""
    _check_lstm(site)
    x = site.input(0)
    element = site.need(x.row.element, "i8", "f32")
    w, r = (np.stack([site.numbers(place + k, element) for k in range(_GATES)]) for place in (_W, _R))
    bias = np.stack([site.numbers(_BIAS + k, "i32" if element == "i8" else "f32") for k in range(_GATES)])
    count, n = w.shape[1], w.shape[-1]
    if w.ndim != 3 or x.shape[2] != n or r.shape != (_GATES, count, count) or bias.shape != (_GATES, count):
        site.refuse(f"has gates of shape {list(w.shape)} and {list(r.shape)}", _PLAIN)
    if any(site.input(place).sample != (count,) for place in (_HIDDEN, _CELL)):
        site.refuse(f"has {count} units and a state of another size", "Convert the model again.")
    hidden, cell = site.state(_HIDDEN), site.state(_CELL)
    if element == "f32":
        for place in (_HIDDEN, _CELL):
            site.need(site.input(place).row.element, "f32")
        weights = [site.a.constant(each, "f32") for each in (w, r, bias)]
        made = site.a.call("tflite_float.lstm", site.node(0), *weights, site.real_option(1), hidden, cell)
    else:
        made = _lstm_of_codes(site, w, r, bias, hidden, cell)
    all_, hidden, cell = site.a.items(made)
    site.give(all_)
    site.put_state(_HIDDEN, hidden)
    site.put_state(_CELL, cell)


def _check_lstm(site: Site) -> None:
    """Refuse what is no plain LSTM. Raises N321."""
    x = site.input(0)
    extra = [*range(_PEEPHOLE, _PEEPHOLE + 3), _PROJECTION, _PROJECTION + 1, *range(_NORM, _NORM + 4)]
    if any(site.has(place) for place in extra) or not site.has(_W) or site.option(3, "B") or site.option(5, "B"):
        site.refuse("has peepholes, a projection, norms, coupled gates, diagonal weights or time first", _PLAIN)
    if site.option(0, "b") != _TANH:
        site.refuse(f"has the activation {site.option(0, 'b')}", "Its activation is tanh.")
    shapes = [{site.input(place + k).shape for k in range(_GATES)} for place in (_W, _R, _BIAS)]
    if len(x.shape) != 3 or not x.is_folded or min(x.shape) < 1 or any(len(each) > 1 for each in shapes):
        site.refuse(f"has an input of shape {list(x.shape)} and weights of {shapes}", _PLAIN)


def _lstm_of_codes(site: Site, w: Array, r: Array, bias: Array, hidden: Node, cell: Node) -> Node:
    """Return the LSTM of 8-bit codes with a 16-bit cell; scales are multiplied in f32, as TFLite does."""
    site.need(site.input(_HIDDEN).row.element, "i8")
    site.need(site.input(_CELL).row.element, "i16")
    x_scale, x_zero = site.codes(site.input(0).row)
    h_scale, h_zero = site.codes(site.input(_HIDDEN).row)
    cell_scale, _ = site.codes(site.input(_CELL).row)
    fraction, exponent = frexp(float(cell_scale))
    bits = 1 - exponent
    if fraction != 0.5 or not 11 <= bits <= 14:
        site.refuse(f"has a cell state of scale {cell_scale}", "It is a power of two from 2^-14 to 2^-11.")
    if len(site.row.intermediates) <= _GATES or site.row.intermediates[_GATES] < 0:
        site.refuse("has no scale for its hidden state", "Convert the model again.")
    out_scale, out_zero = site.codes(site.tensor(site.row.intermediates[_GATES]))
    factors = []
    for k in range(_GATES):
        w_scale, _ = site.codes(site.input(_W + k).row)
        r_scale, _ = site.codes(site.input(_R + k).row)
        factors.append(
            [*site.factor(float(w_scale * x_scale / _GATE_SCALE)), *site.factor(float(r_scale * h_scale / _GATE_SCALE))]
        )
    clip = np.float32(site.real_option(1))
    bound = int(min(float(clip / cell_scale), 32767.0)) if clip > 0 else 32768
    last = site.factor(float(np.float32(2.0**-30 / float(out_scale))))
    x_bias = bias - x_zero * w.sum(axis=2, dtype=np.int64)
    r_bias = -h_zero * r.sum(axis=2, dtype=np.int64)
    constants = [site.a.constant(np.asarray(each).astype(np.int32), "i32") for each in (x_bias, r_bias, factors)]
    weights = [site.a.constant(each, "i8") for each in (w, r)]
    return site.a.call("tflite.lstm", site.node(0), *weights, *constants, bits, bound, *last, out_zero, hidden, cell)


def svdf(site: Site) -> None:
    """SVDF: int8 with a state of 8 or 16 bits."""
    x, w, time = site.input(0), site.numbers(1, "i8"), site.numbers(2)
    site.need(x.row.element, "i8")
    rank = site.option(0, "i")
    fits = w.ndim == time.ndim == 2 and x.shape == (1, w.shape[-1]) and len(time) == len(w) and time.shape[1] > 0
    if not fits or rank < 1 or len(w) % rank:
        shapes = f"{list(x.shape)}, {list(w.shape)} and {list(time.shape)}"
        site.refuse(f"has the shapes {shapes} and rank {rank}", "Convert the model again.")
    features, memory = time.shape
    state_row = site.input(4).row
    element = site.need(state_row.element, "i8", "i16")
    site.need(site.input(2).row.element, element)
    (x_scale, x_zero), (s_scale, s_zero) = site.codes(x.row), site.codes(state_row)
    (w_scale, _), (t_scale, _) = (site.codes(site.input(k).row) for k in (1, 2))
    scale, zero = site.codes(site.output())
    units = features // rank
    bias = site.numbers(3, "i32") if site.has(3) else np.zeros(units, np.int32)
    if bias.shape != (units,) or prod(site.input(4).sample) != features * memory:
        site.refuse(f"has {units} units and a bias or state of another size", "Convert the model again.")
    x_bias = -x_zero * w.sum(axis=1, dtype=np.int64)
    made = site.a.call(
        "tflite.svdf",
        site.node(0),
        site.a.constant(w, "i8"),
        site.a.constant(x_bias, "i32"),
        *site.factor(float(x_scale * w_scale / s_scale)),
        s_zero,
        *RANGES[element],
        site.a.constant(time.reshape(units, rank, memory), element),
        site.a.constant(bias, "i32"),
        *site.factor(float(s_scale * t_scale / scale)),
        zero,
        *RANGES["i8"],
        site.a.op("reshape", site.state(4), shape=(BATCH, features, memory)),
    )
    units_, state = site.a.items(made)
    site.give(units_)
    site.put_state(4, state)
