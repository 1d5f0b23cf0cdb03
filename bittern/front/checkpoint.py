"""A checkpoint: metadata and named tensors in memory-mapped files, the neutral form that every reader yields.

In: opened files and what their reader found in the headers. Out: the tensors as views of a map (nothing is copied), as
blobs for the graph, and the SHA-256 of the files and of each tensor. A digest is remembered in a cache under a file's
identity (device, inode, size, time of change), so it is computed once; the checkpoint says which of the two happened.
A reader may also derive tensors from stored ones (another order of rows, say); those are made when they are asked for.

Untrusted files: only regular files are opened, a file that changes while it is open is refused at the next access, and
a range is checked by its reader before a `TensorInfo` exists. The one thing that no reader of a map can catch is a file
that another process cuts short during a single access; the operating system ends the process then.
"""

import hashlib
import mmap
import os
import stat
import time
import weakref
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.base.html_table import html_table
from bittern.graph.node import Blob
from bittern.types.elements import Element

NOT_FOUND = code("F101", "the checkpoint file does not exist")
NOT_A_FILE = code("F102", "the path of the checkpoint is not a regular file")
NO_ACCESS = code("F103", "the checkpoint file cannot be read")
EMPTY = code("F104", "the checkpoint file is empty")
CHANGED = code("F105", "the checkpoint file changed after it was opened")
CLOSED = code("F106", "the checkpoint was closed before this use")
NO_TENSOR = code("F107", "the checkpoint has no tensor of this name")

Value: TypeAlias = bool | int | float | str | list[str] | npt.NDArray[Any]
Origin: TypeAlias = Literal["hashed now", "cached"]

