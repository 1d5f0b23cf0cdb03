"""The one table of rounding modes: what each name that a file may use means.

QONNX names ten modes for seven meanings; several names say something else than in other tools: UP is away from zero,
HALF_UP takes ties away from zero. The list and examples are in the QONNX page of `Quant`; ROUND_TO_ZERO is a name of
Brevitas for what QONNX calls DOWN.
"""

from dataclasses import replace

import numpy as np

from bittern.front.onnx.emitter import Emitter
from bittern.front.onnx.values import Array, Wire

# name in the file: our name (`half_*`: only ties go that way), the primitive op or library function
MODES: dict[str, tuple[str, str]] = {
    "ROUND":         ("half_even",  "round_even"),
    "HALF_EVEN":     ("half_even",  "round_even"),
    "CEIL":          ("ceil",       "ceil"),
    "FLOOR":         ("floor",      "floor"),
    "UP":            ("away",       "rounding.round_away"),
    "DOWN":          ("trunc",      "trunc"),
    "ROUND_TO_ZERO": ("trunc",      "trunc"),
    "TRUNC":         ("trunc",      "trunc"),
    "HALF_UP":       ("half_away",  "rounding.round_half_away"),
    "HALF_DOWN":     ("half_trunc", "rounding.round_half_trunc"),
}  # fmt: skip


def rounded(emitter: Emitter, x: Wire, mode: str) -> Wire:
    """Return the values as whole numbers, still f32. mode: a key of `MODES`."""
    how = MODES[mode][1]
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
    return made[MODES[mode][0]].astype(np.float32)


def to_element(emitter: Emitter, x: Wire, element: str) -> Wire:
    """Return whole numbers that an element has, held as f32, as that element."""
    kind = "sign" if element in ("b1", "t") else "round"
    return replace(emitter.converted(x, element, kind), element=element)
