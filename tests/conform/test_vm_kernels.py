"""Every kernel of the chip `vm` against its definition, bit for bit: random inputs, edges, ragged sizes, batches.

The oracle is the evaluator without kernels. Cases are generated over the table of kernels, so a new row without a case
fails. Planted faults, the usual ways to get an order or a rounding wrong, must all be seen.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bittern
from bittern.chips.vm import activations, attention, halves, norms, ordered, products, quantise, store
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


SIZES = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "q4_k": 144, "q5_k": 176, "q6_k": 210}
SCALES = {"q4_1": (0, 2), "q5_1": (0, 2), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,)}
HALVES = np.array([0.0, -0.0, 1.0, -1.0, 65504.0, 6e-8, -6e-8, np.inf, -np.inf, np.nan], np.float16)


def stored(rng: np.random.Generator, name: str, m: int, n: int, edges: float) -> Array:
    """Blocks of a format with scales of usual size, a share of them special."""
    blocks = rng.integers(0, 256, (m, n // (256 if name.endswith("k") else 32), SIZES[name]), dtype=np.uint8)
    for place in SCALES.get(name, (0,)):
        scale = (rng.standard_normal(blocks.shape[:2]) * 0.02).astype(np.float16)
        scale = np.where(rng.random(scale.shape) < edges * 0.1, rng.choice(HALVES, scale.shape), scale)
        blocks[..., place : place + 2] = scale.astype(np.float16)[..., None].view(np.uint8)
    return blocks


def block_case(name: str) -> Callable[[np.random.Generator, float], Case]:
    """Cases of a block format: widths below, at and above a tile."""

    def make(rng: np.random.Generator, edges: float) -> Case:
        m = int(rng.choice([1, 2, 15, 16, 31, 200, 257, 300, 576]))
        n = 256 * int(rng.integers(1, 6)) if name.endswith("k") else 32 * int(rng.integers(1, 30))
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
        caches = [numbers(rng, layers, s, c, g, size).astype(dtype if size == h else f32) for size in (h, h, b, b)]
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
    **{(f"products.matvec_{name}", None): block_case(name) for name in SIZES},
    **{(f"products.matvec_{name}", None): float_case(name) for name in ("f32", "f16", "bf16")},
}
BATCHES = ("quantise", "norms", "activations", "products")  # modules whose kernels take batch axes
NAMES = [f"{row.function}-{row.overload}" if row.overload else row.function for row in ROWS]


def row_of(name: str, overload: str | None = None) -> Row:
    """Return a row of the table."""
    return next(row for row in ROWS if (row.function, row.overload) == (name, overload))


# The law


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
@pytest.mark.parametrize("edges", [0.0, 1.0])
def test_kernel_equals_its_definition(row: Row, edges: float) -> None:
    for seed in range(8 if row.function.startswith("attention") else 5):
        rng = np.random.default_rng(seed)
        case = CASES[row.function, row.overload](rng, edges)
        assert compare(row, case) == 0, (seed, case.dims)


@pytest.mark.parametrize("row", [r for r in ROWS if r.function.split(".")[0] in BATCHES], ids=lambda r: r.function)
@pytest.mark.parametrize("batch", [(1,), (5,), (2, 3), (70,)])
def test_kernel_takes_batch_axes(row: Row, batch: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(batch))
    case = CASES[row.function, row.overload](rng, 1.0)
    assert compare(row, case, batch) == 0, case.dims


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), which=st.sampled_from(range(len(ROWS))), edges=st.sampled_from([0.0, 1.0]))
def test_any_kernel_on_any_seed(seed: int, which: int, edges: float) -> None:
    row = ROWS[which]
    case = CASES[row.function, row.overload](np.random.default_rng(seed), edges)
    assert compare(row, case) == 0, case.dims


def test_every_row_has_cases_and_an_own_function() -> None:
    assert {(row.function, row.overload) for row in ROWS} == set(CASES)
    assert len(TABLE) == len(ROWS)


@pytest.mark.parametrize("kind", ["f16", "f32", "i8"])
def test_tokens_together_equal_tokens_alone(kind: str) -> None:
    row, rng = row_of("attention.attention", kind), np.random.default_rng(3)
    layers, s, c, g, h, r, t = 1, 2, 600, 2, 32, 2, 40
    b = h // 32 if kind == "i8" else 0
    dtype = {"f16": np.float16, "f32": f32, "i8": np.int8}[kind]
    k, v = ((numbers(rng, layers, s, c, g, h) * (20 if kind == "i8" else 1)).astype(dtype) for _ in range(2))
    kd, vd = (numbers(rng, layers, s, c, g, b) for _ in range(2))
    q, seq, pos = (
        numbers(rng, t, g * r, h),
        rng.integers(0, s, t).astype(np.uint32),
        rng.permutation(c)[:t].astype(np.uint32),
    )
    function, world = LIBRARY.function(row.function, overload=kind), World(kernels=TABLE)

    def run(chosen: slice) -> Array:
        dims = (layers, s, c, g, h) + (() if kind == "i8" else (b,)) + (r, len(seq[chosen]))
        made = prepare(function, dims, world=world)(
            k, v, kd, vd, np.uint32(0), q[chosen], seq[chosen], pos[chosen], np.uint32(300)
        )
        return np.asarray(made)

    whole = run(slice(None))
    parts = [run(slice(i, i + 1)) for i in range(t)]
    assert differences(whole, np.concatenate(parts)) == 0


# What is not computed by a kernel


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_ideal_evaluation_gets_no_kernel(row: Row) -> None:
    case = CASES[row.function, row.overload](np.random.default_rng(0), 0.0)
    function = LIBRARY.function(row.function, overload=row.overload)
    site = CallSite(function, case.dims, 0, True, tuple(case.arguments))
    assert TABLE[function.id](site) is None


@pytest.mark.parametrize(("name", "overload"), [("products.matvec_q8_0", None), ("attention.store", "f16")])
def test_unknown_weights_and_borrowed_caches_get_no_kernel(name: str, overload: str | None) -> None:
    case = replace(CASES[name, overload](np.random.default_rng(0), 0.0), known=(), donated=())
    function, watched = LIBRARY.function(name, overload=overload), Watched()
    mine = evaluate(function, case, watched.world)
    assert watched.used == 0 and watched.declined == 1
    assert differences(mine, evaluate(function, case, DEFINITIONS)) == 0


EDITS = [
    ("norms.rms_norm", "norms.btn", "x * scale * gain", "x * (scale * gain)"),
    ("quantise.quantise", "quantise.btn", "127.0 / a)", "126.0 / a)"),
    ("products.matvec_q8_0", "products/rows.btn", "exact * (a_scale * b_scale)", "exact * a_scale * b_scale"),
]


@pytest.mark.parametrize(("name", "file", "old", "new"), EDITS)
def test_an_edited_definition_gets_no_kernel(tmp_path: Path, name: str, file: str, old: str, new: str) -> None:
    copy = tmp_path / "std"
    shutil.copytree(Path(bittern.__file__).parent / "std", copy)
    text = (copy / file).read_text()
    assert text.count(old) == 1, (file, text.count(old))
    (copy / file).write_text(text.replace(old, new))
    library = Library.standard(copy)
    table, function = kernels(library), library.function(name)
    assert function.id not in table and LIBRARY.function(name).id in table
    case = CASES[name, None](np.random.default_rng(1), 0.0)
    mine = evaluate(function, case, World(kernels=table))
    assert differences(mine, evaluate(function, case, World())) == 0
    assert differences(mine, evaluate(LIBRARY.function(name), case, DEFINITIONS)) > 0


def test_prepared_weights_are_shared_and_small() -> None:
    function = LIBRARY.function("products.matvec_q4_1")
    kernel = kernels(LIBRARY)[function.id]
    weights = stored(np.random.default_rng(5), "q4_1", 48, 64, 0.0)
    made: list[products.Blocks] = []
    for lead in (0, 1):
        known = weights.reshape((1,) * lead + weights.shape)
        run: Any = kernel(CallSite(function, (48, 64), lead, False, (known, None, None, None)))
        made += [cell.cell_contents for cell in run.__closure__ if isinstance(cell.cell_contents, products.Blocks)]
    assert len(made) == 2 and made[0] is made[1]
    assert made[0].low is not None
    assert made[0].code.nbytes + made[0].scale.nbytes + made[0].low.nbytes <= 4.5 * 48 * 64


def test_every_half_becomes_its_float() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    finite = every[np.isfinite(every)]
    for x in (every, finite, finite.reshape(-1, 2).T):
        assert differences(halves.as_float(x), np.ascontiguousarray(x.astype(f32))) == 0


# Planted faults


def wrong_descending(terms: Array, out: Array, axis: int = 0) -> None:
    """The fold from the last to the first."""
    np.add.reduce(np.ascontiguousarray(np.flip(terms, axis)), axis=axis, initial=0.0, out=out)


def wrong_pairwise(terms: Array, out: Array, axis: int = 0) -> None:
    """numpy's own sum of contiguous values, which is pairwise."""
    out[...] = np.ascontiguousarray(np.moveaxis(terms, axis, -1)).sum(-1)


