"""Rules for attention: the turn of queries and keys, the store into the cache, and what is read from it.

The cache of a plan lies in tiles of 16 positions (kernels/cache_store.py), a layer behind the other. Every rule here
keeps to that, so that they mix freely.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bittern.kernels.cache_store import CacheShape
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import FEW, Argument, Launch, Operand, Part, Recipe, Region
from bittern.plan.rules.rows import codes_of, factor_of
from bittern.plan.scene import Scene, constant

_TURNS = {"rotary.rotary_pairs": "pairs", "rotary.rotary_halves": "halves"}
_ATTENTION = ("attention.attention", "attention_capped.attention_capped")
_CODES = 32  # values of a head that make whole blocks
_BITS = {"f16": 2, "f32": 4, "i8": 1}


@dataclass(frozen=True, slots=True)
class _Cache:
    """The cache of one layer. leaves: k, v, kd, vd. layer: its number. shape: of a `CacheShape`."""

    leaves: tuple[Value, ...]
    layer: int
    layers: int
    shape: tuple[str, int, int, int, int, bool]

    def parts(self) -> dict[str, Operand]:
        """Return the operands of the layer, by buffer."""
        each = _layer_bytes(self.shape)
        return {
            name: Part(leaf, self.layer * each[name])
            for name, leaf in zip(("k", "v", "kd", "vd"), self.leaves, strict=True)
            if name in each
        }

    def bytes(self) -> dict[Value, int]:
        """Return the bytes of the whole cache, by leaf."""
        each = _layer_bytes(self.shape)
        names = zip(("k", "v", "kd", "vd"), self.leaves, strict=True)
        return {leaf: self.layers * each.get(name, 0) for name, leaf in names}


def is_tiled(leaf: Value) -> bool:
    """Whether the kernels take a cache of this type; otherwise it lies as in the graph, for the generic lowering."""
    h, element = constant(leaf.type.shape[-1]), leaf.type.element.name
    return h is not None and element in _BITS and h > 0 and h % (32 if element == "i8" else 16) == 0


def _layer_bytes(shape: tuple[str, int, int, int, int, bool]) -> dict[str, int]:
    """Return the bytes of each buffer of a layer, rounded up to whole cache lines."""
    made = CacheShape(*shape)
    width = {"k": _BITS[made.element], "v": _BITS[made.element], "kd": 4, "vd": 4}
    return {name: -(-count * width[name] // 64) * 64 for name, count in made.sizes().items()}


@dataclass(frozen=True, slots=True)
class _Turned:
    """What a rotary application does. source: before it, and before the norm within heads. eps: of that norm.

    result: what it gives.
    """

    order: str
    source: Value
    pos: Value
    cos: Value
    sin: Value
    gain: Value | None
    eps: float | None
    covers: tuple[Apply, ...]
    result: Value


def _turned(value: Value, user: Apply, scene: Scene) -> _Turned | None:
    """Return how a value was turned, if nobody else reads it."""
    base = scene.through(value)
    made = scene.maker(base)
    if made is None or made.name not in _TURNS or not scene.private(base, user):
        return None
    x, pos, cos, sin = made.arguments
    covers = (*scene.chain(value), made)
    source = scene.through(x)
    norm = scene.maker(source)
    h = constant(made.dims[3])
    if norm is not None and norm.name == "norms.rms_norm" and scene.private(source, made):
        eps = scene.number(norm.arguments[2])
        if norm.mapped == (True, False, False) and eps is not None and constant(norm.dims[0]) == h:
            covers = (*covers, *scene.chain(x), norm)
            return _Turned(
                _TURNS[made.name], norm.arguments[0], pos, cos, sin, norm.arguments[1], float(eps), covers, base
            )
    return _Turned(_TURNS[made.name], x, pos, cos, sin, None, None, covers, base)


def _cache(store: Apply, scene: Scene) -> _Cache | None:
    """Return the cache that a store writes, from its arguments."""
    layer = scene.number(store.arguments[4])
    k = store.arguments[0]
    sizes = [constant(size) for size in k.type.shape]
    element = k.type.element.name
    if layer is None or None in sizes or not is_tiled(k) or not scene.is_cache(k):
        return None
    layers, s, c, g, h = (size or 0 for size in sizes)
    return _Cache(store.arguments[:4], int(layer), layers, (element, s, c, g, h, True))


def _whole_attention(
    attend: Apply, scene: Scene
) -> tuple[Apply, _Cache, _Turned, _Turned, float, tuple[Apply, ...]] | None:
    """Return store, cache, turns of query and key, factor and all that is covered, if the region is all there."""
    if attend.name not in _ATTENTION:
        return None
    store = scene.maker(attend.arguments[0])
    if store is None or store.name != "attention.store" or store in scene.covered:
        return None
    cache = _cache(store, scene)
    q = attend.arguments[5]
    made, factor = scene.maker(q), 1.0
    scaling: tuple[Apply, ...] = ()
    if made is not None and (found := factor_of(made, scene)) is not None and scene.private(q, attend):
        factor, q = found
        scaling = (made,)
        user = made
    else:
        user = attend
    query, key = _turned(q, user, scene), _turned(store.arguments[7], store, scene)
    if cache is None or query is None or key is None:
        return None
    if (query.order, query.pos, query.cos, query.sin, query.eps) != (key.order, key.pos, key.cos, key.sin, key.eps):
        return None
    if query.pos is not attend.arguments[7] or query.pos is not store.arguments[6]:
        return None
    return store, cache, query, key, factor, (*scaling, *query.covers, *key.covers, store)


def _quantised(apply: Apply, scene: Scene) -> Apply | None:
    """Return what a quantisation alone reads the result of, through reshapes."""
    if apply.name != "quantise.quantise":
        return None
    source = scene.through(apply.arguments[0])
    return scene.maker(source) if scene.private(source, apply) else None


def attention_of_few(apply: Apply, scene: Scene) -> Region | None:
    """Turn, store and attend in one kernel, a round for each head, straight to 8 bits; for few tokens."""
    attend = _quantised(apply, scene) if scene.tokens is not None and scene.tokens <= FEW else None
    found, view = (_whole_attention(attend, scene), _view(attend, scene)) if attend is not None else (None, None)
    if attend is None or found is None or view is None or found[1].shape[4] % _CODES:
        return None
    store, cache, query, key, factor, covers = found
    out, halves = codes_of(apply, scene)
    reads, turn = _turn_operands(attend, store, cache, query, key, factor)
    recipe = Recipe("attention_step", (cache.shape, *view, turn, halves))
    writes = {**out, **cache.parts()}
    launch = Launch(recipe, {**reads, **cache.parts()}, writes, {"t": apply.rows}, label=attend.label)
    covers = (*covers, attend, *scene.chain(apply.arguments[0]), apply)
    return Region("", covers, (launch,), _same(store), cache.bytes())


def attention_of_many(apply: Apply, scene: Scene) -> Region | None:
    """Turn and store all tokens, then attend for all of them."""
    found = _whole_attention(apply, scene)
    view = _view(apply, scene)
    if found is None or view is None:
        return None
    store, cache, query, key, factor, covers = found
    first = _turn_and_store(apply, store, cache, (query, key, factor), view)
    second = _attend(apply, cache, view, query.result, {"y": apply.results[0]}, scene)
    return Region("", (*covers, apply), (first, second), _same(store), cache.bytes())


def attention_to_codes(apply: Apply, scene: Scene) -> Region | None:
    """Turn and store all tokens, then attend for all of them, straight to 8 bits."""
    attend = _quantised(apply, scene)
    found, view = (_whole_attention(attend, scene), _view(attend, scene)) if attend is not None else (None, None)
    if attend is None or found is None or view is None or found[1].shape[4] % _CODES:
        return None
    store, cache, query, key, factor, covers = found
    out, halves = codes_of(apply, scene)
    first = _turn_and_store(attend, store, cache, (query, key, factor), view)
    second = _attend(attend, cache, view, query.result, out, scene, halves)
    covers = (*covers, attend, *scene.chain(apply.arguments[0]), apply)
    return Region("", covers, (first, second), _same(store), cache.bytes())


def _turn_and_store(
    attend: Apply, store: Apply, cache: _Cache, turns: tuple[_Turned, _Turned, float], view: tuple[Argument, ...]
) -> Launch:
    query, key, factor = turns
    reads, turn = _turn_operands(attend, store, cache, query, key, factor)
    recipe, parts = Recipe("rotary_store", (cache.shape, turn, view[0])), cache.parts()
    label = store.label or attend.label
    return Launch(recipe, {**reads, **parts}, {"queries": query.result, **parts}, {"t": attend.dims[-1]}, label=label)


def store_alone(apply: Apply, scene: Scene) -> Region | None:
    """Keys and values into the cache."""
    cache = _cache(apply, scene) if apply.name == "attention.store" else None
    if cache is None:
        return None
    reads: dict[str, Operand] = {"k_in": apply.arguments[7], "v_in": apply.arguments[8]}
    reads |= {"seq": apply.arguments[5], "pos": apply.arguments[6], **cache.parts()}
    recipe = Recipe("store_rows", (cache.shape,))
    launch = Launch(recipe, reads, cache.parts(), {"t": apply.dims[-1]}, label=apply.label)
    return Region("", (apply,), (launch,), _same(apply), cache.bytes())


def attention_alone(apply: Apply, scene: Scene) -> Region | None:
    """Attention over what is stored."""
    view = _view(apply, scene)
    store = scene.maker(apply.arguments[0]) if view is not None else None
    cache = _cache(store, scene) if store is not None and store.name == "attention.store" else None
    if view is None or cache is None:
        return None
    stored = replace(cache, leaves=apply.arguments[:4])
    launch = _attend(apply, stored, view, apply.arguments[5], {"y": apply.results[0]}, scene)
    return Region("", (apply,), (launch,))


def turn_alone(apply: Apply, scene: Scene) -> Region | None:
    """Rotary embedding of heads."""
    if apply.name not in _TURNS:
        return None
    heads, context, h = (constant(size) for size in apply.dims[1:4])
    if heads is None or context is None or h is None or h % 8:
        return None
    x, pos, cos, sin = apply.arguments
    recipe = Recipe("rotary_rows", ((_TURNS[apply.name], h, context, 1.0, None), heads))
    reads: dict[str, Operand] = {"x": x, "pos": pos, "cos": cos, "sin": sin}
    launch = Launch(recipe, reads, {"y": apply.results[0]}, {"t": apply.dims[0]}, label=apply.label)
    return Region("", (apply,), (launch,))


def _attend(
    apply: Apply,
    cache: _Cache,
    view: tuple[Argument, ...],
    q: Value,
    out: Mapping[str, Operand],
    scene: Scene,
    halves: bool = False,
) -> Launch:
    reads: dict[str, Operand] = {"queries": q, "seq": apply.arguments[6], "pos": apply.arguments[7], **cache.parts()}
    few = scene.tokens is not None and scene.tokens <= FEW
    recipe = Recipe("attention", (cache.shape, *view, "q" in out, halves, few))
    return Launch(recipe, reads, out, {"t": apply.dims[-1]}, label=apply.label)


def _view(attend: Apply, scene: Scene) -> tuple[Argument, ...] | None:
    """Return r, window and cap of an application of attention."""
    if attend.name not in _ATTENTION:
        return None
    window = scene.number(attend.arguments[8])
    cap = scene.number(attend.arguments[9]) if len(attend.arguments) > 9 else 0.0
    g, r = constant(attend.dims[3]), constant(attend.results[0].type.shape[1])
    h = constant(attend.results[0].type.shape[2])
    if window is None or cap is None or g is None or r is None or h is None or not is_tiled(attend.arguments[0]):
        return None
    return r // g, int(window), float(cap)


def _turn_operands(
    attend: Apply, store: Apply, cache: _Cache, query: _Turned, key: _Turned, factor: float
) -> tuple[dict[str, Operand], tuple[Argument, ...]]:
    reads: dict[str, Operand] = {"q_in": query.source, "k_in": key.source, "v_in": store.arguments[8]}
    reads |= {"seq": attend.arguments[6], "pos": query.pos, "cos": query.cos, "sin": query.sin}
    if query.gain is not None and key.gain is not None:
        reads |= {"q_gain": query.gain, "k_gain": key.gain}
    context = constant(query.cos.type.shape[0])
    assert context is not None
    return reads, (query.order, cache.shape[4], context, factor, query.eps)


def _same(store: Apply) -> dict[Value, Value]:
    """The cache after a store is the cache before it."""
    return dict(zip(store.results, store.arguments[:4], strict=True))
