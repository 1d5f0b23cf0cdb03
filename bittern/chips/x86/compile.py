"""Compiles a bitops kernel to x86-64 machine code.

In goes a verified kernel and a tier; out comes position independent code of one function, which follows the calling
convention of System V and is called as

    void kernel(const u64 *args, u64 thread, u64 threads)

`args` are the values of the kernel's symbols, the addresses of its buffers but scratch, and its parameters, 8 bytes
each. A parallel loop at the top does the rounds `rounds * thread // threads` to `rounds * (thread + 1) // threads`.

simplify -> expand for the tier -> simplify -> verify -> select -> allocate (checked) -> encode.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bittern.base.errors import BitternError, code
from bittern.bitops.expand import beyond, expand
from bittern.bitops.kernel import Kernel, walk
from bittern.bitops.rewrites import RULES
from bittern.bitops.simplify import simplify
from bittern.bitops.verify import verify
from bittern.chips.machine.allocate import allocate
from bittern.chips.machine.allocated import Allocated, Bank, Counts
from bittern.chips.machine.assembler import Code, Label
from bittern.chips.machine.routine import Address, Instruction, Part, Virtual
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.features import Tier
from bittern.chips.x86.registers import (
    Memory,
    Register,
    at,
    at_label,
    broadcast,
    k,
    masked,
    masked_memory,
    r8,
    r16,
    r32,
    r64,
    rax,
    rsp,
    xmm,
    ymm,
    zeroed,
    zmm,
)
from bittern.chips.x86.select.selector import Selector
from bittern.chips.x86.target import target

UNSUITABLE = code("R166", "a kernel that this chip does not compile")

_LARGEST_FRAME = 1 << 18
_GENERAL = (0, 1, 2, 6, 7, 8, 9, 10, 11, 3, 5, 12, 13, 14, 15)
_SAVED = frozenset((3, 5, 12, 13, 14, 15))
# What makes a constant; these are used for nothing else that reads memory.
_REMADE = frozenset(("vmovaps", "movaps", "vbroadcastss", "vbroadcastsd", "vpxord", "vpxor", "pxor"))
# Rules whose results a target may lack: what was expanded must not come together again.
_RULES = tuple(r for r in RULES if r.name not in ("select_min", "select_max", "rotate", "rotate_turned"))
_SIZED = {1: r8, 2: r16, 4: r32, 8: r64}
_VECTORS = {16: xmm, 32: ymm, 64: zmm}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel as machine code.

    code: its entry is at offset 0; its marks are the labels of the steps. frame: bytes of the stack. instructions: as
    encoded. counts: what allocation added. lowered: the kernel as selected.
    """

    kernel: Kernel
    tier: Tier
    code: Code
    frame: int
    instructions: int
    counts: Counts
    lowered: Kernel

    @property
    def marks(self) -> tuple[tuple[int, str], ...]:
        """What each stretch of code was made for: (offset of its first byte, label of the steps)."""
        return self.code.marks


def compile_kernel(kernel: Kernel, tier: Tier) -> Compiled:
    """Return the machine code of a kernel for a tier.

    BitternError B101 to B106 where the kernel is not sound or the tier cannot do it, R166 where the chip cannot.
    """
    _check(kernel)
    with _uncollected():
        lowered = lower(kernel, tier)
        selector = Selector(lowered, tier, verify(lowered))
        allocated = allocate(selector.run(), banks(tier), _REMADE)
        data = {label: key for key, label in selector.constants.items()}
        finished, count = encode(allocated, tier, data)
    return Compiled(kernel, tier, finished, allocated.frame, count, allocated.counts, lowered)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage collection look through the many small objects of a kernel, which hold no cycles worth it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def lower(kernel: Kernel, tier: Tier) -> Kernel:
    """Return the kernel of equal bits that selection takes."""
    simple, wanted = simplify(kernel), target(tier)
    is_ready = not beyond(simple, wanted) and all(step.kind != "lookup" for step in walk(simple.body))
    return simple if is_ready else simplify(expand(simple, wanted), _RULES)


