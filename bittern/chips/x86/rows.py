"""The instruction rows of x86-64: how a row is written, and the forms that it stands for.

A row is one line: mnemonic | operands | encoding | features | cost | meaning. The notation follows Intel's Software
Developer's Manual, volume 2: sections 2.3 and 2.7 (VEX, EVEX), 3.1.1 (how an encoding is written) and appendix A.2
(codes for places of operands). Results come first.

Operands: a letter for the place, then the size.

    G  general register, ModRM.reg         V  vector register, ModRM.reg         K  mask, ModRM.reg
    E  general register or memory, ModRM   W  vector register or memory, ModRM   N  mask or memory, ModRM
    R  general register, ModRM.rm          U  vector register, ModRM.rm          Q  mask, ModRM.rm
    B  general register, vvvv              H  vector register, vvvv              J  mask, vvvv
    O  general register, in the opcode     L  vector register, imm8[7:4]         M  memory, ModRM
    F  32-bit register or memory, ModRM    X  memory at indices, ModRM           D  relative distance
    I  immediate: 1, 2, 4, 8 bytes; s: a byte, sign extended; z: as wide as the operation, at most 4 bytes
    cl, one: that register, that value

    1 2 4 8 16 32 64 bytes; v: a row for 2, 4, 8; y: for 4, 8; x: the vector length; x/2, x/4, x/8 a part of it
    *4  memory may be one broadcast element of 4 bytes (EVEX)     {er} {sae}  may round by itself, may be quiet (EVEX)
    {k} {kz}  the result may be masked, may be zeroed (EVEX); {k!} must be masked

Encoding: kinds.prefix.map.W.lengths, opcode, /digit. Kinds: int (general), sse (legacy vector: drops the H operand and
the first letter of the mnemonic), vex, evex; a row of several stands for one each. W: w0, w1, wig (ignored: 0), wig1
(ignored under VEX, 1 under EVEX). Lengths: those of the kind unless written; lig: scalar. d64: 64 bits without REX.W.
n4: an 8-bit displacement counts 4 bytes; otherwise as many as the memory operand has.

Features: one for each kind, joined with +; "-" is the base. The 128-bit VEX form of an SSE integer row needs avx where
the row says avx2; EVEX forms shorter than 512 bits of a row with several lengths need avx512vl too.

`{cc}`, `{alu}`, ... in a mnemonic stand for a group of names; n is the number of the name in the group.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TypeAlias

FAMILIES = (
    "rows_general", "rows_bits", "rows_masks", "rows_moves", "rows_integer",
    "rows_compare", "rows_shift", "rows_shuffle", "rows_float", "rows_convert",
)  # fmt: skip

GROUPS: Mapping[str, tuple[str, ...]] = {
    "cc": ("o", "no", "b", "ae", "e", "ne", "be", "a", "s", "ns", "p", "np", "l", "ge", "le", "g"),
    "alu": ("add", "or", "adc", "sbb", "and", "sub", "xor", "cmp"),
    "atomic": ("add", "or", "adc", "sbb", "and", "sub", "xor"),
    "shift": ("rol", "ror", "rcl", "rcr", "shl", "shr", "", "sar"),
    "bit": ("bt", "bts", "btr", "btc"),
}

# Cost class -> (cycles from operands to result, how many begin in a cycle). Measured on Zen 5 with registers of 64
# bytes where the class has them, chained and independent; loads and stores from the first cache. (0, 0): not counted.
COSTS: Mapping[str, tuple[float, float]] = {
    "none": (0, 0), "system": (0, 0), "branch": (1, 2), "fence": (74, 0.013), "wait": (94, 0.011),
    "move": (1, 6), "alu": (1, 5), "shift": (1, 3), "bit": (1, 5), "mul": (3, 3), "divide": (10, 0.1),
    "load": (4, 2), "store": (4, 1), "atomic": (19, 0.05), "gather": (20, 0.08),
    "logic": (2, 4), "vadd": (2, 4), "vshift": (2, 2), "vmul": (3, 2), "dot": (4, 2), "count": (2, 2), "gf": (3, 2),
    "shuffle": (2, 2), "across": (5, 2), "cross": (3.5, 1), "mask": (1, 2), "tomask": (4, 2),
    "fadd": (2, 2), "fmul": (3, 2), "fmin": (2, 2), "fdiv": (10, 0.4), "convert": (3, 2),
}  # fmt: skip

_PREFIXES = {"66": 1, "f3": 2, "f2": 3}
_MAPS = {"0f": 1, "0f38": 2, "0f3a": 3}
_LENGTHS = {"128": 16, "256": 32, "512": 64, "lig": 0, "l0": 0, "l1": 32}
_ALL_LENGTHS = {"int": (0,), "sse": (16,), "vex": (16, 32), "evex": (16, 32, 64)}
_TOKEN = re.compile(r"([A-Z])(v|y|s|z|x/[248]|x|\d*)(?:\*(\d))?(?:\{(kz|k!|k)\})?(?:\{(er|sae)\})?")
GENERAL, VECTOR, MASK = frozenset("GERBOF"), frozenset("VWUHL"), frozenset("KNQJ")
MEMORY = frozenset("EFMWNX")


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a form.

    place: the letter. size: bytes of the register, of the immediate, of the index vector. memory: bytes of memory, 0
    unsaid. element: bytes that may be broadcast, or 0. mask: "", "k", "kz", "k!". rounding: "", "er", "sae".
    """

    text: str
    place: str
    size: int = 0
    memory: int = 0
    element: int = 0
    mask: str = ""
    rounding: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """One instruction with the sizes of its operands decided.

    kind: int, sse, vex, evex. narrow: the prefix of 16-bit operations. prefix: 0 none, 1 66, 2 F3, 3 F2. map: 0 one
    byte, 1 0F, 2 0F38, 3 0F3A. length: bytes of the vector, 0 for scalars. digit: of ModRM.reg, or -1. scale: what an
    8-bit displacement counts in, if not the memory operand. row: the line that it comes from.
    """

    name: str
    operands: tuple[Operand, ...]
    kind: str
    narrow: bool
    lock: bool
    prefix: int
    map: int
    w: int
    length: int
    opcode: bytes
    digit: int
    scale: int
    features: frozenset[str]
    cost: str
    meaning: str
    row: str

    def __str__(self) -> str:
        return f"{self.name} {' '.join(operand.text for operand in self.operands)} [{self.kind}]".replace("  ", " ")

    def accepts(self, index: int) -> frozenset[str]:
        """Return the forms of operands (`registers.py`) that the operand of this index may have."""
        return _accepted(self.operands[index], self.kind, self.length, index == 0)


