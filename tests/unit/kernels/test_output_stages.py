"""Output stages: chosen for a range, they give the codes of the library's rules, on both sides of every threshold."""

import numpy as np
import numpy.typing as npt
import pytest

from bittern.bitops.builder import Builder
from bittern.bitops.interpret import interpret
from bittern.graph.evaluate import prepare
from bittern.kernels.requantise import Record, Rounding, Stage, choose, records, results, rounded, stage_of
from bittern.lang.library import Library

Array = npt.NDArray[np.int64]
LIBRARY = Library.standard()
LANES = 16
MOST = 1 << 24  # of accumulators


def rule(kind: str, seed: int) -> Rounding:
    """Return 16 channels: `once`, `small` with short shifts, `twice`, `relu`, `left`, `mixed` with shifts of 0."""
    rng = np.random.default_rng(seed)
    multiplier = rng.integers(1 << 30, 1 << 31, LANES)
    multiplier[:4] = [1 << 30, (1 << 31) - 1, 3 << 29, 0]
    shift = rng.integers(15, 22, LANES)
    zero, low, high = {"relu": (-128, -128, 127), "once": (5, -120, 100)}.get(kind, (-3, -128, 127))
    if kind == "small":
        multiplier, shift = multiplier >> 24, shift + 5
    elif kind == "once":
        shift = shift + 31
    elif kind == "left":
        shift = -rng.integers(0, 5, LANES)
    elif kind == "mixed":
        shift[::3] = 0
    return Rounding(multiplier, shift, zero, low, high, "i8", kind not in ("once", "small"))


def bound(kind: str) -> Array:
    """Return the range of accumulators for which stages are chosen."""
    return np.full(LANES, 1 << 12 if kind == "left" else MOST)


def accumulators(made: Rounding, kind: str) -> Array:
    """Return accumulators: the ends, random ones, and for every code the last below and the first above. -> [n, 16]"""
    most = bound(kind)
    rng = np.random.default_rng(7)
    rows = [most, -most, np.zeros(LANES), np.ones(LANES), -np.ones(LANES), *rng.integers(-most, most, (300, LANES))]
    for code in range(made.low, made.high):
        low, high = -most, most.copy()  # below is at most `code`, above is more
        while (high - low > 1).any():
            middle = (low + high) // 2
            above = rounded(middle, made) > code
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        rows += [low, high]
    return np.array(rows, np.int64)


def by_kernel(stage: Stage, made: Rounding, x: Array) -> Array:
    """Return the codes that a kernel makes of accumulators. x: [n, 16]."""
    b = Builder("stage")
    source = b.buffer("x", "i32", x.size, "read")
    r = b.buffer("r", "u8", stage.record_bytes, "read")
    y = b.buffer("y", stage.element, x.size, "write")
    with b.loop(0, len(x)) as loop:
        (k,) = loop
        y.store(k * LANES, results(Record(stage, r, b.index(0)), source.load("i32x16", k * LANES)))
    found = np.zeros(x.size, np.int8)
    given = records(stage, np.zeros(LANES, np.int64), made)
    interpret(b.build(), {"x": x.astype(np.int32).reshape(-1), "r": given, "y": found})
    return found.reshape(x.shape).astype(np.int64)


def by_library(made: Rounding, x: Array) -> Array:
    """Return the codes of the library's function."""
    name = "tflite.rescale" if made.twice else "requantise.requantise"
    function = LIBRARY.function(name, elements={"e": "i8"})
    shift = (-made.shift).astype(np.int32) if made.twice else made.shift.astype(np.uint32)
    numbers = (np.int32(number) for number in (made.zero, made.low, made.high))
    program = prepare(function, (LANES,))
    rest = (made.multiplier.astype(np.int32), shift, *numbers)
    return np.array([program(row.astype(np.int32), *rest) for row in x], np.int64)


@pytest.mark.covers("tflite.rescale")
@pytest.mark.covers("requantise.requantise")
@pytest.mark.parametrize("kind", ["once", "small", "twice", "relu", "left", "mixed"])
def test_stages_give_the_codes_of_the_library(kind: str) -> None:
    made = rule(kind, 3)
    x = accumulators(made, kind)
    stage = choose(made, bound(kind))
    assert stage is not None
    wanted = rounded(x, made)
    assert np.array_equal(by_library(made, x), wanted), "the oracle is the library's rule"
    found = by_kernel(stage, made, x)
    assert np.array_equal(found, wanted), (x[found != wanted][:4], found[found != wanted][:4])
    assert {0, 1, -1} <= set((wanted - made.zero).reshape(-1)) or kind == "relu"


def test_which_stage_is_chosen() -> None:
    chosen = {kind: choose(rule(kind, 3), bound(kind)) for kind in ("once", "small", "twice", "relu", "left", "mixed")}
    ways = {kind: stage and (stage.way, stage.left, stage.exact, stage.short) for kind, stage in chosen.items()}
    assert ways == {
        "once": ("once", False, False, False),
        "small": ("once", False, False, True),
        "twice": ("twice", False, False, False),
        "relu": ("once", False, False, False),
        "left": ("twice", True, True, False),
        "mixed": ("twice", False, True, False),
    }
    for stage in chosen.values():
        assert stage is not None and stage_of(stage.arguments()) == stage


def test_what_does_not_fit_is_refused() -> None:
    """Accumulators that a shift to the left, or a product without one to the right, takes out of 32 bits."""
    made = rule("left", 3)
    assert choose(made, np.full(LANES, 1 << 29)) is None
    wide = Rounding(np.full(LANES, (1 << 31) - 1), np.full(LANES, 8), 0, -128, 127, "i8")
    assert choose(wide, np.full(LANES, MOST)) is None and choose(wide, np.full(LANES, 100)) is not None
    negative = Rounding(np.full(LANES, -5), np.full(LANES, 8), 0, -128, 127, "i8", twice=True)
    assert choose(negative, np.full(LANES, 100)) is None


def test_a_wrong_stage_is_found() -> None:
    """A planted fault: one rounding where there are two, and the sign is not looked at."""
    made = rule("twice", 3)
    x = accumulators(made, "twice")
    wrong = Stage("once", "i8", made.low, made.high)
    assert not np.array_equal(by_kernel(wrong, made, x), rounded(x, made))
