"""Running an ONNX graph in numpy with bits that depend on no machine: for calibration, and to measure what was lost.

A file whose batch is 1 is run for many samples at once: each reshape to that batch takes as many as there are.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.front.checkpoint import shown
from bittern.front.quantise.onnx.graph import Graph, Node
from bittern.front.quantise.onnx.rows import ROWS

NOT_RUN = code("N433", "the ONNX model has operations that are not run for calibration")
NO_FIT = code("N434", "the ONNX model cannot be run with the data")

_MOST, _VALUES = 64, 1 << 17  # samples, and values of them, that are run at once


def folded(graph: Graph) -> Graph:
    """Return the graph with all nodes that depend on no input computed. Errors: N433 names all unknown operations."""
    unknown = [node for node in graph.nodes if (node.domain, node.op) not in ROWS]
    if unknown:
        named = "; ".join(f"{node.op} ({shown(node.name)})" for node in unknown[:20])
        raise BitternError(
            NOT_RUN,
            f"The model has {len(unknown)} operations that are not run: {named}.",
            f"These are: {', '.join(sorted({op for domain, op in ROWS if not domain}))}.",
        )
    constants, kept = dict(graph.constants), []
    for node in graph.nodes:
        if all(name in constants or not name for name in node.inputs):
            constants.update(_made(node, constants, graph))
        else:
            kept.append(node)
    return replace(graph, nodes=tuple(kept), constants=constants)


def run(graph: Graph, x: npt.NDArray[Any], wanted: Iterable[str]) -> dict[str, npt.NDArray[Any]]:
    """Return the wanted tensors for a batch of inputs. x: [b, ...] f32, as the file wants it. Errors: N434."""
    values: dict[str, npt.NDArray[Any]] = {graph.input: x}
    names = set(wanted)
    last: Mapping[str, int] = {name: place for place, node in enumerate(graph.nodes) for name in node.inputs}
    for place, node in enumerate(graph.nodes):
        known = {name: values[name] if name in values else graph.constants[name] for name in node.inputs if name}
        values.update(_made(node, known, graph))
        for name in node.inputs:
            if last.get(name) == place and name not in names:
                values.pop(name, None)
    return {name: values[name] if name in values else graph.constants[name] for name in names}


def _made(node: Node, known: Mapping[str, npt.NDArray[Any]], graph: Graph) -> dict[str, npt.NDArray[Any]]:
    """Return the outputs of one node by name. Errors: N434."""
    inputs: list[Any] = [known[name] if name else None for name in node.inputs]
    try:
        with np.errstate(all="ignore"):
            found = ROWS[node.domain, node.op](node, inputs, graph)
    except (ValueError, IndexError, TypeError, KeyError, AttributeError, ArithmeticError) as fault:
        shapes = ", ".join("none" if each is None else str(list(each.shape)) for each in inputs)
        raise BitternError(
            NO_FIT,
            f"{node.op} ({shown(node.name)}) cannot be run on shapes {shapes}: {fault}.",
            "Check the model, and that the data have the shape of its input.",
        ) from fault
    parts = found if isinstance(found, list) else [found]
    return {name: part for name, part in zip(node.outputs, parts, strict=False) if name}


def batches(data: npt.NDArray[Any], size: int = 0) -> Iterator[npt.NDArray[np.float32]]:
    """Yield the samples a few at a time. data: [count, ...] f32. size: how many; 0: as many as are no burden."""
    size = size or max(1, min(_MOST, _VALUES // max(1, data[0].size)))
    for low in range(0, len(data), size):
        yield data[low : low + size]
