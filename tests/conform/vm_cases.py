"""Generated calls of the library functions that have a kernel on the chip `vm`, and how two results are compared.

The oracle is the evaluator without kernels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import block_formats
import numpy as np
import numpy.typing as npt
from block_formats import FORMATS, put_scale

from bittern.chips.vm.kernels import ROWS, Row, kernels
from bittern.graph.evaluate import CallSite, Kernel, World, prepare
from bittern.graph.node import Function
from bittern.lang.library import Library

Array = npt.NDArray[Any]
f32 = np.float32
LIBRARY = Library.standard()
TABLE = kernels(LIBRARY)
DEFINITIONS = World()  # no kernels
SPECIAL = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        1e-45,
        -1e-45,
        2.0**-101,
        2.0**-100,
        1e-38,
        3.4028235e38,
        -3.4028235e38,
        np.inf,
        -np.inf,
        np.nan,
    ],
    f32,
)


@dataclass
class Case:
    """One call. known, shared, donated: positions of arguments."""

    dims: tuple[int, ...]
    arguments: list[Array]
    known: tuple[int, ...] = ()
    shared: tuple[int, ...] = ()  # with batch axes of size 1 only
    donated: tuple[int, ...] = ()  # which may be overwritten


@dataclass
class Watched:
    """A world with kernels that tells whether one ran."""

    used: int = 0
    declined: int = 0
    world: World = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(kernels={key: self._watch(kernel) for key, kernel in TABLE.items()})

    def _watch(self, kernel: Kernel) -> Kernel:
        def watched(site: CallSite) -> Any:
            run = kernel(site)
            self.used += run is not None
            self.declined += run is None
            return run

        return watched


def leaves(result: Any) -> tuple[Array, ...]:
    """The arrays of a result."""
    return result if isinstance(result, tuple) else (result,)


def differences(a: Any, b: Any) -> int:
    """How many values differ in their bits; every NaN is one value."""
    count = 0
    for x, y in zip(leaves(a), leaves(b), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape, (x.dtype, x.shape, y.dtype, y.shape)
        if x.dtype.kind == "f":
            x = np.where(np.isnan(x), f32(np.nan), x).view(np.uint32)
            y = np.where(np.isnan(y), f32(np.nan), y).view(np.uint32)
        count += int((x != y).sum())
    return count


def evaluate(function: Function, case: Case, world: World, batch: Sequence[int] = ()) -> Any:
    """Run a case. batch: batch axes; every element of the batch gets the case's arguments rolled by its number."""
    lead, count = len(batch), int(np.prod(batch, dtype=int))
    given_ = []
    for place, argument in enumerate(case.arguments):
        if place in case.known or place in case.shared:
            given_.append(argument.reshape((1,) * lead + argument.shape))
        else:
            rolled = [np.roll(argument, i).reshape(argument.shape) for i in range(count)]
            given_.append(np.stack(rolled).reshape(*batch, *argument.shape) if lead else argument)
    constants = {place: given_[place] for place in case.known}
    given_ = [np.array(argument) if place in case.donated else argument for place, argument in enumerate(given_)]
    donated = frozenset(case.donated)
    program = prepare(function, case.dims, world=world, constants=constants, donated=donated, lead=lead)
    return program(*(argument for place, argument in enumerate(given_) if place not in constants))


def compare(row: Row, case: Case, batch: Sequence[int] = ()) -> int:
    """Return how many values of kernel and definition differ; the kernel must have run."""
    function = LIBRARY.function(row.function, overload=row.overload)
    watched = Watched()
    mine = evaluate(function, case, watched.world, batch)
    assert watched.used == 1 and watched.declined == 0, (row.function, case.dims, watched.used, watched.declined)
    return differences(mine, evaluate(function, case, DEFINITIONS, batch))


# Inputs


def numbers(rng: np.random.Generator, *shape: int, edges: float = 0.0, spread: int = 2) -> Array:
    """Reals over some powers of two, a share of them special."""
    x = (rng.standard_normal(shape) * np.exp2(rng.integers(-spread, spread, shape, endpoint=True))).astype(f32)
    return np.where(rng.random(shape) < edges, rng.choice(SPECIAL, shape), x).astype(f32)


