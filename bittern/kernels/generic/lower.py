"""Generic lowering: any function at given dimensions as one kernel of bitops, with the bits of the strict evaluator.

In comes a function (or nodes of a graph, with the values that cut them off), out comes a kernel. No op needs a kernel
of its own: elements are computed where they are read, arrays are kept in memory only where that is cheaper, loops stay
loops or are unrolled.

Buffers, in this order: `p0`, `p1`, ... a parameter leaf each; `r0`, `r1`, ... a result leaf each, but for those that
take over a parameter that the function owns, whose buffer is then `update`; then constants `c...` and workspaces
`w...`, big temporaries whose contents do not matter before and after a run; scratch `s...` is private to the kernel.
All are row-major, as stored: `bit` one to a byte, a block format as the bytes of its blocks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.bitops.kernel import Kernel
from bittern.bitops.simplify import without_dead
from bittern.graph.flow import leaf_types
from bittern.graph.node import Function, Node, Parameter, functions_of, make_tuple, param, walk
from bittern.graph.rewrite import replace_nodes
from bittern.kernels.generic.control import CONTROL
from bittern.kernels.generic.conversions import ROWS as ELEMENTWISE
from bittern.kernels.generic.emitter import Emitter
from bittern.kernels.generic.filling import fill, is_there, materialised
from bittern.kernels.generic.frames import VIEWED, WRITES, Frame, Layout
from bittern.kernels.generic.scalars import stored
from bittern.kernels.generic.sharing import shared as for_threads
from bittern.kernels.generic.views import Memory, View, memory
from bittern.types.values import Tensor, Token, Type, storage_shape

NOT_LOWERED = code("B201", "a function cannot be made a kernel: it has an effect or an operation over the reals")

LOWERED = frozenset({*ELEMENTWISE, *VIEWED, *WRITES, *CONTROL, "param", "const", "tuple", "item"})


@dataclass(frozen=True, slots=True)
class Leaf:
    """An array that a kernel takes or gives. buffer: its name in the kernel. type: with constant dimensions."""

    buffer: str
    type: Tensor
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of stored elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel and what its buffers are; see the module.

    parameters, results: by leaf. taken: result leaf -> the parameter leaf whose buffer it takes over. constants: what
    the caller puts into each of these buffers. workspaces: names of those with arbitrary contents.
    """

    kernel: Kernel
    parameters: tuple[Leaf, ...]
    results: tuple[Leaf, ...]
    taken: Mapping[int, int]
    constants: Mapping[str, npt.NDArray[Any]]
    workspaces: tuple[str, ...]


def lower(function: Function, dims: Sequence[int] = (), *, name: str = "", shared: bool = True) -> Lowered:
    """Return a function at given dimensions as a kernel.

    dims: a number for each dimension parameter. shared: the kernel may be called by several threads at once, which
    divide the work or leave it to one of them. BitternError B201 if the function has effects or needs the reals.
    """
    sizes = tuple(int(size) for size in dims)
    assert len(sizes) == function.dims, (function, sizes)
    _refuse(function)
    layout = Layout(Emitter(name or function.name), control=CONTROL)
    return _Lowering(layout, function, sizes).run(is_shared=shared)


def lower_nodes(
    results: Sequence[Node],
    inputs: Sequence[Node],
    dims: Sequence[int] = (),
    *,
    own: Collection[int] = (),
    name: str = "",
    shared: bool = True,
) -> Lowered:
    """Return a part of a graph as a kernel: the results, computed from the inputs, at which the graph is cut.

    own: numbers of the inputs whose memory the kernel may overwrite. The leaves of the inputs are the parameters.
    """
    return lower(part(results, inputs, len(dims), own), dims, name=name or "part", shared=shared)


def part(results: Sequence[Node], inputs: Sequence[Node], dims: int, own: Collection[int] = ()) -> Function:
    """Return a part of a graph as a function of the inputs, at which it is cut: equal parts are the same function.

    dims: of the function in which the part stands. own: as `lower_nodes` has it.
    """
    cut = {given.id: param(k, given.type) for k, given in enumerate(inputs)}
    made = [replace_nodes(result, cut) for result in results]
    parameters = tuple(Parameter(given.type, "own" if k in own else "") for k, given in enumerate(inputs))
    return Function(dims, parameters, made[0] if len(made) == 1 else make_tuple(made))


