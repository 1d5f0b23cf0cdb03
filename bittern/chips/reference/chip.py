"""The chip `reference`: what runs are judged by."""

from pathlib import Path

from bittern.chips.evaluated import EvaluatedEncoder, EvaluatedModel
from bittern.front.bind import BoundEncoder
from bittern.front.bound import Bound
from bittern.graph.evaluate import World


class Reference:
    """Evaluates the graph over the reals, in float64."""

    name = "reference"
    tier = "f64"
    mode = "hardware"
    is_strict = False

    def load(self, model: Bound, cache: Path | None = None) -> EvaluatedModel:
        """Prepare a model: its weights are decoded to float64 when a program first needs them."""
        return EvaluatedModel(model, World(ideal=True))

    def load_encoder(self, model: BoundEncoder) -> EvaluatedEncoder:
        """Prepare an encoder."""
        return EvaluatedEncoder(model, World(ideal=True))


CHIP = Reference()
