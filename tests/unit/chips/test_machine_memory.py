"""Executable memory: never writable, in every way of getting it, refused with a code; and calls into it."""

import gc
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from x86_run import features

from bittern.base.errors import BitternError
from bittern.chips.machine.calls import entry
from bittern.chips.machine.memory import WAYS, Executable, executable
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.registers import at, at_label, eax, ecx, rax, rdi, rsi, xmm


def adder() -> Assembler:
    """Write two functions: a + b, and 1000 more than it."""
    a = Assembler()
    more = a.label("more")
    a.here("sum")
    a.lea(rax, at(rdi, 0, rsi))
    a.ret()
    a.align(16)
    a.place(more)
    a.lea(rax, at(rdi, 1000, rsi))
    a.ret()
    return a


def mappings() -> list[str]:
    """Return the mappings of this process, or skip where the system does not tell."""
    listing = Path("/proc/self/maps")
    if not listing.is_file():
        pytest.skip("this system lists no mappings")
    return listing.read_text().splitlines()


def rights(address: int) -> str:
    """Return the rights of the mapping that an address lies in, such as `r-xp`."""
    for line in mappings():
        span, right, *_ = line.split()
        start, end = (int(part, 16) for part in span.split("-"))
        if start <= address < end:
            return right
    raise AssertionError(("not mapped", address))


@pytest.mark.parametrize("way", list(WAYS))
def test_code_runs_and_is_never_writable(way: str) -> None:
    features()
    program = executable(adder().finish(), {way: WAYS[way]})
    assert program.way == way and program.address % 4096 == 0
    assert entry(program, ("i64", "i64"), "i64")(3, -5) == -2
    assert entry(program, ("u64", "u64"), "u64", "more")(3, 4) == 1007
    assert program.address in program and program.address + program.size not in program
    assert rights(program.address)[:3] == "r-x"


def test_no_mapping_of_the_process_is_writable_and_executable_through_us() -> None:
    features()
    before = {line for line in mappings() if "rwx" in line}
    programs = [executable(adder().finish(), {way: made}) for way, made in WAYS.items()]
    assert {line for line in mappings() if "rwx" in line} <= before
    assert len(programs) == len(WAYS)


def test_a_refusal_has_a_code_and_names_the_way_out() -> None:
    """EDGE_CASES D4: memory that may not run is a refusal, never a crash."""

    def refused(data: bytes) -> Any:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(BitternError) as caught:
        executable(adder().finish(), {"memory file": refused, "mprotect": refused})
    assert caught.value.code == "R161" and "memory file: [Errno 13] Permission denied; mprotect" in caught.value.what
    assert "`vm`" in caught.value.remedy


def test_one_refused_way_is_not_the_end() -> None:
    features()

    def refused(data: bytes) -> Any:
        raise AttributeError("no memory files here")

    program = executable(adder().finish(), {"memory file": refused, "mprotect": WAYS["mprotect"]})
    assert program.way == "mprotect"


def test_a_function_keeps_its_code() -> None:
    features()
    made = [entry(executable(adder().finish()), ("i64", "i64"), "i64") for _ in range(20)]
    gc.collect()
    assert [call(number, 1) for number, call in enumerate(made)] == list(range(1, 21))
    assert isinstance(made[0].program, Executable)


def test_floats_pass_and_constants_travel_along() -> None:
    features()
    a = Assembler()
    a.addss(xmm[0], xmm[1])
    a.mulss(xmm[0], at_label(a.constant(np.float32(0.5).tobytes())))
    a.ret()
    assert entry(executable(a.finish()), ("f32", "f32"), "f32")(3.0, 4.5) == 3.75


def test_the_lock_of_the_interpreter_is_released() -> None:
    features()
    a = Assembler()  # wait until another thread writes, at most about a second
    a.mov(eax, 20_000_000)
    loop, done = a.here(), a.label()
    a.mov(ecx, at(rdi))
    a.test(ecx, ecx)
    a.jne(done)
    a.pause()
    a.sub(eax, 1)
    a.jne(loop)
    a.place(done)
    a.mov(eax, ecx)
    a.ret()
    flag = np.zeros(1, np.int32)
    call = entry(executable(a.finish()), ("pointer",), "i32")

    def write() -> None:
        time.sleep(0.01)
        flag[0] = 7

    thread = threading.Thread(target=write)
    thread.start()
    assert call(flag.ctypes.data) == 7
    thread.join()


def test_an_entry_lies_in_the_code() -> None:
    features()
    program = executable(adder().finish())
    with pytest.raises(AssertionError, match="outside the code"):
        entry(program, offset=4096)
