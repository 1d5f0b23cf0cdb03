"""The layout of a `.keg` file, stated once for its writer and its reader.

```
preamble   64 bytes: magic, version u64, length of the header u64, length of the file u64, SHA-256 of the header
header     canonical CBOR (RFC 8949, 4.2.3: shortest heads, keys by length and then bytes), zeros up to 64
blobs      in ascending order of their SHA-256, each at a multiple of 64, zeros between and after them
```
All integers of the preamble are little-endian. The header is one map:

| key | content |
|---|---|
| blobs | rows [sha256, size, offset] inside, the offset from the end of the header; or with [file, its sha256] added;
  or with [element] added: values packed as `keg_packing` says |
| dims | rows of terms [factor, [atom, ...]]; an atom is a symbol's position or [`/` or `%`, dim, dim] |
| entries | rows, nodes and functions in one topological order: `NODE` and `FUNCTION` below |
| labels | rows `LABELS`, apart from meaning: nothing in an id depends on them |
| lines | the names of the source files to which labels refer |
| notes | text by name, for people |
| roots | the entry of a function, by its label |
| types | rows [`tensor`, element, [dim, ...], space or null], [`tuple`, [type, ...]], [`token`, effect] |

Every reference is the index of an *earlier* row (of `entries`, `dims`, `types`) or of any row of `blobs`, so no cycle
can be written down. An attribute is a number, truth value, text or bytes as it is, a list for a tuple, or a map of one
key: `dim`, `type`, `element` (its name), `blob` or `function`.
"""

from struct import Struct

from bittern.base.errors import BitternError, code

MAGIC = b"\x89KEG\r\n\x1a\n"  # a transfer as text breaks it
VERSION = 1
ALIGN = 64
PREAMBLE = Struct("<8sQQQ32s")
KEYS = ("blobs", "dims", "entries", "labels", "lines", "notes", "roots", "types")

NODE = ("word", "id", "kind", "inputs", "type", "attributes", "effects", "ownership", "policy")  # word: "node"
FUNCTION = ("word", "id", "dims", "params", "result", "facts", "effects", "ideal")  # word: "function"
LABELS = ("entry", "name", "dims", "params", "nodes", "lines")  # nodes: [entry, text]; lines: [entry, file, line]

MAX_DEPTH = 24  # of nested lists and maps in the header, and of nested dimensions and types
MAX_WEIGHT = 400  # of one dimension: its terms and atoms, those of its divisions included
MAX_INT = (1 << 63) - 1

UNREADABLE = code("F201", "a .keg file cannot be opened")
NOT_A_KEG = code("F202", "the file is no .keg file")
WRONG_VERSION = code("F203", "the .keg file has another version")
TRUNCATED = code("F204", "the .keg file ends too early")
TRAILING = code("F205", "the .keg file goes on after its end")
WRONG_HEADER = code("F206", "the header of the .keg file is damaged")
NOT_CANONICAL = code("F207", "the header of the .keg file is not canonical CBOR")
TOO_LARGE = code("F208", "the header of the .keg file asks for too much memory")
WRONG_SCHEMA = code("F209", "a record of the .keg file does not have its fields")
NO_SUCH_ROW = code("F210", "a record of the .keg file refers to nothing")
FORWARD = code("F211", "a record of the .keg file refers to a later one")
WRONG_ID = code("F212", "the id of a record is not the hash of its meaning")
WRONG_TYPE = code("F213", "a node does not have the type that its rule gives")
WRONG_PLACE = code("F214", "a blob of the .keg file is not where it must be")
WRONG_BLOB = code("F215", "the bytes of a constant are not those of its SHA-256")
PADDING = code("F216", "bytes between the parts of the .keg file are not zero")
DUPLICATE = code("F217", "a .keg file holds something twice")
UNUSED = code("F218", "a .keg file holds something that nothing refers to")
WRONG_VALUE = code("F220", "a constant holds a number outside its element")
NOT_FOUND = code("F221", "the bytes of a constant are in another file that is not at hand")
NOT_WRITTEN = code("F222", "a .keg file cannot be written")
NOT_STORABLE = code("F223", "a graph holds something that no .keg file can hold")
WRONG_RECORD = code("F224", "a record states other effects, ownership or policy than its node has")

