"""Calls of library functions made up from their signatures: elements, dimensions and random arguments.

Every op is total, so any arguments that have the types will do. The oracle is the evaluator. Dimensions are the first
ones, small and odd, that satisfy the facts of the function and that the evaluator accepts.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError
from bittern.bitops.interpret import interpret
from bittern.graph.evaluate import evaluate
from bittern.graph.flow import leaf_types
from bittern.graph.node import Function, walk
from bittern.kernels.generic.lower import Lowered
from bittern.lang.library import Library, Module, mark
from bittern.lang.syntax import FunctionDecl
from bittern.std.catalogue import module_names
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor, storage_shape

Array = npt.NDArray[Any]
_ELEMENTS = {"type": ("f32", "u8", "i32"), "int": ("u32", "i16", "u8"), "float": ("f32", "f64"), "format": ("q4_0",)}
_SIZES = (3, 2, 32, 1, 256, 4, 8, 16, 64, 128, 5, 512, 0)
_TRIES = 20000
_MOST = 1 << 16  # elements of all arguments
_SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 0.5, 1.5, -2.5)


@dataclass(frozen=True)
class Case:
    """A function with its dimensions. name: `module.function`, with its elements."""

    name: str
    function: Function
    dims: tuple[int, ...]


def declared(library: Library) -> Iterator[tuple[str, Module, FunctionDecl]]:
    """Every function of the library, overloads each for itself."""
    for name in module_names():
        module = library.module(name)
        assert module is not None
        for function, members in module.functions.items():
            for member in members:
                marked = f"[{mark(member)}]" if len(members) > 1 else ""
                yield f"{name}.{function}{marked}", module, member


def instances(library: Library, name: str, declaration: FunctionDecl, most: int = 2) -> list[Function]:
    """Instances of a function for some elements; those with element parameters that stay open are left out."""
    path, _, marked = name.partition("[")
    kinds = [(g.name.name, g.kind) for g in declaration.generics if g.kind]
    found: list[Function] = []
    for choice in itertools.product(*(_ELEMENTS.get(str(kind), ()) for _, kind in kinds)):
        elements = dict(zip([n for n, _ in kinds], choice, strict=True))
        try:
            function = library.function(path, elements=elements, overload=marked[:-1] or None)
        except BitternError:
            continue
        if not is_open(function):
            found.append(function)
        if len(found) == most:
            break
    return found


def is_open(function: Function) -> bool:
    """Whether an element of the function is not known."""
    types = [p.type for p in function.params] + [n.type for n in walk(function.result)]
    if any(isinstance(t, Tensor) and t.element.kind is Kind.OPEN for type_ in types for t in leaf_types(type_)):
        return True
    return any(n.kind == "unknown" for n in walk(function.result))


def tensors(function: Function) -> list[Tensor]:
    """The leaves of the parameters."""
    return [t for p in function.params for t in leaf_types(p.type) if isinstance(t, Tensor)]


def dims_of(function: Function, count: int = 1, seed: int = 1) -> list[tuple[int, ...]]:
    """Dimensions for which the evaluator accepts the function."""
    found: list[tuple[int, ...]] = []
    for dims in itertools.islice(_choices(function.dims), _TRIES):
        if not _fits(function, dims):
            continue
        try:
            evaluate(function, arguments(function, dims, seed), dims)
        except (BitternError, ValueError, IndexError, AssertionError, ZeroDivisionError):
            continue
        found.append(dims)
        if len(found) == count:
            break
    return found


def _choices(count: int) -> Iterator[tuple[int, ...]]:
    """All dimensions, those whose sizes stand early in the list first."""
    for total in range(count * (len(_SIZES) - 1) + 1):
        for places in _summing(count, total):
            yield tuple(_SIZES[place] for place in places)


def _summing(count: int, total: int) -> Iterator[tuple[int, ...]]:
    if not count:
        if not total:
            yield ()
        return
    for first in range(min(total, len(_SIZES) - 1) + 1):
        for rest in _summing(count - 1, total - first):
            yield (first, *rest)


def _fits(function: Function, dims: Sequence[int]) -> bool:
    for top, bottom in function.facts:
        if not bottom.value(dims) or top.value(dims) % bottom.value(dims):
            return False
    total = 0
    for n in walk(function.result):
        for type_ in leaf_types(n.type):
            if isinstance(type_, Tensor):
                shape = [size.value(dims) for size in type_.shape]
                if any(size < 0 for size in shape):
                    return False
                if type_.element.is_format and shape[-1] % type_.element.columns:
                    return False
                total = max(total, prod(shape))
    return total <= _MOST


def arguments(function: Function, dims: Sequence[int], seed: int) -> list[Array]:
    """Random arguments, a share of them special."""
    rng = np.random.default_rng(seed)
    return [_random(rng, type_.element, storage_shape(type_, dims)) for type_ in tensors(function)]


def _random(rng: np.random.Generator, element: Element, shape: tuple[int, ...]) -> Array:
    dtype = np.dtype(element.storage)
    if element.kind is Kind.BIT:
        return np.asarray(rng.integers(0, 2, shape)).astype(bool)
    if dtype.kind == "f":
        x = rng.standard_normal(shape) * np.exp2(rng.integers(-3, 4, shape))
        with np.errstate(all="ignore"):
            return np.asarray(np.where(rng.random(shape) < 0.06, rng.choice(_SPECIAL, shape), x)).astype(dtype)
    if element.is_format or element.is_float:
        return np.asarray(rng.integers(0, 1 << 8 * dtype.itemsize, shape)).astype(dtype)
    if element.name == "b1":
        return np.asarray(rng.integers(0, 2, shape) * 2 - 1).astype(dtype)
    few = rng.integers(max(element.low, 0), min(element.high, 12), shape, endpoint=True)
    if element.name == "u32" and not shape:  # it may say how often a loop runs
        return np.asarray(few).astype(dtype)
    any_ = rng.integers(element.low, element.high, shape, dtype=dtype, endpoint=True)
    return np.asarray(np.where(rng.random(shape) < (0.5 if shape else 0.9), few, any_)).astype(dtype)


# --- running


def memory(lowered: Lowered, given: Sequence[Array]) -> dict[str, Array]:
    """Return the buffers of a kernel for arguments: parameters and constants filled, all else junk."""
    held: dict[str, Array] = {}
    for leaf, array in zip(lowered.parameters, given, strict=True):
        held[leaf.buffer] = _as_stored(lowered, leaf.buffer, array)
    for name, array in lowered.constants.items():
        held[name] = _as_stored(lowered, name, array)
    for buffer in lowered.kernel.buffers:
        if buffer.access != "scratch" and buffer.name not in held:
            dtype = np.dtype(buffer.element.storage)
            junk = np.full(buffer.size.value(()) * dtype.itemsize, 0xA5, np.uint8)
            held[buffer.name] = junk.view(dtype)
    return held


def _as_stored(lowered: Lowered, name: str, array: Array) -> Array:
    dtype = np.dtype(lowered.kernel.buffer(name).element.storage)
    flat = np.array(array).reshape(-1)
    if not flat.size:
        return np.zeros(1, dtype)
    return flat.view(dtype)


def results(lowered: Lowered, held: Mapping[str, Array]) -> list[Array]:
    """Return the results from the buffers after a run."""
    found = []
    for leaf in lowered.results:
        flat = held[leaf.buffer][: leaf.size]
        found.append(flat.view(np.dtype(leaf.type.element.storage)).reshape(leaf.shape))
    return found


def interpreted(lowered: Lowered, given: Sequence[Array]) -> list[Array]:
    """Run a kernel on arguments with the interpreter."""
    held = memory(lowered, given)
    interpret(lowered.kernel, held)
    return results(lowered, held)


def expected(function: Function, given: Sequence[Array], dims: Sequence[int]) -> list[Array]:
    """What the strict evaluator gives."""
    found = evaluate(function, [np.array(a) for a in given], dims)
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def differences(mine: Sequence[Array], theirs: Sequence[Array]) -> int:
    """How many values differ in their bits; every NaN is one value."""
    count = 0
    for x, y in zip(mine, theirs, strict=True):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), (x.dtype, x.shape, y.dtype, y.shape)
        if x.dtype.kind == "f":
            x, y = (np.where(np.isnan(a), a.dtype.type(np.nan), a) for a in (x, y))
        word = f"u{x.dtype.itemsize}"
        count += int((np.ascontiguousarray(x).view(word) != np.ascontiguousarray(y).view(word)).sum())
    return count
