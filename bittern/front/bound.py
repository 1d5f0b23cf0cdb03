"""A bound model: a checkpoint, what is known of its program at once, and the program itself when somebody asks for it.

The outline suffices to run plans that were kept from an earlier run; the graph, which takes longer than all the rest of
a start, is then never made.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from bittern.front.checkpoint import Checkpoint
from bittern.graph.node import Blob, Function
from bittern.types.values import Tensor

if TYPE_CHECKING:
    from bittern.lang.library import Library
    from bittern.models.family import Family

CACHES = ("f16", "f32", "int8")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a constant of a graph lies in its checkpoint.

    kind: `weight` (a tensor as it is) or `codes` (of a ternary matrix). tensor: its name. digest, size: of the bytes.
    """

    kind: Literal["weight", "codes"]
    tensor: str
    digest: bytes
    size: int


@dataclass(frozen=True, slots=True)
class Outline:
    """What is known of a bound program without it.

    dims: sizes of the model. cache: name of the cache's element as the user says it. cache_blocks: scales in a head of
    the cache. leaves: of the cache, [layers, sequences, positions, heads, values] each. width: of a hidden state.
    graph: identity of the program, of its weights and of the element of its cache.
    """

    dims: Mapping[str, int]
    cache: str
    cache_blocks: int
    leaves: tuple[Tensor, ...]
    width: int
    graph: bytes


@dataclass(frozen=True, slots=True)
class Program:
    """A model's program with its constants. forward, head: the graph's functions. steps: what binding did, by field.

    origins: of the constants that lie in the checkpoint, by digest.
    """

    outline: Outline
    family: "Family"
    forward: Function
    head: Function
    steps: Mapping[str, str]
    origins: Mapping[bytes, Origin] = field(default_factory=dict)


class Bound:
    """See the module.

    key: digest of everything that the program was made from, "" where that is unknown and nothing can be kept.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        outline: Outline,
        library: "Callable[[], Library]",
        program: Callable[["Library"], Program],
        key: str = "",
    ) -> None:
        """library, program: make what is asked for, once."""
        self.checkpoint, self.outline, self.key = checkpoint, outline, key
        self._library, self._program = library, program

    @cached_property
    def library(self) -> "Library":
        """Where the program comes from."""
        return self._library()

    @cached_property
    def program(self) -> Program:
        """The program itself. Raises what binding raises where the checkpoint was closed meanwhile."""
        return self._program(self.library)

    @property
    def family(self) -> "Family":
        """Which family's program it is."""
        return self.program.family

    @property
    def forward(self) -> Function:
        """The function from tokens to hidden states."""
        return self.program.forward

    @property
    def head(self) -> Function:
        """The function from hidden states to logits."""
        return self.program.head

    @property
    def steps(self) -> Mapping[str, str]:
        """What binding did besides naming, by field."""
        return self.program.steps

    @property
    def dims(self) -> Mapping[str, int]:
        """Sizes of the model."""
        return self.outline.dims

    @property
    def cache(self) -> str:
        """The name of the cache's element as the user says it."""
        return self.outline.cache

    @property
    def cache_blocks(self) -> int:
        """Scales in a head of the cache."""
        return self.outline.cache_blocks


def blob_of(origin: Origin, checkpoint: Checkpoint) -> Blob:
    """Return a constant that lies in a checkpoint; its bytes are made when they are read."""
    if origin.kind == "codes":
        from bittern.front.ternary import codes_blob

        return codes_blob(checkpoint, origin)
    return Blob(origin.digest, origin.size, lambda: checkpoint.bytes_of(origin.tensor))
