"""The encoder against another decoder and encoder: every form, random operands, and faults that must be caught."""

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import iced_x86 as iced
import pytest
from x86_operands import decoded, encode, expected, given, operands

from bittern.chips.machine.assembler import Label
from bittern.chips.x86.encode import Assembler, choose
from bittern.chips.x86.registers import (
    Memory,
    Short,
    at,
    at_label,
    broadcast,
    cl,
    eax,
    esi,
    k,
    masked,
    masked_memory,
    quiet,
    r8,
    r64,
    rax,
    rcx,
    rdi,
    rdx,
    rounded,
    rsp,
    xmm,
    ymm,
    zeroed,
    zmm,
)
from bittern.chips.x86.rows import Form, forms, mnemonics

FORMS = [form for name in mnemonics() for form in forms(name) if not any(o.place == "D" for o in form.operands)]
SEED = 20240229


def cases(count: int) -> Iterator[tuple[Form, tuple[str, ...], tuple[Any, ...]]]:
    """Yield every form with `count` sets of random operands."""
    dice = random.Random(SEED)
    print("seed", SEED)
    for form in FORMS:
        for _ in range(count):
            names = given(form, dice)
            yield form, names, operands(form, names, dice)


def test_every_form_is_read_back_the_same() -> None:
    seen = set()
    for form, names, values in cases(12):
        data = encode(form, values)
        assert decoded(data, form) == expected(form, values), (str(form), values, data.hex())
        seen |= {name for name, operand in zip(names, form.operands, strict=True) if operand.place != "I"}
    forms_of_vectors = {letter + rest for letter in "xXyYzZ" for rest in ("", "k", "kz")}
    assert forms_of_vectors | {"zr", "zs", "xr", "b", "b16", "m", "m64", "mk", "vZ", "kk", "r1", "r1c", "r8"} <= seen


def test_the_bytes_are_the_canonical_ones() -> None:
    for form, _, values in cases(3):
        data = encode(form, values)
        decoder, encoder = iced.Decoder(64, data), iced.Encoder(64)
        encoder.encode(decoder.decode(), 0)
        assert encoder.take_buffer() == data, (str(form), values, data.hex())


def test_methods_write_what_was_asked_for() -> None:
    for form, names, values in cases(3):
        if any(name in ("m", "b") for name in names) and is_ambiguous(form, names):
            continue
        assembler = Assembler()
        getattr(assembler, form.name)(*values)
        chosen = choose(form.name, names)
        data = bytes(assembler.code)
        assert decoded(data, chosen) == expected(chosen, values), (str(form), str(chosen), values, data.hex())
        is_move = "mov" in form.name  # may be a byte longer than its mirror image
        if chosen.kind == form.kind:
            assert len(data) <= len(encode(form, values)) + is_move, (str(form), str(chosen), values)


def is_ambiguous(form: Form, names: tuple[str, ...]) -> bool:
    """Say whether the memory of unsaid size might have several."""
    try:
        choose(form.name, names)
    except AssertionError as fault:
        assert "say the size" in str(fault), fault
        return True
    return False


@pytest.mark.parametrize(
    "change",
    [
        lambda form: replace(form, opcode=form.opcode[:-1] + bytes((form.opcode[-1] ^ 1,))),
        lambda form: replace(form, prefix=form.prefix ^ 1),
        lambda form: replace(form, w=1 - form.w),
        lambda form: replace(form, map=3 if form.map != 3 else 2),
        lambda form: replace(form, scale=2),
    ],
    ids=["opcode", "prefix", "W", "map", "displacement"],
)
def test_a_planted_wrong_row_is_caught(change: Any) -> None:
    form = next(form for form in forms("vpaddq") if form.length == 64)
    values = (zmm[17], zmm[30], at(rdi, 128, rcx, 8))
    assert decoded(encode(form, values), form) == expected(form, values)
    planted = change(form)
    try:
        assert decoded(encode(planted, values), form) != expected(form, values)
    except AssertionError as fault:
        assert "is_invalid" in str(fault) or "bad" in str(fault) or "len" in str(fault), fault


def test_known_bytes() -> None:
    """Bytes as two other assemblers write them."""
    a = Assembler()
    a.vpdpbusd(zmm[1], zmm[2], broadcast(at(rdi, 4)))
    a.vaddps(zeroed(zmm[31], k[7]), zmm[16], rounded(zmm[8], "rz"))
    a.vpaddd(ymm[1], ymm[2], ymm[3])
    a.lea(rax, at(r64[13], 0, r64[12], 8))
    a.mov(rax, -1)
    a.mov(eax, 0xFFFFFFFF)
    a.add(rsp, 8)
    a.setne(r8[6])
    assert a.code.hex() == (
        "62f26d58504f01" "62417cf758f8" "c5edfecb" "4b8d44e500" "48c7c0ffffffff" "b8ffffffff" "4883c408" "400f95c6"
    )  # fmt: skip


def test_jumps_reach_their_labels() -> None:
    a = Assembler()
    back = a.here("back")
    ahead = a.label("ahead")
    a.jmp(ahead)
    a.jne(back)
    a.code += bytes(a.padding(200))
    a.jb(back)
    a.call(back)
    a.jmp(Short(ahead))
    a.nop()
    a.place(ahead)
    a.ret()
    code = a.finish()
    found = {}
    for instruction in iced.Decoder(64, code.data):
        if instruction.op_count and instruction.mnemonic != iced.Mnemonic.NOP:
            found[instruction.ip] = (instruction.len, instruction.near_branch_target)
    sizes = [length for length, _ in found.values()]
    targets = [target for _, target in found.values()]
    assert sizes == [5, 2, 6, 5, 2] and targets == [code.places["ahead"], 0, 0, 0, code.places["ahead"]]


