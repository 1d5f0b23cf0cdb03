"""Runs a compiled kernel on numpy arrays, as tests and measurements do.

Sizes are checked against the kernel's before anything runs, so that a wrong array is a fault and not a crash. Arrays
that are not aligned as their buffers promise are copied and copied back.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.kernel import Buffer
from bittern.chips.machine.calls import entry
from bittern.chips.machine.memory import executable
from bittern.chips.x86.compile import Compiled

Array = npt.NDArray[Any]


def run_kernel(
    compiled: Compiled,
    symbols: Sequence[int],
    arrays: Mapping[str, Array],
    parameters: "Mapping[str, int | float] | None" = None,
    thread: int = 0,
    threads: int = 1,
) -> None:
    """Run one thread's share of a kernel on arrays, which it writes in place.

    symbols: a number for each. arrays: by name, contiguous, of the element's dtype and exactly the buffer's size;
    scratch is not given. parameters: by name.
    """
    assert 0 <= thread < threads, (thread, threads)
    call, words, copies = prepare(compiled, symbols, arrays, parameters)
    call(words.ctypes.data, thread, threads)
    for array, copy in copies:
        array.reshape(-1)[:] = copy


def prepare(
    compiled: Compiled,
    symbols: Sequence[int],
    arrays: Mapping[str, Array],
    parameters: "Mapping[str, int | float] | None" = None,
) -> tuple[Callable[..., Any], npt.NDArray[np.uint64], list[tuple[Array, Array]]]:
    """Return the function, its argument words, and (array, copy) for each array that had to be moved to be aligned."""
    kernel = compiled.kernel
    assert len(symbols) == len(kernel.symbols), (symbols, kernel.symbols)
    copies: list[tuple[Array, Array]] = []
    words = [int(number) for number in symbols]
    for buffer in kernel.buffers:
        if buffer.access != "scratch":
            array = _checked(arrays[buffer.name], buffer, symbols)
            if array.ctypes.data % buffer.align:
                copies.append((array, aligned(array, buffer.align)))
                array = copies[-1][1]
            words.append(int(array.ctypes.data))
    for parameter in kernel.parameters:
        scalar = np.array([(parameters or {})[parameter.name]], parameter.value.type.dtype)
        words.append(int.from_bytes(scalar.tobytes().ljust(8, b"\0"), "little"))
    call = entry(executable(compiled.code), ("pointer", "u64", "u64"))
    return call, np.array(words or [0], np.uint64), copies


def _checked(array: Array, buffer: Buffer, symbols: Sequence[int]) -> Array:
    wanted = (buffer.size.value(symbols), np.dtype(buffer.element.storage))
    assert (array.size, array.dtype) == wanted, (buffer.name, array.size, array.dtype, wanted)
    assert array.flags.c_contiguous, buffer.name
    assert buffer.access == "read" or array.flags.writeable, buffer.name
    return array.reshape(-1)


def aligned(array: Array, boundary: int) -> Array:
    """Return a copy whose first byte is at a multiple of the boundary."""
    size = array.size * array.itemsize
    memory = np.empty(size + boundary, np.uint8)
    start = -int(memory.ctypes.data) % boundary
    made = memory[start : start + size].view(array.dtype)
    made[:] = array.reshape(-1)
    return made
