"""Decoder kernels beside what they must equal: the library's definitions, evaluated without kernels.

A case is a kernel, the number of tokens, its buffers, and what each written buffer must hold.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from vm_cases import DEFINITIONS, LIBRARY, Array, f32, numbers, stored

from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.graph.evaluate import prepare
from bittern.kernels import (
    activations,
    argmax,
    attention,
    cache_store,
    elementwise,
    embedding,
    norms,
    quantise,
    rotary,
)

Rng = np.random.Generator
EPS = f32(1e-5)


@dataclass(frozen=True)
class Case:
    """A kernel with its buffers (flat) and what the written ones must hold."""

    kernel: Kernel
    t: int
    buffers: Mapping[str, Array]
    expected: Mapping[str, Array]

    def run(self, run: "Callable[[Kernel, dict[str, Array], int], None] | None" = None) -> dict[str, Array]:
        """Run the kernel, by the interpreter unless told otherwise, and return its buffers."""
        names = [x.name for x in self.kernel.buffers if x.access != "scratch"]
        buffers = {name: np.array(self.buffers[name]) for name in names}
        (run or interpreted)(self.kernel, buffers, self.t)
        return buffers

    def wrong(self, buffers: Mapping[str, Array]) -> list[str]:
        """Return the names of the buffers that differ in some bit; every NaN is one value."""
        return [name for name, x in self.expected.items() if not equal(buffers[name], x.reshape(-1))]


def interpreted(kernel: Kernel, buffers: dict[str, Array], t: int) -> None:
    """Run a kernel by the interpreter."""
    interpret(kernel, buffers, (t,))


def equal(x: Array, y: Array) -> bool:
    """Whether two arrays are equal in all bits; every NaN is one value."""
    if x.dtype.kind != "f":
        return np.array_equal(x, y)
    word = np.dtype(f"u{x.dtype.itemsize}")
    both_nan = np.isnan(x) & np.isnan(y)
    return bool((both_nan | (np.ascontiguousarray(x).view(word) == np.ascontiguousarray(y).view(word))).all())


def defined(name: str, dims: tuple[int, ...], *arguments: Any, overload: "str | None" = None) -> Any:
    """Evaluate a library function without kernels."""
    with np.errstate(all="ignore"):
        return prepare(LIBRARY.function(name, overload=overload), dims, world=DEFINITIONS)(*arguments)


def flat(**arrays: Array) -> dict[str, Array]:
    """Return contiguous flat arrays."""
    return {name: np.ascontiguousarray(x).reshape(-1) for name, x in arrays.items()}


def junk(of: Any, size: int) -> Array:
    """Return what an output holds before it is written."""
    return np.full(size, 7, of)


def code_buffers(size: int, halves: bool) -> dict[str, Array]:
    """Return the buffers of codes before they are written."""
    found = {"q": junk(np.int8, size), "d": junk(f32, size // 32), "ds": junk(f32, size // 32)}
    found |= {"s": junk(np.int32, size // 32)}
    return found | ({"s16": junk(np.int32, size // 16)} if halves else {})


def codes_of(y: Array, halves: bool) -> dict[str, Array]:
    """Return what the codes of rows must be. y: [t, n]."""
    made = [defined("quantise.quantise", (y.shape[1],), row) for row in y]
    q, d, ds = (np.stack(part).reshape(-1) for part in zip(*made, strict=True))
    wide = q.astype(np.int32)
    found = {"q": q, "d": d, "ds": ds, "s": wide.reshape(-1, 32).sum(1, dtype=np.int32)}
    return found | ({"s16": wide.reshape(-1, 16).sum(1, dtype=np.int32)} if halves else {})


def rms(x: Array, gain: Array) -> Array:
    """Normalise the last axis. x: [..., n]."""
    rows = [defined("norms.rms_norm", (x.shape[-1],), row, gain, EPS) for row in x.reshape(-1, x.shape[-1])]
    return np.stack(rows).reshape(x.shape)


# Cases


def quantise_rows(rng: Rng) -> Case:
    """Blocks of all sizes: tiny, infinite, NaN."""
    t, n, halves = 2, 32 * int(rng.choice([1, 2, 3, 4, 7, 18])), bool(rng.integers(2))
    x = numbers(rng, t, n // 32, 32, edges=0.02)
    with np.errstate(all="ignore"):
        x = (x * rng.choice(np.array([1, 1e-30, 1e-44, 1e30, 0], f32), (t, n // 32, 1))).astype(f32).reshape(t, n)
    kernel = quantise.quantise_rows(n, halves=halves)
    return Case(kernel, t, flat(x=x) | code_buffers(t * n, halves), codes_of(x, halves))


def quantise_whole_rows(rng: Rng) -> Case:
    """Rows with one scale each: tiny, infinite, NaN."""
    t, n = 5, 16 * int(rng.choice([1, 2, 5, 20]))
    with np.errstate(over="ignore"):
        x = numbers(rng, t, n) * np.array([1, 1e-30, 1e-44, 1e38, 1], f32)[:, None]
    x[4, n // 2] = rng.choice(np.array([np.nan, np.inf, 1.0], f32))
    made = [defined("ternary.quantise_row", (n,), row) for row in x]
    q, d = np.stack([each[0] for each in made]), np.array([each[1] for each in made], f32)
    given = flat(x=x, q=junk(np.int8, t * n), d=junk(f32, t), s=junk(np.int32, t))
    expected = {"q": q, "d": d, "s": q.astype(np.int32).sum(1, dtype=np.int32)}
    return Case(quantise.quantise_whole_rows(n), t, given, expected)


def norm_rows(rng: Rng) -> Case:
    """Every kind, with what comes before and after."""
    kind, before = str(rng.choice(["rms", "layer"])), str(rng.choice(["", "add", "norm"]))
    codes, plain, halves = (bool(k) for k in rng.integers(0, 2, 3))
    t, n = 2, int(rng.choice([32, 96, 288]) if codes else rng.choice([1, 5, 16, 40, 96, 288]))
    x, more = numbers(rng, 2, t, n, edges=0.002)
    gain, bias, more_gain = numbers(rng, 3, n)
    kernel = norms.norm_rows(n, float(EPS), kind=kind, before=before, codes=codes, plain=plain or None, halves=halves)
    rows = x
    if before:
        with np.errstate(all="ignore"):
            rows = x + (more if before == "add" else rms(more, more_gain))
    if kind == "rms":
        y = rms(rows, gain)
    else:
        y = np.stack([defined("norms.layer_norm", (n,), row, gain, bias, EPS) for row in rows])
    given = flat(x=x, more=more, gain=gain, bias=bias, more_gain=more_gain, y=junk(f32, t * n))
    if codes:
        given |= code_buffers(t * n, halves)
    expected = {"x": rows} | ({"y": y} if plain or not codes else {}) | (codes_of(y, halves) if codes else {})
    return Case(kernel, t, given, expected)


def norm_residual(rng: Rng) -> Case:
    """A norm of a branch, added."""
    t, n = 2, int(rng.choice([7, 64, 160]))
    (x, more), gain = numbers(rng, 2, t, n), numbers(rng, n)
    expected = {"x": x + rms(more, gain)}
    return Case(norms.norm_residual(n, float(EPS)), t, flat(x=x, more=more, more_gain=gain), expected)


def elementwise_rows(rng: Rng) -> Case:
    """Sums and products of each element."""
    t, n = int(rng.integers(1, 4)), int(rng.choice([1, 16, 100, 128]))
    x, y, bias = numbers(rng, t, n, edges=0.1), numbers(rng, t, n, edges=0.1), numbers(rng, n)
    with np.errstate(all="ignore"):
        kernel, expected = [
            (elementwise.add_rows(n), x + y),
            (elementwise.add_bias(n), x + bias),
            (elementwise.scale_rows(n, 25.3), x * f32(25.3)),
        ][int(rng.integers(3))]
    return Case(kernel, t, flat(x=x, y=y, bias=bias), {"x": expected})


def gate_rows(rng: Rng) -> Case:
    """Every gate, joined or apart, with codes or without."""
    kind, group = str(rng.choice(["silu", "gelu_tanh", "relu_squared"])), int(rng.choice([0, 16, 32]))
    codes, halves = (bool(k) for k in rng.integers(0, 2, 2))
    t, n = 2, int(rng.choice([32, 64, 96, 256] if group or codes else [1, 7, 16, 40, 64, 256]))
    gate, up = numbers(rng, t, n, edges=0.1, spread=6), numbers(rng, t, n, edges=0.05)
    if kind == "relu_squared":
        with np.errstate(all="ignore"):
            positive = np.where(gate > 0, gate, f32(0))
            y = positive * positive * up
    else:
        y = defined(f"activations.{kind}_gate", (t, n), gate, up)
    given = flat(gate=gate, up=up, y=junk(f32, t * n)) | code_buffers(t * n, halves)
    if group:
        both = np.stack([gate.reshape(t, -1, group), up.reshape(t, -1, group)], axis=2)
        given["gate_up"] = np.ascontiguousarray(both).reshape(-1)
    grain = int(rng.choice([g for g in (0, 32, 64) if g == 0 or (n % g == 0)]))
    kernel = activations.gate_rows(kind, n, group=group, codes=codes, halves=halves, grain=grain)
    return Case(kernel, t, given, codes_of(y, halves) if codes else {"y": y})


def rotary_rows(rng: Rng) -> Case:
    """Both orders, positions beyond the table too."""
    order, h = str(rng.choice(["pairs", "halves"])), int(rng.choice([8, 16, 32, 64, 80, 96]))
    t, heads, c = 3, int(rng.integers(1, 4)), int(rng.integers(1, 9))
    x, (cos, sin) = numbers(rng, t, heads, h, edges=0.02), numbers(rng, 2, c, h // 2)
    pos = rng.integers(0, c + 3, t).astype(np.uint32)
    y = defined(f"rotary.rotary_{order}", (t, heads, c, h), x, pos, cos, sin)
    kernel = rotary.rotary_rows(rotary.Turn(order, h, c), heads)
    return Case(kernel, t, flat(x=x, pos=pos, cos=cos, sin=sin, y=junk(f32, t * heads * h)), {"y": y})


DTYPES = {"f16": np.float16, "f32": f32, "i8": np.int8}


def laid(shape: cache_store.CacheShape, parts: list[Array]) -> dict[str, Array]:
    """Return a layer's cache as a kernel takes it. parts: k, v, kd, vd in the graph's order [s, c, g, ...]."""
    made = dict(zip(("k", "v", "kd", "vd"), parts, strict=True))
    if shape.tiles:
        made = {name: x.transpose(0, 2, 1, 3) if name == "v" else _tiled(shape, name, x) for name, x in made.items()}
    return flat(**{name: made[name] for name in shape.sizes()})


def _tiled(shape: cache_store.CacheShape, name: str, x: Array) -> Array:
    s, c, g, h = x.shape
    whole = np.zeros((s, shape.tile_positions, g, h), x.dtype)
    whole[:, :c] = x
    if name == "k" and x.dtype == np.int8:
        return whole.reshape(s, shape.tile_positions // 16, 16, g, h // 4, 4).transpose(0, 3, 1, 4, 2, 5)
    return whole.reshape(s, shape.tile_positions // 16, 16, g, h).transpose(0, 3, 1, 4, 2)


@dataclass(frozen=True)
class _Cached:
    """A cache in the graph's order, and where t tokens stand."""

    shape: cache_store.CacheShape
    parts: list[Array]  # each [1, s, c, g, ..]
    seq: Array
    pos: Array

    @property
    def dims(self) -> tuple[int, ...]:
        """layers, s, c, g, h and, where there are no scales, b."""
        n = self.shape
        return (1, n.s, n.c, n.g, n.h) + (() if n.element == "i8" else (0,))

    @property
    def buffers(self) -> dict[str, Array]:
        """What kernels take."""
        return laid(self.shape, [part[0] for part in self.parts]) | flat(seq=self.seq, pos=self.pos)


