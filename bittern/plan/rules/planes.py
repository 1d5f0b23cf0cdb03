"""Values of few bits as planes of packed bits: how a value is coded, who can write it so, and how it is had so.

A value whose readers count bits is held as planes beside, or instead of, its bytes (`Scene.extra`, purpose `PLANES`):
whoever compares sums with thresholds, or pools what others have compared, writes planes at once. All other values are
packed by the region that reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bittern.kernels.sign_product import SIGNS, Coding
from bittern.kernels.window_results import words
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Argument, Launch, Mode, Recipe
from bittern.plan.rules.boundaries import Boundary, boundary_of
from bittern.plan.rules.layer_numbers import Ints, array_of, kernel_element
from bittern.plan.rules.windows import Windowed, windows_of
from bittern.plan.scene import Scene, constant
from bittern.types.dims import Dim, dim
from bittern.types.elements import U64, Kind
from bittern.types.values import Tensor

PLANES = "planes"
WRITERS = ("bits_of_sums", "pool_of_bits")  # rules by which everything here can be written
MOST = 15  # thresholds, for four planes
_SHARED = 1 << 16  # values from which threads share their packing
_POOLS = ("pooling.max_pool1d", "pooling.max_pool2d")
_STAGES = ("thresholds.sign_at", "thresholds.ternary_at", "thresholds.levels")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Sums compared with thresholds. at: [m, k]. falling: [m]. low, step: of the codes that count them."""

    apply: Apply
    at: Ints
    falling: Ints
    low: int
    step: int
    element: str

    @property
    def thresholds(self) -> int:
        """How many a channel has."""
        return int(self.at.shape[1])

    @property
    def coding(self) -> Coding:
        """The coding of the planes."""
        if self.step == 2:
            return SIGNS
        return Coding(tuple(coefficients(self.thresholds)), 1, self.low)

    @property
    def planes(self) -> tuple[tuple[int, ...], ...]:
        """For each plane the thresholds that are added up modulo 2."""
        return planes_of(self.thresholds)


def planes_of(thresholds: int) -> tuple[tuple[int, ...], ...]:
    """Return for each plane the thresholds that are added up modulo 2."""
    if thresholds <= 2:
        return tuple((number,) for number in range(thresholds))
    return tuple(tuple(range((1 << bit) - 1, thresholds, 1 << bit)) for bit in range(thresholds.bit_length()))


def coefficients(thresholds: int) -> list[int]:
    """Return what the planes count: each one threshold where that is no more planes, otherwise powers of two."""
    return [1] * thresholds if thresholds <= 2 else [1 << bit for bit in range(thresholds.bit_length())]


def comparison_of(apply: Apply, scene: Scene, most: int = MOST) -> Comparison | None:
    """Return the comparison that an application is, if its thresholds are constants, and no more than `most`."""
    if apply.name not in _STAGES or not apply.mapped[0] or any(apply.mapped[1:]):
        return None
    at, falling, element = array_of(apply.arguments[1]), array_of(apply.arguments[2]), kernel_element(apply.results[0])
    if at is None or falling is None or element is None:
        return None
    at = at.reshape(len(at), -1)
    low: int | float | None = -1
    if apply.name == "thresholds.levels":
        low = scene.number(apply.arguments[3])
    if not isinstance(low, int) or not 1 <= at.shape[1] <= most or len(at) == 0:
        return None
    step = 2 if apply.name == "thresholds.sign_at" else 1
    return Comparison(apply, at, falling.astype(np.bool_), low, step, element)


def written_as(value: Value, scene: Scene) -> Coding | None:
    """Return the coding in which whoever makes a value can write planes, or None."""
    made = scene.maker(value)
    if made is None or not scene.without.isdisjoint(WRITERS):
        return None
    if (found := comparison_of(made, scene)) is not None:
        return found.coding
    pool = pooled(made, scene)
    return written_as(pool.source, scene) if pool is not None else None


def pooled(apply: Apply, scene: Scene) -> Windowed | None:
    """Return the windows of a pool that planes can be pooled by: those whose planes tell of one threshold each."""
    if apply.name not in _POOLS or not scene.fuse:
        return None
    seen = windows_of(apply, scene)
    coding = written_as(seen.source, scene) if seen is not None else None
    if seen is None or coding is None or set(coding.coefficients) != {1} or len(seen.inner) != 1:
        return None
    return seen if not seen.is_padded or seen.padding == coding.beta else None


