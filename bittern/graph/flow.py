"""How values flow through a function: straight-line order, last uses, and what may share memory.

In comes a function, out comes a `Body`: its nodes as a list of instructions over numbered leaves, tuples dissolved.
Leaf numbers: the leaves of the parameters first, then the outputs of each instruction.

Three facts about a function let a caller decide whether an array may be overwritten, without knowing dimensions:
`views`, which parameters a result may be a view of; `flows`, the same when updates happen in place; `consumed`, which
parameters an update in it, or in what it calls, would like to overwrite. All three only ever say too much.

Order. An in-place update of x must come after every read of x that does not depend on it. So an instruction that
consumes x is moved behind those reads, as far as dependence allows; where it does not, the update copies.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from bittern.graph.node import Function, Node, functions_of, walk
from bittern.types.dims import Dim
from bittern.types.values import Tensor, Tuple, Type

Leaves: TypeAlias = frozenset[int]

UPDATES = ("update", "scatter", "scatter_add")


def _kinds(names: str) -> frozenset[str]:
    return frozenset(names.split())


FRESH = _kinds(  # the result never shares memory with an operand
    """add sub mul div rem min max add_sat sub_sat mul_high neg abs sqrt round_even floor ceil trunc eq ne lt le select
    and or xor not popcount clz ctz shl shr rotl rotr extract deposit concat stack pad iota size pack unpack lookup
    sum product max_of min_of argmax argmin all_of any_of xor_of dot scan_sum scan_max scan_xor
    exp log pow sin cos tanh erf"""
)
_FIRST = _kinds(  # it may be a view of the first operand only
    """reshape permute reverse slice broadcast windows take dynamic_slice blocks fill move bits reverse_bits
    reverse_bytes from_bits"""
)
_CONVERT = _kinds("convert wrap sat round sign")  # a view only where nothing changes


@dataclass(frozen=True, slots=True)
class Instruction:
    """One node that computes. inputs, outputs: leaf numbers. dying: leaves that nothing reads afterwards.

    consumed: positions in `inputs` that it would like to overwrite. symbols: the dimension parameters that it names.
    """

    node: Node
    inputs: tuple[int, ...]
    outputs: range
    dying: tuple[int, ...]
    consumed: tuple[int, ...]
    symbols: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """A function in straight-line form.

    params: number of parameter leaves. unused: those that nothing reads. leaves: number of all leaves.
    """

    params: int
    unused: tuple[int, ...]
    leaves: int
    instructions: tuple[Instruction, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """What a caller may assume. views, flows: for each result leaf, parameter leaves. size: a weight for inlining."""

    body: Body
    views: tuple[Leaves, ...]
    flows: tuple[Leaves, ...]
    consumed: Leaves
    size: int


@dataclass(slots=True)
class _Draft:
    node: Node
    inputs: tuple[int, ...]
    outputs: range


def leaf_types(type_: Type) -> list[Type]:
    """Return the leaves of a type, in order."""
    if isinstance(type_, Tuple):
        return [leaf for item in type_.items for leaf in leaf_types(item)]
    return [type_]


def leaf_count(nodes: Sequence[Node]) -> int:
    """Return how many leaves the values of these nodes have together."""
    return sum(len(leaf_types(current.type)) for current in nodes)


class Flow:
    """Summaries of functions, each made once. ideal: a callee's `ideal` body is what runs, where there is one."""

    def __init__(self, ideal: bool) -> None:
        self._ideal = ideal
        self._known: dict[bytes, Summary] = {}

    def target(self, function: Function) -> Function:
        """Return the function whose graph a call of `function` runs."""
        return function.ideal if self._ideal and function.ideal is not None else function

    def summary(self, function: Function) -> Summary:
        """Return the facts about a function's own graph (not its `ideal` body)."""
        known = self._known.get(function.id)
        if known is None:
            known = self._known[function.id] = self._summarise(function)
        return known

    def _summarise(self, function: Function) -> Summary:
        params, drafts, results = _straighten(function)
        total = drafts[-1].outputs.stop if drafts else params
        views = self._aliases(drafts, params, total, lambda draft: self._shared(draft.node, "views"))
        flows = self._aliases(drafts, params, total, lambda draft: self._shared(draft.node, "flows"))
        drafts = self._ordered(drafts, views)
        taken = (flows[draft.inputs[i]] for draft in drafts for i in self._consumed(draft.node))
        own = frozenset(range(params))
        consumed = own & frozenset().union(*taken)
        body = self._finish(params, drafts, results, total)
        return Summary(
            body,
            tuple(views[leaf] & own for leaf in results),
            tuple(flows[leaf] & own for leaf in results),
            consumed,
            sum(self._weight(draft.node) for draft in drafts),
        )

    def _finish(self, params: int, drafts: list[_Draft], results: tuple[int, ...], total: int) -> Body:
        seen = set(results)
        backwards = []
        for draft in reversed(drafts):
            dying = tuple(sorted({*draft.inputs, *draft.outputs} - seen))
            seen.update(draft.inputs)
            node = draft.node
            consumed = tuple(sorted(self._consumed(node)))
            backwards.append(Instruction(node, draft.inputs, draft.outputs, dying, consumed, _symbols(node)))
        unused = tuple(leaf for leaf in range(params) if leaf not in seen)
        return Body(params, unused, total, tuple(reversed(backwards)), results)

    def _aliases(
        self, drafts: list[_Draft], params: int, total: int, shared: Callable[[_Draft], Sequence[Leaves]]
    ) -> list[Leaves]:
        """Return for each leaf the leaves of whose memory it may be a view; a fresh leaf stands for itself."""
        roots = [frozenset((leaf,)) for leaf in range(total)]
        for draft in drafts:
            for leaf, positions in zip(draft.outputs, shared(draft), strict=True):
                if positions:
                    roots[leaf] = frozenset().union(*(roots[draft.inputs[i]] for i in positions))
        assert len(roots) >= params
        return roots

    def _shared(self, node: Node, fact: str) -> Sequence[Leaves]:
        """Return for each output leaf the positions of inputs whose memory it may share."""
        count = len(leaf_types(node.type))
        if node.kind == "call":
            return self._fact(self.target(_function(node, "function")), fact)
        if node.kind == "if":
            pair = zip(
                self._fact(_function(node, "then"), fact), self._fact(_function(node, "otherwise"), fact), strict=True
            )
            return [frozenset(1 + i for i in (*a, *b)) for a, b in pair]
        if node.kind == "map":
            return self._fact(_function(node, "body"), fact)
        if node.kind in ("for", "while"):
            before, skipped = (2, 1) if node.kind == "for" else (1, 0)
            through = closure_of_carries(self._fact(_function(node, "body"), fact), count, skipped)
            return [frozenset(before + i for i in sources) for sources in through]
        if node.kind in UPDATES:
            return [frozenset((0,)) if fact == "flows" else frozenset()]
        return [viewed(node, self._ideal)] * count

    def _fact(self, function: Function, fact: str) -> tuple[Leaves, ...]:
        summary = self.summary(function)
        return summary.views if fact == "views" else summary.flows

    def _consumed(self, node: Node) -> Leaves:
        if node.kind in UPDATES:
            return frozenset((0,))
        if node.kind == "call":
            return self.summary(self.target(_function(node, "function"))).consumed
        if node.kind == "map":
            return self.summary(_function(node, "body")).consumed
        if node.kind == "if":
            branches = (self.summary(_function(node, name)).consumed for name in ("then", "otherwise"))
            return frozenset(1 + i for taken in branches for i in taken)
        if node.kind in ("for", "while"):
            before, skipped = (2, 1) if node.kind == "for" else (1, 0)
            body = self.summary(_function(node, "body"))
            return frozenset(before + j for j in consumed_carries(body, len(leaf_types(node.type)), skipped))
        return frozenset()

    def _weight(self, node: Node) -> int:
        if node.kind == "call":
            return 1 + self.summary(self.target(_function(node, "function"))).size
        return 1 + sum(self.summary(body).size for body in functions_of(node))

    def _ordered(self, drafts: list[_Draft], roots: list[Leaves]) -> list[_Draft]:
        """Move reads of what an instruction consumes in front of it, where they do not depend on it."""
        order = list(drafts)
        settled: set[int] = set()
        place = 0
        while place < len(order):
            current = order[place]
            taken = [roots[current.inputs[i]] for i in self._consumed(current.node)]
            if not taken or id(current) in settled:
                place += 1
                continue
            settled.add(id(current))
            early = self._reads_to_move(order, place, frozenset().union(*taken), roots)
            if early:
                late = [draft for draft in order[place:] if id(draft) not in early]
                order[place:] = [draft for draft in order[place:] if id(draft) in early] + late
        return order

    def _reads_to_move(self, order: list[_Draft], place: int, taken: Leaves, roots: list[Leaves]) -> set[int]:
        after = set(order[place].outputs)  # leaves that depend on the consuming instruction
        maker: dict[int, _Draft] = {}
        wanted: list[_Draft] = []
        for draft in order[place + 1 :]:
            if any(leaf in after for leaf in draft.inputs):
                after.update(draft.outputs)
                continue
            maker.update((leaf, draft) for leaf in draft.outputs)
            if any(not taken.isdisjoint(roots[leaf]) for leaf in draft.inputs):
                rival = any(not taken.isdisjoint(roots[draft.inputs[i]]) for i in self._consumed(draft.node))
                wanted += [] if rival else [draft]
        early: set[int] = set()
        while wanted:
            draft = wanted.pop()
            if id(draft) not in early:
                early.add(id(draft))
                wanted += [maker[leaf] for leaf in draft.inputs if leaf in maker]
        return early


