"""Arenas: where values lie that share one piece of memory."""

from collections.abc import Mapping
from dataclasses import dataclass

from bittern.plan.flow import Value

LINE = 64  # bytes; every value begins on one


@dataclass(frozen=True, slots=True)
class Arena:
    """places: byte offset of every value. bytes: of the whole arena."""

    places: Mapping[Value, int]
    bytes: int


@dataclass(frozen=True, slots=True)
class Memory:
    """shared: values that all threads see. own: values that every thread has for itself."""

    shared: Arena
    own: Arena
