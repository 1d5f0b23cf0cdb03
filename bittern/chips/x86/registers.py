"""Operands of x86-64 instructions: registers, memory, and what is attached to them.

Operands are immutable. `form` is the word by which the encoder picks an instruction row:

    r1 r2 r4 r8      general register of so many bytes; cl is r1c
    x y z / X Y Z    vector register of 16, 32, 64 bytes; small letter: number 0 to 15, capital: 16 to 31
    k                mask register
    m m1 ... m64     memory, of unsaid size or of so many bytes
    b b2 ... b32     one element of memory broadcast, to as many lanes as fit or to the number said
    vx vy vz         memory at a vector of indices (capital: index register 16 to 31)
    ...k ...kz       written under a mask; the other lanes are set to zero
    ...r ...s        with a rounding of its own; without exceptions
    label short      a place in the code; one that is known to be less than 128 bytes away

An immediate is an int of Python.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

from bittern.chips.machine.assembler import Label

_LETTERS = {16: "x", 32: "y", 64: "z"}
_SIZED = {0: "m", 1: "m1", 2: "m2", 4: "m4", 8: "m8", 16: "m16", 32: "m32", 64: "m64"}
_SCALES = {1: 0, 2: 0x40, 4: 0x80, 8: 0xC0}


@dataclass(frozen=True, slots=True)
class Register:
    """A register.

    number: 0 to 31. size: bytes; 0 for a mask register. mask: bits 0 to 2 the mask's number, bit 7 zeroing, as EVEX
    has them. rounding: -1 without one, else 0 to 3 (nearest even, down, up, to zero). low: REX bits if the register is
    `rm`; high: if it is `reg` (both with 0x40 where a byte register needs the prefix).
    """

    name: str
    number: int
    size: int
    form: str
    mask: int = 0
    rounding: int = -1
    low: int = 0
    high: int = 0

    def __repr__(self) -> str:
        return self.name


def _general(names: str, size: int) -> tuple[Register, ...]:
    made = []
    for number, name in enumerate(names.split()):
        needed = 0x40 if number > 7 or (size == 1 and number > 3) else 0
        form = "r1c" if name == "cl" else f"r{size}"
        extended = number >> 3
        made.append(Register(name, number, size, form, low=needed | extended, high=needed | extended << 2))
    return tuple(made)


def _vector(name: str, size: int) -> tuple[Register, ...]:
    letter = _LETTERS[size]
    made = []
    for number in range(32):
        needed, extended = (0x40 if number & 8 else 0), number >> 3 & 1
        form = letter if number < 16 else letter.upper()
        made.append(Register(f"{name}{number}", number, size, form, low=needed | extended, high=needed | extended << 2))
    return tuple(made)


_HIGHER = " ".join(f"r{number}" for number in range(8, 16))
r64 = _general(f"rax rcx rdx rbx rsp rbp rsi rdi {_HIGHER}", 8)
r32 = _general("eax ecx edx ebx esp ebp esi edi " + _HIGHER.replace(" ", "d ") + "d", 4)
r16 = _general("ax cx dx bx sp bp si di " + _HIGHER.replace(" ", "w ") + "w", 2)
r8 = _general("al cl dl bl spl bpl sil dil " + _HIGHER.replace(" ", "b ") + "b", 1)
xmm, ymm, zmm = _vector("xmm", 16), _vector("ymm", 32), _vector("zmm", 64)
k = tuple(Register(f"k{number}", number, 0, "k") for number in range(8))

rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi = r64[:8]
eax, ecx, edx, ebx, esp, ebp, esi, edi = r32[:8]
al, cl, dl, bl, spl, bpl, sil, dil = r8[:8]


class Memory(NamedTuple):
    """A memory operand, taken apart as the encoder needs it; `at` makes one (a tuple, for its speed).

    base: low three bits, or -1 without a base. sib: the SIB byte, or -1 where none is needed. rex: X and B bits.
    high: the index register's bit 4, at its place in EVEX. label: for addresses relative to the code, else None.
    """

    form: str
    base: int
    sib: int
    displacement: int
    rex: int
    high: int = 0
    mask: int = 0
    label: Label | None = None


def at(
    base: Register | None,
    displacement: int = 0,
    index: Register | None = None,
    scale: int = 1,
    size: int = 0,
) -> Memory:
    """Return the operand at base + index * scale + displacement.

    base: 64-bit register or None. index: 64-bit register other than rsp, or a vector register of indices. scale: 1, 2,
    4, 8. displacement: fits 32 bits signed. size: bytes, where the other operands do not say it.
    """
    assert -0x80000000 <= displacement <= 0x7FFFFFFF, ("the displacement needs more than 32 bits", displacement)
    form = _SIZED[size]
    if base is None:
        low, below, rex = -1, 5, 0
    else:
        assert base.size == 8, ("not a base", base)
        low = below = base.number & 7
        rex = base.low
    if index is None:
        # Without a base, or with one whose low bits mean "SIB follows", a SIB byte without an index is needed.
        sib = 0x20 | below if low in (-1, 4) else -1
        return tuple.__new__(Memory, (form, low, sib, displacement, rex, 0, 0, None))
    assert index.size in (8, 16, 32, 64), ("not an index", index)
    assert index.number != 4 or index.size != 8, "rsp cannot be an index"
    sib = _SCALES[scale] | (index.number & 7) << 3 | below
    rex |= 0x42 if index.number & 8 else 0
    if index.size == 8:
        return tuple.__new__(Memory, (form, low, sib, displacement, rex, 0, 0, None))
    return Memory("v" + index.form, low, sib, displacement, rex, index.number >> 4 << 27)


def at_label(label: Label, displacement: int = 0, size: int = 0) -> Memory:
    """Return the operand at a label, such as a constant's, plus bytes; it is addressed relative to the code."""
    return Memory(_SIZED[size], 5, -1, displacement, 0, 0, 0, label)