def cached(rng: Rng, c: int, t: int, h: int, edges: float = 0.0) -> _Cached:
    """A cache whose positions that nobody has written hold infinities and NaNs; the first token is the last of them."""
    element, tiles = str(rng.choice(["f16", "f32", "i8"])), c % 64 > 0 or bool(rng.integers(2))
    s, g = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    shape = cache_store.CacheShape(element, s, c, g, h, tiles)
    written = int(rng.integers(1, c + 1))
    sizes = (h, h, shape.blocks, shape.blocks)
    parts = [numbers(rng, 1, s, c, g, size, edges=edges * 0.001) for size in sizes]
    for part in parts:
        part[:, :, written:] = rng.choice(np.array([np.inf, np.nan, -np.inf], f32))
    if element == "i8":
        parts[:2] = [rng.integers(-128, 128, part.shape).astype(np.int8) for part in parts[:2]]
    with np.errstate(over="ignore"):
        parts[:2] = [part.astype(DTYPES[element]) for part in parts[:2]]
    pos = rng.integers(0, written, t).astype(np.uint32)
    pos[0] = written - 1
    return _Cached(shape, parts, rng.integers(0, s + 1, t).astype(np.uint32), pos)


def attended(held: _Cached, view: attention.View, q: Array) -> Array:
    """What attention must be. q: [t, g r, h]."""
    name, extra = "attention.attention", tuple[Any, ...]()
    if view.cap:
        name, extra = "attention_capped.attention_capped", (f32(view.cap),)
    dims = (*held.dims, view.r, len(held.pos))
    window, layer = np.uint32(view.window), np.uint32(0)
    found = defined(name, dims, *held.parts, layer, q, held.seq, held.pos, window, *extra, overload=view.shape.element)
    return np.asarray(found)


