"""What is known of the integer values of a kernel: each as a polynomial over sizes, loop rounds and bounded unknowns.

The polynomial of a vector stands for any one of its lanes; lane-wise kinds keep the lane. A kind that has no polynomial
(a load, a minimum, a mask of bits) gives an unknown with the bounds that its row of `_RULES` states. Fixed-width
arithmetic has the polynomial of its operands only where the result is proven to be in the range of its element;
`index` is taken to be wide enough for the places of a buffer (see `prover`).
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from bittern.bitops.kernel import Kernel, Step, Value
from bittern.bitops.lanes import Lanes, array_of_bits
from bittern.bitops.prover import Bound, Prover
from bittern.types.dims import ZERO, Dim, dim

_Rule: TypeAlias = "Callable[[Ranges, Step, list[Dim]], Dim | None]"


class Ranges:
    """Polynomials of the values that are in sight. Steps and parameters are told with `define`."""

    def __init__(self, kernel: Kernel) -> None:
        self.prover = Prover(len(kernel.symbols), kernel.divides, list(kernel.at_least))
        self._steps: dict[Value, Step] = {}
        self._found: dict[Value, Dim] = {}
        for parameter in kernel.parameters:
            if parameter.value.type.is_integer:
                self._found[parameter.value] = self._bounded(
                    parameter.value.type,
                    [] if parameter.low is None else [parameter.low],
                    [] if parameter.high is None else [parameter.high],
                )

    def define(self, step: Step) -> None:
        """Tell which step makes a value."""
        for result in step.results:
            self._steps[result] = step

    def put(self, value: Value, polynomial: Dim) -> None:
        """Tell the polynomial of a value."""
        self._found[value] = polynomial

    def step_of(self, value: Value) -> "Step | None":
        """Return the step that makes a value, None for a parameter."""
        return self._steps.get(value)

    def save(self) -> "tuple[dict[Value, Dim], int]":
        """Return what is known, to be restored where a condition ends."""
        return dict(self._found), len(self.prover.known)

    def restore(self, saved: "tuple[dict[Value, Dim], int]") -> None:
        """Forget what was found out since `save`."""
        self._found = saved[0]
        del self.prover.known[saved[1] :]

    def of(self, value: Value) -> Dim:
        """Return the polynomial of an integer value."""
        found = self._found.get(value)
        if found is None:
            found = self._found[value] = self.prover.simple(self._derive(value))
        return found

    def _derive(self, value: Value) -> Dim:
        step = self._steps.get(value)
        rule = _RULES.get(step.kind) if step is not None else None
        if step is None or rule is None:
            return self._bounded(value.type)
        integers = all(v.type.is_integer or v.type.is_mask for v in step.operands)
        operands = [self.of(v) for v in step.operands if v.type.is_integer] if integers else []
        found = rule(self, step, operands) if integers else None
        if found is None:
            return self._bounded(value.type)
        return found if self._fits(found, value.type) else self._bounded(value.type)

    def _fits(self, found: Dim, type_: Lanes) -> bool:
        if type_.element.name == "index":
            return True
        return self.prover.within(found, type_.element.low, type_.element.high)

    def _bounded(self, type_: Lanes, lows: Sequence[Dim] = (), highs: Sequence[Dim] = ()) -> Dim:
        """Make an unknown of an integer type, which bounds it too."""
        if type_.element.name != "index":
            lows, highs = [*lows, dim(type_.element.low)], [*highs, dim(type_.element.high)]
        return self.prover.fresh([Bound(low) for low in lows], [Bound(high) for high in highs])

    def between(self, step: Step, choices: Sequence[Dim], lows: Sequence[Dim] = (), highs: Sequence[Dim] = ()) -> Dim:
        """Make an unknown that is one of the choices and obeys the bounds."""
        proves = self.prover.proves
        below = [low for low in (ZERO, *choices) if all(proves(c - low) for c in choices)]
        above = [high for high in (*choices, *self._tops(choices)) if all(proves(high - c) for c in choices)]
        return self._bounded(step.result.type, [*lows, *below], [*highs, *above])

    def _tops(self, choices: Sequence[Dim]) -> list[Dim]:
        found: list[Dim] = []
        for choice in choices:
            for position in choice.symbols():
                found += [b.number for b in self.prover.highs.get(position, ()) if b.over == 1]
        return found


def _const(ranges: Ranges, step: Step, _: list[Dim]) -> "Dim | None":
    array = array_of_bits(step.result.type, step.attributes["bits"])
    low, high = int(array.min()), int(array.max())
    return dim(low) if low == high else ranges.prover.fresh([Bound(dim(low))], [Bound(dim(high))])


def _minimum(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    return ranges.between(step, x, highs=x)


def _maximum(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    return ranges.between(step, x, lows=x)


def _quotient(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    """Truncation is rounding down where the dividend is not negative."""
    return x[0] // x[1] if ranges.prover.proves(x[0]) and ranges.prover.proves(x[1] - 1) else None


def _remainder(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    if ranges.prover.proves(x[0]) and ranges.prover.proves(x[1] - 1):
        return x[0] % x[1]
    return None


def _shl(_: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    count = x[1].constant
    return x[0] * (1 << count) if count is not None and count < step.result.type.element.bits else None


def _shr(_: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    count = x[1].constant
    return x[0] // (1 << count) if count is not None and count < 64 else None


def _both_bits(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    """What is not negative bounds its common bits with anything."""
    if step.result.type.is_mask:
        return None
    natural = [each for each in x if ranges.prover.proves(each)]
    return ranges.prover.fresh([Bound(ZERO)], [Bound(each) for each in natural]) if natural else None


def _same(_: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    return x[0] if x else None


def _truth(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    return _same(ranges, step, x) or ranges.prover.fresh([Bound(ZERO)], [Bound(dim(1))])


def _moved(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    """Lanes change places: one of them all, no longer the same one."""
    return ranges.between(step, x) if any(each.constant is None for each in x) else ranges.between(step, x)


def _clamped(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    """Clamping moves a value towards the type's range, which `_bounded` states."""
    proves, high = ranges.prover.proves, dim(step.result.type.element.high)
    if step.result.type.element.name != "index" and proves(x[0] - step.result.type.element.low) and proves(high - x[0]):
        return x[0]
    return None


def _packed(ranges: Ranges, step: Step, _: list[Dim]) -> "Dim | None":
    return ranges.prover.fresh([Bound(ZERO)], [Bound(dim((1 << step.attributes["bits"]) - 1))])


def _counted(ranges: Ranges, step: Step, _: list[Dim]) -> "Dim | None":
    return ranges.prover.fresh([Bound(ZERO)], [Bound(dim(step.result.type.element.bits))])


_RULES: dict[str, _Rule] = {
    "const": _const,
    "dim": lambda ranges, step, x: step.attributes["size"],
    "add": lambda ranges, step, x: x[0] + x[1],
    "sub": lambda ranges, step, x: x[0] - x[1],
    "mul": lambda ranges, step, x: x[0] * x[1],
    "neg": lambda ranges, step, x: -x[0],
    "div": _quotient,
    "rem": _remainder,
    "min": _minimum,
    "max": _maximum,
    "select": lambda ranges, step, x: ranges.between(step, x),
    "shl": _shl,
    "shr": _shr,
    "and": _both_bits,
    "convert": _truth,
    "wrap": _same,
    "sat": _clamped,
    "broadcast": _same,
    "lane": _moved,
    "part": _moved,
    "shuffle": _moved,
    "join": _moved,
    "collect": _moved,
    "load_packed": _packed,
    "popcount": _counted,
    "clz": _counted,
    "ctz": _counted,
}
