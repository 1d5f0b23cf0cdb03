"""Generic lowering of every op, and of random graphs: the bits of the strict evaluator, every access proven.

Kernels run in the interpreter of bitops, which checks each access again. A row without a lowering, or without a case,
fails. Faults are planted in rows, in the order of a sum, in clamps, in ownership: each must be seen.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from generic_cases import arguments, differences, expected, interpreted
from generic_ops import REFUSED, Case, cases, function_of
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.base.errors import BitternError
from bittern.bitops.interpret import Fault
from bittern.bitops.verify import faults
from bittern.graph.node import Function, Node, Parameter, const, make_tuple, node, param
from bittern.kernels.generic import control, conversions, filling, frames, indexing, packing, reducing, shaping, views
from bittern.kernels.generic.context import Context
from bittern.kernels.generic.emitter import Emitter
from bittern.kernels.generic.lower import LOWERED, lower, lower_nodes
from bittern.ops.table import OPS
from bittern.types.dims import dim
from bittern.types.elements import F32, U32
from bittern.types.values import Token, Tuple, tensor

sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "graph"))

from growing import grow

STRUCTURAL = {"param", "const", "call", "tuple", "item", "if", "for", "while", "map"}
ONES = sorted(name for name in OPS if name not in REFUSED)
STRIDED = ("add", "select", "shl", "round", "convert", "sum", "dot", "max_of", "scan_sum", "take", "from_bits", "pack")


def wrong(function: Function, given: Sequence[Any] | None = None, dims: Sequence[int] = (), seed: int = 3) -> int:
    """How many values of a function are wrong; accesses that are not proven count too."""
    lowered = lower(function, dims)
    found = len(faults(lowered.kernel))
    chosen = arguments(function, dims, seed) if given is None else given
    return found + differences(interpreted(lowered, chosen), expected(function, chosen, dims))


def test_every_op_is_lowered_or_refused() -> None:
    assert set(OPS) == (LOWERED - STRUCTURAL) | REFUSED
    assert STRUCTURAL <= LOWERED and not LOWERED & REFUSED


@pytest.mark.parametrize("kind", ONES)
def test_op(kind: str) -> None:
    chosen = cases(kind)
    assert chosen, f"no case for `{kind}`"
    assert wrong(function_of(kind, chosen)) == 0


@pytest.mark.parametrize("kind", STRIDED)
def test_op_on_spread_operands(kind: str) -> None:
    assert wrong(function_of(kind, cases(kind)[::3], strided=True)) == 0


# --- random graphs


@pytest.fixture(params=["as it is", "small arrays in memory", "nothing unrolled", "nothing in memory"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Bounds that lead small graphs through what large ones need."""
    kept = {"small arrays in memory": 1, "nothing unrolled": 4}.get(request.param)
    if kept is not None:
        for module in (views, frames, control, shaping, indexing, reducing, packing):
            monkeypatch.setattr(module, "MOST", kept, raising=False)
        monkeypatch.setattr(control, "_CARRIED", kept)
    if request.param == "nothing unrolled":
        for module, name in ((control, "UNROLL"), (control, "_FEW"), (reducing, "_UNROLLED"), (filling, "_UNROLLED")):
            monkeypatch.setattr(module, name, 0)
    if request.param == "nothing in memory":
        monkeypatch.setattr(frames, "CHEAP", 1000)
    return str(request.param)


@pytest.mark.usefixtures("way")
def test_random_graphs() -> None:
    @settings(max_examples=15, deadline=None, database=None)
    @given(st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        function, given_ = grow(seed)
        assert wrong(function, given_) == 0

    run()


# --- what the interface says


def function(parameters: Sequence[Parameter], *results: Node) -> Function:
    """A function of these results."""
    return Function(0, tuple(parameters), results[0] if len(results) == 1 else make_tuple(results))


def test_an_owned_parameter_is_updated_in_its_place() -> None:
    cache, row = tensor(F32, 100, 8), tensor(F32, 8)
    x, i, v = param(0, cache), param(1, tensor(U32)), param(2, row)
    made = node("update", [x, i, v], {}, cache)
    owned = function([Parameter(cache, "own"), Parameter(tensor(U32)), Parameter(row)], made)
    lowered = lower(owned)
    assert lowered.taken == {0: 0} and lowered.results[0].buffer == "p0"
    assert [b.name for b in lowered.kernel.buffers] == ["p0", "p1", "p2"]
    stores = sum(s.kind.startswith("store") for s in _steps(lowered.kernel.body))
    assert stores <= 2, "the array is not copied"
    assert wrong(owned) == 0
    shared = function([Parameter(cache), Parameter(tensor(U32)), Parameter(row)], made)
    assert lower(shared).taken == {} and wrong(shared) == 0


def _steps(block: Any) -> Iterator[Any]:
    for step in block.steps:
        yield step
        for inner in step.blocks:
            yield from _steps(inner)


def test_an_owned_parameter_that_another_result_reads_keeps_its_old_value_for_it() -> None:
    cache = tensor(F32, 100)
    x = param(0, cache)
    made = node("update", [x, param(1, tensor(U32)), const(2.5, F32)], {}, cache)
    both = node("add", [x, x], {}, cache)
    assert wrong(function([Parameter(cache, "own"), Parameter(tensor(U32))], made, both)) == 0


def test_large_temporaries_are_workspaces() -> None:
    wide = tensor(F32, 30000)
    x = param(0, wide)
    total = node("scan_sum", [x], {}, wide)
    turned = node("reverse", [total], {"axis": 0}, wide)
    lowered = lower(function([Parameter(wide)], node("add", [total, turned], {}, wide)))
    assert len(lowered.workspaces) == 1
    buffer = lowered.kernel.buffer(lowered.workspaces[0])
    assert buffer.access == "update" and buffer.size.constant == 30000
    small = lower(function([Parameter(tensor(F32, 8))], param(0, tensor(F32, 8))))
    assert small.workspaces == () and small.constants == {}


def test_a_part_of_a_graph_is_cut_at_its_inputs() -> None:
    wide = tensor(F32, 2, 40)
    root = node("sqrt", [param(0, wide)], {}, wide)
    total = node("add", [root, param(1, wide)], {}, wide)
    flat = node("reshape", [total], {"shape": (dim(80),)}, tensor(F32, 80))
    lowered = lower_nodes([flat, root], [root, param(1, wide)], own=[1])
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((2, 40)).astype(np.float32) for _ in range(2))
    first, second = interpreted(lowered, [a, b])
    assert first.tobytes() == (a + b).tobytes() and second.tobytes() == a.tobytes()


