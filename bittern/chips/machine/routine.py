"""Code with virtual registers: what instruction selection makes, what register allocation takes.

A routine is a list of instructions in order, with labels and jumps among them. Virtual registers may be written more
than once (a loop's carried value is one register, written before the loop and at its end). What an instruction reads
and writes is said beside its operands, so that allocation knows nothing of any chip.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from bittern.chips.machine.assembler import Label


@dataclass(frozen=True, slots=True, eq=False)
class Virtual:
    """A register that is not chosen yet.

    bank: `general`, `vector` or `mask`. size: bytes of the value, and of its place on the stack if it is spilled.
    fixed: the number of the physical register that it must have, or -1.
    """

    number: int
    bank: str
    size: int
    fixed: int = -1

    def __repr__(self) -> str:
        return f"{self.bank[0]}{self.number}"


@dataclass(frozen=True, slots=True)
class Part:
    """A register as an operand. size: bytes that the instruction sees (0 for a mask register).

    mask: the lanes that are written, None for all; zeroing: the other lanes become zero, otherwise they stay.
    rounding: of the instruction alone, -1 for the mode's.
    """

    register: Virtual
    size: int
    mask: Virtual | None = None
    zeroing: bool = False
    rounding: int = -1


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in the frame. offset: bytes from the frame's lowest address. size: bytes."""

    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Address:
    """Memory as an operand: base + index * scale + displacement, a place in the frame, or a constant behind the code.

    size: bytes that are read or written. broadcast: lanes that one element of `size` bytes is repeated to, or 0.
    mask: the lanes that are stored.
    """

    base: Virtual | None = None
    index: Virtual | None = None
    scale: int = 1
    displacement: int = 0
    size: int = 8
    broadcast: int = 0
    slot: Slot | None = None
    label: Label | None = None
    mask: Virtual | None = None


Operand: TypeAlias = "Part | Address | Label | int"


@dataclass(frozen=True, slots=True, eq=False)
class Instruction:
    """One instruction.

    name: the chip's mnemonic, or one of the pseudo-instructions below. writes, reads: registers, those in addresses and
    masks included. tied: the register whose value the first operand holds before; it gets the register of `writes[0]`
    (a copy is put in front where its value lives on). early: what is written must differ from all that is read.
    clobbers: physical registers that lose their value, as (bank, number). target: where a jump goes; falls: whether
    the next instruction may follow.

    Pseudo-instructions: `label` (operand: the Label); `moves` (writes[i] = reads[i], all at once; `operands` is empty).
    """

    name: str
    operands: tuple[Operand, ...] = ()
    writes: tuple[Virtual, ...] = ()
    reads: tuple[Virtual, ...] = ()
    tied: Virtual | None = None
    early: bool = False
    clobbers: tuple[tuple[str, int], ...] = ()
    target: Label | None = None
    falls: bool = True
    label: str = ""


@dataclass(slots=True)
class Routine:
    """A routine under construction. frame: bytes of the frame that slots take so far; alignment: of the frame.

    arguments: registers that hold a value on entry (`fixed`), in order.
    """

    name: str
    arguments: tuple[Virtual, ...] = ()
    instructions: list[Instruction] = field(default_factory=list)
    frame: int = 0
    alignment: int = 16
    _numbers: int = 0

    def virtual(self, bank: str, size: int, fixed: int = -1) -> Virtual:
        """Return a new register."""
        self._numbers += 1
        return Virtual(self._numbers - 1, bank, size, fixed)

    def slot(self, size: int, alignment: int = 0) -> Slot:
        """Return a new place in the frame. alignment: 0 takes the size, rounded up to a power of two, at most 64."""
        boundary = alignment or min(64, 1 << max(0, size - 1).bit_length())
        self.frame += -self.frame % boundary
        self.alignment = max(self.alignment, boundary)
        made = Slot(self.frame, size)
        self.frame += size
        return made

    def extend(self, instructions: Sequence[Instruction]) -> None:
        """Append instructions."""
        self.instructions += instructions
