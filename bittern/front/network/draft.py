"""Drawing a declared network: values walked from the inputs on, parameters found or made, all faults told at once."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.front.network.assembly import BATCH, Assembly, element_of, shape_of
from bittern.front.network.layer import Composite, Layer
from bittern.front.network.network import Network
from bittern.front.network.value import Value
from bittern.front.network.widths import Width, element_of_width
from bittern.graph.node import Node
from bittern.lang.library import Library
from bittern.types.arrays import is_valid
from bittern.types.elements import ELEMENTS, Element, Kind

SEVERAL = code("N101", "a network has several faults")
WRONG_SHAPE = code("N102", "a layer gets another shape than it takes")
UNFIT_ELEMENT = code("N106", "a layer gets values of an element that it does not take")
WRONG_NUMBER = code("N107", "a number of a layer is outside of what it may be")
TOO_WIDE = code("N108", "a sum does not fit 32 bits")
SAME_NAME = code("N110", "two layers or inputs of a network have the same name")
MISSING = code("N111", "an array for a parameter is missing")
UNKNOWN_PATH = code("N112", "an array is given for no parameter")
WRONG_ARRAY = code("N113", "an array has another shape than its parameter")
WRONG_VALUES = code("N114", "an array holds values that its parameter cannot have")
NO_VALUE = code("N115", "a network has no output, or an output is no value")
WRONG_COUNT = code("N116", "a layer is called on another number of values than it takes")

Array = npt.NDArray[Any]
Initial = Callable[["Numbers"], npt.ArrayLike]
Shape = tuple[int, ...]

MOST_VALUES = 1 << 31  # of one parameter
SUMS = "sums"  # the label of what a layer computes before its activation

_I32 = ELEMENTS["i32"]


@dataclass(frozen=True, slots=True)
class Flow:
    """A value while it is drawn: its node [b, ...], and what is known of its numbers.

    low, high: the least and the greatest that are possible. rms: their root mean square, as expected of weights and
    inputs that nobody trained. Both say nothing of f32.
    """

    node: Node
    low: int
    high: int
    rms: float

    @property
    def element(self) -> Element:
        """The element of the numbers."""
        return element_of(self.node)

    @property
    def shape(self) -> Shape:
        """The shape of one sample."""
        return shape_of(self.node)

    @property
    def is_real(self) -> bool:
        """Whether the numbers are f32, on the way to a quantiser."""
        return self.element.name == "f32"

    def at(self, node: Node) -> "Flow":
        """Return the same numbers in another arrangement."""
        return Flow(node, self.low, self.high, self.rms)


class Numbers:
    """Whole numbers that depend on a seed and a path alone: SplitMix64 (Steele, Lea & Flood 2014), std `split_mix`."""

    def __init__(self, seed: int, path: str) -> None:
        self._start = np.uint64(int.from_bytes(hashlib.sha256(f"{seed}:{path}".encode()).digest()[:8], "little"))

    def below(self, count: int, shape: Shape) -> Array:
        """Return numbers from 0 to count - 1, as i64. count: up to 2^31."""
        i = np.arange(1, prod(shape) + 1, dtype=np.uint64)
        a = self._start + i * np.uint64(0x9E3779B97F4A7C15)
        b = (a ^ (a >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        c = (b ^ (b >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        c ^= c >> np.uint64(31)
        return ((c >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(np.int64).reshape(shape)

    def codes(self, element: Element, shape: Shape) -> Array:
        """Return values of an element, all as likely; of signed integers without the least one."""
        if element.name == "b1":
            return 2 * self.below(2, shape) - 1
        low = -element.high if element.kind in (Kind.SIGN, Kind.SIGNED) else 0
        return self.below(element.high - low + 1, shape) + low


class Draft:
    """A network being drawn.

    a: the assembly. seed: of parameters that are not given. arrays: those that are. parameters: all that were met.
    """

    def __init__(self, library: Library, seed: int, arrays: Mapping[str, npt.ArrayLike], partial: bool) -> None:
        self.a = Assembly(library)
        self.faults: list[BitternError] = []
        self.path = ""
        self.made = 0  # parameters that nobody gave
        self._seed, self._arrays, self._partial = seed, arrays, partial or not arrays
        self.parameters: dict[str, Array] = {}
        self._flows: dict[int, Flow | None] = {}
        self._names: dict[int, str] = {}
        self._counts: Counter[str] = Counter()
        self._values: Mapping[str, npt.ArrayLike] = {}
        self._asked: set[str] = set()
        self._labelled: set[bytes] = set()
        self._kept: list[object] = []  # what is known by its id() lives as long as the draft

    # --- what layers use

    def fault(self, name: str, what: str, remedy: str) -> None:
        """Note a fault of the layer that is being drawn, which goes on."""
        self.faults.append(BitternError(name, f"`{self.path}`: {what}", remedy))

    def element(self, width: Width, *, signed: bool = True) -> Element:
        """Return the element of a width; where there is none, note N105 and return another one."""
        try:
            return element_of_width(width, signed=signed)
        except BitternError as fault:
            self.fault(fault.code, fault.what[:1].lower() + fault.what[1:], fault.remedy)
            return element_of_width(8, signed=signed)

    def parameter(
        self,
        name: str,
        element: Element,
        shape: Shape,
        initial: Initial,
        *,
        optional: bool = False,
        limits: tuple[float, float] | None = None,
    ) -> Array:
        """Return the array of a parameter: as given, or as it begins.

        optional: files need not have it. limits: of its values, where not all of the element make sense. Raises N102
        for a layer that is called on values of different sizes, N107 for more values than anybody has.
        """
        path = f"{self.path}.{name}"
        self._asked.add(name)
        if path in self.parameters:
            known = self.parameters[path]
            if known.shape != shape:
                what = f"Called again, the layer needs `{name}` of shape {list(shape)} instead of {list(known.shape)}."
                raise BitternError(WRONG_SHAPE, what, "Make a second layer for values of other sizes.")
            return known
        if prod(shape) > MOST_VALUES:
            what = f"`{name}` would have the shape {list(shape)}."
            raise BitternError(WRONG_NUMBER, what, f"Stay below {MOST_VALUES} values.")
        given = self._values[name] if name in self._values else self._arrays.get(path)
        made = None if given is None else self._checked(path, np.asarray(given), element, shape, limits)
        if given is None:
            self.made += 1
            if not self._partial and not optional:
                self.fault(MISSING, f"there is no array `{path}`.", "Give it, or build with partial=True.")
        if made is None:
            made = np.asarray(initial(Numbers(self._seed, path)))
        self.parameters[path] = np.broadcast_to(made, shape).astype(element.storage)
        return self.parameters[path]

    def constant(self, name: str, array: npt.ArrayLike, element: Element) -> Node:
        """Return a parameter's node, which is called by its path."""
        return self.a.label(self.a.constant(array, element.name), f"{self.path}.{name}")

    def stand_in(self, element: str, shape: Shape) -> Flow:
        """Return a value in place of one that does not fit, so that later faults are found, too."""
        value = 1 if element == "b1" else 0
        zeros = self.a.constant(np.full(shape, value), element)
        return flow(self.a.op("broadcast", zeros, shape=(BATCH,)))

    def within(self, of: Callable[..., Value], *inputs: Flow) -> Flow | None:
        """Return what layers inside of this one make of values; None where a fault leaves it open. of: calls them."""
        held = [Value(None) for _ in inputs]
        self._kept.extend(held)
        self._flows |= {id(value): each for value, each in zip(held, inputs, strict=True)}
        return self.draw(of(*held))

    def row(self, array: npt.ArrayLike, like: Flow, element: str = "f32") -> Node:
        """Return a number for each channel, repeated to have the shape of a value."""
        return self.a.spread(self.a.constant(array, element), like.node)

    def _checked(
        self, path: str, array: Array, element: Element, shape: Shape, limits: tuple[float, float] | None
    ) -> Array | None:
        """Return a given array; where it cannot be, note N113 or N114 and return None."""
        if array.shape != shape:
            what = f"the array `{path}` has shape {list(array.shape)} instead of {list(shape)}."
            self.fault(WRONG_ARRAY, what, "Give it in that shape; weights have the output channels first.")
            return None
        if array.dtype.kind not in "biuf":
            self.fault(WRONG_VALUES, f"the array `{path}` holds {array.dtype}.", f"Give values of {element}.")
            return None
        if not np.isfinite(array).all():
            self.fault(WRONG_VALUES, f"the array `{path}` holds an infinity or a NaN.", "Give numbers.")
            return None
        low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
        told = f"the array `{path}` holds {array.dtype} from {low:g} to {high:g}"
        if array.dtype.kind == "f" and not element.is_float and (array == np.trunc(array)).all():
            array = np.clip(array, -(2.0**62), 2.0**62).astype(np.int64)  # whole numbers, as training keeps them
        if not is_valid(array, element):
            self.fault(WRONG_VALUES, f"{told}, and is {element}.", "Quantise it first: values must be those of it.")
            return None
        if limits is not None and not limits[0] <= low <= high <= limits[1]:
            self.fault(WRONG_VALUES, f"{told}.", f"Give values from {limits[0]:g} to {limits[1]:g}.")
            return None
        return array

    # --- walking

    def input(self, value: Value, name: str) -> None:
        """Declare an input of the network."""
        assert value.tensor is not None
        tensor = value.tensor
        element = ELEMENTS["u32"] if tensor.width == "u32" else element_of_width(tensor.width, signed=tensor.signed)
        self._flows[id(value)] = flow(self.a.input(name, element.name, tensor.shape))
        self._kept.append(value)

    def draw(self, value: Value) -> Flow | None:
        """Return a drawn value; None where a fault leaves it open."""
        stack = [value]
        while stack:
            current = stack[-1]
            missing = [each for each in current.inputs if id(each) not in self._flows]
            if id(current) in self._flows or not missing:
                stack.pop()
                if id(current) not in self._flows:
                    self._kept.append(current)
                    self._flows[id(current)] = self._layer(current)
            else:
                stack.extend(reversed(missing))
        return self._flows[id(value)]

    def _layer(self, value: Value) -> Flow | None:
        layer = value.layer
        inputs = [self._flows[id(each)] for each in value.inputs]
        flows = [each for each in inputs if each is not None]
        outer, values, asked = self.path, self._values, self._asked
        assert layer is not None, "an input that was not declared"
        self.path, self._values, self._asked = self._name(layer), layer.values, set()
        try:
            if len(flows) < len(inputs):
                return None
            return self._drawn(layer, flows)
        except BitternError as fault:
            self.fault(fault.code, fault.what[:1].lower() + fault.what[1:], fault.remedy)
            return None
        finally:
            self.path, self._values, self._asked = outer, values, asked

    def _drawn(self, layer: Layer, flows: Sequence[Flow]) -> Flow | None:
        if isinstance(layer, Composite):
            _need_count(layer.compose, len(flows))
            made = self.within(layer.compose, *flows)
        else:
            _need_count(layer.draw, len(flows), 1)
            made = layer.draw(self, *flows)
            for name in sorted(set(layer.values) - self._asked):
                hint = nearest(name, sorted(self._asked)) or "It has none."
                self.fault(UNKNOWN_PATH, f"`values` has `{name}`, which the layer has not.", hint)
        if made is not None and made.node is not flows[0].node and made.node.id not in self._labelled:
            self._labelled.add(made.node.id)  # a layer inside of this one has named it already
            self.a.label(made.node, self.path)
        return made

    def _name(self, layer: Layer) -> str:
        if id(layer) not in self._names:
            prefix = f"{self.path}." if self.path else ""
            own = layer.name
            if not own:
                self._counts[prefix + layer.KIND] += 1
                own = f"{layer.KIND}_{self._counts[prefix + layer.KIND]}"
            if prefix + own in self._names.values():
                self.faults.append(
                    BitternError(SAME_NAME, f"Two layers are called `{prefix + own}`.", "Give one another name.")
                )
                own = f"{own}#{len(self._names)}"  # so that it is the only fault of it
            self._names[id(layer)] = prefix + own
            self._kept.append(layer)
        return self._names[id(layer)]

    def finish(self) -> None:
        """Raise all faults at once, those of arrays that no parameter asked for among them."""
        for path in self._arrays:
            if path not in self.parameters:
                hint = nearest(path, sorted(self.parameters)) or "Leave it out."
                self.faults.append(BitternError(UNKNOWN_PATH, f"No parameter is called `{path}`.", hint))
        if len(self.faults) == 1:
            raise self.faults[0]
        if self.faults:
            lines = "\n".join(f"  {fault.code}: {fault.what} {fault.remedy}" for fault in self.faults)
            raise BitternError(SEVERAL, f"The network has {len(self.faults)} faults.\n{lines}\n", "Mend each of them.")


