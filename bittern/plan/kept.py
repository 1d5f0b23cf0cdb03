"""Plans as bytes, so that a second start makes none: what a plan needs to run, without the graph that it came from.

In: a plan, or a table that holds one (`Likeliest`, `Watched`). Out: bytes, and from bytes an equal plan. What the
regions cover is left out, and so are kernels that were made for one node: of those, and of values evaluated ahead, only
the identity is kept. The bytes are a pickle that may name the classes of the table below and nothing else; constants
and elements stand in it by name.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from bittern.front.bound import Origin, Outline
from bittern.graph.node import Blob
from bittern.plan.flow import Value
from bittern.plan.likeliest import Likeliest
from bittern.plan.plan import Known, Launch, Packed, Part, Plan, Recipe, Region, identity_of
from bittern.plan.step import Greedy
from bittern.plan.watch import Watched
from bittern.types.dims import Dim, Ratio
from bittern.types.elements import ELEMENTS, Element
from bittern.types.values import Tensor

MOST_INLINE = 1 << 20  # bytes of a constant that is kept itself

_CLASSES = {
    (each.__module__, each.__qualname__): each
    for each in (
        *(Plan, Region, Launch, Recipe, Packed, Part, Known, Value, Tensor, Dim, Ratio),
        *(Likeliest, Greedy, Watched, Outline, Origin),
    )
}


class NotKeptError(Exception):
    """A plan that cannot be kept: it holds a large constant that lies in no file."""


def to_bytes(made: object, plan: Plan | None = None, origins: Mapping[bytes, Origin] | None = None) -> bytes:
    """Return what was made as bytes. plan: the one inside. origins: of constants, by digest. Raises NotKeptError."""
    out = io.BytesIO()
    _Writer(out, plan, origins or {}).dump(made)
    return out.getvalue()


def from_bytes(data: bytes, blob: Callable[[Origin], Blob] | None = None) -> Any:
    """Return what `to_bytes` was given. blob: of a constant. Whatever it raises: these are no such bytes."""
    return _Reader(io.BytesIO(data), blob).load()


class _Writer(pickle.Pickler):
    def __init__(self, out: io.BytesIO, plan: Plan | None, origins: Mapping[bytes, Origin]) -> None:
        super().__init__(out, protocol=5)
        self._plan, self._origins = plan, origins

    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, Element):
            return obj.name
        if isinstance(obj, Blob):
            found = self._origins.get(obj.digest)
            if found is None and obj.size > MOST_INLINE:
                raise NotKeptError
            return found or (obj.digest, bytes(obj.read()))
        return None

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Recipe):
            return Recipe, (obj.name, obj.arguments)
        if isinstance(obj, Region):
            return Region, (obj.rule, (), obj.launches, obj.same, obj.bytes)
        if isinstance(obj, Known):
            assert self._plan is not None, obj
            return Known, (None, obj.leaf, identity_of(obj, self._plan))
        return NotImplemented


class _Reader(pickle.Unpickler):
    def __init__(self, data: io.BytesIO, blob: Callable[[Origin], Blob] | None) -> None:
        super().__init__(data)
        self._blob = blob

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        return _CLASSES[module_name, global_name]

    def persistent_load(self, pid: Any) -> Any:
        if isinstance(pid, str):
            return ELEMENTS[pid]
        if isinstance(pid, Origin):
            assert self._blob is not None, pid
            return self._blob(pid)
        digest, data = pid
        return Blob(digest, len(data), lambda: data)
