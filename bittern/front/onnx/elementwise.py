"""Operations that treat each number alone: arithmetic, activations, comparisons, casts, batch normalisation.

Everything is f32 in the order that the file writes; a constant for each channel stays a row. A batch normalisation is
the two operations that ONNX Runtime makes of it, with the constants rounded as there:
`x * s + t`, s = (1 / sqrt(variance + epsilon)) * gain, t = bias - mean * s.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bittern.front.network.assembly import element_of
from bittern.front.onnx.table import ANY, NUMBERS, Site, row
from bittern.front.onnx.values import Array, Known, Wire, coding_of

_ARITHMETIC = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div"}


@row("Add Sub Mul Div", "arithmetic, broadcast", inputs=(2, 2), elements=NUMBERS)
def _arithmetic(site: Site) -> Wire:
    kind = _ARITHMETIC[site.node.op]
    x, y = site.given(0), site.given(1)
    if isinstance(x, Wire) and isinstance(y, Wire):
        return _two(site, kind, x, y)
    first = isinstance(y, Wire)
    wire = site.wire(1 if first else 0)
    given = site.data(0 if first else 1, "operand")
    return beside_constant(site, kind, wire, given, first=first)


def beside_constant(site: Site, kind: str, x: Wire, given: Array, *, first: bool = False) -> Wire:
    """Return `x kind given`, x repeated where the constant is larger; multiplying by 1 and dividing by 1 is nothing."""
    emitter = site.emitter
    if kind in ("mul", "div") and given.size == 1 and given.reshape(()) == 1 and not (kind == "div" and first):
        return x
    same_type(site, x, given)
    own = _larger(site, x, given)
    grown = x if own is None else emitter.expanded(emitter.values(x), own)
    value = site.operand(given, grown, "operand")
    return emitter.with_constant(kind, emitter.values(grown), value, first=first)


def same_type(site: Site, x: Wire, given: Array) -> None:
    """Refuse a constant of another type than the wire's."""
    if given.dtype != _DTYPES.get(x.element):
        site.refuse(f"it joins {x.element} with a constant of {given.dtype}", "operands of one type, f32 or whole")


_DTYPES = {
    "f32": np.dtype(np.float32),
    "i8": np.dtype(np.int8),
    "u8": np.dtype(np.uint8),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "bit": np.dtype(np.bool_),
}


def _larger(site: Site, x: Wire, given: Array) -> tuple[int, ...] | None:
    """Return the sample shape of the result where the constant makes it larger than x, else None."""
    own = given[0] if x.is_batched and given.ndim == x.rank and len(given) else given
    if own.ndim > len(x.shape):
        return None
    sizes = (1,) * (len(x.shape) - own.ndim) + own.shape
    grown = tuple(size if have == 1 else have for have, size in zip(x.shape, sizes, strict=True))
    return grown if grown != x.shape else None


def _two(site: Site, kind: str, x: Wire, y: Wire) -> Wire:
    emitter = site.emitter
    check_pair(site, x, y)
    summed = _sum_of_codes(site, kind, x, y)
    if summed is not None:
        return summed
    return emitter.binary(kind, emitter.values(x), emitter.values(y))


def check_pair(site: Site, x: Wire, y: Wire) -> None:
    """Refuse two wires that cannot be joined element by element."""
    if x.element != y.element:
        site.refuse(f"it joins {x.element} with {y.element}", "operands of one type")
    check_shapes(site, x, y)


def check_shapes(site: Site, x: Wire, y: Wire) -> None:
    """Refuse two wires whose shapes or batches do not fit each other."""
    if x.is_batched and y.is_batched and len(x.shape) != len(y.shape):
        site.refuse("its operands have different numbers of axes", "operands of equal rank")
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        site.refuse(f"its operands {list(x.shape)} and {list(y.shape)} do not fit", "shapes that fit by broadcasting")
    longer, shorter = (x, y) if len(x.shape) >= len(y.shape) else (y, x)
    if shorter.is_batched and not longer.is_batched:
        site.refuse("its operands have different numbers of axes", "operands of equal rank")


