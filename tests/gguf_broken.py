"""One GGUF file for each way in which a file is refused, with the code and the words that the refusal must have."""

import struct
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from gguf_files import (
    ARRAY,
    BOOL,
    F64,
    I16,
    STRING,
    U8,
    U32,
    U64,
    File,
    Key,
    Row,
    array,
    build,
    number,
    string,
    strings,
    text,
)


@dataclass(frozen=True)
class Broken:
    """A file that must be refused.

    code: the expected code. words: what the message must say. check: the reader's check that acts, without `_check_`.
    cut: what is done to the bytes afterwards.
    """

    code: str
    words: tuple[str, ...]
    check: str
    file: File = field(default_factory=File)
    cut: Callable[[bytes], bytes] | None = None

    def data(self) -> bytes:
        """Return the file's bytes."""
        whole = build(self.file)[0]
        return self.cut(whole) if self.cut else whole


_ONE = File((string("k", "v"),), (Row(b"w", (64, 2), 8),))


def _keys(*keys: Key, **changes: int) -> File:
    return replace(File(keys), **changes)  # type: ignore[arg-type]


def _rows(*rows: Row) -> File:
    return File((), rows)


def _swapped(data: bytes) -> bytes:
    return data[:4] + data[4:8][::-1] + data[8:]


_HUGE = 1 << 62
_TWO = struct.pack("<IQ", STRING, 2)
_BAD = b"\xff\xfe"

