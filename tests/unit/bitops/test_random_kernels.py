"""Random kernels: the interpreter of the original, of the simplified and of the expanded one agree."""

from random import Random
from typing import Any

import numpy as np
import pytest
from bitops_cases import CASES_BY_RESULT, random, same_bits
from bitops_examples import AVX, AVX512, BASE, SSE, TINY
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bittern.bitops import simplify as simplify_module
from bittern.bitops.builder import Builder, View
from bittern.bitops.expand import beyond, expand
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.bitops.lanes import Lanes, lanes
from bittern.bitops.rewrites import Rule
from bittern.bitops.simplify import simplify
from bittern.bitops.verify import verify

ELEMENTS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f32", "f64")
SIZE = 8  # vectors of each buffer


class Grower:
    """Grows a kernel at random over one buffer of each element."""

    def __init__(self, rng: Random, count: int) -> None:
        self.rng, self.count = rng, count
        self.b = Builder("random", ("n",))
        (self.n,) = self.b.dims
        self.views = {e: self.b.buffer(e, e, self.n * count, "update") for e in ELEMENTS}
        self.sight: list[Handle] = []

    def grown(self) -> Kernel:
        """Return the kernel."""
        with self.b.loop(0, self.n) as loop:
            (i,) = loop
            self.steps(i, self.rng.randint(3, 12), 2)
            for _ in range(3):
                self.store(i)
        return self.b.build()

    def steps(self, i: Handle, count: int, depth: int) -> None:
        """Make some steps at a round of the outer loop."""
        for _ in range(count):
            chance = self.rng.random()
            if chance < 0.08:
                self.store(i)
            elif chance < 0.16 and depth:
                self.loop(i, depth)
            elif chance < 0.24 and depth:
                self.branch(i, depth)
            elif chance < 0.34:
                self.move()
            else:
                self.sight.append(self.made(self.rng.choice(ELEMENTS), i, 2))

    def value(self, of: Lanes, i: Handle, depth: int = 1) -> Handle:
        """Return some value of a type."""
        held = [x for x in self.sight if x.type == of]
        if held and self.rng.random() < 0.7:
            return self.rng.choice(held)
        if of.is_mask:
            x = self.value(of.to(self.rng.choice([e for e in ELEMENTS if self.fits(e)])), i)
            return x < self.value(x.type, i)
        if self.rng.random() < 0.3 or of.element.name not in self.views:
            return self.constant(of)
        if depth and self.rng.random() < 0.3:
            return self.made(of.element.name, i, depth - 1)
        return self.loaded(self.views[of.element.name], i)

    def fits(self, element: str) -> bool:
        """Whether a vector of the element has as many lanes as this kernel's."""
        return self.count * lanes(element).element.bits <= 512

    def constant(self, of: Lanes) -> Handle:
        """Return a constant, small or with random bits."""
        if of.is_float:
            return self.b.const(of, self.rng.choice([0.0, -0.0, 1.0, 0.5, -2.5, 3e9]))
        if of.is_integer and self.rng.random() < 0.5:
            return self.b.const(of, [self.rng.choice([0, 1, 7, 31, of.element.high]) for _ in range(of.count)])
        return self.b.const(of, self.rng.choice([0, 1, 2, 4, 8, of.element.high]))

    def loaded(self, view: View, i: Handle) -> Handle:
        """Load a vector, all of it or its first lanes."""
        of = lanes(view.buffer.element.name).of(self.count)
        place = self.rng.choice([i, self.b.index(self.n) - 1 - i, (i * 5) % self.n]) * self.count
        mask = self.b.first(self.rng.randint(0, self.count), self.count) if self.rng.random() < 0.1 else None
        return view.load(of, place, mask)

    def made(self, element: str, i: Handle, depth: int) -> Handle:
        """Make a step of some lane-wise kind with a result of the element, if vectors of it fit."""
        if not self.fits(element):
            element = "u8"
        kind, operands, attributes = self.rng.choice(CASES_BY_RESULT[element])
        if not all(self.fits(e) for e in operands if e != "bit") or {"f16", "bf16"} & set(operands):
            return self.value(lanes(element).of(self.count), i, 0)
        x = [self.value(lanes(e).of(self.count), i, depth) for e in operands]
        return self.b.make(kind, *x, **attributes)

    def move(self) -> None:
        """Move lanes of some value."""
        held = [x for x in self.sight if x.type.count == self.count]
        if not held:
            return
        x = self.rng.choice(held)
        half = self.count // 2
        moved = [
            x.shuffle([self.rng.randrange(self.count) for _ in range(self.count)]),
            self.b.join(x.part(half, half), x.part(0, half)),
            x.lane(self.rng.randrange(self.count)).broadcast(self.count),
        ]
        self.sight.append(self.rng.choice(moved))

    def store(self, i: Handle) -> None:
        """Store some value, all of it or its first lanes."""
        held = [x for x in self.sight if not x.type.is_mask and x.type.count == self.count]
        if held:
            x = self.rng.choice(held)
            mask = self.b.first(self.rng.randint(0, self.count), self.count) if self.rng.random() < 0.2 else None
            self.views[x.type.element.name].store(i * self.count, x, mask)

    def loop(self, i: Handle, depth: int) -> None:
        """Carry some values through a loop."""
        carries = self.rng.sample(self.sight, min(len(self.sight), 2))
        outer = list(self.sight)
        with self.b.loop(0, self.rng.randint(0, 3), 1, *carries) as loop:
            _, *inner = loop
            self.sight += inner
            self.steps(i, 3, depth - 1)
            loop.carry(*[self.value(c.type, i) for c in inner])
        self.sight = [*outer, *loop.results]

    def branch(self, i: Handle, depth: int) -> None:
        """Choose values by a branch."""
        types = [x.type for x in self.rng.sample(self.sight, min(len(self.sight), 2))]
        truth = self.value(lanes("u8").of(self.count), i).lane(0) < 128
        outer = list(self.sight)
        branch = self.b.branch(truth)
        for side in (branch.yes, branch.no):
            with side:
                self.steps(i, 2, depth - 1)
                branch.give(*[self.value(t, i) for t in types])
            self.sight = list(outer)
        self.sight += branch.results


