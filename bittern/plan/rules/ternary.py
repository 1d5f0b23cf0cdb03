"""Rules for ternary matrices with one scale a row: rows of activations to 8 bits with one scale each, and the products.

The whole row of a product stays an integer, so two bits a weight are all that is read.
"""

from dataclasses import replace

from bittern.kernels.tiles import PAIR, TILES, pairs
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import FEW, Launch, Operand, Packed, Recipe, Region
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
    launch = _launch(apply, scene, None, apply.results[0])
    return None if launch is None else Region("", (apply,), (launch,))


def product_and_residual(apply: Apply, scene: Scene) -> Region | None:
    """r + W x, in the order of the sum in the program."""
    if apply.name != "add":
        return None
    left, right = apply.arguments
    source = scene.through(right)
    made = scene.maker(source)
    if made is None or made.name != _PRODUCT or not scene.private(source, apply):
        return None
    launch = _launch(made, scene, left, apply.results[0])
    return None if launch is None else Region("", (made, *scene.chain(right), apply), (launch,))


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


def _launch(apply: Apply, scene: Scene, residual: Value | None, result: Value) -> Launch | None:
    if apply.name != _PRODUCT or apply.mapped != (False, False, True, True) or len(apply.lead) != 1:
        return None
    m, n = constant(apply.dims[0]), constant(apply.dims[1])
    weight, scale, q, d = apply.arguments
    made = scene.maker(q)
    if m is None or n is None or weight.source != "const" or not _TILE.fits(n) or not m or n % _GRAIN:
        return None
    if made is None or made.name != _QUANTISE or q is not made.results[0]:
        return None
    reads: dict[str, Operand] = {"scale": scale, "q": q, "d": d, "s": _sums(q, scene)}
    reads["w"] = Packed(weight, Recipe("repack", (_TILE.name, m, n)), _TILE.packed_bytes(m, n))
    if residual is not None:
        reads["r"] = residual
    tokens, with_residual = scene.tokens, residual is not None
    few = tokens is not None and tokens <= FEW
    recipe = (
        Recipe("matvec", (_TILE.name, m, n, tokens, with_residual))
        if few
        else Recipe("matmul", (_TILE.name, m, n, with_residual))
    )
    partition = f"columns {m} of {pairs(m)}" if few and m % PAIR == 0 else ""
    sizes = {} if few else {"t": apply.rows}
    label, macs = apply.label or weight.label, apply.rows * (m * n)
    shares = frozenset({"y", "r"})
    return Launch(recipe, reads, {"y": result}, sizes, partition=partition, shares=shares, label=label, macs=macs)
