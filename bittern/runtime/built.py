"""Networks declared in Python, ready to run: what `bittern.nn` shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.front.network import builder
from bittern.front.network.builder import Arrays
from bittern.front.network.network import Network
from bittern.front.network.stored import open_stored, save
from bittern.front.network.summary import Summary, summary
from bittern.front.network.value import Value
from bittern.lang.library import Library
from bittern.passes.network import widths
from bittern.runtime.network import NetworkModel

Array = npt.NDArray[np.generic]


class Model:
    """A declared network. It is prepared for this machine when it first runs; no chip is named, no plan is given.

    network: what it is. parameters: the arrays of a network that was just built, by path, as `arrays` takes them.
    """

    def __init__(self, network: Network, parameters: Mapping[str, Array] | None = None) -> None:
        self.network = network
        self.parameters: Mapping[str, Array] = parameters or {}
        self._model: NetworkModel | None = None

    @property
    def model(self) -> NetworkModel:
        """The network on the best chip of this machine, `vm` where there is no native one."""
        if self._model is None:
            self._model = NetworkModel(self.network)
        return self._model

    def run(self, *inputs: npt.ArrayLike) -> Any:
        """Run one sample or a batch; see `NetworkModel.run`. Raises N401 to N404."""
        return self.model.run(*inputs)

    def explain(self, batch: int = 1) -> str:
        """Return how the network is computed: its layers, what passes made of them, and the plan of a batch."""
        parts = ["Level 1, the network:", self.summary().text(), "", "Level 2, after passes:"]
        parts += [f"  {line}" for line in self.model.passed.lines()]
        return "\n".join([*parts, "", "Level 3, the plan:", self.model.explain(batch)])

    def summary(self) -> Summary:
        """Return shapes, bits, parameters, bytes and multiply-accumulates, layer by layer; printing it is a table."""
        return summary_of(self.network)

    def save(self, path: Path | str) -> int:
        """Write the network as a `.keg` file; return its size in bytes. Raises F222."""
        return save(self.network, path)

    def __repr__(self) -> str:
        return f"<network {self.network.name}>"


def summary_of(network: Network) -> Summary:
    """Return the summary of a network with the bits of its sums, derived from its weights."""
    return summary(network, {width.layer: width.bits for width in widths(network.function)})


@dataclass(frozen=True, slots=True)
class NetworkBuilder(builder.NetworkBuilder):
    """Layers in sequence; see `bittern.front.network.builder`. `build` gives a `Model`."""

    def build(
        self, *, name: str = "network", seed: int = 0, arrays: Arrays | None = None, partial: bool = False
    ) -> Model:
        """Return the network, ready to run; see `bittern.front.network.builder.declared`. Raises N101 to N119."""
        made = self.declared(name=name, seed=seed, arrays=arrays, partial=partial)
        return Model(made.network, made.parameters)


def build(
    outputs: Mapping[str, Value] | Value,
    *,
    inputs: Sequence[Value] = (),
    name: str = "network",
    seed: int = 0,
    arrays: Arrays | None = None,
    partial: bool = False,
    library: Library | None = None,
) -> Model:
    """Return the network that computes these values, ready to run. outputs: one value is called `scores`."""
    given = {"scores": outputs} if isinstance(outputs, Value) else outputs
    made = builder.declared(given, inputs=inputs, name=name, seed=seed, arrays=arrays, partial=partial, library=library)
    return Model(made.network, made.parameters)


def load(path: Path | str) -> Model:
    """Return a network that `save` wrote. Raises N120, F201 to F224."""
    return Model(open_stored(path))
