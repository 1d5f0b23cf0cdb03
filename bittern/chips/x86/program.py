"""Links compiled routines and drivers, one for each section, into one piece of executable memory.

In goes what `chips/machine/program.py` describes; out comes a `Linked`. A driver costs 5 instructions a launch. Threads
meet at a barrier of epochs: each raises the epoch in its own record and waits until nobody's is behind (`waiting.py`).
A driver runs in the default mode of float arithmetic (nearest even, subnormals kept, no traps), whatever the caller's,
and puts the caller's back. Calling convention: System V; routines keep rbx, rbp and r12 to r15.
"""

import struct
from collections.abc import Mapping, Sequence

from bittern.chips.machine.assembler import Code, Label
from bittern.chips.machine.memory import executable
from bittern.chips.machine.program import (
    ARGS,
    BARRIERS,
    BUDGET,
    COUNT,
    DONE,
    GO,
    LAUNCHES,
    RECORD,
    RECORDS,
    SLEEPS,
    SPIN,
    STOP,
    Launch,
    Linked,
    Section,
    Span,
)
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.registers import (
    at,
    at_label,
    eax,
    ecx,
    edx,
    esi,
    r32,
    r64,
    rax,
    rbp,
    rbx,
    rcx,
    rdi,
    rdx,
    rsi,
    rsp,
)
from bittern.chips.x86.waiting import SLEEPERS, write_await, write_signal, write_ticks

_MODE = struct.pack("<I", 0x1F80)  # of float arithmetic: every exception masked, nearest even, no flushing
_KEPT = (rbx, rbp, *r64[12:16])
_FRAME = 40  # and the six registers and the return address: a multiple of 16
_CALLERS_MODE, _BEGAN, _STEPS = 0, 8, 16  # places in the frame

# While a driver runs: rbx the state, rbp the thread's record, and these.
_args, _launches, _thread, _threads = r64[12:16]


def link(routines: Sequence[Code], sections: Mapping[str, Section]) -> Linked:
    """Return the program of these routines and sections.

    Raises R161 where the system gives no executable memory.
    """
    code, spans = assemble(routines, sections)
    drivers = {name: code.places[_place(name)] for name in sections}
    return Linked(executable(code), dict(sections), spans, drivers)


def assemble(routines: Sequence[Code], sections: Mapping[str, Section]) -> tuple[Code, tuple[Span, ...]]:
    """Return the code of a program, and where each routine lies in it. The same inputs always give the same bytes."""
    for name, section in sections.items():
        for launch in section.launches:
            assert launch.routine < len(routines), ("no such routine", name, launch)
    a = Assembler()
    entries, spans = [], []
    for routine in routines:
        a.align(max(64, routine.alignment))
        entries.append(a.here())
        spans.append(Span(len(a.code), len(routine.data)))
        _append(a, routine)
    a.align(64)
    a.mark("meet")
    meet = _write_meet(a)
    for name, section in sections.items():
        a.align(64)
        _write_driver(a, name, section, entries, meet)
    return a.finish(), tuple(spans)


def _place(section: str) -> str:
    return f"driver {section}"


def _append(a: Assembler, routine: Code) -> None:
    """Append a finished routine with its marks."""
    position = 0
    for offset, text in routine.marks:
        a.code += routine.data[position:offset]
        a.mark(text)
        position = offset
    a.code += routine.data[position:]


def _write_meet(a: Assembler) -> Label:
    """Write `meet`: the thread of a driver goes on when all threads are here."""
    signal, awaits = write_signal(a), write_await(a)
    a.align(64)
    meet, look, late, done, next_ = a.here("meet"), a.label(), a.label(), a.label(), a.label()
    a.inc(at(rbp, BARRIERS, size=8))
    a.cmp(r32[15], 1)
    a.je(done)
    a.mov(esi, at(rbp))
    a.inc(esi)
    a.mov(eax, esi)
    a.xchg(at(rbp), eax)
    a.cmp(at(rbp, SLEEPERS, size=4), 0)
    wake = a.label()
    a.jne(wake)
    a.place(look)
    a.lea(rdi, at(rbx, RECORDS))
    a.mov(r32[8], r32[15])
    turn = a.here()
    a.mov(eax, at(rdi))
    a.sub(eax, esi)
    a.js(late)
    a.place(next_)
    a.add(rdi, RECORD)
    a.dec(r32[8])
    a.jne(turn)
    a.place(done)
    a.ret()
    a.place(late)
    a.mov(ecx, at(rbx, SPIN))
    a.call(awaits)
    a.add(at(rbp, SLEEPS), rax)
    a.jmp(next_)
    a.place(wake)
    a.mov(rdi, rbp)
    a.push(rsi)
    a.call(signal)
    a.pop(rsi)
    a.jmp(look)
    return meet


