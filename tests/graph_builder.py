"""Random well-typed functions, the same for the same seed: all kinds, nested bodies, callees, facts, labels."""

from collections.abc import Sequence
from dataclasses import replace
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
    walk,
)
from bittern.graph.rewrite import replace_nodes
from bittern.lang.frame import is_closed
from bittern.types.dims import Dim, dim, symbol
from bittern.types.elements import BIT, F32, I32, U32, Element
from bittern.types.values import Tensor, Tuple, Type, tensor

N, M = symbol(0), symbol(1)
FACTS = ((N, dim(32)),)
SHAPES: tuple[tuple[Dim, ...], ...] = ((), (N,), (N // 32, dim(32)), (dim(4),), (M,))
PLAIN_SHAPES: tuple[tuple[Dim, ...], ...] = ((), (N * 32,), (N, dim(32)), (dim(4),), (M,))
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


def random_program(seed: int | Random, size: int = 16, depth: int = 2, names: int = 1) -> Function:
    """Return a function of a form that a program has: bodies take what they use, in order, and tuples are results."""
    rng = seed if isinstance(seed, Random) else Random(seed)
    types = [tensor(F32, N * 32), tensor(F32), *(_random_type(rng, PLAIN_SHAPES) for _ in range(rng.randrange(3)))]
    builder = _Builder(rng, types, depth, names, is_program=True)
    for _ in range(size):
        builder.step()
    last = builder.nodes[-rng.randrange(1, 4) :]
    result = last[0] if len(last) == 1 else make_tuple(last)
    made = builder.function(result, 2)
    modes = [rng.choice(["", "&", "own"]) for _ in types]
    return replace(made, params=tuple(Parameter(t, mode) for t, mode in zip(types, modes, strict=True)))


def random_body(
    rng: Random, types: Sequence[Type], want: Sequence[Type], depth: int, names: int, is_program: bool = False
) -> Function:
    """Return a body with these parameters whose result is one value of each type wanted."""
    builder = _Builder(rng, types, depth, names, is_program)
    for _ in range(rng.randrange(1, 6)):
        builder.step()
    chosen = [builder.of(type_) for type_ in want]
    return builder.function(chosen[0] if len(chosen) == 1 else make_tuple(chosen), 2)


def as_program(bodies: list[Function], first: int, captures: list[Node]) -> tuple[list[Function], list[Node]]:
    """Return bodies that take only the captures they use, in the order in which walks of their results meet them."""
    order: dict[int, None] = {}
    for body in bodies:
        for n in walk(body.result):
            if n.kind == "param" and n["index"] >= first:  # type: ignore[operator]
                order.setdefault(n["index"])  # type: ignore[arg-type]
    moved = {param(old, captures[old - first].type).id: param(first + new, captures[old - first].type)
             for new, old in enumerate(order)}  # fmt: skip
    kept = [captures[old - first] for old in order]
    return [
        replace(
            body,
            result=replace_nodes(body.result, moved),
            params=(*body.params[:first], *(Parameter(c.type) for c in kept)),
            labels=Labels(),
        )
        for body in bodies
    ], kept


def _random_type(rng: Random, shapes: Sequence[tuple[Dim, ...]] = SHAPES) -> Tensor:
    return Tensor(rng.choice(NUMBERS), rng.choice(shapes))


class _Builder:
    """Nodes so far, from which each step makes another one."""

    def __init__(self, rng: Random, types: Sequence[Type], depth: int, names: int, is_program: bool = False) -> None:
        self.is_program, self.long = is_program, N * 32 if is_program else N
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
        if self.is_program:
            actions.remove(self.group)
        if self.depth:
            actions += [self.call, self.map, self.fold, self.loop, self.branch]
        made = self.rng.choice(actions)()
        if self.is_program and isinstance(made.type, Tuple):
            self.nodes += [item(made, i) for i in range(len(made.type.items))]
        else:
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

    def capture(self) -> Node:
        """Return a value for a body to take; a program's body names a closed value itself."""
        found = self.some()
        while self.is_program and is_closed(found):
            found = self.rng.choice([n for n in self.nodes if n.kind == "param"])
        return found

    def bodies(self, first: int, captures: list[Node], *made: Function) -> tuple[list[Function], list[Node]]:
        """Return bodies and captures as they are, or in a program's form."""
        return as_program(list(made), first, captures) if self.is_program else (list(made), captures)

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
        x = self.of(tensor(self.rng.choice(NUMBERS), self.long))
        assert isinstance(x.type, Tensor)
        blocked = Tensor(x.type.element, (self.long // 32, dim(32)))
        return node("reshape", [x], {"shape": blocked.shape}, blocked)

    def leaf(self) -> Node:
        kind = self.rng.randrange(4)
        if kind == 0:
            return const([self.rng.uniform(-9, 9) for _ in range(4)], F32)
        if kind == 1:
            return const(self.rng.choice([0.0, -0.0, float("nan"), 1.5]), F32)
        if kind == 2:
            return node("size", [], {"value": N * self.rng.randrange(1, 5) + M}, tensor(U32))
        return node("iota", [], {"count": self.long}, tensor(U32, self.long))

    def group(self) -> Node:
        held = [x for x in self.nodes if x.kind not in ("tuple",) and isinstance(x.type, Tuple)]
        if held and self.rng.random() < 0.5:
            whole = self.rng.choice(held)
            assert isinstance(whole.type, Tuple)
            return item(whole, self.rng.randrange(len(whole.type.items)))
        return make_tuple([self.rng.choice(self.nodes) for _ in range(self.rng.randrange(2, 4))])

    def call(self) -> Node:
        make = random_program if self.is_program else random_function
        inner = make(self.rng, self.rng.randrange(2, 8), self.depth - 1, self.names)
        sizes = (N * self.rng.randrange(1, 3), self.rng.choice([M, N, dim(8)]))
        arguments = []
        for parameter in inner.params:
            assert isinstance(parameter.type, Tensor)
            shape = tuple(size.substitute(sizes) for size in parameter.type.shape)
            arguments.append(self.of(Tensor(parameter.type.element, shape)))
        return call(inner, arguments, sizes)

    def map(self) -> Node:
        x, captured = self.of(tensor(self.rng.choice(NUMBERS), self.long)), self.capture()
        assert isinstance(x.type, Tensor)
        row = Tensor(x.type.element)
        body = self.body([row, captured.type], [self.rng.choice([row, captured.type])], 0)
        (body,), captures = self.bodies(1, [captured], body)
        return map_over(body, self.long, [x], captures)

    def fold(self) -> Node:
        carries, captured = [self.some() for _ in range(self.rng.randrange(1, 3))], self.capture()
        types = [tensor(U32), *(c.type for c in carries), captured.type]
        body = self.body(types, [c.type for c in carries], self.depth - 1)
        (body,), captures = self.bodies(1 + len(carries), [captured], body)
        return fold(body, self.of(tensor(U32)), self.of(tensor(U32)), carries, captures)

    def loop(self) -> Node:
        carry, captured = self.some(), self.capture()
        types = [carry.type, captured.type]
        test = self.body(types, [tensor(BIT)], 0)
        body = self.body(types, [carry.type], self.depth - 1)
        (test, body), captures = self.bodies(1, [captured], test, body)
        return repeat(test, body, self.of(tensor(U32)), [carry], captures)

    def branch(self) -> Node:
        chosen = [self.capture() for _ in range(self.rng.randrange(1, 3))]
        captures = list({c.id: c for c in chosen}.values())
        types = [c.type for c in captures]
        then, otherwise = (self.body(types, types[:1], self.depth - 1) for _ in range(2))
        (then, otherwise), captures = self.bodies(0, captures, then, otherwise)
        return choose(self.of(tensor(BIT)), then, otherwise, captures)

    def body(self, types: Sequence[Type], want: Sequence[Type], depth: int) -> Function:
        return random_body(self.rng, types, want, depth, self.names, self.is_program)
