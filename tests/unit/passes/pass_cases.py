"""What the tests of the passes share: values of every element, evaluation, and the comparison bit for bit."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bittern.graph.evaluate import evaluate
from bittern.graph.node import Attribute, Function, Node, Parameter, const, node, param, walk
from bittern.graph.rules import check, result_type
from bittern.lang.library import Library
from bittern.lang.source import Source
from bittern.passes.rewriting import bodies_of
from bittern.passes.run import run_passes
from bittern.passes.table import Context, passes
from bittern.types.elements import BIT, ELEMENTS, F32, U32, Element, Kind
from bittern.types.values import Tensor, Tuple, Type, storage_shape, tensor

Array = np.ndarray[Any, Any]

PLAIN = tuple(e for e in ELEMENTS.values() if not e.is_format)
SMALL = tuple(e for e in PLAIN if e.bits <= 8 and not e.is_float)
EDGES_32 = (
    *(0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001),
    *(0xFF800001, 0x7FFFFFFF, 0xFFC12345, 0x00000001, 0x80000001, 0x7F7FFFFF, 0x00800000, 0x4B000001, 0xCB000003),
    *(0x3F000000, 0xBF000000, 0x3FC00000, 0x40200000, 0xC0200000, 0x4F000000, 0x42F70001, 0xC2F6FFFF),
)


def values(element: Element) -> Array:
    """Return every value of an element of 8 bits and fewer, else its edges and some at random."""
    if element.kind is Kind.BIT:
        return np.array([False, True])
    if element.kind is Kind.SIGN:
        return np.array([-1, 1] if element.name == "b1" else [-1, 0, 1], np.int8)
    if element.is_float:
        return _floats(element)
    if element.bits <= 8:
        return np.arange(element.low, element.high + 1).astype(element.dtype)
    rng = np.random.default_rng(element.bits)
    edges = {element.low, element.high, 0, 1, 2, 3, element.high - 1, element.low + 1, element.high // 2, 100, 255, 256}
    random = rng.integers(element.low, element.high, 20, np.dtype(element.storage), endpoint=True)
    return np.unique(np.concatenate([np.array(sorted(edges), element.dtype), random]))


def _floats(element: Element) -> Array:
    if element.bits == 8:
        return np.arange(256).astype(np.uint8)
    if element.bits == 16:
        bits: Array = np.arange(1 << 16).astype(np.uint16)
        return bits if element.name == "bf16" else bits.view(np.float16)
    edges = np.array(EDGES_32, np.uint32)
    if element.bits == 32:
        return edges.view(np.float32)
    wide = edges.astype(np.uint64) << np.uint64(32)
    return np.concatenate([wide, wide | np.uint64(1)]).view(np.float64)


def mesh(columns: dict[str, Array]) -> dict[str, Array]:
    """Return all combinations of the values of some names, as arrays of one length."""
    grids = np.meshgrid(*columns.values(), indexing="ij")
    return {name: np.ascontiguousarray(grid.reshape(-1)) for name, grid in zip(columns, grids, strict=True)}


def raw(value: Any) -> Any:
    """Return dtype, shape and bytes of an array, or of each of several."""
    if isinstance(value, tuple):
        return tuple(map(raw, value))
    array = np.asarray(value)
    return array.dtype.str, array.shape, array.tobytes()


def same_bits(left: Any, right: Any) -> bool:
    """Whether two results have the same elements, shapes and bits, those of NaNs included."""
    return bool(raw(left) == raw(right))


def function(params: Sequence[Type], make: Any, dims: int = 0, modes: Sequence[str] = ()) -> Function:
    """Return a checked function; make: from its parameter nodes to the result."""
    nodes = [param(place, type_) for place, type_ in enumerate(params)]
    chosen = [*modes, *[""] * (len(params) - len(modes))]
    made = Function(dims, tuple(map(Parameter, params, chosen)), make(*nodes))
    check(made)
    return made


def op(kind: str, *inputs: Node, **attributes: Attribute) -> Node:
    """Return a node of an op, typed by its rule."""
    return node(kind, inputs, attributes, result_type(kind, [i.type for i in inputs], attributes))


def word(value: int) -> Node:
    """Return a u32."""
    return const(value, U32)


def leaves(type_: Type) -> Iterator[Tensor]:
    """Yield the tensors of a type."""
    if isinstance(type_, Tuple):
        for each in type_.items:
            yield from leaves(each)
    else:
        assert isinstance(type_, Tensor)
        yield type_


def random_array(rng: np.random.Generator, type_: Tensor) -> Array:
    """Return random values of a type of constant shape; floats with zeros of both signs, infinities and NaN."""
    element, shape = type_.element, storage_shape(type_)
    if element.is_format:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    if element.name in ("f16", "f32", "f64"):
        made = (rng.standard_normal(shape) * rng.choice([1.0, 10.0])).astype(element.storage)
        odd = rng.choice(np.array([0.0, -0.0, np.inf, -np.inf, np.nan], element.storage), shape)
        return np.where(rng.random(shape) < 0.05, odd, made).astype(element.storage)
    if element.is_float:
        return rng.integers(0, 1 << element.bits, shape).astype(element.storage)
    if element.name == "b1":
        return (2 * rng.integers(0, 2, shape) - 1).astype(np.int8)
    high = min(element.high, int(rng.choice([7, 255, 1 << 30])))
    return rng.integers(max(element.low, -high), high, shape, np.int64, endpoint=True).astype(element.storage)


def arguments_for(given: Function, seed: int) -> list[Array]:
    """Return random arguments for a function without dimension parameters."""
    rng = np.random.default_rng(seed)
    return [random_array(rng, leaf) for parameter in given.params for leaf in leaves(parameter.type)]


def agree(left: Function, right: Function, seeds: int = 3) -> bool:
    """Whether two functions without dimension parameters give the same bits for random arguments."""
    for seed in range(seeds):
        arguments = arguments_for(left, seed)
        kept = [a.copy() for a in arguments]
        if not same_bits(evaluate(left, arguments), evaluate(right, kept)):
            return False
    return True


WORD, FLAG, FLOAT = tensor(U32), tensor(BIT), tensor(F32)
FOUR = tensor(U32, 4)


def body(types: Sequence[Tensor], make: Callable[..., Node], modes: Sequence[str] = ()) -> Function:
    """Return a body of a structural node."""
    return function(types, make, modes=modes)


def kinds(of: Function) -> list[str]:
    """Return the kinds of all nodes, those of bodies too."""
    found = []
    for n in walk(of.result):
        found.append(n.kind)
        for inner in bodies_of(n):
            found += kinds(inner)
    return found


def few(n: Node) -> Node:
    """Return a number of rounds below 5."""
    return op("rem", n, word(5))


def only(name: str, of: Function, *others: str) -> Function:
    """Return what one pass (and others) makes of a function, and show that nothing else changed."""
    made = run_passes(of, only=[name, *others])
    check(made)
    assert made.params == of.params and agree(of, made)
    for fact in passes()[name].gives:
        assert fact.against(made, Context()) is None
    return made


def program(text: str, name: str) -> Function:
    """Return a function of a text in the language."""
    library = Library.standard()
    library.add("program", [Source("program.btn", text)])
    return library.function(f"program.{name}")
