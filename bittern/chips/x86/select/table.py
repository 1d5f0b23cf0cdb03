"""Which instruction does a kind on an element, where one does: a row each, for vectors and for scalar floats.

On tiers with AVX-512 only EVEX forms count, since the allocator may choose any of 32 registers; on the others VEX
forms, on `sse2` legacy ones, which lose the first letter of their name and a register.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from bittern.chips.x86.features import Tier
from bittern.chips.x86.rows import Form, forms

# kind | elements -> instruction, `*` where the sources may change places
_ROWS = """
add     | u8 i8: vpaddb*    | u16 i16: vpaddw* | u32 i32: vpaddd* | u64 i64: vpaddq* | f32: vaddps* | f64: vaddpd*
sub     | u8 i8: vpsubb     | u16 i16: vpsubw  | u32 i32: vpsubd  | u64 i64: vpsubq  | f32: vsubps  | f64: vsubpd
mul     | u16 i16: vpmullw* | u32 i32: vpmulld* | u64 i64: vpmullq* | f32: vmulps* | f64: vmulpd*
div     | f32: vdivps | f64: vdivpd
min     | u8: vpminub* | i8: vpminsb* | u16: vpminuw* | i16: vpminsw* | u32: vpminud* | i32: vpminsd* | u64: vpminuq*
min     | i64: vpminsq* | f32: vminps | f64: vminpd
max     | u8: vpmaxub* | i8: vpmaxsb* | u16: vpmaxuw* | i16: vpmaxsw* | u32: vpmaxud* | i32: vpmaxsd* | u64: vpmaxuq*
max     | i64: vpmaxsq* | f32: vmaxps | f64: vmaxpd
add_sat | u8: vpaddusb* | i8: vpaddsb* | u16: vpaddusw* | i16: vpaddsw*
sub_sat | u8: vpsubusb | i8: vpsubsb | u16: vpsubusw | i16: vpsubsw
mul_high | u16: vpmulhuw* | i16: vpmulhw*
mul_wide | i64: vpmuldq*
shl     | u16 i16: vpsllvw | u32 i32: vpsllvd | u64 i64: vpsllvq
shr     | u16: vpsrlvw | i16: vpsravw | u32: vpsrlvd | i32: vpsravd | u64: vpsrlvq | i64: vpsravq
rotl    | u32: vprolvd | u64: vprolvq
rotr    | u32: vprorvd | u64: vprorvq
abs     | i8: vpabsb | i16: vpabsw | i32: vpabsd | i64: vpabsq
sqrt    | f32: vsqrtps | f64: vsqrtpd
popcount | u8: vpopcntb | u16: vpopcntw | u32: vpopcntd | u64: vpopcntq
clz     | u32: vplzcntd | u64: vplzcntq
"""
# shifts of all lanes by one constant
_UNIFORM = """
shl     | u16 i16: vpsllw | u32 i32: vpslld | u64 i64: vpsllq
shr     | u16: vpsrlw | i16: vpsraw | u32: vpsrld | i32: vpsrad | u64: vpsrlq | i64: vpsraq
rotl    | u32: vprold | u64: vprolq
rotr    | u32: vprord | u64: vprorq
"""
# conversions: from, to -> instruction; integers that widen go by the signedness of what is widened
_CONVERSIONS = """
convert | i32 f32: vcvtdq2ps | u32 f32: vcvtudq2ps | i64 f32: vcvtqq2ps | u64 f32: vcvtuqq2ps
convert | i32 f64: vcvtdq2pd | u32 f64: vcvtudq2pd | i64 f64: vcvtqq2pd | u64 f64: vcvtuqq2pd
convert | f16 f32: vcvtph2ps | f32 f64: vcvtps2pd
round   | f64 f32: vcvtpd2ps
"""
_WIDENING = {(8, 16): "bw", (8, 32): "bd", (8, 64): "bq", (16, 32): "wd", (16, 64): "wq", (32, 64): "dq"}


@dataclass(frozen=True, slots=True)
class Row:
    """An instruction. commutes: whether its sources may change places."""

    mnemonic: str
    commutes: bool = False


def _parse(text: str) -> dict[tuple[str, ...], Row]:
    found: dict[tuple[str, ...], Row] = {}
    for line in text.strip().splitlines():
        kind, *cells = (cell.strip() for cell in line.split("|"))
        for cell in cells:
            elements, mnemonic = (part.strip() for part in cell.split(":"))
            row = Row(mnemonic.rstrip("*"), mnemonic.endswith("*"))
            if kind in ("convert", "round"):
                found[(kind, *elements.split())] = row
            else:
                found.update(((kind, element), row) for element in elements.split())
    return found


LANE_WISE: Mapping[tuple[str, ...], Row] = _parse(_ROWS)
UNIFORM: Mapping[tuple[str, ...], Row] = _parse(_UNIFORM)
CONVERSIONS: Mapping[tuple[str, ...], Row] = _parse(_CONVERSIONS) | {
    ("convert", f"{sign}{narrow}", f"{to}{wide}"): Row(f"vpmov{'z' if sign == 'u' else 's'}x{letters}")
    for (narrow, wide), letters in _WIDENING.items()
    for sign in "ui"
    for to in ("ui" if sign == "u" else "i")
}
NARROWING: Mapping[tuple[str, int, int], str] = {
    (kind, wide, narrow): f"vpmov{prefix}{letters[::-1]}"
    for kind, prefix in (("wrap", ""), ("sat.i", "s"), ("sat.u", "us"))
    for (narrow, wide), letters in _WIDENING.items()
}
# predicates of vcmpps and of vpcmp; all quiet about a quiet NaN but for the flag that nobody reads
FLOAT_PREDICATES = {"eq": 0, "lt": 1, "le": 2, "ne": 4}
WHOLE_PREDICATES = {"eq": 0, "lt": 1, "le": 2, "ne": 4}
LETTERS = {8: "b", 16: "w", 32: "d", 64: "q"}


def kind_of_code(tier: Tier) -> str:
    """Return the kind of forms that vectors of a tier are encoded in: sse, vex, evex."""
    return "evex" if tier.vector == 64 else "vex" if tier.vector == 32 else "sse"


@cache
def form_of(mnemonic: str, size: int, tier: Tier) -> Form | None:
    """Return the form of a vector instruction at a width in bytes (0: of scalars), or None if the tier lacks it."""
    kind = kind_of_code(tier)
    for form in forms(mnemonic[1:] if kind == "sse" else mnemonic):
        if form.kind == kind and form.length in (size, 0) and form.features <= tier.features:
            return form
    return None


@cache
def element_of(mnemonic: str, size: int, tier: Tier) -> int:
    """Return the bytes of the element that the last source may be a broadcast of; 0 if it may not."""
    form = form_of(mnemonic, size, tier)
    return max((operand.element for operand in form.operands), default=0) if form is not None else 0


def row_of(kind: str, *elements: str) -> Row | None:
    """Return the row of a kind on elements."""
    return LANE_WISE.get((kind, *elements)) or CONVERSIONS.get((kind, *elements))