def wrong_wide(terms: Array, out: Array, axis: int = 0) -> None:
    """A sum in float64, rounded once."""
    out[...] = terms.astype(np.float64).sum(axis)


def wrong_onto(terms: Array, out: Array) -> None:
    """Pairwise where the first row is the start."""
    out[...] = np.ascontiguousarray(np.moveaxis(terms, 0, -1)).sum(-1)


def wrong_association(weights: Any, here: slice, x: Array, d: Array, ds: Array | None, out: Array) -> None:
    """(dot * scale) * d instead of dot * (scale * d)."""
    term = np.matmul(x, weights.code[here]) * weights.scale[here] * d
    if ds is not None and weights.low is not None:
        term = term + weights.low[here] * ds
    ordered.add_rows(term, out, axis=1)


def wrong_offset(weights: Any, here: slice, x: Array, d: Array, ds: Array | None, out: Array) -> None:
    """All offsets after all products, as BLAS would like it."""
    term = np.matmul(x, weights.code[here]) * (weights.scale[here] * d)
    ordered.add_rows(term, out, axis=1)
    if ds is not None and weights.low is not None:
        out += (weights.low[here] * ds).sum(1)


def wrong_partials(x: Array) -> Array:
    """A plain sum in the place of 16 partials."""
    total: Array = x.sum(-1)
    return total


