"""The smallest hostile TFLite files of each kind: rows of `hostile.ROWS`."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from tflite_files import Graph, Numbers, Op, T, Writer, build

Made = Callable[[], bytes]


def _tensor(**changes: Any) -> bytes:
    """Return a model of one operator whose input has other fields."""
    given: dict[str, Any] = {"shape": (1, 3), "scale": 0.5, **changes}
    return build(Graph([T(**given), T((1, 3), "i8", 0.5)], [Op(19, [0], [1])]))


def _lengthened(count: int) -> bytes:
    """Return a model whose input's shape says that it has so many sizes."""
    return _tensor().replace(struct.pack("<3I", 2, 1, 3), struct.pack("<3I", count, 1, 3), 1)


def _shared_name(count: int, size: int) -> bytes:
    """Return a model of many tensors that all refer to one long name."""
    root = {0: ("I", 3), 2: [{0: [{3: "x"} for _ in range(count)]}], 4: [{}]}
    data = bytearray(Writer(b"TFL3").finish(root))
    end = (len(data) + 3) // 4 * 4
    data = data.ljust(end, b"\0") + struct.pack("<I", size) + b"a" * size
    for place in range(0, end, 4):
        (distance,) = struct.unpack_from("<I", data, place)
        if data[place + distance : place + distance + 5] == b"\1\0\0\0x":
            struct.pack_into("<I", data, place, end - place)
    return bytes(data)


def _graph(tensors: list[T], *operators: Op) -> bytes:
    return build(Graph(tensors, list(operators)))


def _pair() -> list[T]:
    return [T((1, 3), "i8", 0.5), T((1, 3), "i8", 0.5)]


def _typed(number: int) -> bytes:
    root = {0: ("I", 3), 2: [{0: [{0: Numbers("i", [1]), 1: ("b", number)}], 1: Numbers("i", [0])}], 4: [{}]}
    return Writer(b"TFL3").finish(root)


def _parts(count: int) -> bytes:
    root = {0: ("I", 3), 2: [{0: [{0: Numbers("i", [1])}], 1: Numbers("i", [0])}], 4: [{}], 6: [{}] * count}
    return Writer(b"TFL3").finish(root)


# kind, what, code, file
ROWS: tuple[tuple[str, str, str, Made], ...] = (
    ("length", "a shape of 2^32 - 1 sizes", "N305", lambda: _lengthened((1 << 32) - 1)),
    ("length", "a shape of 2^30 sizes", "N305", lambda: _lengthened(1 << 30)),
    ("product", "a tensor of 2^30 x 2^30 x 16 values", "N309", lambda: _tensor(shape=(1 << 30, 1 << 30, 16))),
    ("type", "a constant with fewer bytes than it says", "N310", lambda: _tensor(data=np.zeros(2))),
    ("type", "a type that does not exist", "N311", lambda: _typed(99)),
    ("offset", "a first table at 2^32 - 1", "N303", lambda: b"\xff\xff\xff\xffTFL3" + bytes(64)),
    ("offset", "a table that lies before the file", "N303", lambda: struct.pack("<I4si", 8, b"TFL3", 1 << 20)),
    ("structure", "a table whose list of fields is odd", "N304", lambda: struct.pack("<I4si2H", 8, b"TFL3", -4, 5, 4)),
    ("structure", "an operator that reads what it writes", "N313", lambda: _graph(_pair(), Op(19, [1], [1]))),
    ("index", "tensor 7 of 2", "N308", lambda: _graph(_pair(), Op(19, [7], [1]))),
    ("index", "a scale that is no number", "N312", lambda: _tensor(scale=float("nan"))),
    ("active", "an operator of its own", "N320", lambda: _graph(_pair(), Op(32, [0], [1], custom="System"))),
    ("resource", "1000 tensors that share a name of 60 kB", "N307", lambda: _shared_name(1000, 60_000)),
    ("resource", "1025 pieces of metadata", "N307", lambda: _parts(1025)),
)