def _need_count(of: Callable[..., object], count: int, own: int = 0) -> None:
    """Raise N116 unless a layer's method takes so many values. own: how many arguments before them are not values."""
    parameters = list(signature(of).parameters.values())[own:]
    least = sum(each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty for each in parameters)
    most = 1 << 10 if any(each.kind is each.VAR_POSITIONAL for each in parameters) else len(parameters)
    if not max(1, least) <= count <= most:
        allowed = f"{least}" if least == most else f"{max(1, least)} or more" if most > 9 else f"{least} to {most}"
        raise BitternError(WRONG_COUNT, f"The layer is called on {count} values.", f"It takes {allowed}.")


def flow(node: Node, low: int | None = None, high: int | None = None, rms: float | None = None) -> Flow:
    """Return a node as a flow; what is not given is what its element allows."""
    element = element_of(node)
    if element.is_float:
        return Flow(node, 0, 0, 1.0 if rms is None else rms)
    low = element.low if low is None else low
    high = element.high if high is None else high
    if rms is None:
        rms = 1.0 if element.name == "b1" else max(1.0, max(-low, high) / sqrt(3))
    return Flow(node, low, high, rms)


def summed(draft: Draft, node: Node, x: Flow, weights: Array, value: int | None = None) -> Flow:
    """Return sums of products with known limits. weights: [rows, columns], or [columns]. value: another value of x.

    N108 where a sum could leave 32 bits.
    """
    low, high = (x.low, x.high) if value is None else (min(x.low, value), max(x.high, value))
    w = weights.reshape(-1, weights.shape[-1]).astype(np.int64)
    positive, negative = np.maximum(w, 0).sum(1), np.minimum(w, 0).sum(1)
    least, most = positive * low + negative * high, positive * high + negative * low
    rms = sqrt(float((w * w).sum(1).max(initial=0))) * x.rms
    draft.a.label(node, f"{draft.path}.{SUMS}")
    return limited(draft, node, int(least.min(initial=0)), int(most.max(initial=0)), rms)


