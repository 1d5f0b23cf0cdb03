"""The strict reader of `.keg` files: what it returns has been checked, node for node, and nothing is ever executed.

Checked: the frame of the file, the SHA-256 and the canonical form of the header, the fields of every record, every
reference (backwards only), every id against the hash of its meaning, every type against its rule, every blob against
its SHA-256 (small ones now, large ones when they are first read). `keg_format` states the layout and the codes.
"""

import hashlib
import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from bittern.base.errors import BitternError
from bittern.graph import keg_format as form
from bittern.graph.keg_blobs import Blobs
from bittern.graph.keg_tables import Tables
from bittern.graph.node import Function
from bittern.graph.rules import KIND_UNKNOWN, NodeFault, Setting, check


@dataclass(frozen=True, slots=True)
class Keg:
    """An open `.keg` file.

    functions: the roots by label. notes: text for people. size: of the file in bytes. Constants read from the map of
    the file, which lives as long as anything refers to it.
    """

    path: Path
    functions: Mapping[str, Function]
    notes: Mapping[str, str]
    size: int
    _data: memoryview = field(repr=False, compare=False)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the whole file in hexadecimal, computed now."""
        return hashlib.sha256(self._data).hexdigest()


@runtime_checkable
class Mapped(Protocol):
    """A file whose bytes are at hand, such as the `file` of an open checkpoint."""

    @property
    def data(self) -> Any:
        """The bytes of the whole file, as an object with the buffer protocol."""
        ...


def read_keg(path: Path | str, sources: Sequence[Path | str | Mapped] = ()) -> Keg:
    """Read and check a `.keg` file.

    sources: files in which constants outside the `.keg` may lie. They are found by their SHA-256, so any file that has
    the bytes at the recorded place will do; one that lacks them is no error until such a constant is read (F221).
    Errors: F201 to F224, each with the file and the record it is about.
    """
    place = Path(path)
    data = _map(place)
    try:
        return _read(place, data, sources)
    except BitternError as fault:
        fault.what = f"`{place}`: {fault.what}"
        raise


def _map(path: Path) -> memoryview:
    """Return the bytes of a regular file, mapped."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise BitternError(form.UNREADABLE, f"`{path}` is not a regular file.", "Give the path of a file.")
            if not status.st_size:
                raise BitternError(form.TRUNCATED, f"`{path}` has 0 bytes.", "Write or fetch the file again.")
            return memoryview(mmap.mmap(handle, status.st_size, access=mmap.ACCESS_READ))
        finally:
            os.close(handle)
    except (OSError, ValueError) as fault:
        raise BitternError(form.UNREADABLE, f"`{path}` cannot be opened: {fault}.", "Check the path.") from fault


def _read(path: Path, data: memoryview, sources: Sequence[Path | str | Mapped]) -> Keg:
    header, start = _frame(data)
    plain = _decoded(header, 4 * len(data) + (64 << 20))
    blobs = Blobs(path, data, start, [_opener(source) for source in sources])
    blobs.load(plain["blobs"])
    tables = Tables(plain, blobs, budget=64 * len(header) + 1_000_000)
    tables.load()
    functions, notes = tables.roots(), tables.notes()
    _check_types(functions, tables)
    return Keg(path, functions, notes, len(data), data)


def _frame(data: memoryview) -> tuple[bytes, int]:
    """Return the header and where the blobs start."""
    magic = bytes(data[: len(form.MAGIC)])
    if magic != form.MAGIC[: len(magic)]:
        raise form.fault(form.NOT_A_KEG, f"it starts with {magic!r}, not with {form.MAGIC!r}")
    if len(data) < form.PREAMBLE.size:
        raise form.fault(form.TRUNCATED, f"it has {len(data)} bytes, fewer than its preamble of {form.PREAMBLE.size}")
    _, version, length, size, digest = form.PREAMBLE.unpack_from(data)
    if version != form.VERSION:
        raise form.fault(form.WRONG_VERSION, f"it has version {version}")
    if len(data) < size:
        raise form.fault(form.TRUNCATED, f"it has {len(data)} of {size} bytes")
    if len(data) > size:
        raise form.fault(form.TRAILING, f"{len(data) - size} bytes follow its {size}")
    start = form.aligned(form.PREAMBLE.size + length)
    if start > size:
        raise form.fault(form.TRUNCATED, f"its header of {length} bytes ends behind its end at {size}")
    header = bytes(data[form.PREAMBLE.size : form.PREAMBLE.size + length])
    if hashlib.sha256(header).digest() != digest:
        raise form.fault(form.WRONG_HEADER, "its header does not have the SHA-256 that the preamble states")
    if any(data[form.PREAMBLE.size + length : start]):
        raise form.fault(form.PADDING, "the bytes after its header are not zero")
    return header, start


def _decoded(header: bytes, budget: int) -> dict[str, Any]:
    """Return the header as plain values: the map of its tables."""
    from cbor2 import CBORError, dumps, loads

    form.scan(header, budget)
    try:
        plain = loads(header)
        again = dumps(plain, canonical=True)
    except (CBORError, ValueError, TypeError) as fault:
        raise form.fault(form.NOT_CANONICAL, f"its header cannot be decoded ({type(fault).__name__})") from fault
    if again != header:
        raise form.fault(form.NOT_CANONICAL, "keys of its header are repeated or out of order")
    if type(plain) is not dict or tuple(sorted(plain)) != form.KEYS:
        raise form.fault(form.WRONG_SCHEMA, f"its header is no map of {', '.join(form.KEYS)}")
    return plain


def _opener(source: Path | str | Mapped) -> Any:
    """Return a function that gives the bytes of a source, or None if they cannot be had."""
    if isinstance(source, Path | str):
        path = Path(source)
        kept: list[memoryview] = []

        def opened() -> memoryview | None:
            if not kept:
                try:
                    kept.append(_map(path))
                except BitternError:
                    return None
            return kept[0]

        return opened
    return lambda: memoryview(source.data)


def _check_types(roots: Mapping[str, Function], tables: Tables) -> None:
    """Check the rule of every node, of the roots and of all that they call."""
    known: set[tuple[bytes, Setting]] = set()
    for function in [*roots.values(), *tables.callees]:
        try:
            check(function, known=known)
        except NodeFault as wrong:
            place, fault = tables.places[wrong.node.id], wrong.fault
            names = wrong.function.labels.dims
            found, expected = fault.found, fault.expected
            for index, size in enumerate(fault.dims):
                shown = size.text(names) if hasattr(size, "text") else str(size)
                found, expected = found.replace(f"{{{index}}}", shown), expected.replace(f"{{{index}}}", shown)
            raise form.fault(
                form.WRONG_TYPE if fault.code != KIND_UNKNOWN else KIND_UNKNOWN,
                f"entry {place} ({wrong.node.kind} {wrong.node.id.hex()[:16]}, of `{wrong.function.name}`): "
                f"found {found}, expected {expected}",
            ) from None