def _refuse(function: Function) -> None:
    found = sorted(_missing(function, set(), set()))
    if function.effects or found:
        names = ", ".join(f"`{each}`" for each in (*function.effects, *found))
        raise BitternError(
            NOT_LOWERED,
            f"`{function.name}` cannot be made a kernel because of {names}.",
            "Run it with the evaluator, or lower the functions without effects that it calls.",
        )


def _missing(function: Function, found: set[str], seen: set[bytes]) -> set[str]:
    if function.id not in seen:
        seen.add(function.id)
        for node in walk(function.result):
            if node.kind not in LOWERED:
                found.add(node.kind)
            for inner in functions_of(node):
                _missing(inner, found, seen)
    return found


class _Lowering:
    """One function being made a kernel."""

    def __init__(self, c: Layout, function: Function, dims: tuple[int, ...]) -> None:
        self.c, self.e, self.function, self.dims = c, c.e, function, dims
        self.inputs = [leaf for p in function.params for leaf in _tensors(p.type)]
        self.modes = [p.mode for p in function.params for _ in _tensors(p.type)]
        self.outputs = _tensors(function.result.type)
        self.taken = self._taken()

    def run(self, is_shared: bool) -> Lowered:
        """Return the kernel."""
        e = self.e
        arguments = [
            self._declare(f"p{k}", t, "update" if k in self.taken.values() else "read")
            for k, t in enumerate(self.inputs)
        ]
        results = [
            arguments[self.taken[k]] if k in self.taken else self._declare(f"r{k}", t, "write")
            for k, t in enumerate(self.outputs)
        ]
        self._fill(arguments, results)
        made = e.build()
        made = without_dead(for_threads(e, made, e.apart) if is_shared else made)
        used = {name for name in self.c.constant_arrays if any(b.name == name for b in made.buffers)}
        scratch = [b for b in made.buffers if b.access == "scratch"]
        outside = [b for b in made.buffers if b.access != "scratch"]
        return Lowered(
            replace(made, buffers=(*outside, *scratch)),
            tuple(_leaf(m, t, self.dims) for m, t in zip(arguments, self.inputs, strict=True)),
            tuple(_leaf(m, t, self.dims) for m, t in zip(results, self.outputs, strict=True)),
            dict(self.taken),
            {name: self.c.constant_arrays[name] for name in sorted(used)},
            tuple(b.name for b in made.buffers if b.name[0] == "w"),
        )

    def _taken(self) -> dict[int, int]:
        """Return which results take over which parameters: owned, of the same type, and updated on the way."""
        found: dict[int, int] = {}
        for k, flow in enumerate(self.c.flow.summary(self.function).flows):
            for leaf in sorted(flow):
                same = self.modes[leaf] == "own" and self.inputs[leaf] == self.outputs[k]
                if same and leaf not in found.values() and self._shape(self.outputs[k]):
                    found[k] = leaf
                    break
        return found

    def _shape(self, type_: Tensor) -> tuple[int, ...]:
        return storage_shape(type_, self.dims)

    def _declare(self, name: str, type_: Tensor, access: str) -> Memory:
        shape = self._shape(type_)
        buffer = self.e.buffer(name, stored(type_.element), max(prod(shape), 1), access)
        return memory(type_.element, shape, buffer, owned=access == "update")

    def _fill(self, arguments: Sequence[Memory], results: Sequence[Memory]) -> None:
        views = Frame(self.c, self.function, self.dims, arguments).run()
        plain = [k for k in range(len(views)) if k not in self.taken]
        for k in plain:
            fill(self.e, results[k], views[k])
        names = {results[k].name for k in self.taken}
        waiting: list[tuple[int, View]] = []
        for k in self.taken:
            if not is_there(results[k], views[k]):
                waiting.append((k, materialised(self.e, views[k]) if views[k].reads & names else views[k]))
        for k, view in waiting:
            fill(self.e, results[k], view)


def _tensors(type_: Type) -> list[Tensor]:
    leaves = leaf_types(type_)
    assert not any(isinstance(leaf, Token) for leaf in leaves), type_
    return [leaf for leaf in leaves if isinstance(leaf, Tensor)]


def _leaf(view: Memory, type_: Tensor, dims: tuple[int, ...]) -> Leaf:
    return Leaf(view.name, type_, storage_shape(type_, dims))
