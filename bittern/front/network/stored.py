"""Networks as `.keg` files: the function under the label `network`, and what its ports are called in the notes."""

import json
from pathlib import Path
from typing import Any

from bittern.base.errors import BitternError, code
from bittern.front.network.network import Network, Port
from bittern.graph.keg import keg_size, read_keg, write_keg
from bittern.lang.library import Library
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor, Tuple

NO_NETWORK = code("N120", "a .keg file holds no network")

ROOT = "network"


def save(network: Network, path: Path | str) -> int:
    """Write a network as a `.keg` file; return its size in bytes. Codes below 8 bits are packed. Raises F222, F223."""
    write_keg(path, {ROOT: network.function}, notes=_notes(network))
    return Path(path).stat().st_size


def stored_bytes(network: Network) -> int:
    """Return how many bytes the file of a network has, without writing it."""
    return keg_size({ROOT: network.function}, notes=_notes(network))


def open_stored(path: Path | str, library: Library | None = None) -> Network:
    """Return the network of a `.keg` file that `save` wrote. Raises N120, F201 to F224."""
    keg = read_keg(path)
    function, notes = keg.functions.get(ROOT), keg.notes
    try:
        assert function is not None and function.dims == 1, "it has no function `network` of a batch"
        told = json.loads(notes["ports"])
        types = [parameter.type for parameter in function.params]
        results = (
            list(function.result.type.items) if isinstance(function.result.type, Tuple) else [function.result.type]
        )
        inputs = tuple(_port(row, type_) for row, type_ in zip(told["inputs"], types, strict=True))
        outputs = tuple(_port(row, type_) for row, type_ in zip(told["outputs"], results, strict=True))
        facts = {str(name): str(value) for name, value in told["facts"].items()}
        name, source = str(told["name"]), str(told["source"])
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as fault:
        raise BitternError(
            NO_NETWORK,
            f"`{path}` is no network: {fault or 'its notes are not those of one'}.",
            "Give a file that `save` wrote.",
        ) from fault
    return Network(name, function, inputs, outputs, library or Library.standard(), source, facts)


def _notes(network: Network) -> dict[str, str]:
    told = {
        "facts": dict(network.facts),
        "inputs": [_row(port) for port in network.inputs],
        "name": network.name,
        "outputs": [_row(port) for port in network.outputs],
        "source": network.source,
    }
    return {"ports": json.dumps(told, sort_keys=True, ensure_ascii=True)}


def _row(port: Port) -> list[Any]:
    return [port.name, port.element.name, list(port.shape), None if port.scale is None else port.scale.hex(), port.zero]


def _port(row: Any, type_: Any) -> Port:
    name, element, shape, scale, zero = row
    assert isinstance(type_, Tensor) and type_.element == ELEMENTS.get(element), f"`{name}` is {element}"
    sizes = [size.constant for size in type_.shape[1:]]
    assert sizes == shape and type(zero) is int, f"`{name}` has another shape"
    return Port(str(name), type_.element, tuple(shape), None if scale is None else float.fromhex(scale), zero)
