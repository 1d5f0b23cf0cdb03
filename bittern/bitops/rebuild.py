"""Make a kernel anew from another, step by step: what simplifying and expanding have in common.

A value of the old kernel stands for one value of the new one or for several: the pieces it was split into. A subclass
says what a step without blocks becomes (`plain`) and into which types a type is split (`split`).
"""

from collections.abc import Sequence

from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Block, Kernel, Step, Value
from bittern.bitops.kinds import KINDS
from bittern.bitops.lanes import Lanes


class Rebuild:
    """Copies a kernel. builder: makes the new one."""

    def __init__(self, kernel: Kernel, builder: "Builder | None" = None) -> None:
        self.kernel, self.builder = kernel, builder or Builder(kernel.name)
        self.pieces: dict[Value, tuple[Value, ...]] = {}

    def run(self) -> Kernel:
        """Return the new kernel."""
        builder, kernel = self.builder, self.kernel
        builder.name, builder.symbols = kernel.name, kernel.symbols
        builder.buffers += kernel.buffers
        builder.divides += kernel.divides
        builder.at_least += kernel.at_least
        for p in kernel.parameters:
            assert p.value.type.is_scalar, p
            self.pieces[p.value] = (builder.parameter(p.name, str(p.value.type), p.low, p.high).value,)
        self.steps(kernel.body)
        return builder.build()

    def split(self, type_: Lanes) -> list[Lanes]:
        """Return the types of the pieces of a value that crosses the edge of a block."""
        return [type_]

    def plain(self, step: Step) -> None:
        """Make what a step without blocks becomes, and set the pieces of its results."""
        operands = [v for operand in step.operands for v in self.pieces[operand]]
        made = self.builder.emit(step.kind, operands, step.attributes)
        for old, new in zip(step.results, made, strict=True):
            self.pieces[old] = (new,)

    def at_edge(self, value: Value) -> tuple[Value, ...]:
        """Return the pieces of a value, of the types that `split` gives."""
        return self.pieces[value]

    def steps(self, block: Block) -> None:
        """Make the steps of a block."""
        for step in block.steps:
            self.builder.label = step.label
            if KINDS[step.kind].form == "control" and step.blocks:
                self.control(step)
            else:
                self.plain(step)

    def control(self, step: Step) -> None:
        """Make a control step and its blocks."""
        blocks = [self.block(block, step.kind) for block in step.blocks]
        operands = [v for operand in step.operands for v in self.at_edge(operand)]
        types = [self.split(v.type) for v in step.results]
        self.builder.label = step.label
        attributes = {"types": tuple(t for each in types for t in each)} if step.kind == "if" else step.attributes
        made = list(self.builder.control(step.kind, operands, blocks, attributes))
        self._set(step.results, types, made)

    def block(self, block: Block, kind: str) -> Block:
        """Make a block of a step of this kind and return it."""
        types = [self.split(p.type) for p in block.parameters]
        made = list(self.builder.enter([t for each in types for t in each]))
        self._set(block.parameters, types, made)
        self.steps(block)
        return self.builder.leave([v for y in block.yields for v in self.at_edge(y)])

    def _set(self, values: Sequence[Value], types: list[list[Lanes]], made: list[Value]) -> None:
        for value, each in zip(values, types, strict=True):
            self.pieces[value] = tuple(made[: len(each)])
            del made[: len(each)]
