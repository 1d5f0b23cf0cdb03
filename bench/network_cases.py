"""What `bench/networks.py` times: cases, and their data, which both sides make from the same seeds. numpy alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to time. kind, numbers: what it is. bars: how many times as fast as each peer it has to be."""

    name: str
    kind: str
    numbers: tuple[int, ...]
    bars: Mapping[str, float]
    threads: int = 2
    file: str = ""


LAYERS = 8  # of a chain of binary convolutions, packed between them; what is told is the time of one, ends included

_TINY, _LITERT = "mlperf_tiny", {"litert_xnnpack": 1.0}

# fmt: off
CASES: tuple[Case, ...] = (
    Case("gemm_1024",   "gemm",   (1024,),                 {"numpy_f32": 20, "onnxruntime_int8": 5, "bnn_lab": 2}),
    Case("gemm_4096",   "gemm",   (4096,),                 {"numpy_f32": 20, "onnxruntime_int8": 5, "bnn_lab": 2}),
    Case("conv_56x64",  "conv",   (56, 64),                {"onnxruntime_f32": 12, "onnxruntime_int8": 4, "larq": 20}),
    Case("conv_14x256", "conv",   (14, 256),               {"onnxruntime_f32": 12, "onnxruntime_int8": 4, "larq": 20}),
    Case("tfc_1",       "tfc",    (1,),                    {"onnxruntime": 10}),
    Case("tfc_1000",    "tfc",    (1000,),                 {"onnxruntime": 10}),
    Case("kws",         "tflite", (1,),                    _LITERT, 1, f"{_TINY}/kws_int8.tflite"),
    Case("ic",          "tflite", (1,),                    _LITERT, 1, f"{_TINY}/ic_resnet8_int8.tflite"),
    Case("ad01",        "tflite", (1,),                    _LITERT, 1, f"{_TINY}/ad01_int8.tflite"),
)
# fmt: on


def case_of(name: str) -> Case:
    """Return the case of a name."""
    return next(case for case in CASES if case.name == name)


def signs(*shape: int, seed: int) -> Array:
    """Return random -1 and +1, i8."""
    return (2 * np.random.default_rng(seed).integers(0, 2, shape, dtype=np.int8) - 1).astype(np.int8)


def gemm_data(n: int) -> tuple[Array, Array]:
    """Return values and weights, [n, n] each, -1 and +1."""
    return signs(n, n, seed=n), signs(n, n, seed=n + 1)


def conv_data(size: int, channels: int) -> tuple[Array, Array]:
    """Return an image [1, size, size, channels] and weights [channels, 3, 3, channels], -1 and +1."""
    return signs(1, size, size, channels, seed=size), signs(channels, 3, 3, channels, seed=size + 1)
