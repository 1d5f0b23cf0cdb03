"""Constants of a model in memory: as stored where kernels take them so, in tiles where they want that, tables computed.

Weights are repacked by generated code, all threads together, and only once for each layout. Constants as stored stay in
the mapped file; those that a kernel wants at a rounder address are copied.
"""

import mmap
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.chips.machine.assembler import Code
from bittern.chips.machine.program import Launch, Linked, Section, State
from bittern.chips.x86.program import link
from bittern.chips.x86.routines import Routines
from bittern.chips.x86.threads import Crew
from bittern.graph.node import Blob, Function, Parameter, node, param
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Known, Packed, Plan, Recipe, identity_of
from bittern.types.values import Tensor, storage_shape

if TYPE_CHECKING:
    from bittern.graph.evaluate import World

Bytes: TypeAlias = npt.NDArray[np.uint8]

LINE = 64
_REPACK = "repack"  # the section of a program that repacks
_HUGE = 1 << 21  # bytes of a large page
_SLAB = 16 << 20  # bytes taken from the system at once


class Weights:
    """See the module."""

    def __init__(self, crew: Crew, routines: Routines, world: Callable[[], "World"]) -> None:
        """world: makes what evaluates values that depend on constants alone, when the first is wanted."""
        self._crew, self._routines, self._world = crew, routines, cache(world)
        self._packed: dict[tuple[bytes, Recipe], Bytes] = {}
        self._slabs = _Slabs()
        self._repackers: dict[Recipe, tuple[Code, Linked, State]] = {}
        self._stored: dict[tuple[bytes, int], Bytes] = {}
        self._known: dict[tuple[object, ...], tuple[Bytes, ...]] = {}

    @property
    def packed_bytes(self) -> int:
        """Bytes of all repacked weights."""
        return sum(each.nbytes for each in self._packed.values())

    def stored(self, value: Value, boundary: int) -> Bytes:
        """Return the stored bytes of a constant, at a multiple of the boundary."""
        assert value.data is not None, value
        key = (value.data.digest, boundary)
        if key not in self._stored:
            self._stored[key] = _read(value.data, boundary)
        return self._stored[key]

    def packed(self, operand: Packed) -> Bytes:
        """Return a constant in another layout."""
        assert operand.value.data is not None, operand
        key = (operand.value.data.digest, operand.recipe)
        if key not in self._packed:
            self._packed[key] = self._repacked(operand)
        return self._packed[key]

    def known(self, wanted: Known, plan: Plan) -> Bytes:
        """Return a value that depends on constants alone, computed by its definition."""
        *key, _ = identity_of(wanted, plan)
        if (whole := tuple(key)) not in self._known:

            def evaluated() -> tuple[bytes, ...]:
                assert wanted.apply is not None, "values of a kept plan are kept"
                return self._evaluated(wanted.apply, plan)

            made = self._routines.values(whole, evaluated)
            self._known[whole] = tuple(map(_copied, made))
        return self._known[whole][wanted.leaf]

    def _repacked(self, operand: Packed) -> Bytes:
        code, linked, state = self._repacker(operand.recipe)
        assert operand.value.data is not None, operand
        source = _read(operand.value.data, dict(code.arguments)["source"])  # let go with the end of this call
        made = self._slabs.take(operand.bytes)
        addresses: Mapping[str, Bytes] = {"source": source, "w": made}
        for k, (name, boundary) in enumerate(code.arguments):
            address = address_of(addresses[name])
            assert address % boundary == 0, (operand.recipe, name, boundary)
            state.args[k] = address
        self._crew.run(linked, _REPACK, state)
        _let_go(source)
        return made

    def _repacker(self, recipe: Recipe) -> tuple[Code, Linked, State]:
        """Return the code of a recipe that repacks, linked once for all weights of one shape."""
        if recipe not in self._repackers:
            code = self._routines.code(recipe)
            linked = link([code], {_REPACK: Section((Launch(0, 0, "split", barrier=False),))})
            self._repackers[recipe] = code, linked, State(self._crew.threads, len(code.arguments))
        return self._repackers[recipe]

    def _evaluated(self, apply: Apply, plan: Plan) -> tuple[bytes, ...]:
        """Evaluate an application whose arguments are constants, or known themselves."""
        from bittern.graph.evaluate import prepare

        cut = {given.id: param(k, given.type) for k, given in enumerate(apply.node.inputs)}
        parameters = tuple(Parameter(given.type) for given in apply.node.inputs)
        whole = node(apply.node.kind, list(cut.values()), dict(apply.node.attributes), apply.node.type)
        function = Function(len(apply.setting), parameters, whole)
        program = prepare(function, tuple(size.constant or 0 for size in apply.setting), world=self._world())
        arrays = []
        for value in apply.inputs:
            raw = self.known(plan.known[value], plan) if value in plan.known else self.stored(value, 1)
            shape = storage_shape(Tensor(value.type.element, value.type.shape))
            arrays.append(raw.view(value.type.element.storage).reshape(shape))
        found = program(*arrays)
        return tuple(np.ascontiguousarray(leaf).tobytes() for leaf in (found if isinstance(found, tuple) else (found,)))


class _Slabs:
    """Memory for weights, one behind the other in the order of their use, in pieces that large pages fill.

    So that they are one stream for the processor's prefetcher, and few entries of its table of pages.
    """

    def __init__(self) -> None:
        self._slab, self._used = aligned(0), 0

    def take(self, size: int) -> Bytes:
        """Return zeroed bytes on a cache line."""
        if self._used + size > len(self._slab):
            self._slab, self._used = aligned(max(size, _SLAB)), 0
        made = self._slab[self._used : self._used + size]
        self._used += -(-size // LINE) * LINE
        return made


def _read(data: Blob, boundary: int) -> Bytes:
    """Return the bytes of a constant, where they are if that is a multiple of the boundary."""
    raw = np.frombuffer(data.read(), np.uint8)
    return raw if address_of(raw) % boundary == 0 else _copied(raw)


def _let_go(raw: Bytes) -> None:
    """Let the system take back the pages of a mapped file that were read; who reads them again gets them again."""
    base: object = raw.base
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) else base
    if not isinstance(held, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    whole = np.frombuffer(held, np.uint8)
    place = address_of(raw) - address_of(whole)
    first, last = -(-place // mmap.PAGESIZE), (place + raw.nbytes) // mmap.PAGESIZE
    if last > first:
        held.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


def _copied(data: bytes | Bytes) -> Bytes:
    """Return bytes at the start of a cache line."""
    made = aligned(len(data))
    made[:] = np.frombuffer(data, np.uint8)
    return made


def address_of(memory: Bytes) -> int:
    """Return the address of the first byte."""
    return int(memory.__array_interface__["data"][0])


def aligned(size: int) -> Bytes:
    """Return zeroed bytes that begin on a cache line; large ones on a large page, which the system is asked to use."""
    boundary = _HUGE if size >= 2 * _HUGE else LINE
    memory = np.zeros(size + boundary, np.uint8)
    start = -address_of(memory) % boundary
    return memory[start : start + size]