def broadcast(memory: Memory, lanes: int = 0) -> Memory:
    """Return the operand as one element for all lanes. lanes: how many, where the registers do not say it."""
    assert memory.form[0] == "m", ("not plain memory", memory)
    return memory._replace(form=f"b{lanes}" if lanes else "b")


@cache
def _masked_register(target: Register, mask: Register, suffix: str) -> Register:
    bits = mask.number | (0x80 if suffix == "kz" else 0)
    name = f"{target.name}{{{mask.name}}}" + ("{z}" if suffix == "kz" else "")
    return replace(target, name=name, form=target.form + suffix, mask=bits)


def masked(target: Register, mask: Register) -> Register:
    """Return the vector or mask register as a result of which lanes outside the mask (k1 to k7) keep their value.

    For a result that is itself a mask those lanes become zero.
    """
    _check_mask(mask)
    return _masked_register(target, mask, "k")


def zeroed(target: Register, mask: Register) -> Register:
    """Return the vector register as a result of which lanes outside the mask (k1 to k7) become zero."""
    _check_mask(mask)
    return _masked_register(target, mask, "kz")


def masked_memory(target: Memory, mask: Register) -> Memory:
    """Return the memory as a result, or as a vector of places, of which lanes outside the mask are left alone."""
    _check_mask(mask)
    return target._replace(form=target.form + "k", mask=mask.number)


def _check_mask(mask: Register) -> None:
    assert mask.form == "k" and mask.number, ("not a mask (k1 to k7)", mask)


ROUNDINGS: Sequence[str] = ("rn", "rd", "ru", "rz")


@cache
def rounded(source: Register, rounding: str) -> Register:
    """Return the register as the last source of an operation that rounds by itself and raises no exception.

    rounding: "rn" nearest even, "rd" down, "ru" up, "rz" to zero.
    """
    name = f"{source.name}{{{rounding}-sae}}"
    return replace(source, name=name, form=source.form + "r", rounding=ROUNDINGS.index(rounding))


@cache
def quiet(source: Register) -> Register:
    """Return the register as the last source of an operation that raises no exception."""
    return replace(source, name=f"{source.name}{{sae}}", form=source.form + "s", rounding=0)


@dataclass(frozen=True, slots=True)
class Short:
    """A label as the target of a jump that is known to reach it with 8 bits."""

    label: Label
    form: str = "short"
