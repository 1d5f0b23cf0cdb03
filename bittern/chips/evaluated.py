"""Sessions that run on the evaluator: shared by the chips `reference` (float64) and `vm` (strict)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.chips.chip import Arrays, Reals, Tokens
from bittern.front.bind import BoundEncoder
from bittern.front.bound import Bound
from bittern.graph.evaluate import Program, World, prepare, zeros
from bittern.graph.node import Function

_PLACES = 3  # token, sequence, position come before the leaves of the cache
_SAMPLES = 256  # of a batch, evaluated at a time


class EvaluatedModel:
    """A model whose weights are prepared in one world; programs for every number of tokens share them."""

    artifact: Mapping[str, str] | None = None

    def __init__(self, model: Bound, world: World) -> None:
        self._model = model
        self._world = world
        self._programs: dict[tuple[str, tuple[int, ...]], Program] = {}

    def start(self, context: int, sequences: int = 1) -> "EvaluatedSession":
        """Return a session with empty caches."""
        return EvaluatedSession(self, context, sequences)

    def forward(self, tokens: int, sequences: int, context: int) -> Program:
        """Return the program of `forward` for these sizes; it overwrites the caches that it is given."""
        key = ("forward", (tokens, sequences, context))
        if key not in self._programs:
            function = self._model.forward
            donated = frozenset(range(_PLACES, len(function.params)))
            self._programs[key] = prepare(function, key[1], world=self._world, donated=donated)
        return self._programs[key]

    def head(self, rows: int) -> Program:
        """Return the program of `head` for this many rows."""
        key = ("head", (rows,))
        if key not in self._programs:
            self._programs[key] = prepare(self._model.head, key[1], world=self._world)
        return self._programs[key]

    def caches(self, sequences: int, context: int) -> list[Reals]:
        """Return empty caches."""
        function, dims = self._model.forward, (1, sequences, context)
        leaves = range(_PLACES, len(function.params))
        return [zeros(function, leaf, dims, ideal=self._world.ideal) for leaf in leaves]


class EvaluatedSession:
    """One running model on the evaluator."""

    def __init__(self, model: EvaluatedModel, context: int, sequences: int) -> None:
        self.context = context
        self.sequences = sequences
        self._model = model
        self._caches = model.caches(sequences, context)

    def forward(self, token: Tokens, sequence: Tokens, position: Tokens) -> Reals:
        """Run t tokens at their places; return the hidden states [t, d]."""
        program = self._model.forward(len(token), self.sequences, self.context)
        hidden, *self._caches = program(token, sequence, position, *self._caches)
        return np.asarray(hidden)

    def logits(self, hidden: Reals) -> Reals:
        """Return the logits [k, vocab] of hidden rows [k, d]."""
        return np.asarray(self._model.head(len(hidden))(hidden))

    def positions(self, count: int, sequence: int = 0) -> list[Reals]:
        """Return keys and values of a sequence's first positions; see `KeepingSession`."""
        return [np.array(leaf[:, sequence, :count]) for leaf in self._caches if leaf.size]

    def put_positions(self, leaves: Sequence[Reals], sequence: int = 0) -> None:
        """Write keys and values of a sequence's first positions."""
        for leaf, values in zip((leaf for leaf in self._caches if leaf.size), leaves, strict=True):
            leaf[:, sequence, : values.shape[1]] = values


class EvaluatedEncoder:
    """An encoder whose weights are prepared in one world."""

    def __init__(self, model: BoundEncoder, world: World) -> None:
        self._model = model
        self._world = world
        self._programs: dict[tuple[str, int], Program] = {}

    def encode(self, token: Tokens) -> Reals:
        """Return the vectors [t, d] of a text's tokens."""
        return np.asarray(self._program("encode", self._model.encode, len(token))(token))

    def mean(self, vectors: Reals) -> Reals:
        """Return the mean [d] of vectors [t, d]."""
        dims = (len(vectors), vectors.shape[1])
        return np.asarray(prepare(self._model.mean, dims, world=self._world)(vectors))

    def pool(self, vectors: Reals) -> Reals:
        """Return the vector [d] that the model's own pooler makes of vectors [t, d]; it must have one."""
        assert self._model.pool is not None, self._model.family.name
        return np.asarray(self._program("pool", self._model.pool, len(vectors))(vectors))

    def _program(self, name: str, function: Function, tokens: int) -> Program:
        key = (name, tokens)
        if key not in self._programs:
            self._programs[key] = prepare(function, (tokens,), world=self._world)
        return self._programs[key]


class EvaluatedFunction:
    """A function over a batch; programs for every batch size share what they fold."""

    def __init__(self, function: Function, world: World) -> None:
        self._function, self._world = function, world
        self._programs: dict[int, Program] = {}

    def run(self, inputs: Sequence[npt.NDArray[Any]]) -> Arrays:
        """Run a batch; see `LoadedFunction`. Large batches run in parts, so that memory stays small."""
        rows = len(inputs[0])
        parts = []
        for low in range(0, rows, _SAMPLES):
            here = [each[low : low + _SAMPLES] for each in inputs]
            found = self._program(len(here[0]))(*here)
            parts.append(found if isinstance(found, tuple) else (found,))
        return tuple(
            np.concatenate(each) if len(each) > 1 else np.asarray(each[0]) for each in zip(*parts, strict=True)
        )

    def bound(self, batch: int) -> "BoundEvaluation":
        """Return memory for a batch and what runs it there."""
        return BoundEvaluation(self, batch, self._function)

    def _program(self, rows: int) -> Program:
        if rows not in self._programs:
            self._programs[rows] = prepare(self._function, (rows,), world=self._world)
        return self._programs[rows]


class BoundEvaluation:
    """See `BoundFunction`."""

    def __init__(self, loaded: EvaluatedFunction, batch: int, function: Function) -> None:
        shapes = [zeros(function, leaf, (batch,)) for leaf in range(len(function.params))]
        self.inputs: Arrays = tuple(shapes)
        self.results: Arrays = tuple(np.zeros_like(each) for each in loaded.run(self.inputs))
        self._loaded = loaded

    def call(self) -> None:
        """Run the batch."""
        for room, found in zip(self.results, self._loaded.run(self.inputs), strict=True):
            room[...] = found
