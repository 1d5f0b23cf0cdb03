"""Random small graphs, from a seed: every structural kind, nested, over u32 and f32 scalars, vectors and matrices.

`grow(seed)` gives a function and arguments for it. Values are made from a pool of nodes by rules of the form
(result type, needed types); bodies of structural nodes are grown from the types of what they capture.
"""

from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from bittern.graph.node import (
    Function,
    Node,
    Parameter,
    call,
    choose,
    const,
    fold,
    item,
    make_tuple,
    map_over,
    node,
    param,
    repeat,
)
from bittern.types.dims import dim
from bittern.types.elements import BIT, F32, U32
from bittern.types.values import Tensor, tensor

N, M = 4, 3
WORD, FLOAT, FLAG = tensor(U32), tensor(F32), tensor(BIT)
WORDS, FLOATS, TABLE = tensor(U32, N), tensor(F32, N), tensor(U32, M, N)
TYPES = (WORD, FLOAT, FLAG, WORDS, FLOATS, TABLE)


class Garden:
    """A pool of nodes in one function. depth: how many structural nodes may still nest."""

    def __init__(self, rng: Random, params: Sequence[Tensor], depth: int) -> None:
        self.rng, self.depth = rng, depth
        self.pool = [param(place, type_) for place, type_ in enumerate(params)]

    def pick(self, type_: Tensor) -> Node:
        """Return some node of the type; one that was made late more often than not."""
        found = [current for current in self.pool if current.type == type_]
        if not found or self.rng.random() < 0.05:
            self.pool.append(constant(self.rng, type_))
            return self.pool[-1]
        return found[-1] if self.rng.random() < 0.6 else self.rng.choice(found)

    def small(self) -> Node:
        """Return a u32 scalar below 4."""
        return node("and", [self.pick(WORD), const(3, U32)], {}, WORD)

    def grow(self, steps: int) -> None:
        """Add nodes to the pool."""
        for _ in range(steps):
            rules = PRIMITIVE if self.depth <= 0 or self.rng.random() < 0.6 else STRUCTURAL
            self.pool.append(self.rng.choice(rules)(self))

    def function(self, params: Sequence[Tensor], results: Sequence[Tensor], steps: int | None = None) -> Function:
        """Return a random function of these types."""
        inner = Garden(self.rng, params, self.depth - 1)
        inner.grow(self.rng.randint(2, 8) if steps is None else steps)
        if self.rng.random() < 0.7:
            inner.pool += [UPDATING[type_](inner) for type_ in results if type_ in UPDATING]
        leaves = [inner.gathered(type_) for type_ in results]
        result = leaves[0] if len(leaves) == 1 else make_tuple(leaves)
        return Function(0, tuple(Parameter(type_) for type_ in params), result)

    def sinks(self) -> list[Node]:
        """Return the nodes that no other node reads, without parameters."""
        used = {source.id for current in self.pool for source in current.inputs}
        return [current for current in self.pool if current.id not in used and current.kind != "param"]

    def gathered(self, type_: Tensor) -> Node:
        """Return some node of the type, mostly one into which the unread words of this type went."""
        chosen = self.pick(type_)
        if type_.element != U32 or self.rng.random() < 0.3:
            return chosen
        for sink in self.sinks():
            if sink.type == type_ and sink.id != chosen.id:
                chosen = node("xor", [sink, chosen], {}, type_)
        return chosen

    def captures(self) -> list[Node]:
        """Return a few nodes for a body to see."""
        return [self.pick(self.rng.choice(TYPES)) for _ in range(self.rng.randint(0, 3))]

    def one_of(self, value: Node, results: Sequence[Tensor]) -> Node:
        """Put all leaves of a structural node in the pool; return one."""
        if len(results) == 1:
            return value
        leaves = [item(value, place) for place in range(len(results))]
        self.pool += leaves
        return self.rng.choice(leaves)


def constant(rng: Random, type_: Tensor) -> Node:
    """Return a random constant node."""
    return const(array(rng, type_), type_.element)


def array(rng: Random, type_: Tensor) -> np.ndarray:
    """Return a random array of a type, with awkward values among the usual ones."""
    shape = tuple(size.value(()) for size in type_.shape)
    count = int(np.prod(shape, dtype=int))
    if type_.element == FLAG.element:
        values = [rng.random() < 0.5 for _ in range(count)]
    elif type_.element == F32:
        values = [rng.choice([rng.uniform(-4, 4), 0.0, -0.0, 1e30, float("inf"), 1e-40]) for _ in range(count)]
    else:
        values = [rng.choice([rng.randrange(6), rng.getrandbits(32)]) for _ in range(count)]
    return np.array(values, np.dtype(type_.element.storage)).reshape(shape)


def _binary(kind: str, type_: Tensor, result: Tensor | None = None) -> "Rule":
    return lambda g: node(kind, [g.pick(type_), g.pick(type_)], {}, result or type_)


def _row(kind: str, needed: Sequence[Tensor], result: Tensor, **attributes: object) -> "Rule":
    return lambda g: node(kind, [g.pick(type_) for type_ in needed], attributes, result)


def _update(g: Garden) -> Node:
    return node("update", [g.pick(WORDS), g.small(), g.pick(WORD)], {}, WORDS)


def _update_table(g: Garden) -> Node:
    kind = g.rng.choice(["row", "cell"])
    if kind == "row":
        return node("update", [g.pick(TABLE), g.small(), g.pick(WORDS)], {}, TABLE)
    return node("update", [g.pick(TABLE), g.small(), g.small(), g.pick(WORD)], {}, TABLE)


