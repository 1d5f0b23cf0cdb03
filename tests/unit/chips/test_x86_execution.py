"""Emitted code runs: rows of each family on random inputs against their meaning in numpy."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from x86_run import Array, features, lanes, run

from bittern.chips.x86.emit import emitter
from bittern.chips.x86.encode import Assembler, choose
from bittern.chips.x86.registers import (
    al,
    at,
    at_label,
    broadcast,
    cl,
    eax,
    ecx,
    k,
    masked,
    masked_memory,
    r64,
    rax,
    rcx,
    rdi,
    rdx,
    rounded,
    rsi,
    xmm,
    ymm,
    zeroed,
    zmm,
)
from bittern.chips.x86.rows import forms

SEED = 11
Meaning = Callable[..., Array]


def wide(x: Array) -> Array:
    """Return signed or unsigned integers twice as wide."""
    return x.astype(f"{x.dtype.kind}{2 * x.dtype.itemsize}")


def saturated(x: Array, to: str) -> Array:
    """Return integers clipped to the range of another type."""
    info = np.iinfo(to)
    return np.clip(x, info.min, info.max).astype(to)


def dot4(d: Array, a: Array, b: Array) -> Array:
    """Return d + the sums of four products u8 * i8."""
    products = a.view(np.uint8).astype(np.int32) * b.view(np.int8).astype(np.int32)
    return d + products.reshape(-1, 4).sum(1, dtype=np.int32)


def in_sixteen(pick: Meaning) -> Meaning:
    """Apply a meaning to each 16 bytes apart."""

    def meaning(*operands: Array) -> Array:
        parts = [operand.reshape(-1, 16 // operand.itemsize) for operand in operands]
        return np.stack([pick(*row) for row in zip(*parts, strict=True)])

    return meaning


def table(a: Array, b: Array) -> Array:
    """Return the bytes of a that b names, 0 where its top bit is set."""
    return np.where(b & 0x80, 0, a[b & 15]).astype(np.uint8)


def rotated(x: Array, count: Array) -> Array:
    """Return u32 rotated left."""
    n = count & np.uint32(31)
    return x << n | x >> (np.uint32(32) - n & np.uint32(31))


def ones(x: Array) -> Array:
    """Return how many bits of each number are set."""
    return np.array([int(value).bit_count() for value in x], x.dtype)


# Legacy mnemonic, type of the lanes, meaning.
TWO: tuple[tuple[str, str, Meaning], ...] = (
    ("paddb", "i1", lambda a, b: a + b),
    ("paddd", "i4", lambda a, b: a + b),
    ("paddq", "i8", lambda a, b: a + b),
    ("psubw", "i2", lambda a, b: a - b),
    ("psubd", "i4", lambda a, b: a - b),
    ("paddsb", "i1", lambda a, b: saturated(wide(a) + wide(b), "i1")),
    ("psubusw", "u2", lambda a, b: saturated(wide(a).astype("i8") - wide(b).astype("i8"), "u2")),
    ("pavgb", "u1", lambda a, b: (wide(a) + wide(b) + 1 >> 1).astype("u1")),
    ("pmullw", "i2", lambda a, b: a * b),
    ("pmulhw", "i2", lambda a, b: (wide(a) * wide(b) >> 16).astype("i2")),
    ("pmulld", "i4", lambda a, b: a * b),
    ("pmuludq", "u8", lambda a, b: (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF)),
    ("pmaddwd", "i2", lambda a, b: (wide(a) * wide(b)).reshape(-1, 2).sum(1, dtype="i4")),
    ("pminsw", "i2", np.minimum),
    ("pmaxub", "u1", np.maximum),
    ("pminud", "u4", np.minimum),
    ("psadbw", "u1", lambda a, b: np.abs(a.astype("i8") - b).reshape(-1, 8).sum(1).astype("u8")),
    ("pshufb", "u1", in_sixteen(table)),
    ("punpcklbw", "u1", in_sixteen(lambda a, b: np.stack([a[:8], b[:8]], 1).reshape(-1))),
    ("punpckhqdq", "u8", in_sixteen(lambda a, b: np.array([a[1], b[1]]))),
    ("packssdw", "i4", in_sixteen(lambda a, b: saturated(np.concatenate([a, b]), "i2"))),
    ("packuswb", "i2", in_sixteen(lambda a, b: saturated(np.concatenate([a, b]), "u1"))),
    ("addps", "f4", lambda a, b: a + b),
    ("subpd", "f8", lambda a, b: a - b),
    ("mulps", "f4", lambda a, b: a * b),
    ("divps", "f4", lambda a, b: a / b),
    ("minps", "f4", lambda a, b: np.where(a < b, a, b)),
    ("maxpd", "f8", lambda a, b: np.where(a > b, a, b)),
)
LOGIC: tuple[tuple[str, Meaning], ...] = (
    ("pand", lambda a, b: a & b),
    ("pandn", lambda a, b: ~a & b),
    ("por", lambda a, b: a | b),
    ("pxor", lambda a, b: a ^ b),
)


def values(dice: np.random.Generator, kind: str, size: int) -> Array:
    """Return random values of a type, filling so many bytes."""
    if kind[0] == "f":
        return dice.normal(size=size // int(kind[1])).astype(kind)
    return np.frombuffer(dice.bytes(size), kind).copy()


def is_runnable(name: str, given: tuple[str, ...]) -> bool:
    """Say whether the instruction exists in this size and the processor has it."""
    try:
        return choose(name, given).features <= features()
    except AssertionError:
        return False


@pytest.mark.parametrize(("name", "kind", "meaning"), TWO, ids=[row[0] for row in TWO])
def test_two_operands(name: str, kind: str, meaning: Meaning) -> None:
    dice = np.random.default_rng(SEED)
    ran = 0
    for size, letter in ((16, "x"), (32, "y"), (64, "z")):
        for mnemonic, given in ((name, (letter,) * 2), ("v" + name, (letter,) * 3)):
            if not is_runnable(mnemonic, given):
                continue
            a, b = values(dice, kind, size), values(dice, kind, size)
            wanted = meaning(a, b)
            operands = (a, b) if mnemonic == name else (np.zeros_like(a), a, b)
            found = lanes(mnemonic, size, operands, result=np.zeros(size, np.uint8))
            assert found.tobytes() == wanted.tobytes(), (mnemonic, size)
            ran += 1
    assert ran, "this processor runs no form of it"


@pytest.mark.parametrize(("name", "meaning"), LOGIC, ids=[row[0] for row in LOGIC])
def test_logic(name: str, meaning: Meaning) -> None:
    dice = np.random.default_rng(SEED)
    for size, mnemonic in ((16, name), (32, f"v{name}"), (64, f"v{name}q"), (64, f"v{name}d")):
        letter = {16: "x", 32: "y", 64: "z"}[size]
        if is_runnable(mnemonic, (letter,) * (2 if size == 16 else 3)):
            a, b = values(dice, "u8", size), values(dice, "u8", size)
            operands = (a, b) if size == 16 else (a, a, b)
            found = lanes(mnemonic, size, operands, result=np.zeros(size, np.uint8))
            assert found.tobytes() == meaning(a, b).tobytes(), mnemonic


@pytest.mark.req("C045")
def test_ternary_logic_is_any_function_of_three_bits() -> None:
    dice = np.random.default_rng(SEED)
    d, a, b = (values(dice, "u8", 64) for _ in range(3))
    results = np.zeros((256, 8), np.uint64)

    def write(asm: Assembler) -> None:
        for number, pointer in ((2, rsi), (3, rdx), (4, rcx)):
            asm.vmovdqu64(zmm[number], at(pointer))
        for function in range(256):
            asm.vmovdqa64(zmm[1], zmm[2])
            asm.vpternlogq(zmm[1], zmm[3], zmm[4], function)
            asm.vmovdqu64(at(rdi, 64 * function), zmm[1])

    run(write, results, d, a, b, needs=frozenset({"avx512f"}))
    bits = [np.unpackbits(x.view(np.uint8), bitorder="little") for x in (d, a, b)]
    row = bits[0] << 2 | bits[1] << 1 | bits[2]
    for function in range(256):
        wanted = np.packbits(function >> row & 1, bitorder="little")
        assert results[function].tobytes() == wanted.tobytes(), function


@pytest.mark.req("C046")
def test_exclusive_or_and_count() -> None:
    dice = np.random.default_rng(SEED)
    a, b, total = values(dice, "u8", 64), values(dice, "u8", 64), np.zeros(8, np.uint64)

    def write(asm: Assembler) -> None:
        asm.vmovdqu64(zmm[1], at(rsi))
        asm.vpxorq(zmm[1], zmm[1], at(rdx))
        asm.vpopcntq(zmm[17], zmm[1])
        asm.vmovdqu64(at(rdi), zmm[17])

    run(write, total, a, b, needs=frozenset({"avx512f", "avx512_vpopcntdq"}))
    assert total.tolist() == [int(x).bit_count() for x in a ^ b]


@pytest.mark.parametrize(
    ("size", "needs"),
    [
        (32, {"avx", "avx2", "avx_vnni"}),
        (32, {"avx", "avx512f", "avx512vl", "avx512_vnni"}),
        (64, {"avx512f", "avx512_vnni"}),
    ],
)
def test_integer_dot(size: int, needs: set[str]) -> None:
    dice = np.random.default_rng(SEED)
    d, a, b = values(dice, "i4", size), values(dice, "u1", size), values(dice, "i1", size)
    bank = ymm if size == 32 else zmm

    def write(asm: Assembler) -> None:
        load = asm.vmovdqu64 if size == 64 else asm.vmovdqu
        for number, pointer in ((1, rdi), (2, rsi)):
            load(bank[number], at(pointer))
        asm.vpdpbusd(bank[1], bank[2], at(rdx))
        load(at(rdi), bank[1])

    wanted = dot4(d, a, b)
    run(write, d, a, b, needs=frozenset(needs))
    assert d.tolist() == wanted.tolist()


ONE: tuple[tuple[str, str, Meaning], ...] = (
    ("vpopcntb", "u1", lambda x: ones(x)),
    ("vpopcntd", "u4", lambda x: ones(x)),
    ("vplzcntd", "u4", lambda x: np.array([32 - int(v).bit_length() for v in x], "u4")),
    ("vpabsb", "i1", lambda x: np.abs(x)),
    ("vsqrtps", "f4", lambda x: np.sqrt(x)),
    ("vcvtdq2ps", "i4", lambda x: x.astype("f4")),
    ("vcvtudq2ps", "u4", lambda x: x.astype("f4")),
    ("vcvtqq2pd", "i8", lambda x: x.astype("f8")),
)


@pytest.mark.parametrize(("name", "kind", "meaning"), ONE, ids=[row[0] for row in ONE])
def test_one_operand(name: str, kind: str, meaning: Meaning) -> None:
    x = values(np.random.default_rng(SEED), kind, 64)
    x = np.abs(x) if kind == "f4" else x
    if not is_runnable(name, ("z", "z")):
        pytest.skip(f"the processor lacks {name}")
    assert lanes(name, 64, (x, x), result=np.zeros(64, np.uint8)).tobytes() == meaning(x).tobytes()


THREE: tuple[tuple[str, str, Meaning], ...] = (
    ("vpermd", "u4", lambda d, a, b: b[a & 15]),
    ("vpermb", "u1", lambda d, a, b: b[a & 63]),
    ("vpermw", "u2", lambda d, a, b: b[a & 31]),
    ("vpermi2b", "u1", lambda d, a, b: np.concatenate([a, b])[d & 127]),
    ("vpermt2d", "u4", lambda d, a, b: np.concatenate([d, b])[a & 31]),
    ("vpsllvd", "u4", lambda d, a, b: np.where(b < 32, a << (b & np.uint32(31)), 0)),
    ("vprolvd", "u4", lambda d, a, b: rotated(a, b)),
    ("vpmullq", "i8", lambda d, a, b: a * b),
    ("vpshldvd", "u4", lambda d, a, b: ((d.astype("u8") << 32 | a) << (b & 31).astype("u8") >> 32).astype("u4")),
    ("vpdpwssd", "i4", lambda d, a, b: d + (wide(a.view("i2")) * wide(b.view("i2"))).reshape(-1, 2).sum(1, dtype="i4")),
)


@pytest.mark.parametrize(("name", "kind", "meaning"), THREE, ids=[row[0] for row in THREE])
def test_three_operands(name: str, kind: str, meaning: Meaning) -> None:
    dice = np.random.default_rng(SEED)
    operands = tuple(values(dice, kind, 64) for _ in range(3))
    if not is_runnable(name, ("z", "z", "z")):
        pytest.skip(f"the processor lacks {name}")
    found = lanes(name, 64, operands, result=np.zeros(64, np.uint8))
    assert found.tobytes() == meaning(*operands).tobytes()


def test_masks_choose_lanes() -> None:
    dice = np.random.default_rng(SEED)
    a, b, found = values(dice, "i4", 64), values(dice, "i4", 64), np.full((6, 16), -1, np.int32)
    chosen = 0b1010_0110_0011_0101

    def write(asm: Assembler) -> None:
        asm.mov(rax, chosen)
        asm.kmovw(k[3], eax)
        asm.vmovdqu32(zmm[1], at(rsi))
        asm.vmovdqu32(zmm[2], at(rdx))
        asm.vmovdqa32(zmm[4], zmm[1])
        asm.vpaddd(masked(zmm[4], k[3]), zmm[1], zmm[2])
        asm.vmovdqu32(at(rdi), zmm[4])
        asm.vpaddd(zeroed(zmm[20], k[3]), zmm[1], broadcast(at(rdx, 4)))
        asm.vmovdqu32(at(rdi, 64), zmm[20])
        asm.vmovdqu32(masked_memory(at(rdi, 128), k[3]), zmm[1])
        asm.vpcmpd(masked(k[1], k[3]), zmm[1], zmm[2], 1)
        asm.vpmovm2d(zmm[5], k[1])
        asm.vmovdqu32(at(rdi, 192), zmm[5])
        asm.vpcompressd(zeroed(zmm[6], k[3]), zmm[1])
        asm.vmovdqu32(at(rdi, 256), zmm[6])
        asm.vpexpandd(zeroed(zmm[7], k[3]), zmm[1])
        asm.vmovdqu32(at(rdi, 320), zmm[7])

    run(write, found, a, b, needs=frozenset({"avx512f", "avx512dq"}))
    mask = np.array([chosen >> lane & 1 for lane in range(16)], bool)
    assert np.array_equal(found[0], np.where(mask, a + b, a))
    assert np.array_equal(found[1], np.where(mask, a + b[1], 0))
    assert np.array_equal(found[2], np.where(mask, a, -1))
    assert np.array_equal(found[3], np.where(mask & (a < b), -1, 0))
    assert np.array_equal(found[4][:8], a[mask]) and not found[4][8:].any()
    assert np.array_equal(found[5][mask], a[:8]) and not found[5][~mask].any()


def test_rounding_of_its_own() -> None:
    a = np.array([1.0, -1.0] * 4)
    b, found = np.full(8, 2.0**-60), np.zeros((4, 8))

    def write(asm: Assembler) -> None:
        asm.vmovupd(zmm[1], at(rsi))
        asm.vmovupd(zmm[2], at(rdx))
        for number, rounding in enumerate(("rn", "rd", "ru", "rz")):
            asm.vaddpd(zmm[3], zmm[1], rounded(zmm[2], rounding))
            asm.vmovupd(at(rdi, 64 * number), zmm[3])

    run(write, found, a, b, needs=frozenset({"avx512f"}))
    above, below = np.nextafter(1.0, 2.0), np.nextafter(-1.0, 0.0)
    assert found[:, :2].tolist() == [[1.0, -1.0], [1.0, -1.0], [above, below], [1.0, below]]


def test_halves_go_there_and_back() -> None:
    x, half, back = np.arange(8, dtype=np.float32) / 3, np.zeros(8, np.float16), np.zeros(8, np.float32)

    def write(asm: Assembler) -> None:
        asm.vmovups(ymm[1], at(rdx))
        asm.vcvtps2ph(at(rdi), ymm[1], 0)
        asm.vcvtph2ps(ymm[2], at(rdi))
        asm.vmovups(at(rsi), ymm[2])

    run(write, half, back, x, needs=frozenset({"avx", "f16c"}))
    assert half.tobytes() == x.astype(np.float16).tobytes() and back.tobytes() == half.astype(np.float32).tobytes()


def test_a_gather_reads_where_the_indices_point() -> None:
    dice = np.random.default_rng(SEED)
    data, places, found = values(dice, "i4", 4096), dice.integers(0, 1024, 16, np.int32), np.zeros(16, np.int32)

    def write(asm: Assembler) -> None:
        asm.vmovdqu32(zmm[20], at(rdx))
        asm.kxnorw(k[1], k[1], k[1])
        asm.vpgatherdd(masked(zmm[3], k[1]), at(rsi, 0, zmm[20], 4))
        asm.vmovdqu32(at(rdi), zmm[3])

    run(write, found, data, places, needs=frozenset({"avx512f"}))
    assert np.array_equal(found, data[places])


def test_general_registers() -> None:
    """A loop, a call, flags, shifts, the bits of BMI, wide products and an exact division."""
    x = np.array([0x123456789ABCDEF0, 0xF0F0_00FF_0F0F_3C3C], np.uint64)
    found = np.zeros(10, np.uint64)

    def write(a: Assembler) -> None:
        start, twice = a.label(), a.label()
        a.jmp(start)
        a.place(twice)
        a.lea(rax, at(rax, 0, rax, 1))
        a.ret()
        a.place(start)
        a.mov(r64[8], at(rsi))
        a.mov(r64[9], at(rsi, 8))
        results: list[Callable[[], None]] = [
            lambda: a.pext(rax, r64[8], r64[9]),
            lambda: a.pdep(rax, r64[8], r64[9]),
            lambda: a.popcnt(rax, r64[9]),
            lambda: a.tzcnt(rax, r64[8]),
            lambda: a.andn(rax, r64[9], r64[8]),
            lambda: a.rorx(rax, r64[8], 12),
        ]
        for number, result in enumerate(results):
            result()
            a.mov(at(rdi, 8 * number), rax)
        a.mov(rdx, r64[8])
        a.mulx(r64[11], rax, r64[9])
        a.mov(at(rdi, 48), r64[11])
        a.mov(at(rdi, 56), rax)
        a.xor(rax, rax)  # the sum of 1 to 100
        a.mov(ecx, 100)
        loop = a.here()
        a.add(rax, rcx)
        a.sub(rcx, 1)
        a.jne(loop)
        a.call(twice)
        a.mov(at(rdi, 64), rax)
        a.mov(ecx, 3)
        a.shl(rax, cl)
        a.cmp(rax, 80800)
        a.setae(al)
        a.movzx(ecx, al)
        a.mov(at(rdi, 72), rcx)

    run(write, found, x)
    first, second = (int(v) for v in x)
    places = [bit for bit in range(64) if second >> bit & 1]
    product = first * second
    assert [int(v) for v in found] == [
        sum((first >> place & 1) << number for number, place in enumerate(places)),
        sum((first >> number & 1) << place for number, place in enumerate(places)),
        second.bit_count(), 4, ~second & first, (first >> 12 | first << 52) & (1 << 64) - 1,
        product >> 64, product & (1 << 64) - 1, 10100, 1,
    ]  # fmt: skip


def test_constants_are_loaded() -> None:
    found = np.zeros(16, np.float32)
    table = np.arange(16, dtype=np.float32)

    def write(a: Assembler) -> None:
        a.movups(xmm[1], at_label(a.constant(table[:4].tobytes())))
        a.mulps(xmm[1], at_label(a.constant(table[4:8].tobytes())))
        a.movups(at(rdi), xmm[1])

    run(write, found)
    assert np.array_equal(found[:4], table[:4] * table[4:8])


@pytest.mark.parametrize("wrong", [0xFA, 0xDB], ids=["subtract", "and"])
def test_a_planted_wrong_opcode_is_caught(wrong: int) -> None:
    """The comparison above fails for a row that adds with another opcode."""
    features()
    dice = np.random.default_rng(SEED)
    a, b = values(dice, "i4", 16), values(dice, "i4", 16)
    (form,) = forms("paddd")
    results = []
    for opcode in (form.opcode[0], wrong):
        emit = emitter(replace(form, opcode=bytes((opcode,))), ("x", "x"))
        found = np.zeros(4, np.int32)

        def write(asm: Assembler, emit: Any = emit) -> None:
            asm.movdqu(xmm[1], at(rsi))
            asm.movdqu(xmm[2], at(rdx))
            emit(asm, (xmm[1], xmm[2]))
            asm.movdqu(at(rdi), xmm[1])

        run(write, found, a, b)
        results.append(np.array_equal(found, a + b))
    assert results == [True, False]