def wrong_tree(p: Array) -> Array:
    """Neighbours first in the place of halves."""
    while p.shape[-1] > 1:
        p = p[..., 0::2] + p[..., 1::2]
    return p[..., 0]


def wrong_total(weight: Array) -> Array:
    """A fold in the place of 16 partials."""
    total: Array = np.add.reduce(weight, axis=0)
    return total


def wrong_rounding(to: Any, x: Array) -> Array:
    """Towards zero."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(f32)


def wrong_exp(x: Array) -> None:
    """The platform's own exponential."""
    np.exp(x, out=x)


FAULTS: list[tuple[str, str | None, Any, str, Any, float]] = [
    ("products.matvec_q4_1", None, products, "add_rows", wrong_descending, 0.0),
    ("products.matvec_q4_1", None, products, "add_rows", wrong_pairwise, 0.0),
    ("products.matvec_q8_0", None, products, "add_rows", wrong_wide, 0.0),
    ("products.matvec_q6_k", None, products, "_fold", wrong_association, 0.0),
    ("products.matvec_q4_k", None, products, "_fold", wrong_offset, 0.0),
    ("products.matvec_f16", None, products, "add_onto", wrong_onto, 0.0),
    ("norms.rms_norm", None, norms, "sum_of_sixteen", wrong_partials, 0.0),
    ("norms.rms_norm", None, ordered, "halves", wrong_tree, 0.0),
    ("activations.silu_gate", None, activations, "_exp", wrong_exp, 0.0),
    ("quantise.quantise", None, quantise, "_MOST", f32(128.0), 0.0),
    ("attention.store", "f16", store, "rounded", wrong_rounding, 0.0),
    ("attention.attention", "f16", attention, "add_rows", wrong_descending, 0.0),
    ("attention.attention", "i8", attention, "add_rows", wrong_descending, 0.0),
    ("attention.attention", "f32", attention, "add_onto", wrong_onto, 0.0),
    ("attention.attention", "f16", attention, "_total", wrong_total, 0.0),
    ("attention.attention", "f32", attention, "CHUNK", 256, 0.0),
    ("attention.attention", "i8", attention, "exp_in_place", wrong_exp, 0.0),
]


@pytest.mark.parametrize(("name", "overload", "module", "attribute", "wrong", "edges"), FAULTS)
def test_planted_faults_are_seen(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    overload: str | None,
    module: Any,
    attribute: str,
    wrong: Any,
    edges: float,
) -> None:
    monkeypatch.setattr(module, attribute, wrong)
    row = row_of(name, overload)
    for seed in range(12):
        if compare(row, CASES[name, overload](np.random.default_rng(seed), edges)):
            return
    pytest.fail("no case sees the fault")
