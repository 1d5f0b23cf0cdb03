"""Arrays for the parameters of a network, by path: from a mapping, an `.npz` or a `.safetensors` file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import MappedFile, TensorInfo
from bittern.front.safetensors_file import read_safetensors

UNREADABLE = code("N118", "a file of arrays cannot be read")

Array = npt.NDArray[Any]


def arrays_of(given: Mapping[str, npt.ArrayLike] | Path | str) -> Mapping[str, npt.ArrayLike]:
    """Return arrays by the path of their parameter, such as `dense_1.weight`. Raises N118, and F150 to F164."""
    if isinstance(given, Mapping):
        return given
    path = Path(given)
    if path.suffix == ".safetensors":
        return _of_safetensors(path)
    return _of_npz(path)


def _of_npz(path: Path) -> dict[str, Array]:
    from zipfile import BadZipFile

    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, BadZipFile, EOFError, AttributeError, KeyError) as fault:
        raise BitternError(
            UNREADABLE, f"`{path}` is no file of arrays: {fault}.", "Give an .npz or a .safetensors file."
        ) from fault


def _of_safetensors(path: Path) -> dict[str, Array]:
    file = MappedFile(path)
    try:
        found = read_safetensors(file)
        return {name: _array(file, info) for name, info in found.items()}
    finally:
        file.close()


def _array(file: MappedFile, info: TensorInfo) -> Array:
    """Return a copy of a tensor."""
    data = file.data[info.offset : info.offset + info.size]
    dtype = np.dtype(info.element.storage).newbyteorder("<")
    return np.frombuffer(data, dtype).reshape(info.storage_shape).copy()
