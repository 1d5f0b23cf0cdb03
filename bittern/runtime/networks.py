"""Opening networks from files, by what the file's name ends in, and fitting data to their inputs."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress
from bittern.front.arrays import real_pixels
from bittern.front.network.network import Network, Port
from bittern.lang.library import Library
from bittern.runtime.choice import AUTO
from bittern.runtime.network import NetworkModel

NO_READER = code("N406", "no reader takes files of this kind")
NO_FILE = code("N407", "there is no network at this place")
UNFIT_DATA = code("N408", "the data do not fit the network's input")

# fmt: off
READERS: dict[str, str] = {
    ".keg":    "bittern.front.network.stored:open_stored",
    ".npz":    "bittern.front.network.bnn_pynq:open_bnn_pynq",
    ".onnx":   "bittern.front.onnx.reading:read_onnx",
    ".tflite": "bittern.front.tflite.importer:open_tflite",
}
# fmt: on


Array = npt.NDArray[Any]


def is_network(path: Path | str) -> bool:
    """Whether a reader of networks takes files of this name."""
    return Path(path).suffix.lower() in READERS and Path(path).is_file()


def open_network(path: Path | str, library: Library | None = None) -> Network:
    """Return the network of a file. Raises N406, N407, and what the reader raises."""
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if not path.is_file():
        raise BitternError(NO_FILE, f"There is no file `{path}`.", "Check the path.")
    if reader is None:
        known = ", ".join(READERS)
        raise BitternError(NO_READER, f"`{path.name}` ends in none of {known}.", "Convert the network to one of them.")
    module, _, name = reader.partition(":")
    opened: Network = getattr(import_module(module), name)(path, library or Library.standard())
    return opened


def load_network(
    path: Path | str,
    chip: str = AUTO,
    threads: int = 0,
    tier: str = "",
    cache: Path | None = None,
    fuse: bool = True,
    progress: Progress | None = None,
) -> NetworkModel:
    """Open the network of a file and prepare it for a chip; see `NetworkModel`."""
    return NetworkModel(open_network(path), chip, threads, tier, cache, fuse, progress)


def fitted(data: Array, port: Port, pixels: str = "auto") -> Array:
    """Return data as a batch [b, ...] of an input's element.

    Samples of another shape but as many values are reshaped; one sample becomes a batch. pixels, of u8 data for a real
    input: `raw` keeps 0 to 255, `unit` makes 0 to 1, `signed` -1 to 1; `auto` is `unit`. Real data, or u8 for an i8
    input, become codes where the input states what codes stand for: the nearest, ties to even. Raises N408.
    """
    if data.dtype.kind not in "biuf":
        raise BitternError(UNFIT_DATA, f"The data are {data.dtype}.", f"`{port.name}` takes whole or real numbers.")
    count = int(np.prod(port.shape, dtype=np.int64))
    if data.size == count and data.shape[1:] != port.shape:
        data = data.reshape(1, *port.shape)
    if data.ndim == 0 or not len(data) or data[0].size != count:
        raise BitternError(
            UNFIT_DATA,
            f"The data have shape {list(data.shape)}.",
            f"The input `{port.name}` takes samples of {list(port.shape)}, {count} values each.",
        )
    batch = data.reshape(len(data), *port.shape)
    if port.element.is_float:
        real: Array = real_pixels(batch, pixels).astype(port.element.storage)
        return real
    needs_codes = batch.dtype.kind == "f" or (batch.dtype == np.uint8 and port.element.low < 0)
    if needs_codes and port.scale is not None:
        if np.isnan(batch).any():
            raise BitternError(
                UNFIT_DATA, f"The data of `{port.name}` hold NaN, for which there is no code.", "Mend it."
            )
        codes = np.rint(batch.astype(np.float32) / np.float32(port.scale)) + port.zero
        nearest: Array = np.clip(codes, port.element.low, port.element.high).astype(port.element.storage)
        return nearest
    return batch
