"""Writes instructions with virtual registers into a routine; the part of selection that knows no bitops.

`out` is the stream that instructions go to: a list that may hold lists, whose place is kept for what is found out later
(what stands before a loop, say). Vector instructions are named as under VEX; on the legacy tier they lose the `v` and
their first source becomes the result.
"""

from functools import cache
from typing import Any, TypeAlias

from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Address, Instruction, Operand, Part, Routine, Virtual
from bittern.chips.x86.features import Tier
from bittern.chips.x86.rows import forms
from bittern.chips.x86.select.table import kind_of_code

Source: TypeAlias = "Virtual | Part | Address | int"


@cache
def _is_tied(mnemonic: str) -> bool:
    """Whether the legacy form of a vector instruction has one register less than the VEX form."""
    return any(operand.place == "H" for form in forms(mnemonic) if form.kind == "vex" for operand in form.operands)


class Emission:
    """See the module. label: what the instructions are for."""

    def __init__(self, name: str, tier: Tier) -> None:
        self.tier = tier
        self.routine = Routine(name)
        self.out: list[Any] = []
        self.top = self.out
        self.label = ""
        self.code_kind = kind_of_code(tier)
        self.is_evex = self.code_kind == "evex"
        self.is_legacy = self.code_kind == "sse"
        self._parts: dict[tuple[Virtual, int], Part] = {}
        self.constants: dict[tuple[bytes, int], Label] = {}

    # --- registers

    def general(self, size: int = 8) -> Virtual:
        """Return a new general register."""
        return self.routine.virtual("general", size)

    def fixed(self, number: int, size: int = 8) -> Virtual:
        """Return a new general register that has this number."""
        return self.routine.virtual("general", size, number)

    def vector(self, size: int = 16) -> Virtual:
        """Return a new vector register."""
        return self.routine.virtual("vector", max(16, size))

    def mask(self) -> Virtual:
        """Return a new mask register."""
        return self.routine.virtual("mask", 8)

    def part(self, register: Virtual, size: int) -> Part:
        """Return a register as an operand of so many bytes."""
        key = (register, size)
        found = self._parts.get(key)
        if found is None:
            found = self._parts[key] = Part(register, size)
        return found

    # --- instructions

    def put(
        self,
        name: str,
        operands: tuple[Operand, ...],
        writes: tuple[Virtual, ...] = (),
        tied: "Virtual | None" = None,
        also: tuple[Virtual, ...] = (),
        clobbers: tuple[tuple[str, int], ...] = (),
        early: bool = False,
    ) -> None:
        """Append an instruction; what it reads is in the operands from the second on, or in all if it writes nothing.

        also: registers that are read without being operands.
        """
        reads: list[Virtual] = [*also]
        skip = bool(writes)
        for operand in operands:
            if type(operand) is Part:
                if operand.mask is not None:
                    reads.append(operand.mask)
                if not skip:
                    reads.append(operand.register)
            elif type(operand) is Address:
                for register in (operand.base, operand.index, operand.mask):
                    if register is not None:
                        reads.append(register)
            skip = False
        self.out.append(
            Instruction(name, operands, writes, tuple(reads), tied, early, clobbers, None, True, self.label)
        )

    def op(self, mnemonic: str, to: Virtual, *sources: Source, size: int = 16) -> Virtual:
        """Append a vector instruction: to = mnemonic(sources); registers are seen as `size` bytes."""
        operands = [self.part(s, size) if type(s) is Virtual else s for s in sources]
        target = self.part(to, size)
        if self.is_legacy:
            if _is_tied(mnemonic):
                first = operands.pop(0)
                assert isinstance(first, Part), (mnemonic, first)
                self.put(mnemonic[1:], (target, *operands), (to,), first.register)  # type: ignore[arg-type]
            else:
                self.put(mnemonic[1:], (target, *operands), (to,))  # type: ignore[arg-type]
        else:
            self.put(mnemonic, (target, *operands), (to,))  # type: ignore[arg-type]
        return to

    def tied_op(self, mnemonic: str, to: Virtual, held: Virtual, *sources: Source, size: int = 16) -> Virtual:
        """Append a vector instruction whose result register holds a source, in all encodings."""
        operands = [self.part(s, size) if type(s) is Virtual else s for s in sources]
        self.put(mnemonic, (self.part(to, size), *operands), (to,), held)  # type: ignore[arg-type]
        return to

    def whole(self, mnemonic: str, to: Virtual, held: Virtual, *sources: Source, size: int) -> Virtual:
        """Append a two-operand instruction on general registers: to = held op source."""
        operands = [self.part(s, size) if type(s) is Virtual else s for s in sources]
        self.put(mnemonic, (self.part(to, size), *operands), (to,), held)  # type: ignore[arg-type]
        return to

    def copy(self, to: Virtual, source: Virtual) -> None:
        """Append to = source, which costs nothing where both can be one register."""
        self.moves((to,), (source,))

    def moves(self, to: tuple[Virtual, ...], sources: tuple[Virtual, ...]) -> None:
        """Append parallel moves."""
        if to:
            self.out.append(Instruction("moves", (), to, sources, None, False, (), None, True, self.label))

    def place(self, label: Label) -> None:
        """Append a label."""
        self.out.append(Instruction("label", (label,), label=self.label))

    def jump(self, name: str, label: Label) -> None:
        """Append a jump: `jmp`, or one with a condition."""
        self.out.append(Instruction(name, (label,), (), (), None, False, (), label, name != "jmp", self.label))

    def zero(self, to: Virtual) -> Virtual:
        """Set a vector register to zero."""
        name = "vpxord" if self.is_evex else "pxor" if self.is_legacy else "vpxor"
        target = self.part(to, 16)  # writing 16 bytes clears the rest under VEX and EVEX
        return self.set_without_reading(name, (target, target) if self.is_legacy else (target, target, target), to)

    def set_without_reading(self, name: str, operands: tuple[Operand, ...], to: Virtual) -> Virtual:
        """Append an instruction whose result does not depend on what its register holds."""
        self.out.append(Instruction(name, operands, (to,), (), None, False, (), None, True, self.label))
        return to

    def immediate(self, to: Virtual, number: int) -> Virtual:
        """Set a general register to a number."""
        size = to.size
        number &= (1 << 8 * size) - 1
        if 0 < number < 1 << 32:
            self.put("mov", (self.part(to, 4), number), (to,))
        elif number and number >= (1 << 64) - (1 << 31):
            self.put("mov", (self.part(to, 8), number - (1 << 64)), (to,))
        else:
            self.put("mov", (self.part(to, 8 if number else 4), number), (to,))
        return to

    def pool(self, data: bytes, alignment: int = 0) -> Label:
        """Return the label of a constant behind the code."""
        key = (data, alignment)
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = Label("constant")
        return found

    def finish(self) -> Routine:
        """Return the routine with all streams in order."""
        flat: list[Instruction] = []
        _flatten(self.top, flat)
        self.routine.instructions = flat
        return self.routine


def _flatten(stream: list[Any], into: list[Instruction]) -> None:
    for item in stream:
        if type(item) is list:
            _flatten(item, into)
        else:
            into.append(item)