def _sum_of_codes(site: Site, kind: str, x: Wire, y: Wire) -> Wire | None:
    """Return the sum of codes of equal scale as codes: (a - z) * s + (b - y) * s = (a + b - (z + y)) * s, exactly."""
    if kind != "add" or x.coding is None or y.coding is None or x.shape != y.shape:
        return None
    if not (x.coding.is_plain() and y.coding.is_plain() and x.coding.scale == y.coding.scale):
        return None
    emitter = site.emitter
    parts = [emitter.widened(emitter.codes(each)) for each in (x, y)]
    zero = x.coding.zero + y.coding.zero
    return emitter.coded(emitter.binary("add", *parts), coding_of(x.coding.scale, zero))


# --- one operand


_UNARY = {
    "Abs": "abs",
    "Neg": "neg",
    "Sqrt": "sqrt",
    "Floor": "floor",
    "Ceil": "ceil",
    "Round": "round_even",
}
_FUNCTIONS = {
    "Sigmoid": "elementary.sigmoid",
    "Tanh": "elementary.tanh",
    "Exp": "elementary.exp",
    "Log": "elementary.log",
    "Erf": "elementary.erf",
}


@row("Abs Neg Sqrt Floor Ceil Round", "a primitive operation of each number", elements=NUMBERS)
def _unary(site: Site) -> Wire:
    return site.emitter.unary(_UNARY[site.node.op], site.emitter.values(site.wire(0)))


@row("Sigmoid Tanh Exp Log Erf", "an elementary function, strict: see the numerics")
def _function(site: Site) -> Wire:
    return site.emitter.applied(_FUNCTIONS[site.node.op], site.emitter.values(site.wire(0)))


@row("Reciprocal", "1 / x")
def _reciprocal(site: Site) -> Wire:
    return site.emitter.with_constant("div", site.emitter.values(site.wire(0)), 1.0, first=True)


@row("Gelu", "x times the normal distribution's mass below x", attributes="approximate", since=20)
def _gelu(site: Site) -> Wire:
    how = site.text("approximate", "none")
    if how not in ("none", "tanh"):
        site.refuse(f"its `approximate` is `{how}`", "none or tanh")
    name = "activations.gelu" if how == "none" else "activations.gelu_tanh"
    return site.emitter.applied(name, site.emitter.values(site.wire(0)))


@row("Relu", "max(x, 0)", elements=NUMBERS)
def _relu(site: Site) -> Wire:
    x, emitter = site.wire(0), site.emitter
    if x.coding is not None and x.coding.is_plain() and x.coding.scale > 0:
        low, zero = element_of(x.node).low, float(x.coding.zero)
        if zero == round(zero) and low <= zero and element_of(x.node).is_integer:
            codes = emitter.codes(x)  # (code - zero) * scale is at least 0 exactly where the code is at least `zero`
            return (
                x
                if low == zero
                else replace(emitter.with_constant("max", codes, int(zero)), coding=x.coding, element="f32")
            )
    return emitter.with_constant("max", emitter.values(x), 0)


@row("LeakyRelu", "x, below 0 times alpha", attributes="alpha")
def _leaky(site: Site) -> Wire:
    return _below_zero(site, site.number("alpha", 0.01))


@row("PRelu", "x, below 0 times a slope for each channel", inputs=(2, 2))
def _prelu(site: Site) -> Wire:
    x = site.wire(0)
    return _below_zero(site, site.operand(site.data(1, "slope"), x, "slope"))


def _below_zero(site: Site, slope: Array | float) -> Wire:
    emitter = site.emitter
    x = emitter.values(site.wire(0))
    other = emitter.with_constant("mul", x, slope)
    below = site.emitter.assembly.op("lt", x.node, emitter.spread(0.0, x))
    return replace(x, node=site.emitter.assembly.op("select", below, other.node, x.node))


