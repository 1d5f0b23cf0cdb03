"""Random operands for a form, the instruction as a plain value, and the same value read back by another decoder."""

import random
from typing import Any

import iced_x86 as iced

from bittern.chips.machine.assembler import Assembler
from bittern.chips.x86 import registers as regs
from bittern.chips.x86.emit import emitter
from bittern.chips.x86.registers import Memory, Register
from bittern.chips.x86.rows import MEMORY, Form

_REGISTERS = {value: name.lower() for name, value in vars(iced.Register).items() if type(value) is int}
_MNEMONICS = {value: name.lower() for name, value in vars(iced.Mnemonic).items() if type(value) is int}
_BANKS = {"r1": regs.r8, "r2": regs.r16, "r4": regs.r32, "r8": regs.r64, "r1c": (regs.cl,), "k": regs.k}
_VECTORS = {"x": regs.xmm, "y": regs.ymm, "z": regs.zmm}
_EDGES = (0, 1, -1, 127, 128, -128, -129, 0x7FFFFFFF, -0x80000000)


def given(form: Form, dice: random.Random) -> tuple[str, ...]:
    """Return forms of operands that the row takes."""
    names = tuple(dice.choice(sorted(form.accepts(index))) for index in range(len(form.operands)))
    if any(name[0] in "mbv" for name in names):  # memory leaves no place for a rounding
        names = tuple(name.rstrip("rs") if name[0] in "xXyYzZ" else name for name in names)
    return names


def operands(form: Form, names: tuple[str, ...], dice: random.Random) -> tuple[Any, ...]:
    """Return operands of the given forms; those of a gather name different registers."""
    while True:
        made = tuple(_operand(form, index, name, dice) for index, name in enumerate(names))
        vectors = [register.number for register in made if isinstance(register, Register)]
        vectors += [_index(memory) for memory in made if isinstance(memory, Memory) and memory.form[0] == "v"]
        if not any(name[0] == "v" for name in names) or len(set(vectors)) == len(vectors):
            return made


def _index(memory: Memory) -> int:
    """Return the number of the index register."""
    return memory.sib >> 3 & 7 | (memory.rex & 2) << 2 | (16 if memory.high else 0)


def _operand(form: Form, index: int, name: str, dice: random.Random) -> Any:
    operand = form.operands[index]
    if operand.place in "I1":
        return _immediate(name, dice)
    if name[0] in "mbv" and operand.place in MEMORY:
        return _memory(name, _step(form, index, name), dice)
    mask = regs.k[dice.randrange(1, 8)]
    if name[0] == "k":
        register = dice.choice(regs.k)
        return regs.masked(register, mask) if name == "kk" else register
    if name[0] in "xXyYzZ":
        register = dice.choice(_VECTORS[name[0].lower()][slice(0, 16) if name[0].islower() else slice(16, 32)])
        if name.endswith("kz"):
            return regs.zeroed(register, mask)
        if name.endswith("k"):
            return regs.masked(register, mask)
        if name.endswith("r"):
            return regs.rounded(register, dice.choice(regs.ROUNDINGS))
        return regs.quiet(register) if name.endswith("s") else register
    return dice.choice(_BANKS[name])


def _step(form: Form, index: int, name: str) -> int:
    operand = form.operands[index]
    return form.scale or (operand.element if name[0] == "b" else operand.memory) or 1


def _immediate(name: str, dice: random.Random) -> int:
    if name == "one":
        return 1
    bits = int(name[1:])
    less = bits // 2 if bits > 8 else 0
    low, high = (1 << less, 1 << bits - 1) if less else (0, 128)
    if name[0] == "u":
        low, high = 1 << bits - 1, 1 << bits
    if name[0] == "n":
        low, high = -high, -low
    if bits > 8 and name[0] != "u":
        low, high = (low << 1, high) if name[0] == "i" else (low, high - (1 << less))
    value = dice.choice((low, high - 1, dice.randrange(low, high)))
    return 2 if value == 1 else value


def _memory(name: str, step: int, dice: random.Random) -> Memory:
    """Return memory in any of its forms; displacements are often at the edges of the short form."""
    displacement = dice.choice(
        (*_EDGES, *(edge * step for edge in (1, -1, 127, 128, -128, -129)), 127 * step + 1, dice.randrange(-9999, 9999))
    )
    base = dice.choice((None, *regs.r64))
    mask = name.endswith("k")
    scale = dice.choice((1, 2, 4, 8))
    if name[0] == "v":
        bank = _VECTORS[name[1].lower()][slice(0, 16) if name[1].islower() else slice(16, 32)]
        memory = regs.at(base, displacement, dice.choice(bank), scale)
        return regs.masked_memory(memory, regs.k[dice.randrange(1, 8)]) if mask else memory
    index = dice.choice((None, *[register for register in regs.r64 if register.name != "rsp"]))
    size = int(name[1:].rstrip("k") or 0) if name[0] == "m" else 0
    memory = regs.at(base, displacement, index, scale, size)
    if name[0] == "b":
        return regs.broadcast(memory, int(name[1:] or 0))
    return regs.masked_memory(memory, regs.k[dice.randrange(1, 8)]) if mask else memory


