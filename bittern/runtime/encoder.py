"""A loaded encoder: a text in, its vector out."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from bittern.base.errors import BitternError, code, nearest
from bittern.chips.chip import EncodingChip, LoadedEncoder, Reals, chip
from bittern.front.bind import BoundEncoder, bind_encoder
from bittern.front.tokenizer import Tokenizer
from bittern.runtime.binding import library_of
from bittern.runtime.decode import check_room
from bittern.runtime.model import need_tokenizer, open_checkpoint, tokenizer_of
from bittern.runtime.store import Store

NO_POOLING = code("R118", "the encoder does not make one vector of a text in this way")
CHIP_ENCODES_NOT = code("R119", "the chip does not run encoders")

POOLINGS = ("mean", "pool", "first")


class Encoder:
    """A checkpoint with its program, tokenizer and chip. Use as a context manager: it holds the file open."""

    def __init__(self, bound: BoundEncoder, tokenizer: Tokenizer | None, loaded: LoadedEncoder) -> None:
        self.bound = bound
        self.tokenizer = tokenizer
        self._loaded = loaded

    def __enter__(self) -> "Encoder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the checkpoint's files."""
        self.bound.checkpoint.close()

    def vectors(self, text: str | Sequence[int]) -> Reals:
        """Return the vector of each token, [t, d]. text: or token ids, with marks. Raises R103, R104, R107, R117."""
        if isinstance(text, str):
            text = need_tokenizer(self.tokenizer).encode(text)
        ids = [int(token) for token in text]
        places = self.bound.dims["places"]
        check_room(ids, 1, places, self.bound.dims["vocab"], places)
        return self._loaded.encode(np.array(ids, np.uint32))

    def embed(self, text: str | Sequence[int], pooling: str = "mean") -> Reals:
        """Return the vector of a text, [d].

        pooling: `mean` of all tokens, `pool`: the model's own pooler, or `first`: the first token's.
        Raises R103, R104, R107, R117, R118.
        """
        check_pooling(self.bound, pooling)
        return pooled(self._loaded, self.bound, self.vectors(text), pooling)


def check_pooling(bound: BoundEncoder, pooling: str) -> None:
    """Refuse a way to make one vector that the encoder does not have. Raises R118."""
    if pooling not in POOLINGS:
        raise BitternError(
            NO_POOLING, f"There is no pooling `{pooling}`.", nearest(pooling, list(POOLINGS)) or "Use `mean`."
        )
    if pooling == "pool" and bound.pool is None:
        raise BitternError(NO_POOLING, "The checkpoint has no pooler.", "Use `mean` or `first`.")


def pooled(loaded: LoadedEncoder, bound: BoundEncoder, vectors: Reals, pooling: str) -> Reals:
    """Return the vector [d] of a text from those of its tokens [t, d]. Raises R118."""
    check_pooling(bound, pooling)
    if pooling == "first":
        first: Reals = vectors[0]
        return first
    return loaded.mean(vectors) if pooling == "mean" else loaded.pool(vectors)


def load_encoder(
    path: str | Path, *, chip: str = "vm", store: Store | None = None, library: Sequence[Path] = ()
) -> Encoder:
    """Open an encoder's checkpoint and prepare it for a chip; arguments as for `bittern.load`.

    Raises F1xx, F3xx, M1xx, E212, R101, R112, R119.
    """
    checkpoint = open_checkpoint(Path(path), store, library)
    try:
        made = encoding_chip(chip)
        bound = bind_encoder(checkpoint, library_of(library))
        return Encoder(bound, tokenizer_of(checkpoint, store), made.load_encoder(bound))
    except BaseException:
        checkpoint.close()
        raise


_chip = chip


def encoding_chip(name: str) -> EncodingChip:
    """Return a chip that runs encoders. Raises R101, R119."""
    made = _chip(name)
    if not isinstance(made, EncodingChip):
        raise BitternError(CHIP_ENCODES_NOT, f"The chip `{name}` runs no encoders.", "Use `vm`.")
    return made
