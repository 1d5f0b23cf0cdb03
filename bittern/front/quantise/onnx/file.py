"""A float ONNX model becomes a quantised one: calibrated on samples, written as QDQ or QONNX, and measured.

In: a file, settings, perhaps samples and labels. Out: a file, whole or not at all, and a report: what became of each
weight, the signal-to-noise ratio of each layer's output, and accuracy before and after where there are labels.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress
from bittern.front.checkpoint import shown
from bittern.front.quantise.codes import sqnr, values_of
from bittern.front.quantise.inputs import fitted_labels, fitted_samples
from bittern.front.quantise.onnx.calibrate import Weights, activation_scales, hessians, quantised_weights
from bittern.front.quantise.onnx.graph import Graph, graph_of, onnx_package, read_model
from bittern.front.quantise.onnx.layers import Layer, layers, points
from bittern.front.quantise.onnx.run import batches, folded, run
from bittern.front.quantise.onnx.settings import Settings
from bittern.front.quantise.onnx.write import Form, Tensors, least_version, written
from bittern.front.quantise.ordered import decibels, ordered_sum
from bittern.front.quantise.report import Report, Score, TensorReport
from bittern.front.quantise.target import check_target, file_sha256, write_whole
from bittern.front.quantise.widths import width

NO_LAYERS = code("N436", "the ONNX model has nothing to quantise")
NEEDS_DATA = code("N437", "the quantisation needs samples")


def quantise_onnx(
    source: Path,
    target: Path,
    settings: Settings,
    data: npt.NDArray[Any] | None,
    labels: npt.NDArray[Any] | None,
    progress: Progress,
) -> Report:
    """Write the quantised model and say what was done. data: samples of any shape that fits. labels: one for each.

    Errors: F101 to F104, N201 to N209, N410 to N415, N423, N424, N432 to N438, N441, N442.
    """
    check_target(source, target)
    with np.errstate(all="ignore"):
        return _quantised(source, target, settings, data, labels, progress)


def _quantised(
    source: Path,
    target: Path,
    settings: Settings,
    data: npt.NDArray[Any] | None,
    labels: npt.NDArray[Any] | None,
    progress: Progress,
) -> Report:
    form, tensors = settings.chosen_form, settings.tensors
    if settings.dynamic and settings.activations != "8":
        raise BitternError(
            NEEDS_DATA, f"Scales as it runs exist for 8 bits, not {settings.activations}.", "Give --data instead."
        )
    least = least_version(form, width(settings.width), tensors, settings.is_grouped)
    model = read_model(source)
    graph = folded(graph_of(model))
    every = layers(graph)
    chosen = [layer for layer in every if not any(word in layer.node.name for word in settings.keep)]
    if not chosen:
        what = f"{shown(source)} has {len(every)} layers with constant weights, of which none is left."
        raise BitternError(NO_LAYERS, what, "Give a model with Conv, Gemm or MatMul, and keep fewer.")
    samples = None if data is None else fitted_samples(data, graph.shape, settings.pixels)
    used = None if samples is None else samples[: settings.samples]
    ranks = _ranks(graph, used)
    weights = _rounded(graph, chosen, settings, used, progress)
    places = points(graph, chosen) if tensors is not None else []
    fixed = {}
    if tensors is not None and not settings.dynamic:
        fixed = activation_scales(graph, _needed(used), places, settings.activation_scheme, progress)
    plan = Tensors(tensors, fixed, tuple(places) if settings.dynamic else ())
    written_as = Form(form, least, ranks)
    content = written(model, graph, weights, width(settings.width), not settings.asymmetric, plan, written_as)
    after = _read_back(content)
    told = None if used is None else _layer_ratios(graph, after, chosen, used, progress)
    scores = () if labels is None else _scores(graph, after, _needed(samples), labels, progress)
    write_whole(target, content)
    rows = tuple(_row(graph, each, settings) for each in weights)
    sizes = (source.stat().st_size, target.stat().st_size)
    said = asdict(settings) | {"form": form, "samples": 0 if used is None else len(used)}
    notes = _notes(settings, chosen, every)
    return Report(str(source), str(target), said, *sizes, file_sha256(target), rows, told or (), scores, notes)


def _ranks(graph: Graph, samples: npt.NDArray[np.float32] | None) -> dict[str, int]:
    """Run the float network once, so that what is wrong is said first; return the rank of each tensor.

    Where neither samples nor the size of one are known, nothing is run.
    """
    if samples is None and None in graph.shape[1:]:
        return {}
    one = np.zeros((1, *(size or 1 for size in graph.shape[1:])), np.float32) if samples is None else samples[:1]
    names = [name for node in graph.nodes for name in node.outputs[:1]]
    return {name: array.ndim for name, array in run(graph, one, [*names, graph.output]).items()}


def _read_back(content: bytes) -> Graph:
    model = onnx_package().ModelProto()
    model.ParseFromString(content)
    return folded(graph_of(model))


def _needed(samples: npt.NDArray[np.float32] | None) -> npt.NDArray[np.float32]:
    if samples is None:
        raise BitternError(
            NEEDS_DATA,
            "Scales of tensors, gptq, adaround and accuracy are found by running the model on samples.",
            "Give --data; or --activations none or --dynamic, with --weights rtn.",
        )
    return samples


def _rounded(
    graph: Graph,
    chosen: list[Layer],
    settings: Settings,
    used: npt.NDArray[np.float32] | None,
    progress: Progress,
) -> list[Weights]:
    inputs = {} if settings.rounding == "rtn" else hessians(graph, _needed(used), chosen, progress)
    return quantised_weights(graph, chosen, settings.weights, settings.rounding, inputs, progress)


def _layer_ratios(
    before: Graph, after: Graph, chosen: list[Layer], data: npt.NDArray[np.float32], progress: Progress
) -> tuple[tuple[str, float | None], ...]:
    """Return by layer the signal-to-noise ratio of its output in the quantised network against the float one."""
    names = [layer.node.outputs[0] for layer in chosen]
    sums = {name: np.zeros(2) for name in names}
    with progress.task("comparing layers", len(data), "samples") as task:
        for batch in batches(data):
            left, right = run(before, batch, names), run(after, batch, names)
            for name in names:
                signal = left[name].astype(np.float64).reshape(-1)
                noise = signal - right[name].astype(np.float64).reshape(-1)
                sums[name] += (ordered_sum(signal * signal), ordered_sum(noise * noise))
            task.advance(len(batch))
    return tuple(
        (layer.node.name, decibels(float(sums[name][0]), float(sums[name][1])))
        for layer, name in zip(chosen, names, strict=True)
    )


def _scores(
    before: Graph, after: Graph, data: npt.NDArray[np.float32], labels: npt.NDArray[Any], progress: Progress
) -> tuple[Score, ...]:
    """Return how many samples the float and the quantised network get right; the lowest index wins ties."""
    wanted = fitted_labels(labels, len(data))
    with progress.task("measuring accuracy", 2 * len(data), "samples") as task:
        right = [int((predictions(graph, data, task) == wanted).sum()) for graph in (before, after)]
    return tuple(Score(of, count, len(data)) for of, count in zip(("float", "quantised"), right, strict=True))


def predictions(graph: Graph, data: npt.NDArray[np.float32], task: Any = None) -> npt.NDArray[np.int64]:
    """Return the index of the largest output of each sample; the lowest wins ties."""
    found = []
    for batch in batches(data):
        scores = run(graph, batch, [graph.output])[graph.output]
        found.append(np.argmax(scores.reshape(len(batch), -1), 1))
        if task is not None:
            task.advance(len(batch))
    return np.concatenate(found)


def _row(graph: Graph, weights: Weights, settings: Settings) -> TensorReport:
    array = graph.constants[weights.layer.weight]
    values = np.stack([values_of(codes, own) for codes, own in zip(weights.codes, weights.scales, strict=True)])
    ratio = sqnr(weights.layer.matrices(array), values)
    own = width(settings.width)
    scales = sum(one.scale.size for one in {id(one): one for one in weights.scales}.values())
    scales *= 5 if settings.asymmetric else 4
    size = -(-array.size * own.bits // 8) + scales
    grouped = settings.is_grouped and weights.layer.node.op == "Conv"
    note = "a scale for each channel" if grouped else ""
    element = own.unsigned if settings.asymmetric else own.element
    return TensorReport(weights.layer.weight, array.shape, "f32", element, array.nbytes, size, ratio, note)


def _notes(settings: Settings, chosen: list[Layer], every: list[Layer]) -> tuple[str, ...]:
    notes = []
    if settings.chosen_form == "qonnx":
        notes.append("QONNX keeps quantised weights as f32: the file is not smaller, the network is.")
    elif settings.width not in ("4", "8"):
        notes.append(f"QDQ keeps codes of width {settings.width} in 4 bits each.")
    if len(chosen) < len(every):
        notes.append(f"{len(every) - len(chosen)} of {len(every)} layers stay float.")
    return tuple(notes)