@cache
def _accepted(operand: Operand, kind: str, length: int, is_result: bool) -> frozenset[str]:
    place, size = operand.place, operand.size
    if place in "ID1c":
        return _fixed(operand)
    found = set()
    if place in GENERAL:
        found |= {f"r{size}", "r1c"} if size == 1 else {f"r{size}"}
    if place in VECTOR:
        found |= _vectors(operand, kind, length)
    if place in MASK:
        found |= {"kk"} if operand.mask == "k!" else {"k", "kk"} if operand.mask else {"k"}
    if place == "X":
        letter = {16: "x", 32: "y", 64: "z"}[size]
        mask = "k" if operand.mask else ""
        found |= {"v" + letter + mask} | ({"v" + letter.upper() + mask} if kind == "evex" else set())
    elif place in MEMORY:
        sizes = (operand.memory,) if operand.memory else (0, 1, 2, 4, 8, 16, 32, 64)
        plain = {"m"} | {f"m{bytes_}" for bytes_ in sizes if bytes_}
        found |= plain
        if operand.mask and is_result and kind == "evex":
            found |= {name + "k" for name in plain}
        if operand.element and kind == "evex":
            found |= {"b", f"b{operand.memory // operand.element}"}
    return frozenset(found)


def _vectors(operand: Operand, kind: str, length: int) -> set[str]:
    letter = {16: "x", 32: "y", 64: "z"}[operand.size]
    plain = {letter, letter.upper()} if kind == "evex" else {letter}
    suffixes = [""]
    if kind == "evex":
        suffixes = {"": [""], "k": ["", "k"], "kz": ["", "k", "kz"], "k!": ["k"]}[operand.mask]
        if operand.rounding and length in (0, 64):
            suffixes = [*suffixes, "r" if operand.rounding == "er" else "s"]
    return {name + suffix for name in plain for suffix in suffixes}


