"""Canonical hashing: SHA-256 over a stream of versioned, tagged tokens.

Every value has exactly one encoding: a one-byte tag, an eight-byte little-endian length where the size varies, and the
payload. Containers write their length first, so no two different values share an encoding (prefix freedom).
Identity never depends on printing, on the order of a set or on Python's own `hash`.
"""

import hashlib
import struct
from typing import Protocol, runtime_checkable

FORMAT = b"bittern/1\0"


@runtime_checkable
class Hashable(Protocol):
    """Anything that can state its identity as a value built of the kinds that `encode` knows."""

    def tokens(self) -> object:
        """Return the value that stands for this object: bytes, str, int, bool, None, or a tuple of such values."""
        ...


def encode(value: object) -> bytes:
    """Return the one encoding of a value made of None, bool, int, str, bytes, tuples and `Hashable` objects."""
    parts: list[bytes] = []
    _encode(value, parts)
    return b"".join(parts)


def digest(value: object) -> bytes:
    """Return the 32-byte SHA-256 of the value's encoding, with the version of the format in front."""
    return hashlib.sha256(FORMAT + encode(value)).digest()


def _encode(value: object, parts: list[bytes]) -> None:
    if value is None:
        parts.append(b"N")
    elif value is True:
        parts.append(b"T")
    elif value is False:
        parts.append(b"F")
    elif isinstance(value, int):
        _sized(b"I", str(value).encode(), parts)
    elif isinstance(value, str):
        _sized(b"S", value.encode(), parts)
    elif isinstance(value, bytes):
        _sized(b"B", value, parts)
    elif isinstance(value, tuple):
        parts.append(b"L" + struct.pack("<Q", len(value)))
        for item in value:
            _encode(item, parts)
    elif isinstance(value, Hashable):
        _encode(value.tokens(), parts)
    else:
        raise AssertionError(f"no canonical encoding for {type(value).__name__}: {value!r}")


def _sized(tag: bytes, payload: bytes, parts: list[bytes]) -> None:
    parts.append(tag + struct.pack("<Q", len(payload)))
    parts.append(payload)