BROKEN: dict[str, Broken] = {
    # the file as a whole
    "magic": Broken("F110", ("b'GGML'", "b'GGUF'"), "", replace(_ONE, magic=b"GGML")),
    "two bytes": Broken("F110", ("b'GG'",), "", cut=lambda data: data[:2]),
    "big-endian": Broken("F111", ("big-endian",), "version", _ONE, _swapped),
    "version 1": Broken("F112", ("version 1 ", "byte 4"), "version", replace(_ONE, version=1)),
    "version 4": Broken("F112", ("version 4 ",), "version", replace(_ONE, version=4)),
    "version 2^32-1": Broken("F112", ("4294967295",), "version", replace(_ONE, version=2**32 - 1)),
    "no version": Broken("F113", ("version", "byte 4"), "room", _ONE, lambda data: data[:6]),
    "no counts": Broken("F113", ("number of tensors", "byte 8"), "room", _ONE, lambda data: data[:12]),
    # counts
    "keys 2^63": Broken("F115", (str(2**63), "keys"), "count", replace(_ONE, key_count=2**63)),
    "keys 2^64-1": Broken("F115", (str(2**64 - 1),), "count", replace(_ONE, key_count=2**64 - 1)),
    "keys over limit": Broken(
        "F115", ("65537", "65536"), "count", _keys(key_count=65537), lambda d: d + bytes(1 << 20)
    ),
    "keys missing": Broken(
        "F113", ("key of pair 1", "0 are left"), "room", _keys(string("key.one", "v" * 20), key_count=2)
    ),
    "tensors 2^63": Broken("F116", (str(2**63), "tensors"), "count", replace(_ONE, row_count=2**63)),
    "tensors times 33": Broken("F116", ("tensors",), "count", replace(_ONE, row_count=2**64 // 33 + 1)),
    "tensors over limit": Broken(
        "F116", ("65537",), "count", replace(_ONE, row_count=65537), lambda d: d + bytes(1 << 22)
    ),
    # keys
    "key length 2^62": Broken(
        "F117", ("key of pair 0", str(_HUGE)), "room", _keys(Key(b"k", U8, b"\1", _HUGE), string("pad", "p"))
    ),
    "key length 2^64-1": Broken(
        "F117", (str(2**64 - 1),), "room", _keys(Key(b"k", U8, b"\1", 2**64 - 1), string("p", "p"))
    ),
    "key empty": Broken("F120", ("0 bytes", "byte 24"), "key", _keys(string("", "v"))),
    "key long": Broken("F120", ("65536 bytes",), "key", _keys(string("k" * 65536, "v"))),
    "key not UTF-8": Broken("F118", ("key of pair 0", "byte 32"), "", _keys(Key(b"a" + _BAD, U8, b"\1"))),
    "key twice": Broken("F121", ("`k`", "second time"), "key", _keys(string("k", "v"), string("k", "v"))),
    # values
    "type 13": Broken("F122", ("`k`", "13"), "", _keys(Key(b"k", 13, bytes(8)))),
    "type 2^32-1": Broken("F122", ("4294967295",), "", _keys(Key(b"k", 2**32 - 1, bytes(8)))),
    "truth 2": Broken("F125", ("`k`", "value 2"), "bools", _keys(number("k", BOOL, 2))),
    "truth 255 in array": Broken("F125", ("value 255",), "bools", _keys(array("k", BOOL, [0, 1, 255]))),
    "number cut": Broken(
        "F113", ("`key.of.pair`", "8 bytes"), "room", _keys(number("key.of.pair", F64, 1.0)), lambda d: d[:-3]
    ),
    "string length 2^63": Broken(
        "F117", ("value of `k`", str(2**63)), "room", _keys(Key(b"k", STRING, text(b"v", 2**63)))
    ),
    "string length +1": Broken("F117", ("value of `k`", "1 are left"), "room", _keys(Key(b"k", STRING, text(b"v", 2)))),
    "string not UTF-8": Broken("F118", ("value of `k`", "byte 45"), "", _keys(Key(b"k", STRING, text(b"v" + _BAD)))),
    "string surrogate": Broken("F118", ("value of `k`",), "", _keys(Key(b"k", STRING, text(b"\xed\xa0\x80")))),
    "string overlong": Broken("F118", ("value of `k`",), "", _keys(Key(b"k", STRING, text(b"\xc0\x80")))),
    # arrays
    "array of arrays": Broken(
        "F123", ("`k`", "arrays"), "", _keys(Key(b"k", ARRAY, struct.pack("<IQIQ", ARRAY, 1, U8, 0)))
    ),
    "array type 13": Broken("F122", ("`k`", "13"), "", _keys(Key(b"k", ARRAY, struct.pack("<IQQ", 13, 1, 0)))),
    "array count 2^61": Broken("F124", ("`k`", str(2**61)), "room", _keys(array("k", U64, [1, 2], 2**61))),
    "array count 2^64-1": Broken("F124", (str(2**64 - 1),), "room", _keys(array("k", U8, [1, 2], 2**64 - 1))),
    "array count +1": Broken("F124", ("4 elements",), "room", _keys(array("k", I16, [1, 2, 3], 4))),
    "array type lie": Broken(
        "F124", ("`k`",), "room", _keys(Key(b"k", ARRAY, struct.pack("<IQ4B", F64, 4, 1, 2, 3, 4)))
    ),
    "array cut": Broken("F113", ("elements of `k`",), "room", _keys(array("k", U8, [])), lambda d: d[:44]),
    "strings 2^61": Broken("F124", ("`k`", str(2**61)), "room", _keys(strings("k", ["a"], 2**61))),
    "strings +1": Broken("F113", ("string 3 of `k`",), "room", _keys(strings("k", ["aaaa", "bbbb", "cccc"], 4))),
    "strings length": Broken(
        "F117", ("string 1 of `k`", str(_HUGE)), "room", _keys(Key(b"k", ARRAY, _TWO + text(b"a") + text(b"b", _HUGE)))
    ),
    "strings not UTF-8": Broken(
        "F118", ("string 1 of `k`",), "", _keys(Key(b"k", ARRAY, _TWO + text(b"a") + text(_BAD)))
    ),
    "strings split UTF-8": Broken(
        "F118", ("string 0 of `k`",), "", _keys(Key(b"k", ARRAY, _TWO + text(b"\xc3") + text(b"\xa9")))
    ),
    "strings over limit": Broken(
        "F124", ("`k`", "2097153"), "strings", _keys(strings("k", [], (1 << 21) + 1)), lambda d: d + bytes(17 << 20)
    ),
    "string over limit": Broken("F117", ("value of `k`", "4194305 bytes"), "length", _keys(string("k", "v" * 4194305))),
    "strings with a long one": Broken(
        "F117", ("string 1 of `k`", "4194305 bytes"), "length", _keys(strings("k", ["", "v" * 4194305]))
    ),
    "header over limit": Broken(
        "F114", ("`k`", str(1 << 26)), "room", _keys(array("k", U8, [], 1 << 26)), lambda d: d + bytes(1 << 26)
    ),
    # alignment
    "alignment u64": Broken(
        "F126", ("general.alignment", "type 10"), "alignment_type", _keys(number("general.alignment", U64, 32))
    ),
    "alignment string": Broken("F126", ("type 8",), "alignment_type", _keys(string("general.alignment", "32"))),
    "alignment 0": Broken("F127", ("is 0;",), "alignment", _keys(number("general.alignment", U32, 0))),
    "alignment 48": Broken("F127", ("is 48;",), "alignment", _keys(number("general.alignment", U32, 48))),
    "alignment 4": Broken("F127", ("is 4;",), "alignment", _keys(number("general.alignment", U32, 4))),
    "alignment 2^31": Broken("F139", ("`w`",), "place", replace(_ONE, keys=(number("general.alignment", U32, 2**31),))),
    # tensors
    "name empty": Broken("F130", ("0 bytes",), "name", _rows(Row(b"", (4,)))),
    "name long": Broken("F130", ("65 bytes",), "name", _rows(Row(b"n" * 65, (4,)))),
    "name length": Broken("F117", ("name of tensor 0", str(_HUGE)), "room", _rows(Row(b"w", (4,), name_length=_HUGE))),
    "name not UTF-8": Broken("F118", ("name of tensor 0",), "", _rows(Row(_BAD, (4,)))),
    "tensor twice": Broken("F131", ("`w`", "second time"), "name", _rows(Row(b"w", (4,)), Row(b"w", (4,)))),
    "rank 0": Broken("F132", ("`w`", "0 dimensions"), "rank", _rows(Row(b"w", ()))),
    "rank 5": Broken("F132", ("5 dimensions",), "rank", _rows(Row(b"w", (1, 1, 1, 1, 1)))),
    "rank 2^32-1": Broken("F132", ("4294967295",), "rank", _rows(Row(b"w", (4,), rank=2**32 - 1))),
    "size 0": Broken("F133", ("dimension 1 of tensor `w`", "is 0"), "sizes", _rows(Row(b"w", (4, 0), data=b""))),
    "size 2^63": Broken("F133", ("dimension 0", str(2**63)), "sizes", _rows(Row(b"w", (2**63,), data=b""))),
    "size -1": Broken("F133", (str(2**64 - 1),), "sizes", _rows(Row(b"w", (2**64 - 1,), data=b""))),
    "product 2^64": Broken(
        "F134", ("`w`", "4294967296 x 4294967296"), "sizes", _rows(Row(b"w", (2**32, 2**32), data=b""))
    ),
    "product 2^63": Broken("F134", ("2^63",), "sizes", _rows(Row(b"w", (2**62, 2), data=b""))),
    "bytes 2^64": Broken("F139", (str(2**64),), "place", _rows(Row(b"w", (2**62,), 0, data=b""))),
    "type 43": Broken("F135", ("`w`", "43"), "", _rows(Row(b"w", (256,), 43))),
    "type 9999": Broken("F135", ("9999",), "", _rows(Row(b"w", (256,), 9999))),
    "type Q8_1": Broken("F136", ("`w`", "Q8_1", "9"), "", _rows(Row(b"w", (256,), 9))),
    "type Q8_K": Broken("F136", ("Q8_K",), "", _rows(Row(b"w", (256,), 15))),
    "type Q4_0_4_4": Broken("F136", ("Q4_0_4_4",), "", _rows(Row(b"w", (256,), 31))),
    "row of 48": Broken("F137", ("`w`", "48", "q4_1", "32"), "row", _rows(Row(b"w", (48, 2), 3))),
    "row of 32": Broken("F137", ("q6_k", "256"), "row", _rows(Row(b"w", (32, 8), 14))),
    "offset 33": Broken("F138", ("`w`", "33", "32"), "place", _rows(Row(b"w", (4,), offset=33, data=bytes(64)))),
    "offset 8": Broken("F138", ("alignment 32",), "place", _rows(Row(b"w", (4,), offset=8, data=bytes(64)))),
    "offset 2^64-32": Broken("F139", ("`w`",), "place", _rows(Row(b"w", (4,), offset=2**64 - 32))),
    "offset 64": Broken("F139", ("`w`", "16 bytes"), "place", _rows(Row(b"w", (4,), offset=64))),
    "cut": Broken("F139", ("`w`", "ends at byte"), "place", _ONE, lambda d: d[:-1]),
    "no data": Broken("F139", ("`w`",), "place", _ONE, lambda d: d[: -2 * 2 * 34]),
    "table cut": Broken(
        "F113", ("offset of tensor `w`",), "room", _ONE, lambda d: d[: d.index(b"w") + 1 + 4 + 16 + 4 + 3]
    ),
    # what other programs write under the same names
    "quantization 1": Broken(
        "F141",
        ("general.quantization_version", "`1`", "`w`", "q8_0"),
        "quantization",
        replace(_ONE, keys=(number("general.quantization_version", U32, 1),)),
    ),
    "quantization text": Broken(
        "F141", ("`2`",), "quantization", replace(_ONE, keys=(string("general.quantization_version", "2"),))
    ),
    "Q2_0 with 128 values": Broken(
        "F140", ("`w`", "`x`"), "overlap", _rows(Row(b"w", (128, 64), 42, data=bytes(34 * 64)), Row(b"x", (400,)))
    ),
    "Q2_0 with 128 values, last": Broken(
        "F139", ("`w`",), "place", _rows(Row(b"w", (128, 64), 42, data=bytes(34 * 64)))
    ),
    "same place": Broken("F140", ("`a`", "`b`"), "overlap", _rows(Row(b"a", (8,)), Row(b"b", (8,), offset=0))),
    "inside": Broken("F140", ("`a`", "`b`"), "overlap", _rows(Row(b"a", (16,)), Row(b"b", (8,), offset=32))),
    "inside, other order": Broken(
        "F140", ("`a`", "`b`"), "overlap", _rows(Row(b"b", (8,), offset=32), Row(b"a", (16,), offset=0))
    ),
}
