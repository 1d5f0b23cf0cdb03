"""A function laid out flat: applications of library functions and ops to values, in the order in which they run.

Calls of functions that no rule of the plan knows are laid out in place. A map whose body does nothing but call one
known function on its items is one application with batch axes in front (`lead`): `[quantise(row) for row in x]` is
`quantise` applied to t rows. Everything else stays a node of its own, for the generic lowering.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bittern.base.errors import BitternError, code
from bittern.graph.node import Blob, Function, Node, functions_of, walk
from bittern.types.dims import Dim, symbol
from bittern.types.values import Tensor, Tuple, Type, substitute

EFFECTS_NOT_PLANNED = code("P101", "a plan holds no effects")


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """One tensor of the flow; equal to itself only.

    type: with dimensions in the symbols of the whole function. source: `const`, `input` or `made`. data: the stored
    bytes of a constant. number: of an input leaf. label: what people call it. mode: of an input: `own` (it may be
    overwritten), `&` or "".
    """

    type: Tensor
    source: str
    data: Blob | None = None
    number: int = -1
    label: str = ""
    mode: str = ""

    @property
    def size(self) -> Dim:
        """The number of values."""
        total = Dim(((((), 1)),))
        for length in self.type.shape:
            total = total * length
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Apply:
    """One application.

    name: of the library function without its element arguments, or the kind of a primitive or structural node. dims:
    the function's dimension arguments. lead: batch axes. mapped: for each argument whether it has the batch axes.
    node: what it stands for; of a map, the map. inputs: the leaves of the node's inputs. setting: the dimensions of the
    function in which the node stands.
    """

    name: str
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    node: Node
    function: Function | None = None
    dims: tuple[Dim, ...] = ()
    lead: tuple[Dim, ...] = ()
    mapped: tuple[bool, ...] = ()
    label: str = ""
    inputs: tuple[Value, ...] = ()
    setting: tuple[Dim, ...] = ()

    @property
    def rows(self) -> Dim:
        """How many times the function is applied."""
        total = Dim(((((), 1)),))
        for count in self.lead:
            total = total * count
        return total


@dataclass(slots=True)
class Flow:
    """inputs: one value for each parameter leaf. results: one for each leaf of the result."""

    inputs: tuple[Value, ...]
    results: tuple[Value, ...] = ()
    applies: list[Apply] = field(default_factory=list)

    def users(self) -> Mapping[Value, list[Apply]]:
        """Return who reads each value."""
        found: dict[Value, list[Apply]] = {}
        for apply in self.applies:
            for argument in dict.fromkeys(apply.arguments):
                found.setdefault(argument, []).append(apply)
        return found


def without_sizes(flow: Flow, dims: int) -> tuple[Flow, tuple[int, ...]]:
    """Return a flow whose constant sizes are symbols, from number `dims` on, and the sizes that they stand for."""
    sizes: dict[int, Dim] = {}
    values: dict[Value, Value] = {}

    def open_(size: Dim) -> Dim:
        constant = size.constant
        return size if constant is None else sizes.setdefault(constant, symbol(dims + len(sizes)))

    def blind(value: Value) -> Value:
        if value not in values:
            shape = tuple(open_(size) for size in value.type.shape)
            values[value] = replace(value, type=replace(value.type, shape=shape))
        return values[value]

    def all_blind(given: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(blind(value) for value in given)

    applies = [
        replace(
            apply,
            arguments=all_blind(apply.arguments),
            results=all_blind(apply.results),
            inputs=all_blind(apply.inputs),
            dims=tuple(open_(size) for size in apply.dims),
            lead=tuple(open_(size) for size in apply.lead),
        )
        for apply in flow.applies
    ]
    return Flow(all_blind(flow.inputs), all_blind(flow.results), applies), tuple(sizes)


def plain_name(function: Function) -> str:
    """Return the name of a library function without its element arguments."""
    return function.labels.name.partition("[")[0]


def flow_of(function: Function, known: frozenset[str], dims: Mapping[int, int] | None = None) -> Flow:
    """Lay a function out. known: names of library functions that stay whole. dims: sizes that are fixed, by position.

    Raises P101 for a function with effects.
    """
    if function.effects:
        raise BitternError(
            EFFECTS_NOT_PLANNED, f"`{function.name}` has effects: {', '.join(function.effects)}.", "Run it on `vm`."
        )
    fixed = dims or {}
    sizes = tuple(Dim((((), fixed[k]),)) if k in fixed else symbol(k) for k in range(function.dims))
    leaves = [(leaf, each.mode) for each in function.params for leaf in tensors(substitute(each.type, sizes))]
    inputs = tuple(
        Value(leaf, "input", number=k, label=f"input.{k}", mode=mode) for k, (leaf, mode) in enumerate(leaves)
    )
    flow = Flow(inputs)
    flow.results = _Layer(flow, known, "").run(function, sizes, inputs)
    return flow


def tensors(type_: Type) -> Iterator[Tensor]:
    """Yield the leaves of a type."""
    if isinstance(type_, Tensor):
        yield type_
    elif isinstance(type_, Tuple):
        for each in type_.items:
            yield from tensors(each)


class _Layer:
    """Lays out one function's graph in its place."""

    def __init__(self, flow: Flow, known: frozenset[str], path: str) -> None:
        self._flow, self._known, self._path = flow, known, path

    def run(self, function: Function, dims: Sequence[Dim], arguments: Sequence[Value]) -> tuple[Value, ...]:
        """arguments: one for each parameter leaf. Returns one value for each leaf of the result."""
        given, at = [], 0
        for parameter in function.params:
            count = sum(1 for _ in tensors(parameter.type))
            given.append(tuple(arguments[at : at + count]))
            at += count
        made: dict[bytes, tuple[Value, ...]] = {}
        for node in walk(function.result):
            inputs = [made[i.id] for i in node.inputs]
            label = function.labels.nodes.get(node.id, "")
            made[node.id] = self._node(node, inputs, given, tuple(dims), label)
        return made[function.result.id]

    def _node(
        self,
        node: Node,
        inputs: Sequence[tuple[Value, ...]],
        given: Sequence[tuple[Value, ...]],
        dims: tuple[Dim, ...],
        label: str,
    ) -> tuple[Value, ...]:
        match node.kind:
            case "param":
                return given[_int(node["index"])]
            case "const":
                data, type_ = node["data"], node.type
                assert isinstance(data, Blob) and isinstance(type_, Tensor)
                return (Value(type_, "const", data=data, label=label),)
            case "tuple":
                return tuple(value for values in inputs for value in values)
            case "item":
                source = node.inputs[0].type
                assert isinstance(source, Tuple)
                counts = [sum(1 for _ in tensors(each)) for each in source.items]
                index = _int(node["index"])
                start = sum(counts[:index])
                return inputs[0][start : start + counts[index]]
            case "call":
                return self._call(node, inputs, dims, label)
            case "if" if node.inputs[0].kind == "const":
                return _Layer(self._flow, self._known, self._path).run(_taken(node), dims, _flat(inputs[1:]))
        if node.kind == "map" and (found := _mapped(node, self._known)) is not None:
            return self._mapped(node, found, inputs, dims, label)
        made = Apply(node.kind, _flat(inputs), (), node, dims=dims, label=self._label(label))
        return self._apply(made, inputs, dims)

    def _call(
        self, node: Node, inputs: Sequence[tuple[Value, ...]], dims: tuple[Dim, ...], label: str
    ) -> tuple[Value, ...]:
        function, sizes = _callee(node, dims)
        if plain_name(function) not in self._known:
            path = f"{self._label(label)}." if label else self._path
            return _Layer(self._flow, self._known, path).run(function, sizes, _flat(inputs))
        made = Apply(
            plain_name(function),
            _flat(inputs),
            (),
            node,
            function,
            sizes,
            mapped=(False,) * len(_flat(inputs)),
            label=self._label(label),
        )
        return self._apply(made, inputs, dims)

    def _mapped(
        self,
        node: Node,
        found: "_Mapped",
        inputs: Sequence[tuple[Value, ...]],
        dims: tuple[Dim, ...],
        label: str,
    ) -> tuple[Value, ...]:
        function, sizes = _callee(found.call, dims)
        arguments: list[Value] = []
        mapped: list[bool] = []
        leaves = _flat(inputs)
        for source in found.sources:
            if isinstance(source, Node):
                data, type_ = source["data"], source.type
                assert isinstance(data, Blob) and isinstance(type_, Tensor)
                arguments.append(Value(type_, "const", data=data))
                mapped.append(False)
            else:
                arguments.append(leaves[source[0]])
                mapped.append(source[1])
        made = Apply(
            plain_name(function),
            tuple(arguments),
            (),
            node,
            function,
            sizes,
            tuple(count.substitute(dims) for count in found.lead),
            tuple(mapped),
            self._label(label),
        )
        return self._apply(made, inputs, dims)

    def _apply(self, apply: Apply, inputs: Sequence[tuple[Value, ...]], dims: tuple[Dim, ...]) -> tuple[Value, ...]:
        """Append an application, with values for the leaves of its node."""
        leaves = tensors(substitute(apply.node.type, dims))
        results = tuple(Value(leaf, "made", label=apply.label) for leaf in leaves)
        self._flow.applies.append(replace(apply, results=results, inputs=_flat(inputs), setting=dims))
        return results

    def _label(self, label: str) -> str:
        return f"{self._path}{label}"


