"""The published networks of BNN-PYNQ (Xilinx, BSD-3), from their parameters as plain arrays.

An `.npz` file holds for each layer i `w<i>` (uint8, the signs of a row packed from the low bit, bit 1 is +1),
`shape<i>` (rows, columns) and `t<i>` (int32, [rows, thresholds]); the last layer may have no thresholds. A unit's level
is the number of its thresholds that its sum exceeds, strictly. The networks are those of the paper (Umuroglu et al.
2017, FINN): LFC, three hidden layers of 1024, and CNV, six 3x3 convolutions and three dense layers.

Sums here are dots of signs, where the arrays count equal signs: of n columns with c equal ones the dot is 2c - n, so
`c > t` is `dot >= 2t - n + 1`. The 48 columns that only fill up the first row of LFC are constant: they move its
thresholds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.network.assembly import BATCH, Assembly, shape_of
from bittern.front.network.network import Network
from bittern.graph.node import Node
from bittern.lang.library import Library

NOT_PYNQ = code("N121", "the file holds no network of BNN-PYNQ")

Array = npt.NDArray[Any]

_CLASSES = 10
_LFC = ((1024, 832), (1024, 1024), (1024, 1024))  # of hidden layers: rows, columns
_CNV = ((64, 27), (64, 576), (128, 576), (128, 1152), (256, 1152), (256, 2304), (512, 256), (512, 512))
_POOLED = (1, 3)  # the convolutions behind which windows of 2x2 are pooled


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer. signs: [rows, columns] of -1 and +1. least: [rows, thresholds], or None for the last one."""

    signs: Array
    thresholds: Array | None


def open_bnn_pynq(path: Path | str, library: Library) -> Network:
    """Return the network of a parameter file; see `read`."""
    return read(path, library)


def read(path: Path | str, library: Library | None = None) -> Network:
    """Return the network of a parameter file: `scores` i32[b, 10] of `image` u8[b, 28, 28] or u8[b, 32, 32, 3].

    Errors: N121 the file is no parameter file of LFC or CNV.
    """
    arrays = _arrays(Path(path))
    layers = [_layer(arrays, i, path) for i in range(len([name for name in arrays if name.startswith("shape")]))]
    shapes = tuple(layer.signs.shape for layer in layers[:-1])
    bare = [i for i, layer in enumerate(layers) if layer.thresholds is None]
    if bare and (bare[0] < len(layers) - 1 or shapes == _LFC):
        raise _refused(path, f"it has no array `t{bare[0]}`")
    classes = ", ".join(str(name).strip() for name in arrays.get("classes", np.array([])))
    name = Path(path).stem
    a = Assembly(library or Library.standard())
    if shapes == _LFC:
        scores = _lfc(a, layers)
    elif shapes == _CNV:
        scores = _cnv(a, layers)
    else:
        raise _refused(path, f"its layers are {', '.join(f'{rows} x {columns}' for rows, columns in shapes) or 'none'}")
    facts = {"classes": classes} if classes else {}
    return a.network(name, {"scores": scores}, source="bnn_pynq", facts=facts)


def _lfc(a: Assembly, layers: list[_Layer]) -> Node:
    image = a.input("image", "u8", (28, 28))
    flat = a.op("reshape", image, shape=(BATCH, 784))
    x = a.op("convert", a.scalar("le", flat, 128, first=True), to="b1")
    a.label(x, "pixels")
    for i, layer in enumerate(layers[:-1]):
        columns = shape_of(x)[-1]
        signs, least = layer.signs[:, :columns], _least_of_counts(layer, columns)
        x = a.label(_signs(a, a.call("dense.dense", a.constant(signs, "b1"), x), least), f"dense_{i}")
    last = layers[-1]
    assert last.thresholds is not None
    dots = a.call("dense.dense", a.constant(last.signs[:_CLASSES], "b1"), x)
    moved = a.call("requantise.bias", dots, a.constant(1024 - 2 * last.thresholds[:_CLASSES, 0], "i32"))
    return a.label(a.op("shr", moved, a.spread(a.constant(1, "u32"), moved)), "scores")


