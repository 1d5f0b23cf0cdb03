"""The chip `vm`: strict numerics in numpy, wherever Python runs; the bits that all native chips must give."""

from pathlib import Path

from bittern.chips.evaluated import EvaluatedEncoder, EvaluatedFunction, EvaluatedModel
from bittern.chips.vm.kernels import kernels
from bittern.chips.vm.premises import check_arithmetic
from bittern.front.bind import BoundEncoder
from bittern.front.bound import Bound
from bittern.graph.evaluate import World
from bittern.graph.node import Function
from bittern.lang.library import Library


class Vm:
    """Evaluates the graph strictly; library functions that have a kernel of equal bits run faster."""

    name = "vm"
    tier = "numpy"
    mode = "hardware"
    is_strict = True

    def load(self, model: Bound, cache: Path | None = None) -> EvaluatedModel:
        """Prepare a model: weights are unpacked when a program first needs them. Raises R113."""
        check_arithmetic()
        return EvaluatedModel(model, World(kernels=kernels(model.library, [model.forward, model.head])))

    def load_encoder(self, model: BoundEncoder) -> EvaluatedEncoder:
        """Prepare an encoder. Raises R113."""
        check_arithmetic()
        return EvaluatedEncoder(model, World(kernels=kernels(model.library, [model.encode])))

    def load_function(
        self, function: Function, library: Library, cache: Path | None = None, fuse: bool = True
    ) -> EvaluatedFunction:
        """Prepare a function over a batch. Raises R113."""
        check_arithmetic()
        return EvaluatedFunction(function, World(kernels=kernels(library, [function])))


CHIP = Vm()