CODES_OF_READING = (
    *(UNREADABLE, NOT_A_KEG, WRONG_VERSION, TRUNCATED, TRAILING, WRONG_HEADER, NOT_CANONICAL, TOO_LARGE, WRONG_SCHEMA),
    *(NO_SUCH_ROW, FORWARD, WRONG_ID, WRONG_TYPE, WRONG_PLACE, WRONG_BLOB, PADDING, DUPLICATE, UNUSED, "F219"),
    *(WRONG_VALUE, NOT_FOUND, WRONG_RECORD),
)


def aligned(offset: int) -> int:
    """Return the next multiple of 64 that is not below the offset."""
    return -(-offset // ALIGN) * ALIGN


def scan(data: bytes, budget: int) -> None:
    """Check that bytes are one CBOR item of the kinds a header is made of, before anything is built from them.

    Allowed: integers, bytes, text, lists, maps, true, false and null, with shortest heads and definite lengths; no tags
    and no floats. budget: how many bytes of Python objects they may become. Errors: F207, F208.
    """
    end, position, cost = len(data), 0, 0
    open_counts: list[int] = []
    remaining = 1
    while True:
        while not remaining:
            if not open_counts:
                if position != end:
                    raise fault(NOT_CANONICAL, f"{end - position} bytes follow the header's map")
                return
            remaining = open_counts.pop()
        remaining -= 1
        if position >= end:
            raise fault(NOT_CANONICAL, "the header ends inside an item")
        head = data[position]
        major, value = head >> 5, head & 31
        start, position = position, position + 1
        if value >= 24:
            value, position = _long_head(data, start, value)
        if major == 0 or major == 1:
            cost += 40 if value > 255 else 8
        elif major < 4:
            position += value
            cost += 48 + value
        elif major == 4 or major == 5:
            count = value << (major - 4)
            if count > end - position:
                raise fault(NOT_CANONICAL, f"a list or map of {value} items at byte {start} has no room for them")
            if len(open_counts) >= MAX_DEPTH:
                raise fault(TOO_LARGE, f"lists at byte {start} are nested deeper than {MAX_DEPTH}")
            open_counts.append(remaining)
            remaining = count
            cost += 64 if major == 4 else 72 + 120 * min(value, 1) + 40 * value
        elif not 0xF4 <= head <= 0xF6:
            raise fault(NOT_CANONICAL, f"byte {start} starts an item of a kind that a header has not (0x{head:02x})")
        if position > end:
            raise fault(NOT_CANONICAL, f"the item at byte {start} runs past the end of the header")
        if cost > budget:
            raise fault(TOO_LARGE, f"the header needs more than {budget} bytes of memory")


def _long_head(data: bytes, start: int, low: int) -> tuple[int, int]:
    """Return the number after a head byte and the place behind it; it must not fit a shorter head."""
    if low > 27:
        raise fault(NOT_CANONICAL, f"byte {start} starts an item of no definite length (0x{data[start]:02x})")
    width = 1 << (low - 24)
    value = int.from_bytes(data[start + 1 : start + 1 + width], "big")
    if value < (24 if width == 1 else 1 << (4 * width)):
        raise fault(NOT_CANONICAL, f"the head at byte {start} is longer than it must be, or cut off")
    return value, start + 1 + width


def fault(name: str, what: str) -> BitternError:
    """Return the error of a damaged file; the reader puts the path in front. what: a phrase without full stop."""
    return BitternError(name, what + ".", _REMEDIES.get(name, _AGAIN))


_AGAIN = "The file is damaged or was made by a faulty writer: write or fetch it again."
_REMEDIES = {
    UNREADABLE: "Check the path and its permissions.",
    NOT_A_KEG: "Give a file that Bittern wrote.",
    WRONG_VERSION: f"This Bittern reads version {VERSION}: write the file again with it, or use the other one.",
}
