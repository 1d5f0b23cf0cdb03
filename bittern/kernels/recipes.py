"""The table of recipes: kernels by name and plain arguments, so that plans and caches speak of them without building.

Each row's builder takes the arguments of a `plan.Recipe`. A recipe that is built twice gives the same kernel.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from bittern.bitops.kernel import Kernel

if TYPE_CHECKING:
    from bittern.kernels.attention import View

_SHARING = 2  # threads among which the heads of few tokens should divide well

Build: TypeAlias = Callable[..., Kernel]


def _repack(tile: str, m: int, n: int) -> Kernel:
    from bittern.kernels.repack import repack
    from bittern.kernels.tiles import TILES

    return repack(TILES[tile], m, n)


def _matvec(tile: str, m: int, n: int, tokens: int, residual: bool) -> Kernel:
    from bittern.kernels.matvec import matvec
    from bittern.kernels.tiles import TILES

    return matvec(TILES[tile], m, n, tokens, add_residual=residual)


def _matmul(tile: str, m: int, n: int, residual: bool) -> Kernel:
    from bittern.kernels.matmul import matmul
    from bittern.kernels.tiles import TILES

    return matmul(TILES[tile], m, n, add_residual=residual)


def _quantise_rows(n: int, halves: bool, split: bool) -> Kernel:
    from bittern.kernels.quantise import quantise_rows

    return quantise_rows(n, halves=halves, split=split)


def _quantise_whole_rows(n: int, split: bool) -> Kernel:
    from bittern.kernels.quantise import quantise_whole_rows

    return quantise_whole_rows(n, split=split)


def _norm_rows(n: int, eps: float, codes: bool, halves: bool, split: bool) -> Kernel:
    from bittern.kernels.norms import norm_rows

    return norm_rows(n, eps, codes=codes, halves=halves, split=split)


def _norm_residual(n: int, eps: float, fresh: bool) -> Kernel:
    from bittern.kernels.norms import norm_residual

    return norm_residual(n, eps, fresh=fresh, split=not fresh)


def _gate_rows(kind: str, n: int, codes: bool, halves: bool, grain: int) -> Kernel:
    from bittern.kernels.activations import gate_rows

    return gate_rows(kind, n, codes=codes, halves=halves, grain=grain)


def _add_rows(n: int) -> Kernel:
    from bittern.kernels.elementwise import add_rows

    return add_rows(n)


def _scale_rows(n: int, factor: float) -> Kernel:
    from bittern.kernels.elementwise import scale_rows

    return scale_rows(n, factor)


def _embed_rows(name: str, m: int, n: int, factor: float, split: bool) -> Kernel:
    from bittern.kernels.embedding import embed_rows

    return embed_rows(name, m, n, factor=factor, split=split)


def _rotary_rows(turn: tuple[Any, ...], heads: int) -> Kernel:
    from bittern.kernels.rotary import Turn, rotary_rows

    return rotary_rows(Turn(*turn), heads)


def _store_rows(shape: tuple[Any, ...]) -> Kernel:
    from bittern.kernels.cache_store import CacheShape, store_rows

    return store_rows(CacheShape(*shape))


def _rotary_store(shape: tuple[Any, ...], turn: tuple[Any, ...], r: int) -> Kernel:
    from bittern.kernels.cache_store import CacheShape, rotary_store
    from bittern.kernels.rotary import Turn

    return rotary_store(CacheShape(*shape), Turn(*turn), r, joined=False)


def _view(few: bool, shape: tuple[Any, ...], r: int, window: int, cap: float) -> "View":
    from bittern.kernels.attention import View, share_for, together
    from bittern.kernels.cache_store import CacheShape

    made = CacheShape(*shape)
    view = View(made, r, window, cap, share_for(made.g, r, _SHARING) if few else 0)
    return view if few else together(view)


def positions_together(name: str, arguments: tuple[Any, ...]) -> int:
    """Return how many positions of a cache the kernel of an attention recipe scores together."""
    few = name == "attention_step" or arguments[6]
    return _view(few, *arguments[:4]).step


def _attention(shape: tuple[Any, ...], r: int, window: int, cap: float, codes: bool, halves: bool, few: bool) -> Kernel:
    from bittern.kernels.attention import attention

    over = "heads" if few else "tokens"
    return attention(_view(few, shape, r, window, cap), codes=codes, halves=halves, over=over)


def _attention_step(
    shape: tuple[Any, ...], r: int, window: int, cap: float, turn: tuple[Any, ...], halves: bool
) -> Kernel:
    from bittern.kernels.attention import attention_step
    from bittern.kernels.rotary import Turn

    view = _view(True, shape, r, window, cap)
    return attention_step(view, Turn(*turn), joined=False, codes=True, halves=halves)


def _argmax_parts(n: int, parts: int) -> Kernel:
    from bittern.kernels.argmax import argmax_parts

    return argmax_parts(n, parts)


def _argmax_join(parts: int) -> Kernel:
    from bittern.kernels.argmax import argmax_join

    return argmax_join(parts)


def _advance(stops: int, most: int) -> Kernel:
    from bittern.kernels.advance import advance

    return advance(stops, most)


def _conv_bytes(area: tuple[Any, ...], m: int, stage: tuple[Any, ...], images: int, parts: int, room: int) -> Kernel:
    from bittern.kernels.conv_bytes import conv_bytes
    from bittern.kernels.conv_shapes import area_of
    from bittern.kernels.requantise import stage_of

    return conv_bytes(area_of(area), m, stage_of(stage), images, parts, room)


def _gather_windows(area: tuple[Any, ...], images: int) -> Kernel:
    from bittern.kernels.conv_shapes import area_of
    from bittern.kernels.gather_windows import gather_windows

    return gather_windows(area_of(area), images)


def _depthwise(area: tuple[Any, ...], stage: tuple[Any, ...], images: int) -> Kernel:
    from bittern.kernels.conv_shapes import area_of
    from bittern.kernels.depthwise import depthwise
    from bittern.kernels.requantise import stage_of

    return depthwise(area_of(area), stage_of(stage), images)


def _max_pool(area: tuple[Any, ...], images: int) -> Kernel:
    from bittern.kernels.conv_shapes import area_of
    from bittern.kernels.pool import max_pool

    return max_pool(area_of(area), images)


def _sum_pool(area: tuple[Any, ...], stage: tuple[Any, ...], images: int) -> Kernel:
    from bittern.kernels.conv_shapes import area_of
    from bittern.kernels.pool import sum_pool
    from bittern.kernels.requantise import stage_of

    return sum_pool(area_of(area), stage_of(stage), images)


def _codes_of_sums(rows: int, c: int, stage: tuple[Any, ...], alike: bool) -> Kernel:
    from bittern.kernels.codes_of_sums import codes_of_sums
    from bittern.kernels.requantise import stage_of

    return codes_of_sums(rows, c, stage_of(stage), alike)


def _add_bytes(n: int, total: tuple[Any, ...]) -> Kernel:
    from bittern.kernels.add_bytes import add_bytes, sum_of

    return add_bytes(n, sum_of(total))


def _blend_bytes(n: int, line: tuple[Any, ...]) -> Kernel:
    from bittern.kernels.blend_bytes import Line, blend_bytes

    return blend_bytes(n, Line(*line))


def _table_bytes(n: int) -> Kernel:
    from bittern.kernels.table_bytes import table_bytes

    return table_bytes(n)


def _watch() -> Kernel:
    from bittern.kernels.watch import watch

    return watch()


def _sign_product(
    field: tuple[Any, ...],
    channels: int,
    m: int,
    weights: str,
    coding: tuple[Any, ...],
    stage: tuple[Any, ...],
    padding: int | None,
    samples: int | None,
) -> Kernel:
    from bittern.kernels.field import Field
    from bittern.kernels.sign_product import Coding, sign_product
    from bittern.kernels.window_results import Stage

    where, values, ending = Field(*field), Coding(*coding), Stage(*stage)
    return sign_product(where, channels, m, weights, values, ending, padding=padding, samples=samples)


def _code_product(
    field: tuple[Any, ...], codes: tuple[Any, ...], m: int, stage: tuple[Any, ...], samples: int | None
) -> Kernel:
    from bittern.kernels.code_product import Codes, code_product
    from bittern.kernels.field import Field
    from bittern.kernels.window_results import Stage

    return code_product(Field(*field), Codes(*codes), m, Stage(*stage), samples)


def _pack_planes(m: int, taps: int, channels: int, weights: str) -> Kernel:
    from bittern.kernels.pack_planes import pack_planes

    return pack_planes(m, taps, channels, weights)


def _pack_values(element: str, channels: int, tests: tuple[Any, ...], places: int | None) -> Kernel:
    from bittern.kernels.pack_planes import pack_values

    return pack_values(element, channels, tests, places)


def _bits_of_numbers(
    channels: int, limits: tuple[Any, ...], planes: tuple[tuple[int, ...], ...], places: int | None
) -> Kernel:
    from bittern.kernels.bits_of_numbers import Limit, bits_of_numbers

    return bits_of_numbers(channels, [Limit(*each) for each in limits], planes, places)


def _pool_planes(field: tuple[Any, ...], span: int, samples: int | None) -> Kernel:
    from bittern.kernels.field import Field
    from bittern.kernels.pool_planes import pool_planes

    return pool_planes(Field(*field), span, samples)


def _bits_of_sums(m: int, stage: tuple[Any, ...], places: int | None) -> Kernel:
    from bittern.kernels.bits_of_sums import bits_of_sums
    from bittern.kernels.window_results import Stage

    return bits_of_sums(m, Stage(*stage), places)


# fmt: off
RECIPES: Mapping[str, Build] = {
    "repack":         _repack,
    "matvec":         _matvec,
    "matmul":         _matmul,
    "quantise_rows":  _quantise_rows,
    "quantise_whole_rows": _quantise_whole_rows,
    "norm_rows":      _norm_rows,
    "norm_residual":  _norm_residual,
    "gate_rows":      _gate_rows,
    "add_rows":       _add_rows,
    "scale_rows":     _scale_rows,
    "embed_rows":     _embed_rows,
    "rotary_rows":    _rotary_rows,
    "store_rows":     _store_rows,
    "rotary_store":   _rotary_store,
    "attention":      _attention,
    "attention_step": _attention_step,
    "argmax_parts":   _argmax_parts,
    "argmax_join":    _argmax_join,
    "advance":        _advance,
    "watch":          _watch,
    "sign_product":   _sign_product,
    "code_product":   _code_product,
    "pack_planes":    _pack_planes,
    "pack_values":    _pack_values,
    "bits_of_numbers": _bits_of_numbers,
    "pool_planes":    _pool_planes,
    "bits_of_sums":   _bits_of_sums,
    "conv_bytes":     _conv_bytes,
    "gather_windows": _gather_windows,
    "depthwise":      _depthwise,
    "max_pool":       _max_pool,
    "sum_pool":       _sum_pool,
    "codes_of_sums":  _codes_of_sums,
    "add_bytes":      _add_bytes,
    "blend_bytes":    _blend_bytes,
    "table_bytes":    _table_bytes,
}
# fmt: on


def build(name: str, arguments: tuple[Any, ...]) -> Kernel:
    """Return the kernel of a recipe."""
    return RECIPES[name](*arguments)