def run(kernel: Kernel, count: int) -> dict[str, Any]:
    """Return the buffers after a run."""
    rng = np.random.default_rng(5)
    buffers = {e: random(e, SIZE * count, rng) for e in ELEMENTS}
    interpret(kernel, buffers, (SIZE,))
    return buffers


def equal(x: dict[str, Any], y: dict[str, Any]) -> bool:
    """Whether all buffers are, NaN aside."""
    return all(same_bits(lanes(e), x[e], y[e], False) for e in ELEMENTS)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 2**32), st.sampled_from([BASE, SSE, AVX, AVX512, TINY]), st.sampled_from([8, 16]))
def test_random_kernels(seed: int, target: Any, count: int) -> None:
    kernel = Grower(Random(seed), count).grown()
    verify(kernel)
    wanted = run(kernel, count)
    simple = simplify(kernel)
    verify(simple)
    assert equal(run(simple, count), wanted), "simplified"
    expanded = expand(simple, target)
    assert not beyond(expanded, target)
    again = simplify(expanded)
    verify(again)
    assert equal(run(again, count), wanted), "expanded"


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [Rule("wrong", "add(x, y)", "or_(x, y)", "word")]
    for seed in range(40):
        kernel = Grower(Random(seed), 8).grown()
        if not equal(run(simplify(kernel, wrong), 8), run(kernel, 8)):
            return
    pytest.fail("40 random kernels did not show that x + y is not x | y")


def test_a_step_that_is_dropped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simplify_module, "_has_effect", lambda step: bool(step.blocks))
    kernel = Grower(Random(1), 8).grown()
    assert not equal(run(simplify(kernel), 8), run(kernel, 8))