_HASH_STEP = 1 << 26  # bytes between two chances to interrupt the hashing of a large file
_RACE = 2_000_000_000  # ns: a file this young may be written again without a new time of change
_CACHE_VERSION = 1


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where a tensor lies and what it is.

    shape: row-major, the slowest dimension first, as numpy writes it; for a format it counts values, not blocks.
    offset: of its first byte in its file. size: its number of bytes. part: which of the checkpoint's files has it.
    """

    name: str
    element: Element
    shape: tuple[int, ...]
    offset: int
    size: int
    part: int = 0

    @property
    def storage_shape(self) -> tuple[int, ...]:
        """The shape of the array that holds the tensor: a format's rows end in [blocks, bytes of a block]."""
        if self.element.is_format:
            return (*self.shape[:-1], self.shape[-1] // self.element.columns, self.element.bytes)
        return self.shape

    def _repr_html_(self) -> str:
        """Return what a notebook shows of the tensor."""
        rows = (
            ("element", self.element),
            ("shape", list(self.shape)),
            ("stored", f"{self.element.dtype}{list(self.storage_shape)}"),
            ("bytes", self.size),
            ("offset", self.offset),
        )
        return html_table(f"tensor {self.name}", rows)


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one state of a file from another without reading it. modified: time of change in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int


class MappedFile:
    """A regular file, opened for reading and mapped whole."""

    __slots__ = ("__weakref__", "_close_descriptor", "_descriptor", "_map", "identity", "path")

    def __init__(self, path: Path) -> None:
        """Open and map the file.

        Errors: F101 missing, F102 not a regular file (a pipe is never waited for), F103 unreadable, F104 empty.
        """
        self.path = path
        self._descriptor = _open(path)
        self._close_descriptor = weakref.finalize(self, os.close, self._descriptor)
        try:
            self.identity = _identity(path, os.fstat(self._descriptor))
            self._map: mmap.mmap | None = mmap.mmap(self._descriptor, self.identity.size, access=mmap.ACCESS_READ)
        except (OSError, ValueError, OverflowError) as fault:
            self._close_descriptor()
            raise BitternError(NO_ACCESS, f"{shown(path)} cannot be mapped: {fault}.", "Check the file.") from fault
        except BitternError:
            self._close_descriptor()
            raise

    @property
    def data(self) -> mmap.mmap:
        """The map of the whole file. Errors: F105 if the file changed since it was opened, F106 if it was closed."""
        if self._map is None:
            raise BitternError(
                CLOSED,
                f"{shown(self.path)} was closed.",
                "Use the checkpoint inside its `with` block, or open it again.",
            )
        now = os.fstat(self._descriptor)
        if (now.st_size, now.st_mtime_ns) != (self.identity.size, self.identity.modified):
            raise BitternError(
                CHANGED,
                f"{shown(self.path)} changed after it was opened: {self.identity.size} bytes then, {now.st_size} now.",
                "Open it again when nothing writes to it any more.",
            )
        return self._map

    def close(self) -> None:
        """Close the file. Views that were handed out stay valid; the map goes with the last of them."""
        if self._map is None:
            return
        with suppress(BufferError):  # views that still point into the map keep it alive
            self._map.close()
        self._map = None
        self._close_descriptor()


class Digests:
    """The SHA-256 digests of a file and of byte ranges in it, in memory and in a cache file under its identity.

    The cache is a convenience: what is unreadable, foreign or stale in it is passed over, and a folder that cannot be
    written leaves the digests in memory only. folder: where the cache lives; None keeps nothing.
    """

    __slots__ = ("_changed", "_place", "finite", "identity", "origin", "ranges", "whole")

    def __init__(self, identity: Identity, folder: Path | None) -> None:
        self.identity = identity
        self.whole: str | None = None
        self.origin: Origin = "hashed now"  # where `whole` comes from
        self.ranges: dict[tuple[int, int], bytes] = {}
        self.finite: set[tuple[int, int]] = set()  # ranges in which every number was found finite
        self._changed = False
        self._place = folder / "digests" / f"{identity.device}-{identity.inode}.json" if folder else None
        if self._place:
            self._load(self._place)

    def _load(self, place: Path) -> None:
        import json

        try:
            found = json.loads(place.read_bytes())
            same = (_CACHE_VERSION, self.identity.size, self.identity.modified)
            if (found["version"], found["size"], found["modified"]) != same:
                return
            whole = found["sha256"]
            ranges = {(int(offset), int(size)): _digest_of(digest) for offset, size, digest in found["ranges"]}
            finite = {(int(offset), int(size)) for offset, size in found.get("finite", ())}
            if whole is not None:
                self.whole, self.origin = _digest_of(whole).hex(), "cached"
            self.ranges, self.finite = ranges, finite
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return

    def remember(
        self,
        whole: str | None = None,
        ranges: Mapping[tuple[int, int], bytes] | None = None,
        finite: Collection[tuple[int, int]] = (),
    ) -> None:
        """Keep digests that were just computed, and ranges that were just looked through; `save` writes them."""
        self.whole = whole or self.whole
        self.ranges.update(ranges or {})
        self.finite.update(finite)
        self._changed = True

    def save(self) -> None:
        """Write what is new, at once or not at all; a file younger than two seconds is not written down."""
        if not (self._changed and self._place) or time.time_ns() - self.identity.modified < _RACE:
            return
        import json
        import tempfile

        content = {
            "version": _CACHE_VERSION,
            "size": self.identity.size,
            "modified": self.identity.modified,
            "sha256": self.whole,
            "ranges": [(offset, size, digest.hex()) for (offset, size), digest in sorted(self.ranges.items())],
            "finite": sorted(self.finite),
        }
        try:
            self._place.parent.mkdir(parents=True, exist_ok=True)
            handle, part = tempfile.mkstemp(dir=self._place.parent, suffix=".part")
            try:
                with os.fdopen(handle, "w") as file:
                    json.dump(content, file)
                os.replace(part, self._place)
            except BaseException:
                os.unlink(part)
                raise
        except OSError:
            return
        self._changed = False


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a checkpoint. digests: what is known of its SHA-256 sums."""

    file: MappedFile
    digests: Digests

    @property
    def sha256(self) -> str:
        """The SHA-256 of the whole file in hexadecimal, from the cache or computed now. Errors: F105, F106."""
        if self.digests.whole is None:
            self.digests.remember(whole=self.hash(0, self.file.identity.size).hex())
            self.digests.save()
        assert self.digests.whole is not None
        return self.digests.whole

    def hash(self, offset: int, size: int) -> bytes:
        """Return the SHA-256 of a range; the file is checked for changes before and after each step."""
        state = hashlib.sha256()
        for low in range(offset, offset + size, _HASH_STEP):
            with memoryview(self.file.data) as view:
                state.update(view[low : min(low + _HASH_STEP, offset + size)])
        _ = self.file.data
        return state.digest()


@dataclass(frozen=True, slots=True)
class Derived:
    """A tensor that is made of stored ones. steps: what is done, for people and records. make: does it."""

    steps: tuple[str, ...]
    make: Callable[[], npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Metadata and tensors of one file, or of a folder of files. Use it as a context manager, or call `close`.

    kind: the format, such as `gguf`. metadata: plain Python values by key; an array of strings is a list, any other
    array a read-only numpy array. tensors: in the order of the files. digests: of the first file. more: the files after
    the first. derived: how tensors that are not stored as they are come about, by name. folder: where one holds it all.
    """

    kind: str
    file: MappedFile
    metadata: Mapping[str, Value] = field(repr=False)
    tensors: Mapping[str, TensorInfo] = field(repr=False)
    digests: Digests = field(repr=False, compare=False)
    more: tuple[Part, ...] = ()
    derived: Mapping[str, Derived] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """All files, in the order that `TensorInfo.part` counts."""
        return (Part(self.file, self.digests), *self.more)

    @property
    def path(self) -> Path:
        """The path of the file or folder, as it was given."""
        return self.folder or self.file.path

    @property
    def size(self) -> int:
        """The size of all files together in bytes."""
        return sum(part.file.identity.size for part in self.parts)

    @property
    def sha256(self) -> str:
        """The SHA-256 of the whole file in hexadecimal, from the cache or computed now. Errors: F105, F106.

        Of several files: the SHA-256 of one line `SHA256 SIZE NAME` for each, in their order.
        """
        if not self.more:
            return self.parts[0].sha256
        rows = [f"{part.sha256} {part.file.identity.size} {part.file.path.name}\n" for part in self.parts]
        return hashlib.sha256("".join(rows).encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def sha256_origin(self) -> Origin:
        """Whether `sha256` was computed from the files' bytes by this checkpoint or taken from the cache."""
        _ = self.sha256
        return "cached" if all(part.digests.origin == "cached" for part in self.parts) else "hashed now"

    def info(self, name: str) -> TensorInfo:
        """Return what is known of a tensor. Errors: F107 with the nearest names."""
        found = self.tensors.get(name)
        if found is None:
            raise BitternError(
                NO_TENSOR, f"{shown(self.path)} has no tensor `{name}`.", nearest(name, list(self.tensors))
            )
        return found

    def bytes_of(self, name: str) -> memoryview:
        """Return a tensor's bytes as a read-only view of the map, or made now. Errors: F105, F106, F107."""
        found = self.info(name)
        if name in self.derived:
            return self.array(name).reshape(-1).view(np.uint8).data
        return memoryview(self.parts[found.part].file.data)[found.offset : found.offset + found.size]

    def array(self, name: str) -> npt.NDArray[Any]:
        """Return a tensor as a read-only numpy view of the map, in its storage shape and dtype (little-endian).

        f16 is float16, bf16 its bits as uint16, a format u8 [rows, blocks, bytes of a block]. Errors: F105, F106, F107.
        """
        found = self.info(name)
        dtype = np.dtype(found.element.dtype).newbyteorder("<")
        if name in self.derived:
            made = np.ascontiguousarray(self.derived[name].make(), dtype)
            assert made.shape == found.storage_shape, (name, made.shape, found)
            made.flags.writeable = False
            return made
        return np.frombuffer(self.bytes_of(name), dtype).reshape(found.storage_shape)

    def blob(self, name: str) -> Blob:
        """Return a tensor as a constant of the graph: its digest now, its bytes when they are read.

        The bytes stay in the map: keep the checkpoint open while the graph reads them. Errors: F105, F106, F107.
        """
        found = self.info(name)
        if name in self.derived:
            return Blob(hashlib.sha256(self.bytes_of(name)).digest(), found.size, lambda: self.bytes_of(name))
        part = self.parts[found.part]
        place = (found.offset, found.size)
        digest = part.digests.ranges.get(place)
        if digest is None:
            digest = part.hash(*place)
            part.digests.remember(ranges={place: digest})
            if len(part.digests.ranges) == sum(info.part == found.part for info in self.tensors.values()):
                part.digests.save()
        return Blob(digest, found.size, lambda: self.bytes_of(name))

    def let_go(self, name: str) -> None:
        """Let the system take back the memory of a tensor that was read; who reads it again gets it again."""
        found = self.info(name)
        if name in self.derived or not hasattr(mmap, "MADV_DONTNEED"):
            return
        first = -(-found.offset // mmap.PAGESIZE) * mmap.PAGESIZE
        size = (found.offset + found.size) // mmap.PAGESIZE * mmap.PAGESIZE - first
        if size > 0:
            self.parts[found.part].file.data.madvise(mmap.MADV_DONTNEED, first, size)

    def close(self) -> None:
        """Write new digests to the cache and close the files. Views that were handed out stay valid."""
        for part in self.parts:
            part.digests.save()
            part.file.close()

    def __enter__(self) -> "Checkpoint":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shown(name: object) -> str:
    """Return a path, key or tensor name for a message: in backquotes, control characters escaped, at most 80 long."""
    text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(name)[:400])
    return f"`{text}`" if len(text) <= 80 else f"`{text[:50]}...{text[-27:]}`"


def _open(path: Path) -> int:
    """Return a descriptor of the path, opened so that a pipe does not block."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags)
    except (FileNotFoundError, NotADirectoryError) as fault:
        raise BitternError(NOT_FOUND, f"{shown(path)} does not exist.", "Check the path.") from fault
    except PermissionError as fault:
        raise BitternError(
            NO_ACCESS, f"{shown(path)} may not be read by this user.", "Change its permissions or copy it."
        ) from fault
    except (OSError, ValueError) as fault:
        raise BitternError(NO_ACCESS, f"{shown(path)} cannot be opened: {fault}.", "Check the path.") from fault


def _identity(path: Path, status: os.stat_result) -> Identity:
    kinds = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    if not stat.S_ISREG(status.st_mode):
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
        raise BitternError(NOT_A_FILE, f"{shown(path)} is {kind}.", "Give the path of a file.")
    if status.st_size == 0:
        raise BitternError(EMPTY, f"{shown(path)} has 0 bytes.", "Download the file again.")
    return Identity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def _digest_of(text: str) -> bytes:
    """Return the 32 bytes that a cached digest spells. Errors: ValueError, TypeError for anything else."""
    digest = bytes.fromhex(text)
    if len(digest) != 32:
        raise ValueError(text)
    return digest
