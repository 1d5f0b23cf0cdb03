"""Saved states: a text with the keys and values of its tokens, in one file that proves what it holds.

```
preamble   64 bytes: magic, version u64, length of the header u64, length of the file u64, SHA-256 of all other bytes
header     canonical CBOR (RFC 8949, 4.2.3)
leaves     of the cache, one behind the other: [layers, used, heads, values], little-endian
```

| key of the header | content |
|---|---|
| graph | identity of the model's program, its weights included |
| leaves | rows [dtype, [layers, used, heads, values]] |
| tokens | the text |
| used | how many of its tokens, from the first on, have their keys and values here |

Positions lie in the order of the graph, so a state that one chip saved goes on with equal bits on every chip of equal
bits. A file is written beside its place, synced and renamed: a reader sees a whole one or none. Nothing of it is
believed before its digest is checked.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.writing import put_in_place
from bittern.front.bound import Bound
from bittern.graph.keg_format import scan

NO_STATE = code("R150", "there is no state to save, or the chip keeps none")
UNREADABLE = code("R151", "the file of a state cannot be read or written")
NOT_A_STATE = code("R152", "the file is no saved state of this version")
DAMAGED = code("R153", "the file of a state is damaged")
OTHER_MODEL = code("R154", "the state belongs to another model")

MAGIC = b"\x89BST\r\n\x1a\n"  # a transfer as text breaks it
VERSION = 1
PREAMBLE = Struct("<8sQQQ32s")
_DIGEST = 32  # where the digest begins
_BUDGET = 1 << 28  # bytes of objects that a header may become
_KEYS = {"graph", "leaves", "tokens", "used"}
_DTYPES = ("|i1", "<f2", "<f4", "<f8")

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A text and the cache of its first tokens.

    graph: see `graph_of`. leaves: of the cache, [layers, used, heads, values] each.
    """

    graph: bytes
    tokens: tuple[int, ...]
    leaves: tuple[Array, ...]

    @property
    def used(self) -> int:
        """How many of the tokens have their keys and values here."""
        return int(self.leaves[0].shape[1]) if self.leaves else 0


def graph_of(bound: Bound) -> bytes:
    """Return the identity of a model's program, of its weights, and of the element of its cache."""
    return bound.outline.graph


def write_state(state: State, path: Path) -> None:
    """Write a state, whole or not at all. Raises R151."""
    import cbor2

    leaves = [np.ascontiguousarray(leaf, leaf.dtype.newbyteorder("<")) for leaf in state.leaves]
    rows = [[leaf.dtype.str, list(leaf.shape)] for leaf in leaves]
    content = {"graph": state.graph, "leaves": rows, "tokens": list(state.tokens), "used": state.used}
    header = cbor2.dumps(content, canonical=True)
    parts = [header, *(leaf.tobytes() for leaf in leaves)]
    front = PREAMBLE.pack(MAGIC, VERSION, len(header), PREAMBLE.size + sum(map(len, parts)), b"")[:_DIGEST]
    hashed = hashlib.sha256(front)
    for part in parts:
        hashed.update(part)
    _write(path, [front, hashed.digest(), *parts])


def read_state(path: Path, graph: bytes) -> State:
    """Read a state of the model with this identity. Raises R151 to R154."""
    try:
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise _unreadable(path, error) from error
    if len(data) < PREAMBLE.size or bytes(data[: len(MAGIC)]) != MAGIC:
        raise BitternError(NOT_A_STATE, f"{path} is no saved state.", "Name a file that `save_state` wrote.")
    _, version, header, length, sha256 = PREAMBLE.unpack(data[: PREAMBLE.size])
    if version != VERSION:
        what = f"{path} is a state of version {version}, and this Bittern reads version {VERSION}."
        raise BitternError(NOT_A_STATE, what, "Save it again, or use the Bittern that wrote it.")
    if len(data) != length:
        raise _damaged(path, f"has {len(data)} bytes instead of {length}")
    hashed = hashlib.sha256(data[:_DIGEST])
    hashed.update(data[PREAMBLE.size :])
    if hashed.digest() != sha256:
        raise _damaged(path, "does not have its digest")
    end = PREAMBLE.size + header
    content = _header(path, data[PREAMBLE.size : end])
    if content["graph"] != graph:
        what = f"{path} belongs to the model {content['graph'].hex()[:12]}, and this one is {graph.hex()[:12]}."
        raise BitternError(OTHER_MODEL, what, "Load the model, and the `--cache`, with which it was saved.")
    return State(graph, tuple(content["tokens"]), _leaves(path, data[end:], content))


def _header(path: Path, data: memoryview) -> dict[str, Any]:
    """Return the header, every field of which has its type."""
    from cbor2 import CBORError, loads

    try:
        scan(bytes(data), _BUDGET)
        content = loads(bytes(data))
    except (BitternError, CBORError, ValueError) as error:
        raise _damaged(path, "has a header that cannot be read") from error
    is_whole = (
        isinstance(content, dict)
        and set(content) == _KEYS
        and isinstance(content["graph"], bytes)
        and isinstance(content["used"], int)
        and isinstance(content["tokens"], list)
        and all(isinstance(token, int) and 0 <= token < 1 << 32 for token in content["tokens"])
        and 0 < content["used"] <= len(content["tokens"])
        and isinstance(content["leaves"], list)
        and all(_is_leaf(row, content["used"]) for row in content["leaves"])
    )
    if not is_whole:
        raise _damaged(path, "has a header with other fields")
    return dict(content)


def _is_leaf(row: object, used: int) -> bool:
    if not isinstance(row, list) or len(row) != 2:
        return False
    dtype, shape = row
    is_shape = isinstance(shape, list) and len(shape) == 4 and all(isinstance(n, int) and n > 0 for n in shape)
    return dtype in _DTYPES and is_shape and shape[1] == used


def _leaves(path: Path, data: memoryview, content: dict[str, Any]) -> tuple[Array, ...]:
    made, low = [], 0
    for dtype, shape in content["leaves"]:
        high = low + prod(shape) * np.dtype(dtype).itemsize
        if high > len(data):
            break
        made.append(np.frombuffer(data[low:high], dtype).reshape(shape))
        low = high
    if low != len(data) or len(made) != len(content["leaves"]):
        raise _damaged(path, "does not hold the leaves that its header names")
    return tuple(made)


def _write(path: Path, parts: Sequence[bytes]) -> None:
    """Write a whole file or nothing."""
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=".part-", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(name, path)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        if name:
            with suppress(OSError):
                os.unlink(name)  # it is there only if it did not come to its place


def _unreadable(path: Path, error: OSError) -> BitternError:
    why = error.strerror or str(error)
    return BitternError(UNREADABLE, f"{path} cannot be read or written: {why}.", "Check the path and its permissions.")


def _damaged(path: Path, how: str) -> BitternError:
    return BitternError(DAMAGED, f"{path} {how}.", "Save the state again: nothing of this file can be used.")
