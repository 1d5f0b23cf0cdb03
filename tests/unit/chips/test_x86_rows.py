"""The instruction rows: what a line stands for, that each is complete, and what must never be among them."""

import re

import iced_x86 as iced
import pytest

from bittern.chips.x86.features import FEATURES
from bittern.chips.x86.rows import COSTS, Form, forms, immediate_form, mnemonics, parse

ALL = [form for name in mnemonics() for form in forms(name)]

# What rounds twice into one, and what each maker approximates by itself.
FUSED = re.compile(r"v?(fn?m(add|sub)|4fn?madd|dpbf16|dpph|fc?madd|fc?mul)")
APPROXIMATE = re.compile(r"v?(rcp|rsqrt|exp2)")


def test_there_are_the_rows_that_kernels_need() -> None:
    assert len(mnemonics()) > 800 and len(ALL) > 2500
    needed = (
        "mov lea add imul shlx adc setne cmovl jne call push popcnt lzcnt tzcnt pext pdep mulx bswap rdtsc",
        "cpuid xgetbv",
        "pause mfence lock_cmpxchg lock_xadd xchg syscall prefetcht0 prefetchnta movdqu paddd pmaddwd pmaddubsw psadbw",
        "pshufb palignr cvtdq2ps cmpps pblendvb roundps pinsrd pextrb movmskps vpermd vpmovzxbd vpgatherdd vcvtph2ps",
        "vcvtps2ph vpdpbusd kmovq kandd kortestq kshiftrw vpternlogd vpcmpud vpblendmb vpcompressb vpexpandd vpermi2b",
        "vpmultishiftqb vpopcntq vpopcntb vpshufbitqmb vrndscaleps vscalefps vpmovqd valignd vinserti64x4",
        "vextracti32x4",
        "vbroadcasti32x4 vgf2p8affineqb vcvtne2ps2bf16 vpshldvd vpxorq vzeroupper",
    )
    assert not set(" ".join(needed).split()) - set(mnemonics())


@pytest.mark.req("C045")
def test_ternary_logic_and_masks_are_among_them() -> None:
    (narrow,) = [form for form in forms("vpternlogq") if form.length == 64]
    assert narrow.features == {"avx512f"} and "zk" in narrow.accepts(0) and "zkz" in narrow.accepts(0)


def test_no_row_is_a_fused_multiply_add_or_an_approximation() -> None:
    assert not [name for name in mnemonics() if FUSED.match(name) or APPROXIMATE.match(name)]
    assert not [form for form in ALL if is_fused(form)]


def is_fused(form: Form) -> bool:
    """Say whether the opcode is one of Intel's FMA: 66 0F38 96-9F, A6-AF, B6-BF."""
    in_place = form.kind in ("vex", "evex") and form.prefix == 1 and form.map == 2
    return in_place and form.opcode[0] >> 4 in (9, 0xA, 0xB) and form.opcode[0] & 15 >= 6


def test_a_planted_fused_multiply_add_is_found() -> None:
    (planted, *_) = parse("vfmadd231ps | Vx Hx Wx | vex.66.0f38.w0 b8 | avx | fmul | d + a * b")
    assert is_fused(planted) and FUSED.match(planted.name)
    names = {name.lower() for name in vars(iced.Mnemonic)}
    known = {name for name in names if re.match(r"vfn?m(add|sub)", name)}
    assert len(known) > 50 and all(FUSED.match(name) for name in known)


def test_every_form_is_complete() -> None:
    names = {feature.name for feature in FEATURES}
    for form in ALL:
        assert form.features <= names, (form, form.features)
        assert form.cost in COSTS and form.meaning, form
        assert form.opcode and not form.meaning.endswith("."), form
        assert all(form.accepts(index) for index in range(len(form.operands))), form
    assert {form.cost for form in ALL} == set(COSTS)


def test_no_two_forms_are_equal() -> None:
    seen: dict[object, Form] = {}
    for form in ALL:
        key = (form.name, form.kind, form.length, form.w, form.prefix, form.map, form.opcode, form.digit, form.narrow)
        accepted = tuple(form.accepts(index) for index in range(len(form.operands)))
        assert (key, accepted) not in seen, (form, seen.get((key, accepted)))
        seen[key, accepted] = form


def test_the_order_of_the_rows_is_fixed() -> None:
    assert mnemonics()[:2] == ("mov", "movzx") and mnemonics().index("vpaddb") + 1 == mnemonics().index("vpaddw") - 1
    assert [form.kind for form in forms("vpaddd")] == ["vex"] * 2 + ["evex"] * 3


def test_a_row_of_three_kinds_stands_for_one_of_each() -> None:
    made = list(parse("vpaddq | Vx{kz} Hx Wx*8 | sse/vex/evex.66.0f.wig1 d4 | sse2 avx2 avx512f | logic | i64 a + b"))
    shown = [
        (form.name, form.kind, form.length, form.w, len(form.operands), "+".join(sorted(form.features)))
        for form in made
    ]
    assert shown == [
        ("paddq", "sse", 16, 0, 2, "sse2"),
        ("vpaddq", "vex", 16, 0, 3, "avx"),
        ("vpaddq", "vex", 32, 0, 3, "avx2"),
        ("vpaddq", "evex", 16, 1, 3, "avx512f+avx512vl"),
        ("vpaddq", "evex", 32, 1, 3, "avx512f+avx512vl"),
        ("vpaddq", "evex", 64, 1, 3, "avx512f"),
    ]
    assert made[-1].accepts(2) == {"z", "Z", "m", "m64", "b", "b8"}
    assert made[2].accepts(2) == {"y", "m", "m32"}


def test_a_group_gives_each_name_its_opcode() -> None:
    made = list(parse("{alu} | Ev Is | int 83 /n | - | alu | d = d {alu} i"))
    assert [(form.name, form.digit) for form in made][::3] == list(
        zip(("add", "or", "adc", "sbb", "and", "sub", "xor", "cmp"), range(8), strict=True)
    )
    assert [form.w for form in made[:3]] == [0, 0, 1] and [form.narrow for form in made[:3]] == [True, False, False]
    assert made[3].meaning == "d = d or i"
    first, second, *_ = parse("{bit} | E4 G4 | int.0f a3+8n | - | bit | x")
    assert (first.opcode, second.opcode) == (b"\xa3", b"\xab")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vpaddd | Vx Hx Wx | vex.66.0f fe | avx2 | logic", "six columns"),
        ("vpaddd | Vx Hx Wx | sse/vex.66.0f fe | avx2 | logic | sum", "one feature for each kind"),
        ("vpaddd | Vx Hx ?x | vex.66.0f fe | avx2 | logic | sum", "not an operand"),
    ],
)
def test_a_wrong_row_is_refused(line: str, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        list(parse(line))


def test_forms_of_immediates() -> None:
    values = {1: "one", 0: "i8", 127: "i8", -128: "n8", 128: "u8", 255: "u8", 256: "i16", -129: "n16", 0x8000: "u16"}
    wide = {0x10000: "i32", -0x8001: "n32", 1 << 31: "u32", 1 << 32: "i64", -1 << 63: "n64", (1 << 64) - 1: "u64"}
    assert {value: immediate_form(value) for value in values | wide} == values | wide
    with pytest.raises(AssertionError, match="beyond 64 bits"):
        immediate_form(1 << 64)
