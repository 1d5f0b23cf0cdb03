"""Calibration: running the float model on samples to see what its tensors hold, and rounding its weights with that.

In: a folded graph, samples, and what is to be quantised. Out: scales of tensors by name, codes and scales of weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, nearest
from bittern.base.progress import Progress
from bittern.front.checkpoint import shown
from bittern.front.quantise.adaround import learned_codes
from bittern.front.quantise.codes import Codes, Scales, Scheme, nearest_codes, scales_of
from bittern.front.quantise.compensate import compensated_codes, hessian
from bittern.front.quantise.onnx.graph import Graph
from bittern.front.quantise.onnx.layers import Layer
from bittern.front.quantise.onnx.run import batches, run
from bittern.front.quantise.ordered import Array
from bittern.front.quantise.samples import Counter
from bittern.front.quantise.scales import NOT_FINITE, UNKNOWN_METHOD, Scale, fit
from bittern.front.quantise.widths import Grid

ROUNDINGS = ("rtn", "gptq", "adaround")


@dataclass(frozen=True, slots=True)
class Weights:
    """The quantised weights of a layer, by group of channels: codes [rows, columns] and their scales."""

    layer: Layer
    codes: tuple[Codes, ...]
    scales: tuple[Scales, ...]


def activation_scales(
    graph: Graph, data: npt.NDArray[np.float32], names: Sequence[str], scheme: Scheme, progress: Progress
) -> dict[str, tuple[Grid, Scale]]:
    """Return grid and scale of each tensor over the samples; a tensor that is never negative gets zero point 0.

    The first pass finds the ranges, the second counts. Errors: N413, N434.
    """
    counters = {name: Counter() for name in names}
    with progress.task("calibrating", 2 * len(data), "samples") as task:
        for action in (_look, _count):
            for batch in batches(data):
                for name, found in run(graph, batch, names).items():
                    action(counters[name], found, name)
                task.advance(len(batch))
    return {
        name: (scheme.grid, fit(counter.samples(), scheme.grid, scheme.method, scheme.percentile))
        for name, counter in counters.items()
    }


def _look(counter: Counter, found: npt.NDArray[Any], name: str) -> None:
    if not np.isfinite(found).all():
        raise BitternError(
            NOT_FINITE,
            f"The tensor {shown(name)} holds an infinity or a NaN for one of the samples.",
            "Check the data, and how the model wants them scaled.",
        )
    counter.look(found)


def _count(counter: Counter, found: npt.NDArray[Any], name: str) -> None:
    counter.count(found)


def hessians(
    graph: Graph, data: npt.NDArray[np.float32], chosen: Sequence[Layer], progress: Progress
) -> dict[str, list[Array]]:
    """Return by layer and group the matrices X' X of all inputs over the samples."""
    sums: dict[str, list[Array]] = {}
    names = [layer.node.inputs[0] for layer in chosen]
    with progress.task("looking at the inputs of layers", len(data), "samples") as task:
        for batch in batches(data):
            found = run(graph, batch, names)
            for layer in chosen:
                parts = layer.inputs(found[layer.node.inputs[0]], graph.constants[layer.weight])
                made = [hessian(part) for part in parts]
                before = sums.get(layer.weight)
                sums[layer.weight] = made if before is None else [a + b for a, b in zip(before, made, strict=True)]
            task.advance(len(batch))
    return sums


def quantised_weights(
    graph: Graph,
    chosen: Sequence[Layer],
    scheme_of: Callable[[Layer], Scheme],
    rounding: str,
    inputs: dict[str, list[Array]],
    progress: Progress,
) -> list[Weights]:
    """Return the weights of all layers. rounding: `rtn`, `gptq` or `adaround`. Errors: N410 to N415."""
    if rounding not in ROUNDINGS:
        raise BitternError(UNKNOWN_METHOD, f"`{rounding}` is no way to round weights.", nearest(rounding, [*ROUNDINGS]))
    made = []
    with progress.task("rounding weights", len(chosen), "layers") as task:
        for layer in chosen:
            made.append(_weights(graph, layer, scheme_of(layer), rounding, inputs))
            task.advance()
    return made


def _weights(graph: Graph, layer: Layer, scheme: Scheme, rounding: str, inputs: dict[str, list[Array]]) -> Weights:
    matrices = layer.matrices(graph.constants[layer.weight])
    if scheme.granularity == "tensor":
        common = scales_of(matrices.reshape(-1, matrices.shape[-1]), scheme)
        scales = [common] * len(matrices)
    else:
        scales = [scales_of(matrix, scheme) for matrix in matrices]
    codes = []
    for group, matrix in enumerate(matrices):
        if rounding == "rtn":
            codes.append(nearest_codes(matrix, scales[group], scheme.grid))
            continue
        rounded = compensated_codes if rounding == "gptq" else learned_codes
        codes.append(rounded(matrix, scales[group], scheme.grid, inputs[layer.weight][group]))
    return Weights(layer, tuple(codes), tuple(scales))
