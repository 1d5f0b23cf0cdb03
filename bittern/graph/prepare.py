"""Preparation: a function becomes a program, for concrete dimensions, a mode and known constants.

Nodes become steps in the order of `Body`. Maps and small callees are laid out in line; other callees and the bodies of
loops and branches become programs of their own. Whatever depends on known values only is computed here, once: so
weights are decoded once, not once a token.

Memory. Every value knows which arrays it may share memory with (its roots). An update writes in place exactly if this
program made those arrays or was given them for good (`donated`), and no value that is still to be read shares them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import numpy as np

from bittern.graph import control
from bittern.graph.batch import expand, in_parts, spread
from bittern.graph.extent import mapped_leaves, part_of_result
from bittern.graph.flow import UPDATES, Instruction, Summary, leaf_types, viewed
from bittern.graph.node import Function
from bittern.graph.program import Action, CallSite, Program, Roots, Step, gatherer, reader
from bittern.graph.world import CONSTANT, UNNUMBERED, Value, World, known_value, refuse_effects, resolved_leaves
from bittern.ops.index import scatter_add_in_place, scatter_in_place, update_in_place
from bittern.ops.table import Array, Op, Site
from bittern.types.dims import Dim

IN_PLACE: Mapping[str, Callable[..., Array]] = {
    "update": update_in_place,
    "scatter": scatter_in_place,
    "scatter_add": scatter_add_in_place,
}

_INLINE = 48  # nodes of a callee that is laid out in its caller
_LARGE = 64 << 20  # bytes; a result above this and above 64 times its operands is not folded
_GROWTH = 64  # from 2 bits to f64 it is 32
_VIEWS = ("broadcast", "fill", "windows", "reshape", "permute", "slice", "take")  # hold no memory of their own


def program_of(
    world: World,
    function: Function,
    dims: tuple[int, ...],
    lead: int,
    donated: frozenset[int],
    arguments: Mapping[int, Value],
) -> Program:
    """Return the program of a function's own graph (not its `ideal` body), made once in a world.

    donated: parameter leaves it may overwrite. arguments: by parameter leaf; the known ones become constants.
    """
    constants = {leaf: value for leaf, value in arguments.items() if value.array is not None}
    key = (function.id, dims, lead, donated, tuple(sorted((leaf, value.number) for leaf, value in constants.items())))
    program = world.programs.get(key)
    if program is None:
        program = world.programs[key] = _make(world, function, dims, lead, donated, constants)
    return program


def _make(
    world: World,
    function: Function,
    dims: tuple[int, ...],
    lead: int,
    donated: frozenset[int],
    constants: Mapping[int, Value],
) -> Program:
    types = [leaf for parameter in function.params for leaf in resolved_leaves(parameter.type, dims)]
    builder = Builder(world, len(types), donated)
    open_leaves = [leaf for leaf in range(len(types)) if leaf not in constants]
    arguments = [constants[leaf] if leaf in constants else builder.parameter(leaf) for leaf in range(len(types))]
    results = builder.emit(function, dims, lead, arguments)
    slots = [builder.place(value) for value in results]
    return Program(
        name=function.name,
        inputs=tuple(types[leaf] for leaf in open_leaves),
        result=function.result.type,
        lead=lead,
        ideal=world.ideal,
        copies=world.copies,
        written=frozenset(builder.written),
        roots=tuple(value.roots for value in results),
        _steps=builder.steps(slots),
        _template=builder.template,
        _results=gatherer(slots),
    )


class Builder:
    """Makes the steps of one program. Roots: 0 is any constant, 1 + i parameter leaf i, others are its own arrays."""

    def __init__(self, world: World, params: int, donated: frozenset[int]) -> None:
        self.world = world
        self.template: list[Array | None] = []
        self.written: set[int] = set()
        self._params = params
        self._owned = {1 + leaf for leaf in donated}
        self._roots = params
        self._frames: list[list[Value | None]] = []
        self._draft: list[tuple[Action, tuple[int, ...], range, bool]] = []
        self._placed: dict[int, int] = {}

    def parameter(self, leaf: int) -> Value:
        """Return the next array that the program takes, which is parameter leaf `leaf`."""
        self.template.append(None)
        return Value(len(self.template) - 1, frozenset((1 + leaf,)))

    def fresh(self) -> int:
        """Return the root of an array that the program makes."""
        self._roots += 1
        self._owned.add(self._roots)
        return self._roots

    # Laying out a function

    def emit(self, function: Function, dims: tuple[int, ...], lead: int, arguments: list[Value]) -> list[Value]:
        """Lay out a function's own graph for these arguments; return its result leaves.

        The list of arguments is emptied, so that a known array is released when it was read for the last time.
        """
        body = self.world.flow.summary(function).body
        frame: list[Value | None] = [*arguments, *[None] * (body.leaves - body.params)]
        arguments.clear()
        for leaf in body.unused:
            frame[leaf] = None
        self._frames.append(frame)
        for instruction in body.instructions:
            inputs = _present(frame, instruction.inputs)
            for leaf in instruction.dying:
                frame[leaf] = None
            outputs = self._instruction(instruction, dims, lead, inputs)
            for leaf, value in zip(instruction.outputs, outputs, strict=True):
                frame[leaf] = None if leaf in instruction.dying else value
        results = _present(frame, body.results)
        self._frames.pop()
        return results

    def _instruction(
        self, instruction: Instruction, dims: tuple[int, ...], lead: int, inputs: list[Value]
    ) -> list[Value]:
        node = instruction.node
        if node.kind == "const":
            return [self.world.constant(node, lead)]
        handler = _HANDLERS.get(node.kind, Builder._op)
        if any(value.array is None for value in inputs):
            return handler(self, instruction, dims, lead, inputs)
        used = tuple(dims[symbol] for symbol in instruction.symbols)
        key = (node.id, used, lead, *(value.number for value in inputs))
        found = self.world.remembered(key)
        if found is not None:
            return found
        outputs = handler(self, instruction, dims, lead, inputs)
        if all(value.array is not None for value in outputs):
            return self.world.remember(key, outputs)
        return outputs

    def _op(self, instruction: Instruction, dims: tuple[int, ...], lead: int, inputs: list[Value]) -> list[Value]:
        node = instruction.node
        row = self.world.rows[node.kind]
        refuse_effects(node.kind, () if row.effect is None else (row.effect,))
        site = self.world.site(node, dims, lead)
        meaning = self._meaning(row)
        if node.kind in UPDATES and not _all_known(inputs):
            return self._update(node.kind, site, meaning, inputs)
        roots = frozenset().union(*(inputs[i].roots for i in viewed(node, self.world.ideal))) or frozenset(
            (self.fresh(),)
        )
        fold = _all_known(inputs) and (node.kind in _VIEWS or _is_worth_folding(site, inputs))
        return self.apply(partial(meaning, site), inputs, [roots], fold=fold)

    def _meaning(self, row: Op) -> Callable[..., Array]:
        assert self.world.ideal or not row.ideal_only, row.name
        return row.ideal if self.world.ideal and row.ideal is not None else row.meaning

    def _update(self, kind: str, site: Site, meaning: Callable[..., Array], inputs: list[Value]) -> list[Value]:
        fresh = frozenset((self.fresh(),))
        if not self.is_exclusive(inputs[0], inputs[1:]):
            return self.apply(control.copying(partial(meaning, site), self.world.copies), inputs, [fresh])
        self.note_written(inputs[0])
        action = control.overwriting(
            partial(IN_PLACE[kind], site), partial(meaning, site), site.lead, self.world.copies
        )
        return self.apply(action, inputs, [inputs[0].roots | fresh])

    def _map(self, instruction: Instruction, dims: tuple[int, ...], lead: int, inputs: list[Value]) -> list[Value]:
        node = instruction.node
        body, count = node["body"], node["count"]
        assert isinstance(body, Function) and isinstance(count, Dim), node
        length, arrays = count.value(dims), mapped_leaves(node)
        for place in range(arrays, len(inputs)):
            inputs[place] = self._viewing(expand(lead), inputs[place], ("expand", lead))
        size = self._part(instruction, dims, inputs[:arrays], inputs[arrays:])
        if size is not None and size < length:
            program = self.nested(body, dims, lead + 1, frozenset(), dict(enumerate(inputs[arrays:], arrays)))
            action = in_parts(program, arrays, lead, length, size)
            passed = [*inputs[:arrays], *(value for value in inputs[arrays:] if value.array is None)]
            roots = [frozenset((self.fresh(),)) for _ in instruction.outputs]
            return self.apply(action, passed, roots, fold=_all_known(inputs), several=True)
        results = self.emit(body, dims, lead + 1, inputs)
        return [self._viewing(spread(lead, length), value, ("spread", lead, length)) for value in results]

    def _part(
        self, instruction: Instruction, dims: tuple[int, ...], mapped: Sequence[Value], captured: Sequence[Value]
    ) -> int | None:
        """Return how many elements of a map to run at a time, or None for all."""
        if _all_known(mapped):
            return part_of_result(instruction.node, dims) if _all_known(captured) else None
        if any(value.array is not None for value in mapped):
            return None  # the body folds what it makes of known elements
        return self.world.part(instruction.node, dims, instruction.symbols)

    def _viewing(self, action: Action, value: Value, key: tuple[object, ...]) -> Value:
        if value.array is not None:
            named = (*key, value.number)
            found = self.world.remembered(named) or self.world.remember(named, [action(value.array)])
            return found[0]
        return self.apply(action, [value], [value.roots])[0]

    def _call(self, instruction: Instruction, dims: tuple[int, ...], lead: int, inputs: list[Value]) -> list[Value]:
        function, values = instruction.node["function"], instruction.node["dims"]
        assert isinstance(function, Function) and isinstance(values, tuple), instruction.node
        refuse_effects(function.name, function.effects)
        inner = tuple(value.value(dims) for value in values if isinstance(value, Dim))
        target = self.world.flow.target(function)
        summary = self.world.flow.summary(target)
        outputs = self.kernel(function, summary, inner, lead, inputs)
        if outputs is not None:
            return outputs
        if _all_known(inputs) or summary.size <= _INLINE:
            return self.emit(target, inner, lead, inputs)
        donated = self.donations(instruction.consumed, inputs)
        program = self.nested(target, inner, lead, donated, dict(enumerate(inputs)))
        return self.run_program(program, inputs)

    def kernel(
        self, function: Function, summary: Summary, dims: tuple[int, ...], lead: int, inputs: list[Value]
    ) -> list[Value] | None:
        """Lay out a call as a kernel; None if there is none, or it declines."""
        kernel = self.world.kernels.get(function.id)
        if kernel is None:
            return None
        modes = [parameter.mode for parameter in function.params for _ in leaf_types(parameter.type)]
        donated = self.donations([leaf for leaf, mode in enumerate(modes) if mode == "own"], inputs)
        constants = tuple(_unbatched(value, lead) for value in inputs)
        run = kernel(CallSite(function, dims, lead, self.world.ideal, constants, donated))
        if run is None:
            return None
        for leaf in donated:
            self.note_written(inputs[leaf])
        roots = [
            frozenset((self.fresh(),)).union(*(inputs[leaf].roots for leaf in flows & donated))
            for flows in summary.flows
        ]
        return self.apply(run, inputs, roots, fold=_all_known(inputs))

    # What control flow needs

    def nested(
        self,
        function: Function,
        dims: tuple[int, ...],
        lead: int,
        donated: frozenset[int],
        arguments: Mapping[int, Value],
    ) -> Program:
        """Return the program of a callee or body; the known ones among its arguments become constants of it."""
        return program_of(self.world, function, dims, lead, donated, arguments)

    def later(
        self, function: Function, dims: tuple[int, ...], lead: int, arguments: Mapping[int, Value]
    ) -> Callable[[], Program]:
        """Return what gives the form of a body that overwrites nothing of its caller's, made when first needed."""
        return cache(partial(program_of, self.world, function, dims, lead, frozenset(), dict(arguments)))

    def run_program(self, program: Program, inputs: Sequence[Value]) -> list[Value]:
        """Add the step that runs a program whose parameter leaves are these inputs."""
        for leaf in program.written:
            self.note_written(inputs[leaf])
        roots = self.roots_after(program, inputs)
        return self.apply(program.run, [value for value in inputs if value.array is None], roots, several=True)

    def roots_after(self, program: Program, inputs: Sequence[Value]) -> list[Roots]:
        """Return the roots of a nested program's results, in terms of this one. inputs: its parameter leaves."""
        made: dict[int, int] = {}
        results = []
        for leaf in program.roots:
            roots: set[int] = set()
            for root in leaf:
                if 1 <= root <= len(inputs):
                    roots |= inputs[root - 1].roots
                elif root == 0:
                    roots |= CONSTANT
                else:
                    made[root] = made.get(root) or self.fresh()
                    roots.add(made[root])
            results.append(frozenset(roots))
        return results

    def is_exclusive(self, value: Value, others: Sequence[Value]) -> bool:
        """Whether its memory may be overwritten now: made here or donated, and shared by nothing still to be read.

        value: about to be read for the last time, unless it is still in a frame. others: what is read with it.
        """
        if value.array is not None or not value.roots <= self._owned:
            return False
        live = (held for frame in self._frames for held in frame if held is not None)
        return all(value.roots.isdisjoint(held.roots) for group in (others, live) for held in group)

    def donations(self, positions: Sequence[int], inputs: Sequence[Value]) -> frozenset[int]:
        """Return those of the positions whose arrays may be overwritten."""
        return frozenset(
            place for place in positions if self.is_exclusive(inputs[place], [*inputs[:place], *inputs[place + 1 :]])
        )

    def note_written(self, value: Value) -> None:
        """Record that the memory of a value is overwritten."""
        self.written.update(root - 1 for root in value.roots if 1 <= root <= self._params)

    # Steps

    def apply(
        self,
        action: Action,
        inputs: Sequence[Value],
        roots: Sequence[Roots],
        *,
        fold: bool = False,
        several: bool = False,
    ) -> list[Value]:
        """Add a step with one result for each of `roots`, or, with `fold`, compute it now.

        several: the action returns a tuple also for one result.
        """
        if fold:
            results = action(*(value.array for value in inputs))
            results = results if several or len(roots) != 1 else (results,)
            return [known_value(np.asarray(result), UNNUMBERED) for result in results]
        first = len(self.template)
        self.template.extend([None] * len(roots))
        outputs = range(first, first + len(roots))
        slots = tuple(self.place(value) for value in inputs)
        self._draft.append((action, slots, outputs, several or len(roots) != 1))
        return [Value(slot, root) for slot, root in zip(outputs, roots, strict=True)]

    def place(self, value: Value) -> int:
        """Return the slot of a value; a known one gets a slot when something reads it."""
        if value.array is None:
            return value.slot
        if value.number not in self._placed:
            self._placed[value.number] = len(self.template)
            self.template.append(value.array)
        return self._placed[value.number]

    def steps(self, results: Sequence[int]) -> list[Step]:
        """Return the finished steps; slots of results and constants are never emptied."""
        kept = {*results, *self._placed.values()}
        backwards: list[Step] = []
        for action, inputs, outputs, several in reversed(self._draft):
            touched = {*inputs, *outputs}
            write = slice(outputs.start, outputs.stop) if several else outputs.start
            backwards.append((action, reader(inputs), write, tuple(sorted(touched - kept))))
            kept |= touched
        return backwards[::-1]