def _parallel(function_: Function, **options: Any) -> list[int]:
    """The rounds of each parallel loop of a kernel."""
    steps = lower(function_, **options).kernel.body.steps
    numbers = {s.results[0]: s.attributes["bits"][0] for s in steps if s.kind == "const"}
    return [numbers[s.operands[1]] for s in steps if s.kind == "parallel"]


def test_threads_divide_what_is_independent_and_leave_the_rest_to_one() -> None:
    wide = tensor(F32, 3, 640)
    x = param(0, wide)
    negated = function([Parameter(wide)], node("neg", [x], {}, wide))
    assert _parallel(negated) == [3] and wrong(negated) == 0
    assert _parallel(negated, shared=False) == []
    two = function([Parameter(wide)], node("neg", [x], {}, wide), node("abs", [x], {}, wide))
    assert _parallel(two) == [3, 3] and wrong(two) == 0
    total = node("sum", [x], {}, tensor(F32, 3))
    chained = node("sub", [total, node("reverse", [total], {"axis": 0}, tensor(F32, 3))], {}, tensor(F32, 3))
    after = function([Parameter(wide)], chained)
    assert _parallel(after) == [1] and wrong(after) == 0
    written = node("update", [x, param(1, tensor(U32)), param(2, tensor(F32, 640))], {}, wide)
    moved = function([Parameter(wide), Parameter(tensor(U32)), Parameter(tensor(F32, 640))], written)
    assert _parallel(moved) == [1] and wrong(moved) == 0


def test_what_cannot_be_a_kernel_is_refused() -> None:
    x = param(0, tensor(F32))
    with pytest.raises(BitternError, match="B201: `[^`]*` cannot be made a kernel because of `exp`"):
        lower(function([Parameter(tensor(F32))], node("exp", [x], {}, tensor(F32))))
    token = Token("clock")
    now = node("now", [param(0, token)], {}, Tuple((tensor(OPS["iota"].rule((), {"count": dim(1)}).element), token)))  # type: ignore[union-attr]
    with pytest.raises(BitternError, match="B201.*`clock`"):
        lower(replace(function([Parameter(token)], now), effects=("clock",)))


# --- planted faults


def test_a_wrong_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, other in (("add", "sub"), ("le", "lt"), ("wrap", "sat"), ("shr", "shl")):
        chosen = cases(kind)
        with monkeypatch.context() as patch:
            patch.setitem(conversions.ROWS, kind, conversions.ROWS[other])
            assert wrong(function_of(kind, chosen)) > 0, kind


def _summed() -> list[Case]:
    return [([tensor(F32, 200)], {})]


def test_a_wrong_order_of_a_sum_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = function_of("sum", _summed())
    values = [np.random.default_rng(1).standard_normal(200).astype(np.float32)]
    assert wrong(made, values) == 0
    monkeypatch.setattr(reducing, "_PARTIALS", 8)
    assert wrong(made, values) > 0


def test_an_index_that_is_not_clamped_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    place_of = Emitter.place_of
    monkeypatch.setattr(Emitter, "place_of", lambda self, x, most=None: place_of(self, x))
    made = function_of("take", [([tensor(F32, 50), tensor(U32, 9)], {})])
    lowered = lower(made)
    assert faults(lowered.kernel)
    with pytest.raises(Fault):
        interpreted(lowered, arguments(made, (), 5))


def test_memory_that_is_overwritten_too_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def seen() -> int:
        return sum(wrong(*grow(seed)) > 0 for seed in range(12))

    for module in (views, frames, control, shaping, indexing, reducing, packing):
        monkeypatch.setattr(module, "MOST", 1, raising=False)
    monkeypatch.setattr(control, "_CARRIED", 1)
    assert seen() == 0
    with monkeypatch.context() as patch:
        patch.setattr(
            Context, "is_exclusive", lambda self, view, others=(): isinstance(view, views.Memory) and view.owned
        )
        assert seen() > 0
    with monkeypatch.context() as patch:
        patch.setattr(Emitter, "version", lambda self, name: 0)
        assert seen() > 0
