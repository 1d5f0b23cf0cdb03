"""Pools beside chains: the greatest of each window is taken of whole numbers instead of floats.

A quantiser q that never falls on the values that reach it has q(max(x, y, ...)) = max(q(x), q(y), ...), so a max-pool
in front of it may stand *behind* it, where its values are codes: fewer bits are moved, and the chain joins the
accumulator. Where q falls in a channel, but what comes before the pool never does, the pool may stand *in front* of
both, where its values are accumulators.

Both are looked up in the values themselves: the part before the pool is evaluated at every value of its source, the
part behind it at every value that this gives, and at those of the padding. Values that compare equal must have equal
codes (a pool may give either zero). Where neither holds, or a value is no number, the order stays.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bittern.front.network.assembly import Assembly
from bittern.graph.node import Node, walk
from bittern.graph.rewrite import replace_nodes
from bittern.ops.table import Array
from bittern.passes.applied import Applied, applied
from bittern.passes.chains import BlockedError, Chain, chain_to
from bittern.passes.known import number_of
from bittern.passes.stairs import sources
from bittern.passes.width import Interval
from bittern.types.values import Tensor

POOLS = ("pooling.max_pool1d", "pooling.max_pool2d")
_MOST_VALUES = 1 << 24


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A max-pool and what stands in front of it.

    views: pads and windows, the last one first. inside: what they look at. padding: what pads put in, the last first.
    """

    layer: Applied
    views: tuple[Node, ...]
    inside: Node
    padding: tuple[Array, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Through:
    """A chain that leads through a pool. before: up to the pool, None if it is the source itself. behind: from there.

    whole: both, as if there were no pool.
    """

    pool: Pool
    before: Chain | None
    behind: Chain
    whole: Chain


def pool_of(of: Node) -> Pool | None:
    """Return a max-pool over windows of an array, or None."""
    layer = applied(of)
    if layer is None or layer.name not in POOLS or layer.mapped != (True,):
        return None
    views: list[Node] = []
    padding: list[Array] = []
    inside = layer.arguments[0]
    while inside.kind in ("windows", "pad"):
        if inside.kind == "pad":
            value = number_of(inside.inputs[1])
            if value is None:
                return None
            padding.append(value)
        views.append(inside)
        inside = inside.inputs[0]
    return Pool(layer, tuple(views), inside, tuple(padding)) if views else None


def through(behind: Chain, pool: Pool, is_source: Callable[[Node], bool]) -> Through:
    """Return the chain that leads through the pool at which another one starts. BlockedError where there is none."""
    inside = pool.inside
    assert isinstance(inside.type, Tensor), inside
    alone = Through(pool, None, behind, replace(behind, sources=(inside,)))
    is_whole = not inside.type.element.is_float
    if is_whole and is_source(inside):
        return alone
    try:
        before = chain_to(inside, is_source)
    except BlockedError:
        if is_whole:
            return alone
        raise
    channels = max(before.channels, behind.channels)
    before = _with_channels(before, channels)
    behind = _with_channels(behind, channels)
    entries = [each for each in walk(behind.form.result) if each.kind == "param"]
    result = replace_nodes(behind.form.result, {entry.id: before.form.result for entry in entries})
    whole = replace(
        before,
        end=behind.end,
        form=replace(before.form, result=result),
        kinds=(*before.kinds, *behind.kinds),
    )
    return Through(pool, before, behind, whole)


def _with_channels(chain: Chain, channels: int) -> Chain:
    """Return a chain with a column for each channel."""
    source = chain.source
    return chain if chain.channels == channels else chain_to(chain.end, lambda each: each is source, channels)


@dataclass(frozen=True, slots=True, eq=False)
class Facts:
    """What is known of a chain through a pool. is_behind, is_in_front: where the pool may stand.

    padding: the codes of what pads put in. least: of the source.
    """

    is_behind: bool
    is_in_front: bool
    padding: tuple[int, ...]
    least: int


def facts_of(chain: Through, span: Interval) -> Facts:
    """Return where a pool may stand. span: of the source. BlockedError where nothing is known."""
    whole, behind = chain.whole, chain.behind
    if (span.most - span.least + 1) * whole.channels > _MOST_VALUES:
        raise BlockedError("it leads through a pool, and its source has too many values to look at each", behind.end)
    x = sources(whole, span)
    before = x if chain.before is None else chain.before.values(x)
    codes = whole.values(x).astype(np.int64)
    padding = [_padded(behind, value) for value in chain.pool.padding]
    if before.dtype.kind == "f" and bool(np.isnan(before).any()):
        raise BlockedError("a value in front of a pool is no number", behind.end)
    is_rising = bool((before[1:] >= before[:-1]).all())
    with_padding = [np.concatenate([before, *(value for value, _ in padding)])]
    with_padding.append(np.concatenate([codes, *(code for _, code in padding)]))
    is_behind, is_settled = _order(*with_padding)
    is_low = all(bool((value <= before[0]).all()) for value, _ in padding) and _reaches_inside(chain.pool)
    marks = [np.unique(code) for _, code in padding]
    is_behind = is_behind and is_settled and all(len(mark) == 1 for mark in marks)
    is_in_front = chain.before is not None and is_rising and is_settled and is_low
    return Facts(is_behind, is_in_front, tuple(int(mark[0]) for mark in marks), span.least)


def _padded(behind: Chain, value: Array) -> tuple[Array, Array]:
    """Return a value of padding for each channel, and its codes."""
    row = np.full((1, behind.channels), value, value.dtype)
    return row, behind.values(row).astype(np.int64)


def _order(values: Array, codes: Array) -> tuple[bool, bool]:
    """Return whether codes never fall as values rise, and whether equal values have equal codes. [n, channels]."""
    order = np.argsort(values, axis=0, kind="stable")
    ranked, step = np.take_along_axis(values, order, 0), np.diff(np.take_along_axis(codes, order, 0), axis=0)
    is_same = ranked[1:] == ranked[:-1]
    return bool((step[~is_same] >= 0).all()), not bool((step[is_same] != 0).any())


def _reaches_inside(pool: Pool) -> bool:
    """Whether every window has a place that is no padding: pads are shorter than the windows over their axis."""
    reach = 0
    for view in pool.views:
        if view.kind == "windows":
            size, dilation = getattr(view["size"], "constant", None), view["dilation"]
            assert isinstance(dilation, int), view
            reach = ((size or 1) - 1) * dilation if not reach else min(reach, ((size or 1) - 1) * dilation)
    sizes = [getattr(view[name], "constant", None) for view in pool.views if view.kind == "pad" for name in _SIDES]
    return all(size is not None and size <= reach for size in sizes)


_SIDES = ("before", "after")


def draw_pool(a: Assembly, pool: Pool, inside: Node, padding: tuple[int, ...]) -> Node:
    """Return the pool over the same windows of another array, with other padding (the last pad's first)."""
    assert isinstance(inside.type, Tensor), inside
    made, left = inside, list(padding)
    for view in reversed(pool.views):
        attributes = dict(view.attributes)
        if view.kind == "pad":
            value = a.constant(left.pop(), inside.type.element.name)
            made = a.op("pad", made, value, **attributes)
        else:
            made = a.op("windows", made, **attributes)
    return a.call(pool.layer.name, made, lead=len(pool.layer.lead))
