"""A standalone executable of a network: one static file for Linux that reads samples and writes outputs.

    ./network [INPUT [OUTPUT]]

INPUT holds samples one behind the other, each all inputs in order, row-major, low byte first; OUTPUT gets all outputs
of each sample in order. Without them it reads stdin and writes stdout. Nothing else is needed: no library, no
interpreter. It ends with 0, or with a line on stderr: 2 the input cannot be opened, 3 the output cannot be, 4 the input
ends inside a sample or cannot be read, 5 the output cannot be written, 6 the processor lacks what the code needs.

In goes a cut for one sample on one thread; its code, constants and state are laid at fixed addresses.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bittern.chips.machine.assembler import Label
from bittern.chips.machine.elf import PAGE, Segment, executable_file
from bittern.chips.x86.cut import SECTION, Cut
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.features import FEATURES, Tier
from bittern.chips.x86.program import assemble
from bittern.chips.x86.registers import (
    at,
    at_label,
    eax,
    ebp,
    ecx,
    edi,
    edx,
    esi,
    r32,
    r64,
    rax,
    rbp,
    rbx,
    rdi,
    rdx,
    rsi,
    rsp,
)
from bittern.chips.x86.weights import LINE, Bytes, address_of

_BASE = 0x400000
_READ, _WRITE, _OPEN, _EXIT = 0, 1, 2, 60  # system calls of Linux, x86-64
_CREATE = 0o1 | 0o100 | 0o1000  # write only, create, truncate
_MODE = 0o644
_REGISTERS = (eax, r32[3], ecx, edx)  # eax, ebx, ecx, edx: what cpuid gives
_FAULTS = {
    2: "the input cannot be opened",
    3: "the output cannot be opened",
    4: "the input ends inside a sample, or cannot be read",
    5: "the output cannot be written",
    6: "this processor lacks what the code needs",
}


@dataclass(slots=True)
class _Layout:
    """Where pieces of memory go. starts: by the address that they have in this process."""

    address: int
    starts: dict[int, int] = field(default_factory=dict)
    pieces: list[tuple[int, Bytes]] = field(default_factory=list)

    def add(self, memory: Bytes) -> None:
        """Give a piece a place, once."""
        here = address_of(memory)
        if here not in self.starts:
            self.starts[here] = self.address
            self.pieces.append((self.address, memory))
            self.address += -(-memory.nbytes // LINE) * LINE

    def data(self, start: int) -> bytes:
        """Return the bytes of all pieces from a place on."""
        made = bytearray(self.address - start)
        for place, memory in self.pieces:
            made[place - start : place - start + memory.nbytes] = memory.tobytes()
        return bytes(made)


def standalone(cut: Cut, tier: Tier) -> bytes:
    """Return the executable of a cut for one sample on one thread."""
    assert cut.state.threads == 1 and not cut.section.loop, "one thread, no loop"
    code, _ = assemble(cut.codes, {SECTION: cut.section})
    changing = {address_of(memory): memory for memory in cut.changing}
    fixed = _Layout(_BASE)
    for _, memory, _ in cut.addressed:
        if address_of(memory) not in changing:
            fixed.add(memory)
    free = _Layout(_pages(fixed.address) + PAGE)
    for memory in changing.values():
        free.add(memory)
    state_at = _pages(free.address) + PAGE
    state = _state(cut, state_at, {**fixed.starts, **free.starts})
    program_at = _pages(state_at + len(state)) + PAGE
    stub_at = _pages(program_at + len(code.data)) + PAGE
    inputs = [
        (free.starts[address_of(cut.inputs[value])], _input_bytes(cut, k)) for k, value in enumerate(cut.plan.inputs)
    ]
    outputs = []
    for leaf in range(len(cut.plan.results)):
        memory, place, size = cut.result_home(leaf)
        outputs.append(({**fixed.starts, **free.starts}[address_of(memory)] + place, size))
    stub = _stub(tier, state_at, program_at + code.places[f"driver {SECTION}"], inputs, outputs)
    size = free.address - (_pages(fixed.address) + PAGE)
    segments = [
        *([Segment(_BASE, fixed.data(_BASE), "r")] if fixed.pieces else []),
        Segment(_pages(fixed.address) + PAGE, b"", "rw", size),
        Segment(state_at, state, "rw"),
        Segment(program_at, code.data, "rx"),
        Segment(stub_at, stub, "rx"),
    ]
    return executable_file("x86-64", stub_at, segments)


def _state(cut: Cut, address: int, starts: dict[int, int]) -> bytes:
    """Return the state as it lies in the file, its argument words put to where things are there."""
    cut.state.prepare(1, 0, 0)
    image, first = cut.state.image(address), cut.state.first_arg
    for slot, memory, place in cut.addressed:
        image[first + slot] = starts[address_of(memory)] + place
    made: bytes = image.astype("<u8").tobytes()
    return made


def _input_bytes(cut: Cut, number: int) -> int:
    value = cut.plan.inputs[number]
    count = int(np.prod([size.value((1,)) for size in value.type.shape]))
    return count * np.dtype(value.type.element.storage).itemsize


def _pages(address: int) -> int:
    return -(-address // PAGE) * PAGE


def _stub(tier: Tier, state: int, driver: int, inputs: list[tuple[int, int]], outputs: list[tuple[int, int]]) -> bytes:
    """Write what runs first: it checks the processor, opens the files, and goes from sample to sample.

    rbx: arguments of the command; r12: their texts; r13, r14: what is read and written; r15, rbp: place and bytes left.
    """
    a = Assembler()
    faults = {status: a.label(f"fault {status}") for status in _FAULTS}
    a.mov(r64[12], rsp)
    _check_processor(a, tier, faults[6])
    a.mov(rbx, at(r64[12]))
    a.xor(r32[13], r32[13])
    a.mov(r32[14], 1)
    ready, done = a.label(), a.label()
    a.cmp(rbx, 2)
    a.jb(ready)
    _open(a, 16, 0, faults[2])
    a.mov(r64[13], rax)
    a.cmp(rbx, 3)
    a.jb(ready)
    _open(a, 24, _CREATE, faults[3])
    a.mov(r64[14], rax)
    a.place(ready)
    sample = a.here("sample")
    for number, (address, size) in enumerate(inputs):
        _read(a, address, size, faults[4], done if number == 0 else None)
    a.mov(rdi, state)
    a.xor(esi, esi)
    a.mov(edx, 1)
    a.mov(rax, driver)
    a.call(rax)
    for address, size in outputs:
        _write(a, address, size, faults[5])
    a.jmp(sample)
    a.place(done)
    a.xor(edi, edi)
    a.mov(eax, _EXIT)
    a.syscall()
    _write_faults(a, faults)
    return a.finish().data


def _check_processor(a: Assembler, tier: Tier, fault: Label) -> None:
    """Write the comparison of cpuid and of what the system saves with the features of the tier."""
    needed = [each for each in FEATURES if each.name in tier.features]
    for leaf, subleaf in sorted({(each.leaf, each.subleaf) for each in needed}):
        masks = [0, 0, 0, 0]
        for each in needed:
            if (each.leaf, each.subleaf) == (leaf, subleaf):
                masks[each.register] |= 1 << each.bit
        a.mov(eax, leaf)
        a.mov(ecx, subleaf)
        a.cpuid()
        for register, mask in zip(_REGISTERS, masks, strict=True):
            if mask:
                a.mov(esi, mask)
                a.and_(register, esi)
                a.cmp(register, esi)
                a.jne(fault)
    saved = max(each.saved for each in needed)
    if saved > 2:
        a.xor(ecx, ecx)
        a.xgetbv()
        a.and_(eax, saved)
        a.cmp(eax, saved)
        a.jne(fault)


def _open(a: Assembler, argument: int, flags: int, fault: Label) -> None:
    a.mov(rdi, at(r64[12], argument))
    a.mov(esi, flags)
    a.mov(edx, _MODE)
    a.mov(eax, _OPEN)
    a.syscall()
    a.test(rax, rax)
    a.js(fault)


def _read(a: Assembler, address: int, size: int, fault: Label, done: Label | None) -> None:
    """Write a loop that fills a place. done: where it goes if not one byte comes: the end of all samples."""
    filled, ended = a.label(), a.label()
    a.mov(r64[15], address)
    a.mov(rbp, size)
    again = a.here()
    _transfer(a, _READ, r32[13])
    a.test(rax, rax)
    a.js(fault)
    a.je(ended)
    a.add(r64[15], rax)
    a.sub(rbp, rax)
    a.jne(again)
    a.jmp(filled)
    a.place(ended)
    if done is not None:
        a.cmp(rbp, size)
        a.je(done)
    a.jmp(fault)
    a.place(filled)


def _write(a: Assembler, address: int, size: int, fault: Label) -> None:
    a.mov(r64[15], address)
    a.mov(rbp, size)
    again = a.here()
    _transfer(a, _WRITE, r32[14])
    a.test(rax, rax)
    a.js(fault)
    a.add(r64[15], rax)
    a.sub(rbp, rax)
    a.jne(again)


def _transfer(a: Assembler, call: int, file: object) -> None:
    a.mov(edi, file)
    a.mov(rsi, r64[15])
    a.mov(rdx, rbp)
    a.mov(eax, call)
    a.syscall()


def _write_faults(a: Assembler, faults: dict[int, Label]) -> None:
    """Write for each fault a line on stderr and the end."""
    for status, text in _lines():
        a.place(faults[status])
        a.lea(rsi, at_label(a.constant(text, 1)))
        a.mov(edx, len(text))
        a.mov(edi, 2)
        a.mov(eax, _WRITE)
        a.mov(ebp, status)
        a.syscall()
        a.mov(edi, ebp)
        a.mov(eax, _EXIT)
        a.syscall()


def _lines() -> Iterator[tuple[int, bytes]]:
    for status, text in _FAULTS.items():
        yield status, f"error: {text}\n".encode()
