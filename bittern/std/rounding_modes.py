"""The rounding modes that the library knows, one row each: importers map their own names to these.

A name says where a number between two whole ones goes, `half_*` where only ties go.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mode:
    """One mode.

    whole: what takes floats to whole numbers that are still floats; shift: what divides integers by 2^s. Each is a
    primitive op, or a function of the library if its name has a dot.
    """

    name: str
    whole: str
    shift: str
    doc: str


# fmt: off
_ROWS = (
    Mode("floor",      "floor",                     "shr",                       "down"),
    Mode("ceil",       "ceil",                      "rounding.shift_ceil",       "up"),
    Mode("trunc",      "trunc",                     "rounding.shift_trunc",      "towards zero"),
    Mode("away",       "rounding.round_away",       "rounding.shift_away",       "away from zero"),
    Mode("half_even",  "round_even",                "rounding.shift_half_even",  "to the nearest, ties to even"),
    Mode("half_ceil",  "rounding.round_half_ceil",  "rounding.shift_half_ceil",  "to the nearest, ties up"),
    Mode("half_floor", "rounding.round_half_floor", "rounding.shift_half_floor", "to the nearest, ties down"),
    Mode("half_away",  "rounding.round_half_away",  "rounding.shift_half_away",  "to the nearest, ties away from zero"),
    Mode("half_trunc", "rounding.round_half_trunc", "rounding.shift_half_trunc", "to the nearest, ties towards zero"),
)
# fmt: on

MODES: dict[str, Mode] = {row.name: row for row in _ROWS}