def view_of(rng: Rng, shape: cache_store.CacheShape) -> attention.View:
    """Any number of query heads, windows, caps and shares."""
    r = int(rng.choice([1, 2, 3, 4]))
    share = int(rng.choice([k for k in range(1, r + 1) if r % k == 0]))
    window = int(rng.choice([0, 0, 1, 7, 40, 600]))
    return attention.View(shape, r, window, float(rng.choice([0.0, 0.0, 0.0, 5.0])), share)


def attend(rng: Rng) -> Case:
    """Attention over what is stored."""
    t, c = int(rng.choice([1, 2, 3])), int(rng.choice([1, 40, 64, 64, 128, 130]))
    return _attend(rng, cached(rng, c, t, int(rng.choice([32, 64])), edges=float(rng.integers(2))), t)


def attend_chunks(rng: Rng) -> Case:
    """Attention over more than one chunk."""
    return _attend(rng, cached(rng, int(rng.choice([512, 530, 640])), 1, 32), 1)


def _attend(rng: Rng, held: _Cached, t: int) -> Case:
    view, n = view_of(rng, held.shape), held.shape
    q = numbers(rng, t, n.g * view.r, n.h) * f32(n.h**-0.5 * rng.choice([1.0, 0.1, 0.01]))
    y, codes = attended(held, view, q), bool(rng.integers(2))
    over = str(rng.choice(["heads", "tokens"]))
    kernel = attention.attention(view, codes=codes, over=over)
    given = held.buffers | flat(queries=q, y=junk(f32, y.size)) | code_buffers(y.size, False)
    expected = codes_of(y.reshape(t, -1), False) if codes else {"y": y}
    return Case(kernel, t, given, expected)


