"""Kinds that make values and move lanes."""

import numpy as np

from bittern.bitops.kernel import Attributes
from bittern.bitops.kinds import Array, Misfit, Site, Types, interpreted, kind
from bittern.bitops.lanes import BIT_TYPE, Lanes, array_of_bits, lanes
from bittern.bitops.rules import is_unsigned, need, need_count, place
from bittern.types.dims import Dim


def typed(attributes: Attributes) -> Lanes:
    """Return the attribute `type`, or raise Misfit."""
    found = attributes.get("type")
    if not isinstance(found, Lanes):
        raise Misfit(f"type: {found}", "the type of the result")
    return found


def resized(of: Lanes, count: int) -> Lanes:
    """Return the type with so many lanes, or raise Misfit."""
    try:
        return of.of(count)
    except ValueError as fault:
        raise Misfit(str(fault), "a vector") from None


def _constant(types: Types, attributes: Attributes) -> Types:
    need_count(types, 0)
    of, bits = typed(attributes), attributes.get("bits")
    need(isinstance(bits, tuple) and len(bits) in (1, of.count), bits, f"the bits of one lane or of {of.count}")
    return (of,)


@kind("const", "lanes with the bits of `bits`, one number for all lanes or one each", _constant)
def _const(site: Site) -> Array:
    return array_of_bits(site.result, site.attributes["bits"])


def _dimension(types: Types, attributes: Attributes) -> Types:
    need_count(types, 0)
    need(isinstance(attributes.get("size"), Dim), attributes.get("size"), "a dimension")
    return (lanes("index"),)


interpreted("dim", "`size`, a polynomial over the kernel's symbols, as an index", _dimension, "lane")


def _broadcast_rule(types: Types, attributes: Attributes) -> Types:
    need_count(types, 1)
    need(types[0].is_scalar, types[0], "a scalar")
    return (resized(types[0], attributes.get("lanes", 0)),)


@kind("broadcast", "a scalar in each of `lanes` lanes", _broadcast_rule)
def _broadcast(site: Site, x: Array) -> Array:
    return np.repeat(x, site.result.count)


def _lane_rule(types: Types, attributes: Attributes) -> Types:
    need_count(types, 1)
    need(0 <= attributes.get("lane", -1) < types[0].count, attributes.get("lane"), f"a lane of {types[0]}")
    return (types[0].of(1),)


@kind("lane", "the scalar in lane `lane`", _lane_rule, "cross")
def _lane(site: Site, x: Array) -> Array:
    k = site.attributes["lane"]
    return x[k : k + 1]


def _collected(types: Types, _: Attributes) -> Types:
    need(len(types) > 1 and types[0].is_scalar, f"{len(types)} operands", "two or more scalars")
    need(all(t == types[0] for t in types), ", ".join(map(str, types)), "scalars of one type")
    return (resized(types[0], len(types)),)


@kind("collect", "a vector of scalars, the first in lane 0", _collected, "cross")
def _collect(_: Site, *x: Array) -> Array:
    return np.concatenate(x)


def _part_rule(types: Types, attributes: Attributes) -> Types:
    need_count(types, 1)
    first, count = attributes.get("first", -1), attributes.get("lanes", 0)
    need(0 <= first <= types[0].count - count and first % max(count, 1) == 0, f"{count} at {first}", "a whole part")
    return (resized(types[0], count),)


@kind("part", "lanes `first` to `first + lanes`; first is a multiple of lanes", _part_rule, "cross")
def _part(site: Site, x: Array) -> Array:
    first = site.attributes["first"]
    return x[first : first + site.result.count]


def _joined(types: Types, _: Attributes) -> Types:
    need(len(types) > 1 and not types[0].is_scalar, f"{len(types)} operands", "two or more vectors")
    need(all(t == types[0] for t in types), ", ".join(map(str, types)), "vectors of one type")
    return (resized(types[0], len(types) * types[0].count),)


@kind("join", "vectors behind each other, the first in the low lanes", _joined, "cross")
def _join(_: Site, *x: Array) -> Array:
    return np.concatenate(x)


def _shuffled(types: Types, attributes: Attributes) -> Types:
    need(1 <= len(types) <= 2 and types[0] == types[-1], ", ".join(map(str, types)), "one or two vectors of one type")
    picks = attributes.get("picks", ())
    inside = all(0 <= p < len(types) * types[0].count for p in picks)
    need(len(picks) > 1 and inside, picks, "lanes of the operands")
    return (resized(types[0], len(picks)),)


@kind("shuffle", "lane k is lane picks[k] of the operands, the second's lanes counted on", _shuffled, "cross")
def _shuffle(site: Site, *x: Array) -> Array:
    return np.concatenate(x)[list(site.attributes["picks"])]


def _looked_up(types: Types, _: Attributes) -> Types:
    need(len(types) in (2, 3, 5, 9), f"{len(types)} operands", "codes and 1, 2, 4 or 8 tables")
    codes, table = types[0], types[1]
    need(is_unsigned(codes), codes, "unsigned codes")
    need(not table.is_scalar and all(t == table for t in types[1:]), ", ".join(map(str, types[1:])), "tables of a type")
    need(not table.is_mask, table, "numbers")
    return (resized(table, codes.count),)


@kind("lookup", "entry `code modulo entries` of all tables behind each other", _looked_up, "cross")
def _lookup(_: Site, codes: Array, *tables: Array) -> Array:
    table = np.concatenate(tables)
    return table[(codes % np.uint64(len(table))).astype(np.int64)]


def _word(types: Types, _: Attributes) -> Types:
    need_count(types, 1)
    need(types[0].is_mask, types[0], "a mask")
    return (lanes("u64"),)


@kind("mask_word", "a mask as a number, lane k in bit k", _word, "cross")
def _mask_word(_: Site, x: Array) -> Array:
    return np.array([sum(1 << k for k, bit in enumerate(x) if bit)], dtype=np.uint64)


def _from_word(types: Types, attributes: Attributes) -> Types:
    need_count(types, 1)
    need(str(types[0]) == "u64", types[0], "u64")
    return (resized(BIT_TYPE, attributes.get("lanes", 0)),)


@kind("word_mask", "a mask of `lanes` lanes, bit k in lane k", _from_word, "cross")
def _word_mask(site: Site, x: Array) -> Array:
    return np.array([bool(int(x[0]) >> k & 1) for k in range(site.result.count)])


def _first_rule(types: Types, attributes: Attributes) -> Types:
    need_count(types, 1)
    place(types[0])
    return (resized(BIT_TYPE, attributes.get("lanes", 0)),)


@kind(
    "first", "a mask of the lanes below the index x; the only mask whose accesses can be proven", _first_rule, "cross"
)
def _first(site: Site, x: Array) -> Array:
    return np.asarray(np.arange(site.result.count) < x)