_HANDLERS = {
    "call": Builder._call,
    "map": Builder._map,
    "if": control.emit_if,
    "for": control.emit_for,
    "while": control.emit_while,
}


def _present(frame: Sequence[Value | None], leaves: Sequence[int]) -> list[Value]:
    values = [frame[leaf] for leaf in leaves]
    assert None not in values, (frame, leaves)
    return [value for value in values if value is not None]


def _all_known(values: Sequence[Value]) -> bool:
    return all(value.array is not None for value in values)


def _unbatched(value: Value, lead: int) -> Array | None:
    array = value.array
    return array if array is not None and all(size == 1 for size in array.shape[:lead]) else None


def _is_worth_folding(site: Site, inputs: Sequence[Value]) -> bool:
    """Whether the result is small, or not much larger than what it is made from."""
    arrays = [value.array for value in inputs if value.array is not None]
    batch = np.broadcast_shapes(*(array.shape[: site.lead] for array in arrays))
    size = 8 * int(np.prod((*batch, *site.shape), dtype=np.int64))
    return size <= _LARGE or size <= _GROWTH * sum(_bytes_held(array) for array in arrays)


def _bytes_held(array: Array) -> int:
    """Return the bytes that an array has in memory, repeated ones counted once."""
    sizes = [size for size, stride in zip(array.shape, array.strides, strict=True) if stride]
    return array.itemsize * int(np.prod(sizes, dtype=np.int64))