def test_a_short_jump_takes_all_of_its_reach() -> None:
    for gap, size in ((126, 2), (127, 6)):
        a = Assembler()
        back = a.here()
        a.code += a.padding(gap)
        a.je(back)
        assert len(a.code) == gap + size
        assert list(iced.Decoder(64, a.finish().data))[-1].near_branch_target == 0
    far = Assembler()
    ahead = far.label()
    far.jmp(Short(ahead))
    far.code += far.padding(128)
    far.place(ahead)
    with pytest.raises(AssertionError, match="too far"):
        far.finish()


def test_constants_are_addressed_relative_to_the_code() -> None:
    a = Assembler()
    first, again, other = a.constant(bytes(range(64))), a.constant(bytes(range(64))), a.constant(b"\1\2\3\4")
    assert first is again
    a.vmovups(zmm[3], at_label(first))
    a.vpshufd(xmm[3], at_label(first, 16), 0x1B)
    a.vpcmpd(k[1], zmm[1], broadcast(at_label(other)), 6)
    a.mov(eax, at_label(other))
    a.cmp(at_label(other, size=4), 0x12345)
    code = a.finish()
    places = [i.ip_rel_memory_address for i in iced.Decoder(64, code.data[: code.size])]
    place = code.data.index(bytes(range(64)))
    assert place % 64 == 0 and code.alignment == 64 and code.size <= place
    assert places[:2] == [place, place + 16] and code.data[places[2] :][:4] == b"\1\2\3\4"
    assert places[2:] == [places[2]] * 3


def test_padding_does_nothing_and_is_long() -> None:
    for count in range(64):
        data = Assembler().padding(count)
        read = list(iced.Decoder(64, data))
        assert len(data) == count and len(read) == -(-count // 9)
        assert all(instruction.mnemonic == iced.Mnemonic.NOP for instruction in read)


def test_equal_calls_give_equal_bytes() -> None:
    def written(features: frozenset[str] | None) -> bytes:
        a = Assembler(features)
        a.vpaddd(zmm[1], zmm[2], at(rdi))
        a.vaddps(zmm[1], zmm[1], at_label(a.constant(bytes(64))))
        a.mulps(xmm[1], at_label(a.constant(bytes(16))))
        return a.finish().data

    assert written(None) == written(frozenset({"avx512f", "sse"}))


def test_features_decide_which_row_is_taken() -> None:
    given_forms = ("y", "y", "y")
    assert choose("vpdpbusd", given_forms).kind == "vex"
    assert choose("vpdpbusd", given_forms, frozenset({"avx512_vnni", "avx512vl"})).kind == "evex"
    with pytest.raises(AssertionError, match=r"vpdpbusd y y y needs avx512_vnni\+avx512vl or avx_vnni"):
        choose("vpdpbusd", given_forms, frozenset({"avx2"}))
    with pytest.raises(AssertionError, match="needs avx512f"):
        Assembler(frozenset({"avx2"})).vpaddd(zmm[1], zmm[2], zmm[3])


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda a: a.vpaddd(zmm[1], zmm[2], ymm[3]), r"no row takes vpaddd z z y\. Rows: vpaddd Vx\{kz\} Hx"),
        (lambda a: a.vpaddd(zmm[1], zmm[2], 7), "no row takes vpaddd z z i8"),
        (lambda a: a.add(rax, 1 << 40), "no row takes add r8 i64"),
        (lambda a: a.add(rax, "x"), "no row takes add r8 str"),
        (lambda a: a.vpsadbw(masked(zmm[1], k[1]), zmm[2], zmm[3]), "no row takes vpsadbw zk z z"),
        (lambda a: a.vaddps(ymm[1], ymm[2], rounded(ymm[3], "rn")), "no row takes vaddps y y yr"),
        (lambda a: a.vminps(zmm[1], zmm[2], rounded(zmm[3], "rn")), "no row takes vminps z z zr"),
        (lambda a: a.vpaddb(zmm[1], zmm[2], broadcast(at(rax))), "no row takes vpaddb z z b"),
        (lambda a: a.paddd(xmm[16], xmm[1]), "no row takes paddd X x"),
        (lambda a: a.vmovups(masked_memory(at(rax), k[1]), xmm[1])._x, "attribute"),
        (lambda a: a.inc(at(rax)), "say the size of the memory in inc m"),
        (lambda a: a.movzx(eax, at(rax)), "say the size of the memory"),
        (lambda a: a.vpgatherdd(masked(zmm[1], k[1]), at(rax, 0, zmm[1], 4)), "equal registers"),
        (lambda a: a.shl(rax, rdx), "no row takes shl r8 r8"),
        (lambda a: masked(zmm[1], k[0]), "not a mask"),
        (lambda a: at(eax), "not a base"),
        (lambda a: at(rax, 0, rsp, 1), "rsp cannot be an index"),
        (lambda a: at(rax, 1 << 31), "more than 32 bits"),
        (lambda a: a.vpaddx(zmm[1]), "no row has the mnemonic vpaddx; near: vpandd"),
    ],
)  # fmt: skip
def test_wrong_operands_are_named(write: Any, words: str) -> None:
    with pytest.raises((AssertionError, AttributeError), match=words):
        write(Assembler())


def test_operands_say_what_they_are() -> None:
    assert repr(zeroed(zmm[1], k[2])) == "zmm1{k2}{z}" and repr(quiet(xmm[3])) == "xmm3{sae}"
    assert zeroed(zmm[1], k[2]) is zeroed(zmm[1], k[2])
    assert repr(cl) == "cl" and repr(esi) == "esi"
    memory: Memory = at(None, 8, rcx, 2)
    assert memory.form == "m" and isinstance(Label("x").name, str)
