"""Kinds that reach memory. `buffer` names it; a place is an index in elements of the buffer.

The address of an access is `place * bytes of the buffer's element + offset`, `offset` in bytes; it may read other
elements than the buffer's own, low byte first, at any alignment. Meanings get the buffer as bytes and the address, both
already checked.
"""

from typing import Any

import numpy as np

from bittern.bitops.crossing import typed
from bittern.bitops.kernel import Attributes
from bittern.bitops.kinds import Array, Rule, Site, Types, interpreted, kind
from bittern.bitops.rules import is_word, need, need_count, place


def _access(types: Types, attributes: Attributes, operands: int) -> None:
    need_count(types, operands)
    place(types[0])
    need(isinstance(attributes.get("buffer"), str), attributes.get("buffer"), "the name of a buffer")
    need(isinstance(attributes.get("offset", 0), int), attributes.get("offset"), "an offset in bytes")


def _loading(masked: bool) -> Rule:
    def rule(types: Types, attributes: Attributes) -> Types:
        _access(types, attributes, 1 + masked)
        of = typed(attributes)
        need(not of.is_mask, of, "numbers; see word_mask")
        need(not masked or types[1] == of.mask, types[-1], f"{of.mask}")
        return (of,)

    return rule


@kind("load", "lanes at a place", _loading(False), "memory", "load")
def _load(site: Site, memory: Array, address: int) -> Array:
    return memory[address : address + site.result.bytes].view(site.result.dtype).copy()


@kind(
    "load_masked",
    "lanes at a place where the mask is set, 0 elsewhere, which is not read",
    _loading(True),
    "memory",
    "load",
)
def _load_masked(site: Site, memory: Array, address: int, mask: Array) -> Array:
    found = np.zeros(site.result.count, site.result.dtype)
    size = found.dtype.itemsize
    for k in np.flatnonzero(mask):
        found[k] = memory[address + k * size : address + (k + 1) * size].view(found.dtype)[0]
    return found


def _storing(masked: bool) -> Rule:
    def rule(types: Types, attributes: Attributes) -> Types:
        _access(types, attributes, 2 + masked)
        need(not types[-1].is_mask, types[-1], "numbers; see mask_word")
        need(not masked or types[1] == types[2].mask, types[1], f"{types[-1].mask}")
        return ()

    return rule


@kind("store", "write lanes at a place", _storing(False), "memory", "store")
def _store(site: Site, memory: Array, address: int, x: Array) -> Any:
    memory[address : address + site.operands[-1].bytes] = np.ascontiguousarray(x).view(np.uint8)


@kind("store_masked", "write the lanes where the mask is set", _storing(True), "memory", "store")
def _store_masked(site: Site, memory: Array, address: int, mask: Array, x: Array) -> Any:
    size = x.dtype.itemsize
    for k in np.flatnonzero(mask):
        memory[address + k * size : address + (k + 1) * size] = x[k : k + 1].view(np.uint8)


def _gathering(types: Types, attributes: Attributes) -> Types:
    _access(types, attributes, 2)
    of = typed(attributes)
    need(is_word(types[1]) and types[1].count == of.count, types[1], f"{of.count} integers")
    return (of,)


@kind("gather", "lane k is at the place x + y[k]", _gathering, "memory", "load")
def _gather(site: Site, memory: Array, addresses: Array) -> Array:
    size = site.result.dtype.itemsize
    return np.concatenate([memory[a : a + size] for a in addresses]).view(site.result.dtype)


def _unpacked(types: Types, attributes: Attributes) -> Types:
    _access(types, attributes, 1)
    of, bits = typed(attributes), attributes.get("bits", 0)
    need(of.element.name == "u8", of, "u8 codes")
    need(1 <= bits <= 8, bits, "codes of 1 to 8 bits")
    return (of,)


@kind(
    "load_packed",
    "codes of `bits` bits, low bits first, from code number x; more than one start at a byte",
    _unpacked,
    "memory",
    "load",
)
def _load_packed(site: Site, memory: Array, first: int) -> Array:
    bits, count = site.attributes["bits"], site.result.count
    ones = np.unpackbits(memory[first * bits // 8 : ((first + count) * bits + 7) // 8], bitorder="little")
    start = first * bits % 8
    codes = ones[start : start + count * bits].reshape(count, bits)
    return np.asarray((codes << np.arange(bits, dtype=np.uint8)).sum(axis=1), np.uint8)


def _packed(types: Types, attributes: Attributes) -> Types:
    _access(types, attributes, 2)
    of, bits = types[1], attributes.get("bits", 0)
    need(of.element.name == "u8", of, "u8 codes")
    need(1 <= bits <= 8 and of.count * bits % 8 == 0, f"{of.count} of {bits} bits", "whole bytes")
    return ()


@kind(
    "store_packed",
    "write the low `bits` bits of codes, low bits first, from code number x, at a byte",
    _packed,
    "memory",
    "store",
)
def _store_packed(site: Site, memory: Array, first: int, x: Array) -> Any:
    bits = site.attributes["bits"]
    ones = (x[:, None] >> np.arange(bits, dtype=np.uint8)) & np.uint8(1)
    packed = np.packbits(ones.reshape(-1), bitorder="little")
    memory[first * bits // 8 : first * bits // 8 + len(packed)] = packed


def _prefetched(types: Types, attributes: Attributes) -> Types:
    _access(types, attributes, 1)
    return ()


interpreted("prefetch", "bring the cache line of a place near; any place is allowed", _prefetched, "memory", "hint")
