"""Float instructions in machine code: found by reading the code back, so that a promise of none can be kept.

An instruction counts if it computes with floats, compares them, or converts from or to them. Moving and masking bytes
that may be floats does not: loads, stores, shuffles, blends, and the bitwise `vandps` and its like, which compilers use
for whole numbers too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bittern.base.errors import BitternError, code
from bittern.bitops.kernel import Kernel
from bittern.chips.machine.assembler import Code
from bittern.chips.x86.decode import Instruction, instructions

HAS_FLOAT_CODE = code("R169", "machine code that was promised to have no float instruction has one")

_KINDS = (
    *("add", "sub", "mul", "div", "sqrt", "min", "max", "hadd", "hsub", "addsub", "round", "rndscale", "reduce"),
    *("scalef", "getexp", "getmant", "range", "rcp", "rsqrt", "rcp14", "rsqrt14", "dp", "cmp", "fpclass", "fixupimm"),
)
_FLOAT = re.compile(
    rf"v?(?:(?:{'|'.join(_KINDS)})(?:ps|pd|ss|sd|ph|sh)|u?comis[sd]|cvt\w+|dpbf16ps|fn?m(?:add|sub)\w+)"
)
_SHOWN = 6


@dataclass(frozen=True, slots=True)
class FloatUse:
    """A float instruction: where it lies, its mnemonic, and what its stretch of code was made for."""

    offset: int
    name: str
    mark: str


def is_float(name: str) -> bool:
    """Whether a mnemonic is one of an instruction on floats."""
    return _FLOAT.fullmatch(name) is not None


def float_uses(routine: Code) -> tuple[FloatUse, ...]:
    """Return the float instructions of machine code, in order; the constants behind it are none. Errors: R168."""
    return tuple(
        FloatUse(each.offset, each.name, _mark(routine, each))
        for each in instructions(routine.data, 0, routine.size)
        if is_float(each.name)
    )


def need_no_floats(name: str, routine: Code) -> None:
    """Refuse machine code with a float instruction. name: of the kernel. Errors: R168, R169."""
    found = float_uses(routine)
    if found:
        raise BitternError(HAS_FLOAT_CODE, f"The kernel `{name}` has {_told(found)}.", "It must work on whole numbers.")


def has_float_buffers(kernel: Kernel) -> bool:
    """Whether a kernel is given floats, or gives them: then it stands at a boundary of a network of whole numbers."""
    return any(buffer.element.is_float for buffer in kernel.buffers if buffer.access != "scratch")


def _told(found: Sequence[FloatUse]) -> str:
    shown = ", ".join(f"`{use.name}` at byte {use.offset}" for use in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{len(found)} float instruction{'s' * (len(found) > 1)}: {shown}{more}"


def _mark(routine: Code, of: Instruction) -> str:
    return next((text for offset, text in reversed(routine.marks) if offset <= of.offset), "")
