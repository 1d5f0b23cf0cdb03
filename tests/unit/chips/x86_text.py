"""Instructions as assembler text (Intel's syntax), and the assemblers of two other toolchains that read it."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bittern.chips.x86 import registers as regs
from bittern.chips.x86.registers import ROUNDINGS, Memory
from bittern.chips.x86.rows import Form, Operand, forms

_SIZES = {1: "byte", 2: "word", 4: "dword", 8: "qword", 16: "xmmword", 32: "ymmword", 64: "zmmword"}
_BANKS = {"x": regs.xmm, "y": regs.ymm, "z": regs.zmm}


def text(form: Form, operands: tuple[Any, ...]) -> str:
    """Return an instruction as a line of assembler."""
    parts: list[str] = []
    for operand, value in zip(form.operands, operands, strict=True):
        if isinstance(value, int):
            parts.append(str(value & 0xFF if form.kind != "int" and operand.size == 1 else value))
        elif isinstance(value, Memory):
            parts.append(_memory(form, operand, value))
        else:
            name, _, rest = value.name.partition("{")
            if value.rounding < 0:
                parts.append(name + ("{" + rest if rest else ""))
            else:
                parts += [name, "{sae}" if value.form.endswith("s") else f"{{{ROUNDINGS[value.rounding]}-sae}}"]
    kinds = {other.kind for other in forms(form.name)}
    choice = f"{{{form.kind}}} " if {"vex", "evex"} <= kinds else ""
    return f"{choice}{form.name.replace('lock_', 'lock ')} {', '.join(parts)}"


def _memory(form: Form, operand: Operand, memory: Memory) -> str:
    terms = [] if memory.base < 0 else [regs.r64[memory.base | (memory.rex & 1) << 3].name]
    if memory.sib >= 0:
        number = memory.sib >> 3 & 7 | (memory.rex & 2) << 2 | (16 if memory.high else 0)
        if memory.form[0] == "v":
            terms.append(f"{_BANKS[memory.form[1].lower()][number].name}*{1 << (memory.sib >> 6)}")
        elif number != 4:
            terms.append(f"{regs.r64[number].name}*{1 << (memory.sib >> 6)}")
    inside = "+".join(terms) + (f"{memory.displacement:+d}" if memory.displacement else "")
    is_broadcast = memory.form[0] == "b"
    size = _SIZES.get(operand.element if is_broadcast else operand.memory, "")
    lanes = f"{{1to{operand.memory // operand.element}}}" if is_broadcast else ""
    mask = f"{{k{memory.mask}}}" if memory.mask else ""
    return f"{size + ' ptr ' if size else ''}[{inside}]{lanes}{mask}"


COMMANDS = {
    "llvm-mc": ("-triple=x86_64-linux-gnu", "-mattr=+avxvnni", "-filetype=obj", "-o"),
    "as": ("--64", "-o"),
}


def assemble(name: str, lines: list[str], folder: Path) -> bytes:
    """Return the code that another assembler makes, or skip where it is not installed."""
    if not (shutil.which(name) and shutil.which("objcopy")):
        pytest.skip(f"{name} or objcopy is not installed")
    source, made, code = folder / "code.s", folder / "code.o", folder / "code.bin"
    source.write_text(".intel_syntax noprefix\n" + "\n".join(lines) + "\n")
    subprocess.run([name, *COMMANDS[name], str(made), str(source)], check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", str(made), str(code)], check=True)
    return code.read_bytes()
