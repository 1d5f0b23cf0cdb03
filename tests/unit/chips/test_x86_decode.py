"""Reading machine code back: against the encoder, and against another decoder on whole kernels."""

import re

import iced_x86 as iced
import numpy as np
import pytest
from test_x86_encode import cases
from x86_operands import encode

from bittern.base.errors import BitternError
from bittern.chips.machine.assembler import Code
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.decode import instructions
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.features import TIERS
from bittern.chips.x86.floats import float_uses, is_float, need_no_floats
from bittern.chips.x86.registers import at, rdi, rsi, xmm, zmm
from bittern.chips.x86.rows import mnemonics
from bittern.front.network.assembly import Assembly
from bittern.graph.node import Function, Node
from bittern.kernels.generic.lower import lower
from bittern.lang.library import Library
from bittern.passes.run import run_passes

_MNEMONICS = {value: name.lower() for name, value in vars(iced.Mnemonic).items() if type(value) is int}


def test_every_form_is_read_back() -> None:
    for form, _, values in cases(3):
        data = encode(form, values)
        (found,) = instructions(data)
        assert found.size == len(data) and found.name == form.name, (str(form), values, data.hex())


def test_gaps_are_read() -> None:
    a = Assembler()
    for count in range(1, 40):
        data = a.padding(count)
        assert sum(found.size for found in instructions(data)) == count
        assert {found.name for found in instructions(data)} == {"nop"}


@pytest.mark.parametrize("data", ["0fff", "c4e3f9ffc001", "06", "62f17c4858"])
def test_what_no_row_explains_is_refused(data: str) -> None:
    with pytest.raises(BitternError, match="R168"):
        list(instructions(bytes.fromhex(data)))


def whole(a: Assembly, x: Node) -> Node:
    w = np.random.default_rng(0).integers(-8, 8, (24, 40)).astype(np.int8)
    y = a.call("dense.dense", a.constant(w, "i4"), x)
    at_, falling = a.constant(np.arange(24 * 3).reshape(24, 3) - 30, "i32"), a.constant(np.arange(24) % 2 == 0, "bit")
    return a.call("thresholds.levels", y, at_, falling, 0, lead=1, mapped=(True, False, False, False), elements=U2)


def real(a: Assembly, x: Node) -> Node:
    y = a.scalar("mul", a.op("convert", whole(a, x), to="f32"), 0.3)
    return a.op("round", y, to="u2")


U2 = {"e": "u2"}


def code_of(draw: object, tier: str) -> Code:
    a = Assembly(Library.standard())
    function: Function = a.network("n", {"y": draw(a, a.input("x", "i8", (40,)))}).function  # type: ignore[operator]
    kernel = lower(run_passes(function), [2], name="n", shared=False).kernel
    return compile_kernel(kernel, next(t for t in TIERS if t.name == tier)).code


@pytest.mark.parametrize("tier", [t.name for t in TIERS])
@pytest.mark.parametrize("draw", [whole, real])
def test_whole_kernels_are_read_as_another_decoder_reads_them(draw: object, tier: str) -> None:
    code = code_of(draw, tier)
    mine = list(instructions(code.data, 0, code.size))
    other = list(iced.Decoder(64, code.data[: code.size], ip=0))
    assert [(i.offset, i.size) for i in mine] == [(i.ip, i.len) for i in other]
    for left, right in zip(mine, other, strict=True):
        name = _MNEMONICS[right.mnemonic]
        assert is_float(left.name) == is_float(name), (left, name)
        assert left.name == name or left.name[:3] in ("nop", "mov", "jmp") or left.name[0] in "jsc", (left, name)
    uses = [use.offset for use in float_uses(code)]
    assert uses == [i.ip for i in other if float_by_operands(i)]
    assert bool(uses) == (draw is real)


def float_by_operands(of: iced.Instruction) -> bool:
    """Whether the other decoder says that an instruction is one on floats: by its name and its kind of memory."""
    name = _MNEMONICS[of.mnemonic]
    bitwise = re.fullmatch(
        r"v?(and|andn|or|xor)p[sd]|v?(mov|blend|shuf|unpck|perm|broadcast|insert|extract|test).*", name
    )
    return bool(re.search(r"(ps|pd|ss|sd)$", name) or "cvt" in name) and not bitwise and not name.startswith("vp")


@pytest.mark.req("C084")
def test_a_kernel_of_whole_numbers_has_no_float_and_one_with_floats_is_refused() -> None:
    need_no_floats("n", code_of(whole, "avx2"))
    with pytest.raises(BitternError, match="R169") as caught:
        need_no_floats("n", code_of(real, "avx2"))
    assert "cvt" in caught.value.what and "at byte" in caught.value.what


def test_one_float_instruction_among_many_is_found() -> None:
    """A planted fault: one addition in the middle of moves, and a constant that looks like one."""
    a = Assembler()
    a.mark("load")
    a.vmovups(zmm[1], at(rdi))
    a.vpxorq(zmm[2], zmm[1], zmm[1])
    a.mark("sum")
    a.vaddps(zmm[1], zmm[1], zmm[2])
    a.vxorps(xmm[1], xmm[2], xmm[3])
    a.mov(rsi, rdi)
    a.ret()
    code = a.finish()
    hidden = Code(code.data + bytes.fromhex("62f1744858c0"), code.size, 64, code.places, code.marks)
    (use,) = float_uses(hidden)
    assert use.name == "vaddps" and use.mark == "sum" and code.data[use.offset] == 0x62


def test_which_mnemonics_are_float() -> None:
    floats = {name for name in mnemonics() if is_float(name)}
    assert {"vaddps", "mulsd", "vcvtdq2ps", "cvttss2si", "vucomiss", "vcmpps", "vminps", "vsqrtsd", "roundps"} <= floats
    assert not floats & {"vmovaps", "vandps", "vpaddd", "vpermps", "vshufps", "vblendvps", "vpminsd", "vbroadcastss"}
    assert not floats & {"cmpxchg", "add", "sub", "div", "mul", "cmp", "vpsubsb", "vpaddsb", "vmovss", "movsd"}
    left = {name for name in mnemonics() if re.search(r"(ps|pd|ss|sd)$", name)} - floats
    moves = re.compile(
        r"v?(mov|and|andn|or|xor|blend|shuf|unpck|perm|broadcast|insert|extract|test|compress|expand|gather|p|maskmov|scatter)"
    )
    assert all(moves.match(name) for name in left), sorted(name for name in left if not moves.match(name))
