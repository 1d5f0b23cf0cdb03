"""Attention of tokens over the cache of one layer, in chunks of 512 absolute positions (NUMERICS, 5).

| builder | buffers in order: element, size, access |
|---|---|
| `attention(view)` | queries f32[t g r h], seq, pos u32[t], the cache (cache_store.py) read, y f32[t g r h] write |
| .. `codes=True` | the codes of rows of g r h (quantise.py) in the place of y |
| `attention_step(view, turn)` | what `rotary_store` reads, the cache update, y or the codes: both in one kernel |

`View`: attend.py. One symbol `t`, the number of tokens, at least 1. Queries are scaled before (attention_step: by
turn.scale).

Rounds: `over="heads"` g * r / share rounds, each takes all tokens, for few tokens; `over="tokens"` rounds of a group of
tokens from the front and one from the back, so that equal shares of rounds are equal shares of work. Tokens of a group
(up to 4, unless the view says how many) share the loads if they stand at consecutive positions of one sequence; else
each is attended to alone. So the bits are the same, but tokens in order are faster.
A round of `attention_step` stores the keys and values that it reads: with a smaller share the rounds of one key head
store the same bytes. `share_for` picks a share for a number of threads.

The caller promises pos < c (a position outside the context is a fault of the caller; it counts as the last one here).
A sequence outside of the cache counts as the last one. h is a multiple of 16, of 32 for i8 and codes;
c is a multiple of 64, or the cache is in tiles.

What the definition adds for positions that are not seen is +0 * +0 onto sums that began at +0 and so are never -0: it
changes nothing and is left out. Scores of lanes that are not seen are minus infinity; exp makes +0 of them. A NaN or
+infinity among the scores that are seen, or minus infinity in all of them, makes every result NaN, in any order; else
the greatest is the same in any order up to the sign of zero, which `score - greatest` cannot show to exp.
Definitions: std/attention.btn, std/attention_capped.btn.
"""

from collections.abc import Callable
from dataclasses import replace

from bittern.bitops.builder import Builder
from bittern.bitops.builder import View as BuilderView
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels import cache_store, rotary
from bittern.kernels.attend import Out, View, Work

__all__ = ["View", "attention", "attention_step", "share_for"]

_SCRATCH = 224 * 1024  # bytes, at most
_QUERIES = 16  # that go together