@row("Elu", "x, below 0 alpha times (e^x - 1)", attributes="alpha")
def _elu(site: Site) -> Wire:
    emitter = site.emitter
    x = emitter.values(site.wire(0))
    grown = emitter.with_constant("sub", emitter.applied("elementary.exp", x), 1.0)
    other = emitter.with_constant("mul", grown, site.number("alpha", 1.0))
    below = emitter.assembly.op("lt", x.node, emitter.spread(0.0, x))
    return replace(x, node=emitter.assembly.op("select", below, other.node, x.node))


@row("Softplus", "log(e^x + 1)")
def _softplus(site: Site) -> Wire:
    emitter = site.emitter
    grown = emitter.applied("elementary.exp", emitter.values(site.wire(0)))
    return emitter.applied("elementary.log", emitter.with_constant("add", grown, 1.0))


@row("Selu Celu", "x, below 0 a multiple of (e^(x / c) - 1)", attributes="alpha gamma")
def _selu(site: Site) -> Wire:
    emitter, is_selu = site.emitter, site.node.op == "Selu"
    alpha = site.number("alpha", 1.67326319217681884765625 if is_selu else 1.0)
    gamma = site.number("gamma", 1.05070102214813232421875)
    if not alpha:
        site.refuse("its alpha is 0", "another alpha")
    x = emitter.values(site.wire(0))
    inner = x if is_selu else emitter.with_constant("div", x, alpha)
    grown = emitter.with_constant("sub", emitter.applied("elementary.exp", inner), 1.0)
    other = emitter.with_constant("mul", grown, alpha)
    below = emitter.assembly.op("lt", x.node, emitter.spread(0.0, x))
    made = replace(x, node=emitter.assembly.op("select", below, other.node, x.node))
    return emitter.with_constant("mul", made, gamma) if is_selu else made


@row("ThresholdedRelu", "x above alpha, else 0", attributes="alpha")
def _thresholded(site: Site) -> Wire:
    emitter = site.emitter
    x = emitter.values(site.wire(0))
    above = emitter.assembly.op("lt", emitter.spread(site.number("alpha", 1.0), x), x.node)
    return replace(x, node=emitter.assembly.op("select", above, x.node, emitter.spread(0.0, x)))


@row("Softsign", "x / (1 + |x|)")
def _softsign(site: Site) -> Wire:
    emitter = site.emitter
    x = emitter.values(site.wire(0))
    return emitter.binary("div", x, emitter.with_constant("add", emitter.unary("abs", x), 1.0))


@row("Sign", "-1, 0 or 1")
def _sign(site: Site) -> Wire:
    emitter = site.emitter
    signs = emitter.converted(emitter.values(site.wire(0)), "t", "sign")
    return emitter.converted(signs, "f32")


@row("HardSigmoid", "max(0, min(1, alpha x + beta))", attributes="alpha beta")
def _hard_sigmoid(site: Site) -> Wire:
    x = site.emitter.values(site.wire(0))
    return _hard(site, x, site.number("alpha", 0.2), site.number("beta", 0.5))


@row("HardSwish", "x times max(0, min(1, x / 6 + 1 / 2))", since=14)
def _hard_swish(site: Site) -> Wire:
    x = site.emitter.values(site.wire(0))
    return site.emitter.binary("mul", x, _hard(site, x, 1 / 6, 0.5))


def _hard(site: Site, x: Wire, alpha: float, beta: float) -> Wire:
    emitter = site.emitter
    line = emitter.with_constant("add", emitter.with_constant("mul", x, alpha), beta)
    return emitter.with_constant("max", emitter.with_constant("min", line, 1.0), 0.0)


