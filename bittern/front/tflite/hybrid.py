"""Layers of TFLite with int8 weights and float inputs ("dynamic range"): the input becomes codes when the model runs.

Each sample, or each row of a dense layer, has one scale, its greatest magnitude over 127; zero is code 0. The exact sum
of products of codes is one rounding away from a float, which is multiplied by both scales.
"""

import numpy as np

from bittern.front.network.assembly import BATCH
from bittern.front.tflite.factors import real_bounds
from bittern.front.tflite.site import Site, shape
from bittern.front.tflite.windows import Walk, windowed
from bittern.graph.node import Node


def hybrid_convolution(site: Site, rows: Walk, columns: Walk) -> None:
    """Give a convolution. Raises N321 if the weights have several scales."""
    x = site.input(0)
    weight = _scale(site)
    sizes = shape(site.node(0))
    if not x.is_folded:
        site.refuse("works on a batch of its own", "Convert the model with a batch of one.")
    flat = site.a.op("reshape", site.node(0), shape=(BATCH, x.sample[0] * x.sample[1] * x.sample[2]))
    codes, scale = site.a.items(site.a.call("tflite_float.codes", flat))
    codes = site.a.op("reshape", codes, shape=sizes)
    y = windowed(site, codes, x.axis(1), rows, columns, site.a.constant(0, "i8"))
    w = site.a.constant(site.numbers(1), "i8")
    acc = site.a.call("convolution.conv2d", w, y, mapped=(False, True))
    low, high = real_bounds(site.activation(3))
    bias = _bias(site, len(site.numbers(1)))
    mapped = (True, True, False, False, False, False)
    site.give(site.a.call("tflite_float.scaled2d", acc, scale, weight, bias, low, high, mapped=mapped))


def hybrid_dense(site: Site, x: Node, lead: int) -> None:
    """Give a dense layer of x [b, .., n]. lead: axes before the last. Raises N321 as for convolutions."""
    weight = _scale(site)
    if site.option(3, "B"):
        site.refuse("makes codes with zero points of its inputs", "Convert the model to int8 throughout, or to float.")
    codes, scale = site.a.items(site.a.call("tflite_float.codes", x, lead=lead))
    w = site.a.constant(site.numbers(1), "i8")
    acc = site.a.call("dense.dense", w, codes, lead=lead, mapped=(False, True))
    low, high = real_bounds(site.activation(0))
    bias = _bias(site, len(site.numbers(1)))
    mapped = (True, True, False, False, False, False)
    site.give(site.a.call("tflite_float.scaled", acc, scale, weight, bias, low, high, lead=lead, mapped=mapped))


def _scale(site: Site) -> float:
    """Return the one scale of the weights. Raises N321."""
    quantisation = site.input(1).row.quantisation
    if quantisation is None or len(quantisation.scale) != 1 or quantisation.zero[0]:
        site.refuse(
            "has int8 weights of several scales for float inputs (dynamic range)",
            "Convert the model to int8 throughout, or to float.",
        )
    site.need(site.output().element, "f32")
    return float(quantisation.scale[0])


def _bias(site: Site, channels: int) -> Node:
    bias = site.numbers(2, "f32") if site.has(2) else np.zeros(channels, np.float32)
    if bias.shape != (channels,):
        site.refuse(f"has {channels} channels and a bias of shape {list(bias.shape)}", "Convert the model again.")
    return site.a.constant(bias, "f32")
