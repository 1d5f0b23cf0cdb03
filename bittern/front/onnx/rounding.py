"""Names of rounding modes: which row of `bittern.std.rounding_modes` each name that a file may use means.

QONNX names ten modes for seven meanings; several names say something else than in other tools: UP is away from zero,
HALF_UP takes ties away from zero. The list and examples are in the QONNX page of `Quant`; ROUND_TO_ZERO is a name of
Brevitas for what QONNX calls DOWN.
"""

from dataclasses import replace

import numpy as np

from bittern.front.onnx.emitter import Emitter
from bittern.front.onnx.values import Array, Wire
from bittern.std import rounding_modes

MODES: dict[str, str] = {  # name in the file: the library's
    "ROUND":         "half_even",
    "HALF_EVEN":     "half_even",
    "CEIL":          "ceil",
    "FLOOR":         "floor",
    "UP":            "away",
    "DOWN":          "trunc",
    "ROUND_TO_ZERO": "trunc",
    "TRUNC":         "trunc",
    "HALF_UP":       "half_away",
    "HALF_DOWN":     "half_trunc",
}  # fmt: skip


def rounded(emitter: Emitter, x: Wire, mode: str) -> Wire:
    """Return the values as whole numbers, still f32. mode: a key of `MODES`."""
    how = rounding_modes.MODES[MODES[mode]].whole
    return emitter.applied(how, x) if "." in how else emitter.unary(how, x)


def rounded_array(x: Array, mode: str) -> Array:
    """Return the same for constants. x: f32."""
    away = np.where(x < 0, np.float32(-1), np.float32(1))
    low = np.trunc(x)
    rest = np.abs(x - low)
    made: dict[str, Array] = {
        "half_even": np.rint(x),
        "ceil": np.ceil(x),
        "floor": np.floor(x),
        "trunc": low,
        "away": np.where(rest > 0, low + away, low),
        "half_away": np.where(rest >= 0.5, low + away, low),
        "half_trunc": np.where(rest > 0.5, low + away, low),
    }
    return made[MODES[mode]].astype(np.float32)


def to_element(emitter: Emitter, x: Wire, element: str) -> Wire:
    """Return whole numbers that an element has, held as f32, as that element."""
    kind = "sign" if element in ("b1", "t") else "round"
    return replace(emitter.converted(x, element, kind), element=element)
