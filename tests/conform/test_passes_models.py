"""Passes over the library and over small models: the level below the graph has the bits of the graph.

The oracle is the evaluator on the graph as it was written.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny_models

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "passes"))

from pass_cases import Array, arguments_for, leaves, same_bits

from bittern.chips.vm.kernels import kernels
from bittern.front.bind import bind_checkpoint
from bittern.front.bound import Bound
from bittern.graph.evaluate import evaluate
from bittern.graph.node import Function, functions_of, walk
from bittern.graph.rewrite import substitute_dims
from bittern.graph.rules import check
from bittern.lang.library import Library
from bittern.passes.rewriting import bodies_of
from bittern.passes.run import passed, run_passes
from bittern.passes.table import Context, passes
from bittern.runtime.model import open_checkpoint
from bittern.types.dims import dim
from bittern.types.values import Tensor

LIBRARY = Library.standard()

# function, sizes of its dimensions, overload
FUNCTIONS: list[tuple[str, tuple[int, ...], str | None]] = [
    ("quantise.quantise", (96,), None),
    ("norms.rms_norm", (48,), None),
    ("norms.layer_norm", (48,), None),
    ("softmax.softmax", (33,), None),
    ("activations.silu_gate", (2, 40), None),
    ("activations.gelu_tanh_gate", (2, 40), None),
    ("rotary.rotary_table", (6, 8), None),
    ("products.matvec_q4_1", (3, 64), None),
    ("products.matvec_q8_0", (3, 64), None),
    ("products.matvec_q4_k", (2, 256), None),
    ("products.matvec_q6_k", (2, 256), None),
    ("products.matvec_tq2_0", (2, 256), None),
    ("products.matvec_f16", (3, 20), None),
    ("attention.attention", (2, 2, 512, 2, 4, 0, 2, 3), "f16"),
    ("sha256.sha256_block", (), None),
    ("chacha20.chacha20_block", (), None),
    ("xxhash64.xxhash64", (40,), None),
    ("blake3.compress", (), None),
    ("morton.morton_encode", (), None),
    ("sort.sort", (16,), None),
    ("fft.fft", (16,), None),
    ("ntt.ntt", (16,), None),
    ("walsh_hadamard.walsh_hadamard", (16,), None),
    ("search.lower_bound", (9,), None),
    ("prefix.exclusive_sum", (12,), None),
]


def known_functions() -> Iterator[Function]:
    """Yield those of the functions that the library has, at their sizes."""
    for name, sizes, overload in FUNCTIONS:
        module = LIBRARY.module(name.partition(".")[0])
        if module is None or name.partition(".")[2] not in module.functions:
            continue
        of = LIBRARY.function(name, overload=overload)
        if of.dims == len(sizes):
            yield substitute_dims(of, [dim(size) for size in sizes], 0)


def test_the_library_keeps_its_bits() -> None:
    tried = []
    for of in known_functions():
        arguments = arguments_for(of, 7)
        wanted = evaluate(of, [a.copy() for a in arguments])
        done = passed(of)
        check(done.function)
        assert same_bits(evaluate(done.function, [a.copy() for a in arguments]), wanted), of.name
        assert [f.name for r in passes().values() for f in r.gives if f.against(done.function, Context())] == [], (
            of.name
        )
        tried.append(of.name)
    assert len(tried) >= 15, tried


@pytest.mark.req("K016")
@pytest.mark.parametrize("name", [*passes()])
def test_each_pass_alone_keeps_the_bits_of_a_product(name: str) -> None:
    for function, sizes in (
        ("products.matvec_q4_1", (3, 64)),
        ("quantise.quantise", (64,)),
        ("sha256.sha256_block", ()),
    ):
        of = substitute_dims(LIBRARY.function(function), [dim(size) for size in sizes], 0)
        arguments = arguments_for(of, 5)
        made = run_passes(of, only=[name])
        check(made)
        assert same_bits(evaluate(made, arguments), evaluate(of, arguments)), function


# --- models


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bound]:
    """A tiny model of a family."""
    shape = tiny_models.Shape(layers=2)
    data = tiny_models.llama(shape=shape) if request.param == "llama" else tiny_models.gemma3(shape=shape)
    path = tiny_models.save(tmp_path_factory.mktemp("models"), data)
    with open_checkpoint(path, None) as checkpoint:
        yield bind_checkpoint(checkpoint, LIBRARY)


def instance(bound: Bound, tokens: int) -> Function:
    """Return `forward` for some tokens and a short cache."""
    sizes = {"t": tokens, "s": 1, "c": 8}
    return substitute_dims(bound.forward, [dim(sizes[name]) for name in bound.forward.labels.dims], 0)


def arguments(of: Function, tokens: int) -> list[Array]:
    """Return tokens at their places, and a cache with something in it."""
    rng = np.random.default_rng(1)
    given = [rng.integers(0, 90, tokens, np.uint32), np.zeros(tokens, np.uint32), np.arange(tokens, dtype=np.uint32)]
    for parameter in of.params[3:]:
        for leaf in leaves(parameter.type):
            assert isinstance(leaf, Tensor)
            shape = [size.value(()) for size in leaf.shape]
            given.append(rng.standard_normal(shape).astype(leaf.element.storage))
    return given


@pytest.mark.req("K016")
@pytest.mark.parametrize("tokens", [1, 3])
def test_models_keep_their_bits(model: Bound, tokens: int) -> None:
    of = instance(model, tokens)
    table = kernels(LIBRARY, [model.forward, model.head])
    wanted = evaluate(of, arguments(of, tokens))
    for context in (Context(), Context(has_kernel=lambda function: function.id in table)):
        made = run_passes(of, context)
        check(made)
        assert same_bits(evaluate(made, arguments(of, tokens)), wanted)


@pytest.mark.req("K003", "K012")
def test_operations_of_a_model_keep_their_names(model: Bound) -> None:
    """Calls that a kernel runs are the same calls after the passes, and each has a name that says where it stands."""
    of = instance(model, 3)
    table = kernels(LIBRARY, [model.forward, model.head])
    made = run_passes(of, Context(has_kernel=lambda function: function.id in table))
    before, after = _called(of, table), _called(made, table)
    assert before == after and len(after) >= 5
    calls = [n for n in walk(made.result) if n.kind == "call"]
    names = [made.labels.nodes.get(n.id, "") for n in calls]
    assert all(names) and len(set(names)) == len(names)
    assert {name.partition(".block")[0] for name in names if ".block" in name} == {"layer.0", "layer.1"}


def _called(of: Function, table: object) -> set[str]:
    """Return the names of the functions with a kernel that a function reaches through what has none."""
    found, seen, stack = set(), set(), [of]
    while stack:
        current = stack.pop()
        if current.id in seen:
            continue
        seen.add(current.id)
        for n in walk(current.result):
            for inner in functions_of(n):
                if n.kind == "call" and inner.id in table:  # type: ignore[operator]
                    found.add(inner.name)
                else:
                    stack.append(inner)
    return found


def test_layers_share_their_bodies(model: Bound) -> None:
    """Weights are captured, so that the maps of all layers have one body, and one piece of machine code."""
    table = kernels(LIBRARY, [model.forward, model.head])
    made = run_passes(instance(model, 3), Context(has_kernel=lambda function: function.id in table))
    maps = [n for n in walk(made.result) if n.kind == "map"]
    assert len({body.id for n in maps for body in bodies_of(n)}) < len(maps) * 0.75
