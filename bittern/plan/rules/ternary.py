"""Rules for ternary matrices with one scale a row: rows of activations to 8 bits with one scale each, and the products.

The whole row of a product stays an integer, so two bits a weight are all that is read.
"""

from dataclasses import replace

from bittern.kernels.tiles import TILES
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Operand, Recipe, Region
from bittern.plan.rules.products import Factors, product_of, residual_of
from bittern.plan.rules.rows import mode_of
from bittern.plan.scene import Scene, constant
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor

_PRODUCT, _QUANTISE = "ternary.matvec_ternary", "ternary.quantise_row"
_TILE = TILES["ternary"]
_GRAIN = 16  # values of a vector: the kernel takes whole ones


def quantise_row(apply: Apply, scene: Scene) -> Region | None:
    """Rows to 8 bits, one scale each."""
    launch = _quantise(apply, scene, apply.arguments[0]) if apply.name == _QUANTISE else None
    return None if launch is None else Region("", (apply,), (launch,))


def norm_and_quantise_row(apply: Apply, scene: Scene) -> Region | None:
    """RMS norm of rows, then to 8 bits: for few tokens every thread does both, into memory of its own."""
    if apply.name != _QUANTISE:
        return None
    source = scene.through(apply.arguments[0])
    norm = scene.maker(source)
    if norm is None or norm.name != "norms.rms_norm" or not scene.private(source, apply):
        return None
    eps, n = scene.number(norm.arguments[2]), constant(norm.dims[0])
    if eps is None or n is None or norm.mapped != (True, False, False) or norm.rows != apply.rows:
        return None
    after = _quantise(apply, scene, source)
    if after is None:
        return None
    recipe = Recipe("norm_rows", (n, float(eps), False, False, after.mode == "split"))
    reads: dict[str, Operand] = {"x": norm.arguments[0], "gain": norm.arguments[1]}
    rows = f"rows {apply.rows}" if after.mode == "split" else ""
    first = Launch(recipe, reads, {"y": source}, {"t": norm.rows}, mode=after.mode, label=norm.label)
    shared = frozenset({"x", "y", "q", "d", "s"}) if rows else frozenset[str]()
    launches = tuple(replace(each, partition=rows, shares=shared) for each in (first, after))
    return Region("", (norm, *scene.chain(apply.arguments[0]), apply), launches)


def product(apply: Apply, scene: Scene) -> Region | None:
    """y = W x for every row of x."""
    return product_of(apply, scene, _factors)


def product_and_residual(apply: Apply, scene: Scene) -> Region | None:
    """r + W x, in the order of the sum in the program."""
    return residual_of(apply, scene, _factors)


def _quantise(apply: Apply, scene: Scene, source: Value) -> Launch | None:
    n = constant(apply.dims[0])
    if n is None or n % _GRAIN or len(apply.lead) != 1:
        return None
    q, d = apply.results
    mode = mode_of(scene)
    writes: dict[str, Operand] = {"q": q, "d": d, "s": _sums(q, scene)}
    recipe = Recipe("quantise_whole_rows", (n, mode == "split"))
    return Launch(recipe, {"x": source}, writes, {"t": apply.rows}, mode=mode, label=apply.label)


def _sums(q: Value, scene: Scene) -> Value:
    """Return the value that holds the sum of the codes of each row. q: [t, n] i8 -> [t] i32."""
    made = Value(Tensor(ELEMENTS["i32"], q.type.shape[:1]), "made", label=f"{q.label} sums")
    found = scene.extra_value(q, "row") or scene.extra_value(q, "row", made)
    assert found is not None
    return found


def _factors(apply: Apply, scene: Scene) -> Factors | None:
    """Find products with rows that `quantise_row` made: its kernel gives the sums, too."""
    if apply.name != _PRODUCT or apply.mapped != (False, False, True, True):
        return None
    _, scale, q, d = apply.arguments
    made, n = scene.maker(q), constant(apply.dims[1])
    if made is None or made.name != _QUANTISE or q is not made.results[0] or n is None or n % _GRAIN:
        return None
    return Factors(_TILE, {"scale": scale, "q": q, "d": d, "s": _sums(q, scene)})
