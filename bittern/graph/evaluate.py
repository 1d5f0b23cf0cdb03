"""Evaluation: functions run on numpy arrays, strictly or, as the reference, in float64.

In come a function, the values of its dimension parameters and arrays; out come arrays. Strict evaluation has exactly
the bits of `docs/numerics.md`; ideal evaluation holds every float as float64 and uses `ideal` bodies where they exist.

`prepare` once and run often: constants are folded, maps cost nothing, updates of arrays that the program owns happen in
place. `prepare.py` and `control.py` make programs; `flow.py` says what may share memory, `extent.py` what is too large
for one batch; `world.py` holds what several programs share; `batch.py` runs loops over whole batches, `program.py` all.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bittern.graph.node import Function, call, param
from bittern.graph.prepare import program_of
from bittern.graph.program import CallSite, Copies, Kernel, Program, storage
from bittern.graph.world import World, refuse_effects, resolved_leaves
from bittern.ops.table import Array
from bittern.types.dims import symbol
from bittern.types.values import storage_shape

__all__ = ["CallSite", "Copies", "Kernel", "Program", "World", "evaluate", "prepare", "zeros"]


def prepare(
    function: Function,
    dims: Sequence[int] = (),
    *,
    ideal: bool = False,
    kernels: Mapping[bytes, Kernel] | None = None,
    constants: Mapping[int, Array] | None = None,
    donated: frozenset[int] = frozenset(),
    lead: int = 0,
    world: World | None = None,
) -> Program:
    """Prepare a function for concrete dimensions.

    dims: one number for each dimension parameter. ideal: evaluate in float64, with `ideal` bodies. kernels: by function
    id, for calls and for the function itself. constants: known arguments by parameter, which must not change any more;
    the program then takes only the others. donated: parameters whose arrays the program may overwrite and return; they
    must be writeable and share no memory with anything else. lead: batch axes in front of every argument and result.
    world: share what other preparations of the same mode and kernels have folded; it then decides both.
    Raises R130 if the function has effects.
    """
    assert len(dims) == function.dims, (function, dims)
    refuse_effects(function.name, function.effects)
    world = World(ideal, kernels) if world is None else world
    sizes = tuple(int(size) for size in dims)
    target = _calling(function) if function.id in world.kernels else world.flow.target(function)
    types = [leaf for parameter in function.params for leaf in resolved_leaves(parameter.type, sizes)]
    with np.errstate(all="ignore"):
        known = {leaf: world.given(array, types[leaf], lead) for leaf, array in (constants or {}).items()}
        return program_of(world, target, sizes, lead, donated, known)


def evaluate(
    function: Function,
    arguments: Sequence[object],
    dims: Sequence[int] = (),
    *,
    ideal: bool = False,
    kernels: Mapping[bytes, Kernel] | None = None,
) -> Any:
    """Run a function once. arguments: an array or number for each parameter leaf. Return an array or a tuple."""
    return prepare(function, dims, ideal=ideal, kernels=kernels)(*arguments)


def _calling(function: Function) -> Function:
    """Return a function that only calls the given one."""
    arguments = [param(place, parameter.type) for place, parameter in enumerate(function.params)]
    inner = call(function, arguments, [symbol(place) for place in range(function.dims)])
    return Function(function.dims, function.params, inner, labels=function.labels)


def zeros(function: Function, leaf: int, dims: Sequence[int], *, ideal: bool = False) -> Array:
    """Return an array of zeros for a parameter leaf, such as a cache to donate."""
    sizes = tuple(int(size) for size in dims)
    types = [tensor for parameter in function.params for tensor in resolved_leaves(parameter.type, sizes)]
    return np.zeros(storage_shape(types[leaf]), storage(types[leaf].element, ideal))