def closure_of_carries(results: Sequence[Leaves], carries: int, skipped: int) -> list[Leaves]:
    """Return for each carry of a loop the inputs (carries first, then captures) that it may hold after any rounds.

    results: for each carry, the parameters of the body that its next value may be. skipped: parameters before the
    carries.
    """
    sources = [frozenset((j,)) for j in range(carries)]
    changed = True
    while changed:
        changed = False
        for j, result in enumerate(results):
            mine = sources[j]
            for parameter in result:
                i = parameter - skipped
                mine |= sources[i] if 0 <= i < carries else frozenset((i,)) if i >= carries else frozenset()
            changed |= mine != sources[j]
            sources[j] = mine
    return sources


def consumed_carries(body: Summary, carries: int, skipped: int) -> Leaves:
    """Return the carries whose arrays a round of the body, now or later, would like to overwrite."""
    taken = {i - skipped for i in body.consumed if 0 <= i - skipped < carries}
    return sources_of(taken, body.flows, carries, skipped)


def sources_of(taken: set[int], results: Sequence[Leaves], carries: int, skipped: int) -> Leaves:
    """Return `taken` and every carry whose array may become one of them in a later round."""
    known = set(taken)
    waiting = list(taken)
    while waiting:
        for parameter in results[waiting.pop()]:
            i = parameter - skipped
            if 0 <= i < carries and i not in known:
                known.add(i)
                waiting.append(i)
    return frozenset(known)