@row("Clip", "min(max(x, low), high)", inputs=(1, 3), attributes="min max", elements=NUMBERS)
def _clip(site: Site) -> Wire:
    emitter = site.emitter
    low, high = site.known(1, "least value"), site.known(2, "greatest value")
    if site.version < 11:
        given = site.node.attributes
        low, high = (
            np.asarray([site.number(name, 0.0)], np.float32) if name in given else None for name in ("min", "max")
        )
    result = emitter.values(site.wire(0))
    for kind, bound in (("max", low), ("min", high)):
        if bound is not None and bound.size != 1:
            site.refuse(f"its bound has {bound.size} values", "one value")
        if bound is not None:
            same_type(site, result, np.asarray(bound))
            result = emitter.with_constant(kind, result, np.asarray(bound).reshape(()))
    return result


@row("Min Max", "the least or greatest of the operands", inputs=(1, 64), elements=NUMBERS)
def _extreme(site: Site) -> Wire:
    kind = site.node.op.lower()
    wires = [site.emitter.values(each) for each in site.inputs if isinstance(each, Wire)]
    result = wires[0]
    for other in wires[1:]:
        check_pair(site, result, other)
        result = site.emitter.binary(kind, result, other)
    for place, each in enumerate(site.inputs):
        if isinstance(each, Known):
            result = beside_constant(site, kind, result, site.data(place, "operand"))
    return result


@row("Pow", "x to a constant power: 2, 3, 1/2, -1/2, 1 or -1", inputs=(2, 2))
def _pow(site: Site) -> Wire:
    exponent = site.data(1, "exponent")
    x = site.emitter.values(site.wire(0))
    made = _POWERS.get(float(exponent.reshape(-1)[0])) if exponent.size == 1 else None
    if made is None:
        site.refuse("its exponent is none that is read", f"one of {', '.join(f'{key:g}' for key in _POWERS)}")
    return made(site, x)


def _square(site: Site, x: Wire) -> Wire:
    return site.emitter.binary("mul", x, x)


_POWERS: dict[float, Callable[[Site, Wire], Wire]] = {
    1.0: lambda site, x: x,
    2.0: _square,
    3.0: lambda site, x: site.emitter.binary("mul", _square(site, x), x),
    0.5: lambda site, x: site.emitter.unary("sqrt", x),
    -1.0: lambda site, x: site.emitter.with_constant("div", x, 1.0, first=True),
    -0.5: lambda site, x: site.emitter.with_constant("div", site.emitter.unary("sqrt", x), 1.0, first=True),
}


@row("Cast", "another type: f32, whole numbers (towards zero) or bool", attributes="to saturate", elements=ANY)
def _cast(site: Site) -> Wire:
    names = {1: "f32", 2: "u8", 3: "i8", 6: "i32", 7: "i64", 9: "bit"}
    to = names.get(site.whole("to"))
    if to is None:
        site.refuse(f"it casts to the type of number {site.whole('to')}", f"one of {', '.join(names.values())}")
    emitter = site.emitter
    x = emitter.values(site.wire(0))
    if x.element == to:
        return x
    if to == "bit":
        return replace(x, node=emitter.assembly.op("ne", x.node, emitter.spread(0, x)), element="bit")
    if x.element == "f32":
        return emitter.converted(emitter.unary("trunc", x), to, "round")
    return emitter.converted(x, to, "convert" if to == "f32" or x.element == "bit" else "wrap")


@row(
    "Identity Dropout",
    "the same tensor; what vanishes at inference",
    inputs=(1, 3),
    attributes="ratio seed",
    elements=ANY,
)
def _identity(site: Site) -> Wire:
    return site.wire(0)


# --- comparison and choice


@row("Equal Less Greater LessOrEqual GreaterOrEqual", "a comparison", inputs=(2, 2), elements=NUMBERS)
def _compare(site: Site) -> Wire:
    kind, swaps = _COMPARISONS[site.node.op]
    x, y = site.given(0), site.given(1)
    if isinstance(x, Wire) and isinstance(y, Wire):
        check_pair(site, x, y)
        pair = (site.emitter.values(x), site.emitter.values(y))
        made = site.emitter.binary(kind, *(reversed(pair) if swaps else pair))
    else:
        first = isinstance(y, Wire)
        wire = site.wire(1 if first else 0)
        made = beside_constant(site, kind, wire, site.data(0 if first else 1, "operand"), first=first != swaps)
    return replace(made, element="bit")


