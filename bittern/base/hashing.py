"""Canonical hashing: SHA-256 over a stream of versioned, tagged tokens.

Every value has exactly one encoding: a one-byte tag, an eight-byte little-endian length where the size varies, and the
payload. Containers write their length first, so no encoding is the start of another one and no two different values
share one (prefix freedom). An object is tagged as an object and then encoded as the value that it states for itself,
which names its kind; so an object never meets a plain value, nor an object of another kind.
Identity never depends on printing, on the order of a set or on Python's own `hash`.
"""

import hashlib
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Protocol, runtime_checkable

FORMAT = b"bittern/1\0"


@runtime_checkable
class Hashable(Protocol):
    """Anything that can state its identity as a value built of the kinds that `encode` knows."""

    def tokens(self) -> object:
        """Return the value that stands for this object: bytes, or a tuple that starts with the word of its kind."""
        ...


def encode(value: object) -> bytes:
    """Return the one encoding of a value made of None, bool, int, str, bytes, tuples and `Hashable` objects.

    1, 1.0 and True differ: bool has its own tags, and a float has no encoding (its bits are a constant's bytes).
    """
    parts: list[bytes] = []
    _encode(value, parts)
    return b"".join(parts)


def digest(value: object) -> bytes:
    """Return the 32-byte SHA-256 of the value's encoding, with the version of the format in front."""
    return hashlib.sha256(FORMAT + encode(value)).digest()


_length = Struct("<Q").pack


def _encode(value: object, parts: list[bytes]) -> None:
    write = _WRITERS.get(type(value))
    if write is not None:
        write(value, parts)
        return
    tokens = getattr(value, "tokens", None)
    assert tokens is not None, f"no canonical encoding for {type(value).__name__}: {value!r}"
    if getattr(value, "encode_once", False):
        parts.append(_remembered(value))
        return
    parts.append(b"O")
    _encode(tokens(), parts)


@lru_cache(maxsize=1 << 13)
def _remembered(value: Hashable) -> bytes:
    """Return the encoding of a small value that occurs in many others (its class says `encode_once`)."""
    parts = [b"O"]
    _encode(value.tokens(), parts)
    return b"".join(parts)


def _encode_tuple(value: tuple[object, ...], parts: list[bytes]) -> None:
    parts.append(b"L" + _length(len(value)))
    for item in value:
        _encode(item, parts)


def _encode_int(value: int, parts: list[bytes]) -> None:
    payload = b"%d" % value
    parts.append(b"I" + _length(len(payload)) + payload)


def _encode_str(value: str, parts: list[bytes]) -> None:
    payload = value.encode()
    parts.append(b"S" + _length(len(payload)) + payload)


def _encode_bytes(value: bytes, parts: list[bytes]) -> None:
    parts.append(b"B" + _length(len(value)) + value)


_WRITERS: dict[type, Callable[[Any, list[bytes]], None]] = {
    type(None): lambda _, parts: parts.append(b"N"),
    bool: lambda value, parts: parts.append(b"T" if value else b"F"),
    int: _encode_int,
    str: _encode_str,
    bytes: _encode_bytes,
    tuple: _encode_tuple,
}