def quantise_case(rng: np.random.Generator, edges: float) -> Case:
    """Rows of activations; with edges some blocks are tiny, infinite or NaN."""
    n = 32 * int(rng.integers(1, 40))
    x = numbers(rng, n // 32, 32, edges=edges * 0.05)
    with np.errstate(all="ignore"):
        x *= rng.choice(np.array([1, 1e-30, 1e-44, 1e30, 0], f32), (n // 32, 1), p=[0.6, 0.1, 0.1, 0.1, 0.1])
    return Case((n,), [x.reshape(n)])


def norm_case(rng: np.random.Generator, edges: float) -> Case:
    """A row of any length and its gains."""
    n = int(rng.choice([1, 2, 15, 16, 17, 33, 64, 576, 640, 1000]))
    return Case(
        (n,),
        [numbers(rng, n, edges=edges * 0.01), numbers(rng, n, edges=edges * 0.1), np.asarray(f32(1e-5))],
        shared=(1, 2),
    )


def rotary_case(rng: np.random.Generator, edges: float) -> Case:
    """Heads at positions inside and outside of the table."""
    t, heads, c, h = (
        int(rng.integers(1, 9)),
        int(rng.integers(1, 5)),
        int(rng.integers(1, 30)),
        2 * int(rng.integers(1, 40)),
    )
    pos = rng.integers(0, c + 3, t).astype(np.uint32)
    return Case(
        (t, heads, c, h), [numbers(rng, t, heads, h, edges=edges), pos, *numbers(rng, 2, c, h // 2, edges=edges)]
    )


def gate_case(rng: np.random.Generator, edges: float) -> Case:
    """Gates over the whole range of the exponential."""
    t, n = int(rng.integers(1, 5)), int(rng.choice([1, 7, 64, 1536]))
    return Case((t, n), [numbers(rng, t, n, edges=edges * 0.2, spread=6), numbers(rng, t, n, edges=edges * 0.2)])


HALVES = np.array([0.0, -0.0, 1.0, -1.0, 65504.0, 6e-8, -6e-8, np.inf, -np.inf, np.nan], np.float16)


def stored(rng: np.random.Generator, name: str, m: int, n: int, edges: float) -> Array:
    """Blocks of a format with scales of usual size, a share of them special."""
    blocks = block_formats.blocks(rng, name, m, n // FORMATS[name].columns)
    for which in range(len(FORMATS[name].halves)):
        scale = (rng.standard_normal(blocks.shape[:2]) * 0.02).astype(np.float16)
        scale = np.where(rng.random(scale.shape) < edges * 0.1, rng.choice(HALVES, scale.shape), scale)
        put_scale(name, blocks, scale, which)
    return blocks


def block_case(name: str) -> Callable[[np.random.Generator, float], Case]:
    """Cases of a block format: widths below, at and above a tile."""

    def make(rng: np.random.Generator, edges: float) -> Case:
        m = int(rng.choice([1, 2, 15, 16, 31, 200, 257, 300, 576]))
        columns = FORMATS[name].columns
        n = columns * int(rng.integers(1, 6 if columns == 256 else 960 // columns))
        q = rng.integers(-128, 128, (n // 32, 32)).astype(np.int8)
        d, ds = numbers(rng, 2, n // 32, edges=edges * 0.02)
        return Case((m, n), [stored(rng, name, m, n, edges), q, d, ds], known=(0,))

    return make


def float_case(name: str) -> Callable[[np.random.Generator, float], Case]:
    """Cases of float weights."""

    def make(rng: np.random.Generator, edges: float) -> Case:
        m, n = int(rng.choice([1, 2, 15, 31, 200, 300])), int(rng.choice([1, 2, 9, 17, 77, 600]))
        w = numbers(rng, m, n, edges=edges * 0.01)
        with np.errstate(over="ignore"):
            kept = {"f32": w, "f16": w.astype(np.float16), "bf16": (w.view(np.uint32) >> 16).astype(np.uint16)}[name]
        return Case((m, n), [kept, numbers(rng, n, edges=edges * 0.01)], known=(0,))

    return make


def attention_case(kind: str) -> Callable[[np.random.Generator, float], Case]:
    """Tokens of several sequences over a cache; what nobody has written holds infinities and NaNs."""

    def make(rng: np.random.Generator, edges: float) -> Case:
        layers, s, g, r = (int(rng.integers(1, high)) for high in (3, 4, 4, 4))
        h = int(rng.choice([32, 64, 256] if kind == "i8" else [1, 2, 6, 64]))
        c = int(rng.choice([1, 5, 40, 511, 512, 513, 700, 1100]))
        t = int(rng.choice([1, 1, 2, 5]))
        b = h // 32 if kind == "i8" else 0
        written = c if rng.random() < 0.5 else int(rng.integers(1, c + 1))
        k, v = (numbers(rng, layers, s, c, g, h, edges=edges * 0.001) for _ in range(2))
        kd, vd = (numbers(rng, layers, s, c, g, b, edges=edges * 0.001) for _ in range(2))
        for part in (k, v, kd, vd):
            part[:, :, written:] = rng.choice(np.array([np.inf, np.nan, -np.inf], f32))
        if kind == "i8":
            k, v = (rng.integers(-128, 128, k.shape).astype(np.int8) for _ in range(2))
        elif kind == "f16":
            with np.errstate(over="ignore"):
                k, v = k.astype(np.float16), v.astype(np.float16)
        outside = rng.integers(0, 2**32, t) if rng.random() < 0.1 else c + rng.integers(0, 20, t)
        inside = np.where(rng.random(t) < 0.5, written - 1, rng.integers(0, written, t))
        pos = np.where(rng.random(t) < 0.1, outside, inside).astype(np.uint32)
        window = int(rng.choice([0, 0, 1, 7, 100, 600]))
        q = numbers(rng, t, g * r, h, edges=edges * 0.001) * f32(h**-0.5 * rng.choice([1.0, 0.1, 0.01]))
        places = [
            np.uint32(rng.integers(0, layers)),
            q,
            rng.integers(0, s + 1, t).astype(np.uint32),
            pos,
            np.uint32(window),
        ]
        dims = (layers, s, c, g, h, r, t) if kind == "i8" else (layers, s, c, g, h, b, r, t)
        return Case(dims, [k, v, kd, vd, *[np.asarray(part) for part in places]])

    return make


def store_case(kind: str) -> Callable[[np.random.Generator, float], Case]:
    """Tokens at equal and different places, some of them outside."""

    def make(rng: np.random.Generator, edges: float) -> Case:
        layers, s, c, g, t = (int(rng.integers(1, 6)) for _ in range(5))
        h = int(rng.choice([32, 64] if kind == "i8" else [1, 2, 6, 64]))
        b = h // 32 if kind == "i8" else int(rng.choice([0, 0, 2]))
        dtype = {"f16": np.float16, "f32": f32, "i8": np.int8}[kind]
        sizes = ((h, dtype), (h, dtype), (b, f32), (b, f32))
        caches = [numbers(rng, layers, s, c, g, size).astype(kept) for size, kept in sizes]
        layer = np.asarray(np.uint32(rng.integers(0, layers + (rng.random() < 0.2))))
        seq, pos = (rng.integers(0, high + 1, t).astype(np.uint32) for high in (s, c))
        rows = [numbers(rng, t, g, h, edges=edges * 0.3, spread=20) for _ in range(2)]
        dims = (layers, s, c, g, h, t) if kind == "i8" else (layers, s, c, g, h, b, t)
        donated = (0, 1, 2, 3) if b or rng.random() < 0.5 else (0, 1)
        return Case(dims, [*caches, layer, seq, pos, *rows], donated=donated)

    return make


CASES: dict[tuple[str, str | None], Callable[[np.random.Generator, float], Case]] = {
    ("quantise.quantise", None): quantise_case,
    ("norms.rms_norm", None): norm_case,
    ("rotary.rotary_pairs", None): rotary_case,
    ("rotary.rotary_halves", None): rotary_case,
    ("activations.silu_gate", None): gate_case,
    ("activations.gelu_tanh_gate", None): gate_case,
    **{("attention.attention", kind): attention_case(kind) for kind in ("f16", "f32", "i8")},
    **{("attention.store", kind): store_case(kind) for kind in ("f16", "f32", "i8")},
    **{(f"products.matvec_{name}", None): block_case(name) for name in FORMATS},
    **{(f"products.matvec_{name}", None): float_case(name) for name in ("f32", "f16", "bf16")},
}
BATCHES = ("quantise", "norms", "activations", "products")  # modules whose kernels take batch axes
NAMES = [f"{row.function}-{row.overload}" if row.overload else row.function for row in ROWS]


def row_of(name: str, overload: str | None = None) -> Row:
    """Return a row of the table."""
    return next(row for row in ROWS if (row.function, row.overload) == (name, overload))
