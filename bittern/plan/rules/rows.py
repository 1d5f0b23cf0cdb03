"""Rules for what works row by row: norms, quantisation, gates, sums of rows."""

from bittern.plan.flow import Apply, Value
from bittern.plan.plan import FEW, Launch, Mode, Operand, Recipe, Region
from bittern.plan.rules.products import sums_of
from bittern.plan.scene import Scene, constant
from bittern.types.dims import Dim

_GATES = {"activations.silu_gate": "silu", "activations.gelu_tanh_gate": "gelu_tanh"}
_GRAIN = 32  # values in a round of a gate: as many as a pair of tiles has rows


def quantise(apply: Apply, scene: Scene) -> Region | None:
    """Rows to 8 bits."""
    if apply.name != "quantise.quantise":
        return None
    n = constant(apply.dims[0])
    if n is None:
        return None
    out, halves = codes_of(apply, scene)
    mode = mode_of(scene)
    recipe = Recipe("quantise_rows", (n, halves, mode == "split"))
    launch = Launch(recipe, {"x": apply.arguments[0]}, out, {"t": apply.rows}, mode=mode, label=apply.label)
    return Region("", (apply,), (launch,))


def norm_and_quantise(apply: Apply, scene: Scene) -> Region | None:
    """RMS norm of rows, straight to 8 bits."""
    if apply.name != "quantise.quantise":
        return None
    source = scene.through(apply.arguments[0])
    norm = scene.maker(source)
    if norm is None or norm.name != "norms.rms_norm" or not scene.private(source, apply):
        return None
    if norm.rows != apply.rows or norm.mapped != (True, False, False):
        return None
    n, eps = constant(apply.dims[0]), scene.number(norm.arguments[2])
    if n is None or eps is None or constant(norm.dims[0]) != n:
        return None
    out, halves = codes_of(apply, scene)
    mode = mode_of(scene)
    recipe = Recipe("norm_rows", (n, float(eps), True, halves, mode == "split"))
    reads: dict[str, Operand] = {"x": norm.arguments[0], "gain": norm.arguments[1]}
    launch = Launch(recipe, reads, out, {"t": apply.rows}, mode=mode, label=norm.label)
    return Region("", (norm, *scene.chain(apply.arguments[0]), apply), (launch,))


def norm(apply: Apply, scene: Scene) -> Region | None:
    """RMS norm of rows."""
    if apply.name != "norms.rms_norm" or apply.mapped != (True, False, False):
        return None
    n, eps = constant(apply.dims[0]), scene.number(apply.arguments[2])
    if n is None or eps is None:
        return None
    recipe = Recipe("norm_rows", (n, float(eps), False, False, True))
    reads: dict[str, Operand] = {"x": apply.arguments[0], "gain": apply.arguments[1]}
    launch = Launch(recipe, reads, {"y": apply.results[0]}, {"t": apply.rows}, label=apply.label)
    return Region("", (apply,), (launch,))


def residual_of_norm(apply: Apply, scene: Scene) -> Region | None:
    """x + RMS norm of rows: in place of x, or, for few tokens, every thread makes a sum of its own."""
    if apply.name != "add":
        return None
    left, right = apply.arguments
    source = scene.through(right)
    made = scene.maker(source)
    if made is None or made.name != "norms.rms_norm" or made.mapped != (True, False, False):
        return None
    n, eps = constant(made.dims[0]), scene.number(made.arguments[2])
    few = mode_of(scene) == "each"
    if n is None or eps is None or not scene.private(source, apply) or not (few or scene.is_last(left)):
        return None
    recipe = Recipe("norm_residual", (n, float(eps), few))
    reads: dict[str, Operand] = {"x": left, "more": made.arguments[0], "more_gain": made.arguments[1]}
    covers, rows = (made, *scene.chain(right), apply), {"t": made.rows}
    if few:
        result = {"y": apply.results[0]}
        return Region("", covers, (Launch(recipe, reads, result, rows, mode="each", label=apply.label),))
    launch = Launch(recipe, reads, {"x": left}, rows, label=apply.label)
    return Region("", covers, (launch,), {apply.results[0]: left})


def gate(apply: Apply, scene: Scene) -> Region | None:
    """activation(gate) * up."""
    kind = _GATES.get(apply.name)
    n = constant(apply.dims[1]) if kind else None
    if kind is None or n is None or apply.lead:
        return None
    recipe = Recipe("gate_rows", (kind, n, False, False, 0))
    reads: dict[str, Operand] = {"gate": apply.arguments[0], "up": apply.arguments[1]}
    launch = Launch(recipe, reads, {"y": apply.results[0]}, {"t": apply.dims[0]}, label=apply.label)
    return Region("", (apply,), (launch,))


