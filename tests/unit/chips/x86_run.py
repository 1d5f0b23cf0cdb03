"""Small programs of emitted code that run on arrays."""

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
import pytest

from bittern.base.errors import BitternError
from bittern.chips.machine.calls import entry
from bittern.chips.machine.memory import executable
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.features import is_here, read
from bittern.chips.x86.registers import at, r64, rcx, rdi, rdx, rsi, xmm, ymm, zmm

Array = npt.NDArray[Any]
BANKS = {16: xmm, 32: ymm, 64: zmm}
POINTERS = (rdi, rsi, rdx, rcx, r64[8])  # in which System V passes them


def features() -> frozenset[str]:
    """Return what this processor can do, or skip where it runs no x86-64 code."""
    if not is_here():
        pytest.skip("this machine does not run x86-64 code of System V")
    try:
        return read()
    except BitternError as refused:
        pytest.skip(str(refused))


def run(write: Callable[[Assembler], None], *arrays: Array, needs: frozenset[str] = frozenset()) -> int:
    """Emit a function of the pointers to the arrays, call it, and return rax. Skips where features are missing."""
    missing = needs - features()
    if missing:
        pytest.skip(f"the processor lacks {', '.join(sorted(missing))}")
    a = Assembler(needs or None)
    write(a)
    a.ret()
    call = entry(executable(a.finish()), ("pointer",) * len(arrays), "u64")
    return int(call(*[array.ctypes.data for array in arrays]))


def lanes(name: str, size: int, operands: tuple[Array, ...], *rest: Any, result: Array) -> Array:
    """Run one vector instruction: registers 1, 2, ... hold the operands, register 1 gets the result."""
    bank = BANKS[size]

    def write(a: Assembler) -> None:
        for number, pointer in enumerate(POINTERS[1 : len(operands) + 1], 1):
            load = a.vmovdqu64 if size == 64 else a.vmovdqu if name[0] == "v" else a.movdqu
            load(bank[number], at(pointer))
        getattr(a, name)(*bank[1 : len(operands) + 1], *rest)
        store = a.vmovdqu64 if size == 64 else a.vmovdqu if name[0] == "v" else a.movdqu
        store(at(rdi), bank[1])

    run(write, result, *operands)
    return result
