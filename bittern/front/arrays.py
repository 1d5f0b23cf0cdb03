"""Reading arrays for networks: numpy's own files and IDX, the format of MNIST, plain or compressed.

A file is data that anybody may have written: sizes are checked against the bytes before anything is reserved, and
nothing in it is ever run (numpy's pickles are refused). Source of IDX: "the IDX file format" of the pages of MNIST.
"""

import gzip
import zlib
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest

NO_DATA = code("N461", "a file of data cannot be read")
BAD_DATA = code("N462", "a file of data is damaged or of an unknown kind")
NO_ARRAY = code("N463", "a file holds no array of this name")

PIXELS = ("auto", "raw", "unit", "signed")  # what becomes of bytes where reals are wanted
_BYTE = 255
MOST = 1 << 32  # bytes of an unpacked file
_IDX = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP, _NUMPY, _ZIP = b"\x1f\x8b", b"\x93NUMPY", b"PK"
_PIECE = 1 << 20

Array = npt.NDArray[Any]


def real_pixels(array: Array, pixels: str) -> Array:
    """Return u8 pixels as reals, and anything else as it is. pixels: a word of `PIXELS`.

    `raw` keeps 0 to 255, `unit` and `auto` make 0 to 1, `signed` -1 to 1; f32, one rounding for each operation.
    """
    if array.dtype != np.uint8 or pixels == "raw":
        return array
    unit = array.astype(np.float32) / np.float32(_BYTE)
    return unit * np.float32(2) - np.float32(1) if pixels == "signed" else unit


def read_array(path: Path, name: str = "") -> Array:
    """Return the array of a file: `.npy`, `.npz`, or IDX, also compressed by gzip.

    name: of an array in a `.npz`; may be left out where there is one alone. Raises N461, N462, N463.
    """
    try:
        with path.open("rb") as file:
            start = file.read(8)
            if start.startswith(_ZIP):
                return _of_several(path, name)
            if start.startswith(_NUMPY):
                file.seek(0)
                return np.lib.format.read_array(file, allow_pickle=False)
            file.seek(0)
            whole = _unpacked(path) if start.startswith(_GZIP) else file.read(MOST + 1)
    except OSError as fault:
        raise BitternError(NO_DATA, f"{path} cannot be read: {fault}.", "Check the path.") from fault
    except (ValueError, EOFError) as fault:
        raise _damaged(path, str(fault)) from fault
    return _idx(path, whole)


def _of_several(path: Path, name: str) -> Array:
    try:
        with np.load(path, allow_pickle=False) as held:
            if not name and len(held.files) == 1:
                name = held.files[0]
            if name not in held.files:
                what = f"{path} holds {', '.join(f'`{each}`' for each in held.files)}" + (f", no `{name}`" * bool(name))
                raise BitternError(NO_ARRAY, f"{what}.", nearest(name, held.files) or f"Write {path}:NAME.")
            found: Array = held[name]
            return found
    except (ValueError, EOFError, KeyError, zlib.error, NotImplementedError) as fault:
        raise _damaged(path, str(fault)) from fault
    except Exception as fault:
        if isinstance(fault, (BitternError, OSError)):
            raise
        raise _damaged(path, str(fault)) from fault  # zipfile.BadZipFile, whose module is loaded by numpy alone


def _unpacked(path: Path) -> bytes:
    """Return the bytes of a gzip file, `MOST` of them at most."""
    parts, total = [], 0
    try:
        with gzip.open(path) as file:
            while piece := file.read(_PIECE):
                total += len(piece)
                if total > MOST:
                    raise _damaged(path, f"it unpacks to more than {MOST} bytes")
                parts.append(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile) as fault:
        raise _damaged(path, str(fault)) from fault
    return b"".join(parts)


def _idx(path: Path, data: bytes) -> Array:
    """Return the array of an IDX file: two zeros, type, number of axes, sizes (u32, high byte first), values."""
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _IDX:
        raise _damaged(path, "it begins like no .npy, .npz or IDX file")
    element, axes = np.dtype(_IDX[data[2]]), data[3]
    start = 4 + 4 * axes
    if len(data) < start:
        raise _damaged(path, "it ends inside its header")
    shape = tuple(int(size) for size in np.frombuffer(data, ">u4", axes, 4))
    if prod(shape) * element.itemsize != len(data) - start:
        raise _damaged(path, f"an array of {list(shape)} does not take the {len(data) - start} bytes that follow")
    return np.frombuffer(data, element, prod(shape), start).reshape(shape).astype(element.newbyteorder("="))


def _damaged(path: Path, why: str) -> BitternError:
    return BitternError(BAD_DATA, f"{path}: {why}.", "Give a .npy, a .npz or an IDX file (.gz too).")