def encode(form: Form, given_operands: tuple[Any, ...]) -> bytes:
    """Return the bytes of a form."""
    names = tuple("one" if o == 1 else "i8" if isinstance(o, int) else o.form for o in given_operands)
    assembler = Assembler()
    emitter(form, names)(assembler, given_operands)
    return bytes(assembler.code)


Plain = tuple[Any, ...]


def expected(form: Form, given_operands: tuple[Any, ...]) -> Plain:
    """Return the instruction as a plain value: mnemonic, operands, mask, zeroing, rounding, quiet, lock."""
    parts: list[Any] = []
    mask, zeroing, rounding, is_quiet = "none", False, 0, False
    for operand, value in zip(form.operands, given_operands, strict=True):
        if isinstance(value, int):
            parts.append(("immediate", value & ((1 << 8 * operand.size) - 1) if operand.place == "I" else value))
            continue
        bits = value.mask
        if bits & 7:
            mask, zeroing = f"k{bits & 7}", bool(bits & 0x80)
        if isinstance(value, Register):
            parts.append(_bare(value.name))
            if value.rounding >= 0:
                is_quiet = value.form.endswith("s")
                rounding = 0 if is_quiet else value.rounding + 1
        else:
            sizes = {"b": operand.element, "v": form.scale}
            parts.append(_plain_memory(value, sizes.get(value.form[0], operand.memory)))
    name = form.name.removeprefix("lock_")
    return name, tuple(parts), mask, zeroing, rounding, is_quiet, form.lock


def _bare(name: str) -> str:
    return name.partition("{")[0]


def _plain_memory(memory: Memory, size: int) -> Any:
    base = "none" if memory.base < 0 else regs.r64[memory.base | (memory.rex & 1) << 3].name
    index, scale = "none", 1
    if memory.sib >= 0:
        number = _index(memory)
        bank = _VECTORS[memory.form[1].lower()] if memory.form[0] == "v" else regs.r64
        if memory.form[0] == "v" or number != 4:
            index, scale = bank[number].name, 1 << (memory.sib >> 6)
    return base, index, scale, memory.displacement, memory.form[0] == "b", size


def decoded(data: bytes, form: Form) -> Plain:
    """Return what another decoder reads in the bytes, as `expected` says it."""
    decoder = iced.Decoder(64, data)
    instruction = decoder.decode()
    assert not instruction.is_invalid and instruction.len == len(data), (data.hex(), instruction)
    return plain(instruction, form)


def plain(instruction: iced.Instruction, form: Form) -> Plain:
    """Return a decoded instruction as `expected` says it. form: says how wide an immediate is."""
    parts: list[Any] = []
    sizes = [operand.size if operand.place == "I" else 8 for operand in form.operands]
    for index in range(instruction.op_count):
        kind = instruction.op_kind(index)
        if kind == iced.OpKind.REGISTER:
            parts.append(_register(instruction.op_register(index)))
        elif kind == iced.OpKind.MEMORY:
            parts.append(_iced_memory(instruction))
        else:
            wide = sizes[index] if index < len(sizes) else 8
            parts.append(("immediate", instruction.immediate(index) & ((1 << 8 * wide) - 1)))
    quiet = instruction.suppress_all_exceptions and not instruction.rounding_control
    return (
        _MNEMONICS[instruction.mnemonic],
        tuple(parts),
        _register(instruction.op_mask),
        instruction.zeroing_masking,
        instruction.rounding_control,
        quiet,
        instruction.has_lock_prefix,
    )


def _register(number: int) -> str:
    name = _REGISTERS[number]
    return name[:-1] + "b" if name.endswith("l") and name[0] == "r" else name


def _iced_memory(instruction: iced.Instruction) -> Any:
    displacement = instruction.memory_displacement
    signed = displacement - (1 << 64) if displacement >> 63 else displacement
    if instruction.memory_displ_size == 4 and signed >= 1 << 31:
        signed -= 1 << 32
    size = iced.MemorySizeExt.size(instruction.memory_size)
    return (
        _register(instruction.memory_base), _register(instruction.memory_index), instruction.memory_index_scale,
        signed, instruction.is_broadcast, size,
    )  # fmt: skip
