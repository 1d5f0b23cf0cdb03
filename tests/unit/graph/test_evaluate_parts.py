"""Maps that run in parts: when they do, that nothing changes, and what it saves."""

import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from plain import interpret

from bittern.graph import extent
from bittern.graph.evaluate import World, prepare
from bittern.graph.node import Function, Node, Parameter, call, choose, const, map_over, node, param
from bittern.types.dims import dim, symbol
from bittern.types.elements import BIT, U32
from bittern.types.values import Tensor, tensor

WORD, N = tensor(U32), symbol(0)
LONG = 1 << 18


def function(params: Sequence[Tensor], make: Callable[..., Node], dims: int = 0) -> Function:
    nodes = [param(place, type_) for place, type_ in enumerate(params)]
    return Function(dims, tuple(Parameter(type_) for type_ in params), make(*nodes))


def ramp(x: Node, length: int = LONG) -> Node:
    """x, 2 x, 3 x, ... summed: a large value that depends on x."""
    numbers = node("iota", [], {"count": dim(length)}, tensor(U32, length))
    wide = node("fill", [x], {"shape": (dim(length),)}, numbers.type)
    return node("sum", [node("mul", [numbers, wide], {}, numbers.type)], {}, WORD)


def over(body: Function, *captured: Tensor) -> Function:
    """Map a body over a vector of N words."""
    return function([tensor(U32, N), *captured], lambda xs, *c: map_over(body, N, [xs], list(c)), 1)


def part(f: Function, count: int, world: World | None = None) -> int | None:
    world = world or World()
    return extent.part_of(world.flow, world.kernels, f.result, (count,))


def test_a_large_map_runs_in_parts_and_in_little_memory() -> None:
    f = over(function([WORD], ramp))
    assert part(f, 16) is None and part(f, 256) == extent._PART // (4 * LONG)
    program, x = prepare(f, [256]), np.arange(256, dtype=np.uint32)
    tracemalloc.start()
    result = program(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(result, x * np.arange(LONG, dtype=np.uint32).sum(dtype=np.uint32))
    assert peak < 3 * extent._PART < 256 * 4 * LONG


def test_the_extent_counts_inner_maps_callees_and_branches() -> None:
    inner = function([WORD, WORD], lambda y, x: node("add", [x, y], {}, WORD))
    body = function(
        [WORD, tensor(U32, LONG)], lambda x, ys: node("sum", [map_over(inner, dim(LONG), [ys], [x])], {}, WORD)
    )
    assert part(over(body, tensor(U32, LONG)), 256) == extent._PART // (4 * LONG)
    called = function([WORD], lambda x: call(function([WORD], ramp), [x]))
    assert part(over(called), 256) == extent._PART // (4 * LONG)
    chosen = function(
        [WORD, tensor(BIT)], lambda x, c: choose(c, function([WORD], ramp), function([WORD], lambda x: x), [x])
    )
    assert part(over(chosen, tensor(BIT)), 256) == extent._PART // (4 * LONG)


def test_work_that_parts_would_repeat_keeps_a_map_whole() -> None:
    def mostly_fixed(x: Node, c: Node) -> Node:
        fixed = c
        for _ in range(40):
            fixed = node("add", [fixed, fixed], {}, fixed.type)
        wide = node("fill", [x], {"shape": (dim(LONG),)}, fixed.type)
        return node("sum", [node("mul", [fixed, wide], {}, fixed.type)], {}, WORD)

    assert part(over(function([WORD, tensor(U32, LONG)], mostly_fixed), tensor(U32, LONG)), 64) is None


def test_elements_that_meet_in_a_kernel_stay_together() -> None:
    callee = function([WORD], ramp)
    f = over(function([WORD], lambda x: node("add", [ramp(x), call(callee, [x])], {}, WORD)))
    assert part(f, 256) is not None
    assert part(f, 256, World(kernels={callee.id: lambda site: None})) is None


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_WHOLE", "_FOLDED", "_SHARE"):
        monkeypatch.setattr(extent, name, 0)
    for name in ("_PART", "_FOLDED_PART"):
        monkeypatch.setattr(extent, name, 8)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("known", [False, True])
def test_parts_that_differ_in_their_batch_axes(known: bool) -> None:
    """In the first part all elements take the branch that ignores the outer element, later not all do."""
    keep = function([WORD, WORD], lambda x, y: y)
    both = function([WORD, WORD], lambda x, y: node("mul", [x, y], {}, WORD))

    def pick(y: Node, x: Node) -> Node:
        total = node("add", [x, y], {}, WORD)
        small = node("lt", [total, const(100, U32)], {}, tensor(BIT))
        return choose(small, keep, both, [x, y])

    inner = function([WORD, WORD], pick)
    outer = function([WORD, tensor(U32, 6)], lambda x, ys: map_over(inner, dim(6), [ys], [x]))
    xs, ys = np.array([1, 2, 60], np.uint32), np.array([1, 2, 3, 4, 50, 98], np.uint32)
    arguments: list[Any] = [xs, ys[None]]
    program = prepare(outer, lead=1, constants=dict(enumerate(arguments)) if known else {})
    result = program(*([] if known else arguments))
    assert np.array_equal(result, [interpret(outer, [x, ys]) for x in xs]) and (program.steps == 0) == known
