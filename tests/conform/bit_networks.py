"""Small networks of one to a few bits, made of library functions as importers make them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.network.assembly import Assembly, shape_of
from bittern.front.network.network import Network
from bittern.graph.node import Node
from bittern.lang.library import Library

Array = npt.NDArray[Any]
LIBRARY = Library.standard()
LEVELS = {
    "b1": (-1, 1),
    "t": (-1, 1),
    "u2": (0, 3),
    "i2": (-2, 1),
    "i3": (-4, 3),
    "u3": (0, 7),
    "u8": (0, 255),
    "i8": (-128, 127),
}


def values(rng: np.random.Generator, element: str, shape: Sequence[int]) -> Array:
    """Return random values of an element."""
    low, high = LEVELS[element]
    found: Array = rng.choice([-1, 1], shape) if element == "b1" else rng.integers(low, high + 1, shape)
    return found.astype(np.uint8 if element[0] == "u" else np.int8)


@dataclass
class Maker:
    """Makes one network, layer by layer; weights and thresholds are random."""

    seed: int = 0
    a: Assembly = field(default_factory=lambda: Assembly(LIBRARY))
    rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def constant(self, element: str, shape: Sequence[int]) -> Node:
        """Return random weights."""
        return self.a.constant(values(self.rng, element, shape), element)

    def dense(self, x: Node, m: int, element: str = "b1") -> Node:
        """Return the sums of a dense layer; what is no vector is made one."""
        shape = shape_of(x)
        n = int(np.prod(shape))
        flat = x if len(shape) == 1 else self.a.op("reshape", x, shape=(x.type.shape[0], n))  # type: ignore[union-attr]
        return self.a.call("dense.dense", self.constant(element, (m, n)), flat)

    def windows(self, x: Node, size: int, stride: int = 1, dilation: int = 1) -> Node:
        """Return windows of both axes of an image."""
        rows = self.a.op("windows", x, axis=1, size=size, stride=stride, dilation=dilation)
        return self.a.op("windows", rows, axis=3, size=size, stride=stride, dilation=dilation)

    def padded(self, x: Node, value: int, element: str, before: int = 1, after: int = 1) -> Node:
        """Put numbers around an image."""
        outside = self.a.constant(value, element)
        rows = self.a.op("pad", x, outside, axis=1, before=before, after=after)
        return self.a.op("pad", rows, outside, axis=2, before=before, after=after)

    def conv(self, x: Node, m: int, size: int, element: str = "b1", stride: int = 1, dilation: int = 1) -> Node:
        """Return the sums of a convolution."""
        w = self.constant(element, (m, size, size, shape_of(x)[-1]))
        return self.a.call("convolution.conv2d", w, self.windows(x, size, stride, dilation))

    def pool(self, x: Node, size: int, stride: int) -> Node:
        """Return the greatest of windows."""
        return self.a.call("pooling.max_pool2d", self.windows(x, size, stride))

    def sign(self, sums: Node) -> Node:
        """Compare sums with a threshold."""
        m, lead = shape_of(sums)[-1], len(shape_of(sums))
        return self.a.call("thresholds.sign_at", sums, *self._at((m,)), lead=lead)

    def ternary(self, sums: Node) -> Node:
        """Compare sums with two thresholds."""
        m, lead = shape_of(sums)[-1], len(shape_of(sums))
        return self.a.call("thresholds.ternary_at", sums, *self._at((m, 2)), lead=lead)

    def levels(self, sums: Node, element: str, k: int, low: int) -> Node:
        """Compare sums with k thresholds."""
        m, lead = shape_of(sums)[-1], len(shape_of(sums))
        return self.a.call("thresholds.levels", sums, *self._at((m, k)), low, lead=lead, elements={"e": element})

    def _at(self, shape: tuple[int, ...]) -> tuple[Node, Node]:
        at = self.rng.integers(-8, 9, shape).astype(np.int32)
        at[self.rng.random(shape) < 0.05] = 2**31 - 1
        return self.a.constant(at, "i32"), self.a.constant(self.rng.random(shape[0]) < 0.5, "bit")

    def made(self, *results: Node) -> Network:
        """Return the network."""
        return self.a.network("net", {f"y{k}": each for k, each in enumerate(results)})


def _vectors(element: str, n: int, build: Callable[[Maker, Node], Sequence[Node]]) -> Network:
    maker = Maker()
    return maker.made(*build(maker, maker.a.input("x", element, (n,))))


def _vectors_of(element: str, shape: tuple[int, int], build: Callable[[Maker, Node], Sequence[Node]]) -> Network:
    maker = Maker()
    return maker.made(*build(maker, maker.a.input("x", element, shape)))


def _images(element: str, shape: tuple[int, int, int], build: Callable[[Maker, Node], Sequence[Node]]) -> Network:
    maker = Maker()
    return maker.made(*build(maker, maker.a.input("x", element, shape)))


def _two_dense(m: Maker, x: Node) -> Sequence[Node]:
    return [m.dense(m.sign(m.dense(m.sign(m.dense(x, 70)), 20)), 10)]


def _ternary(m: Maker, x: Node) -> Sequence[Node]:
    return [m.dense(m.ternary(m.dense(m.ternary(m.dense(x, 70, "t")), 33, "i2")), 10, "t")]


def _two_bits(m: Maker, x: Node) -> Sequence[Node]:
    first = m.levels(m.dense(x, 70, "i2"), "u2", 3, 0)
    return [m.dense(m.levels(m.dense(first, 33, "t"), "i2", 3, -2), 10, "u2")]


def _many_bits(m: Maker, x: Node) -> Sequence[Node]:
    return [m.sign(m.dense(m.levels(m.dense(x, 70, "i3"), "u3", 7, 0), 33, "i3"))]


def _images_of_signs(m: Maker, x: Node) -> Sequence[Node]:
    y = m.sign(m.conv(m.padded(x, 1, "b1"), 34, 3))
    y = m.pool(m.sign(m.conv(m.padded(y, -1, "b1"), 40, 3)), 2, 2)
    return [m.dense(m.sign(m.conv(y, 64, 3, stride=2)), 10)]


def _overlapping(m: Maker, x: Node) -> Sequence[Node]:
    y = m.pool(m.ternary(m.conv(x, 40, 3, dilation=2)), 3, 1)
    return [m.dense(m.ternary(m.conv(m.padded(y, 0, "t", 2, 1), 20, 3, "t")), 10)]


def _padded_pool(m: Maker, x: Node) -> Sequence[Node]:
    y = m.pool(m.padded(m.sign(m.conv(x, 40, 3)), -1, "b1", 1, 0), 2, 2)
    return [m.sign(m.conv(y, 20, 2))]


def _residual(m: Maker, x: Node) -> Sequence[Node]:
    y = m.sign(m.conv(m.padded(x, 1, "b1"), 32, 3))
    z = m.conv(m.padded(y, 1, "b1"), 32, 3)
    total = m.a.op("add", z, m.a.op("convert", y, to="i32"))
    return [m.dense(m.sign(total), 10), m.a.op("convert", y, to="i8")]


def _exact_zeros(m: Maker, x: Node) -> Sequence[Node]:
    sums = m.conv(m.padded(x, 1, "b1"), 20, 3)
    size = shape_of(sums)
    outer = m.a.constant(m.rng.integers(-3, 3, size).astype(np.int32), "i32")
    moved = m.a.op("sub", sums, m.a.spread(outer, sums))
    bias = m.a.call(
        "requantise.bias", moved, m.a.constant(m.rng.integers(-5, 5, size[-1]).astype(np.int32), "i32"), lead=3
    )
    return [m.sign(bias), m.a.call("requantise.bias", m.dense(m.sign(bias), 7), m.a.constant(np.arange(7), "i32"))]


def _sequences(m: Maker, x: Node) -> Sequence[Node]:
    def conv(x: Node, channels: int, size: int) -> Node:
        cut = m.a.op("windows", x, axis=1, size=size, stride=1, dilation=2)
        return m.a.call("convolution.conv1d", m.constant("b1", (channels, size, shape_of(x)[-1])), cut)

    y = m.sign(conv(m.a.op("pad", x, m.a.constant(1, "b1"), axis=1, before=2, after=1), 70, 3))
    y = m.a.call("pooling.max_pool1d", m.a.op("windows", y, axis=1, size=2, stride=2, dilation=1))
    places = m.a.call("dense.dense", m.constant("b1", (20, 70)), y, lead=2)
    return [m.sign(places), m.dense(m.ternary(conv(y, 33, 2)), 9)]


def _pooled_codes(m: Maker, x: Node) -> Sequence[Node]:
    y = m.pool(m.levels(m.conv(x, 40, 3), "u2", 3, 0), 2, 2)
    depthwise = m.a.call("convolution.depthwise2d", m.constant("b1", (2, 2, 40)), m.windows(y, 2))
    return [m.sign(m.conv(y, 20, 2, "t")), m.sign(depthwise)]


def _bright(m: Maker, x: Node) -> Sequence[Node]:
    flat = m.a.op("reshape", x, shape=(x.type.shape[0], int(np.prod(shape_of(x)))))  # type: ignore[union-attr]
    return [m.dense(m.sign(m.dense(m.a.op("convert", m.a.scalar("le", flat, 128, first=True), to="b1"), 20)), 5)]


def _first_bytes(m: Maker, x: Node) -> Sequence[Node]:
    y = m.sign(m.conv(x, 40, 3))
    return [m.levels(m.dense(m.pool(y, 2, 2), 20), "u8", 20, 3)]


def _both(m: Maker, x: Node) -> Sequence[Node]:
    y = m.sign(m.dense(x, 70))
    return [y, m.dense(y, 10), m.levels(m.dense(y, 20), "u3", 4, 1)]


# fmt: off
NETWORKS: dict[str, Network] = {
    "two dense layers of signs":        _vectors("b1", 75, _two_dense),
    "one channel":                      _vectors("b1", 1, _two_dense),
    "ternary":                          _vectors("t", 130, _ternary),
    "two bits":                         _vectors("u2", 75, _two_bits),
    "two signed bits":                  _vectors("i2", 75, _two_bits),
    "three bits":                       _vectors("i3", 40, _many_bits),
    "signs of bytes":                   _vectors("i8", 30, _two_dense),
    "images of signs":                  _images("b1", (9, 8, 33), _images_of_signs),
    "images of one channel":            _images("b1", (9, 8, 1), _images_of_signs),
    "pools that overlap":               _images("t", (9, 9, 20), _overlapping),
    "pools that are padded":            _images("b1", (7, 8, 20), _padded_pool),
    "a residual":                       _images("b1", (5, 6, 32), _residual),
    "exact zeros around signs":         _images("b1", (5, 6, 31), _exact_zeros),
    "sequences":                        _vectors_of("b1", (15, 30), _sequences),
    "pools of two bits":                _images("u2", (8, 9, 33), _pooled_codes),
    "what is brighter than a number":   _images("u8", (5, 6, 3), _bright),
    "images of bytes":                  _images("u8", (8, 9, 3), _first_bytes),
    "signs that are given out":         _vectors("b1", 75, _both),
}
# fmt: on
