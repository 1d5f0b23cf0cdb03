"""Binding a checkpoint at a start: from an outline that an earlier start kept, or from the checkpoint and its program.

The key of an outline is the digest of all that binding depends on: the file's SHA-256 (its metadata, table of tensors
and weights), the element of the cache, and every source of Bittern. So an outline, and every plan that is kept under
its key, can only be found for what it was made of.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bittern.base.errors import BitternError, code
from bittern.base.hashing import digest
from bittern.chips.machine.assembler import Code
from bittern.chips.machine.code_cache import CodeCache, program_version
from bittern.front.bound import CACHES, Bound, Outline, Program
from bittern.front.checkpoint import Checkpoint
from bittern.plan.kept import from_bytes, to_bytes
from bittern.runtime.store import Store

if TYPE_CHECKING:
    from bittern.lang.library import Library

BAD_CACHE = code("R106", "unknown element of the cache")
NO_FOLDER = code("R112", "there is no folder of programs at this place")


def bound_model(checkpoint: Checkpoint, cache: str, library: Sequence[Path] = (), store: Store | None = None) -> Bound:
    """Return the program of a checkpoint with its constants.

    library: folders before Bittern's. store: where the outline is kept; it is made, and kept, where it is missing. What
    comes from folders of the user, a checkpoint's or a library's, is always bound anew. Raises M1xx, E212, R106, R112.
    """
    if cache not in CACHES:
        raise BitternError(BAD_CACHE, f"There is no cache of `{cache}`.", f"Known: {', '.join(CACHES)}.")
    if store is None or library or checkpoint.folder is not None:
        return _bound(checkpoint, cache, library)
    key = digest(("bound", checkpoint.kind, checkpoint.sha256, cache, program_version())).hex()
    entries = CodeCache(store.root / "code")
    outline = _kept(entries, key)
    if outline is None:
        made = _bound(checkpoint, cache, library, key)
        entries.save(key, Code(to_bytes(made.outline), 0, 1, {}))
        return made

    def program(library: "Library") -> Program:
        from bittern.front.bind import program_of

        return program_of(checkpoint, library, cache)

    return Bound(checkpoint, outline, lambda: library_of(()), program, key)


def library_of(folders: Sequence[Path]) -> "Library":
    """Return the standard library with folders before it. Raises R112."""
    from bittern.lang.library import Library

    for folder in folders:
        if not folder.is_dir():
            raise BitternError(
                NO_FOLDER, f"There is no folder `{folder}`.", "A library is a folder with `.btn` programs."
            )
    return Library.standard(*folders)


def _bound(checkpoint: Checkpoint, cache: str, folders: Sequence[Path], key: str = "") -> Bound:
    from bittern.front.bind import bind_checkpoint

    made = bind_checkpoint(checkpoint, library_of(folders), cache)
    made.key = key
    return made


def _kept(entries: CodeCache, key: str) -> Outline | None:
    """Return a kept outline, or None where there is no whole entry that is this user's own."""
    found = entries.load(key)
    if found is None:
        return None
    try:
        outline = from_bytes(found.data)
    except Exception:  # whatever is wrong with it, it is made again
        return None
    return outline if isinstance(outline, Outline) else None