def coding_of(value: Value) -> Coding | None:
    """Return the coding of a value's bytes by its element, or None where it has too many bits."""
    element = value.type.element
    if element.name == "b1":
        return SIGNS
    if element.name == "t":
        return Coding((1, 1), 1, -1)
    if element.kind in (Kind.UNSIGNED, Kind.SIGNED) and element.bits <= 4:
        return Coding(tuple(1 << bit for bit in range(element.bits)), 1, element.low)
    return None


def tests_of(coding: Coding) -> tuple[tuple[str, int], ...]:
    """Return how the planes of a value's bytes are found, see `pack_values`."""
    if coding == SIGNS:
        return (("ge", 1),)
    if coding.coefficients == (1, 1):
        return (("ge", coding.beta + 1), ("ge", coding.beta + 2))
    return tuple((f"bit {bit}", coding.beta) for bit in range(len(coding.coefficients)))


@dataclass(frozen=True, slots=True)
class Held:
    """A value as planes. launches: what packs it first."""

    planes: Value
    launches: tuple[Launch, ...] = ()


def held(value: Value, coding: Coding, scene: Scene) -> Held | None:
    """Return a value as planes. coding: as `written_as` or `coding_of` tells it."""
    if written_as(value, scene) is not None:
        return Held(beside(value, coding, scene))
    made = planes_value(value, coding)
    launch = packing(value, coding, made, scene)
    return None if launch is None else Held(made, (launch,))


def beside(value: Value, coding: Coding, scene: Scene) -> Value:
    """Return the planes that are made beside a value, noting that they are wanted."""
    found = scene.extra_value(value, PLANES)
    if found is None:
        found = scene.extra_value(value, PLANES, planes_value(value, coding))
    assert found is not None
    return found


def planes_value(value: Value, coding: Coding) -> Value:
    """Return a value that holds the planes of another one."""
    *front, channels = value.type.shape
    count = constant(channels)
    assert count is not None, value
    shape = (*front, dim(words(count) * len(coding.coefficients)))
    return Value(Tensor(U64, shape), "made", label=f"{value.label} bits")


def packing(value: Value, coding: Coding, to: Value, scene: Scene) -> Launch | None:
    """Return the launch that packs a value's bytes, or what the value was compared from."""
    if (found := boundary_of(value, coding, scene)) is not None:
        return _from_numbers(found, coding, to, value.label)
    source, tests = value, tests_of(coding)
    if coding == SIGNS and (compared := _compared(value, scene)) is not None:
        source, tests = compared
    channels, element = constant(source.type.shape[-1]), kernel_element(source)
    if channels is None or element is None:
        return None
    return _packed(source, to, "pack_values", (element, channels, tests), value.label)


def _from_numbers(found: Boundary, coding: Coding, to: Value, label: str) -> Launch | None:
    """Return the launch that compares numbers with thresholds."""
    channels = constant(found.source.type.shape[-1])
    if channels is None:
        return None
    limits = tuple((limit.bits, limit.falls, limit.nan) for limit in found.limits)
    planes = planes_of(coding.total)
    return _packed(found.source, to, "bits_of_numbers", (channels, limits, planes), label)


def _packed(source: Value, to: Value, name: str, arguments: tuple[Argument, ...], label: str) -> Launch:
    total = dim(1)
    for size in source.type.shape[:-1]:
        total = total * size
    whole = source.size.constant
    sizes: Mapping[str, Dim] = {} if total.constant is not None else {"t": total}
    mode: Mode = "one" if whole is not None and whole < _SHARED else "split"
    recipe = Recipe(name, (*arguments, total.constant))
    return Launch(recipe, {"x": source}, {"y": to}, sizes, mode=mode, label=label)


def _compared(value: Value, scene: Scene) -> tuple[Value, tuple[tuple[str, int], ...]] | None:
    """Return what signs were compared from, bytes of the same shape, and the test: +1 where x >= a number."""
    made = scene.maker(value)
    truth = scene.maker(made.arguments[0]) if made is not None and made.name == "convert" else None
    if truth is None or truth.name not in ("le", "lt") or truth.results[0].type.element.name != "bit":
        return None
    number, x = truth.arguments
    spread = scene.maker(number)
    if spread is None or spread.name not in ("broadcast", "fill") or kernel_element(x) is None:
        return None
    least = scene.number(spread.arguments[0])
    if not isinstance(least, int):
        return None
    least += truth.name == "lt"
    element = x.type.element
    return (x, (("ge", least),)) if element.low <= least <= element.high else None