def _check(kernel: Kernel) -> None:
    """Refuse what has no machine code: barriers, and scratch that does not fit a frame."""
    scratch = [b for b in kernel.buffers if b.access == "scratch"]
    sizes = [b.size.constant for b in scratch]
    if any(step.kind == "barrier" for step in walk(kernel.body)):
        raise BitternError(
            UNSUITABLE,
            f"The kernel `{kernel.name}` has a barrier inside.",
            "Cut it into two kernels; the program has barriers between them.",
        )
    total = sum(size * b.element.bits // 8 for size, b in zip(sizes, scratch, strict=True) if size is not None)
    if None in sizes or total > _LARGEST_FRAME:
        raise BitternError(
            UNSUITABLE,
            f"The scratch of the kernel `{kernel.name}` is larger than {_LARGEST_FRAME} bytes or of unknown size.",
            "Pass it as a buffer.",
        )


def banks(tier: Tier) -> tuple[Bank, ...]:
    """Return the registers that a tier has; the stack pointer and k0 are not given out."""
    count = 32 if tier.vector == 64 else 16
    return (
        Bank("general", _GENERAL, _SAVED, True),
        Bank("vector", tuple(range(count))),
        Bank("mask", tuple(range(1, 8)) if tier.vector == 64 else ()),
    )


# --- encoding


def encode(allocated: Allocated, tier: Tier, data: dict[Label, tuple[bytes, int]]) -> tuple[Code, int]:
    """Return the code of an allocated routine and its number of instructions. data: of the constants' labels."""
    encoder = _Encoder(allocated, tier, data)
    encoder.run()
    return encoder.assembler.finish(), encoder.count


class _Encoder:
    def __init__(self, allocated: Allocated, tier: Tier, data: dict[Label, tuple[bytes, int]]) -> None:
        self.allocated, self.tier, self.data = allocated, tier, data
        self.assembler = Assembler(tier.features)
        self.registers = allocated.registers
        self.saved = [r64[number] for bank, number in allocated.saved if bank == "general"]
        self.count = 0
        self._labels: dict[Label, Label] = {}
        self._parts: dict[Part, Register] = {}
        self._methods: dict[str, Callable[..., None]] = {}
        self._moves = "vmovups" if tier.vector > 16 else "movups"

    def run(self) -> None:
        """Write all."""
        self._prologue()
        special = {
            "moves": lambda one: None,
            "label": self._label,
            "copy": self._copy,
            "swap": self._swap,
            "load_slot": self._slot,
            "store_slot": self._slot,
            "ret": self._epilogue,
        }
        mark, methods = "", self._methods
        for one in self.allocated.instructions:
            name = one.name
            if one.label != mark:
                mark = one.label
                self.assembler.mark(mark)
            handler = special.get(name)
            if handler is not None:
                handler(one)
                continue
            method = methods.get(name)
            if method is None:
                spelled = name + "_" if name in ("and", "or", "not") else name
                method = methods[name] = getattr(self.assembler, spelled)
            self.count += 1
            method(*[self._operand(o) for o in one.operands])

    def _operand(self, operand: Any) -> Any:
        kind = type(operand)
        if kind is Part:
            found = self._parts.get(operand)
            if found is None:
                found = self._parts[operand] = self._register(operand)
            return found
        return self._memory(operand) if kind is Address else operand

    def _register(self, part: Part) -> Register:
        number = self.registers[part.register]
        bank = part.register.bank
        if bank == "general":
            return _SIZED[part.size][number]
        if bank == "mask":
            return k[number]
        register = _VECTORS[part.size][number]
        if part.mask is not None:
            mask = k[self.registers[part.mask]]
            return zeroed(register, mask) if part.zeroing else masked(register, mask)
        return register

    def _memory(self, address: Address) -> Memory:
        registers = self.registers
        if address.label is not None:
            label = self._labels.get(address.label)
            if label is None:
                label = self._labels[address.label] = self.assembler.constant(*self.data[address.label])
            found = at_label(label, address.displacement, address.size)
        else:
            index = None if address.index is None else r64[registers[address.index]]
            if address.slot is not None:
                found = at(rsp, address.slot.offset + address.displacement, index, address.scale, address.size)
            else:
                base = None if address.base is None else r64[registers[address.base]]
                found = at(base, address.displacement, index, address.scale, address.size)
        if address.broadcast:
            found = broadcast(found)
        return masked_memory(found, k[registers[address.mask]]) if address.mask is not None else found

    # --- pseudo-instructions

    def _label(self, one: Instruction) -> None:
        label = one.operands[0]
        assert isinstance(label, Label)
        if label.name == "loop":
            self.assembler.align(32)
        self.assembler.place(label)

    def _copy(self, one: Instruction) -> None:
        to, source = one.operands
        assert isinstance(to, Part) and isinstance(source, Part)
        size = min(to.register.size, source.register.size)  # what lies above is not stated
        self._move(to.register, self._whole(to.register, size), self._whole(source.register, size))

    def _swap(self, one: Instruction) -> None:
        first, second = one.operands
        assert isinstance(first, Part) and isinstance(second, Part)
        self.count += 1
        self.assembler.xchg(self._whole(first.register), self._whole(second.register))

    def _slot(self, one: Instruction) -> None:
        first, second = one.operands
        part = first if isinstance(first, Part) else second
        assert isinstance(part, Part)
        register = part.register
        operands = [self._whole(register) if o is part else self._unsized(o) for o in (first, second)]
        self._move(register, *operands)

    def _unsized(self, address: Any) -> Memory:
        assert address.slot is not None, address
        return at(rsp, address.slot.offset + address.displacement)

    def _whole(self, register: Virtual, size: int = 0) -> Register:
        number, size = self.registers[register], size or register.size
        if register.bank == "general":
            return _SIZED[size][number]
        return k[number] if register.bank == "mask" else _VECTORS[size][number]

    def _move(self, register: Virtual, to: Any, source: Any) -> None:
        self.count += 1
        if register.bank == "general":
            self.assembler.mov(to, source)
        elif register.bank == "mask":
            self.assembler.kmovq(to, source)
        else:
            getattr(self.assembler, self._moves)(to, source)

    # --- frame

    def _prologue(self) -> None:
        a, frame = self.assembler, self.allocated.frame
        for register in self.saved:
            a.push(register)
        if not frame:
            return
        size = self._frame_size()
        if self.allocated.alignment <= 16:
            a.sub(rsp, size)
            return
        a.mov(rax, rsp)
        a.sub(rsp, size)
        a.and_(rsp, -self.allocated.alignment)
        a.mov(at(rsp, frame + -frame % 8), rax)

    def _frame_size(self) -> int:
        """Return the bytes to take: the frame, the old stack pointer where it must be kept, and what aligns them."""
        frame = self.allocated.frame
        if self.allocated.alignment > 16:
            return frame + -frame % 8 + 8
        return frame + -(frame + 8 + 8 * len(self.saved)) % 16

    def _epilogue(self, one: Instruction) -> None:
        a, frame = self.assembler, self.allocated.frame
        if frame and self.allocated.alignment <= 16:
            a.add(rsp, self._frame_size())
        elif frame:
            a.mov(rsp, at(rsp, frame + -frame % 8))
        for register in reversed(self.saved):
            a.pop(register)
        a.ret()
        self.count += 1
