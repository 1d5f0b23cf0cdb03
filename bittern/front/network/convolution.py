"""Convolutions of one to three axes: strided, dilated, padded, grouped, depthwise, locally connected, transposed.

Values are [h, w, c], channels last; weights have the output channels first. Padding is a value that is written into the
graph: +1 for signs unless said otherwise, -1, or 0, which signs do not have: then the sums of what lies outside are
taken off the sums, exactly. For other codes it is 0 unless said otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from bittern.base.errors import BitternError, code
from bittern.front.network.activation import Activation, Named
from bittern.front.network.assembly import BATCH
from bittern.front.network.dense import Weighted, need_codes, need_numbers
from bittern.front.network.draft import WRONG_NUMBER, WRONG_SHAPE, Array, Flow, summed
from bittern.front.network.layer import Composite, Layer
from bittern.front.network.value import Value
from bittern.front.network.widths import Width

if TYPE_CHECKING:
    from bittern.front.network.draft import Draft

WRONG_PADDING = code("N117", "a layer's padding is not possible")

Sizes = int | Sequence[int]
Padding = str | int | Sequence[int | Sequence[int]]
_Pairs = tuple[tuple[int, int], ...]

_PLACES = ("op", "vq", "ur")  # letters of windows and of places in a window, by axis


@dataclass(frozen=True, eq=False)  # no slots, so that it can stand beside `Weighted`
class Windowed(Layer):
    """What layers over windows share.

    size, stride, dilation: a number, or one for each axis. padding: `valid` (none), `same` (as many windows as places,
    divided by the stride), a number on all sides, or (before, after) for each axis. pad_with: the number outside.
    """

    RANK: ClassVar[int] = 2

    stride: Sizes | None = field(default=1, kw_only=True)  # None: the size
    dilation: Sizes = field(default=1, kw_only=True)
    padding: Padding = field(default="valid", kw_only=True)
    pad_with: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class _Cut:
    """How windows lie on the axes of a value: all of its sizes are known."""

    places: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: _Pairs

    @property
    def counts(self) -> tuple[int, ...]:
        """How many windows lie on each axis."""
        rows = zip(self.places, self.size, self.stride, self.dilation, self.padding, strict=True)
        return tuple((n + sum(pads) - (k - 1) * d - 1) // s + 1 for n, k, s, d, pads in rows)

    def outside(self) -> Array:
        """Return [o, p, v, q, ...]: 1 where a place of a window lies in the padding."""
        inside = np.zeros(self.places, np.int64)
        mask = np.pad(inside, self.padding, constant_values=1)
        for axis, (k, s, d) in enumerate(zip(self.size, self.stride, self.dilation, strict=True)):
            views = sliding_window_view(mask, (k - 1) * d + 1, axis=2 * axis)
            mask = np.moveaxis(views, -1, 2 * axis + 1)
            mask = mask[(slice(None),) * (2 * axis) + (slice(None, None, s), slice(None, None, d))]
        return mask


def cut(layer: Windowed, size: Sizes, places: tuple[int, ...]) -> _Cut:
    """Return how a layer's windows lie on so many places. Raises N107, N117."""
    rank = len(places)
    given = {"size": size, "stride": size if layer.stride is None else layer.stride, "dilation": layer.dilation}
    sizes, stride, dilation = (each_axis(name, each, rank) for name, each in given.items())
    made = _Cut(places, sizes, stride, dilation, padding_of(layer.padding, places, sizes, stride, dilation))
    if min(made.counts, default=1) < 1:
        raise BitternError(
            WRONG_NUMBER,
            f"Windows of {list(sizes)} (dilation {list(dilation)}) do not fit into {list(places)}, padded by "
            f"{[list(pair) for pair in made.padding]}.",
            "Take a smaller window, or more padding.",
        )
    return made


def each_axis(name: str, given: Sizes, rank: int) -> tuple[int, ...]:
    """Return one number for each axis. Raises N107."""
    sizes = (given,) * rank if isinstance(given, int) else tuple(given)
    if len(sizes) != rank:
        raise BitternError(WRONG_NUMBER, f"`{name}` is {list(sizes)}.", f"Give one number, or {rank}.")
    for each in sizes:
        need_numbers(**{name: each})
    return sizes


