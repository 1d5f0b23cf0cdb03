"""Runs of kernels as x86-64 code beside the interpreter's, and the cases of the bitops tests."""

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest

from bittern.base.errors import BitternError
from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel, walk
from bittern.chips.x86.compile import Compiled, compile_kernel
from bittern.chips.x86.features import TIERS, Tier, is_here, read
from bittern.chips.x86.run import run_kernel

sys.path.append(str(Path(__file__).resolve().parent.parent / "unit" / "bitops"))  # the cases of those tests

Array = npt.NDArray[Any]
NAMES = [tier.name for tier in TIERS]
FUSED = ("VFMADD", "VFMSUB", "VFNMADD", "VFNMSUB", "VDPBF16", "VDPPH", "V4FMADD", "V4FNMADD", "VFCMADD", "VFMUL")
compiled_kinds: set[str] = set()  # of all kernels that were compiled here, before they were lowered


@cache
def here() -> frozenset[str]:
    """Return the features of this processor; none where it runs no x86-64 code."""
    try:
        return read() if is_here() else frozenset()
    except BitternError:
        return frozenset()


def tier_of(name: str) -> Tier:
    """Return a tier, or skip where this processor lacks it."""
    found = next(tier for tier in TIERS if tier.name == name)
    missing = found.features - here()
    if missing:
        pytest.skip(f"this processor lacks {', '.join(sorted(missing))}")
    return found


def compiled(kernel: Kernel, tier: Tier) -> Compiled:
    """Compile a kernel, and remember its kinds."""
    compiled_kinds.update(step.kind for step in walk(kernel.body))
    return compile_kernel(kernel, tier)


def run_both(
    kernel: Kernel,
    tier: Tier,
    buffers: Mapping[str, Array],
    dims: Sequence[int] = (),
    parameters: "Mapping[str, int | float] | None" = None,
    threads: int = 1,
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the buffers after a run of the code, by so many threads one after another, and after the interpreter's."""
    wanted = {name: array.copy() for name, array in buffers.items()}
    found = {name: array.copy() for name, array in buffers.items()}
    interpret(kernel, wanted, dims, parameters)
    made = compiled(kernel, tier)
    for thread in range(threads):
        run_kernel(made, dims, found, parameters, thread, threads)
    return found, wanted


def equal(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> bool:
    """Whether all buffers have the same bytes."""
    return all(found[name].tobytes() == wanted[name].tobytes() for name in wanted)


def mnemonics(made: Compiled) -> list[str]:
    """Return the instructions of a code as another disassembler reads them."""
    from iced_x86 import Decoder, Mnemonic

    names = {value: name for name, value in vars(Mnemonic).items() if isinstance(value, int)}
    decoder = Decoder(64, made.code.data[: made.code.size])
    return [names[instruction.mnemonic] for instruction in decoder]


def fused(names: Sequence[str]) -> list[str]:
    """Return what multiplies and adds with one rounding, or is no instruction at all."""
    return [name for name in names if name.startswith(FUSED) or name == "INVALID"]
