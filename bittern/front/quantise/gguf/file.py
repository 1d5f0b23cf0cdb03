"""A GGUF model becomes one whose matrices are in a block format; everything else is copied.

In: a checkpoint and the format wanted, perhaps an importance file. Out: a GGUF file, whole or not at all, and a report.
Matrices are the tensors of two or more dimensions whose names end in `.weight`, except those that are tiny and
sensitive (`_KEPT`). The embedding and the output matrix get the format's `head`, rows that are no whole blocks its
`narrow`, or stay; the report says so. Tensors are read, converted and written one after another, in steps of rows.

An importance file is a GGUF file with `NAME.in_sum2` (sums of squared inputs by column, perhaps for each expert) and
`NAME.counts`, as llama.cpp's imatrix tool writes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress, Task
from bittern.front.checkpoint import Checkpoint, TensorInfo, Value, shown
from bittern.front.gguf import open_gguf, value_types
from bittern.front.gguf_write import Stored, write_gguf
from bittern.front.quantise.gguf.formats import Format, encode, format_named
from bittern.front.quantise.gguf.search import Floats
from bittern.front.quantise.ordered import decibels, ordered_sum
from bittern.front.quantise.report import Report, TensorReport
from bittern.front.quantise.scales import NOT_FINITE
from bittern.front.quantise.target import check_target, file_sha256
from bittern.graph.evaluate import evaluate
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library
from bittern.types.elements import Element

BAD_IMPORTANCE = code("N422", "the importance file does not fit the model")

METHODS = ("max", "mse")
_HEADS = ("token_embd.weight", "output.weight", "per_layer_token_embd.weight")
_KEPT = ("ffn_gate_inp", "position_embd", "token_types", "conv1d", "shortconv", "norm", "rope_freqs")
_STEP = 1 << 20  # values converted at once
_FLOATS = ("f32", "f16", "bf16", "f64")


@dataclass(slots=True)
class _Converter:
    """Converts the tensors of one checkpoint. rows: what was done so far, by name."""

    checkpoint: Checkpoint
    library: Library
    method: str
    importance: Mapping[str, Floats]
    task: Task
    rows: dict[str, TensorReport]

    def stored(self, info: TensorInfo, format: Format | None, note: str) -> Stored:
        """Return the tensor as it will be written; nothing is read yet."""
        if format is None or info.element == format.element:
            return Stored(info.name, info.element, info.shape, lambda: self._copied(info, note))
        element = format.element
        return Stored(info.name, element, info.shape, lambda: self._converted(info, format, note))

    def _copied(self, info: TensorInfo, note: str) -> memoryview:
        self.task.advance(info.size)
        self._tell(info, info.element.name, info.size, 0.0, 0.0, note)
        return self.checkpoint.bytes_of(info.name)

    def _converted(self, info: TensorInfo, format: Format, note: str) -> memoryview:
        """Return the bytes in the format. Errors: N413, N420."""
        importance = self._importance(info)
        parts, sums = [], np.zeros(2)
        try:
            for first, values in self._steps(info):
                own = None if importance is None else importance[_owner(info, first, len(importance))]
                made = encode(values, format, own, self.method)
                sums += _sums(values, decoded(made, format.element, self.library))
                parts.append(made)
        except BitternError as fault:
            raise BitternError(fault.code, f"In the tensor {shown(info.name)}: {fault.what}", fault.remedy) from fault
        joined = np.concatenate(parts)
        self._tell(info, format.name, joined.nbytes, sums[0], sums[1], note)
        return joined.reshape(-1).data

    def _tell(self, info: TensorInfo, became: str, size: int, signal: float, noise: float, note: str) -> None:
        sqnr = decibels(float(signal), float(noise))
        row = TensorReport(info.name, info.shape, info.element.name, became, info.size, size, sqnr, note)
        self.rows[info.name] = row

    def _steps(self, info: TensorInfo) -> Any:
        """Yield the first row's number and the values of rows, [rows, columns] f32, a few matrices' rows at a time."""
        columns = info.shape[-1]
        width = info.storage_shape[-2:] if info.element.is_format else (columns,)
        stored = self.checkpoint.array(info.name).reshape(-1, *width)
        height = info.shape[-2]
        step = max(1, min(height, _STEP // columns))
        for matrix in range(0, len(stored), height):
            for low in range(matrix, matrix + height, step):
                part = stored[low : min(low + step, matrix + height)]
                values = decoded(part, info.element, self.library)
                if not np.isfinite(values).all():
                    raise BitternError(
                        NOT_FINITE,
                        f"The tensor {shown(info.name)} holds an infinity or a NaN in rows from {low} on.",
                        "Mend the model: no format has such values.",
                    )
                yield low, values
                self.task.advance(part.nbytes)

    def _importance(self, info: TensorInfo) -> Floats | None:
        return self.importance.get(info.name)


def _owner(info: TensorInfo, row: int, experts: int) -> int:
    """Return which row of the importance counts for a row of the tensor's matrices."""
    return 0 if experts == 1 else row // info.shape[-2]


