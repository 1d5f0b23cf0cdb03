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
    for case in (c for c in CASES if c[0] == kind):
        operands = inputs(case[1], rng)
        chosen = rng.permutation(len(operands[0]))[: 3 * widest(case)]
        operands = [np.resize(x[chosen], 3 * widest(case)).copy() for x in operands]
        of, wanted = meant(case, operands)
        assert same_bits(of, run_vector(case, target, operands), wanted, exact(case)), case
