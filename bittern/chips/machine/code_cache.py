"""Compiled code on disk, by what it was compiled from, so that a second start compiles nothing.

    key = code_key(kernel.id, tier.name, compiler_version(bitops, machine, x86))
    code = cache.code(key, lambda: compile_kernel(kernel, tier).code)

An entry is one file: the SHA-256 of the rest, a header (JSON), the bytes of the code. It is written beside its place
and renamed, so a reader sees a whole entry or none; it is not synced, since a damaged one is noticed by its digest,
ignored and made again. What other users may write is never run: folder and entries must belong to this user alone. A
cache that cannot be read or written only means that nothing is remembered. The oldest entries go when there are too
many bytes; reading an entry makes it young.
"""

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from bittern.base.hashing import digest
from bittern.chips.machine.assembler import Code

_FORMAT = 1
LIMIT = 64 << 20  # bytes of all entries


def code_key(kernel: str, tier: str, compiler: str) -> str:
    """Return the key of a kernel's code, SHA-256 in hexadecimal.

    kernel: its id. tier: the name of the tier that it is compiled for. compiler: the version of everything that turns
    the one into the other.
    """
    return digest(("code", _FORMAT, kernel, tier, compiler)).hex()


@cache
def compiler_version(*folders: Path) -> str:
    """Return what stands for the Python sources of these folders, all below them included: SHA-256 in hexadecimal.

    So code made by another state of the compiler is never found, without anybody counting versions.
    """
    files = [(path.relative_to(folder), path) for folder in folders for path in folder.rglob("*.py")]
    return digest(("sources", *[(name.as_posix(), path.read_bytes()) for name, path in sorted(files)])).hex()


@cache
def program_version(root: Path = Path(__file__).parents[2]) -> str:
    """Return what stands for all of Bittern, programs of its library included: SHA-256 in hexadecimal."""
    files = [path for path in root.rglob("*") if path.suffix in (".py", ".btn")]
    whole = hashlib.sha256()
    for path in sorted(files):
        data = path.read_bytes()
        whole.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()


class CodeCache:
    """The entries in one folder, which is made when something is first written.

    limit: bytes that all entries may take together.
    """

    def __init__(self, folder: Path, limit: int = LIMIT) -> None:
        self.folder: Final = folder
        self.limit: Final = limit
        self.found = 0  # entries read
        self.made = 0  # entries that had to be compiled
        self._written: int | None = None  # bytes since the entries were last counted

    def code(self, key: str, make: Callable[[], Code]) -> Code:
        """Return the code of this key from the cache, or make and remember it."""
        found = self.load(key)
        if found is not None:
            self.found += 1
            return found
        made = make()
        self.made += 1
        self.save(key, made)
        return made

    def load(self, key: str) -> Code | None:
        """Return the code of this key, or None where there is no entry that is whole and this user's own."""
        path = self._path(key)
        try:
            if not (_is_ours(self.folder) and _is_ours(path)):
                return None
            entry = path.read_bytes()
            found = _decode(key, entry)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        with suppress(OSError):
            os.utime(path)
        return found

    def save(self, key: str, code: Code) -> bool:
        """Remember the code; return whether that went well."""
        entry = _encode(key, code)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(self.folder):
                return False
            handle, name = tempfile.mkstemp(dir=self.folder, prefix="new-")  # readable and writable by this user alone
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(entry)
                os.replace(name, self._path(key))
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError:
            return False
        if self._written is None or self._written + len(entry) > self.limit // 8:
            self._trim()
            self._written = 0
        else:
            self._written += len(entry)
        return True

    def _path(self, key: str) -> Path:
        assert len(key) == 64 and set(key) <= set("0123456789abcdef"), key
        return self.folder / key

    def _trim(self) -> None:
        """Remove the oldest entries until the others are within the limit."""
        entries = []
        with suppress(OSError):
            for entry in os.scandir(self.folder):
                with suppress(OSError):  # another process may remove it meanwhile
                    state = entry.stat(follow_symlinks=False)
                    entries.append((state.st_mtime_ns, state.st_size, entry.path))
        left = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if left <= self.limit:
                break
            with suppress(OSError):
                os.unlink(path)
            left -= size


def _is_ours(path: Path) -> bool:
    """Say whether this user owns a file or folder and nobody else may write to it."""
    state = os.lstat(path)
    if stat.S_ISLNK(state.st_mode):
        return False
    return not hasattr(os, "getuid") or (state.st_uid == os.getuid() and not state.st_mode & 0o022)


def _encode(key: str, code: Code) -> bytes:
    header = {
        "format": _FORMAT,
        "key": key,
        "size": code.size,
        "alignment": code.alignment,
        "places": dict(code.places),
        "marks": [list(mark) for mark in code.marks],
        "arguments": [list(argument) for argument in code.arguments],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    body = len(text).to_bytes(4, "little") + text + code.data
    return hashlib.sha256(body).digest() + body


def _decode(key: str, entry: bytes) -> Code:
    """Return the code of an entry. ValueError, KeyError or TypeError: it is none of this key, or damaged."""
    body = entry[32:]
    if hashlib.sha256(body).digest() != entry[:32]:
        raise ValueError("the digest differs")
    start = 4 + int.from_bytes(body[:4], "little")
    header = json.loads(body[4:start])
    if header["format"] != _FORMAT or header["key"] != key:
        raise ValueError("an entry of another key")
    marks = tuple((int(offset), str(text)) for offset, text in header["marks"])
    arguments = tuple((str(name), int(boundary)) for name, boundary in header["arguments"])
    return Code(body[start:], int(header["size"]), int(header["alignment"]), dict(header["places"]), marks, arguments)
