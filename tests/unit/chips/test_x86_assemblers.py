"""The encoder against the assemblers of two other toolchains: each form once, as text, to the same instruction."""

import random
from pathlib import Path

import iced_x86 as iced
import pytest
from x86_operands import encode, expected, given, operands, plain
from x86_text import COMMANDS, assemble, text

from bittern.chips.x86.registers import Memory
from bittern.chips.x86.rows import forms, mnemonics

SEED = 7
# This assembler wants an element of four bytes here, where the processor broadcasts eight.
WRONG_BROADCAST = ("vgf2p8affineqb", "vgf2p8affineinvqb")


@pytest.mark.parametrize("name", list(COMMANDS))
def test_another_assembler_writes_the_same_instruction(name: str, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    print("seed", SEED)
    cases = []
    for form in (form for mnemonic in mnemonics() for form in forms(mnemonic)):
        if any(operand.place == "D" for operand in form.operands):
            continue
        values = operands(form, given(form, dice), dice)
        memory = next((value for value in values if isinstance(value, Memory)), None)
        if memory is not None and (memory.base < 0 or (form.name in WRONG_BROADCAST and memory.form[0] == "b")):
            continue  # without a base, assemblers choose an equal address of their own
        cases.append((form, values))
    assert len(cases) > 2400
    code = assemble(name, [text(form, values) for form, values in cases], tmp_path)
    equal, position = 0, 0
    for (form, values), instruction in zip(cases, iced.Decoder(64, code), strict=True):
        wanted, read = expected(form, values), plain(instruction, form)
        if form.name == "xchg":  # either order means the same
            wanted, read = (form.name, frozenset(wanted[1])), (form.name, frozenset(read[1]))
        assert read == wanted, text(form, values)
        data = code[position : position + instruction.len]
        position += instruction.len
        equal += data == encode(form, values)
    # The rest are shorter immediates and mirrored moves, which `Assembler` and the other choose by themselves.
    assert position == len(code) and equal > 0.96 * len(cases)
