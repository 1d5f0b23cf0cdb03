"""Assembling a network's function: primitive ops on whole batches, and library functions mapped over leading axes.

A layer is a map, over the batch and perhaps over positions, whose body is one call; so a plan sees one application with
batch axes in front. Elements and dimensions of a callee are found from the arguments.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.network.network import Network, Port, port_of
from bittern.graph.node import (
    Attribute,
    Function,
    Labels,
    Node,
    Parameter,
    const,
    item,
    make_tuple,
    map_over,
    node,
    param,
)
from bittern.graph.node import call as call_node
from bittern.lang import syntax
from bittern.lang.library import Library, mark
from bittern.ops.table import ops
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import ELEMENTS, Element
from bittern.types.values import Tensor, Tuple, tensor

Argument = Node | int | float

BATCH = symbol(0)
_DIMS = ("shape", "low", "high", "before", "after", "count", "value", "length", "size")  # attributes that are sizes
_ELEMENT_KINDS = ("type", "int", "float")


class Assembly:
    """See the module. library: where library functions are found, usually `Library.standard()`."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._params: list[tuple[str, Tensor]] = []
        self._ports: list[tuple[float | None, int]] = []
        self._labels: dict[bytes, str] = {}
        self._functions: dict[tuple[Any, ...], Function] = {}

    def input(self, name: str, element: str, shape: Sequence[int], scale: float | None = None, zero: int = 0) -> Node:
        """Declare the next input. shape: of one sample. Returns the batch of them, [b, ...]."""
        type_ = tensor(ELEMENTS[element], BATCH, *shape)
        self._params.append((name, type_))
        self._ports.append((scale, zero))
        return param(len(self._params) - 1, type_)

    def constant(self, value: npt.ArrayLike, element: str) -> Node:
        """Return a constant of an element's values."""
        return const(value, ELEMENTS[element])

    def label(self, made: Node, name: str) -> Node:
        """Name a node as people call it; returns it."""
        self._labels[made.id] = name
        return made

    def op(self, kind: str, *inputs: Node, **attributes: Any) -> Node:
        """Return a primitive op. attributes: sizes may be numbers, elements names."""
        given = {name: _attribute(name, value, kind) for name, value in attributes.items()}
        type_ = ops()[kind].rule(tuple(each.type for each in inputs), given)
        return node(kind, inputs, given, type_)

    def scalar(self, kind: str, x: Node, value: float, *, first: bool = False) -> Node:
        """Return `x kind value` with a number spread over x; first: `value kind x`."""
        assert isinstance(x.type, Tensor), x
        spread = self.spread(self.constant(value, x.type.element.name), x)
        return self.op(kind, spread, x) if first else self.op(kind, x, spread)

    def spread(self, value: Node, like: Node) -> Node:
        """Return a scalar or a row of the last axes, repeated along the axes in front to have the shape of `like`."""
        assert isinstance(value.type, Tensor) and isinstance(like.type, Tensor), (value, like)
        front = like.type.shape[: len(like.type.shape) - len(value.type.shape)]
        made = value if not front else self.op("broadcast", value, shape=front)
        assert isinstance(made.type, Tensor) and made.type.shape == like.type.shape, (value.type, like.type)
        return made

    def call(
        self,
        name: str,
        *arguments: Argument,
        lead: int = 1,
        mapped: Sequence[bool] | None = None,
        elements: Mapping[str, str] | None = None,
    ) -> Node:
        """Return a library function applied along leading axes.

        name: `module.function`. lead: how many axes in front of the mapped arguments the function does not see.
        mapped: for each argument whether it has those axes; by default nodes that depend on an input have. elements:
        element arguments that the parameters do not show. Numbers become constants of the parameter's element.
        """
        function, given = self._function(name, arguments, elements or {})
        is_mapped = list(mapped) if mapped is not None else [_has_batch(each) for each in given]
        return self.apply(name, function, given, lead, is_mapped)

    def apply(self, name: str, function: Function, given: Sequence[Node], lead: int, is_mapped: Sequence[bool]) -> Node:
        """Return a function applied along leading axes; a struct is given as its leaves, in the order of its fields."""
        items = [_inside(each.type, lead if walks else 0) for each, walks in zip(given, is_mapped, strict=True)]
        dims = _solved(name, function, items)
        counts = next((_front(each, lead) for each, walks in zip(given, is_mapped, strict=True) if walks), ())
        assert len(counts) == lead or not lead, (name, "no argument is mapped")
        return _nested(function, dims, given, is_mapped, counts)

    def items(self, value: Node) -> list[Node]:
        """Return the parts of a tuple."""
        assert isinstance(value.type, Tuple), value
        return [item(value, k) for k in range(len(value.type.items))]

    def network(
        self,
        name: str,
        outputs: Mapping[str, Node],
        *,
        source: str = "",
        facts: Mapping[str, str] | None = None,
        scales: Mapping[str, tuple[float, int]] | None = None,
    ) -> Network:
        """Return the network that computes these values. scales: (scale, zero) of outputs that are codes."""
        results = list(outputs.values())
        result = results[0] if len(results) == 1 else make_tuple(results)
        labels = Labels(name, ("b",), tuple(each for each, _ in self._params), dict(self._labels))
        function = Function(1, tuple(Parameter(type_) for _, type_ in self._params), result, labels=labels)
        inputs = [port_of(each, type_, *port) for (each, type_), port in zip(self._params, self._ports, strict=True)]
        made: list[Port] = []
        for each, value in outputs.items():
            assert isinstance(value.type, Tensor), each
            made.append(port_of(each, value.type, *(scales or {}).get(each, (None, 0))))
        return Network(name, function, tuple(inputs), tuple(made), self.library, source, dict(facts or {}))

    def _function(
        self, name: str, arguments: Sequence[Argument], elements: Mapping[str, str]
    ) -> tuple[Function, list[Node]]:
        """Return the callee for these arguments, and the arguments as nodes."""
        module_name, _, short = name.rpartition(".")
        module = self.library.module(module_name)
        members = module.functions.get(short, []) if module is not None else []
        assert members, f"no function `{name}` in the library"
        first = _element_name(arguments[0])
        chosen = next((each for each in members if mark(each) == first), members[0])
        assert len(chosen.parameters) == len(arguments), (name, len(arguments))
        bound = {**_elements(chosen, arguments), **elements}
        key = (name, mark(chosen), *sorted(bound.items()))
        if key not in self._functions:
            overload = mark(chosen) if len(members) > 1 else None
            self._functions[key] = self.library.function(name, elements=bound, overload=overload)
        function = self._functions[key]
        given: list[Node] = []
        for argument, parameter in zip(arguments, function.params, strict=True):
            if not isinstance(argument, Node):
                assert isinstance(parameter.type, Tensor) and not parameter.type.shape, (name, argument)
                argument = const(np.asarray(argument), parameter.type.element)
            given.append(argument)
        return function, given


