"""What is known of the integer values of a kernel: each as a polynomial over sizes, loop rounds and bounded unknowns.

The polynomial of a vector stands for any one of its lanes; lane-wise kinds keep the lane. A kind that has no polynomial
(a load, a minimum, a mask of bits) gives an unknown with the bounds that its row of `_RULES` states. Fixed-width
arithmetic has the polynomial of its operands only where the result is proven to be in the range of its element.
`index` holds every product of sizes that occurs in a kernel, since those are places in memory; where a number from
elsewhere (a loaded word, an unbounded parameter) could make it wrap, the result is an unknown without bounds.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

from bittern.bitops.kernel import Kernel, Step, Value
from bittern.bitops.lanes import Lanes, array_of_bits
from bittern.bitops.prover import Bound, Prover
from bittern.types.dims import ZERO, Atom, Dim, Monomial, Ratio, dim

_SIZE = 2**31  # stands for any size: products of sizes are places in memory
_WRAPS = 2**62
_Rule: TypeAlias = "Callable[[Ranges, Step, list[Dim]], Dim | None]"


class Ranges:
    """Polynomials of the values that are in sight. Steps and parameters are told with `define`."""

    def __init__(self, kernel: Kernel) -> None:
        self.prover = Prover(len(kernel.symbols), kernel.divides, list(kernel.at_least))
        self._steps: dict[Value, Step] = {}
        self._found: dict[Value, Dim] = {}
        self._by_lane: set[int] = set()  # unknowns that differ from lane to lane
        self._magnitudes: dict[int, int] = {}  # of unknowns, see `_most`
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

    def restore(self, saved: "tuple[dict[Value, Dim], int]", outside: set[Value]) -> None:
        """Forget what was found out since `save`: conditions, and all that they may have shown of values outside."""
        self._found = {v: d for v, d in self._found.items() if v not in outside} | saved[0]
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
        if not integers:
            return self._bounded(value.type)
        operands = [self.of(v) for v in step.operands if v.type.is_integer]
        before = len(self.prover.lows)
        found = rule(self, step, operands)
        if found is None or not self._fits(found, value.type):
            found = self._bounded(value.type)
        if value.type.count > 1:
            first = self.prover.sizes + before
            self._by_lane.update(range(first, self.prover.sizes + len(self.prover.lows)))
        return found

    def _fits(self, found: Dim, type_: Lanes) -> bool:
        if type_.element.name == "index":
            return all(self._places(monomial, factor) for monomial, factor in found.terms)
        return self.prover.within(found, type_.element.low, type_.element.high)

    def _places(self, monomial: Monomial, factor: int) -> bool:
        """Whether a term cannot wrap an index: it is a product of sizes, or small."""
        most = [self._most(atom) for atom in monomial]
        if all(m == _SIZE for m in most):
            return True
        product = abs(factor)
        for each in most:
            product *= each
        return product < _WRAPS

    def _most(self, atom: Atom) -> int:
        """Return a bound of an atom's magnitude; _SIZE for what sizes bound."""
        if isinstance(atom, Ratio):
            terms = [self._most(a) for monomial, _ in atom.top.terms for a in monomial]
            return max(terms, default=_SIZE)
        if atom < self.prover.sizes:
            return _SIZE
        most = self._magnitudes.get(atom)
        if most is None:
            found = []
            for bounds in (self.prover.lows[atom], self.prover.highs[atom]):
                each = [self._reach(bound.number) for bound in bounds]
                found.append(min(each, default=_WRAPS))
            most = self._magnitudes[atom] = max(found)
        return most

    def _reach(self, bound: Dim) -> int:
        if bound.constant is not None:
            return max(abs(bound.constant), 1)
        most = [self._most(atom) for monomial, _ in bound.terms for atom in monomial]
        if max(most) <= _SIZE:
            return _SIZE
        total = sum(abs(factor) * prod(self._most(atom) for atom in monomial) for monomial, factor in bound.terms)
        return min(total, _WRAPS)

    def _bounded(self, type_: Lanes, lows: Sequence[Dim] = (), highs: Sequence[Dim] = ()) -> Dim:
        """Make an unknown of an integer type, which bounds it too."""
        if type_.element.name != "index":
            lows, highs = [*lows, dim(type_.element.low)], [*highs, dim(type_.element.high)]
        return self.prover.fresh([Bound(low) for low in lows], [Bound(high) for high in highs])

    def between(self, step: Step, choices: Sequence[Dim], lows: Sequence[Dim] = (), highs: Sequence[Dim] = ()) -> Dim:
        """Make an unknown that is one of the choices and obeys the bounds."""
        proves = self.prover.proves
        tops = dict.fromkeys((*choices, *self._tops(choices)))
        below = [low for low in dict.fromkeys((ZERO, *choices)) if all(proves(c - low) for c in choices)]
        above = [high for high in tops if all(proves(high - c) for c in choices)]
        return self._bounded(step.result.type, [*lows, *below], [*highs, *above])

    def implied(self, mask: Value, truth: bool) -> list[Dim]:
        """Return polynomials that are at least 0 where a mask is set, or is not; of vectors lane by lane."""
        step = self.step_of(mask)
        if step is None:
            return []
        if step.kind == "not":
            return self.implied(step.operands[0], not truth)
        if (step.kind == "and" and truth) or (step.kind == "or" and not truth):
            return [d for v in step.operands for d in self.implied(v, truth)]
        if step.kind == "lane" and truth:
            return [count - step.attributes["lane"] - 1 for count in self.counts(step.operands[0])]
        if step.kind not in ("eq", "lt", "le") or not step.operands[0].type.is_integer:
            return []
        low, high = (self.of(v) for v in step.operands)
        if step.kind == "eq":
            return [low - high, high - low] if truth else []
        strict = (step.kind == "lt") == truth
        return [(high - low if truth else low - high) - (1 if strict else 0)]

    def counts(self, mask: Value) -> list[Dim]:
        """Return counts such that the mask has no lane at or beyond any of them."""
        step = self.step_of(mask)
        if step is None:
            return []
        if step.kind == "and":
            return [count for v in step.operands for count in self.counts(v)]
        if step.kind == "part":
            return [count - step.attributes["first"] for count in self.counts(step.operands[0])]
        if step.kind == "const":
            return [dim(int(array_of_bits(step.result.type, step.attributes["bits"]).nonzero()[0].max(initial=-1)) + 1)]
        return [self.of(step.operands[0])] if step.kind == "first" else []

    def chosen(self, step: Step, choices: Sequence[Dim]) -> Dim:
        """Make an unknown that is the first choice where a mask is set, else the second."""
        sides = [self.implied(step.operands[0], truth) for truth in (True, False)]
        below = [low for low in dict.fromkeys((ZERO, *choices)) if self._holds_for(sides, [c - low for c in choices])]
        tops = dict.fromkeys((*choices, *self._tops(choices)))
        above = [high for high in tops if self._holds_for(sides, [high - c for c in choices])]
        return self._bounded(step.result.type, below, above)

    def _holds_for(self, sides: Sequence[list[Dim]], wanted: Sequence[Dim]) -> bool:
        known = self.prover.known
        for side, polynomial in zip(sides, wanted, strict=True):
            known += side
            holds = self.prover.proves(polynomial)
            del known[len(known) - len(side) :]
            if not holds:
                return False
        return True

    def move(self, value: Value, source: Value) -> None:
        """Tell that a value is some lane of another one."""
        self._found[value] = self.among(value.type, [self.of(source)])

    def among(self, of: Lanes, choices: Sequence[Dim]) -> Dim:
        """Make an unknown that is some lane of one of the choices."""
        if all(self._fixed(c) and c == choices[0] for c in choices):
            return choices[0]
        ranges = [self.prover.range_of(c) for c in choices]
        lows, highs = [low for low, _ in ranges if low is not None], [high for _, high in ranges if high is not None]
        below = [dim(min(lows))] if len(lows) == len(ranges) else []
        above = [dim(max(highs))] if len(highs) == len(ranges) else []
        tops = [top for top in dict.fromkeys((*choices, *self._tops(choices))) if self._fixed(top)]
        above += [top for top in tops if all(self.prover.proves(top - c) for c in choices)]
        return self._bounded(of, below, above)

    def _fixed(self, value: Dim) -> bool:
        """Whether the polynomial is the same in all lanes."""
        return not value.symbols() & self._by_lane

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


def _wrapped(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    """An index may be the low bits of a larger u64."""
    return x[0] if ranges.prover.proves(dim(2**63 - 1) - x[0]) else None


def _truth(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    return _same(ranges, step, x) or ranges.prover.fresh([Bound(ZERO)], [Bound(dim(1))])


def _moved(ranges: Ranges, step: Step, x: list[Dim]) -> "Dim | None":
    """Lanes change places: any lane of the operands, no longer the same one."""
    return ranges.among(step.result.type, x)


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
    "select": lambda ranges, step, x: ranges.chosen(step, x),
    "shl": _shl,
    "shr": _shr,
    "and": _both_bits,
    "convert": _truth,
    "wrap": _wrapped,
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
