"""Choosing the next token with the library's `sample` function: exact, seeded, the same on every machine."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.runtime.decode import greedy

if TYPE_CHECKING:
    from bittern.graph.evaluate import Program
    from bittern.lang.library import Library

OUT_OF_RANGE = code("R110", "a number that steers the run is out of its range")

MOST_TOKENS = (1 << 31) - 1  # positions are u32, and so is what is computed from them


class Sampler:
    """Draws tokens from logits. Raises R110 for numbers out of range.

    temperature: 0 takes the greatest logit. top_k: 0 keeps all. top_p, min_p: shares from 0 to 1. seed: u64.
    """

    def __init__(
        self,
        library: "Callable[[], Library]",
        vocab: int,
        temperature: float,
        top_k: int,
        top_p: float,
        min_p: float,
        seed: int,
    ) -> None:
        """library: gives the library, which is asked for only where a draw needs it."""
        check_range("temperature", temperature, 0.0, 1e6)
        check_range("top_k", top_k, 0, (1 << 32) - 1)
        check_range("top_p", top_p, 0.0, 1.0)
        check_range("min_p", min_p, 0.0, 1.0)
        check_range("seed", seed, 0, (1 << 64) - 1)
        self._numbers = (
            np.uint32(top_k),
            np.float32(top_p),
            np.float32(min_p),
            np.float32(temperature),
            np.uint64(seed),
            np.uint32(0),
        )
        self._program: Program | None = None
        if temperature > 0:
            from bittern.graph.evaluate import prepare

            self._program = prepare(library().function("sample.sample"), (vocab,))

    @property
    def is_greedy(self) -> bool:
        """Whether the greatest logit is taken."""
        return self._program is None

    def token(self, logits: npt.NDArray[np.float32], step: int) -> int:
        """Return the token of one step. logits: [vocab]. Equal logits, numbers, seed and step give equal tokens."""
        if self._program is None:
            return greedy(logits)
        return int(self._program(logits, *self._numbers, np.uint64(step)))


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number out of its range, also NaN. Raises R110."""
    if not low <= value <= high:
        raise BitternError(OUT_OF_RANGE, f"{name} is {value}.", f"Give a number from {low} to {high}.")
