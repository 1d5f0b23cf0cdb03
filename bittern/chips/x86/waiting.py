"""Threads that wait for each other, in emitted code: spin for a bounded time, then sleep on the system's futex.

What they wait for is a *word*: a u32 that only grows (modulo 2^32; compared by the sign of the difference), and in the
4 bytes behind it a u32 that counts who sleeps. Whoever raises the word does so with a locked exchange and then looks
for sleepers; whoever goes to sleep first counts itself with a locked increment and then has the system compare the
word. Both are full fences, so one of the two sees the other and no wake-up is lost (Dekker's argument). A spurious
wake-up or a signal only means another look. Futex: Linux, futex(2); numbers of the calls from its x86-64 table.
"""

import sys

from bittern.chips.machine.assembler import Label
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.registers import at, eax, ecx, edx, esi, r32, r64, rdi, rdx, rsi

_FUTEX, _WAIT, _WAKE = 202, 128, 129  # system call; operations, private to the process
_EVERYBODY = 0x7FFFFFFF

SLEEPERS = 4  # byte offset of the count of sleepers from the word


def can_sleep() -> bool:
    """Say whether this system has futexes; without them, a program runs on one thread."""
    return sys.platform == "linux"


def write_signal(a: Assembler) -> Label:
    """Write `signal`, which raises the word at rdi to esi and wakes who sleeps on it. Keeps rbx, rbp, r12 to r15."""
    signal = a.here("signal")
    a.xchg(at(rdi), esi)
    a.cmp(at(rdi, SLEEPERS, size=4), 0)
    wake = a.label()
    a.jne(wake)
    a.ret()
    a.place(wake)
    a.mov(esi, _WAKE)
    a.mov(edx, _EVERYBODY)
    a.mov(eax, _FUTEX)
    a.syscall()
    a.ret()
    return signal


def write_await(a: Assembler) -> Label:
    """Write `await`, which returns when the word at rdi is esi or later.

    ecx: rounds to spin before sleeping; 0 looks once. eax becomes how often it slept. Keeps rdi, rsi, r8, r9, rbx, rbp,
    r12 to r15.
    """
    awaits, spin, sleep, again, awake = a.label("await"), a.label(), a.label(), a.label(), a.label()
    done = a.label()
    a.place(spin)
    a.pause()
    a.dec(ecx)
    a.place(awaits)
    a.mov(eax, at(rdi))
    a.sub(eax, esi)
    a.jns(done)
    a.test(ecx, ecx)
    a.jne(spin)
    a.place(sleep)
    a.lock_inc(at(rdi, SLEEPERS, size=4))
    a.push(rsi)
    a.push(r64[8])
    a.xor(r32[8], r32[8])  # how often it slept
    a.place(again)
    a.mov(edx, at(rdi))
    a.mov(eax, edx)
    a.sub(eax, esi)
    a.jns(awake)
    a.push(rsi)
    a.mov(esi, _WAIT)
    a.xor(r32[10], r32[10])  # for as long as it takes
    a.mov(eax, _FUTEX)
    a.syscall()
    a.pop(rsi)
    a.inc(r32[8])
    a.jmp(again)
    a.place(awake)
    a.lock_dec(at(rdi, SLEEPERS, size=4))
    a.mov(eax, r32[8])
    a.pop(r64[8])
    a.pop(rsi)
    a.ret()
    a.place(done)
    a.xor(eax, eax)
    a.ret()
    return awaits


def write_ticks(a: Assembler) -> None:
    """Write into rax what the time stamp counter shows; rdx is lost."""
    a.rdtsc()
    a.shl(rdx, 32)
    a.or_(r64[0], rdx)
