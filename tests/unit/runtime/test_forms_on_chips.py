"""Every form that takes a chain's place, on the native chip: the bits of the chain on `vm`."""

from collections.abc import Callable

import numpy as np
import pytest

from bittern.chips.x86.features import is_here
from bittern.front.network.assembly import Assembly
from bittern.graph.evaluate import evaluate
from bittern.graph.node import Node
from bittern.lang.library import Library
from bittern.runtime.network import NetworkModel

pytestmark = pytest.mark.skipif(not is_here(), reason="the chip x86 runs on x86-64")

Draw = Callable[[Assembly, Node, Node], Node]


def real(a: Assembly, x: Node) -> Node:
    return a.op("convert", x, to="f32")


def row(a: Assembly, values: list[float], x: Node) -> Node:
    return a.spread(a.constant(np.array(values, np.float32), "f32"), x)


def scaled(scale: float, element: str, offset: float = 0.0) -> Draw:
    def draw(a: Assembly, x: Node, y: Node) -> Node:
        z = a.op("add", a.op("mul", real(a, x), row(a, [scale, -scale, 2 * scale], x)), row(a, [offset, 0.1, -0.3], x))
        return a.op("sign" if element in ("b1", "t") else "round", z, to=element)

    return draw


def alike(scale: float, element: str) -> Draw:
    return lambda a, x, y: a.op("round", a.scalar("mul", real(a, x), scale), to=element)


def squared(a: Assembly, x: Node, y: Node) -> Node:
    z = a.scalar("mul", real(a, y), 0.4)
    return a.op("round", a.op("mul", z, z), to="u8")


def joined(a: Assembly, x: Node, y: Node) -> Node:
    z = a.op("add", a.scalar("mul", real(a, y), 0.5), a.scalar("mul", real(a, a.op("wrap", x, to="i4")), 0.25))
    return a.op("round", z, to="i3")


def product(a: Assembly, x: Node, y: Node) -> Node:
    z = a.op("mul", real(a, y), real(a, a.op("wrap", x, to="i4")))
    return a.op("round", a.scalar("mul", z, 0.3), to="i8")


def rows(a: Assembly, x: Node, y: Node) -> Node:
    z = a.op("mul", real(a, y), row(a, [0.3, 0.7, -1.1], y))
    return a.op("round", a.op("mul", z, z), to="u8")


def nudged(a: Assembly, x: Node, y: Node) -> Node:
    """Accumulators so wide that the roundings of floats move steps."""
    wide = a.op("add", a.scalar("mul", a.op("convert", x, to="i32"), 16), a.op("convert", y, to="i32"))
    z = a.scalar("div", a.scalar("mul", real(a, a.op("sum", a.op("stack", wide, wide, axis=2))), 4.3e-6), 0.0213)
    return a.op("round", z, to="i8")


FORMS = {
    "nudged": nudged,
    "thresholds.sign_at": scaled(0.01, "b1", 2.0),
    "thresholds.ternary_at": scaled(0.01, "t"),
    "thresholds.levels": scaled(0.001, "u3"),
    "requantise.requantise": alike(0.0123, "i8"),
    "rounding.requantise_half_even": alike(2.0**-7, "u8"),
    "lookup": squared,
    "take": rows,
    "sum": joined,
    "pairs": product,
}


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("batch", [1, 5])
def test_a_form_has_the_bits_of_its_chain(form: str, batch: int) -> None:
    a = Assembly(Library.standard())
    x, y = a.input("x", "i16", (3,)), a.input("y", "i4", (3,))
    network = a.network("n", {"r": FORMS[form](a, x, y), "x": x})
    rng = np.random.default_rng(0)
    given = [rng.integers(-32768, 32768, (batch, 3)).astype(np.int16), rng.integers(-8, 8, (batch, 3)).astype(np.int8)]
    expected = evaluate(network.function, given, [batch])[0]
    model = NetworkModel(network, "x86", 1)
    (fold,) = model.passed.folds
    assert fold.form == {"sum": "thresholds.levels", "pairs": "take", "nudged": "requantise.requantise"}.get(form, form)
    assert model.passed.is_integer and ("nudged" in fold.detail) == (form == "nudged")
    assert np.array_equal(model.run(*given)["r"], expected)
