"""Kinds on the bits of integers, and on truths; all lane-wise. Shifts are total: no count is out of range."""

import numpy as np

from bittern.bitops.kinds import Array, Site, kind
from bittern.bitops.rules import is_integer, is_logical, is_unsigned, same, shifted


@kind("and", "bits that both have", same(2, is_logical))
def _and(_: Site, x: Array, y: Array) -> Array:
    return x & y


@kind("or", "bits that either has", same(2, is_logical))
def _or(_: Site, x: Array, y: Array) -> Array:
    return x | y


@kind("xor", "bits that one of both has", same(2, is_logical))
def _xor(_: Site, x: Array, y: Array) -> Array:
    return x ^ y


@kind("not", "all bits flipped", same(1, is_logical))
def _not(_: Site, x: Array) -> Array:
    return ~x


@kind("shl", "x times 2^count; a count of the width or more gives 0", shifted(is_integer))
def _shl(site: Site, x: Array, count: Array) -> Array:
    width = site.result.element.bits
    inside = np.minimum(count, width - 1).astype(x.dtype)
    return np.asarray(np.where(count >= width, x.dtype.type(0), x << inside))


@kind(
    "shr", "x over 2^count, rounded down; a count of the width or more gives 0, or all sign bits", shifted(is_integer)
)
def _shr(site: Site, x: Array, count: Array) -> Array:
    width = site.result.element.bits
    inside = np.minimum(count, width - 1).astype(x.dtype)
    if site.result.is_signed:
        return np.asarray(x >> inside)
    return np.asarray(np.where(count >= width, x.dtype.type(0), x >> inside))


@kind("rotl", "bits rotated upwards, count modulo the width", shifted(is_unsigned))
def _rotl(site: Site, x: Array, count: Array) -> Array:
    return _rotated(x, count, site.result.element.bits)


@kind("rotr", "bits rotated downwards, count modulo the width", shifted(is_unsigned))
def _rotr(site: Site, x: Array, count: Array) -> Array:
    width = site.result.element.bits
    return _rotated(x, np.subtract(x.dtype.type(width), count % x.dtype.type(width)), width)


def _rotated(x: Array, count: Array, width: int) -> Array:
    up = (count % x.dtype.type(width)).astype(x.dtype)
    down = (x.dtype.type(width) - up) % x.dtype.type(width)
    return np.where(up == 0, x, (x << up) | (x >> down))


@kind("popcount", "number of set bits", same(1, is_unsigned))
def _popcount(_: Site, x: Array) -> Array:
    return _ones(x)


def _ones(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x).view(np.uint8)).reshape(len(x), -1)
    return np.asarray(bits.sum(axis=1)).astype(x.dtype)


@kind("clz", "number of zero bits above the highest set one; the width for 0", same(1, is_unsigned))
def _clz(site: Site, x: Array) -> Array:
    width = site.result.element.bits
    smeared = x
    for step in (1, 2, 4, 8, 16, 32):
        if step < width:
            smeared = smeared | smeared >> x.dtype.type(step)
    return np.asarray(x.dtype.type(width) - _ones(smeared))


@kind("ctz", "number of zero bits below the lowest set one; the width for 0", same(1, is_unsigned))
def _ctz(_: Site, x: Array) -> Array:
    return _ones(~x & (x - x.dtype.type(1)))


@kind("reverse_bits", "bits in reverse order", same(1, is_unsigned))
def _reverse_bits(_: Site, x: Array) -> Array:
    size = x.dtype.itemsize
    ones = np.unpackbits(np.ascontiguousarray(x).view(np.uint8).reshape(-1, size)[:, ::-1], axis=1)
    return np.packbits(ones[:, ::-1], axis=1)[:, ::-1].copy().view(x.dtype).reshape(-1)


@kind("reverse_bytes", "bytes in reverse order", same(1, is_unsigned))
def _reverse_bytes(_: Site, x: Array) -> Array:
    return x.byteswap()


@kind("extract", "the bits that the mask y selects, moved together at the low end (PEXT)", same(2, is_unsigned))
def _extract(site: Site, x: Array, y: Array) -> Array:
    one, found, place = x.dtype.type(1), np.zeros_like(x), np.zeros_like(x)
    for bit in range(site.result.element.bits):
        chosen = (y >> x.dtype.type(bit)) & one
        found = found | (((x >> x.dtype.type(bit)) & chosen) << place)
        place = place + chosen
    return found


@kind("deposit", "the low bits of x, spread to where the mask y has bits (PDEP)", same(2, is_unsigned))
def _deposit(site: Site, x: Array, y: Array) -> Array:
    one, found, place = x.dtype.type(1), np.zeros_like(x), np.zeros_like(x)
    for bit in range(site.result.element.bits):
        chosen = (y >> x.dtype.type(bit)) & one
        found = found | (((x >> place) & chosen) << x.dtype.type(bit))
        place = place + chosen
    return found