_BYTE = ("one", "i8", "n8")
_IMMEDIATES = {
    "s": _BYTE, "1": (*_BYTE, "u8"), "2": (*_BYTE, "u8", "i16", "n16", "u16"),
    "4": (*_BYTE, "u8", "i16", "n16", "u16", "i32", "n32", "u32"),
    "4s": (*_BYTE, "u8", "i16", "n16", "u16", "i32", "n32"),
    "8": (*_BYTE, "u8", "i16", "n16", "u16", "i32", "n32", "u32", "i64", "n64", "u64"),
}  # fmt: skip


def _fixed(operand: Operand) -> frozenset[str]:
    if operand.place == "I":
        return frozenset(_IMMEDIATES[operand.text[1:]])
    if operand.place == "D":
        return frozenset({"short"} if operand.size == 1 else {"label"})
    return frozenset({"r1c"} if operand.place == "c" else {"one"})


def immediate_form(value: int) -> str:
    """Return the form of an immediate: i n u (fits signed and not negative, negative, fits unsigned only) and bits."""
    if -128 <= value < 256:
        return "one" if value == 1 else "u8" if value > 127 else "i8" if value >= 0 else "n8"
    for bits in (16, 32, 64):
        if -1 << bits - 1 <= value < 0:
            return f"n{bits}"
        if 0 <= value < 1 << bits:
            return f"i{bits}" if value < 1 << bits - 1 else f"u{bits}"
    raise AssertionError(("an immediate beyond 64 bits", value))


def parse(text: str) -> Iterator[Form]:
    """Yield the forms of the rows in a table, in the order of its lines."""
    for line in text.strip().splitlines():
        for row in _rows(line):
            yield from _forms(*row)


Row: TypeAlias = tuple[tuple[str, ...], str, str, int, str]  # columns, group as written, name and number in it, line


def _rows(line: str) -> Iterator[Row]:
    """Yield the row that a line is, or one for each name of its group."""
    columns = tuple(column.strip() for column in line.split("|"))
    assert len(columns) == 6, ("a row has six columns", line)
    group = re.search(r"\{(\w+)\}", columns[0])
    for number, name in enumerate(GROUPS[group[1]] if group else ("",)):
        if name or not group:
            yield columns, group[0] if group else "{}", name, number, " ".join(line.split())


def _forms(columns: tuple[str, ...], group: str, name: str, number: int, row: str) -> Iterator[Form]:
    mnemonic, operands, encoding, features, cost, meaning = columns
    head, *opcode = encoding.split()
    kinds, *attributes = head.split(".")
    needed = features.split()
    assert len(needed) == len(kinds.split("/")), ("one feature for each kind", row)
    code, digit = _opcode(opcode, number)
    for kind, feature in zip(kinds.split("/"), needed, strict=True):
        written = [_LENGTHS[a] for a in attributes if a in _LENGTHS]
        lengths = [n for n in written if n <= max(_ALL_LENGTHS[kind]) or not n] or list(_ALL_LENGTHS[kind])
        tokens = [token for token in operands.split() if kind != "sse" or token[0] != "H"]  # no third register there
        for length in lengths:
            for size in _sizes(tokens):
                yield Form(
                    name=(mnemonic[1:] if kind == "sse" else mnemonic).replace(group, name),
                    operands=tuple(_operand(token, size, length) for token in tokens),
                    kind=kind,
                    narrow=size == 2 and kind == "int",
                    lock="lock" in attributes,
                    prefix=next((_PREFIXES[a] for a in attributes if a in _PREFIXES), 0),
                    map=next((_MAPS[a] for a in attributes if a in _MAPS), 0),
                    w=_w(attributes, kind, size, tokens),
                    length=length,
                    opcode=code,
                    digit=digit,
                    scale=next((int(a[1:]) for a in attributes if re.fullmatch(r"n\d", a)), 0),
                    features=_needed(feature, kind, length, lengths, kinds),
                    cost=cost,
                    meaning=meaning.replace(group, name),
                    row=row,
                )


