"""Random well-typed functions, the same for the same seed: all kinds, nested bodies, callees, facts, labels."""

from collections.abc import Sequence
from random import Random

from bittern.graph.node import (
    Function,
    Labels,
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
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import BIT, F32, I32, U32, Element
from bittern.types.values import Tensor, Tuple, Type, tensor

N, M = symbol(0), symbol(1)
FACTS = ((N, dim(32)),)
SHAPES: tuple[tuple[Dim, ...], ...] = ((), (N,), (N // 32, dim(32)), (dim(4),), (M,))
NUMBERS = (F32, I32, U32)


def random_function(seed: int | Random, size: int = 16, depth: int = 2, names: int = 1) -> Function:
    """Return a function of two dimension parameters with about `size` nodes of its own.

    depth: how deep bodies and callees nest. names: the seed of its labels, which never change an id; 0 for none.
    """
    rng = seed if isinstance(seed, Random) else Random(seed)
    types = [tensor(F32, N), tensor(F32), *(_random_type(rng) for _ in range(rng.randrange(3)))]
    builder = _Builder(rng, types, depth, names)
    for _ in range(size):
        builder.step()
    last = builder.nodes[-3:]
    result = last[0] if len(last) == 1 else make_tuple(last)
    ideal = random_body(rng, types, [result.type], 0, names) if rng.random() < 0.2 else None
    return builder.function(result, 2, FACTS, ideal)


def random_body(rng: Random, types: Sequence[Type], want: Sequence[Type], depth: int, names: int) -> Function:
    """Return a body with these parameters whose result is one value of each type wanted."""
    builder = _Builder(rng, types, depth, names)
    for _ in range(rng.randrange(1, 6)):
        builder.step()
    chosen = [builder.of(type_) for type_ in want]
    return builder.function(chosen[0] if len(chosen) == 1 else make_tuple(chosen), 2)


def _random_type(rng: Random) -> Tensor:
    return Tensor(rng.choice(NUMBERS), rng.choice(SHAPES))


class _Builder:
    """Nodes so far, from which each step makes another one."""

    def __init__(self, rng: Random, types: Sequence[Type], depth: int, names: int) -> None:
        self.rng, self.types, self.depth, self.names = rng, list(types), depth, names
        self.nodes: list[Node] = [param(i, t) for i, t in enumerate(types)]
        self.labels: list[bytes] = []

    def function(
        self, result: Node, dims: int, facts: tuple[tuple[Dim, Dim], ...] = (), ideal: Function | None = None
    ) -> Function:
        labels = Labels()
        if self.names:
            rng = Random(self.names)
            params = tuple(f"p{rng.randrange(1000)}" for _ in self.types)
            nodes = {key: f"v{rng.randrange(1000)}" for key in self.labels}
            lines = {key: (f"file{rng.randrange(3)}.btn", rng.randrange(99)) for key in self.labels}
            labels = Labels(f"f{rng.randrange(1000)}", ("n", "m"), params, nodes, lines)
        return Function(dims, tuple(Parameter(t) for t in self.types), result, facts, (), ideal, labels)

    def step(self) -> None:
        """Add one random node."""
        actions = [self.binary, self.unary, self.compare, self.select, self.shape, self.leaf, self.group]
        if self.depth:
            actions += [self.call, self.map, self.fold, self.loop, self.branch]
        made = self.rng.choice(actions)()
        self.nodes.append(made)
        if self.rng.random() < 0.5:
            self.labels.append(made.id)

    def of(self, type_: Type) -> Node:
        """Return some node of a type, a new one if there is none."""
        found = [x for x in self.nodes if x.type == type_]
        if found and self.rng.random() < 0.9:
            return self.rng.choice(found)
        if isinstance(type_, Tuple):
            return make_tuple([self.of(t) for t in type_.items])
        assert isinstance(type_, Tensor)
        value = const(self.rng.randrange(2 if type_.element is BIT else 50), type_.element)
        return node("fill", [value], {"shape": type_.shape}, type_) if type_.shape else value

    def some(self, elements: Sequence[Element] = NUMBERS) -> Node:
        """Return a random tensor of one of these elements."""
        found = [x for x in self.nodes if isinstance(x.type, Tensor) and x.type.element in elements]
        return self.rng.choice(found) if found else self.of(tensor(elements[0]))

    def binary(self) -> Node:
        x = self.some()
        return node(self.rng.choice(["add", "sub", "mul", "min", "max"]), [x, self.of(x.type)], {}, x.type)

    def unary(self) -> Node:
        x = self.some((F32, I32))
        return node(self.rng.choice(["neg", "abs"]), [x], {}, x.type)

    def compare(self) -> Node:
        x = self.some()
        assert isinstance(x.type, Tensor)
        return node(self.rng.choice(["eq", "lt", "le"]), [x, self.of(x.type)], {}, Tensor(BIT, x.type.shape))

    def select(self) -> Node:
        x = self.some()
        assert isinstance(x.type, Tensor)
        return node("select", [self.of(Tensor(BIT, x.type.shape)), x, self.of(x.type)], {}, x.type)

    def shape(self) -> Node:
        x = self.of(tensor(self.rng.choice(NUMBERS), N))
        assert isinstance(x.type, Tensor)
        blocked = Tensor(x.type.element, (N // 32, dim(32)))
        return node("reshape", [x], {"shape": blocked.shape}, blocked)

    def leaf(self) -> Node:
        kind = self.rng.randrange(4)
        if kind == 0:
            return const([self.rng.uniform(-9, 9) for _ in range(4)], F32)
        if kind == 1:
            return const(self.rng.choice([0.0, -0.0, float("nan"), 1.5]), F32)
        if kind == 2:
            return node("size", [], {"value": N * self.rng.randrange(1, 5) + M}, tensor(U32))
        return node("iota", [], {"count": N}, tensor(U32, N))

    def group(self) -> Node:
        held = [x for x in self.nodes if x.kind not in ("tuple",) and isinstance(x.type, Tuple)]
        if held and self.rng.random() < 0.5:
            whole = self.rng.choice(held)
            assert isinstance(whole.type, Tuple)
            return item(whole, self.rng.randrange(len(whole.type.items)))
        return make_tuple([self.rng.choice(self.nodes) for _ in range(self.rng.randrange(2, 4))])

    def call(self) -> Node:
        inner = random_function(self.rng, self.rng.randrange(2, 8), self.depth - 1, self.names)
        sizes = (N * self.rng.randrange(1, 3), self.rng.choice([M, N, dim(8)]))
        arguments = []
        for parameter in inner.params:
            assert isinstance(parameter.type, Tensor)
            shape = tuple(size.substitute(sizes) for size in parameter.type.shape)
            arguments.append(self.of(Tensor(parameter.type.element, shape)))
        return call(inner, arguments, sizes)

    def map(self) -> Node:
        x, captured = self.of(tensor(self.rng.choice(NUMBERS), N)), self.some()
        assert isinstance(x.type, Tensor)
        row = Tensor(x.type.element)
        body = random_body(self.rng, [row, captured.type], [self.rng.choice([row, captured.type])], 0, self.names)
        return map_over(body, N, [x], [captured])

    def fold(self) -> Node:
        carries, captured = [self.some() for _ in range(self.rng.randrange(1, 3))], self.some()
        types = [tensor(U32), *(c.type for c in carries), captured.type]
        body = random_body(self.rng, types, [c.type for c in carries], self.depth - 1, self.names)
        return fold(body, self.of(tensor(U32)), self.of(tensor(U32)), carries, [captured])

    def loop(self) -> Node:
        carry, captured = self.some(), self.some()
        types = [carry.type, captured.type]
        test = random_body(self.rng, types, [tensor(BIT)], 0, self.names)
        body = random_body(self.rng, types, [carry.type], self.depth - 1, self.names)
        return repeat(test, body, self.of(tensor(U32)), [carry], [captured])

    def branch(self) -> Node:
        captures = [self.some() for _ in range(self.rng.randrange(1, 3))]
        types = [c.type for c in captures]
        then, otherwise = (random_body(self.rng, types, types[:1], self.depth - 1, self.names) for _ in range(2))
        return choose(self.of(tensor(BIT)), then, otherwise, captures)
