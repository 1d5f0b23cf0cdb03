"""A loaded network: arrays in, arrays out, on whatever chip is here.

A sample or a batch goes in; every chip gives the same bits. Where the machine has no native chip, or gives no
executable memory, the chip `vm` runs it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress
from bittern.chips.chip import BoundFunction, Chip, ComputingChip, LoadedFunction
from bittern.chips.machine.memory import EXECUTABLE_MEMORY_REFUSED
from bittern.front.network.network import Network, Port
from bittern.passes.network import integer_only
from bittern.runtime.choice import ANYWHERE, AUTO, chosen
from bittern.types.arrays import canonical, is_valid

if TYPE_CHECKING:
    from bittern.runtime.monitor import Monitor
    from bittern.runtime.planning import Planned

WRONG_INPUTS = code("N401", "a network is given another number of inputs than it has")
WRONG_SHAPE = code("N402", "an input has another shape than the network's")
WRONG_VALUES = code("N403", "an input holds what its element cannot")
EMPTY_BATCH = code("N404", "a batch holds no sample")
NO_NETWORKS = code("N405", "the chip does not run networks")

_WHOLE = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")  # elements that take all that their storage holds
_EXACT = 1 << 53  # up to here every whole number is a real one of 64 bits

Array = npt.NDArray[Any]


class NetworkModel:
    """A network and the chip that runs it.

    network: what it is. program: its function as it runs, after passes. passed: what those did. chip: what it runs on;
    "auto" takes the native one of this machine, else `vm`. threads: 0 for all cores. tier: a feature level, "" for the
    best. cache: a folder for compiled code, or None. fuse: whether a plan may join layers. Raises R101, R115, and what
    the chip raises.
    """

    def __init__(
        self,
        network: Network,
        chip: str = AUTO,
        threads: int = 0,
        tier: str = "",
        cache: Path | None = None,
        fuse: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self.network = network
        self.program, self.passed = integer_only(network.function, network.library)
        self.chip, self._loaded = _prepared(self, chip, threads, tier, cache, fuse, progress or Progress())

    def planned(self, batch: int = 1, *, fuse: bool = True, explains: bool = False) -> "Planned":
        """Plan the network for a batch on the native chip of this machine, or on the one it runs on. Raises P104."""
        from bittern.runtime.planning import CHIPS, NETWORK, Wish, planned_network

        name = self.chip.name if self.chip.name in CHIPS else CHIPS[0]
        tier, threads = self.chip.tier, int(getattr(self.chip, "threads", 0))
        wish = Wish(
            NETWORK, batch, 1, chip=name, tier=tier if name == self.chip.name else "", threads=threads, fuse=fuse
        )
        return planned_network(self.network, self.program, wish, explains=explains)

    def explain(self, batch: int = 1) -> str:
        """Return the plan of a batch as text: regions, kernels, memory, counts."""
        from bittern.runtime.planning_text import plan_text

        return plan_text(self.planned(batch).record(), full=True)

    def bound(self, batch: int = 1) -> BoundFunction:
        """Return arrays for one batch and what runs it: for work so short that copies and checks would count.

        `inputs` and `results` are [batch, ...] in the order of the ports; `call()` computes the ones from the others.
        What is put in is not checked.
        """
        return self._loaded.bound(batch)

    def monitor(self, *inputs: npt.ArrayLike, others: Sequence[npt.ArrayLike] | None = None) -> "Monitor":
        """Watch the values inside on a batch: saturation, dead channels, flips, how far sums reach.

        inputs: as `run` takes them. others: a second batch of as many samples; flips are then those between both, else
        those from one sample to the next. Raises N401 to N404.
        """
        from bittern.runtime.monitor import monitored

        given = self._arrays(inputs)[0]
        second = None if others is None else self._arrays(others)[0]
        if second is not None:
            _check_batch([given[0], second[0]], (self.network.inputs[0],) * 2)
        return monitored(self, given, second)

    def run(self, *inputs: npt.ArrayLike) -> Any:
        """Run one sample or a batch of them.

        inputs: for each input an array of its shape, or of that shape with the batch in front. Returns the output, or
        a dict of outputs by name where there are several; with a batch axis if the inputs have one.
        Raises N401 to N404.
        """
        arrays, is_single = self._arrays(inputs)
        results = [each[0] if is_single else each for each in self._loaded.run(arrays)]
        if len(results) == 1:
            return results[0]
        return {port.name: each for port, each in zip(self.network.outputs, results, strict=True)}

    def _arrays(self, inputs: Sequence[npt.ArrayLike]) -> tuple[list[Array], bool]:
        """Return the inputs as checked batches, and whether one sample was given."""
        ports = self.network.inputs
        if len(inputs) != len(ports):
            names = ", ".join(f"`{port.name}`" for port in ports)
            raise BitternError(WRONG_INPUTS, f"{len(inputs)} inputs are given.", f"The network takes {names}.")
        given = [np.asarray(each) for each in inputs]
        is_single = all(array.shape == port.shape for array, port in zip(given, ports, strict=True))
        return checked([array[None] if is_single else array for array in given], ports), is_single


def checked(batches: Sequence[Array], ports: tuple[Port, ...]) -> list[Array]:
    """Return a batch of each input as its element is stored. Raises N402, N403, N404."""
    arrays = [_checked(array, port) for array, port in zip(batches, ports, strict=True)]
    _check_batch(arrays, ports)
    return arrays


def _checked(array: Array, port: Port) -> Array:
    """Return an input as its element is stored. Raises N402, N403."""
    if array.shape[1:] != port.shape or array.ndim != len(port.shape) + 1:
        raise BitternError(
            WRONG_SHAPE,
            f"The input `{port.name}` has shape {list(array.shape)}.",
            f"Give one sample of shape {list(port.shape)}, or a batch of them in front.",
        )
    if array.dtype.kind not in "biuf":
        what = f"The input `{port.name}` holds {array.dtype}, which is no kind of number here."
        raise BitternError(WRONG_VALUES, what, "Give whole or real numbers.")
    if port.element.is_float:
        return canonical(np.ascontiguousarray(array, port.element.storage), port.element)
    if _holds_only(array, port):
        return array
    if array.dtype.kind == "f" and bool(np.all((np.abs(array) <= _EXACT) & (array == np.trunc(array)))):
        array = array.astype(np.int64)  # whole numbers that a file holds as reals
    if not is_valid(array, port.element):
        low, high = (array.min(), array.max()) if array.size else (0, 0)
        allowed = f"{port.element.low} to {port.element.high}"
        what = "-1 and +1" if port.element.name == "b1" else f"whole numbers from {allowed}"
        raise BitternError(
            WRONG_VALUES,
            f"The input `{port.name}` holds {array.dtype} from {low} to {high}, but is {port.element}.",
            f"Give {what}.",
        )
    return np.ascontiguousarray(array, port.element.storage)


def _holds_only(array: Array, port: Port) -> bool:
    """Whether an array as it is can hold nothing else than values of the element."""
    return array.dtype == port.element.dtype and port.element.name in _WHOLE and array.flags.c_contiguous


def _check_batch(arrays: list[Array], ports: tuple[Port, ...]) -> None:
    """Raise N402 where batches differ in length, N404 for none."""
    counts = {len(each) for each in arrays}
    if 0 in counts:
        raise BitternError(EMPTY_BATCH, "The batch is empty.", "Give at least one sample.")
    if len(counts) > 1:
        told = ", ".join(f"{len(each)} of `{port.name}`" for each, port in zip(arrays, ports, strict=True))
        raise BitternError(WRONG_SHAPE, f"The batches differ: {told}.", "Give as many samples of each input.")


def _prepared(
    model: NetworkModel, name: str, threads: int, tier: str, cache: Path | None, fuse: bool, progress: Progress
) -> tuple[Chip, LoadedFunction]:
    """Return the chip and the network prepared for it; `vm` where the best one gets no executable memory."""
    made = chosen(name, threads, tier)
    if not isinstance(made, ComputingChip):
        raise BitternError(NO_NETWORKS, f"The chip `{name}` runs no networks.", f"Run it on `{ANYWHERE}`.")
    try:
        return made, made.load_function(model.program, model.network.library, cache, fuse)
    except BitternError as refusal:
        if refusal.code != EXECUTABLE_MEMORY_REFUSED or name != AUTO or tier:
            raise
        progress.warn(f"{refusal.what} The chip `{ANYWHERE}` runs the network, slowly, with equal bits.")
        other = chosen(ANYWHERE)
        assert isinstance(other, ComputingChip), other
        return other, other.load_function(model.program, model.network.library, cache, fuse)