def gate_and_quantise(apply: Apply, scene: Scene) -> Region | None:
    """activation(gate) * up, straight to 8 bits; for one token each thread takes the rows that it has made itself."""
    if apply.name != "quantise.quantise":
        return None
    source = scene.through(apply.arguments[0])
    made = scene.maker(source)
    kind = _GATES.get(made.name) if made is not None else None
    if made is None or kind is None or made.lead or not scene.private(source, apply):
        return None
    n = constant(made.dims[1])
    if n is None or constant(apply.dims[0]) != n:
        return None
    out, halves = codes_of(apply, scene)
    recipe = Recipe("gate_rows", (kind, n, True, halves, _GRAIN))
    reads: dict[str, Operand] = {"gate": made.arguments[0], "up": made.arguments[1]}
    partition, shares = f"columns {n} of {n // _GRAIN}" if scene.tokens == 1 else "", frozenset({*reads, *out})
    launch = Launch(recipe, reads, out, {"t": made.dims[0]}, partition=partition, shares=shares, label=made.label)
    return Region("", (made, *scene.chain(apply.arguments[0]), apply), (launch,))


def add(apply: Apply, scene: Scene) -> Region | None:
    """x + y in place of x."""
    if apply.name != "add" or apply.results[0].type.element.name != "f32" or len(apply.results[0].type.shape) != 2:
        return None
    left, right = apply.arguments
    rows, columns = left.type.shape
    n = constant(columns)
    if n is None or left.source == "const" or not scene.is_last(left) or left is right:
        return None
    launch = Launch(Recipe("add_rows", (n,)), {"x": left, "y": right}, {"x": left}, {"t": rows}, label=apply.label)
    return Region("", (apply,), (launch,), {apply.results[0]: left})


def scale(apply: Apply, scene: Scene) -> Region | None:
    """x times a constant number, in place of x."""
    factor = factor_of(apply, scene)
    if factor is None:
        return None
    number, x = factor
    n = constant(_columns(x))
    if n is None or not scene.is_last(x) or x.source != "made":
        return None
    launch = Launch(Recipe("scale_rows", (n, number)), {"x": x}, {"x": x}, {"t": x.type.shape[0]}, label=apply.label)
    return Region("", (apply,), (launch,), {apply.results[0]: x})


def reshape(apply: Apply, scene: Scene) -> Region | None:
    """The same memory in another shape."""
    if apply.name != "reshape" or apply.arguments[0].source == "const":
        return None
    return Region("", (apply,), same={apply.results[0]: apply.arguments[0]})


def blocks(apply: Apply, scene: Scene) -> Region | None:
    """The bytes of a weight."""
    if apply.name != "blocks" or apply.arguments[0].source != "const":
        return None
    return Region("", (apply,), same={apply.results[0]: apply.arguments[0]})


def factor_of(apply: Apply, scene: Scene) -> tuple[float, Value] | None:
    """Return number and array if an application multiplies an f32 array by one constant number."""
    if apply.name != "mul" or apply.results[0].type.element.name != "f32":
        return None
    for x, other in (apply.arguments, apply.arguments[::-1]):
        spread = scene.maker(other)
        if spread is None or spread.name not in ("broadcast", "fill"):
            continue
        number = scene.number(spread.arguments[0])
        if number is not None:
            return float(number), x
    return None


def codes_of(apply: Apply, scene: Scene) -> tuple[dict[str, Operand], bool]:
    """Return the buffers that a kernel writes codes to, and whether sums of half blocks are wanted."""
    q, d, ds = apply.results
    out: dict[str, Operand] = {"q": q, "d": d, "ds": ds}
    whole = scene.extra_value(q, "s") or scene.extra_value(q, "s", sums_of(q, 32))
    half = scene.extra_value(q, "s16")
    assert whole is not None
    out["s"] = whole
    if half is not None:
        out["s16"] = half
    return out, half is not None


def mode_of(scene: Scene) -> Mode:
    """Return how rows are shared: for few tokens every thread does them all, which is cheaper than to meet."""
    return "each" if scene.tokens is not None and scene.tokens <= FEW else "split"


def _columns(x: Value) -> Dim:
    total = Dim((((), 1),))
    for size in x.type.shape[1:]:
        total = total * size
    return total
