"""Rules for the embedding: rows of a weight as numbers, straight from the bytes of the file."""

from bittern.graph.node import Function, walk
from bittern.graph.rewrite import substitute_dims
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Operand, Recipe, Region
from bittern.plan.rules.rows import factor_of, mode_of
from bittern.plan.scene import Scene, constant
from bittern.types.dims import dim, symbol

FORMATS = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k")


def embedding(apply: Apply, scene: Scene) -> Region | None:
    """Rows of a weight in a block format."""
    found = _rows(apply, scene)
    return None if found is None else _region(found, apply, (), 1.0, apply.results[0], scene)


def embedding_and_scale(apply: Apply, scene: Scene) -> Region | None:
    """The same times a constant number."""
    factor = factor_of(apply, scene)
    if factor is None:
        return None
    number, x, spread = factor
    made = scene.maker(x)
    if made is None or not scene.private(x, apply):
        return None
    found = _rows(made, scene)
    if found is None:
        return None
    return _region(found, made, (spread, apply), number, apply.results[0], scene)


def _rows(apply: Apply, scene: Scene) -> tuple[Value, Value, Apply, Apply] | None:
    """Return weight, tokens and what is covered if a map decodes rows as `embed` of the library does."""
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
    return (weight, chosen.arguments[1], chosen, blocks) if private else None


def _is_embedding(body: Function, weight: Value, scene: Scene) -> bool:
    """Whether the body means the same as that of `embed` for this format."""
    definition = scene.library.function("products.embed", overload=weight.type.element.name)
    instance = substitute_dims(definition, [*(dim(size) for size in weight.type.shape), symbol(0)], 1)
    for node in walk(instance.result):
        inner = node["body"] if node.kind == "map" else None
        if isinstance(inner, Function):
            return inner.result.id == body.result.id
    return False


def _region(
    found: tuple[Value, Value, Apply, Apply],
    apply: Apply,
    after: tuple[Apply, ...],
    factor: float,
    result: Value,
    scene: Scene,
) -> Region | None:
    weight, token, chosen, blocks = found
    m, n = (constant(size) for size in weight.type.shape)
    if m is None or n is None:
        return None
    mode = mode_of(scene)
    recipe = Recipe("embed_rows", (weight.type.element.name, m, n, factor, mode == "split"))
    reads: dict[str, Operand] = {"w": weight, "token": token}
    launch = Launch(recipe, reads, {"x": result}, {"t": token.type.shape[0]}, mode=mode, label=weight.label)
    return Region("", (blocks, chosen, apply, *after), (launch,))
