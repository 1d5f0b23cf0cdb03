"""The verifier proves what is inside and refuses by name what it cannot prove, or what is malformed."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from bittern.bitops.builder import Builder
from bittern.bitops.interpret import Fault, interpret
from bittern.bitops.kernel import Block, Kernel, Step, walk
from bittern.bitops.lanes import lanes
from bittern.bitops.verify import faults, verify


def codes(kernel: Kernel) -> list[str]:
    """Return the codes of all faults."""
    return [fault.code for fault in faults(kernel)]


def access(body: Callable[..., None], **facts: bool) -> Kernel:
    """Return a kernel over x: f32[n] and y: f32[n]; facts: `divisible` by 16, `positive`."""
    b = Builder("access", ("n", "m"))
    n, m = b.dims
    if facts.get("divisible"):
        b.divisible(n, 16)
    if facts.get("positive"):
        b.positive(n)
    x, y = b.buffer("x", "f32", n, "read"), b.buffer("y", "f32", n, "update")
    body(b, x, y, n, m)
    return b.build()


def whole(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n, 16) as (i,):
        y.store(i, x.load("f32x16", i))


def one_more(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n) as (i,):
        y.store(i, x.load("f32", i + 1))


def one_less(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n) as (i,):
        y.store(i, x.load("f32", i - 1))


def backwards(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n) as (i,):
        y.store(i, x.load("f32", b.index(n) - 1 - i))


def wrong_buffer(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, m) as (i,):
        y.store(i, x.load("f32", i))


def masked(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n, 16) as (i,):
        mask = b.first(b.index(n) - i, 16)
        y.store(i, x.load("f32x16", i, mask), mask)


def masked_too_far(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n, 16) as (i,):
        mask = b.first(b.index(n) - i + 1, 16)
        y.store(i, x.load("f32x16", i, mask), mask)


def some_mask(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n, 16) as (i,):
        y.store(i, b.const("f32x16", 0.0), b.const("bitx16", [False] * 15 + [True]))


def joined_mask(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n, 16) as (i,):
        v = x.load("f32x16", i, b.first(b.index(n) - i, 16))
        y.store(i, v, (v < 1.0) & b.first(b.index(n) - i, 16))


def clamped(b, x, y, n, m):  # type: ignore[no-untyped-def]
    at = x.load("u32", 0).convert("index").min(n - 1)
    y.store(at, x.load("f32", at))


def unclamped(b, x, y, n, m):  # type: ignore[no-untyped-def]
    y.store(x.load("u32", 0).convert("index"), x.load("f32", 0))


def signed_clamp(b, x, y, n, m):  # type: ignore[no-untyped-def]
    y.store(x.load("i32", 0).convert("index").min(n - 1), x.load("f32", 0))


def guarded(b, x, y, n, m):  # type: ignore[no-untyped-def]
    at = x.load("u32", 0).convert("index")
    with b.when(at < n):
        y.store(at, b.const("f32", 0.0))


def guarded_elsewhere(b, x, y, n, m):  # type: ignore[no-untyped-def]
    at = x.load("u32", 0).convert("index")
    with b.when(at < n):
        y.store(at, b.const("f32", 0.0))
    y.store(at, b.const("f32", 1.0))


def gathered(b, x, y, n, m):  # type: ignore[no-untyped-def]
    b.at_most(n, 2**32 - 1)
    steps = x.load("u32", 0).broadcast(16).min(b.index(n - 1).wrap("u32").broadcast(16))
    y.store(0, x.gather("f32x16", 0, steps).lane(0))


def gathered_by_lanes(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n, 16) as (i,):
        y.store(i, x.gather("f32x16", i, b.const("u32x16", list(range(15, -1, -1)))))


def gathered_beyond(b, x, y, n, m):  # type: ignore[no-untyped-def]
    with b.loop(0, n, 16) as (i,):
        y.store(i, x.gather("f32x16", i, b.const("u32x16", list(range(1, 17)))))


def lanes_mixed(b, x, y, n, m):  # type: ignore[no-untyped-def]
    """One lane's bound is not another's: lane k of iota moved is no longer k."""
    iota = b.const("u32x16", list(range(16)))
    moved = iota.shuffle([15] * 16)
    with b.loop(0, n, 16) as (i,):
        y.store(i, x.gather("f32x16", i + 15, iota - moved.min(iota)))


def huge(b, x, y, n, m):  # type: ignore[no-untyped-def]
    """A product that wraps could pass a clamp from above."""
    a = x.load("u32", 0).convert("index")
    at = (a * a * a).min(n - 1)
    y.store(at, x.load("f32", 0))


def clamped_often(b, x, y, n, m):  # type: ignore[no-untyped-def]
    at = x.load("u32", 0).convert("index").min(n - 1)
    for _ in range(40):
        at = at.min(n - 1).max(at)
    y.store(at, x.load("f32", at))


def in_while(b, x, y, n, m):  # type: ignore[no-untyped-def]
    r = b.repeat(n, x.load("f32", 0))
    with r.test as (k, v):
        r.keep(v < 3.0)
    with r.body as (k, v):
        r.carry(v + x.load("f32", k))


INSIDE = [
    (whole, {"divisible": True}),
    (backwards, {}),
    (masked, {}),
    (joined_mask, {}),
    (clamped, {"positive": True}),
    (clamped_often, {"positive": True}),
    (guarded, {"positive": True}),
    (gathered, {"positive": True}),
    (gathered_by_lanes, {"divisible": True}),
    (in_while, {"positive": True}),
]
OUTSIDE = [
    (whole, {}),
    (one_more, {"divisible": True}),
    (one_less, {}),
    (wrong_buffer, {}),
    (masked_too_far, {}),
    (some_mask, {}),
    (clamped, {}),
    (unclamped, {"positive": True}),
    (signed_clamp, {"positive": True}),
    (guarded_elsewhere, {"positive": True}),
    (gathered_beyond, {"divisible": True}),
    (lanes_mixed, {"divisible": True}),
    (huge, {"positive": True}),
]


@pytest.mark.req("C073")
@pytest.mark.parametrize(("body", "facts"), INSIDE, ids=lambda v: getattr(v, "__name__", ""))
def test_what_is_inside_is_proven(body: Callable[..., None], facts: dict[str, bool]) -> None:
    kernel = access(body, **facts)
    verify(kernel)
    for n in (16, 64) if facts.get("divisible") else (1, 7, 33):
        interpret(kernel, {"x": np.ones(n, np.float32), "y": np.ones(n, np.float32)}, (n, n))


@pytest.mark.parametrize(("body", "facts"), OUTSIDE, ids=lambda v: getattr(v, "__name__", ""))
def test_what_may_be_outside_is_refused(body: Callable[..., None], facts: dict[str, bool]) -> None:
    assert "B103" in codes(access(body, **facts))


def test_the_refusal_names_the_access() -> None:
    (fault,) = faults(access(one_more))
    assert "kernel `access`" in fault.what and "load x[" in fault.what and "of `x`, which has 4 * n" in fault.what
    with pytest.raises(Fault, match="`load` at bytes 12 to 16 of `x`, which has 12"):
        interpret(access(one_more), {"x": np.ones(3, np.float32), "y": np.ones(3, np.float32)}, (3, 3))


def test_packed_codes_start_at_bytes() -> None:
    def kernel(step: int, size: int) -> Kernel:
        b = Builder("packed", ("n",))
        x = b.buffer("x", "u8", b.dims[0] * size, "read")
        y = b.buffer("y", "u8", b.dims[0] * 16, "write")
        with b.loop(0, b.dims[0]) as (i,):
            y.store(i * 16, x.load_packed(3, 16, i * step))
        return b.build()

    verify(kernel(16, 6))
    assert codes(kernel(16, 5)) == ["B103"]
    assert "B103" in codes(kernel(15, 6))


def test_access_that_a_buffer_does_not_allow() -> None:
    b = Builder("access")
    x, y = b.buffer("x", "f32", 1, "read"), b.buffer("y", "f32", 1, "write")
    x.store(0, y.load("f32", 0))
    assert codes(b.build()) == ["B104", "B104"]
    kernel = replace(b.build(), buffers=(x.buffer,))
    assert codes(kernel) == ["B104", "B104"]


def test_alignment_is_derived() -> None:
    b = Builder("aligned", ("n",))
    x = b.buffer("x", "u8", b.dims[0] * 544, "read", align=64)
    y = b.buffer("y", "f32", b.dims[0] * 16, "write", align=32)
    with b.loop(0, b.dims[0]) as (i,):
        scale = x.load("f16x16", i * 544)
        codes_ = x.load("u8x16", i * 544, offset=34)
        y.store(i * 16, scale.convert("f32") + codes_.convert("f32"))
    kernel = b.build()
    facts = verify(kernel)
    found = [facts.accesses[s].align for s in walk(kernel.body) if s in facts.accesses]
    assert found == [32, 2, 32]


def test_ranges_are_found() -> None:
    b = Builder("ranges", ("n",))
    x = b.buffer("x", "u8", b.dims[0] * 64, "read")
    y = b.buffer("y", "u8", b.dims[0] * 64, "write")
    with b.loop(0, b.dims[0]) as (i,):
        v = x.load("u8x64", i * 64)
        low, high = v & 15, v >> 4
        total = low + high
        y.store(i * 64, total + v)
    kernel = b.build()
    facts = verify(kernel)
    assert [facts.range_of(h.value) for h in (v, low, high, total)] == [(0, 255), (0, 15), (0, 15), (0, 30)]


def broken(change: Callable[[Step, Step], "tuple[Step, ...]"]) -> Kernel:
    """Return a kernel of two additions and a store, whose additions are changed."""
    b = Builder("broken")
    y = b.buffer("y", "f32", 16, "write")
    one = b.const("f32x16", 1.0)
    y.store(0, (one + 2.0) + 3.0)
    kernel = b.build()
    constant, two, first, three, second, *rest = kernel.body.steps
    steps = (constant, two, three, *change(first, second), *rest)
    return replace(kernel, body=Block((), steps, ()))


def test_order_of_definitions() -> None:
    assert codes(broken(lambda x, y: (x, y))) == []
    assert codes(broken(lambda x, y: (y, x))) == ["B102"]
    assert codes(broken(lambda x, y: (x, x, y))) == ["B102"]
    assert set(codes(broken(lambda x, y: (x,)))) == {"B102"}


def test_types_and_kinds() -> None:
    assert codes(broken(lambda x, y: (replace(x, kind="plus"), y))) == ["B101"]
    assert codes(broken(lambda x, y: (x, replace(y, operands=y.operands[:1])))) == ["B101"]
    assert codes(broken(lambda x, y: (replace(x, attributes={}, blocks=(Block((), (), ()),)), y))) == ["B101"]


def test_blocks_yield_what_their_step_needs() -> None:
    b = Builder("yields")
    with b.loop(0, 4, 1, b.const("f32", 0.0)) as loop:
        loop.carry(b.const("i32", 0))
    assert codes(b.build()) == ["B101"]
    b = Builder("outside")
    with b.loop(0, 4):
        inner = b.const("f32", 0.0)
    b.buffer("y", "f32", 1, "write").store(0, inner)
    assert codes(b.build()) == ["B102"]


def test_steps_and_barriers() -> None:
    b = Builder("steps", ("n",))
    with b.loop(0, b.dims[0], b.dims[0]):
        pass
    assert codes(b.build()) == ["B105"]
    b = Builder("alone")
    b.barrier()
    assert codes(b.build()) == ["B105"]
    b = Builder("uneven", ("n",))
    with b.parallel(0, 4) as i, b.loop(0, i):
        b.barrier()
    with b.parallel(0, 4) as i, b.when(i < 2):
        b.barrier()
    assert codes(b.build()) == ["B105", "B105"]
    b = Builder("even", ("n",))
    with b.parallel(0, 4) as i, b.loop(0, b.dims[0]):
        b.barrier()
    assert codes(b.build()) == []
    assert lanes("index") == i.type