def _sums(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return the sums of squares of x and of x - y."""
    signal = x.astype(np.float64).reshape(-1)
    noise = signal - y.astype(np.float64).reshape(-1)
    return np.array((ordered_sum(signal * signal), ordered_sum(noise * noise)))


def decoded(stored: npt.NDArray[Any], element: Element, library: Library) -> Floats:
    """Return stored rows as numbers. stored: [rows, columns], of a format [rows, blocks, bytes] -> f32."""
    if element.name == "bf16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if not element.is_format:
        return stored.astype(np.float32)
    module = library.module("products")
    assert module is not None
    made = instance_for(module, module.functions[f"decode_{element.name}"][0], {})
    found: Any = evaluate(made, [stored], (len(stored), stored.shape[1] * element.columns))
    return np.asarray(found, np.float32)


def quantise_gguf(
    source: Path,
    target: Path,
    format: str,
    progress: Progress,
    method: str = "max",
    importance: Path | None = None,
    keep: Sequence[str] = (),
) -> Report:
    """Write a GGUF file whose matrices are in a format, and say what was done.

    format: a name or a width. method: `max` (the format's own rule) or `mse`. keep: names, or parts of names, of
    tensors that stay as they are. Errors: those of `open_gguf` and `write_gguf`, N413, N420 to N424.
    """
    wanted = format_named(format)
    check_target(source, target)
    with open_gguf(source) as checkpoint:
        weights = {} if importance is None else _read_importance(importance, checkpoint)
        total = sum(info.size for info in checkpoint.tensors.values())
        with progress.task(f"quantising to {wanted.name}", total, "B") as task:
            converter = _Converter(checkpoint, Library.standard(), method, weights, task, {})
            tensors = [_planned(converter, info, wanted, keep) for info in checkpoint.tensors.values()]
            write_gguf(target, _metadata(checkpoint, wanted), tensors, value_types(checkpoint))
        settings = {"format": wanted.name, "method": method, "importance": importance is not None, "keep": list(keep)}
        rows = tuple(converter.rows.values())
        size = target.stat().st_size
        return Report(str(source), str(target), settings, checkpoint.size, size, file_sha256(target), rows)


def _planned(converter: _Converter, info: TensorInfo, wanted: Format, keep: Sequence[str]) -> Stored:
    """Return what a tensor becomes."""
    kept = [word for word in (*keep, *_KEPT) if word in info.name]
    is_matrix = len(info.shape) >= 2 and info.name.endswith(".weight")
    readable = info.element.is_format or info.element.name in _FLOATS
    if kept or not is_matrix or not readable:
        return converter.stored(info, None, "kept" if is_matrix and kept else "")
    is_head = info.name in _HEADS and wanted.head != wanted.name
    format = format_named(wanted.head) if is_head else wanted
    if info.shape[-1] % format.element.columns == 0:
        return converter.stored(info, format, "embedding or output" if is_head else "")
    note = f"rows of {info.shape[-1]} are no blocks of {format.element.columns}"
    narrow = format_named(format.narrow) if format.narrow else None
    fits = narrow is not None and info.shape[-1] % narrow.element.columns == 0
    return converter.stored(info, narrow if fits else None, note)


def _metadata(checkpoint: Checkpoint, wanted: Format) -> dict[str, Value]:
    """Return the metadata of the new file: the old, without what spoke of parts, with the new file type."""
    kept = {key: value for key, value in checkpoint.metadata.items() if not key.startswith("split.")}
    kept.pop("general.file_type", None)
    if wanted.file_type >= 0:
        kept["general.file_type"] = wanted.file_type
    kept["general.quantization_version"] = 2
    return kept


def _read_importance(path: Path, checkpoint: Checkpoint) -> dict[str, Floats]:
    """Return importance by tensor name, [1 or experts, columns] f32. Errors: N422."""
    found: dict[str, Floats] = {}
    with open_gguf(path) as file:
        for name, info in checkpoint.tensors.items():
            if f"{name}.in_sum2" not in file.tensors:
                continue
            sums = file.array(f"{name}.in_sum2").astype(np.float32)
            sums = sums.reshape(-1, sums.shape[-1])
            counts = np.ones(len(sums), np.float32)
            if f"{name}.counts" in file.tensors:
                counts = file.array(f"{name}.counts").astype(np.float32).reshape(-1)
            fits = sums.shape[1] == info.shape[-1] and len(sums) in (1, int(np.prod(info.shape[:-2])))
            if not fits or len(counts) != len(sums) or not np.isfinite(sums).all() or (sums < 0).any():
                raise _bad_importance(path, f"has importance of shape {list(sums.shape)} for {shown(name)}", info)
            found[name] = (sums / np.maximum(counts, np.float32(1))[:, None]).astype(np.float32)
    if not found:
        raise BitternError(
            BAD_IMPORTANCE,
            f"{shown(path)} has no `in_sum2` for any tensor of {shown(checkpoint.path)}.",
            "Make it for this model.",
        )
    return found


def _bad_importance(path: Path, what: str, info: TensorInfo) -> BitternError:
    return BitternError(
        BAD_IMPORTANCE,
        f"{shown(path)} {what}, whose shape is {list(info.shape)}, or holds a value that is negative or no number.",
        "Make it for this model.",
    )
