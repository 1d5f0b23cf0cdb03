"""Data for the tests of quantisers, made of whole numbers so that no library's arithmetic is in them."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

OLD_CPU = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR AVX2 FMA3 F16C X86_V3 X86_V4"


def bell(rng: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    """Return numbers that look normal with deviation near 1: sums of twelve whole ones."""
    return (rng.integers(-500, 501, (*shape, 12)).sum(-1) / 1000).astype(np.float32)


def printed(program: str, **environment: str) -> str:
    """Return what a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def printed_everywhere(program: str) -> set[str]:
    """Return what a program prints with one and two threads, and where numpy uses no newer instructions."""
    return {
        printed(program, OPENBLAS_NUM_THREADS="1"),
        printed(program, OPENBLAS_NUM_THREADS="2", OPENBLAS_CORETYPE="Nehalem"),
        printed(program, OPENBLAS_NUM_THREADS="1", NPY_DISABLE_CPU_FEATURES=OLD_CPU),
    }


def matrix(seed: int, rows: int, columns: int) -> Any:
    """Return a matrix of bell-shaped weights whose rows differ in size."""
    rng = np.random.default_rng(seed)
    return bell(rng, rows, columns) * np.linspace(0.5, 3, rows, dtype=np.float32)[:, None]


def inputs(seed: int, count: int, columns: int) -> Any:
    """Return inputs that depend on each other, as those of a layer do."""
    rng = np.random.default_rng(seed)
    mixed = bell(rng, columns, columns) / 3 + np.eye(columns, dtype=np.float32)
    return (bell(rng, count, columns).astype(np.float64) @ mixed).astype(np.float32)