@dataclass(frozen=True, slots=True)
class _Mapped:
    """A nest of maps around one call. sources: for each argument leaf of the call a leaf of the outer map's inputs and
    whether it is walked by all maps; or a constant that stands in the body."""

    call: Node
    lead: tuple[Dim, ...]
    sources: tuple["tuple[int, bool] | Node", ...]


def _mapped(node: Node, known: frozenset[str]) -> _Mapped | None:
    """Return the nest if the map does nothing but call a known function; its dims are those of the setting."""
    body, count, mapped = node["body"], node["count"], _int(node["mapped"])
    assert isinstance(body, Function) and isinstance(count, Dim)
    work = [each for each in walk(body.result) if each.kind not in ("param", "const", "item", "tuple")]
    if len(work) != 1 or any(not isinstance(p.type, Tensor) for p in body.params):
        return None
    (only,) = work
    if not _is_whole(body.result, only):
        return None
    if only.kind == "call" and plain_name(_function(only)) in known:
        inner = _Mapped(only, (), tuple(_places(only)))
    elif only.kind == "map":
        nest = _mapped(only, known)
        if nest is None:
            return None
        inner = nest
    else:
        return None
    sources: list[tuple[int, bool] | Node] = []
    for source in inner.sources:
        if isinstance(source, Node):
            sources.append(source)
            continue
        place, all_walked = source
        outer = only.inputs[place] if only.kind == "map" else _leaf_source(only, place)
        if isinstance(outer, Node) and outer.kind == "const":
            sources.append(outer)
            continue
        if outer is None or outer.kind != "param":
            return None
        index = _int(outer["index"])
        is_walked = index < mapped
        if inner.lead and is_walked != all_walked:
            return None  # walked by one map and captured by another
        sources.append((index, is_walked))
    return _Mapped(inner.call, (count, *inner.lead), tuple(sources))


