"""Reads machine code back by the instruction rows: where each instruction begins, and which row it is.

In goes code that Bittern wrote (or any code made of these rows and of the instructions that do nothing), out come
offsets, lengths and forms. Nothing of how the code came about is used, so what is said of it holds for the bytes that
run. Code that no row explains is refused.

Source: Intel's Software Developer's Manual, volume 2, sections 2.1 to 2.7.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from bittern.base.errors import BitternError, code
from bittern.chips.x86.rows import GENERAL, MASK, VECTOR, Form, forms, mnemonics

UNREADABLE = code("R168", "machine code that the instruction rows do not explain")

_LENGTHS = {0: 0, 16: 0, 32: 1, 64: 2}
_BYTES_OF_FORM = frozenset(GENERAL | VECTOR | MASK | set("MXF")) - set("OBHJL")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction. offset, size: in bytes. name: its mnemonic. form: None of one that only fills a gap."""

    offset: int
    size: int
    name: str
    form: Form | None


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands in front of the opcode. kind: legacy, vex, evex. map: 0 to 3. length: of the vector, as encoded.

    wide: the prefix of 16-bit operations. repeat: F3 or F2, 0 for none. at: of the opcode. special: the bit b of EVEX.
    """

    kind: str
    map: int
    prefix: int
    w: int
    length: int
    wide: bool
    repeat: int
    lock: bool
    at: int
    special: bool = False


def instructions(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Instruction]:
    """Yield the instructions of code, one after the other. Errors: R168."""
    offset, end = start, len(data) if end is None else end
    while offset < end:
        found = _one(data, offset, end)
        yield found
        offset += found.size


def _one(data: bytes, offset: int, end: int) -> Instruction:
    try:
        found = _read(data, offset, end)
    except IndexError:  # the code ends in the middle of an instruction
        found = None
    if found is None:
        shown = data[offset : offset + 16].hex(" ")
        what = f"The code at byte {offset} ({shown}) is no instruction that is known."
        raise BitternError(UNREADABLE, what, "Give code that Bittern wrote.")
    return found


def _read(data: bytes, offset: int, end: int) -> Instruction | None:
    head = _head(data, offset)
    opcode = data[head.at] if head.at < end else -1
    if head.kind == "legacy" and (head.map, opcode) == (1, 0x1F):
        return Instruction(offset, head.at + 1 + _operand_bytes(data, head.at + 1) - offset, "nop", None)
    if head.kind == "legacy" and (head.map, opcode, head.repeat) == (0, 0x90, 0):
        return Instruction(offset, head.at + 1 - offset, "nop", None)
    for form in _index().get((head.kind, head.map, opcode), ()):
        size = _size(data, head, form, end)
        if size is not None:
            return Instruction(offset, head.at + size - offset, form.name, form)
    return None


def _head(data: bytes, at: int) -> _Head:
    """Return the prefixes of the instruction at a place."""
    wide, repeat, lock, w = False, 0, False, 0
    while data[at] in (0x66, 0xF2, 0xF3, 0xF0):
        wide, lock = wide or data[at] == 0x66, lock or data[at] == 0xF0
        repeat = {0xF3: 2, 0xF2: 3}.get(data[at], repeat)
        at += 1
    if data[at] == 0xC5:
        byte = data[at + 1]
        return _Head("vex", 1, byte & 3, 0, byte >> 2 & 1, False, 0, False, at + 2)
    if data[at] == 0xC4:
        first, byte = data[at + 1], data[at + 2]
        return _Head("vex", first & 31, byte & 3, byte >> 7, byte >> 2 & 1, False, 0, False, at + 3)
    if data[at] == 0x62:
        first, byte, last = data[at + 1 : at + 4]
        special = bool(last & 0x10)
        return _Head("evex", first & 7, byte & 3, byte >> 7, last >> 5 & 3, False, 0, False, at + 4, special)
    if data[at] & 0xF0 == 0x40:
        w, at = data[at] >> 3 & 1, at + 1
    level = 0
    if data[at] == 0x0F:
        level, at = 1, at + 1
        if data[at] in (0x38, 0x3A):
            level, at = 2 if data[at] == 0x38 else 3, at + 1
    return _Head("legacy", level, repeat or int(wide), w, 0, wide, repeat, lock, at)


@cache
def _index() -> Mapping[tuple[str, int, int], tuple[Form, ...]]:
    """Return the forms by kind, map and first byte of the opcode; the most particular first."""
    found: dict[tuple[str, int, int], list[Form]] = {}
    for name in mnemonics():
        for form in forms(name):
            form = _normal(form)
            kind = form.kind if form.kind in ("vex", "evex") else "legacy"
            has_register = any(operand.place == "O" for operand in form.operands)
            for register in range(8 if has_register else 1):
                found.setdefault((kind, form.map, form.opcode[0] + register), []).append(form)
    return {
        key: tuple(sorted(rows, key=lambda form: (-len(form.opcode), not form.length))) for key, rows in found.items()
    }


def _normal(form: Form) -> Form:
    """Return a form whose row writes prefix or map as bytes of the opcode with these apart."""
    prefix, level, opcode = form.prefix, form.map, form.opcode
    if level == 0 and opcode[0] in (0xF3, 0xF2) and len(opcode) > 1:
        prefix, opcode = 2 if opcode[0] == 0xF3 else 3, opcode[1:]
    if level == 0 and opcode[0] == 0x0F and len(opcode) > 1:
        level, opcode = 1, opcode[1:]
    return replace(form, prefix=prefix, map=level, opcode=opcode)


def _size(data: bytes, head: _Head, form: Form, end: int) -> int | None:
    """Return the bytes from the opcode on if the instruction is of this form, else None."""
    after = head.at + len(form.opcode)
    has_register = any(operand.place == "O" for operand in form.operands)
    if not has_register and data[head.at : after] != form.opcode:
        return None
    has_byte = form.digit >= 0 or any(operand.place in _BYTES_OF_FORM for operand in form.operands)
    if has_byte and after >= end:
        return None
    byte = data[after] if has_byte else 0
    if not _fits_prefixes(head, form, byte >> 6 == 3) or (has_byte and not _fits_operands(form, byte)):
        return None
    size = len(form.opcode) + (_operand_bytes(data, after) if has_byte else 0)
    size += sum(operand.size for operand in form.operands if operand.place in "ID")
    size += any(operand.place == "L" for operand in form.operands)
    return size if head.at + size <= end else None


def _fits_prefixes(head: _Head, form: Form, has_registers: bool) -> bool:
    if form.kind in ("vex", "evex"):
        rounds = head.special and has_registers  # the vector length is then the rounding
        has_length = rounds or not form.length or _LENGTHS[form.length] == head.length
        return head.prefix == form.prefix and head.w == form.w and has_length
    mandatory = {0: 0, 1: 0, 2: 2, 3: 3}[form.prefix]
    is_wide = form.narrow or form.prefix == 1
    return head.repeat == mandatory and head.wide == is_wide and head.w == form.w and head.lock == form.lock


def _fits_operands(form: Form, byte: int) -> bool:
    """Whether a ModRM byte is one that the form has."""
    if form.digit >= 0 and byte >> 3 & 7 != form.digit:
        return False
    places = {operand.place for operand in form.operands}
    if byte >> 6 == 3:
        return not places & set("MX")
    return not places & set("RUQ")


def _operand_bytes(data: bytes, at: int) -> int:
    """Return the bytes of ModRM, SIB and displacement."""
    mode, place = data[at] >> 6, data[at] & 7
    if mode == 3:
        return 1
    size = 1
    if place == 4:
        size += 1
        if mode == 0 and data[at + 1] & 7 == 5:
            size += 4
    elif mode == 0 and place == 5:
        size += 4
    return size + (0, 1, 4)[mode]