def padding_of(
    padding: Padding, places: Sequence[int], size: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> _Pairs:
    """Return how much is put before and after each axis. Raises N117."""
    if padding == "valid":
        return tuple((0, 0) for _ in places)
    if padding == "same":
        pads = []
        for n, k, s, d in zip(places, size, stride, dilation, strict=True):
            missing = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
            pads.append((missing // 2, missing - missing // 2))
        return tuple(pads)
    given = padding if isinstance(padding, Sequence) and not isinstance(padding, str) else [padding] * len(places)
    pairs = [
        tuple(each) if isinstance(each, Sequence) and not isinstance(each, str) else (each, each) for each in given
    ]
    if len(pairs) != len(places) or not all(len(pair) == 2 and all(_is_pad(each) for each in pair) for pair in pairs):
        raise BitternError(
            WRONG_PADDING,
            f"The padding is {padding!r}.",
            f"Give `valid`, `same`, a number, or {len(places)} pairs (before, after).",
        )
    return tuple((int(pair[0]), int(pair[1])) for pair in pairs)


def _is_pad(each: object) -> bool:
    return isinstance(each, int) and not isinstance(each, bool) and 0 <= each < 1 << 20


def windows(draft: "Draft", x: Flow, laid: _Cut, value: int) -> Flow:
    """Return all windows of the axes behind the batch: [b, o, p, v, q, ..., c]. value: what is outside."""
    made = padded(draft, x, laid.padding, value)
    node = made.node
    for axis, (k, s, d) in enumerate(zip(laid.size, laid.stride, laid.dilation, strict=True)):
        node = draft.a.op("windows", node, axis=1 + 2 * axis, size=k, stride=s, dilation=d)
    return made.at(node)


def padded(draft: "Draft", x: Flow, pairs: _Pairs, value: int) -> Flow:
    """Return a value with numbers put around its axes behind the batch. Raises N117 for no value of the element."""
    if not any(any(pair) for pair in pairs):
        return x
    fits = abs(value) == 1 if x.element.name == "b1" else x.element.low <= value <= x.element.high
    if not fits:
        raise BitternError(WRONG_PADDING, f"{x.element} has no {value} to pad with.", "Give a value of the element.")
    node, outside = x.node, draft.a.constant(value, x.element.name)
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            node = draft.a.op("pad", node, outside, axis=axis + 1, before=before, after=after)
    return Flow(node, min(x.low, value), max(x.high, value), x.rms)


@dataclass(frozen=True, slots=True, eq=False)
class Convolution(Windowed, Weighted):
    """What all convolutions share: sums over windows, by a function of `convolution`."""

    def convolve(self, draft: "Draft", x: Flow, size: Sizes, form: "Form", channels: tuple[int, ...]) -> Flow:
        """Return the sums of windows. form: which convolution. channels: the letters `m g c` by number."""
        laid = cut(self, size, x.shape[: self.RANK])
        numbers = dict(zip("gmc", channels, strict=True))
        numbers |= {letter: n for axis, n in enumerate(laid.counts) for letter in _PLACES[axis][0]}
        numbers |= {letter: n for axis, n in enumerate(laid.size) for letter in _PLACES[axis][1]}
        letters = form.letters(self.RANK)
        shape = tuple(numbers[letter] for letter in letters)
        element = draft.element(self.weights)
        w = draft.parameter("weight", element, shape, lambda numbers: numbers.codes(element, shape))
        value, is_exact = self._outside(x)
        seen = windows(draft, x, laid, value)
        node = seen.node
        if form.is_grouped:
            node = draft.a.op("reshape", node, shape=(*node.type.shape[:-1], numbers["g"], numbers["c"]))  # type: ignore[union-attr]
        made = draft.a.call(f"convolution.{form.function(self.RANK)}", draft.constant("weight", w, element), node)
        rows = np.moveaxis(w, [letters.index(each) for each in form.rows(self.RANK)], range(len(form.rows(self.RANK))))
        sums = summed(draft, made, seen, rows.reshape(int(np.prod(rows.shape[: len(form.rows(self.RANK))])), -1))
        if is_exact and any(any(pair) for pair in laid.padding):
            out = "".join(_PLACES[axis][0] for axis in range(self.RANK)) + form.out
            windows_of = "".join(_PLACES[axis] for axis in range(self.RANK))
            outer = np.einsum(f"{letters},{windows_of}->{out}", w.astype(np.int64), laid.outside())
            sums = sums.at(draft.a.op("sub", sums.node, draft.a.spread(draft.a.constant(outer, "i32"), sums.node)))
        if form.is_grouped:
            sums = sums.at(draft.a.op("reshape", sums.node, shape=(BATCH, *laid.counts, numbers["g"] * numbers["m"])))
        return self.finished(draft, sums)

    def _outside(self, x: Flow) -> tuple[int, bool]:
        """Return the number to pad with, and whether it stands for an exact 0 that the element does not have."""
        is_sign = x.element.name == "b1"
        value = (1 if is_sign else 0) if self.pad_with is None else self.pad_with
        return (1, True) if is_sign and value == 0 else (value, False)


@dataclass(frozen=True, slots=True)
class Form:
    """One kind of convolution. name: of its functions. front: weights' letters before the places, `c` stands behind.

    out: letters of the result's channels. is_local: whether each window has weights of its own.
    """

    name: str
    front: str
    out: str
    is_local: bool = False
    is_depthwise: bool = False

    @property
    def is_grouped(self) -> bool:
        """Whether channels are cut into groups."""
        return "g" in self.front

    def function(self, rank: int) -> str:
        """Return the name of the function for so many axes."""
        return f"{self.name}{rank}d" + ("_grouped" if self.is_grouped else "")

    def letters(self, rank: int) -> str:
        """Return the letters of the weights' axes."""
        return self._windows(rank) + self.front + "".join(_PLACES[axis][1] for axis in range(rank)) + "c"

    def rows(self, rank: int) -> str:
        """Return the letters of the axes over which nothing is summed."""
        return "c" if self.is_depthwise else self._windows(rank) + self.front

    def _windows(self, rank: int) -> str:
        return "".join(_PLACES[axis][0] for axis in range(rank)) if self.is_local else ""


WHOLE = Form("conv", "m", "m")
GROUPED = Form("conv", "gm", "gm")
DEPTHWISE = Form("depthwise", "", "c", is_depthwise=True)
LOCAL = Form("local", "m", "m", is_local=True)


@dataclass(frozen=True, slots=True, eq=False)
class Conv2d(Convolution):
    """A convolution of two axes. x: [h, w, inputs] codes -> [o, v, outputs].

    groups: each of `outputs / groups` channels sees `inputs / groups`. Definitions: `convolution.conv2d` and
    `conv2d_grouped`. Parameter: `weight` [outputs, p, q, inputs], or [groups, outputs / groups, p, q, inputs / groups].
    """

    KIND: ClassVar[str] = "conv2d"

    inputs: int
    outputs: int
    size: Sizes
    groups: int = field(default=1, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the windows, the sums and what follows. Raises N102, N105 to N108, N117."""
        need_numbers(inputs=self.inputs, outputs=self.outputs, groups=self.groups)
        x = _need_places(draft, x, self.RANK, self.inputs)
        if self.groups == 1:
            return self.convolve(draft, x, self.size, WHOLE, (1, self.outputs, self.inputs))
        if self.RANK == 3:
            raise BitternError(WRONG_NUMBER, f"`groups` is {self.groups}.", "Three axes take one group.")
        if self.inputs % self.groups or self.outputs % self.groups:
            what = f"{self.inputs} and {self.outputs} channels are no whole number of {self.groups} groups."
            raise BitternError(WRONG_NUMBER, what, "Take a number of groups that divides both.")
        parts = (self.groups, self.outputs // self.groups, self.inputs // self.groups)
        return self.convolve(draft, x, self.size, GROUPED, parts)


@dataclass(frozen=True, slots=True, eq=False)
class Conv1d(Conv2d):
    """A convolution of one axis. x: [w, inputs] codes -> [o, outputs]. See `Conv2d`."""

    KIND: ClassVar[str] = "conv1d"
    RANK: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False)
class Conv3d(Conv2d):
    """A convolution of three axes. x: [d, h, w, inputs] codes -> [o, v, u, outputs]. See `Conv2d`."""

    KIND: ClassVar[str] = "conv3d"
    RANK: ClassVar[int] = 3


@dataclass(frozen=True, slots=True, eq=False)
class DepthwiseConv2d(Convolution):
    """A convolution of each channel with a kernel of its own. x: [h, w, channels] codes -> [o, v, channels].

    Definition: `convolution.depthwise2d`. Parameter: `weight` [p, q, channels].
    """

    KIND: ClassVar[str] = "depthwise_conv2d"

    channels: int
    size: Sizes

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the windows, the sums and what follows. Raises N102, N105 to N108, N117."""
        need_numbers(channels=self.channels)
        x = _need_places(draft, x, self.RANK, self.channels)
        return self.convolve(draft, x, self.size, DEPTHWISE, (1, 1, self.channels))


@dataclass(frozen=True, slots=True, eq=False)
class DepthwiseConv1d(DepthwiseConv2d):
    """A convolution of each channel with a kernel of its own, over one axis. x: [w, channels] codes."""

    KIND: ClassVar[str] = "depthwise_conv1d"
    RANK: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False)
class LocalConv2d(Convolution):
    """A locally connected layer: each window has weights of its own. x: [h, w, inputs] codes -> [o, v, outputs].

    Definition: `convolution.local2d`. Parameter: `weight` [o, v, outputs, p, q, inputs].
    """

    KIND: ClassVar[str] = "local_conv2d"

    inputs: int
    outputs: int
    size: Sizes

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the windows, the sums and what follows. Raises N102, N105 to N108, N117."""
        need_numbers(inputs=self.inputs, outputs=self.outputs)
        x = _need_places(draft, x, self.RANK, self.inputs)
        return self.convolve(draft, x, self.size, LOCAL, (1, self.outputs, self.inputs))


@dataclass(frozen=True, slots=True, eq=False)
class LocalConv1d(LocalConv2d):
    """A locally connected layer of one axis. x: [w, inputs] codes -> [o, outputs]."""

    KIND: ClassVar[str] = "local_conv1d"
    RANK: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False)
class TransposedConv2d(Weighted):
    """A transposed convolution. x: [h, w, inputs] codes -> [(h - 1) * stride + size - 2 * padding, ..., outputs].

    Each place of x, times the kernel, is added at `stride` times its place. So: zeros are put between the places, then
    it is a convolution with the kernel turned around (`convolution.conv2d`). Signs become i2 for that, which has a 0.
    Parameter: `weight` [outputs, p, q, inputs].
    """

    KIND: ClassVar[str] = "transposed_conv2d"
    RANK: ClassVar[int] = 2

    inputs: int
    outputs: int
    size: Sizes
    stride: Sizes = field(default=1, kw_only=True)
    padding: int = field(default=0, kw_only=True)

    def draw(self, draft: "Draft", x: Flow) -> Flow:
        """Draw the zeros, the windows, the sums and what follows. Raises N102, N105 to N108, N117."""
        need_numbers(inputs=self.inputs, outputs=self.outputs)
        need_numbers(0, padding=self.padding)
        x = _need_places(draft, x, self.RANK, self.inputs)
        size, stride = each_axis("size", self.size, self.RANK), each_axis("stride", self.stride, self.RANK)
        if self.padding >= min(size):
            raise BitternError(WRONG_PADDING, f"The padding is {self.padding}.", f"Give less than {min(size)}.")
        if x.element.name == "b1":
            x = x.at(draft.a.op("convert", x.node, to="i2"))
        spaced = _spaced(draft, x, stride)
        element = draft.element(self.weights)
        shape = (self.outputs, *size, self.inputs)
        w = draft.parameter("weight", element, shape, lambda numbers: numbers.codes(element, shape))
        turned = np.flip(w, tuple(range(1, self.RANK + 1)))
        pads = tuple((k - 1 - self.padding,) * 2 for k in size)
        ones = (1,) * self.RANK
        laid = _Cut(spaced.shape[: self.RANK], size, ones, ones, pads)
        if min(laid.counts) < 1:
            raise BitternError(WRONG_NUMBER, "Nothing is left inside of the padding.", "Give less padding.")
        seen = windows(draft, spaced, laid, 0)
        made = draft.a.call(f"convolution.conv{self.RANK}d", draft.constant("weight", turned, element), seen.node)
        return self.finished(draft, summed(draft, made, seen, turned.reshape(self.outputs, -1)))


@dataclass(frozen=True, slots=True, eq=False)
class TransposedConv1d(TransposedConv2d):
    """A transposed convolution of one axis. x: [w, inputs] codes. See `TransposedConv2d`."""

    KIND: ClassVar[str] = "transposed_conv1d"
    RANK: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, eq=False)
class SeparableConv2d(Composite):
    """A depthwise convolution, then a dense layer at every position. x: [h, w, inputs] codes -> [o, v, outputs].

    middle: the activation between them, because products take codes; middle_bits: its width. Layers: `depthwise` and
    `pointwise`.
    """

    KIND: ClassVar[str] = "separable_conv2d"
    RANK: ClassVar[int] = 2

    inputs: int
    outputs: int
    size: Sizes
    stride: Sizes = field(default=1, kw_only=True)
    dilation: Sizes = field(default=1, kw_only=True)
    padding: Padding = field(default="valid", kw_only=True)
    pad_with: int | None = field(default=None, kw_only=True)
    middle: Named | Activation = field(default="sign", kw_only=True)
    middle_bits: Width | None = field(default=None, kw_only=True)
    weights: Width = field(default="b1", kw_only=True)
    activation: Named | Activation | None = field(default=None, kw_only=True)
    bits: Width | None = field(default=None, kw_only=True)

    def compose(self, *inputs: Value) -> Value:
        """Return both layers."""
        from bittern.front.network.dense import Dense

        kind = DepthwiseConv1d if self.RANK == 1 else DepthwiseConv2d
        depthwise = kind(
            self.inputs,
            self.size,
            stride=self.stride,
            dilation=self.dilation,
            padding=self.padding,
            pad_with=self.pad_with,
            weights=self.weights,
            activation=self.middle,
            bits=self.middle_bits,
            name="depthwise",
        )
        pointwise = Dense(
            self.inputs,
            self.outputs,
            weights=self.weights,
            activation=self.activation,
            bits=self.bits,
            name="pointwise",
        )
        return pointwise(depthwise(*inputs))


@dataclass(frozen=True, slots=True, eq=False)
class SeparableConv1d(SeparableConv2d):
    """A depthwise convolution of one axis, then a dense layer. x: [w, inputs] codes. See `SeparableConv2d`."""

    KIND: ClassVar[str] = "separable_conv1d"
    RANK: ClassVar[int] = 1


def _need_places(draft: "Draft", x: Flow, rank: int, channels: int) -> Flow:
    """Return codes of so many axes and channels. Raises N102 for another number of axes, N106."""
    if len(x.shape) != rank + 1:
        raise BitternError(
            WRONG_SHAPE,
            f"It takes {rank} axes and {channels} channels and gets {list(x.shape)}.",
            "Reshape what comes before it: channels are last.",
        )
    return need_codes(draft, x, (*x.shape[:-1], channels), f"{channels} channels")


def _spaced(draft: "Draft", x: Flow, stride: tuple[int, ...]) -> Flow:
    """Return x with stride - 1 zeros between the places of each axis."""
    node, zero = x.node, draft.a.constant(0, x.element.name)
    for axis, step in enumerate(stride, 1):
        if step > 1:
            shape = node.type.shape  # type: ignore[union-attr]
            apart = draft.a.op("reshape", node, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
            wide = draft.a.op("pad", apart, zero, axis=axis + 1, before=0, after=step - 1)
            joined = draft.a.op("reshape", wide, shape=(*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
            node = draft.a.op("slice", joined, axis=axis, low=0, high=shape[axis] * step - (step - 1), stride=1)
    return Flow(node, min(0, x.low), max(0, x.high), x.rms)