def _places(call: Node) -> Iterator[tuple[int, bool]]:
    leaves = [leaf for each in call.inputs for leaf in tensors(each.type)]
    return ((k, False) for k in range(len(leaves)))


def _leaf_source(call: Node, place: int) -> Node | None:
    """Return the node that gives leaf `place` of a call's arguments, or None if it is a part of a tuple."""
    at = 0
    for given in call.inputs:
        leaves = [given] if given.kind != "tuple" else list(given.inputs)
        if given.kind != "tuple" and not isinstance(given.type, Tensor):
            return None
        if place < at + len(leaves):
            return leaves[place - at]
        at += len(leaves)
    return None


def _is_whole(result: Node, made: Node) -> bool:
    """Whether a result is all leaves of a node in order."""
    if result is made:
        return True
    if result.kind != "tuple" or not isinstance(made.type, Tuple):
        return False
    items = [(i.kind, i.inputs[0].id, i["index"]) for i in result.inputs if i.kind == "item"]
    return items == [("item", made.id, k) for k in range(len(made.type.items))] and len(items) == len(result.inputs)


def _taken(node: Node) -> Function:
    """Return the branch that an `if` of a known condition takes."""
    data = node.inputs[0]["data"]
    assert isinstance(data, Blob)
    chosen = node["then" if any(bytes(data.read())) else "otherwise"]
    assert isinstance(chosen, Function)
    return chosen


def _callee(call: Node, dims: Sequence[Dim]) -> tuple[Function, tuple[Dim, ...]]:
    given = call["dims"]
    assert isinstance(given, tuple)
    return _function(call), tuple(size.substitute(dims) for size in given if isinstance(size, Dim))


def _function(call: Node) -> Function:
    (found,) = functions_of(call)
    return found


def _flat(inputs: Sequence[tuple[Value, ...]]) -> tuple[Value, ...]:
    return tuple(value for values in inputs for value in values)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value
