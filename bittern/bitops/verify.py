"""Check a kernel: types, order of definitions, structured control flow, and that every access is inside its buffer.

An access is proven with what is known of sizes, loops, conditions and bounded values (`prover`, `ranges`), or it is
refused. A masked access is proven through a mask that is constant or made by `first`, alone or joined with other masks
by `and`. What the proof finds on the way, how far an address is aligned and between which constants a value lies, is
kept for selection.

Not proven here: that the rounds of a parallel loop do not disturb each other; the interpreter watches it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd
from typing import TypeAlias

from bittern.base.errors import BitternError, code
from bittern.bitops.kernel import Block, Buffer, Kernel, Step, Value
from bittern.bitops.kinds import KINDS, Misfit, Types, kinds
from bittern.bitops.lanes import BIT_TYPE, INDEX_TYPE, Lanes
from bittern.bitops.prover import Bound
from bittern.bitops.ranges import Ranges
from bittern.bitops.text import step_text
from bittern.types.dims import ZERO, Dim, dim

MALFORMED = code("B101", "a kernel has a step whose operands, results or blocks do not fit")
UNDEFINED = code("B102", "a kernel uses a value before it is defined, or defines it twice")
UNPROVEN = code("B103", "an access of a kernel is not proven to be inside its buffer")
FORBIDDEN = code("B104", "a kernel reaches a buffer in a way that the buffer does not allow")
UNSTEADY = code("B105", "a kernel has a loop whose step is not proven to be at least 1, or a barrier out of place")

_Found: TypeAlias = "list[BitternError]"
_BLOCKS = {"for": 1, "parallel": 1, "while": 2, "if": 2}


@dataclass(frozen=True, slots=True)
class Access:
    """What is known of an access. align: its address is a multiple of it (a power of two, at least 1)."""

    align: int


@dataclass(frozen=True, slots=True)
class Facts:
    """What verifying found. accesses: of each step that reaches memory. range_of: bounds of an integer value."""

    accesses: dict[Step, Access]
    range_of: Callable[[Value], "tuple[int | None, int | None]"]


def verify(kernel: Kernel) -> Facts:
    """Return what is known of a kernel, or raise the first fault. BitternError B101 to B105; see `faults`."""
    checker = _Checker(kernel)
    found = checker.run()
    if found:
        raise found[0]
    return Facts(checker.accesses, checker.range_of)


def faults(kernel: Kernel) -> list[BitternError]:
    """Return every independent fault of a kernel."""
    return _Checker(kernel).run()


class _Checker:
    def __init__(self, kernel: Kernel) -> None:
        kinds()
        self.kernel, self.ranges = kernel, Ranges(kernel)
        self.buffers = {b.name: b for b in kernel.buffers}
        self.found: _Found = []
        self.accesses: dict[Step, Access] = {}
        self._ruled: dict[object, Types] = {}  # results of a kind without attributes, by the types of its operands
        self._ends = {b.name: b.size * (b.element.bits // 8) for b in kernel.buffers}
        self._defined: set[Value] = set()  # anywhere, so far
        self._sight: set[Value] = set()  # in this block or around it
        self._parallel: list[set[Value]] = []  # what each parallel loop around here saw from outside
        self._held: dict[str, dict[int, Value]] = {}  # scratch: what was stored where in this block
        self._steady: list[bool] = [True]  # whether all rounds of the parallel loop come by here alike

    def range_of(self, value: Value) -> "tuple[int | None, int | None]":
        """Return constants that bound an integer value."""
        return self.ranges.prover.range_of(self.ranges.of(value))

    def run(self) -> _Found:
        """Check everything and return the faults."""
        names = [b.name for b in self.kernel.buffers]
        if len(set(names)) < len(names):
            self._fault(MALFORMED, None, "two buffers have one name", "give each its own")
        self._define([p.value for p in self.kernel.parameters], None)
        self._block(self.kernel.body, (), None)
        return self.found

    def _fault(self, code_: str, step: "Step | None", what: str, remedy: str) -> None:
        where = f"In kernel `{self.kernel.name}`" + (f", `{step_text(step, self.kernel)}`" if step else "")
        self.found.append(BitternError(code_, f"{where}: {what}.", f"{remedy[0].upper()}{remedy[1:]}."))

    def _define(self, values: Sequence[Value], step: "Step | None") -> None:
        for value in values:
            if value in self._defined:
                self._fault(UNDEFINED, step, f"{value} is defined twice", "make a new value for each result")
            self._defined.add(value)
            self._sight.add(value)

    def _uses(self, values: Sequence[Value], step: "Step | None") -> bool:
        if self._sight.issuperset(values):
            return True
        missing = ", ".join(str(v) for v in values if v not in self._sight)
        what = f"{missing} is not defined before, in this block or around it"
        self._fault(UNDEFINED, step, what, "carry or yield the value to where it is used")
        return False

    def _block(self, block: Block, types: Sequence[Lanes], step: "Step | None") -> None:
        """Check a block whose parameters were told to the ranges already. types: what it must yield."""
        outer = set(self._sight)
        self._define(block.parameters, step)
        for inner in block.steps:
            if not self._uses(inner.operands, inner) or not self._fits(inner):
                self._define(inner.results, inner)
                continue
            self.ranges.define(inner)
            row = KINDS[inner.kind]
            if row.form == "control":
                self._held.clear()
                self._control(inner)
                self._held.clear()
            elif row.form == "memory":
                self._access(inner)
            self._define(inner.results, inner)
        self._uses(block.yields, step)
        if tuple(v.type for v in block.yields) != tuple(types):
            given = ", ".join(str(v.type) for v in block.yields) or "nothing"
            self._fault(MALFORMED, step, f"a block yields {given}", f"yield {', '.join(map(str, types)) or 'nothing'}")
        self._sight = outer

    def _fits(self, step: Step) -> bool:
        row = KINDS.get(step.kind)
        if row is None:
            self._fault(MALFORMED, step, f"`{step.kind}` is no kind", "use a kind of the table")
            return False
        operands = tuple([v.type for v in step.operands])
        key = None if step.attributes else (step.kind, *map(id, operands))  # the kernel keeps its types alive
        types = self._ruled.get(key)
        if types is None:
            try:
                types = row.rule(operands, step.attributes)
            except Misfit as fault:
                self._fault(MALFORMED, step, f"found {fault.found}", f"give {fault.expected}")
                return False
            if key is not None:
                self._ruled[key] = types
        given = tuple([v.type for v in step.results])
        if types != given:
            self._fault(MALFORMED, step, f"results {', '.join(map(str, given))}", f"make {', '.join(map(str, types))}")
        blocks = _BLOCKS.get(step.kind, 0)
        if len(step.blocks) != blocks:
            self._fault(MALFORMED, step, f"{len(step.blocks)} blocks", f"give it {blocks}")
        return types == given and len(step.blocks) == blocks

    # --- control

    def _control(self, step: Step) -> None:
        if step.kind == "barrier":
            if not self._parallel or not self._steady[-1]:
                what = "not every round of a parallel loop is proven to come here"
                self._fault(UNSTEADY, step, what, "put the barrier where the same rounds of the same loops run")
        elif step.kind == "if":
            self._if(step)
        elif step.kind == "while":
            self._while(step)
        else:
            self._loop(step)

    def _expects(self, block: Block, types: Sequence[Lanes], step: Step) -> bool:
        fits = tuple(v.type for v in block.parameters) == tuple(types)
        if not fits:
            given = ", ".join(str(v.type) for v in block.parameters) or "no parameters"
            self._fault(MALFORMED, step, f"a block has {given}", f"give it {', '.join(map(str, types)) or 'none'}")
        return fits

    def _if(self, step: Step) -> None:
        types = tuple(v.type for v in step.results)
        self._steady.append(False)
        for block, truth in zip(step.blocks, (True, False), strict=True):
            saved = self.ranges.save()
            self.ranges.prover.known += self.ranges.implied(step.operands[0], truth)
            if self._expects(block, (), step):
                self._block(block, types, step)
            self.ranges.restore(saved, self._sight)
        self._steady.pop()

    def _while(self, step: Step) -> None:
        types = [INDEX_TYPE, *(v.type for v in step.results)]
        self._steady.append(False)
        for block, yields in zip(step.blocks, ((BIT_TYPE,), types[1:]), strict=True):
            if not self._expects(block, types, step):
                continue
            saved = self.ranges.save()
            limit = self.ranges.of(step.operands[0])
            self.ranges.put(block.parameters[0], self.ranges.prover.fresh([Bound(ZERO)], [Bound(limit - 1)]))
            self.ranges.prover.known.append(limit - 1)
            self._block(block, yields, step)
            self.ranges.restore(saved, self._sight)
        self._steady.pop()

    def _loop(self, step: Step) -> None:
        (block,), types = step.blocks, [v.type for v in step.results]
        low, high, stride = (self.ranges.of(v) for v in step.operands[:3])
        if not self.ranges.prover.proves(stride - 1):
            self._fault(UNSTEADY, step, "its step is not proven to be at least 1", "state a fact that bounds the step")
        if not self._expects(block, [INDEX_TYPE, *types], step):
            return
        saved = self.ranges.save()
        self.ranges.put(block.parameters[0], self._round(low, high, stride))
        self.ranges.prover.known.append(high - low - 1)  # else the block does not run
        if step.kind == "parallel":
            self._parallel.append(set(self._sight))
            self._steady.append(True)
        else:
            alike = not self._parallel or all(v in self._parallel[-1] or self._sized(v) for v in step.operands[:3])
            self._steady.append(self._steady[-1] and alike)
        self._block(block, types, step)
        self._steady.pop()
        if step.kind == "parallel":
            self._parallel.pop()
        self.ranges.restore(saved, self._sight)

    def _sized(self, value: Value) -> bool:
        return all(s < len(self.kernel.symbols) for s in self.ranges.of(value).symbols())

    def _round(self, low: Dim, high: Dim, stride: Dim) -> Dim:
        """Return the index of a loop: low + stride * round, with the bounds of the round."""
        prover = self.ranges.prover
        span = prover.simple(high - low)
        whole, rest = span // stride, span % stride
        exact = [Bound(whole - 1)] if rest == ZERO else []
        over = stride.constant
        if over is not None:
            return low + prover.fresh([Bound(ZERO)], [*exact, Bound(span - 1, over)]) * over
        if exact:
            return low + prover.fresh([Bound(ZERO)], exact) * stride
        return prover.fresh([Bound(low)], [Bound(high - 1)])

    # --- memory

    def _access(self, step: Step) -> None:
        buffer = self.buffers.get(step.attributes["buffer"])
        if buffer is None:
            self._fault(FORBIDDEN, step, f"there is no buffer `{step.attributes['buffer']}`", "declare it")
            return
        effect = KINDS[step.kind].effect
        if effect == {"read": "store", "write": "load"}.get(buffer.access):
            what = f"a {effect} of `{buffer.name}`, which is declared as `{buffer.access}`"
            self._fault(FORBIDDEN, step, what, "declare it as `update`")
        if effect == "hint":
            return
        if "bits" in step.attributes:
            self._packed(step, buffer)
            return
        of = (step.results or step.operands[-1:])[0].type
        each = buffer.element.bits // 8
        address = self.ranges.of(step.operands[0]) * each + step.attributes.get("offset", 0)
        size = of.element.bits // 8
        if step.kind == "gather":
            address = address + self.ranges.of(step.operands[1]) * each
        else:
            size *= of.count
        inside = self._inside(address, size, buffer)
        if not inside and step.kind.endswith("masked"):
            inside = any(self._guarded(address, c, of, buffer) for c in self.ranges.counts(step.operands[1]))
        if not inside:
            self._unproven(step, buffer, address, dim(size))
        self.accesses[step] = Access(self._alignment(address, buffer))
        if buffer.access == "scratch" and step.kind in ("load", "store"):
            self._forward(step, buffer, address.constant, of)

    def _forward(self, step: Step, buffer: Buffer, address: "int | None", of: Lanes) -> None:
        """Let a load from scratch, in the block of the store, be some lane of what was stored."""
        held = self._held.setdefault(buffer.name, {})
        if address is None:
            held.clear()
        elif step.kind == "store":
            for start, stored in list(held.items()):
                if start < address + of.bytes and address < start + stored.type.bytes:
                    del held[start]
            held[address] = step.operands[-1]
        else:
            for start, stored in held.items():
                if start <= address and address + of.bytes <= start + stored.type.bytes:
                    if of.is_integer and stored.type.element == of.element:
                        self.ranges.move(step.result, stored)
                    return

    def _inside(self, address: Dim, size: "Dim | int", buffer: Buffer) -> bool:
        proves = self.ranges.prover.proves
        return proves(address) and proves(self._ends[buffer.name] - address - size)

    def _guarded(self, address: Dim, count: Dim, of: Lanes, buffer: Buffer) -> bool:
        """Whether the lanes below a count are inside; if it is not positive there are none."""
        known = self.ranges.prover.known
        known.append(count - 1)
        inside = self._inside(address, count * (of.element.bits // 8), buffer)
        known.pop()
        return inside

    def _packed(self, step: Step, buffer: Buffer) -> None:
        of, bits = (step.results or step.operands[-1:])[0].type, step.attributes["bits"]
        first, proves = self.ranges.of(step.operands[0]) * bits, self.ranges.prover.proves
        inside = proves(first) and proves(buffer.size * buffer.element.bits - first - of.count * bits)
        if not inside:
            self._unproven(step, buffer, first // 8, dim(of.count * bits + 7) // 8)
        if of.count > 1 and self.ranges.prover.simple(first) % 8 != ZERO:
            self._fault(UNPROVEN, step, "its first code is not proven to start at a byte", "step by whole bytes")
        self.accesses[step] = Access(1)

    def _unproven(self, step: Step, buffer: Buffer, address: Dim, size: Dim) -> None:
        names = self._names()
        end = buffer.size * (buffer.element.bits // 8)
        what = f"{size.text(names)} bytes at {self.ranges.prover.simple(address).text(names)} of `{buffer.name}`"
        self._fault(
            UNPROVEN,
            step,
            f"{what}, which has {end.text(names)}, are not proven to be inside",
            "bound the loop, state a fact, clamp the place, or guard the access with a mask made by `first`",
        )

    def _names(self) -> list[str]:
        unknowns = [f"r{k}" for k in range(len(self.ranges.prover.lows))]
        return [*self.kernel.symbols, *unknowns]

    def _alignment(self, address: Dim, buffer: Buffer) -> int:
        common = buffer.align
        for _, factor in self.ranges.prover.simple(address).terms:
            common = gcd(common, factor)
        return common & -common
