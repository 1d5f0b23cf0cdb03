"""Every kernel of the chip `vm` against its definition, bit for bit: random inputs, edges, ragged sizes, batches.

Cases are generated over the table of kernels, so a new row without a case fails. Planted faults, the usual ways to get
an order or a rounding wrong, must all be seen.
"""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vm_cases import (
    BATCHES,
    CASES,
    DEFINITIONS,
    LIBRARY,
    NAMES,
    TABLE,
    Array,
    Watched,
    compare,
    differences,
    evaluate,
    f32,
    numbers,
    row_of,
    stored,
)

import bittern
from bittern.chips.vm import activations, attention, halves, norms, ordered, products, quantise, store, workers
from bittern.chips.vm.kernels import ROWS, Row, kernels
from bittern.front.bind import bind_checkpoint
from bittern.front.gguf import open_gguf
from bittern.graph.evaluate import CallSite, World, prepare, zeros
from bittern.lang.library import Library

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


@pytest.mark.parametrize("name", ["products.matvec_q8_0", "products.matvec_f32", "attention.attention"])
def test_any_number_of_threads_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(workers, "LARGE", 0)
    row = row_of(name, "f16" if name == "attention.attention" else None)
    for hands in (1, 2, 5):
        monkeypatch.setattr(workers, "_processors", lambda hands=hands: hands)
        for seed in range(3):
            case = CASES[row.function, row.overload](np.random.default_rng(seed), 0.0)
            assert compare(row, case, () if row.overload else (70,)) == 0, (hands, case.dims)


def test_an_error_in_a_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_processors", lambda: 3)

    def work(i: int) -> None:
        if i == 7:
            raise ValueError(i)

    with pytest.raises(ValueError, match="7"):
        workers.share(work, [(i,) for i in range(20)], workers.LARGE)


def test_a_model_computes_the_same_with_and_without_kernels(smollm2: Path) -> None:
    with open_gguf(smollm2) as checkpoint:
        bound = bind_checkpoint(checkpoint, LIBRARY)
        token = np.array([504, 3575, 282, 4649, 314], np.uint32)

        def run(world: World, splits: Sequence[int]) -> tuple[Array, ...]:
            caches = [zeros(bound.forward, leaf, (1, 1, 16)) for leaf in range(3, 7)]
            hidden, start = [], 0
            for t in splits:
                program = prepare(bound.forward, (t, 1, 16), world=world, donated=frozenset(range(3, 7)))
                at = np.arange(start, start + t, dtype=np.uint32)
                made, *caches = program(token[start : start + t], np.zeros(t, np.uint32), at, *caches)
                hidden.append(made)
                start += t
            whole = np.concatenate(hidden)
            return whole, prepare(bound.head, (5,), world=world)(whole), *caches

        fast = World(kernels=TABLE)
        expected = run(World(), [5])
        assert differences(run(fast, [5]), expected) == 0
        assert differences(run(fast, [1, 3, 1]), expected) == 0


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
