"""Little routines, assembled by hand, that show who ran them, when, and what they saw."""

from bittern.chips.machine.assembler import Code
from bittern.chips.machine.program import State
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.registers import at, eax, ecx, edx, esi, r64, rax, rcx, rdi, rdx, rsi, rsp


def fill() -> Code:
    """Write fill(address, n): u64 word i of n becomes thread + 1, for the part of the thread that runs."""
    a = Assembler()
    a.mov(r64[9], rdx)
    a.mov(r64[8], at(rdi))
    a.mov(rax, at(rdi, 8))
    a.imul(rax, rsi)
    a.xor(edx, edx)
    a.div(r64[9])
    a.mov(rcx, rax)  # first
    a.mov(rax, at(rdi, 8))
    a.lea(r64[10], at(rsi, 1))
    a.imul(rax, r64[10])
    a.xor(edx, edx)
    a.div(r64[9])  # behind the last
    turn, done = a.label(), a.label()
    a.place(turn)
    a.cmp(rcx, rax)
    a.jae(done)
    a.mov(at(r64[8], 0, rcx, 8), r64[10])
    a.inc(rcx)
    a.jmp(turn)
    a.place(done)
    a.ret()
    return a.finish()


def note() -> Code:
    """Write note(log, value): the log's first word counts its entries; value is the next one."""
    a = Assembler()
    a.mov(rax, at(rdi))
    a.mov(rcx, at(rdi, 8))
    a.inc(at(rax, size=8))
    a.mov(rdx, at(rax))
    a.mov(at(rax, 0, rdx, 8), rcx)
    a.ret()
    return a.finish()


def who() -> Code:
    """Write who(address): words become thread, threads, rsp; the mode of float arithmetic goes into the fourth."""
    a = Assembler()
    a.mov(rax, at(rdi))
    a.mov(at(rax), rsi)
    a.mov(at(rax, 8), rdx)
    a.mov(at(rax, 16), rsp)
    a.stmxcsr(at(rax, 24))
    a.ret()
    return a.finish()


def say() -> Code:
    """Write say(slots, clock, delay, dawdler): after a delay for the dawdler, slots[8 * thread] = clock[0]."""
    a = Assembler()
    turn, ready = a.label(), a.label()
    a.cmp(rsi, at(rdi, 24))
    a.jne(ready)
    a.mov(rcx, at(rdi, 16))
    a.place(turn)
    a.test(rcx, rcx)
    a.je(ready)
    a.dec(rcx)
    a.jmp(turn)
    a.place(ready)
    a.mov(rax, at(rdi, 8))
    a.mov(rax, at(rax))
    a.mov(rcx, at(rdi))
    a.shl(rsi, 6)
    a.mov(at(rcx, 0, rsi), rax)
    a.ret()
    return a.finish()


def hear() -> Code:
    """Write hear(slots, clock, faults): faults[8 * thread] += how many slots differ from clock[0]."""
    a = Assembler()
    a.mov(r64[8], at(rdi, 8))
    a.mov(r64[8], at(r64[8]))
    a.mov(rcx, at(rdi))
    a.mov(rax, at(rdi, 16))
    a.shl(rsi, 6)
    a.add(rax, rsi)
    turn, same = a.label(), a.label()
    a.place(turn)
    a.cmp(at(rcx), r64[8])
    a.je(same)
    a.inc(at(rax, size=8))
    a.place(same)
    a.add(rcx, 64)
    a.dec(rdx)
    a.jne(turn)
    a.ret()
    return a.finish()


def tick() -> Code:
    """Write tick(clock): clock[0] += 1."""
    a = Assembler()
    a.mov(rax, at(rdi))
    a.inc(at(rax, size=8))
    a.ret()
    return a.finish()


def stop_at() -> Code:
    """Write stop_at(clock, last, stop): where clock[0] is last or later, 4 bytes at stop become 1."""
    a = Assembler()
    done = a.label()
    a.mov(rax, at(rdi))
    a.mov(rax, at(rax))
    a.cmp(rax, at(rdi, 8))
    a.jb(done)
    a.mov(rcx, at(rdi, 16))
    a.mov(eax, 1)
    a.mov(at(rcx), eax)
    a.place(done)
    a.ret()
    return a.finish()


def nothing() -> Code:
    """Write a routine that only returns, and loses every register that a routine may lose."""
    a = Assembler()
    for register in (eax, ecx, edx, esi):
        a.mov(register, 0x5A5A5A5A)
    for register in (rdi, *r64[8:12]):
        a.mov(register, rax)
    a.ret()
    return a.finish()


def set_mode() -> Code:
    """Write set_mode(address): the mode of float arithmetic becomes what is there, and the old one goes there."""
    a = Assembler()
    a.stmxcsr(at(rsp, -8))
    a.ldmxcsr(at(rdi))
    a.mov(eax, at(rsp, -8))
    a.mov(at(rdi), eax)
    a.ret()
    return a.finish()


def put(state: State, offset: int, *values: int) -> None:
    """Write an argument block."""
    for number, value in enumerate(values, offset // 8):
        state.args[number] = value