def limited(draft: Draft, node: Node, low: int, high: int, rms: float) -> Flow:
    """Return a node of i32 whose limits are known; N108 where they are wider."""
    if low < _I32.low or high > _I32.high:
        bits = max((-low - 1).bit_length(), high.bit_length()) + 1
        draft.fault(TOO_WIDE, f"a sum needs {bits} bits (it can be {low} to {high}).", "Take narrower codes, or fewer.")
        low, high = max(low, _I32.low), min(high, _I32.high)
    return Flow(node, low, high, max(1.0, rms))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A network and the arrays of its parameters by path, those that nobody gave among them."""

    network: Network
    parameters: Mapping[str, Array]


def drawn(
    outputs: Mapping[str, Value],
    name: str,
    library: Library,
    seed: int,
    arrays: Mapping[str, npt.ArrayLike],
    partial: bool,
    inputs: Sequence[Value] = (),
) -> Drawn:
    """Return a declared network. inputs: in this order, others as they are met. Raises N101 to N119."""
    draft = Draft(library, seed, arrays, partial)
    found = list(inputs) + [each for each in _inputs(list(outputs.values())) if each not in inputs]
    if not outputs or not found or not all(isinstance(each, Value) for each in outputs.values()):
        raise BitternError(NO_VALUE, "The network has no output that depends on an input.", "Give `output` a value.")
    names: set[str] = set()
    for place, value in enumerate(found):
        own = value.name or ("input" if not place else f"input_{place + 1}")
        if own in names:
            draft.faults.append(BitternError(SAME_NAME, f"Two inputs are called `{own}`.", "Give one another name."))
        names.add(own)
        draft.input(value, own)
    made = {each: draft.draw(value) for each, value in outputs.items()}
    draft.finish()
    facts = {"parameters": f"{draft.made} initial (seed {seed})"} if draft.made else {}
    batch = next((value.tensor.batch for value in found if value.tensor and value.tensor.batch), None)
    facts |= {"batch": str(batch)} if batch else {}
    nodes = {each: got.node for each, got in made.items() if got is not None}
    return Drawn(draft.a.network(name, nodes, source="nn", facts=facts), draft.parameters)


def _inputs(outputs: list[Value]) -> list[Value]:
    """Return the inputs that values depend on, in the order in which a walk from the outputs meets them."""
    found: list[Value] = []
    seen: set[int] = set()
    stack = list(reversed(outputs))
    while stack:
        value = stack.pop()
        if not isinstance(value, Value) or id(value) in seen:
            continue
        seen.add(id(value))
        if value.tensor is not None:
            found.append(value)
        stack.extend(reversed(value.inputs))
    return found
