"""What selection can do on each tier, as bitops targets; `expand` makes the rest of it."""

from functools import cache

from bittern.bitops.target import Target
from bittern.chips.x86.features import Tier
from bittern.chips.x86.select.shuffling import lookups
from bittern.chips.x86.select.table import CONVERSIONS, LANE_WISE, NARROWING, UNIFORM, form_of

# what needs no row: on all tiers
_VECTOR = """
const min max broadcast lane collect part join load store prefetch reinterpret and or xor not select dot2 mul_wide
word_mask mask_word
eq.u8 eq.i8 eq.u16 eq.i16 eq.u32 eq.i32 eq.f32 eq.f64 eq.bit ne.u8 ne.i8 ne.u16 ne.i16 ne.u32 ne.i32 ne.f32 ne.f64
ne.bit lt.u8 lt.i8 lt.u16 lt.i16 lt.u32 lt.i32 lt.f32 lt.f64 le.u8 le.i8 le.u16 le.i16 le.u32 le.i32 le.f32 le.f64
round.f32.i32 abs.f32 abs.f64 neg.f32 neg.f64 convert.bf16.f32
shl_uniform.u8 shl_uniform.i8 shr_uniform.u8 shr_uniform.i8
"""
_SCALAR = """
const dim add sub mul div rem min max sqrt eq ne lt le select and or xor not shl shr
rotl rotr wrap reinterpret load store prefetch for parallel while if reverse_bytes mul_high mask_word word_mask
round.f32.i32 round.f64.i64 round.f64.f32
"""
_WHOLE = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")
_SIGNED = ("i8", "i16", "i32", "i64", "index")
_WIDE = """
eq.u64 eq.i64 ne.u64 ne.i64 lt.u64 lt.i64 le.u64 le.i64 first reverse_bytes round.f32.f16 round_even floor ceil trunc
"""


@cache
def target(tier: Tier) -> Target:
    """Return the target of a tier."""
    return Target(f"x86-64:{tier.name}", 8 * tier.vector, _scalar(tier), _vector(tier))


def _scalar(tier: Tier) -> frozenset[str]:
    names = (
        set(_SCALAR.split())
        | _conversions_of_scalars(tier)
        | {f"{k}.{e}" for k in ("neg", "abs") for e in (*_SIGNED, "f32", "f64")}
    )
    if tier.vector > 16:
        names |= {"popcount", "clz", "ctz", "extract", "deposit", "round_even", "floor", "ceil", "trunc"}
        names |= {"round.f32.f16", "first"}
    return frozenset(names)


def _conversions_of_scalars(tier: Tier) -> set[str]:
    names = {"convert.f32.f64", "convert.bf16.f32"}
    for source in (*_WHOLE, "bit"):
        names |= {f"convert.{source}.{to}" for to in (*_WHOLE, "index")}
        if source not in ("u64", "bit") or (source == "u64" and tier.vector == 64):
            names |= {f"convert.{source}.f32", f"convert.{source}.f64"}
    names |= {f"convert.index.{to}" for to in ("i64", "f32", "f64")}
    if tier.vector > 16:
        names.add("convert.f16.f32")
    return names


def _vector(tier: Tier) -> frozenset[str]:
    names = set(_VECTOR.split()) | lookups(tier)
    size = tier.vector
    tables = [(LANE_WISE, ""), (CONVERSIONS, ""), (UNIFORM, "_uniform")]
    for table, suffix in tables:
        for (kind, *elements), row in table.items():
            if form_of(row.mnemonic, size, tier) is not None:
                names.add(".".join((kind + suffix, *elements)))
    names |= {f"convert.bit.{element}" for element in (*_WHOLE, "f32", "f64")}
    if size == 16:
        names |= {f"convert.{a}{n}.{b}{2 * n}" for n in (8, 16, 32) for a, b in ("uu", "ui", "ii")}
    if size >= 32:
        names |= {f"{kind}.{element}" for kind in ("popcount", "reverse_bits") for element in _WHOLE[::2]} | {"dot4"}
        names |= set(_WIDE.split()) | {f"shuffle.{element}" for element in (*_WHOLE, "f16", "bf16", "f32", "f64")}
        names |= {f"{kind}_masked.{element}" for kind in ("load", "store") for element in _masked(tier)}
    if size == 64:
        names |= {"round.f64.i64", *_narrowing(tier)}
    return frozenset(names)


def _masked(tier: Tier) -> tuple[str, ...]:
    return ("u32", "i32", "f32", "u64", "i64", "f64") if tier.vector == 32 else (*_WHOLE, "f16", "bf16", "f32", "f64")


def _narrowing(tier: Tier) -> set[str]:
    names = set[str]()
    for (kind, wide, narrow), mnemonic in NARROWING.items():
        if form_of(mnemonic, tier.vector, tier) is None:
            continue
        if kind == "wrap":
            names |= {f"wrap.{a}{wide}.{b}{narrow}" for a in "ui" for b in "ui"}
        else:
            names.add(f"sat.{kind[-1]}{wide}.{kind[-1]}{narrow}")
    return names
