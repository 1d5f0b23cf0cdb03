"""The example kernels equal numpy, simplified and expanded for every target too."""

import pytest
from bitops_examples import EXAMPLES, TARGETS, TINY, Example

from bittern.bitops.expand import beyond, expand
from bittern.bitops.kernel import walk
from bittern.bitops.simplify import simplify
from bittern.bitops.target import Target
from bittern.bitops.verify import verify


@pytest.fixture(params=sorted(EXAMPLES))
def example(request: pytest.FixtureRequest) -> Example:
    """Each of the example kernels."""
    return EXAMPLES[request.param]()


@pytest.mark.req("C073")
def test_they_equal_numpy(example: Example) -> None:
    verify(example.kernel)
    example.check()
    example.check(backward=True)


def test_they_equal_numpy_when_simplified(example: Example) -> None:
    simple = simplify(example.kernel)
    verify(simple)
    example.check(simple)
    assert sum(1 for _ in walk(simple.body)) <= sum(1 for _ in walk(example.kernel.body))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_they_equal_numpy_when_expanded(example: Example, target: Target) -> None:
    if target is TINY and example.kernel.name in ("q8_0_matvec", "f16_decode"):
        pytest.skip("thousands of lanes through memory: too slow to interpret")
    expanded = expand(simplify(example.kernel), target)
    assert not beyond(expanded, target)
    simple = simplify(expanded)
    verify(simple)
    example.check(simple)


def test_what_a_kernel_reads_and_writes_is_counted() -> None:
    counts = EXAMPLES["q8_0_matvec"]().check()
    assert counts.written == {"y": 3 * 16 * 4} and counts.stores == {"y": 3}
    assert counts.read["w"] == 3 * 5 * 544 and counts.steps["dot4"] == 3 * 5 * 8