def _element_name(argument: Argument) -> str:
    if isinstance(argument, Node) and isinstance(argument.type, Tensor):
        return argument.type.element.name
    return ""


def _elements(declared: syntax.FunctionDecl, arguments: Sequence[Argument]) -> dict[str, str]:
    """Return the element arguments that the parameters' types show."""
    open_ = {each.name.name for each in declared.generics if each.kind in _ELEMENT_KINDS}
    found: dict[str, str] = {}
    for parameter, argument in zip(declared.parameters, arguments, strict=True):
        word = parameter.type.name.name if isinstance(parameter.type, syntax.NamedType) else ""
        if word in open_ and isinstance(argument, Node) and isinstance(argument.type, Tensor):
            found[word] = argument.type.element.name
    return found


def _attribute(name: str, value: Any, kind: str) -> Attribute:
    if name == "to" and isinstance(value, str):
        return ELEMENTS[value]
    if name == "shape":
        return tuple(dim(each) for each in value)
    if name in _DIMS and isinstance(value, int) and not (kind == "slice" and name == "stride"):
        return dim(value)
    if name == "axes":
        return tuple(value)
    made: Attribute = value
    return made


def _has_batch(value: Node) -> bool:
    return isinstance(value.type, Tensor) and value.type.shape[:1] == (BATCH,)


def _inside(type_: Any, lead: int) -> Tensor:
    assert isinstance(type_, Tensor), type_
    return Tensor(type_.element, type_.shape[lead:])


def _front(value: Node, lead: int) -> tuple[Dim, ...]:
    assert isinstance(value.type, Tensor), value
    return value.type.shape[:lead]


def _solved(name: str, function: Function, items: Sequence[Tensor]) -> tuple[Dim, ...]:
    """Return the dimension arguments that make the parameters' types those of the arguments."""
    found: dict[int, Dim] = {}
    pairs = [
        (wanted, size)
        for parameter, given in zip(function.params, items, strict=True)
        if isinstance(parameter.type, Tensor)
        for wanted, size in zip(parameter.type.shape, given.shape, strict=True)
    ]
    for wanted, size in pairs:
        for k in range(function.dims):
            if wanted == symbol(k):
                found.setdefault(k, size)
    for wanted, size in pairs:
        _solve_multiple(wanted, size, function.dims, found)
    missing = [k for k in range(function.dims) if k not in found]
    assert not missing, (name, "dimensions that the arguments do not show", missing)
    dims = tuple(found[k] for k in range(function.dims))
    for wanted, size in pairs:
        assert wanted.substitute(dims) == size, (name, [str(each) for each in dims], str(wanted), str(size))
    return dims


def _solve_multiple(wanted: Dim, size: Dim, count: int, found: dict[int, Dim]) -> None:
    """Solve a size such as `64 * n` for the one dimension in it."""
    number = size.constant
    for k in range(count):
        factor = wanted.substitute([dim(int(each == k)) for each in range(count)]).constant
        if k not in found and number is not None and factor and wanted == symbol(k) * dim(factor):
            assert number % factor == 0, (str(wanted), number)
            found[k] = dim(number // factor)


def _nested(
    function: Function, dims: tuple[Dim, ...], given: Sequence[Node], mapped: Sequence[bool], counts: Sequence[Dim]
) -> Node:
    """Return the call inside one map for each leading axis."""
    if not counts:
        return call_node(function, given, dims)
    order = [k for k, walks in enumerate(mapped) if walks] + [k for k, walks in enumerate(mapped) if not walks]
    types = [_inside(given[k].type, 1 if mapped[k] else 0) for k in order]
    inner: list[Node] = [given[0]] * len(given)
    for place, (k, type_) in enumerate(zip(order, types, strict=True)):
        inner[k] = param(place, type_)
    result = _nested(function, dims, inner, mapped, counts[1:])
    body = Function(1, tuple(Parameter(type_) for type_ in types), result)
    walked = [given[k] for k in order if mapped[k]]
    return map_over(body, counts[0], walked, [given[k] for k in order if not mapped[k]])


def element_of(value: Node) -> Element:
    """Return the element of a tensor node."""
    assert isinstance(value.type, Tensor), value
    return value.type.element


def shape_of(value: Node) -> tuple[int, ...]:
    """Return the shape of one sample of a node [b, ...]."""
    return port_of("", value.type).shape if isinstance(value.type, Tensor) else ()
