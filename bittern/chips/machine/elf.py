"""Static executables: an ELF file of one program with its data, for Linux, without a linker or a C library.

In go segments at fixed addresses and where to begin; out come the bytes of the file. Source: the System V ABI, chapter
4 (object files) and 5 (program loading), and its supplements for each machine.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

PAGE = 0x1000
MACHINES = {"x86-64": 62}
_HEADER, _ENTRY = 64, 56  # bytes of the file's header and of one program header
_EXECUTABLE, _LOAD, _STACK = 2, 1, 0x6474E551
_RIGHTS = {"r": 4, "rw": 6, "rx": 5}


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of memory. address: a multiple of the page. rights: `r`, `rw` or `rx`.

    size: bytes in memory, if more than the data: zeros follow.
    """

    address: int
    data: bytes
    rights: str
    size: int = 0

    @property
    def extent(self) -> int:
        """Bytes in memory."""
        return max(self.size, len(self.data))


def executable_file(machine: str, entry: int, segments: Sequence[Segment]) -> bytes:
    """Return the bytes of an executable. entry: address of the first instruction. No segment is writable and run."""
    _check(segments, entry)
    count = len(segments) + 1
    start = _HEADER + _ENTRY * count
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)  # 64 bits, low byte first, version 1
    header = ident + struct.pack(
        "<HHIQQQIHHHHHH", _EXECUTABLE, MACHINES[machine], 1, entry, _HEADER, 0, 0, _HEADER, _ENTRY, count, 64, 0, 0
    )
    table, body = bytearray(), bytearray()
    place = -(-start // PAGE) * PAGE
    for each in segments:
        table += struct.pack(
            "<IIQQQQQQ",
            _LOAD,
            _RIGHTS[each.rights],
            place,
            each.address,
            each.address,
            len(each.data),
            each.extent,
            PAGE,
        )
        body += each.data + bytes(-len(each.data) % PAGE)
        place += -(-len(each.data) // PAGE) * PAGE
    table += struct.pack("<IIQQQQQQ", _STACK, _RIGHTS["rw"], 0, 0, 0, 0, 0, 16)  # a stack that is not run
    head = header + bytes(table)
    return head + bytes(-len(head) % PAGE) + bytes(body)


def _check(segments: Sequence[Segment], entry: int) -> None:
    ends = 0
    for each in segments:
        assert each.address % PAGE == 0 and each.address >= ends, (hex(each.address), hex(ends))
        ends = each.address + each.extent
    assert any(each.rights == "rx" and each.address <= entry < each.address + len(each.data) for each in segments), (
        entry
    )
