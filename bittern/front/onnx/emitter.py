"""Words for writing a network from wires: order of axes, broadcasting, element-wise chains, codes and their values."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bittern.front.network.assembly import Assembly, element_of
from bittern.front.onnx.values import Array, Coding, Refusal, Wire
from bittern.graph.node import Node
from bittern.types.arrays import is_valid
from bittern.types.dims import Dim
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor


class Emitter:
    """Writes nodes into an assembly. All methods return new wires; nothing of the file is known here."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly

    # --- order and shape

    def arranged(self, x: Wire, order: Sequence[int] | None = None) -> Wire:
        """Return a wire stored in an order of axes; None: the file's."""
        wanted = tuple(order) if order is not None else tuple(range(len(x.shape)))
        if wanted == x.order:
            return x
        axes = (0, *(1 + x.order.index(axis) for axis in wanted))
        return replace(x, node=self.assembly.op("permute", x.node, axes=axes), order=wanted)

    def reshaped(self, x: Wire, shape: Sequence[int]) -> Wire:
        """Return the same values in the file's order under another sample shape.

        Where only axes of length 1 come and go, nothing moves: the others stay stored as they are, those in front.
        """
        wanted = tuple(shape)
        if wanted == x.shape:
            return x
        own, new = ([axis for axis, size in enumerate(each) if size != 1] for each in (x.shape, wanted))
        if [x.shape[axis] for axis in own] == [wanted[axis] for axis in new]:
            place = dict(zip(own, new, strict=True))
            ones = [axis for axis in range(len(wanted)) if axis not in new]
            order = (*ones, *(place[axis] for axis in x.order if axis in place))
            node = self._reshape(x.node, [wanted[axis] for axis in order])
            return replace(x, node=node, shape=wanted, order=order, coding=_placed(x.coding, place, len(wanted)))
        given = self.arranged(x if x.coding is None or x.coding.is_plain() else self.values(x))
        return self.fresh(given, self._reshape(given.node, wanted), wanted)

    def fresh(self, like: Wire, node: Node, shape: Sequence[int], order: Sequence[int] | None = None) -> Wire:
        """Return a wire of another shape that has the element and coding of `like`."""
        wanted = tuple(order) if order is not None else tuple(range(len(shape)))
        return replace(like, node=node, shape=tuple(shape), order=wanted)

    def expanded(self, x: Wire, shape: Sequence[int]) -> Wire:
        """Return a wire repeated to a sample shape by the rule of broadcasting."""
        wanted = tuple(shape)
        if x.shape == wanted:
            return x
        x = x if x.coding is None or x.coding.is_plain() else self.values(x)
        given = self.arranged(x)
        sizes = (1,) * (len(wanted) - len(x.shape)) + x.shape
        new = [axis for axis, size in enumerate(wanted) if sizes[axis] != size]
        kept = [axis for axis in range(len(wanted)) if axis not in new]
        node = self._reshape(given.node, [sizes[axis] for axis in kept])
        if new:
            node = self.assembly.op("broadcast", node, shape=[wanted[axis] for axis in new])
        place = [*new, -1, *kept]  # what each axis of the node is; -1 is the batch
        axes = [place.index(axis) for axis in (-1, *range(len(wanted)))]
        node = self.assembly.op("permute", node, axes=axes) if axes != sorted(axes) else node
        return self.fresh(x, node, wanted)

    def _reshape(self, node: Node, shape: Sequence[int]) -> Node:
        return self.assembly.op("reshape", node, shape=(sizes_of(node)[0], *shape))

    # --- constants beside wires

    def constant(self, value: Array | float, element: str) -> Node:
        """Return a constant; whole numbers may be given as floats."""
        array = np.asarray(value)
        if not ELEMENTS[element].is_float and array.dtype.kind == "f":
            array = array.astype(np.int64) if np.isfinite(array).all() else array
        if not is_valid(array, ELEMENTS[element]):
            raise Refusal(f"it has constants that are no {element}", f"constants of {element}")
        return self.assembly.constant(array, element)

    def spread(self, value: Array | float, x: Wire, element: str | None = None) -> Node:
        """Return constants, given in the file's order of a sample and broadcast against it, as a node like the wire's.

        element: of the constants; None: that of the node.
        """
        name = element or element_of(x.node).name
        array = np.asarray(value)
        if array.size == 1:
            return self.assembly.spread(self.constant(array.reshape(()), name), x.node)
        array = array.reshape((1,) * (len(x.shape) - array.ndim) + array.shape).transpose(x.order)
        while array.shape[0] == 1:
            array = array[0]
        row = np.broadcast_to(array, x.stored[len(x.stored) - array.ndim :])
        return self.assembly.spread(self.constant(row, name), x.node)

    def with_constant(self, kind: str, x: Wire, value: Array | float, *, first: bool = False) -> Wire:
        """Return `x kind value`, or `value kind x`; the wire must hold its values."""
        assert x.coding is None, x
        given = self.spread(value, x)
        pair = (given, x.node) if first else (x.node, given)
        return replace(x, node=self.assembly.op(kind, *pair))

    # --- element by element

    def unary(self, kind: str, x: Wire) -> Wire:
        """Return a primitive op of each value."""
        assert x.coding is None, x
        return replace(x, node=self.assembly.op(kind, x.node))

    def binary(self, kind: str, x: Wire, y: Wire) -> Wire:
        """Return a primitive op of two wires, broadcast against each other."""
        assert x.coding is None and y.coding is None, (x, y)
        x, y = self.together(x, y)
        return replace(x, node=self.assembly.op(kind, x.node, y.node), is_batched=x.is_batched or y.is_batched)

    def together(self, x: Wire, y: Wire) -> tuple[Wire, Wire]:
        """Return two wires with one shape and one order."""
        if x.shape != y.shape:
            shape = np.broadcast_shapes(x.shape, y.shape)
            x, y = self.expanded(x, shape), self.expanded(y, shape)
        natural = tuple(range(len(x.shape)))
        order = x.order if x.order != natural else y.order
        return self.arranged(x, order), self.arranged(y, order)

    def applied(self, name: str, x: Wire, *others: float) -> Wire:
        """Return a library function of a number, applied to each value."""
        assert x.coding is None, x
        return replace(x, node=self.assembly.call(name, x.node, *others, lead=1 + len(x.shape)))

    def converted(self, x: Wire, element: str, kind: str = "convert") -> Wire:
        """Return the values as another element, by `convert`, `round`, `sat`, `wrap` or `sign`."""
        assert x.coding is None, x
        if element_of(x.node).name == element:
            return replace(x, element=element)
        return replace(x, node=self.assembly.op(kind, x.node, to=element), element=element)

    # --- codes

    def codes(self, x: Wire) -> Wire:
        """Return the node of a coded wire as a wire of plain integers."""
        return replace(x, coding=None, element=element_of(x.node).name)

    def coded(self, x: Wire, coding: Coding) -> Wire:
        """Return a wire of codes as the f32 numbers that they stand for."""
        return replace(x, coding=coding, element="f32")

    def values(self, x: Wire) -> Wire:
        """Return the numbers of a wire: codes are converted, less their zero, times their scale, where those matter."""
        if x.coding is None:
            return x
        result = self.converted(self.codes(x), "f32")
        if not x.coding.is_symmetric():
            result = self.with_constant("sub", result, x.coding.zero)
        if not (x.coding.scale == 1).all():
            result = self.with_constant("mul", result, x.coding.scale)
        return result

    def widened(self, x: Wire, element: str = "i32") -> Wire:
        """Return integers as wider ones; `bit` and one-bit codes included."""
        return self.converted(x, element)


def _placed(coding: Coding | None, place: Mapping[int, int], rank: int) -> Coding | None:
    """Return a coding whose axes moved. place: new axis of each old one that is longer than 1."""
    if coding is None or coding.is_plain():
        return coding
    parts = []
    for part in (coding.scale, coding.zero):
        sizes = [1] * rank
        for old, new in place.items():
            if part.ndim:
                sizes[new] = part.shape[old]
        order = [old for old, _ in sorted(place.items(), key=lambda pair: pair[1])]
        moved = part.transpose([*(k for k in range(part.ndim) if k not in order), *order]) if part.ndim else part
        parts.append(moved.reshape(sizes if part.ndim else ()))
    return Coding(*parts)


def sizes_of(node: Node) -> tuple[Dim, ...]:
    """Return the shape of a tensor node, the batch first."""
    assert isinstance(node.type, Tensor), node
    return node.type.shape
