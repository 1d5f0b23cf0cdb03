"""Rules for the embedding: rows of a weight as numbers, straight from the bytes of the file."""

from dataclasses import dataclass

from bittern.graph.node import Function, walk
from bittern.graph.rewrite import substitute_dims
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Operand, Recipe, Region
from bittern.plan.rules.rows import factor_of, mode_of
from bittern.plan.scene import Scene, constant
from bittern.types.dims import dim, symbol

FORMATS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k")
_HALVES = ("f16", "bf16")
_GRAIN = 16  # values of a vector: rows of floats are whole ones


def embedding(apply: Apply, scene: Scene) -> Region | None:
    """Rows of a weight in a block format."""
    found = _rows(apply, scene)
    return None if found is None else _region(found, (apply,), 1.0, apply.results[0], scene)


def embedding_and_scale(apply: Apply, scene: Scene) -> Region | None:
    """The same times a constant number."""
    factor = factor_of(apply, scene)
    if factor is None:
        return None
    number, x = factor
    made = scene.maker(x)
    if made is None or not scene.private(x, apply):
        return None
    found = _rows(made, scene)
    if found is None:
        return None
    return _region(found, (made, apply), number, apply.results[0], scene)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of a weight that are looked up. before: what is covered in front of what makes numbers of them."""

    weight: Value
    token: Value
    before: tuple[Apply, ...]


def _rows(apply: Apply, scene: Scene) -> _Rows | None:
    """Return what is looked up if an application makes numbers of rows as `embed` of the library does."""
    return _float_rows(apply, scene) or _block_rows(apply, scene)


def _float_rows(apply: Apply, scene: Scene) -> _Rows | None:
    """Rows of f32, or of f16 or bf16 that are converted."""
    chosen, before = apply, tuple[Apply, ...]()
    if apply.name == "convert" and apply.results[0].type.element.name == "f32":
        made = scene.maker(apply.arguments[0])
        if made is None or not scene.private(apply.arguments[0], apply):
            return None
        chosen, before = made, (made,)
    if chosen.name != "take" or len(chosen.arguments) != 2:
        return None
    weight, token = chosen.arguments
    sizes, element = weight.type.shape, weight.type.element.name
    n = constant(sizes[-1]) if len(sizes) == 2 and len(token.type.shape) == 1 else None
    is_float = element in _HALVES if before else element == "f32"
    if not is_float or weight.source != "const" or not n or n % _GRAIN:
        return None
    return _Rows(weight, token, before)


def _block_rows(apply: Apply, scene: Scene) -> _Rows | None:
    """Rows of a block format, decoded by a map."""
    if apply.name != "map" or len(apply.arguments) != 1:
        return None
    chosen = scene.maker(apply.arguments[0])
    if chosen is None or chosen.name != "take" or len(chosen.arguments) != 2:
        return None
    blocks = scene.maker(chosen.arguments[0])
    if blocks is None or blocks.name != "blocks" or blocks.arguments[0].source != "const":
        return None
    weight, body = blocks.arguments[0], apply.node["body"]
    assert isinstance(body, Function)
    if weight.type.element.name not in FORMATS or not _is_embedding(body, weight, scene):
        return None
    private = scene.private(apply.arguments[0], apply) and scene.private(chosen.arguments[0], chosen)
    return _Rows(weight, chosen.arguments[1], (blocks, chosen)) if private else None


def _is_embedding(body: Function, weight: Value, scene: Scene) -> bool:
    """Whether the body means the same as that of `embed` for this format."""
    definition = scene.library.function("products.embed", overload=weight.type.element.name)
    instance = substitute_dims(definition, [*(dim(size) for size in weight.type.shape), symbol(0)], 1)
    for node in walk(instance.result):
        inner = node["body"] if node.kind == "map" else None
        if isinstance(inner, Function):
            return inner.result.id == body.result.id
    return False


def _region(found: _Rows, after: tuple[Apply, ...], factor: float, result: Value, scene: Scene) -> Region | None:
    weight, token = found.weight, found.token
    m, n = (constant(size) for size in weight.type.shape)
    if m is None or n is None:
        return None
    mode = mode_of(scene)
    recipe = Recipe("embed_rows", (weight.type.element.name, m, n, factor, mode == "split"))
    reads: dict[str, Operand] = {"w": weight, "token": token}
    launch = Launch(recipe, reads, {"x": result}, {"t": token.type.shape[0]}, mode=mode, label=weight.label)
    return Region("", (*found.before, *after), (launch,))