def _scatter(g: Garden) -> Node:
    places = node("and", [g.pick(WORDS), const([3] * N, U32)], {}, WORDS)
    return node(g.rng.choice(["scatter", "scatter_add"]), [g.pick(WORDS), places, g.pick(WORDS)], {}, WORDS)


def _take(g: Garden) -> Node:
    return node("take", [g.pick(WORDS), g.small()], {}, WORD)


def _take_row(g: Garden) -> Node:
    return node("take", [g.pick(TABLE), g.small()], {}, WORDS)


def _halves(g: Garden) -> Node:
    half = tensor(U32, 2)
    first = node("slice", [g.pick(WORDS)], {"axis": 0, "low": dim(0), "high": dim(2), "stride": 1}, half)
    second = node("slice", [g.pick(WORDS)], {"axis": 0, "low": dim(2), "high": dim(4), "stride": 1}, half)
    return node("concat", [second, first], {"axis": 0}, WORDS)


def _map_vector(g: Garden) -> Node:
    element = g.rng.choice([WORD, FLOAT])
    results = g.rng.choice([[WORD], [FLOAT], [WORD, FLOAT]])
    captures = g.captures()
    body = g.function([element, WORD, *(c.type for c in captures)], results)
    array_type = WORDS if element == WORD else FLOATS
    value = map_over(body, dim(N), [g.pick(array_type), g.pick(WORDS)], captures)
    return g.one_of(value, [WORDS if type_ == WORD else FLOATS for type_ in results])


def _map_table(g: Garden) -> Node:
    captures = g.captures()
    body = g.function([WORDS, *(c.type for c in captures)], [WORDS])
    return map_over(body, dim(M), [g.pick(TABLE)], captures)


def _for(g: Garden) -> Node:
    carries = [g.rng.choice([WORD, WORDS, WORDS, TABLE, FLOATS]) for _ in range(g.rng.randint(1, 2))]
    captures = g.captures()
    body = g.function([WORD, *carries, *(c.type for c in captures)], carries)
    low = const(0, U32) if g.rng.random() < 0.5 else g.small()
    high = const(g.rng.randint(0, 3), U32) if g.rng.random() < 0.5 else g.small()
    return g.one_of(fold(body, low, high, [g.pick(type_) for type_ in carries], captures), carries)


def _while(g: Garden) -> Node:
    carries = [g.rng.choice([WORD, WORDS, TABLE]) for _ in range(g.rng.randint(1, 2))]
    captures = g.captures()
    kinds = [*carries, *(c.type for c in captures)]
    body, test = g.function(kinds, carries), g.function(kinds, [FLAG])
    return g.one_of(repeat(test, body, g.small(), [g.pick(type_) for type_ in carries], captures), carries)


def _if(g: Garden) -> Node:
    results = [g.rng.choice(TYPES) for _ in range(g.rng.randint(1, 2))]
    captures = g.captures()
    kinds = [c.type for c in captures]
    then, otherwise = g.function(kinds, results), g.function(kinds, results)
    return g.one_of(choose(g.pick(FLAG), then, otherwise, captures), results)


def _call(g: Garden) -> Node:
    results = [g.rng.choice(TYPES) for _ in range(g.rng.randint(1, 2))]
    arguments = g.captures()
    steps = g.rng.choice([1, 3, 8])
    return g.one_of(call(g.function([a.type for a in arguments], results, steps), arguments), results)


Rule = Callable[[Garden], Node]

PRIMITIVE: list[Rule] = [
    _binary("add", WORD),
    _binary("mul", WORD),
    _binary("xor", WORDS),
    _binary("add", WORDS),
    _binary("add", FLOATS),
    _binary("mul", FLOATS),
    _binary("sub", FLOAT),
    _binary("max", FLOATS),
    _binary("lt", WORD, FLAG),
    _binary("eq", WORD, FLAG),
    _row("select", [FLAG, WORD, WORD], WORD),
    _row("sum", [FLOATS], FLOAT),
    _row("sum", [WORDS], WORD),
    _row("convert", [WORD], FLOAT, to=F32),
    _row("reverse", [WORDS], WORDS, axis=0),
    _row("reshape", [WORDS], WORDS, shape=(dim(N),)),
    _row("broadcast", [WORDS], TABLE, shape=(dim(M),)),
    _row("fill", [WORD], WORDS, shape=(dim(N),)),
    _row("fill", [WORD], TABLE, shape=(dim(M), dim(N))),
    _row("iota", [], WORDS, count=dim(N)),
    _update,
    _update,
    _update_table,
    _scatter,
    _take,
    _take_row,
    _halves,
]
STRUCTURAL: list[Rule] = [_map_vector, _map_table, _for, _while, _if, _call]


UPDATING: dict[Tensor, Rule] = {WORDS: _update, TABLE: _update_table}


def grow(seed: int, steps: int = 10, depth: int = 3) -> tuple[Function, list[np.ndarray]]:
    """Return a random function whose results are all that it makes, and arguments for it."""
    rng = Random(seed)
    params = [rng.choice(TYPES) for _ in range(4)]
    garden = Garden(rng, params, depth)
    garden.grow(steps)
    result = make_tuple([*garden.sinks(), *(garden.pick(rng.choice(TYPES)) for _ in range(3))])
    function = Function(0, tuple(Parameter(type_) for type_ in params), result)
    return function, [array(rng, type_) for type_ in params]
