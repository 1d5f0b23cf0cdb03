"""Rules for matrix products: weights in tiles, one to four tokens by `matvec`, more by `matmul`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bittern.kernels.tiles import PAIR, TILES, Tile, pairs
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import FEW, Launch, Operand, Packed, Recipe, Region
from bittern.plan.scene import Scene, constant

_SHARES = frozenset({"y", "r"})  # a thread's rows; it reads all that is multiplied
_PREFIX = "products.matvec_"


@dataclass(frozen=True, slots=True)
class Factors:
    """What a product is made of: a matrix [m, n] in tiles of some layout, and what it is multiplied with, by buffer."""

    tile: Tile
    inputs: Mapping[str, Operand]


Finds = Callable[[Apply, Scene], Factors | None]  # what an application multiplies, if it is a product of a kind


def product(apply: Apply, scene: Scene) -> Region | None:
    """y = W x for every row of x."""
    return product_of(apply, scene, _factors)


def product_and_residual(apply: Apply, scene: Scene) -> Region | None:
    """r + W x, in the order of the sum in the program."""
    return residual_of(apply, scene, _factors)


def product_of(apply: Apply, scene: Scene, finds: Finds) -> Region | None:
    """y = W x for every row of x, for the products that are found so."""
    launch = _launch(apply, scene, finds, None, apply.results[0])
    return None if launch is None else Region("", (apply,), (launch,))


def residual_of(apply: Apply, scene: Scene, finds: Finds) -> Region | None:
    """r + W x, in the order of the sum in the program, for the products that are found so."""
    if apply.name != "add":
        return None
    left, right = apply.arguments
    source = scene.through(right)
    made = scene.maker(source)
    if made is None or not scene.private(source, apply):
        return None
    launch = _launch(made, scene, finds, left, apply.results[0])
    return None if launch is None else Region("", (made, *scene.chain(right), apply), (launch,))


def _factors(apply: Apply, scene: Scene) -> Factors | None:
    """Find products of a weight in a format with activations that are scaled by blocks, or not at all."""
    tile = TILES.get(apply.name.removeprefix(_PREFIX)) if apply.name.startswith(_PREFIX) else None
    if tile is None or apply.mapped[:1] != (False,) or not all(apply.mapped[1:]):
        return None
    inputs = _inputs(apply, scene, tile) if _is_packable(apply, tile) else None
    return None if inputs is None else Factors(tile, inputs)


def _is_packable(apply: Apply, tile: Tile) -> bool:
    """Whether the first argument is a constant matrix that tiles of a layout can hold."""
    m, n = constant(apply.dims[0]), constant(apply.dims[1])
    return len(apply.lead) == 1 and apply.arguments[0].source == "const" and bool(m and n) and tile.fits(n or 0)


def _launch(apply: Apply, scene: Scene, finds: Finds, residual: Value | None, result: Value) -> Launch | None:
    factors = finds(apply, scene)
    if factors is None or not _is_packable(apply, factors.tile):
        return None
    tile, weight, reads = factors.tile, apply.arguments[0], dict(factors.inputs)
    m, n = (size.constant or 0 for size in apply.dims[:2])
    tokens = scene.tokens
    few = tokens is not None and tokens <= FEW
    reads["w"] = Packed(weight, Recipe("repack", (tile.name, m, n)), tile.packed_bytes(m, n))
    if residual is not None:
        reads["r"] = residual
    with_residual = residual is not None
    recipe = (
        Recipe("matvec", (tile.name, m, n, tokens, with_residual))
        if few
        else Recipe("matmul", (tile.name, m, n, with_residual))
    )
    partition = f"columns {m} of {pairs(m)}" if few and m % PAIR == 0 else ""
    sizes = {} if few else {"t": apply.rows}
    label = apply.label or weight.label
    macs, rows = apply.rows * (m * n), {"y": result}
    return Launch(recipe, reads, rows, sizes, partition=partition, shares=_SHARES, label=label, macs=macs)


def _inputs(apply: Apply, scene: Scene, tile: Tile) -> dict[str, Operand] | None:
    if tile.family == "floats":
        return {"x": apply.arguments[1]}
    if tile.family != "blocks":
        return None
    q, d, ds = apply.arguments[1:4]
    found: dict[str, Operand] = {"q": q, "d": d}
    if tile.needs_ds:
        found["ds"] = ds
    if tile.needs_sums:
        sums = scene.extra_value(q, tile.sums) or scene.extra_value(q, tile.sums, sums_of(q, tile.group))
        assert sums is not None
        found[tile.sums] = sums
    return found


def sums_of(q: Value, group: int) -> Value:
    """Return the value that holds the sums of codes in groups. q: [t, n / 32, 32] i8 -> [t, n / group] i32."""
    from bittern.types.elements import ELEMENTS
    from bittern.types.values import Tensor

    rows, blocks, _ = q.type.shape
    return Value(Tensor(ELEMENTS["i32"], (rows, blocks * (32 // group))), "made", label=f"{q.label} sums")
