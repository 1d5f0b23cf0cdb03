"""From a form to the function that writes its bytes.

`emitter` looks at a form once and returns a closure that only adds up numbers: an instruction is one integer, little
endian, to which the tables below add what each register contributes. Encodings: Intel's Software Developer's Manual,
volume 2, 2.1 (ModRM, SIB), 2.2.1 (REX), 2.3.5 (VEX), 2.7 (EVEX; 2.7.5 has the compressed displacement).
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from bittern.chips.machine.assembler import Assembler, Label
from bittern.chips.x86.registers import Memory
from bittern.chips.x86.rows import MEMORY, Form

Operands: TypeAlias = tuple[Any, ...]
Emit: TypeAlias = Callable[[Assembler, Operands], None]
Head: TypeAlias = Callable[[Operands], tuple[int, int]]  # all before ModRM, and how many bits that is
Tail: TypeAlias = Callable[[Operands], bytes]

_PREFIX = (b"", b"\x66", b"\xf3", b"\xf2")
_MAP = (b"", b"\x0f", b"\x0f\x38", b"\x0f\x3a")
_PACK = {1: struct.Struct("<b").pack, 4: struct.Struct("<i").pack}

# EVEX is 62, P0, P1, P2, opcode. R, X, B, R', V' and vvvv are stored inverted.
_EVEX_REG = tuple(((~n >> 3 & 1) << 7 | (~n >> 4 & 1) << 4) << 8 for n in range(32))
_EVEX_RM = tuple(((~n >> 4 & 1) << 6 | (~n >> 3 & 1) << 5) << 8 for n in range(32))
_EVEX_V = tuple((~n & 15) << 19 | (~n >> 4 & 1) << 27 for n in range(32))
# VEX is C4, P0, P1, opcode; or C5, P, opcode with R, vvvv, L and prefix in P.
_VEX_REG = tuple((~n >> 3 & 1) << 15 for n in range(16))
_VEX_RM = tuple(0x4000 | (~n >> 3 & 1) << 13 for n in range(16))
_VEX_V = tuple((~n & 15) << 19 for n in range(16))
# X and B of memory, in both; indexed by the REX bits of its base and index.
_MEMORY = tuple(((~rex >> 1 & 1) << 6 | (~rex & 1) << 5) << 8 for rex in range(0x44))


def emitter(form: Form, given: Sequence[str]) -> Emit:
    """Return the function that writes a form for operands of the given forms (`registers.py`)."""
    places = {operand.place: index for index, operand in enumerate(form.operands)}
    if "D" in places:
        return _jump(form)
    if "O" in places or not places.keys() - {"I", "1"}:
        return _without_modrm(form, places)
    rm = next(places[place] for place in "EFRMWUNQX" if place in places)
    is_memory = given[rm][0] in "mbv" and form.operands[rm].place in MEMORY
    reg = next((places[place] for place in "GVK" if place in places), -1)
    tail = _tail(form, places)
    if form.kind in ("int", "sse"):
        head = _legacy_head(form, reg, rm, is_memory)
    elif form.kind == "vex":
        head = _vex_head(form, reg, next((places[place] for place in "HBJ" if place in places), -1), rm, is_memory)
    else:
        head = _evex_head(form, reg, places.get("H", -1), rm, given)
    if not is_memory:
        return _with_register(head, rm, reg, form, tail)
    emit = _with_memory(head, rm, reg, form, _scale(form, rm, given), tail)
    return _with_indices(emit, form, rm) if "X" in places else emit


def _with_register(head: Head, rm: int, reg: int, form: Form, tail: tuple[int, Tail | None]) -> Emit:
    """Write a form without memory: head, ModRM, immediate."""
    fixed = 0xC0 | max(0, form.digit) << 3
    _, end = tail

    def plain(assembler: Assembler, operands: Operands) -> None:
        value, bits = head(operands)
        modrm = fixed | operands[rm].number & 7 | (operands[reg].number & 7) << 3
        assembler.code += (value | modrm << bits).to_bytes(bits // 8 + 1, "little")

    def with_digit(assembler: Assembler, operands: Operands) -> None:
        value, bits = head(operands)
        assembler.code += (value | (fixed | operands[rm].number & 7) << bits).to_bytes(bits // 8 + 1, "little")

    emit = plain if reg >= 0 else with_digit
    if end is None:
        return emit
    finish = end

    def with_immediate(assembler: Assembler, operands: Operands) -> None:
        emit(assembler, operands)
        assembler.code += finish(operands)

    return with_immediate


def _with_memory(head: Head, rm: int, reg: int, form: Form, scale: int, tail: tuple[int, Tail | None]) -> Emit:
    """Write a form with memory: head, ModRM, SIB, displacement, immediate. scale: what 8-bit displacements count."""
    digit = max(0, form.digit) << 3
    size, end = tail
    patch = _patch(4, 4 + size)

    def emit(assembler: Assembler, operands: Operands) -> None:
        value, bits = head(operands)
        field = digit if reg < 0 else (operands[reg].number & 7) << 3
        _, base, sib, displacement, _, _, _, label = operands[rm]
        if label is not None:
            assembler.code += (value | (field | 5) << bits).to_bytes(bits // 8 + 1, "little")
            _refer(assembler, label, displacement, patch)
        elif base < 0:
            value |= (field | 4 | sib << 8 | (displacement & 0xFFFFFFFF) << 16) << bits
            assembler.code += value.to_bytes(bits // 8 + 6, "little")
        else:
            length = bits // 8 + 1
            address = field | base
            if sib >= 0:
                address, length = field | 4 | sib << 8, length + 1
            if displacement or base == 5:
                after = 8 if sib < 0 else 16
                if displacement % scale == 0 and -128 <= displacement // scale <= 127:
                    address |= 0x40 | (displacement // scale & 255) << after
                    length += 1
                else:
                    address |= 0x80 | (displacement & 0xFFFFFFFF) << after
                    length += 4
            assembler.code += (value | address << bits).to_bytes(length, "little")
        if end is not None:
            assembler.code += end(operands)

    return emit


def _with_indices(emit: Emit, form: Form, rm: int) -> Emit:
    """Refuse equal vector registers in a gather: the processor would too."""
    vectors = [index for index in range(len(form.operands)) if index != rm]
    is_gather = rm != 0

    def checked(assembler: Assembler, operands: Operands) -> None:
        memory: Memory = operands[rm]
        numbers = [operands[index].number for index in vectors]
        numbers.append(memory.sib >> 3 & 7 | (memory.rex & 2) << 2 | (16 if memory.high else 0))
        assert not is_gather or len(set(numbers)) == len(numbers), ("equal registers", form.name, operands)
        emit(assembler, operands)

    return checked


def _without_modrm(form: Form, places: dict[str, int]) -> Emit:
    """Write a form that has its register in the opcode, or no operand but an immediate."""
    start = (b"\xf0" if form.lock else b"") + (b"\x66" if form.narrow else b"") + _PREFIX[form.prefix]
    wide, opcode = form.w << 3 | (0x40 if form.w else 0), _MAP[form.map] + form.opcode
    if form.kind == "vex":
        start, opcode = bytes((0xC5, 0xF8 | (form.length == 32) << 2 | form.prefix)), form.opcode
    inside, (_, end) = places.get("O", -1), _tail(form, places)

    def emit(assembler: Assembler, operands: Operands) -> None:
        rex, last = wide, opcode[-1]
        if inside >= 0:
            rex |= operands[inside].low
            last |= operands[inside].number & 7
        data = start + (bytes((rex,)) if rex else b"") + opcode[:-1] + bytes((last,))
        assembler.code += data if end is None else data + end(operands)

    return emit


def _tail(form: Form, places: dict[str, int]) -> tuple[int, Tail | None]:
    """Return how many bytes follow ModRM and displacement, and what makes them."""
    if "L" in places:
        register = places["L"]
        return 1, lambda operands: bytes((operands[register].number << 4,))
    if "I" not in places:
        return 0, None
    index, size = places["I"], form.operands[places["I"]].size
    mask = (1 << 8 * size) - 1
    return size, lambda operands: (operands[index] & mask).to_bytes(size, "little")


def _jump(form: Form) -> Emit:
    """Write a jump: the field counts from its end."""
    start, size = _MAP[form.map] + form.opcode, form.operands[0].size
    patch = _patch(size, size)

    def jump(assembler: Assembler, operands: Operands) -> None:
        assembler.code += start
        target = operands[0] if size == 4 else operands[0].label
        assembler.refer(len(assembler.code), target, patch)
        assembler.code += bytes(size)

    return jump


def _patch(size: int, end: int) -> Callable[[bytearray, int, int], None]:
    """Return what fills in a relative field of so many bytes when the instruction ends so many after its start."""
    pack, reach = _PACK[size], 1 << 8 * size - 1

    def patch(code: bytearray, position: int, place: int) -> None:
        distance = place - position - end
        assert -reach <= distance < reach, ("too far for the field", distance, size)
        code[position : position + size] = pack(distance)

    return patch


def _legacy_head(form: Form, reg: int, rm: int, is_memory: bool) -> Head:
    start = (b"\xf0" if form.lock else b"") + (b"\x66" if form.narrow else b"") + _PREFIX[form.prefix]
    opcode = _MAP[form.map] + form.opcode
    wide, place = form.w << 3 | (0x40 if form.w else 0), 8 * len(start)
    without = int.from_bytes(start + opcode, "little")
    extended = int.from_bytes(start + bytes(1) + opcode, "little")
    bits = 8 * len(start + opcode)

    def head(operands: Operands) -> tuple[int, int]:
        rex = wide | (operands[rm].rex if is_memory else operands[rm].low)
        if reg >= 0:
            rex |= operands[reg].high
        return (extended | rex << place, bits + 8) if rex else (without, bits)

    return head


def _vex_head(form: Form, reg: int, third: int, rm: int, is_memory: bool) -> Head:
    start = 0xC4 | form.map << 8 | (form.w << 7 | (form.length == 32) << 2 | form.prefix) << 16 | form.opcode[0] << 24
    is_short = form.map == 1 and form.w == 0

    def head(operands: Operands) -> tuple[int, int]:
        value = start | (0x8000 if reg < 0 else _VEX_REG[operands[reg].number])
        value |= _VEX_V[0 if third < 0 else operands[third].number]
        rest = operands[rm].rex & 3 if is_memory else operands[rm].number >> 3
        if is_short and not rest:  # R moves beside vvvv, the map goes
            return 0xC5 | (value >> 16 & 0x7F | value >> 8 & 0x80) << 8 | value >> 24 << 16, 24
        return value | (_MEMORY[rest] if is_memory else _VEX_RM[operands[rm].number]), 32

    return head


def _evex_head(form: Form, reg: int, third: int, rm: int, given: Sequence[str]) -> Head:
    rounds = next((index for index, name in enumerate(given) if name[0] in "xXyYzZ" and name[-1] in "rs"), -1)
    is_memory = given[rm][0] in "mbv" and form.operands[rm].place in MEMORY
    length = 0 if rounds >= 0 else {0: 0, 16: 0, 32: 1, 64: 2}[form.length] << 5  # its place has the rounding
    extra = 0x10 if rounds >= 0 or given[rm][0] == "b" else 0
    start = 0x62 | form.map << 8 | (form.w << 7 | 4 | form.prefix) << 16 | (length | extra) << 24
    start |= form.opcode[0] << 32

    def head(operands: Operands) -> tuple[int, int]:
        value = start | operands[0].mask << 24
        value |= 0x9000 if reg < 0 else _EVEX_REG[operands[reg].number]
        value |= _EVEX_V[0 if third < 0 else operands[third].number]
        if rounds >= 0:
            value |= operands[rounds].rounding << 29
        if is_memory:
            return (value | _MEMORY[operands[rm].rex]) ^ operands[rm].high, 40
        return value | _EVEX_RM[operands[rm].number], 40

    return head


def _scale(form: Form, rm: int, given: Sequence[str]) -> int:
    """Return the bytes that one step of an 8-bit displacement counts: 1 but under EVEX."""
    operand = form.operands[rm]
    if form.kind != "evex":
        return 1
    return form.scale or (operand.element if given[rm][0] == "b" else operand.memory) or 1


def _refer(assembler: Assembler, label: Label, displacement: int, patch: Callable[[bytearray, int, int], None]) -> None:
    """Leave a field for the distance to a label, plus bytes."""

    def moved(code: bytearray, position: int, place: int) -> None:
        patch(code, position, place + displacement)

    assembler.refer(len(assembler.code), label, moved if displacement else patch)
    assembler.code += bytes(4)
