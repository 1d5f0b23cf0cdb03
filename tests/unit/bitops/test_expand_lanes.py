"""Expanding the kinds that move lanes and reach memory, for every target, against the interpreter of the original."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bitops_examples import TARGETS, Array

from bittern.bitops.builder import Builder, View
from bittern.bitops.expand import beyond, expand
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.bitops.lanes import lanes
from bittern.bitops.simplify import simplify
from bittern.bitops.target import Target
from bittern.bitops.verify import verify

SIZE = 256
Body = Callable[[Builder, View, View], None]


def built(body: Body, **parameters: tuple[int, int]) -> Kernel:
    """Return a kernel over 256 bytes x, read, and 256 bytes y, written; parameters are indices in a range."""
    b = Builder("moves")
    x, y = b.buffer("x", "u8", SIZE, "read"), b.buffer("y", "u8", SIZE, "update")
    for name, (low, high) in parameters.items():
        b.parameter(name, "index", low, high)
    body(b, x, y)
    return b.build()


def ran(kernel: Kernel, **parameters: int) -> Array:
    """Return y after a run."""
    x = np.random.default_rng(11).integers(0, 256, SIZE, dtype=np.uint8)
    y = np.arange(SIZE, dtype=np.uint8)
    interpret(kernel, {"x": x, "y": y}, (), parameters)
    return y


def check(kernel: Kernel, target: Target, **parameters: int) -> None:
    """Compare runs of a kernel, of it expanded, and of that simplified."""
    verify(kernel)
    wanted = ran(kernel, **parameters)
    expanded = expand(kernel, target)
    assert not beyond(expanded, target), [s.kind for s in beyond(expanded, target)]
    verify(expanded)
    assert (ran(expanded, **parameters) == wanted).all()
    simple = simplify(expanded)
    verify(simple)
    assert (ran(simple, **parameters) == wanted).all()


def stored(y: View, x: Handle) -> None:
    """Store a value, truths as bytes."""
    y.store(0, x.convert("u8") if x.type.is_mask else x)


def moving(kind: str, of: str) -> Body:
    """Return a body that moves lanes of vectors of a type."""
    type_ = lanes(of)
    count = type_.count
    picks = [(7 * k + 3) % (2 * count) for k in range(count)]

    def body(b: Builder, x: View, y: View) -> None:
        u, v = x.load(type_, 0), x.load(type_, type_.bytes)
        if kind == "shuffle":
            stored(y, u.shuffle(picks, v))
        elif kind == "halves":
            stored(y, b.join(v.part(count // 2, count // 2), u.part(0, count // 2)))
        elif kind == "lanes":
            stored(y, b.collect(*[(u if k % 3 else v).lane(count - 1 - k) for k in range(count)]))
        elif kind == "broadcast":
            stored(y, v.lane(count // 2).broadcast(count))
        elif kind == "mask":
            mask = u.reinterpret(f"u{type_.element.bits}") < v.reinterpret(f"u{type_.element.bits}")
            y.store(0, mask.mask_word())
            back = b.make("word_mask", x.load("u64", 8), lanes=count)
            y.store(64, (mask & back).convert("u8"))
            turned = mask.shuffle([p % count for p in picks])
            y.store(128, b.select(b.join(turned.part(count // 2, count // 2), back.part(0, count // 2)), u, v))
            y.store(8, b.select(mask.lane(1), b.const("u8", 3), b.const("u8", 5)))
        else:
            for k, to in enumerate(("u8", "i16", "u32", "f32", "u64", "f64")):
                y.store(k, u.reinterpret(to) if to != type_.element.name else u)

    return body


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("of", ["u8x64", "i16x32", "f32x16", "u64x8", "u8x16", "f16x16", "i32x4"])
@pytest.mark.parametrize("kind", ["shuffle", "halves", "lanes", "broadcast", "mask", "reinterpret"])
def test_moving(kind: str, of: str, target: Target) -> None:
    check(built(moving(kind, of)), target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(
    ("codes", "table", "tables"),
    [
        ("u8x64", "u8x64", 1),
        ("u8x64", "u8x64", 2),
        ("u8x16", "u8x16", 1),
        ("u8x64", "u8x16", 4),
        ("u8x16", "f32x16", 1),
        ("u32x16", "u32x16", 1),
        ("u16x32", "i16x32", 2),
        ("u8x32", "u8x32", 8),
    ],
)
def test_lookup(codes: str, table: str, tables: int, target: Target) -> None:
    size = lanes(table).bytes

    def body(b: Builder, x: View, y: View) -> None:
        found = x.load(codes, 0).lookup(*[x.load(table, (k * size) % (SIZE - size + 1)) for k in range(tables)])
        y.store(0, found)

    check(built(body), target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_dots(target: Target) -> None:
    def body(b: Builder, x: View, y: View) -> None:
        total = x.load("i32x16", 0)
        y.store(0, x.load("u8x64", 64).dot(x.load("i8x64", 128), total))
        y.store(64, x.load("i16x32", 64).dot(x.load("i16x32", 128), total))
        edge = b.const("i16x32", -32768)
        y.store(128, edge.dot(edge))
        y.store(192, b.const("u8x64", 255).dot(b.const("i8x64", -128)))

    check(built(body), target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_wide_products(target: Target) -> None:
    def body(b: Builder, x: View, y: View) -> None:
        y.store(0, x.load("i32x16", 0).binary("mul_wide", x.load("i32x16", 64)))
        y.store(64, x.load("i32x4", 128).binary("mul_wide", b.const("i32x4", -(1 << 31))))

    check(built(body), target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("of", ["u8x64", "u16x32", "f32x16", "u64x8", "u8x16"])
def test_masked_access(of: str, target: Target) -> None:
    def body(b: Builder, x: View, y: View) -> None:
        count = Handle(b, b.parameters[0].value)
        mask = b.first(count, lanes(of).count)
        value = x.load(of, SIZE - count * (lanes(of).element.bits // 8), mask)
        y.store(3, value, mask & value.reinterpret(f"u{lanes(of).element.bits}").ne(0))

    kernel = built(body, count=(-2, lanes(of).count))
    for count in {-2, 0, 1, lanes(of).count // 2 + 1, lanes(of).count}:
        check(kernel, target, count=count)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("bits", range(1, 9))
def test_packed_codes(bits: int, target: Target) -> None:
    def body(b: Builder, x: View, y: View) -> None:
        codes = x.load_packed(bits, 64, 16)
        y.store(0, codes)
        y.store_packed(bits, 512 // bits // 8 * 8, codes.shuffle([(5 * k) % 64 for k in range(64)]))
        y.store(160, x.load_packed(bits, 8, 8))
        last = SIZE * 8 // bits - 1
        for k, place in enumerate((0, 1, 3, 5, 7, 13, last)):
            y.store(200 + k, x.load_packed(bits, 1, place))

    check(built(body), target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize(("of", "steps"), [("f32x16", "i32x16"), ("u8x16", "u8x16"), ("u64x8", "u64x8")])
def test_gather(of: str, steps: str, target: Target) -> None:
    most = SIZE - lanes(of).element.bits // 8

    def body(b: Builder, x: View, y: View) -> None:
        at = x.load(steps, 0)
        at = (at.max(0).min(most) if at.type.is_signed else at.min(most)) if at.type.element.bits > 8 else at.min(most)
        y.store(0, x.gather(of, 0, at))

    check(built(body), target)


def control(b: Builder, x: View, y: View) -> None:
    """Carry vectors and masks through loops, branches and a while."""
    zero, none = b.const("i16x32", 0), b.const("bitx32", False)
    with b.loop(0, 4, 1, zero, none) as loop:
        i, total, seen = loop
        v = x.load("i16x32", i * 64)
        loop.carry(total + v, seen | (v < 0))
    total, seen = loop.results
    branch = b.branch(x.load("u8", 0) < 128)
    with branch.yes:
        branch.give(b.select(seen, total, zero), seen)
    with branch.no:
        branch.give(total, ~seen)
    chosen, mask = branch.results
    repeat = b.repeat(10, chosen, b.const("index", 0))
    with repeat.test as (k, value, count):
        repeat.keep((k < 6) & value.eq(0).mask_word().eq(0))
    with repeat.body as (k, value, count):
        repeat.carry(value + 257, count + k)
    y.store(0, repeat.results[0])
    y.store(64, repeat.results[1].convert("i64"))
    y.store(100, mask.convert("u8"))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.name)
def test_control(target: Target) -> None:
    check(built(control), target)


def test_the_bodies_do_something() -> None:
    untouched = np.arange(SIZE, dtype=np.uint8)
    bodies: list[Any] = [moving(k, "f32x16") for k in ("shuffle", "halves", "lanes", "broadcast", "mask")]
    for body in (*bodies, control):
        assert (ran(built(body)) != untouched).sum() > 30
