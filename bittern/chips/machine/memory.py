"""Executable memory that is never writable.

The bytes go into a memory file through its descriptor and are mapped readable and executable, so that no writable
view of the code exists at any time. Where there are no memory files, an anonymous mapping is written and then turned
from writable into executable (`mprotect`). A system that refuses both gives R161, and the caller falls back to `vm`.
"""

import ctypes
import mmap
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.chips.machine.assembler import Code

EXECUTABLE_MEMORY_REFUSED = code("R161", "the system gives no executable memory")

_READ_WRITE, _READ_EXECUTE = 3, 5  # of PROT_READ 1, PROT_WRITE 2, PROT_EXEC 4


class Executable:
    """Machine code in executable memory. Whatever calls into it must hold this object, which owns the memory.

    address: of the first byte, a multiple of the page. size: bytes of code and constants. way: how it was mapped.
    """

    def __init__(self, finished: Code, way: str, mapping: mmap.mmap) -> None:
        self.code: Final = finished
        self.way: Final = way
        self.size: Final = len(finished.data)
        self.address: Final = _address(mapping)
        self._mapping = mapping

    def __contains__(self, address: int) -> bool:
        """Say whether the address lies in the code."""
        return self.address <= address < self.address + self.size


def executable(finished: Code, ways: Mapping[str, Callable[[bytes], mmap.mmap]] | None = None) -> Executable:
    """Put finished code into executable memory.

    ways: how to try, in this order; all that are known if not given. Raises R161 where each is refused.
    """
    assert finished.data, "no code"
    assert finished.alignment <= mmap.PAGESIZE, ("aligned beyond a page", finished.alignment)
    refused = []
    for name, way in (WAYS if ways is None else ways).items():
        try:
            return Executable(finished, name, way(finished.data))
        except (OSError, AttributeError, ValueError) as failure:
            refused.append(f"{name}: {failure}")
    raise BitternError(
        EXECUTABLE_MEMORY_REFUSED,
        f"The system refused executable memory ({'; '.join(refused)}).",
        "Allow it for this process, or run on the chip `vm`, which gives the same bits.",
    )


def _by_memory_file(data: bytes) -> mmap.mmap:
    """Write the bytes into a memory file; map it readable and executable."""
    file = os.memfd_create("bittern", os.MFD_CLOEXEC)
    try:
        written = 0
        while written < len(data):
            written += os.write(file, data[written:])
        return mmap.mmap(file, len(data), flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_EXEC)
    finally:
        os.close(file)


def _by_protection(data: bytes) -> mmap.mmap:
    """Write the bytes into anonymous memory; take the right to write away as that to execute is given."""
    size = -(-len(data) // mmap.PAGESIZE) * mmap.PAGESIZE
    mapping = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=_READ_WRITE)
    mapping[: len(data)] = data
    protect: Any = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(_address(mapping)), ctypes.c_size_t(size), _READ_EXECUTE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return mapping


WAYS: Mapping[str, Callable[[bytes], mmap.mmap]] = {"memory file": _by_memory_file, "mprotect": _by_protection}


def _address(mapping: mmap.mmap) -> int:
    return int(np.frombuffer(mapping, np.uint8).ctypes.data)