def _write_driver(a: Assembler, name: str, section: Section, entries: Sequence[Label], meet: Label) -> None:
    """Write driver(state, thread, threads) of a section."""
    a.mark(_place(name))
    a.here(_place(name))
    _write_entry(a)
    step = a.here()
    for launch in section.launches:
        if launch.label:
            a.mark(launch.label)
        _write_launch(a, launch, entries[launch.routine])
        if launch.barrier:
            a.call(meet)
    a.mark(_place(name))
    a.inc(at(rsp, _STEPS, size=8))
    if section.loop:
        _write_turn(a, step, meet)
    _write_exit(a)


def _write_entry(a: Assembler) -> None:
    for register in _KEPT:
        a.push(register)
    a.sub(rsp, _FRAME)
    a.mov(rbx, rdi)
    a.mov(_thread, rsi)
    a.mov(_threads, rdx)
    a.imul(rax, rsi, RECORD)
    a.lea(rbp, at(rbx, RECORDS, rax))
    a.mov(_args, at(rbx, ARGS))
    a.xor(r32[13], r32[13])
    a.stmxcsr(at(rsp, _CALLERS_MODE))
    a.ldmxcsr(at_label(a.constant(_MODE)))
    a.mov(at(rsp, _STEPS, size=8), 0)
    write_ticks(a)
    a.mov(at(rsp, _BEGAN), rax)


def _write_launch(a: Assembler, launch: Launch, routine: Label) -> None:
    """Write the call of a routine and the count of it."""
    others = a.label()
    if launch.mode == "one":
        a.test(_thread, _thread)
        a.jne(others)
    if launch.stride:
        a.imul(rax, _thread, launch.stride)
        a.lea(rdi, at(_args, launch.args, rax))
    else:
        a.lea(rdi, at(_args, launch.args))
    if launch.mode == "split":
        a.mov(rsi, _thread)
        a.mov(rdx, _threads)
    else:
        a.xor(esi, esi)
        a.mov(edx, 1)
    a.call(routine)
    a.inc(_launches)
    a.place(others)


def _write_turn(a: Assembler, step: Label, meet: Label) -> None:
    """Write the end of a loop's step: thread 0 decides, all meet, and all do as was decided.

    The word of the decision alternates, so that the next decision never meets a thread that still reads this one.
    """
    waits, decided = a.label(), a.label()
    a.test(_thread, _thread)
    a.jne(waits)
    write_ticks(a)
    a.sub(rax, at(rsp, _BEGAN))
    a.xor(ecx, ecx)
    a.cmp(rax, at(rbx, BUDGET))
    a.jae(decided)
    a.mov(rdx, at(rsp, _STEPS))
    a.cmp(rdx, at(rbx, COUNT))
    a.jae(decided)
    a.cmp(at(rbx, STOP, size=4), 0)
    a.jne(decided)
    a.inc(ecx)
    a.place(decided)
    a.mov(eax, at(rsp, _STEPS))
    a.and_(eax, 1)
    a.mov(at(rbx, GO, rax, 8), rcx)
    a.place(waits)
    a.call(meet)
    a.mov(eax, at(rsp, _STEPS))
    a.and_(eax, 1)
    a.cmp(at(rbx, GO, rax, 8, size=8), 0)
    a.jne(step)


def _write_exit(a: Assembler) -> None:
    others = a.label()
    a.add(at(rbp, LAUNCHES), _launches)
    a.test(_thread, _thread)
    a.jne(others)
    a.mov(rax, at(rsp, _STEPS))
    a.mov(at(rbx, DONE), rax)
    a.place(others)
    a.ldmxcsr(at(rsp, _CALLERS_MODE))
    a.add(rsp, _FRAME)
    for register in reversed(_KEPT):
        a.pop(register)
    a.ret()
