"""The whole library as machine code, without a kernel written for it: the bits of the strict evaluator.

Each function is made an instance, given small dimensions and random arguments, lowered, compiled for a tier, and run.
"""

import os
from functools import cache

import pytest
from generic_cases import arguments, declared, differences, dims_of, expected, instances, memory, results

from bittern.bitops.verify import faults
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.features import TIERS, Tier, is_here, read
from bittern.chips.x86.run import run_kernel
from bittern.graph.node import Function
from bittern.kernels.generic import conversions
from bittern.kernels.generic.lower import lower
from bittern.lang.library import Library
from bittern.lang.syntax import FunctionDecl
from bittern.std.catalogue import module_names

LIBRARY = Library.standard()
LONG = bool(os.environ.get("BITTERN_TEST_LONG"))  # every tier and two instances of each function

pytestmark = pytest.mark.skipif(not is_here(), reason="no x86-64 processor here: machine code cannot run")


@cache
def functions() -> dict[str, list[tuple[str, FunctionDecl]]]:
    """All functions by module."""
    found: dict[str, list[tuple[str, FunctionDecl]]] = {name: [] for name in module_names()}
    for name, _, declaration in declared(LIBRARY):
        found[name.partition(".")[0]].append((name, declaration))
    return found


def tiers() -> list[Tier]:
    """The tiers that run here: the best one, and with LONG all others."""
    able = [tier for tier in TIERS if tier.features <= read()]
    return able if LONG else able[-1:]


def wrong(function: Function, dims: tuple[int, ...], tier: Tier) -> int:
    """How many values are wrong as machine code."""
    lowered = lower(function, dims)
    assert faults(lowered.kernel) == []
    compiled = compile_kernel(lowered.kernel, tier)
    count = 0
    for seed in (1, 2):
        given = arguments(function, dims, seed)
        held = memory(lowered, given)
        for thread in range(seed):  # one thread, then the shares of two
            run_kernel(compiled, (), held, thread=thread, threads=seed)
        count += differences(results(lowered, held), expected(function, given, dims))
    return count


@pytest.mark.parametrize("module", module_names())
def test_module(module: str) -> None:
    for name, declaration in functions()[module]:
        made = instances(LIBRARY, name, declaration, 2 if LONG else 1)
        assert made, f"no instance of {name}"
        for function in made:
            dims = dims_of(function)
            assert dims, f"no dimensions for {name}"
            for tier in tiers():
                assert wrong(function, dims[0], tier) == 0, (name, dims[0], tier.name)


def test_larger_dimensions() -> None:
    """Vectors, rests and workspaces, which small arrays do not need."""
    rows = {
        "norms.rms_norm": (576,),
        "quantise.quantise": (576,),
        "sha256.sha256": (1000,),
        "xxhash64.xxhash64": (1003,),
        "chacha20.chacha20": (1000,),
        "blake3.blake3": (1500,),
        "sort.sort_ascending": (200,),
        "prefix.exclusive_sum": (5000,),
        "distances.levenshtein": (60, 50),
    }
    for name, declaration in (pair for pairs in functions().values() for pair in pairs):
        if name in rows:
            (function,) = instances(LIBRARY, name, declaration, 1)
            assert wrong(function, rows[name], tiers()[-1]) == 0, name


def test_a_wrong_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(conversions.ROWS, "rotl", conversions.ROWS["rotr"])
    assert wrong(LIBRARY.function("xxhash64.xxhash64"), (40,), tiers()[-1]) > 0
