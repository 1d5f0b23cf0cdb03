"""The store: whole files or none, digests that notice a change, caches that survive damage."""

import errno
import os
from pathlib import Path

import pytest

from bittern.base.errors import BitternError
from bittern.runtime.store import Entry, Store, hash_file, storage

OLD = 1_600_000_000  # a time long ago: a file of that age is settled


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that has not changed for long."""
    path = tmp_path / "data"
    path.write_bytes(b"abc")
    os.utime(path, (OLD, OLD))
    return path


ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-4, "abc"


def test_digest_is_hashed_once(store: Store, file: Path) -> None:
    first = store.digest(file)
    second = store.digest(file)
    assert (first.sha256, first.size, first.cached) == (ABC, 3, False)
    assert (second.sha256, second.size, second.cached) == (ABC, 3, True)
    assert not store.digest(file, fresh=True).cached


def test_digest_notices_a_change_of_equal_size_and_time(store: Store, file: Path) -> None:
    store.digest(file)
    file.write_bytes(b"abd")
    os.utime(file, (OLD, OLD))
    again = store.digest(file)
    assert not again.cached
    assert again.sha256 != ABC


def test_digest_of_a_young_file_is_not_kept(store: Store, file: Path) -> None:
    file.write_bytes(b"abc")
    store.digest(file)
    assert not store.digest(file).cached


def test_digest_notices_a_replaced_file(store: Store, file: Path) -> None:
    store.digest(file)
    other = file.with_name("other")
    other.write_bytes(b"xyz")
    os.utime(other, (OLD, OLD))
    os.replace(other, file)
    assert store.digest(file).sha256 != ABC


def test_a_damaged_digest_record_is_not_believed(store: Store, file: Path) -> None:
    store.digest(file)
    (record,) = (store.root / "digests").iterdir()
    record.write_text("0" * 63)
    assert store.digest(file).sha256 == ABC


def test_digest_of_a_missing_file(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BitternError, match="S101.*nothing"):
        store.digest(tmp_path / "nothing")


def test_derived_is_made_once_and_again_after_damage(store: Store) -> None:
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b"value"

    for _ in range(2):
        assert store.derived("kind-1", ABC, make) == b"value"
    assert len(made) == 1
    path = store.root / "derived" / "kind-1" / ABC
    path.write_bytes(path.read_bytes()[:-1] + b"X")
    assert store.derived("kind-1", ABC, make) == b"value"
    assert len(made) == 2
    assert store.derived("kind-2", ABC, make) == b"value"
    assert len(made) == 3


def test_a_store_that_cannot_be_made_remembers_nothing_but_serves(file: Path) -> None:
    store = Store(file / "below a file")
    assert store.derived("kind-1", ABC, lambda: b"value") == b"value"
    assert store.digest(file).sha256 == ABC
    assert store.model("tiny") is None
    assert store.models() == []
    with pytest.raises(BitternError, match="S101"):
        store.folder("models")


def entry(store: Store, name: str, data: bytes) -> Entry:
    """Adopt a small model."""
    complete = store.folder("tmp") / "complete"
    complete.write_bytes(data)
    digest = hash_file(complete)
    return store.adopt(complete, Entry(name, complete, len(data), digest, "Free"))


def test_adopt_gives_name_and_known_digest(store: Store) -> None:
    placed = entry(store, "tiny", b"abc")
    assert placed.path == store.root / "models" / f"{ABC}.gguf"
    assert store.model("tiny") == placed
    assert store.models() == [placed]
    assert store.digest(placed.path).cached


def test_forget_keeps_what_another_name_needs(store: Store) -> None:
    first, second = entry(store, "one", b"abc"), entry(store, "two", b"abc")
    assert first.path == second.path
    store.forget("one")
    assert store.models() == [second]
    store.forget("two")
    assert not second.path.exists()
    store.forget("two")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"size": 1}', "\xff"])
def test_a_damaged_name_is_no_model(store: Store, text: str) -> None:
    entry(store, "tiny", b"abc")
    (store.root / "names" / "tiny.json").write_bytes(text.encode("latin-1"))
    assert store.model("tiny") is None


def test_a_failed_write_leaves_the_old_file(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.folder("names") / "kept"
    store.write(path, b"old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BitternError, match="S102"):
        store.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list((store.root / "tmp").iterdir()) == []


def test_one_writer_at_a_time(store: Store) -> None:
    with store.exclusive("a"):
        with store.exclusive("b"):
            pass
        with pytest.raises(BitternError, match="S103.*`a`"), store.exclusive("a"):
            pass
    with store.exclusive("a"):
        pass


def test_storage_names_path_and_reason() -> None:
    with (
        pytest.raises(BitternError, match="S101: /x cannot be read or written: Permission denied"),
        storage(Path("/x")),
    ):
        raise OSError(errno.EACCES, "Permission denied")
