"""The tables of the IQ formats: points, levels and signs, against those of the gguf package."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from format_oracle import FP4_DOUBLED, GRIDS, LEVELS_IQ4

import bittern

STD = Path(bittern.__file__).parent / "std"

TABLES = {  # name: shape, points as the package has them, factor
    "GRID_IQ1": ("i8[2048, 8]", "iq1_s", 8),
    "GRID_IQ2_XXS": ("i8[256, 8]", "iq2_xxs", 1),
    "GRID_IQ2_XS": ("i8[512, 8]", "iq2_xs", 1),
    "GRID_IQ2_S": ("i8[1024, 8]", "iq2_s", 1),
    "GRID_IQ3_XXS": ("i8[256, 4]", "iq3_xxs", 1),
    "GRID_IQ3_S": ("i8[512, 4]", "iq3_s", 1),
}


def table(run: Any, name: str, type_: str) -> Any:
    """The value of a constant of the library."""
    return run.text(f"use products\nfn it() -> {type_} {{\n  {name}\n}}\n", "it")


@pytest.mark.parametrize("name", TABLES)
def test_points_are_those_of_the_format(run: Any, name: str) -> None:
    type_, package, factor = TABLES[name]
    found = table(run, name, type_)
    assert found.dtype == np.int8
    assert np.array_equal(found, factor * np.array(GRIDS[package]))


def test_levels_are_those_of_the_format(run: Any) -> None:
    assert table(run, "LEVELS_IQ4", "i8[16]").tolist() == LEVELS_IQ4 == list(gguf.quants.IQ4_NL.kvalues)
    assert table(run, "FP4_DOUBLED", "i8[16]").tolist() == FP4_DOUBLED == list(gguf.quants.MXFP4.kvalues)
    assert list(gguf.quants.NVFP4.kvalues) == FP4_DOUBLED


@pytest.mark.covers("products.even_signs")
def test_signs_are_those_of_the_format(run: Any) -> None:
    found = run("products.even_signs", np.arange(128, dtype=np.uint8), dims=(128,))
    assert found.tobytes() == gguf.quants.IQ2_XXS.ksigns


@pytest.mark.covers("products.half_power", "products.half_of_e4m3")
def test_scales_of_one_byte_are_those_of_the_format(run: Any) -> None:
    every = np.arange(256, dtype=np.uint8)
    with np.errstate(all="ignore"):
        assert np.array_equal(run.over("products.half_power", every), gguf.quants.MXFP4.e8m0_to_fp32_half(every))
        assert np.array_equal(run.over("products.half_of_e4m3", every), gguf.quants.NVFP4.ue4m3_to_fp32(every))


@pytest.mark.covers("products.ternary_digits")
def test_every_byte_of_ternary_digits(run: Any) -> None:
    """Also bytes that no writer makes: the product wraps as bytes do."""
    every = np.arange(256, dtype=np.uint8)
    found = run("products.ternary_digits", every, dims=(256,))
    expected = [[(b * 3**k % 256) * 3 // 256 for b in range(256)] for k in range(5)]
    assert found.tolist() == expected


@pytest.mark.parametrize("grid", TABLES)
def test_moved_points_are_seen(edited: Callable[..., Any], grid: str) -> None:
    """Planted fault: two words of a bitmap change places."""
    type_, package, factor = TABLES[grid]
    file = f"products/{package}.btn"
    pairs = re.findall(r"(0x[0-9a-f]{16}), (0x[0-9a-f]{16})", (STD / file).read_text())
    a, b = next(pair for pair in pairs if pair[0] != pair[1])
    wrong = edited(file, f"{a}, {b}", f"{b}, {a}")
    assert (table(wrong, grid, type_) != factor * np.array(GRIDS[package])).any()
