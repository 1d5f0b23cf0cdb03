"""The store: one folder that holds models by their digest, and caches that may be deleted at any time.

    models/<sha256>.gguf    model files, complete and checked before they get this name
    models/<sha256>/        models that are folders, likewise
    names/<name>.json       which model a name stands for
    digests/<key>           the SHA-256 of a large file elsewhere, by device, inode, size and times
    derived/<kind>/<key>    what is expensive to make, by the digest of what it was made from
    parts/, tmp/, locks/    downloads that can be continued, files being written, who is writing

Every file is written beside its place, synced and renamed, so a reader sees a whole file or none. The store takes its
root as an argument: which folder that is, the command line decides.
"""

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import Any

from bittern.base.errors import BitternError, code
from bittern.base.hashing import digest as digest_of
from bittern.base.progress import Progress

UNWRITABLE = code("S101", "the store cannot be read or written")
DISK_FULL = code("S102", "the disk is full")
HELD = code("S103", "another process is writing this part of the store")

_BLOCK = 1 << 20  # bytes read at a time
_SETTLED = 2_000_000_000  # ns: a file changed this recently may change again without its times showing it


@dataclass(frozen=True, slots=True)
class FileDigest:
    """What a file holds: SHA-256 in hexadecimal, size in bytes, and whether the digest came from the cache."""

    sha256: str
    size: int
    cached: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """A model in the store. accepted: the licence word that the user gave, or ""."""

    name: str
    path: Path
    size: int
    sha256: str
    licence: str
    accepted: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the entry as the object that `--json` prints."""
        return {
            "name": self.name,
            "path": str(self.path),
            "size": self.size,
            "sha256": self.sha256,
            "licence": self.licence,
            "accepted": self.accepted,
        }


@dataclass(frozen=True, slots=True)
class Store:
    """The store under a root folder, which is made when something is first written."""

    root: Path

    def folder(self, *names: str) -> Path:
        """Return a folder of the store, made if it was missing. Errors: S101."""
        path = self.root.joinpath(*names)
        with storage(path):
            path.mkdir(parents=True, exist_ok=True)
        return path

    def model(self, name: str) -> Entry | None:
        """Return the model of this name if the store holds its file or folder; its bytes are not looked at."""
        record = self._record(name)
        if record is None:
            return None
        folder = self.root / "models" / str(record["sha256"])
        path = folder if folder.is_dir() else folder.with_name(f"{folder.name}.gguf")
        entry = Entry(
            name=name,
            path=path,
            size=int(record["size"]),
            sha256=str(record["sha256"]),
            licence=str(record["licence"]),
            accepted=str(record["accepted"]),
        )
        return entry if path.is_dir() or path.is_file() else None

    def models(self) -> list[Entry]:
        """Return all models of the store by name."""
        names = sorted(path.stem for path in (self.root / "names").glob("*.json"))
        return [entry for entry in map(self.model, names) if entry is not None]

    def adopt(self, complete: Path, entry: Entry) -> Entry:
        """Give a complete, checked and synced file or folder its place and its name. Errors: S101, S102.

        complete: in the store's tmp/. entry: its name, size and digest; the path is set here.
        """
        is_folder = complete.is_dir()
        path = self.folder("models") / (entry.sha256 if is_folder else f"{entry.sha256}.gguf")
        with storage(path):
            if is_folder:
                _sync_folder(complete)
                _remove(path)  # an earlier one that was found to be changed
            os.replace(complete, path)
            _sync_folder(path.parent)
        placed = Entry(entry.name, path, entry.size, entry.sha256, entry.licence, entry.accepted)
        if not is_folder:
            self._remember(path, entry.sha256)
        record = placed.as_json()
        del record["path"], record["name"]
        self.write(self.folder("names") / f"{entry.name}.json", json.dumps(record, indent=1).encode())
        return placed

    def forget(self, name: str) -> None:
        """Remove a name; the model's file or folder stays if another name stands for it."""
        entry = self.model(name)
        (self.root / "names" / f"{name}.json").unlink(missing_ok=True)
        if entry is not None and all(other.sha256 != entry.sha256 for other in self.models()):
            _remove(entry.path)

    def digest(self, path: Path, *, fresh: bool = False, progress: Progress | None = None) -> FileDigest:
        """Return the SHA-256 of a file, from the cache if its device, inode, size and times are known.

        fresh: hash the bytes now whatever the cache says. Errors: S101 if the file cannot be read.
        """
        with storage(path):
            before = path.stat()
            known = None if fresh else self._recall(before)
            if known is not None:
                return FileDigest(known, before.st_size, True)
            sha256 = hash_file(path, progress)
            after = path.stat()
        if _key(before) == _key(after) and time_ns() - after.st_mtime_ns > _SETTLED:
            self._remember(path, sha256)
        return FileDigest(sha256, after.st_size, False)

    def derived(self, kind: str, source: str, make: Callable[[], bytes]) -> bytes:
        """Return what `make` gives, remembered under a kind and the digest of what it is made from.

        kind: a word with a version, such as `tokenizer-1`. source: SHA-256 in hexadecimal of everything that enters.
        A damaged entry is made again; a store that cannot be written only means that nothing is remembered.
        """
        path = self.root / "derived" / kind / source
        with suppress(OSError):
            data = path.read_bytes()
            if hashlib.sha256(data[32:]).digest() == data[:32]:
                return data[32:]
        made = make()
        with suppress(BitternError):
            self.folder("derived", kind)
            self.write(path, hashlib.sha256(made).digest() + made)
        return made

    def write(self, path: Path, data: bytes) -> None:
        """Write a whole file or nothing. Errors: S101, S102."""
        temporary = self.folder("tmp")
        with storage(path):
            handle, name = tempfile.mkstemp(dir=temporary)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    sync(file)
                os.replace(name, path)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise

    @contextmanager
    def exclusive(self, name: str) -> Iterator[None]:
        """Hold the right to write `name` for the time of the `with` block. Errors: S103 if another process has it."""
        path = self.folder("locks") / name
        with storage(path):
            file = path.open("wb")
        with file:
            if not _lock(file.fileno()):
                raise BitternError(HELD, f"Another process is writing `{name}` to {self.root}.", "Wait until it ends.")
            yield

    def _record(self, name: str) -> dict[str, Any] | None:
        path = self.root / "names" / f"{name}.json"
        try:
            record = json.loads(path.read_bytes())
            complete = {"size", "sha256", "licence", "accepted"} <= record.keys()
        except (OSError, ValueError, AttributeError):
            return None
        return record if complete else None

    def _recall(self, state: os.stat_result) -> str | None:
        try:
            text = (self.root / "digests" / _key(state)).read_text("ascii")
        except (OSError, ValueError):
            return None
        return text if len(text) == 64 and set(text) <= set("0123456789abcdef") else None

    def _remember(self, path: Path, sha256: str) -> None:
        with suppress(OSError, BitternError):
            self.write(self.folder("digests") / _key(path.stat()), sha256.encode("ascii"))


