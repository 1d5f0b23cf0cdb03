"""What the processor can do, read by code that we emit, and the tiers that are made of it.

A feature counts only if the system saves its registers too (XCR0). Names are those of the instruction rows. Bits:
Intel's Software Developer's Manual, volume 2, CPUID; AMD's Architecture Programmer's Manual, volume 3, appendix E.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bittern.base.errors import BitternError, code, nearest
from bittern.chips.machine.calls import entry
from bittern.chips.machine.memory import executable
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.registers import at, eax, ebx, ecx, edi, edx, esi, r64, rax, rbx, rdx

UNKNOWN_TIER = code("R162", "no tier of this name")
TIER_NOT_HERE = code("R163", "this processor lacks features of the tier")

# name | leaf, subleaf, register, bit | registers that the system must save
_FEATURES = """
sse              | 1 0 edx 25        | xmm
sse2             | 1 0 edx 26        | xmm
clflush          | 1 0 edx 19        |
sse3             | 1 0 ecx 0         | xmm
ssse3            | 1 0 ecx 9         | xmm
cx16             | 1 0 ecx 13        |
sse4_1           | 1 0 ecx 19        | xmm
sse4_2           | 1 0 ecx 20        | xmm
movbe            | 1 0 ecx 22        |
popcnt           | 1 0 ecx 23        |
xsave            | 1 0 ecx 27        |
avx              | 1 0 ecx 28        | ymm
f16c             | 1 0 ecx 29        | ymm
bmi1             | 7 0 ebx 3         |
avx2             | 7 0 ebx 5         | ymm
bmi2             | 7 0 ebx 8         |
avx512f          | 7 0 ebx 16        | zmm
avx512dq         | 7 0 ebx 17        | zmm
adx              | 7 0 ebx 19        |
clflushopt       | 7 0 ebx 23        |
avx512cd         | 7 0 ebx 28        | zmm
avx512bw         | 7 0 ebx 30        | zmm
avx512vl         | 7 0 ebx 31        | zmm
avx512vbmi       | 7 0 ecx 1         | zmm
avx512_vbmi2     | 7 0 ecx 6         | zmm
gfni             | 7 0 ecx 8         | xmm
avx512_vnni      | 7 0 ecx 11        | zmm
avx512_bitalg    | 7 0 ecx 12        | zmm
avx512_vpopcntdq | 7 0 ecx 14        | zmm
avx_vnni         | 7 1 eax 4         | ymm
avx512_bf16      | 7 1 eax 5         | zmm
lzcnt            | 80000001 0 ecx 5  |
prefetchw        | 80000001 0 ecx 8  |
rdtscp           | 80000001 0 edx 27 |
"""
_REGISTERS = ("eax", "ebx", "ecx", "edx")
_SAVED: Mapping[str, int] = {"": 0, "xmm": 0x2, "ymm": 0x6, "zmm": 0xE6}  # bits of XCR0

Facts = tuple[int, int, int, int]  # eax, ebx, ecx, edx of one leaf


@dataclass(frozen=True, slots=True)
class Feature:
    """Where a feature stands. saved: the bits of XCR0 that must be set."""

    name: str
    leaf: int
    subleaf: int
    register: int
    bit: int
    saved: int


def _parse(line: str) -> Feature:
    name, place, saved = (column.strip() for column in line.split("|"))
    leaf, subleaf, register, bit = place.split()
    return Feature(name, int(leaf, 16), int(subleaf), _REGISTERS.index(register), int(bit), _SAVED[saved])


FEATURES: tuple[Feature, ...] = tuple(_parse(line) for line in _FEATURES.strip().splitlines())


def decode(leaves: Mapping[tuple[int, int], Facts], saved: int) -> frozenset[str]:
    """Return the features that these facts give. leaves: by (leaf, subleaf); saved: XCR0."""
    none: Facts = (0, 0, 0, 0)
    return frozenset(
        feature.name
        for feature in FEATURES
        if leaves.get((feature.leaf, feature.subleaf), none)[feature.register] >> feature.bit & 1
        and saved & feature.saved == feature.saved
    )


def _stub() -> Assembler:
    """Write `facts(leaf, subleaf, place)` and `saved()` for the calling convention of System V."""
    a = Assembler()
    a.here("facts")
    a.push(rbx)
    a.mov(r64[8], rdx)
    a.mov(eax, edi)
    a.mov(ecx, esi)
    a.cpuid()
    for number, register in enumerate((eax, ebx, ecx, edx)):
        a.mov(at(r64[8], 4 * number), register)
    a.pop(rbx)
    a.ret()
    a.align(16)
    a.here("saved")
    a.xor(ecx, ecx)
    a.xgetbv()
    a.shl(rdx, 32)
    a.or_(rax, rdx)
    a.ret()
    return a


def read() -> frozenset[str]:
    """Return the features of this processor. Raises R161 where the system gives no executable memory."""
    program = executable(_stub().finish())
    facts = entry(program, ("u32", "u32", "pointer"), place="facts")
    place = np.zeros(4, np.uint32)

    def leaf(number: int, subleaf: int) -> Facts:
        facts(number, subleaf, place.ctypes.data)
        first, second, third, fourth = (int(word) for word in place)
        return first, second, third, fourth

    leaves = {(1, 0): leaf(1, 0)}
    if leaf(0, 0)[0] >= 7:
        leaves[7, 0] = leaf(7, 0)
        if leaves[7, 0][0] >= 1:
            leaves[7, 1] = leaf(7, 1)
    if leaf(0x80000000, 0)[0] >= 0x80000001:
        leaves[0x80000001, 0] = leaf(0x80000001, 0)
    has_saved = leaves[1, 0][2] >> 27 & 1
    return decode(leaves, entry(program, (), "u64", "saved")() if has_saved else 0x2)


@dataclass(frozen=True, slots=True)
class Tier:
    """A level of the chip. features: all that its code may use. vector: bytes of the widest register."""

    name: str
    features: frozenset[str]
    vector: int


def _tiers() -> tuple[Tier, ...]:
    base = frozenset({"sse", "sse2", "clflush"})
    avx2 = base | {
        "sse3", "ssse3", "sse4_1", "sse4_2", "popcnt", "cx16", "movbe", "xsave", "avx", "avx2", "f16c", "bmi1", "bmi2",
        "lzcnt",
    }  # fmt: skip
    avx512 = avx2 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
    vnni = {"avx512_vnni", "avx512vbmi", "avx512_vbmi2", "avx512_bitalg", "avx512_vpopcntdq", "gfni"}
    return (
        Tier("sse2", base, 16),
        Tier("avx2", avx2, 32),
        Tier("avx2-vnni", avx2 | {"avx_vnni"}, 32),
        Tier("avx512", avx512, 64),
        Tier("avx512-vnni", avx512 | vnni, 64),
    )


TIERS: tuple[Tier, ...] = _tiers()  # slowest first


def tier(features: frozenset[str], wanted: str = "") -> Tier:
    """Return the fastest tier that the features allow, or the wanted one.

    Raises R162 for an unknown name and R163 where features of the wanted tier are missing.
    """
    if not wanted:
        return next((tier for tier in reversed(TIERS) if tier.features <= features), TIERS[0])
    known = {tier.name: tier for tier in TIERS}
    if wanted not in known:
        raise BitternError(UNKNOWN_TIER, f"x86-64 has no tier `{wanted}`.", nearest(wanted, list(known)))
    missing = known[wanted].features - features
    if missing:
        raise BitternError(
            TIER_NOT_HERE,
            f"The tier `{wanted}` needs {', '.join(sorted(missing))}, which this processor or its system lacks.",
            f"Choose `{tier(features).name}` or a slower one.",
        )
    return known[wanted]


def is_here() -> bool:
    """Say whether this machine runs our x86-64 code: its processor, and the calling convention of System V."""
    import platform

    return platform.machine() in ("x86_64", "AMD64") and sys.platform in ("linux", "darwin")