_COMPARISONS = {
    "Equal": ("eq", False),
    "Less": ("lt", False),
    "LessOrEqual": ("le", False),
    "Greater": ("lt", True),
    "GreaterOrEqual": ("le", True),
}


@row("Not", "the other truth value", elements="bit")
def _not(site: Site) -> Wire:
    x = site.wire(0)
    if x.element != "bit":
        site.refuse(f"it negates {x.element}", "a truth value")
    return site.emitter.unary("not", x)


@row("And Or Xor", "truth values joined", inputs=(2, 2), elements="bit")
def _joined(site: Site) -> Wire:
    kind = site.node.op.lower()
    x, y = site.given(0), site.given(1)
    if isinstance(x, Wire) and isinstance(y, Wire):
        check_pair(site, x, y)
        return site.emitter.binary(kind, x, y)
    first = isinstance(y, Wire)
    return beside_constant(site, kind, site.wire(1 if first else 0), site.data(0 if first else 1, "operand"))


@row("Where", "one of two tensors, value by value", inputs=(3, 3), elements=ANY)
def _where(site: Site) -> Wire:
    emitter = site.emitter
    condition = site.wire(0)
    if condition.element != "bit":
        site.refuse(f"its condition is {condition.element}", "a truth value")
    sides = [site.given(1), site.given(2)]
    wires = [emitter.values(each) for each in sides if isinstance(each, Wire)]
    for wire in wires:
        check_shapes(site, condition, wire)
    if len(wires) > 1:
        check_shapes(site, *wires)
    shape = np.broadcast_shapes(condition.shape, *[each.shape for each in wires])
    like = emitter.arranged(emitter.expanded(condition, shape))
    nodes = []
    for place, each in enumerate(sides, 1):
        if isinstance(each, Wire):
            nodes.append(emitter.arranged(emitter.expanded(emitter.values(each), shape)).node)
        else:
            value = site.operand(site.data(place, "side"), like, "side")
            kinds = [name for name, dtype in _DTYPES.items() if dtype == value.dtype]
            if not kinds:
                site.refuse(f"its side is {value.dtype}", "f32 or whole numbers")
            nodes.append(emitter.spread(value, like, kinds[0]))
    if element_of(nodes[0]) != element_of(nodes[1]):
        site.refuse("its sides have two types", "sides of one type")
    element = element_of(nodes[0]).name
    return replace(like, node=emitter.assembly.op("select", like.node, *nodes), element=element)


# --- batch normalisation


@row(
    "BatchNormalization",
    "x * s + t for each channel, of running statistics",
    inputs=(5, 5),
    attributes="epsilon momentum spatial training_mode consumed_inputs is_test",
    outputs=5,
)
def _batch_normalization(site: Site) -> list[Wire]:
    if site.whole("training_mode") or site.whole("spatial", 1) != 1:
        site.refuse("it trains or is not spatial", "inference with one mean and variance for each channel")
    x = site.wire(0)
    if not x.shape:
        site.refuse("it has no channels", "a tensor of 2 axes or more")
    words = ("gain", "bias", "mean", "variance")
    gain, bias, mean, variance = (site.data(place, word).astype(np.float32) for place, word in enumerate(words, 1))
    if not {gain.shape, bias.shape, mean.shape, variance.shape} <= {(x.shape[0],)}:
        site.refuse(f"its statistics do not fit {x.shape[0]} channels", "one value for each channel")
    with np.errstate(all="ignore"):
        inverse = np.float32(1) / np.sqrt(variance + np.float32(site.number("epsilon", 1e-5)))
        scale = inverse * gain
        shift = bias - mean * scale
    shape = (-1, *(1,) * (len(x.shape) - 1))
    emitter = site.emitter
    scaled = emitter.with_constant("mul", emitter.values(x), scale.reshape(shape))
    return [emitter.with_constant("add", scaled, shift.reshape(shape))]