def viewed(node: Node, ideal: bool) -> Leaves:
    """Return the positions of the operands of which the result of a primitive op may be a view."""
    if node.kind in FRESH:
        return frozenset()
    if node.kind in _FIRST:
        return frozenset((0,))
    if node.kind in _CONVERT:
        source, result = node.inputs[0].type, node.type
        assert isinstance(source, Tensor) and isinstance(result, Tensor), node
        return frozenset((0,)) if ideal or source.element.storage == result.element.storage else frozenset()
    return frozenset(range(leaf_count(node.inputs)))


def _straighten(function: Function) -> tuple[int, list[_Draft], tuple[int, ...]]:
    starts, params = [], 0
    for parameter in function.params:
        starts.append(params)
        params += len(leaf_types(parameter.type))
    leaves: dict[bytes, tuple[int, ...]] = {}
    drafts: list[_Draft] = []
    free = params
    for node in walk(function.result):
        inputs = tuple(leaf for source in node.inputs for leaf in leaves[source.id])
        count = len(leaf_types(node.type))
        if node.kind == "param":
            index = node["index"]
            assert isinstance(index, int), node
            leaves[node.id] = tuple(range(starts[index], starts[index] + count))
        elif node.kind == "tuple":
            leaves[node.id] = inputs
        elif node.kind == "item":
            leaves[node.id] = inputs[_item_start(node) :][:count]
        else:
            drafts.append(_Draft(node, inputs, range(free, free + count)))
            leaves[node.id] = tuple(drafts[-1].outputs)
            free += count
    return params, drafts, leaves[function.result.id]


def _item_start(node: Node) -> int:
    whole, index = node.inputs[0].type, node["index"]
    assert isinstance(whole, Tuple) and isinstance(index, int), node
    return sum(len(leaf_types(item)) for item in whole.items[:index])


def _function(node: Node, name: str) -> Function:
    value = node[name]
    assert isinstance(value, Function), (node, name)
    return value


def _symbols(node: Node) -> tuple[int, ...]:
    found: set[int] = set()
    _collect(node, found, set())
    return tuple(sorted(found))


def _collect(node: Node, found: set[int], seen: set[bytes]) -> None:
    """Gather the symbols in a node's types and attributes, and in the bodies that use the same symbols."""
    for type_ in (node.type, *(source.type for source in node.inputs)):
        for leaf in leaf_types(type_):
            if isinstance(leaf, Tensor):
                found.update(*(size.symbols() for size in leaf.shape))
    for _, value in node.attributes:
        _collect_attribute(value, found)
    if node.kind != "call":
        for body in functions_of(node):
            if body.id not in seen:
                seen.add(body.id)
                for inner in walk(body.result):
                    _collect(inner, found, seen)


def _collect_attribute(value: object, found: set[int]) -> None:
    if isinstance(value, Dim):
        found.update(value.symbols())
    elif isinstance(value, tuple):
        for part in value:
            _collect_attribute(part, found)
