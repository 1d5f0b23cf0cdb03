"""TFLite models as networks: every operator in its order, or one refusal that lists all that cannot be imported.

In: a path. Out: a `Network` whose arithmetic is that of TFLite's reference kernels, bit for bit for codes.
"""

from pathlib import Path

import numpy as np

from bittern.base.errors import BitternError, code, nearest
from bittern.front.checkpoint import shown
from bittern.front.network.assembly import BATCH, Assembly
from bittern.front.network.network import Network
from bittern.front.tflite.operators import CUSTOM, NAMES, NEAREST, SUPPORTED
from bittern.front.tflite.schema import Model, OperatorRow, TensorRow, read_model
from bittern.front.tflite.site import UNSUPPORTED_FORM, Site, Value, element_name
from bittern.graph.node import Node
from bittern.lang.library import Library
from bittern.types.elements import ELEMENTS
from bittern.types.faults import TypeFault

UNSUPPORTED_OPERATOR = code("N320", "a TFLite model has operators that Bittern does not import")
BAD_PORT = code("N322", "a TFLite model has an input or output that a network cannot have")

_SHOWN, _SHOWN_PLACES = 40, 4  # kinds of operators, and places of each, in one message


def open_tflite(path: Path, library: Library, *, keep_state: bool = False) -> Network:
    """Read a TFLite model and return it as a network. Its inputs and outputs have the batch in front.

    keep_state: what operators remember from one run to the next is further inputs and outputs, of the same names,
    behind the model's own; otherwise each sample starts with a state of zeros, as a model does after it is reset.
    Errors: F101 to F105 if the file cannot be opened, N301 to N314 for what is wrong in it, N320 to N322 for what is
    not supported.
    """
    return network_of(read_model(path), library, keep_state=keep_state)


def network_of(model: Model, library: Library, *, keep_state: bool = False) -> Network:
    """Return a model as a network. Errors: N320 to N322."""
    _check_operators(model)
    a = Assembly(library)
    values = {row.index: Value(row, None) for row in model.tensors if row.data is not None}
    states = [row.index for row in model.tensors if row.is_variable]
    kept = states if keep_state else []
    named = _names(model, (*model.inputs, *kept), "input")
    for index, name in named.items():
        row = model.tensors[index]
        values[index] = Value(row, a.input(name, _port_element(row), _sample(row), *_port(row)))
    for index in states if not keep_state else []:
        row = model.tensors[index]
        zero = 0 if row.element != "i8" else _port(row)[1]
        start = a.constant(np.full(_sample(row), zero), _port_element(row))
        values[index] = Value(row, a.op("broadcast", start, shape=(BATCH,)))
    _build(model, a, values)
    outputs: dict[str, Node] = {}
    scales: dict[str, tuple[float, int]] = {}
    for index, name in _names(model, (*model.outputs, *kept), "output").items():
        made, (scale, zero) = values[index].node, _port(model.tensors[index])
        if made is None:
            raise BitternError(BAD_PORT, f"The output {shown(name)} is a constant.", "Take it out of the model.")
        outputs[name] = made
        if scale is not None:
            scales[name] = scale, zero
    facts = {"description": model.description, "operators": str(len(model.operators))}
    return a.network(model.name, outputs, source="tflite", facts=facts, scales=scales)


def _names(model: Model, indices: tuple[int, ...], kind: str) -> dict[int, str]:
    """Return a name for each of the tensors: its own, made unique by a number."""
    names: dict[int, str] = {}
    for index in indices:
        wanted = model.tensors[index].name or f"{kind} {index}"
        count, name = 1, wanted
        while name in names.values():
            count, name = count + 1, f"{wanted} {count + 1}"
        names[index] = name
    return names


def _build(model: Model, a: Assembly, values: dict[int, Value]) -> None:
    """Put every operator into the network; raise one error for all that have an unsupported form."""
    faults: list[BitternError] = []
    for row in model.operators:
        if any(index >= 0 and index not in values for index in row.inputs):
            continue  # what it needs was refused
        operator = SUPPORTED[row.code.number]
        site = Site(a, row, operator.name, values, model.tensors)
        try:
            with np.errstate(all="ignore"):  # scales may be absurd; what they give is checked
                operator.build(site)
        except BitternError as fault:
            faults.append(fault)
        except TypeFault:
            what = f"{site.text}, has shapes or types that do not fit each other."
            faults.append(BitternError(UNSUPPORTED_FORM, what, "Convert the model again."))
    if faults:
        more = [f"And {len(faults) - _SHOWN} more."] if len(faults) > _SHOWN else []
        said = " ".join([*(fault.what for fault in faults[:_SHOWN]), *more])
        raise BitternError(UNSUPPORTED_FORM, said, faults[0].remedy)


def _check_operators(model: Model) -> None:
    """Refuse operators that are not in the table, or newer than it knows: all of them at once. Raises N320."""
    found: dict[str, list[OperatorRow]] = {}
    for row in model.operators:
        known = SUPPORTED.get(row.code.number)
        if known is None or row.code.version > known.version:
            found.setdefault(_described(row), []).append(row)
    if found:
        lines = [f"{text}: {_places(model, rows)}" for text, rows in found.items()]
        more = f"; and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
        raise BitternError(
            UNSUPPORTED_OPERATOR,
            f"{shown(model.name)} has operators that Bittern does not import, {len(lines)} kinds: "
            f"{'; '.join(lines[:_SHOWN])}{more}.",
            "Replace them by supported ones, or convert the model without them.",
        )


def _described(row: OperatorRow) -> str:
    """Return an operator's name and version, and the nearest form that is supported."""
    number, version = row.code.number, row.code.version
    if number in SUPPORTED:
        return f"{SUPPORTED[number].name} version {version} (nearest: version {SUPPORTED[number].version} and before)"
    if number == CUSTOM:
        return f"the custom operator {shown(row.code.custom)} version {version} (no nearest form: only builtin ones)"
    name = NAMES.get(number, f"builtin operator {number}")
    near = f"nearest: {NEAREST[name]}" if name in NEAREST else nearest(name, [each.name for each in SUPPORTED.values()])
    return f"{name} version {version} ({near or 'no nearest form'})"


def _places(model: Model, rows: list[OperatorRow]) -> str:
    """Return the numbers of operators, with the names of what they make."""
    names = [
        f"{row.index} {shown(model.tensors[row.outputs[0]].name)}" if row.outputs else str(row.index)
        for row in rows[:_SHOWN_PLACES]
    ]
    more = f" and {len(rows) - _SHOWN_PLACES} more" if len(rows) > _SHOWN_PLACES else ""
    return f"operator {', '.join(names)}{more}"


def _sample(row: TensorRow) -> tuple[int, ...]:
    shape = Value(row, None).sample
    if any(size < 1 for size in shape):
        raise BitternError(BAD_PORT, f"{shown(row.name)} has the shape {list(row.shape)}.", "It must hold values.")
    return shape


def _port_element(row: TensorRow) -> str:
    name = element_name(row)
    if name not in ELEMENTS:
        raise BitternError(BAD_PORT, f"{shown(row.name)} holds {row.element}.", "Convert the model to int8 or float.")
    return name


def _port(row: TensorRow) -> tuple[float | None, int]:
    quantisation = row.quantisation
    if quantisation is None or len(quantisation.scale) != 1:
        return None, 0
    return float(quantisation.scale[0]), int(quantisation.zero[0])