def share_for(g: int, r: int, threads: int) -> int:
    """Return how many query heads a round should take, for few tokens: what shares keys costs least, if all are busy.

    Measured: loading and widening keys and values costs about what one query head does with them.
    """

    def cost(share: int) -> int:
        return -(-g * (r // share) // threads) * (share + 1)

    return min((k for k in range(r, 0, -1) if r % k == 0), key=cost)


def attention(view: View, *, codes: bool = False, halves: bool = False, over: str = "heads") -> Kernel:
    """Build attention over what is stored; see the module."""
    b = Builder("attention", ("t",))
    (t,) = b.dims
    n = view.shape
    if over == "tokens" and view.tokens == 1:
        view = together(view)
    b.positive(t)
    q = b.buffer("queries", "f32", t * (n.g * view.r * n.h), "read")
    seq, pos = b.buffer("seq", "u32", t, "read"), b.buffer("pos", "u32", t, "read")
    cache = n.declare(b, "read")
    out = Out.declare(b, view, codes, halves)
    work = Work.declare(b, view, cache)

    def some(tokens: list[Handle], head: Handle, part: Handle) -> None:
        first = (head * view.r + part * view.heads) * n.h
        places = [first + token * (n.g * view.r * n.h) for token in tokens]
        made = [work.token(at, pos.load("u32", token), at) for at, token in zip(places, tokens, strict=True)]
        work.attend(q, made, head, seq.load("u32", tokens[0]), out)

    if over == "heads":
        with b.parallel(0, n.g * (view.r // view.heads)) as i:
            head, part = _head(view, i)
            with b.loop(0, t) as loop:
                (token,) = loop
                loop.carry()
                some([token], head, part)
        return b.build()
    with b.parallel(0, (t - 1) // (2 * view.tokens) + 1) as i:
        _both_ends(
            b,
            view.tokens,
            i,
            lambda group: _groups(
                b, view, (seq, pos), group, lambda tokens: _each_head(b, view, lambda *at: some(tokens, *at))
            ),
        )
    return b.build()


def together(view: View) -> View:
    """Return the view with as many tokens together as scratch and registers allow."""
    for tokens in (4, 2):
        wider = replace(view, tokens=tokens)
        if wider.is_kept and wider.scratch <= _SCRATCH and wider.queries <= _QUERIES:
            return wider
    return view


def _head(view: View, i: Handle) -> tuple[Handle, Handle]:
    """Return key head and part of its query heads of a round."""
    parts = view.r // view.heads
    if parts == 1:
        return i, i.like(0)
    return (i // parts).min(view.shape.g - 1), i % parts


def _each_head(b: Builder, view: View, emit: Callable[[Handle, Handle], None]) -> None:
    with b.loop(0, view.shape.g * (view.r // view.heads)) as loop:
        (i,) = loop
        loop.carry()
        emit(*_head(view, i))


def _both_ends(b: Builder, size: int, i: Handle, emit: Callable[[Handle], None]) -> None:
    """Emit something for group i of tokens and, if it is another one, for the group as far from the end."""
    (t,) = b.dims
    last = b.index((t - 1) // size)
    with b.loop(0, 2) as loop:
        (k,) = loop
        loop.carry()
        group = b.select(k.eq(0), i, last - i).min(b.index(t) - 1).max(0)
        with b.when(k.eq(0) | group.ne(i)):
            emit(group)


def _groups(
    b: Builder, view: View, places: tuple[BuilderView, BuilderView], group: Handle, emit: Callable[[list[Handle]], None]
) -> None:
    """Emit something for the tokens of a group: once if they follow each other, else for each of them alone."""
    (t,) = b.dims
    size, last = view.tokens, b.index(t) - 1
    first = (group * size).min(last)
    if size == 1:
        emit([first])
        return
    count = (b.index(t) - first).min(size)
    alike = count.eq(size)
    for k in range(1, size):
        token = (first + k).min(last)
        alike = alike & places[0].load("u32", token).eq(places[0].load("u32", first))
        alike = alike & places[1].load("u32", token).eq(places[1].load("u32", first) + k)
    stride, rounds = b.select(alike, b.index(1), 0), b.select(alike, b.index(1), count)
    with b.loop(0, rounds) as loop:
        (i,) = loop
        loop.carry()
        emit([(first + i + stride * k).min(last) for k in range(size)])


def attention_step(
    view: View, turn: rotary.Turn, *, joined: bool = True, codes: bool = False, halves: bool = False
) -> Kernel:
    """Build the turn, the storing and the attention of few tokens, a round for each key head; see the module."""
    b = Builder("attention_step", ("t",))
    (t,) = b.dims
    n = view.shape
    heads = cache_store.Heads.declare(b, n.g, view.r, n.h, joined)
    seq, pos = b.buffer("seq", "u32", t, "read"), b.buffer("pos", "u32", t, "read")
    table = rotary.Table.declare(b, turn)
    gains = cache_store.head_gains(b, turn)
    cache = n.declare(b, "update")
    out = Out.declare(b, view, codes, halves)
    work = Work.declare(b, view, cache)
    turned = b.buffer("turned", "f32", view.heads * n.h, "scratch")
    with b.parallel(0, n.g * (view.r // view.heads)) as i:
        head, part = _head(view, i)
        with b.loop(0, t) as loop:
            (token,) = loop
            loop.carry()
            where = seq.load("u32", token), pos.load("u32", token)
            angles = rotary.angles_of(b, turn, table, where[1])
            with cache_store.inside(b, n, *where) as (s, p):
                cache_store.put_key(b, turn, angles, heads, token, head, gains[1], cache, s, p)
        with b.loop(0, t) as loop:
            (token,) = loop
            loop.carry()
            where = seq.load("u32", token), pos.load("u32", token)
            angles = rotary.angles_of(b, turn, table, where[1])
            first = head * view.r + part * view.heads
            with b.loop(0, view.heads) as inner:
                (j,) = inner
                inner.carry()
                source = cache_store.at_head(heads.q, token, first + j, n.h)
                cache_store.put_query(b, turn, angles, source, gains[0], turned, j * n.h)
            to = token * (n.g * view.r * n.h) + first * n.h
            work.attend(turned, [work.token(b.index(0), where[1], to)], head, where[0], out)
    return b.build()
