"""Expanding never changes a bit: every kind on every element, over all inputs at 8 bits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bitops_cases import Case, case_name, cases, evaluate, inputs, meant, same_bits, scalar_kernel, vector_kernel
from bitops_examples import AVX, BASE, SSE, TINY

from bittern.base.errors import BitternError
from bittern.bitops.builder import Builder
from bittern.bitops.expand import beyond, expand
from bittern.bitops.expansions.table import EXPANSIONS
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import walk
from bittern.bitops.kinds import kinds
from bittern.bitops.lanes import lanes
from bittern.bitops.target import Target
from bittern.bitops.verify import verify

CASES = list(cases())


def exact(case: Case) -> bool:
    """Whether even the bits of a NaN are stated."""
    return case[0] in ("select", "reinterpret", "bits", "abs", "neg")


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_scalars_of_the_base_set(case: Case) -> None:
    kernel = expand(scalar_kernel(case), BASE)
    assert not beyond(kernel, BASE)
    operands = inputs(case[1], np.random.default_rng(len(case[0])))
    of, wanted = meant(case, operands)
    found = evaluate(kernel, {f"x{k}": x for k, x in enumerate(operands)})
    assert same_bits(of, found, wanted, exact(case)), case


def widest(case: Case) -> int:
    """Return how many lanes the widest vectors of a case have."""
    kind, elements, attributes = case
    results = kinds()[kind].rule(tuple(lanes(e) for e in elements), attributes)
    return min(512 // max(8, t.element.bits) for t in (*(lanes(e) for e in elements), *results))


def run_vector(case: Case, target: "Target | None", operands: list[Any]) -> Any:
    """Interpret the vector kernel of a case, expanded for a target, on whole vectors of operands."""
    count = widest(case)
    kernel = vector_kernel(case, count)
    if target is not None:
        kernel = expand(kernel, target)
        assert not beyond(kernel, target), [s.kind for s in beyond(kernel, target)]
        verify(kernel)
    size = len(operands[0]) // count * count
    buffers = {f"x{k}": x[:size].view(np.uint8) if x.dtype == bool else x[:size] for k, x in enumerate(operands)}
    y = np.zeros(size, np.dtype(kernel.buffer("y").element.storage))
    interpret(kernel, {**buffers, "y": y}, (size,))
    return y


@pytest.mark.parametrize("target", [SSE, AVX, TINY], ids=lambda t: t.name)
@pytest.mark.parametrize("kind", sorted({case[0] for case in CASES}))
def test_vectors(kind: str, target: Target) -> None:
    rng = np.random.default_rng(7)
    chosen = [case for case in CASES if case[0] == kind]
    rounds = 3
    if target is TINY:  # everything goes through memory, lane by lane
        chosen, rounds = [c for c in chosen if widest(c) <= 16 or len(chosen) < 3][:2], 1
    for case in chosen:
        operands = inputs(case[1], rng)
        places = rng.permutation(len(operands[0]))[: rounds * widest(case)]
        operands = [np.resize(x[places], rounds * widest(case)).copy() for x in operands]
        of, wanted = meant(case, operands)
        assert same_bits(of, run_vector(case, target, operands), wanted, exact(case)), case


def _wrong_popcount(b: Any, call: Any) -> Handle:
    (x,) = call.operands
    return (x & 0x55) + ((x >> 1) & 0x55)


def _wrong_floor(b: Any, call: Any) -> Handle:
    (x,) = call.operands
    near: Handle = x.unary("round_even")
    return b.select(x < near, near - 1.0, near) + 0.0


def _wrong_shift(b: Any, call: Any) -> Handle:
    x, count = call.operands
    return (x << (count & 7)) | (x >> (b.const(count.type, 7) - (count & 7)))


def _wrong_sat(b: Any, call: Any) -> Handle:
    (x,) = call.operands
    return x.wrap(call.attributes["to"])


@pytest.mark.parametrize(
    ("case", "wrong"),
    [
        (("popcount", ("u8",), {}), _wrong_popcount),
        (("floor", ("f32",), {}), _wrong_floor),
        (("rotl", ("u8", "u8"), {}), _wrong_shift),
        (("sat", ("i16",), {"to": "u8"}), _wrong_sat),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else "",
)
def test_a_wrong_expansion_is_found(case: Case, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXPANSIONS, case[0], wrong)
    operands = inputs(case[1], np.random.default_rng(0))
    of, wanted = meant(case, operands)
    found = evaluate(expand(scalar_kernel(case), BASE), {f"x{k}": x for k, x in enumerate(operands)})
    assert not same_bits(of, found, wanted, exact(case))


def test_the_base_set_is_small() -> None:
    names = {name.partition(".")[0] for name in BASE.scalar}
    assert len(names) <= 25 and names <= kinds().keys()
    assert set(EXPANSIONS) <= set(kinds())
    kept = {"const", "dim", "add", "sub", "mul", "div", "and", "or", "shl", "shr", "lt", "sqrt", "load", "store"}
    assert kinds().keys() - EXPANSIONS.keys() == kept | {"for", "while", "if", "parallel", "barrier"}


def test_what_nothing_helps_is_refused_by_name() -> None:
    poor = replace(BASE, name="poor", scalar=BASE.scalar - {"sqrt"})
    with pytest.raises(BitternError, match=r"B106: The target `poor` lacks `sqrt` of \(f32\) -> f32"):
        expand(scalar_kernel(("sqrt", ("f32",), {})), poor)
    b = Builder("meet")
    with b.parallel(0, 4):
        b.barrier()
    with pytest.raises(BitternError, match="B106.*lacks `barrier`|B106.*lacks `parallel`"):
        expand(b.build(), BASE)


def test_a_parallel_loop_becomes_a_loop() -> None:
    b = Builder("each", ("n",))
    y = b.buffer("y", "i64", b.dims[0], "write")
    with b.parallel(0, b.dims[0]) as i:
        y.store(i, i.convert("i64"))
    kernel = expand(b.build(), BASE)
    assert {s.kind for s in walk(kernel.body)} == {"const", "dim", "for", "convert", "store"}
    found = np.zeros(5, np.int64)
    interpret(kernel, {"y": found}, (5,))
    assert found.tolist() == [0, 1, 2, 3, 4]