def _cnv(a: Assembly, layers: list[_Layer]) -> Node:
    image = a.input("image", "u8", (32, 32, 3))
    pixel = np.arange(256)
    codes = np.clip((512 * pixel - 65025) // 510, -128, 127)  # floor((pixel / 255 * 2 - 1) * 128 + 1/2), in 1/128
    x = a.label(a.op("lookup", a.constant(codes, "i8"), image), "pixels")
    for i, layer in enumerate(layers[:-1]):
        sums = _convolved(a, layer, x) if i < 6 else a.call("dense.dense", a.constant(layer.signs, "b1"), _flat(a, x))
        x = a.label(_quantised(a, layer, sums, first=i == 0, convolved=i < 6), f"{'conv' if i < 6 else 'dense'}_{i}")
        if i in _POOLED:
            x = a.label(a.call("pooling.max_pool2d", _windows(a, x, 2, 2)), f"pool_{i}")
    return a.label(a.call("dense.dense", a.constant(layers[-1].signs[:_CLASSES], "b1"), x), "scores")


def _convolved(a: Assembly, layer: _Layer, x: Node) -> Node:
    rows, columns = layer.signs.shape
    kernels = a.constant(layer.signs.reshape(rows, 3, 3, columns // 9), "b1")
    return a.call("convolution.conv2d", kernels, _windows(a, x, 3, 1))


def _windows(a: Assembly, x: Node, size: int, stride: int) -> Node:
    """Return all windows of both axes. x: [b, h, w, c] -> [b, o, size, v, size, c]."""
    rows = a.op("windows", x, axis=1, size=size, stride=stride, dilation=1)
    return a.op("windows", rows, axis=3, size=size, stride=stride, dilation=1)


def _flat(a: Assembly, x: Node) -> Node:
    """Return what is one position, or a vector already, as a vector."""
    shape = shape_of(x)
    return x if len(shape) == 1 else a.op("reshape", x, shape=(BATCH, shape[-1]))


def _quantised(a: Assembly, layer: _Layer, sums: Node, *, first: bool, convolved: bool) -> Node:
    """Return the levels of sums: signs for one threshold, -1, 0 and +1 for two."""
    assert layer.thresholds is not None
    if first:
        least = np.floor_divide(layer.thresholds, 2) + 1  # the sum has a step of 1/128, the threshold one of 1/256
    elif layer.thresholds.shape[1] == 1:
        least = _least_of_counts(layer, layer.signs.shape[1])
    else:
        least = layer.thresholds + 1
    return _signs(a, sums, least, positions=2 if convolved else 0)


def _least_of_counts(layer: _Layer, columns: int) -> Array:
    """Return the least dots of the first columns that exceed thresholds of counted equal signs, [rows, thresholds].

    The other columns meet the sign -1.
    """
    assert layer.thresholds is not None
    constant = np.count_nonzero(layer.signs[:, columns:] < 0, axis=1)[:, None]
    least: Array = 2 * (layer.thresholds.astype(np.int64) - constant) - columns + 1
    return least


def _signs(a: Assembly, sums: Node, least: Array, positions: int = 0) -> Node:
    falling = a.constant(np.zeros(len(least), np.bool_), "bit")
    if least.shape[1] == 1:
        return a.call("thresholds.sign_at", sums, a.constant(least[:, 0], "i32"), falling, lead=1 + positions)
    return a.call("thresholds.ternary_at", sums, a.constant(least, "i32"), falling, lead=1 + positions)


def _arrays(path: Path) -> Mapping[str, Array]:
    import zlib
    from zipfile import BadZipFile

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, BadZipFile, zlib.error) as fault:
        raise _refused(path, f"it cannot be read as arrays ({fault})") from fault


def _layer(arrays: Mapping[str, Array], i: int, path: Path | str) -> _Layer:
    names = (f"w{i}", f"shape{i}")
    if not all(name in arrays for name in names):
        raise _refused(path, f"it has no array `{next(name for name in names if name not in arrays)}`")
    packed, shape = arrays[names[0]], arrays[names[1]]
    rows, columns = (int(size) for size in shape) if shape.shape == (2,) and shape.dtype.kind in "iu" else (0, 0)
    if packed.dtype != np.uint8 or min(rows, columns) < 1 or packed.shape != (rows, -(-columns // 8)):
        raise _refused(path, f"`w{i}` and `shape{i}` do not fit each other")
    bits = np.unpackbits(packed, axis=1, count=columns, bitorder="little")
    thresholds = arrays.get(f"t{i}")
    if thresholds is not None and (
        thresholds.dtype.kind != "i" or thresholds.ndim != 2 or thresholds.shape not in ((rows, 1), (rows, 2))
    ):
        raise _refused(path, f"`t{i}` has the shape {list(thresholds.shape)} of {thresholds.dtype}")
    return _Layer(np.where(bits == 1, 1, -1).astype(np.int8), thresholds)


def _refused(path: Path | str, why: str) -> BitternError:
    return BitternError(
        NOT_PYNQ,
        f"`{path}` is no parameter file of LFC or CNV: {why}.",
        "Give a file with the arrays w0, shape0, t0 and so on of one of these networks.",
    )