def hash_file(path: Path, progress: Progress | None = None, title: str = "") -> str:
    """Return the SHA-256 of a file in hexadecimal, read from its start to its end. title: how progress calls it."""
    state = hashlib.sha256()
    buffer = memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        with (progress or Progress()).task(title or f"hash {path.name}", size, "B") as task:
            while count := file.readinto(buffer):
                state.update(buffer[:count])
                task.advance(count)
    return state.hexdigest()


@contextmanager
def storage(path: Path) -> Iterator[None]:
    """Turn failures of the file system in the block into coded errors that name the path. Errors: S101, S102."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BitternError(DISK_FULL, f"No space is left for {path}.", "Free space and run it again.") from error
        raise BitternError(
            UNWRITABLE,
            f"{path} cannot be read or written: {error.strerror or error}.",
            "Mend its permissions, or name another folder in BITTERN_HOME.",
        ) from error


def sync(file: Any) -> None:
    """Bring an open file to the disk."""
    file.flush()
    os.fsync(file.fileno())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_folder(path: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _key(state: os.stat_result) -> str:
    """Name the state of a file: the same name means the same bytes, as far as the file system can tell."""
    identity = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return digest_of(("file", *identity)).hex()


def _lock(handle: int) -> bool:
    """Lock an open file without waiting; the lock ends with the process, however it ends."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
