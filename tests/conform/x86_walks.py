"""Random kernels that walk through memory: nested loops, places that are sums of products of what is known there."""

from dataclasses import dataclass, field
from random import Random

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel

MEMORY = 1 << 14  # elements of x


@dataclass
class Term:
    """An index in sight, and between which numbers it lies."""

    value: Handle
    low: int
    high: int


@dataclass
class Walker:
    """Makes one kernel: adds up what it reads at many places, and writes at some."""

    rng: Random
    b: Builder = field(default_factory=lambda: Builder("walk", ("n",)))
    terms: list[Term] = field(default_factory=list)

    def walked(self) -> Kernel:
        """Return the kernel. x: u32, read; c: u8, read; y: u32, written; n is 3."""
        (n,) = self.b.dims
        self.b.at_most(n, 3)
        self.b.at_least.append(n - 3)
        self.x = self.b.buffer("x", "u32", MEMORY, "read")
        self.c = self.b.buffer("c", "u8", 256, "read")
        self.y = self.b.buffer("y", "u32", MEMORY, "update")
        self.s = self.b.buffer("s", "u32", 64, "scratch")
        for k in range(4):
            self.s.store(16 * k, self.b.const("u32x16", 3 * k + 1))
        if self.rng.random() < 0.5:
            self.terms.append(Term(self.b.index(n), 3, 3))
        total = self.loops(3, self.b.const("u32x4", 1))
        self.y.store(0, total)
        return self.b.build()

    def loops(self, depth: int, total: Handle) -> Handle:
        """Write some accesses and loops one behind the other; return the sum."""
        for _ in range(self.rng.randint(1, 3)):
            total = self.accesses(total)
            if depth and self.rng.random() < 0.8:
                total = self.loop(depth, total)
        return total

    def loop(self, depth: int, total: Handle) -> Handle:
        """Write a loop that carries the sum and an index."""
        low, stride, rounds = self.rng.choice([0, 0, 1, 5]), self.rng.choice([1, 1, 2, 3, 16]), self.rng.randint(0, 4)
        high: object = low + stride * rounds
        if self.rng.random() < 0.3:
            low, stride, rounds, high = 0, 1, 3, self.b.dims[0]
        if low and self.terms and self.rng.random() < 0.3:
            return self.from_below(depth, total, self.rng.choice(self.terms))
        carried = self.b.const("index", 7)
        with self.b.loop(low, high, stride, total, carried) as loop:  # type: ignore[arg-type]
            index, inner, place = loop
            held = list(self.terms)
            self.terms.append(Term(index, low, low + stride * max(0, rounds - 1)))
            inner = self.loops(depth - 1, inner)
            self.terms = held
            loop.carry(inner + place.wrap("u32").broadcast(4), place + self.rng.choice([0, 1, 5]))
        return loop.results[0]

    def from_below(self, depth: int, total: Handle, first: Term) -> Handle:
        """Write a loop whose bounds are indices."""
        rounds = self.rng.randint(1, 3)
        with self.b.loop(first.value, first.value + rounds, 1, total) as loop:
            index, inner = loop
            held = list(self.terms)
            self.terms.append(Term(index, first.low, first.high + rounds - 1))
            loop.carry(self.loops(depth - 1, inner))
            self.terms = held
        return loop.results[0]

    def accesses(self, total: Handle) -> Handle:
        """Write accesses near one place, some of them in a branch."""
        if self.rng.random() < 0.4:
            self.terms.append(self.loaded())
        base, low, high = self.place()
        for _ in range(self.rng.randint(1, 3)):
            near = self.rng.choice([0, 1, 4, 16, 100])
            total = self.access(total, base + (near - low), high - low + near)
        if self.terms and self.rng.random() < 0.4:
            term = self.rng.choice(self.terms)
            branch = self.b.branch(term.value < (term.low + term.high + 1) // 2)
            held = list(self.terms)
            with branch.yes:
                branch.give(self.access(total, *self.shifted()))
            with branch.no:
                branch.give(total + 5)
            self.terms = held
            total = branch.results[0]
        return total

    def shifted(self) -> tuple[Handle, int]:
        """Return a place that is not negative, and the most that it is."""
        place, low, high = self.place()
        return place - low, high - low

    def loaded(self) -> Term:
        """Return an index that was read from memory."""
        at, most = self.shifted()
        byte = self.c.load("u8", at if most < 256 else self.rng.randrange(256))
        return Term(byte.convert("index"), 0, 255)

    def place(self) -> tuple[Handle, int, int]:
        """Return a place and its bounds."""
        total, low, high = self.b.index(0), 0, 0
        for term in self.rng.sample(self.terms, min(len(self.terms), self.rng.randint(0, 3))):
            factor = self.rng.choice([1, 1, 2, 3, 4, 8, 12, 16, 32, -1, -4])
            total = total + term.value * factor
            ends = (term.low * factor, term.high * factor)
            low, high = low + min(ends), high + max(ends)
        return total, low, high

    def access(self, total: Handle, at: Handle, most: int) -> Handle:
        """Read or write at a place of which the most is known."""
        if most + 16 > MEMORY:
            return total
        kind = self.rng.randrange(6)
        if kind == 0:
            self.y.store(at, total)
        elif kind == 1:
            return total + self.x.load("u32", at).broadcast(4)
        elif kind == 2 and most + 16 <= 64:
            return total ^ self.s.load("u32x4", at)
        elif kind == 3:
            return total + self.x.load("u32x16", at).part(4, 4)
        elif kind == 4:
            return total ^ self.y.load("u32x4", at)
        return total + self.x.load("u32x4", at)