def _opcode(parts: Sequence[str], number: int) -> tuple[bytes, int]:
    """Return opcode bytes and digit. Parts such as `0f`, `00+8n`, `70+n`, `/4`, `/n`, `/4+n`."""
    code, digit = bytearray(), -1
    for part in parts:
        value = 0
        for term in part.removeprefix("/").split("+"):
            value += int(term[:-1] or "1") * number if term.endswith("n") else int(term, 16)
        if part.startswith("/"):
            digit = value
        else:
            code.append(value)
    return bytes(code), digit


def _sizes(tokens: Sequence[str]) -> tuple[int, ...]:
    """Return the sizes that v or y among the operands stand for."""
    if any(re.match(r"[GERBO]v", token) or token == "Mv" for token in tokens):
        return (2, 4, 8)
    return (4, 8) if any(re.match(r"[GERBO]y", token) for token in tokens) else (0,)


def _w(attributes: Sequence[str], kind: str, size: int, tokens: Sequence[str]) -> int:
    if "d64" in attributes:
        return 0
    wide = size == 8 or any(re.match(r"[GERBO]8", token) for token in tokens)
    if kind in ("int", "sse"):
        return int(wide or (kind == "int" and "w1" in attributes))
    return int("w1" in attributes or (kind == "evex" and "wig1" in attributes) or (size == 8))


def _needed(feature: str, kind: str, length: int, lengths: Sequence[int], kinds: str) -> frozenset[str]:
    needed = set(feature.split("+")) - {"-"}
    if kind == "vex" and length == 16 and "sse" in kinds and "avx2" in needed:
        needed = needed - {"avx2"} | {"avx"}
    if kind == "evex" and length in (16, 32) and lengths != [16]:
        needed.add("avx512vl")
    return frozenset(needed)


def _operand(token: str, size: int, length: int) -> Operand:
    if token in ("cl", "one"):
        return Operand(token, "c" if token == "cl" else "1")
    match = _TOKEN.fullmatch(token)
    assert match, ("not an operand", token)
    place, width, element, mask, rounding = match.groups()
    if place == "I":
        wide = {"s": 1, "z": min(size or 4, 4)}.get(width) or int(width)
        # What is as wide as a 64-bit operation is 32 bits, sign extended.
        text = f"I{'4s' if size in (0, 8) else wide}" if width == "z" else token
        return Operand(text, place, wide)
    return Operand(token, place, *_bytes(place, width, size, length), int(element or 0), mask or "", rounding or "")


def _bytes(place: str, width: str, size: int, length: int) -> tuple[int, int]:
    """Return the bytes of the register and of the memory of an operand."""
    if width.startswith("x"):
        memory = length // int(width[2:] or 1)
    else:
        memory = size if width in ("v", "y") else int(width or 0)
    if place == "X":
        return max(16, memory), 0
    if place in VECTOR:
        return max(16, memory), memory if place == "W" else 0
    if place in GENERAL:
        return (4 if place == "F" else memory), memory if place in "EF" else 0
    return (memory if place == "D" else 0), memory if place in "MN" else 0


@cache
def _index() -> Mapping[str, tuple[Row, ...]]:
    """Return the rows that each mnemonic stands in."""
    found: dict[str, list[Row]] = {}
    for family in FAMILIES:
        for line in import_module(f"bittern.chips.x86.{family}").ROWS.strip().splitlines():
            for row in _rows(line):
                (mnemonic, _, encoding, *_), group, name, *_ = row
                kinds = encoding.split()[0].split(".")[0].split("/")
                for shown in dict.fromkeys(mnemonic.replace(group, name)[kind == "sse" :] for kind in kinds):
                    found.setdefault(shown, []).append(row)
    return {name: tuple(rows) for name, rows in found.items()}


def mnemonics() -> tuple[str, ...]:
    """Return every mnemonic that has a row, in the order of the tables."""
    return tuple(_index())


@cache
def forms(mnemonic: str) -> tuple[Form, ...]:
    """Return the forms of a mnemonic in the order in which they are tried; none if it has no row."""
    rows = _index().get(mnemonic, ())
    return tuple(form for row in rows for form in _forms(*row) if form.name == mnemonic)
