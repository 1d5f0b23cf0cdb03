"""Layers that join values: sums, residuals with matching sizes, branches, concatenation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from bittern.base.errors import BitternError, nearest
from bittern.front.network.activation import Activation, Named, activated
from bittern.front.network.convolution import Conv1d, Conv2d
from bittern.front.network.dense import Dense
from bittern.front.network.draft import UNFIT_ELEMENT, WRONG_NUMBER, WRONG_SHAPE, Flow, limited
from bittern.front.network.layer import Layer, in_sequence
from bittern.front.network.normalisation import as_reals
from bittern.front.network.value import Value
from bittern.front.network.widths import Width
from bittern.graph.node import Node

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft

Path = Layer | Sequence[Layer] | Callable[[Value], Value]


@dataclass(frozen=True, slots=True, eq=False)
class Add(Layer):
    """The sum of values of one shape, sums or codes, in i32; f32 if one of them is real.

    activation: what follows; bits: the width of its codes.
    """

    KIND: ClassVar[str] = "add"

    activation: Named | Activation | None = None
    bits: Width | None = None

    def draw(self, draft: "Draft", *inputs: Flow) -> Flow:
        """Draw the sum. Raises N102, N103, N106, N108."""
        for each in inputs[1:]:
            if each.shape != inputs[0].shape:
                shapes = f"{list(inputs[0].shape)} and {list(each.shape)}"
                raise BitternError(WRONG_SHAPE, f"It adds values of shapes {shapes}.", "Use `Residual`, which matches.")
        return activated(draft, added(draft, inputs), self.activation, self.bits)


def added(draft: "Draft", inputs: Sequence[Flow]) -> Flow:
    """Return the sum of values of one shape. Raises N106, N108."""
    if any(each.is_real for each in inputs):
        reals = [as_reals(draft, each) for each in inputs]
        total = reals[0]
        for each in reals[1:]:
            total = draft.a.op("add", total, each)
        return Flow(total, 0, 0, 1.0)
    wholes = [_as_sums(draft, each) for each in inputs]
    total = wholes[0]
    for each in wholes[1:]:
        total = draft.a.op("add", total, each)
    rms = sum(each.rms**2 for each in inputs) ** 0.5
    return limited(draft, total, sum(each.low for each in inputs), sum(each.high for each in inputs), rms)


def _as_sums(draft: "Draft", x: Flow) -> Node:
    if x.element.name == "i32":
        return x.node
    if x.element.bits > 8:
        raise BitternError(UNFIT_ELEMENT, f"It gets {x.element}.", "It adds sums, codes or real numbers.")
    return draft.a.op("convert", x.node, to="i32")


@dataclass(frozen=True, slots=True, eq=False)
class Residual(Layer):
    """A body and a way around it, added (He et al. 2016).

    body: a layer, layers one behind the other, or a function of a value. matching: where the body changes the shape,
    `project` takes a convolution of one place (a dense layer for vectors) with the stride that fits, of the width
    `weights`, named `shortcut`; `pad` takes every stride-th place and puts zeros around the channels. activation, bits:
    what follows the sum.
    """

    KIND: ClassVar[str] = "residual"

    body: Path
    activation: Named | Activation | None = field(default=None, kw_only=True)
    bits: Width | None = field(default=None, kw_only=True)
    matching: str = field(default="project", kw_only=True)
    weights: Width = field(default="b1", kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow | None:
        """Draw the body, the way around it and the sum. Raises N102, N103, N106 to N108."""
        if self.matching not in ("project", "pad"):
            hint = nearest(self.matching, ["project", "pad"])
            raise BitternError(WRONG_NUMBER, f"`matching` is {self.matching!r}.", hint)
        y = draft.within(lambda value: along(self.body, value), x)
        if y is None:
            return None
        around: Flow | None = x
        if x.shape != y.shape:
            around = self._projected(draft, x, y) if self.matching == "project" else _padded(draft, x, y)
        return None if around is None else activated(draft, added(draft, [y, around]), self.activation, self.bits)

    def _projected(self, draft: "Draft", x: Flow, y: Flow) -> Flow | None:
        stride, channels = _stride(x, y), (x.shape[-1], y.shape[-1])
        if not stride:
            return draft.within(Dense(*channels, weights=self.weights, name="shortcut"), x)
        if len(stride) > 2:
            raise BitternError(WRONG_SHAPE, f"Shapes {list(x.shape)} and {list(y.shape)}.", "Match them in the body.")
        kind = Conv1d if len(stride) == 1 else Conv2d
        return draft.within(kind(*channels, 1, stride=stride, weights=self.weights, name="shortcut"), x)


@dataclass(frozen=True, slots=True, eq=False)
class Branches(Layer):
    """Several ways from one value, joined by `concat` (along the channels) or `add`."""

    KIND: ClassVar[str] = "branches"

    paths: Sequence[Path]
    join: str = field(default="concat", kw_only=True)
    activation: Named | Activation | None = field(default=None, kw_only=True)
    bits: Width | None = field(default=None, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow | None:
        """Draw all ways and the joint. Raises N102, N103, N106 to N108."""
        if self.join not in ("concat", "add") or not self.paths:
            hint = nearest(self.join, ["concat", "add"]) or "Join by `concat` or `add`, at least one path."
            raise BitternError(WRONG_NUMBER, f"{len(self.paths)} paths are joined by {self.join!r}.", hint)
        ends = [draft.within(lambda value, path=path: along(path, value), x) for path in self.paths]
        found = [each for each in ends if each is not None]
        if len(found) < len(ends):
            return None
        joint = Concat() if self.join == "concat" else Add()
        made = joint.draw(draft, *found)
        return activated(draft, made, self.activation, self.bits)


@dataclass(frozen=True, slots=True, eq=False)
class Concat(Layer):
    """Values side by side along the channels; all of one element, and of equal sizes otherwise."""

    KIND: ClassVar[str] = "concat"

    def draw(self, draft: "Draft", *inputs: Flow) -> Flow:
        """Draw the joint. Raises N102, N106."""
        first = inputs[0]
        for each in inputs[1:]:
            if each.shape[:-1] != first.shape[:-1]:
                shapes = f"{list(first.shape)} and {list(each.shape)}"
                raise BitternError(WRONG_SHAPE, f"It joins values of shapes {shapes}.", "Only channels may differ.")
            if each.element != first.element:
                what = f"It joins {first.element} and {each.element}."
                raise BitternError(UNFIT_ELEMENT, what, "Give all branches the same width.")
        node = draft.a.op("concat", *(each.node for each in inputs), axis=len(first.shape))
        low, high = min(each.low for each in inputs), max(each.high for each in inputs)
        return Flow(node, low, high, max(each.rms for each in inputs))


def along(path: Path, value: Value) -> Value:
    """Return a value behind a path."""
    if isinstance(path, Layer):
        return path(value)
    return in_sequence(tuple(path), value) if isinstance(path, Sequence) else path(value)


def _stride(x: Flow, y: Flow) -> tuple[int, ...]:
    """Return by how much a body makes each axis of places shorter. Raises N102 where no stride does it."""
    if len(x.shape) == len(y.shape):
        strides = tuple(-(-a // b) for a, b in zip(x.shape[:-1], y.shape[:-1], strict=True))
        if all((a - 1) // s + 1 == b for a, b, s in zip(x.shape[:-1], y.shape[:-1], strides, strict=False)):
            return strides
    raise BitternError(
        WRONG_SHAPE,
        f"The body makes {list(y.shape)} of {list(x.shape)}.",
        "Let it keep the places or divide them by a stride; pad its convolutions with `same`.",
    )


def _padded(draft: "Draft", x: Flow, y: Flow) -> Flow:
    """Return every stride-th place of x with zeros around its channels."""
    missing = y.shape[-1] - x.shape[-1]
    if missing < 0:
        what = f"The body makes {y.shape[-1]} channels of {x.shape[-1]}."
        raise BitternError(WRONG_SHAPE, what, "`pad` can add channels only: use `project`.")
    node = _as_sums(draft, x)
    for axis, (stride, size) in enumerate(zip(_stride(x, y), x.shape[:-1], strict=True), 1):
        if stride > 1:
            node = draft.a.op("slice", node, axis=axis, low=0, high=size, stride=stride)
    if missing:
        zero, half = draft.a.constant(0, "i32"), missing // 2
        node = draft.a.op("pad", node, zero, axis=len(x.shape), before=half, after=missing - half)
    return Flow(node, min(0, x.low), max(0, x.high), x.rms)
