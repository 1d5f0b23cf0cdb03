"""Rules for what works on each 8-bit code alone: sums of two arrays, and any function of one code, as a table."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from bittern.graph.evaluate import evaluate
from bittern.graph.node import blob
from bittern.kernels.add_bytes import Factor, Sum
from bittern.kernels.blend_bytes import Line
from bittern.kernels.requantise import choose, records
from bittern.kernels.tiles import ROWS
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Mode, Operand, Recipe, Region
from bittern.plan.rules.layer_numbers import ROUNDINGS, Ints, array_of, kernel_element, rounding_of
from bittern.plan.scene import Scene
from bittern.types.dims import dim
from bittern.types.elements import U8
from bittern.types.values import Tensor

_ANY = 1 << 31  # what sums of which nothing is known reach
_SHARED = 1 << 16  # values from which threads share a launch
_SUMS = ("tflite.add", "tflite.subtract")
# functions of one code: library functions whose first argument is [c] codes and whose others are constants
_TABLES = ("tflite.requantise", "tflite.clamp", "tflite.table", "tflite.leaky_relu", "tflite.hard_swish")
KNOWN = (*_SUMS, *_TABLES)  # functions that stay whole


def sum_of_bytes(apply: Apply, scene: Scene) -> Region | None:
    """Two arrays of codes with scales of their own, added or subtracted."""
    if apply.name not in _SUMS or apply.mapped[:2] != (True, True) or any(apply.mapped[2:]):
        return None
    x, y, *rest = apply.arguments
    numbers = [scene.number(value) for value in rest]
    element, n = kernel_element(x), apply.results[0].size.constant
    if element is None or not n or any(not isinstance(number, int) for number in numbers):
        return None
    left, x_zero, x_factor, x_shift, y_zero, y_factor, y_shift, factor, shift, zero, low, high = map(int, numbers)  # type: ignore[arg-type]
    total = Sum(
        element,
        Factor(x_zero, x_factor, x_shift),
        Factor(y_zero, y_factor, y_shift),
        left,
        Factor(0, factor, shift),
        zero,
        low,
        high,
        apply.name == _SUMS[1],
    )
    if not total.is_exact():
        return None
    line = _line(total)
    recipe = Recipe("blend_bytes", (n, line.arguments())) if line else Recipe("add_bytes", (n, total.arguments()))
    return _region(apply, recipe, {"x": x, "y": y}, "z", n)


@lru_cache(maxsize=64)
def _line(total: Sum) -> Line | None:
    return total.line()


def codes_of_sums(apply: Apply, scene: Scene) -> Region | None:
    """An output stage of sums that are in memory."""
    if apply.name not in ROUNDINGS or apply.mapped[:1] != (True,) or any(apply.mapped[1:]):
        return None
    x, rows = apply.arguments[0], apply.rows.constant
    rule = rounding_of(apply, scene) if kernel_element(apply.results[0]) is not None else None
    if rule is None or not rows or x.type.element.name != "i32" or x.source == "const":
        return None
    c = len(rule.multiplier)
    stage = choose(rule, np.full(c, _ANY, np.int64)) if c else None
    if stage is None:
        return None
    alike = len(np.unique(rule.multiplier)) == len(np.unique(rule.shift)) == 1
    made = records(stage, np.zeros(ROWS if alike else c, np.int64), rule.repeated(ROWS) if alike else rule)
    r = Value(Tensor(U8, (dim(made.size),)), "const", data=blob(made.tobytes()), label="records")
    return _region(apply, Recipe("codes_of_sums", (rows, c, stage.arguments(), alike)), {"x": x, "r": r}, "y", rows * c)


def table_of_bytes(apply: Apply, scene: Scene) -> Region | None:
    """A function of one code."""
    if apply.name == "lookup":
        return _lookup(apply)
    if apply.name not in _TABLES or apply.mapped[:1] != (True,) or any(apply.mapped[1:]) or apply.function is None:
        return None
    x, *rest = apply.arguments
    given, n = [array_of(value) for value in rest], apply.results[0].size.constant
    if kernel_element(x) is None or kernel_element(apply.results[0]) is None or not n or apply.function.dims != 1:
        return None
    if any(each is None for each in given):
        return None
    element = x.type.element
    codes = np.arange(element.low, element.high + 1).astype(element.storage)
    made = np.zeros(256, np.uint8)
    made[codes.view(np.uint8)] = evaluate(apply.function, [codes, *given], (len(codes),)).view(np.uint8)
    return _by_table(apply, x, made, n)


def _lookup(apply: Apply) -> Region | None:
    """A table of 8-bit entries, looked up with 8-bit codes."""
    table, x = apply.arguments
    entries, n = array_of(table), apply.results[0].size.constant
    if entries is None or entries.dtype.itemsize != 1 or entries.size > 256 or kernel_element(x) != "u8" or not n:
        return None
    made = np.zeros(256, np.uint8)
    made[: entries.size] = entries.view(np.uint8)
    return _by_table(apply, x, made, n)


def _by_table(apply: Apply, x: Value, table: Ints, n: int) -> Region:
    made = Value(Tensor(U8, (dim(256),)), "const", data=blob(table.tobytes()), label="table")
    return _region(apply, Recipe("table_bytes", (n,)), {"x": x, "table": made}, "y", n)


def _region(apply: Apply, recipe: Recipe, reads: Mapping[str, Operand], to: str, n: int) -> Region:
    mode: Mode = "split" if n >= _SHARED else "one"
    launch = Launch(recipe, reads, {to: apply.results[0]}, mode=mode, label=apply.label)
    return Region("", (apply,), (launch,))