def store_rows(rng: Rng) -> Case:
    """Keys and values as they are, some outside."""
    held, k, v = _stored_at(rng)
    want = _after_store(held, k, v)
    given = held.buffers | flat(k_in=k, v_in=v)
    return Case(cache_store.store_rows(held.shape), len(held.pos), given, want)


def _stored_at(rng: Rng) -> tuple[_Cached, Array, Array]:
    t, c, h = int(rng.integers(1, 5)), int(rng.choice([5, 64, 70])), int(rng.choice([32, 64]))
    held = cached(rng, c, t, h)
    place = rng.permutation(held.shape.s * (c + 1))[:t]  # different places, some outside
    held = _Cached(held.shape, held.parts, (place // (c + 1)).astype(np.uint32), (place % (c + 1)).astype(np.uint32))
    k, v = (numbers(rng, t, held.shape.g, h, edges=0.02, spread=8) for _ in range(2))
    return held, k, v


def _after_store(held: _Cached, k: Array, v: Array) -> dict[str, Array]:
    dims = (*held.dims, len(held.pos))
    parts = [np.array(part) for part in held.parts]
    made = defined("attention.store", dims, *parts, np.uint32(0), held.seq, held.pos, k, v, overload=held.shape.element)
    return laid(held.shape, [part[0] for part in made])


@dataclass(frozen=True)
class _Turned:
    """Projections of t tokens, how they are turned, and what comes out. given: their buffers."""

    turn: rotary.Turn
    joined: bool
    given: dict[str, Array]
    q: Array
    k: Array
    v: Array


def turned(rng: Rng, held: _Cached, r: int) -> _Turned:
    """Random projections, turned by the definitions."""
    n, t = held.shape, len(held.pos)
    order, joined = str(rng.choice(["pairs", "halves"])), bool(rng.integers(2))
    turn = rotary.Turn(order, n.h, n.c, float(f32(n.h**-0.5)), float(EPS) if rng.integers(2) else None)
    q, k, v = (numbers(rng, t, heads, n.h) for heads in (n.g * r, n.g, n.g))
    (cos, sin), (q_gain, k_gain) = numbers(rng, 2, n.c, n.h // 2), numbers(rng, 2, n.h)
    given = flat(cos=cos, sin=sin, q_gain=q_gain, k_gain=k_gain, q_in=q, k_in=k, v_in=v)
    given |= flat(qkv=np.concatenate([x.reshape(t, -1) for x in (q, k, v)], axis=1))
    made = []
    for x, gain in ((q, q_gain), (k, k_gain)):
        y = rms(x, gain) if turn.eps is not None else x
        made.append(defined(f"rotary.rotary_{order}", (t, y.shape[1], n.c, n.h), y, held.pos, cos, sin))
    return _Turned(turn, joined, given, made[0] * f32(turn.scale), made[1], v)


def rotary_store(rng: Rng) -> Case:
    """Queries and keys turned, keys and values stored."""
    held, _, _ = _stored_at(rng)
    r, t = int(rng.integers(1, 4)), len(held.pos)
    x = turned(rng, held, r)
    kernel = cache_store.rotary_store(held.shape, x.turn, r, joined=x.joined)
    given = held.buffers | x.given | {"queries": junk(f32, x.q.size)}
    return Case(kernel, t, given, {"queries": x.q} | _after_store(held, x.k, x.v))


def attention_step(rng: Rng) -> Case:
    """Turn, storing and attention in one."""
    t, c = int(rng.choice([1, 1, 3])), int(rng.choice([5, 64, 70]))
    held = cached(rng, c, t, int(rng.choice([32, 64])))
    pos = np.maximum(0, int(held.pos[0]) - np.arange(t)[::-1])  # tokens that follow each other
    held = _Cached(held.shape, held.parts, np.zeros(t, np.uint32), pos.astype(np.uint32))
    view = view_of(rng, held.shape)
    view = attention.View(view.shape, view.r, view.window, view.cap)
    x = turned(rng, held, view.r)
    codes = bool(rng.integers(2))
    kernel = attention.attention_step(view, x.turn, joined=x.joined, codes=codes)
    parts = [np.array(part) for part in held.parts]
    place = (np.uint32(0), held.seq, held.pos)
    made = defined("attention.store", (*held.dims, t), *parts, *place, x.k, x.v, overload=held.shape.element)
    after = _Cached(held.shape, list(made), held.seq, held.pos)
    y = attended(after, view, x.q)
    given = held.buffers | x.given | {"y": junk(f32, y.size)} | code_buffers(y.size, False)
    expected = laid(held.shape, [part[0] for part in made])
    expected |= codes_of(y.reshape(t, -1), False) if codes else {"y": y}
    return Case(kernel, t, given, expected)


def embed_rows(name: str) -> Callable[[Rng], Case]:
    """Rows of a format."""

    def make(rng: Rng) -> Case:
        m, t = int(rng.integers(1, 6)), 3
        columns = embedding.EMBEDDINGS[name].columns
        n = (256 if columns == 256 else 32) * int(rng.integers(1, 3))
        if name in ("f32", "f16", "bf16"):
            w = numbers(rng, m, n)
            w = {"f32": w, "f16": w.astype(np.float16), "bf16": (w.view(np.uint32) >> 16).astype(np.uint16)}[name]
        else:
            w = stored(rng, name, m, n, 0.0)
        token = rng.integers(0, m + 2, t).astype(np.uint32)
        factor = float(rng.choice([1.0, 25.298221588134766]))
        x = defined(f"products.decode_{name}", (m, n), w)[np.minimum(token, m - 1)]
        kernel = embedding.embed_rows(name, m, n, factor=factor)
        expected = x * f32(factor) if factor != 1.0 else x
        return Case(kernel, t, flat(w=w, token=token, x=junk(f32, t * n)), {"x": expected})

    return make


def _best(x: Array) -> Array:
    """The first index of the greatest number of each row."""
    plain = np.where(np.isnan(x), -np.inf, x)
    is_best = (plain == plain.max(axis=1, keepdims=True)) & ~np.isnan(x)
    return np.asarray(is_best.argmax(axis=1)).astype(np.uint32)


def _ties(rng: Rng, t: int, n: int) -> Array:
    x = rng.integers(-3, 4, (t, n)).astype(f32)
    share = float(rng.choice([0.0, 0.5, 1.0]))
    return np.where(rng.random(x.shape) < share, rng.choice(np.array([np.nan, -np.inf], f32), x.shape), x).astype(f32)


def argmax_rows(rng: Rng) -> Case:
    """Many ties, NaNs and rows without a number."""
    t, n = int(rng.integers(1, 4)), int(rng.choice([1, 5, 16, 64, 100, 640]))
    x = _ties(rng, t, n)
    return Case(argmax.argmax_rows(n), t, flat(x=x, y=junk(np.uint32, t)), {"y": _best(x)})


def argmax_join(rng: Rng) -> Case:
    """The best of parts that `argmax_parts` found."""
    t, n, parts = int(rng.integers(1, 4)), int(rng.choice([1, 5, 64, 100, 640])), int(rng.choice([1, 2, 5]))
    x = _ties(rng, t, n)
    given = flat(x=x, best=junk(f32, t * parts), index=junk(np.uint32, t * parts))
    found = Case(argmax.argmax_parts(n, parts), t, given, {}).run()
    given = {"best": found["best"], "index": found["index"], "y": junk(np.uint32, t)}
    return Case(argmax.argmax_join(parts), t, given, {"y": _best(x)})


CASES: dict[str, Callable[[Rng], Case]] = {
    "quantise_rows": quantise_rows,
    "quantise_whole_rows": quantise_whole_rows,
    "norm_rows": norm_rows,
    "norm_residual": norm_residual,
    "elementwise_rows": elementwise_rows,
    "gate_rows": gate_rows,
    "rotary_rows": rotary_rows,
    "store_rows": store_rows,
    "rotary_store": rotary_store,
    "attention": attend,
    "attention_chunks": attend_chunks,
    "attention_step": attention_step,
    "argmax_rows": argmax_rows,
    "argmax_join": argmax_join,
    **{f"embed_{name}_rows": embed_rows(name) for name in embedding.EMBEDDINGS},
}


def cases(name: str, count: int) -> Iterator[Case]:
    """Yield cases of a name."""
    for seed in range(count):
        yield CASES[name](np.random.default_rng([seed, *name.encode()]))
