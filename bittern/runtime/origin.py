"""Where a model comes from: its file, its digest, and whether that is the digest it should have."""

from collections.abc import Iterator
from typing import Any

from bittern.front.checkpoint import Checkpoint
from bittern.runtime.pinned import PINNED
from bittern.runtime.store import Store


def source_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return what is known of the file, as `source` of the report. pinned: the name that `bittern pull` has for it."""
    found = checkpoint.sha256
    pinned = next((row.name for row in PINNED.values() if row.sha256 == found), None)
    return {
        "path": str(checkpoint.path),
        "kind": checkpoint.kind,
        "size": checkpoint.size,
        "sha256": found,
        "sha256_origin": checkpoint.sha256_origin,
        "pinned": pinned,
    }


def name_of(checkpoint: Checkpoint, store: Store | None) -> str:
    """Return what people call the file: the name in the store, whose files are named by digest, else the file's own."""
    stored = [] if store is None else store.models()
    return next((entry.name for entry in stored if entry.path == checkpoint.path), checkpoint.path.stem)


def warnings_of(checkpoint: Checkpoint, store: Store | None, positions: int) -> list[str]:
    """Return what a user should know before the model runs.

    A pinned model (by size, or by its place in the store) whose digest differs; more positions than it was trained on.
    """
    warnings = list(_other_digests(checkpoint, store))
    trained = checkpoint.metadata.get(f"{checkpoint.metadata.get('general.architecture')}.context_length")
    if isinstance(trained, int) and positions > trained:
        warnings.append(f"The run needs {positions} positions, but the model was trained on {trained}.")
    return warnings


def _other_digests(checkpoint: Checkpoint, store: Store | None) -> Iterator[str]:
    found = checkpoint.sha256
    stored = [] if store is None else store.models()
    wanted = {row.name: row.sha256 for row in PINNED.values() if row.size == checkpoint.size}
    wanted |= {entry.name: entry.sha256 for entry in stored if entry.path == checkpoint.path}
    for name, sha256 in wanted.items():
        if sha256 != found:
            yield (
                f"{checkpoint.path} should be the model `{name}` with SHA-256 {sha256}, but it has {found}: its bytes "
                f"were changed. `bittern pull {name}` fetches it again."
            )
