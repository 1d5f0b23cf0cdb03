"""Checkpoints: opening, views, digests and their cache, files that change or are no files."""

import hashlib
import json
import os
import socket
import time
from pathlib import Path

import numpy as np
import pytest
from gguf_files import SAMPLES, build

from bittern.base.errors import BitternError
from bittern.front.checkpoint import Part, shown
from bittern.front.gguf import open_gguf

LONG_AGO = 1_600_000_000


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A small file that was not written just now."""
    path = tmp_path / "model.gguf"
    path.write_bytes(build(SAMPLES["all"])[0])
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def refused(path: Path) -> BitternError:
    """Return the error with which opening fails."""
    with pytest.raises(BitternError) as caught:
        open_gguf(path)
    return caught.value


def test_arrays_are_views_of_the_stored_bytes(model: Path) -> None:
    whole = model.read_bytes()
    with open_gguf(model) as checkpoint:
        for name, info in checkpoint.tensors.items():
            stored = whole[info.offset : info.offset + info.size]
            assert checkpoint.bytes_of(name) == stored and checkpoint.bytes_of(name).readonly
            array = checkpoint.array(name)
            assert array.tobytes() == stored and array.shape == info.storage_shape and not array.flags.writeable
            assert array.flags.aligned
        dtypes = {info.element.name: checkpoint.array(name).dtype for name, info in checkpoint.tensors.items()}
    expected = {"f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64, "i64": np.int64}
    assert {name: dtypes[name] for name in expected} == expected
    assert dtypes["q4_k"] == np.uint8


def test_blobs_know_their_bytes_by_digest_and_read_them_later(model: Path) -> None:
    with open_gguf(model) as checkpoint:
        blobs = {name: checkpoint.blob(name) for name in checkpoint.tensors}
        for name, blob in blobs.items():
            stored = bytes(checkpoint.bytes_of(name))
            assert (blob.digest, blob.size) == (hashlib.sha256(stored).digest(), len(stored))
            assert bytes(blob.read()) == stored
    with pytest.raises(BitternError, match="F106"):
        blobs["one"].read()


def digests(path: Path, cache: Path | None) -> tuple[str, str, dict[str, bytes]]:
    """Return the digest of the file, where it comes from, and the digests of all tensors."""
    with open_gguf(path, cache) as checkpoint:
        return (
            checkpoint.sha256,
            checkpoint.sha256_origin,
            {name: checkpoint.blob(name).digest for name in checkpoint.tensors},
        )


def test_digests_are_hashed_once_and_cached_after(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = digests(model, tmp_path / "cache")
    assert first[0] == hashlib.sha256(model.read_bytes()).hexdigest() and first[1] == "hashed now"
    monkeypatch.setattr(Part, "hash", None)  # nothing may be hashed again
    assert digests(model, tmp_path / "cache") == (first[0], "cached", first[2])


def test_without_a_cache_everything_is_hashed_now(model: Path, tmp_path: Path) -> None:
    assert digests(model, None)[1] == digests(model, None)[1] == "hashed now"
    assert list(tmp_path.iterdir()) == [model]


def test_another_content_is_hashed_again(model: Path, tmp_path: Path) -> None:
    before = digests(model, tmp_path / "cache")
    data = bytearray(model.read_bytes())
    data[-20] ^= 1
    model.write_bytes(data)
    os.utime(model, (LONG_AGO + 1, LONG_AGO + 1))
    after = digests(model, tmp_path / "cache")
    assert after[1] == "hashed now" and after[0] == hashlib.sha256(data).hexdigest() != before[0]
    assert digests(model, tmp_path / "cache")[:2] == (after[0], "cached")
    assert len(list((tmp_path / "cache" / "digests").iterdir())) == 1


def test_a_file_written_just_now_is_not_cached(model: Path, tmp_path: Path) -> None:
    os.utime(model)
    assert digests(model, tmp_path / "cache")[1] == digests(model, tmp_path / "cache")[1] == "hashed now"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 2}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": 1, "size": SIZE, "modified": TIME, "sha256": "abcd", "ranges": []}',
        b'{"version": 1, "size": SIZE, "modified": TIME, "sha256": 7, "ranges": []}',
        b'{"version": 1, "size": SIZE, "modified": TIME, "sha256": null, "ranges": [[0, 1]]}',
        b'{"version": 1, "size": SIZE, "modified": TIME, "sha256": null, "ranges": [[0, 1, "00"]]}',
    ],
)
def test_a_spoilt_cache_is_passed_over(content: bytes, model: Path, tmp_path: Path) -> None:
    true = digests(model, tmp_path / "cache")
    (place,) = (tmp_path / "cache" / "digests").iterdir()
    status = model.stat()
    content = content.replace(b"SIZE", b"%d" % status.st_size).replace(b"TIME", b"%d" % status.st_mtime_ns)
    place.write_bytes(content)
    assert digests(model, tmp_path / "cache") == true
    assert json.loads(place.read_bytes())["sha256"] == true[0]


def test_a_cache_that_cannot_be_written_changes_nothing(model: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    assert digests(model, tmp_path / "cache")[1] == digests(model, tmp_path / "cache")[1] == "hashed now"


def test_a_planted_lie_in_the_cache_is_believed_until_hashed_without_it(model: Path, tmp_path: Path) -> None:
    """Planted fault: shows that `cached` really comes from the cache, and that no cache means a true digest."""
    true = digests(model, tmp_path / "cache")[0]
    (place,) = (tmp_path / "cache" / "digests").iterdir()
    place.write_bytes(place.read_bytes().replace(true.encode(), b"0" * 64))
    assert digests(model, tmp_path / "cache")[:2] == ("0" * 64, "cached")
    assert digests(model, None)[:2] == (true, "hashed now")


def test_a_file_that_changes_while_it_is_open_is_refused(model: Path) -> None:
    with open_gguf(model) as checkpoint:
        checkpoint.bytes_of("one").release()
        with model.open("ab") as file:
            file.write(b"more")
        for use in (checkpoint.bytes_of, checkpoint.array, checkpoint.blob):
            with pytest.raises(BitternError, match="F105"):
                use("one")
        with pytest.raises(BitternError, match="F105"):
            _ = checkpoint.sha256


def test_a_file_cut_short_while_it_is_open_is_refused(model: Path) -> None:
    with open_gguf(model) as checkpoint:
        os.truncate(model, 100)
        with pytest.raises(BitternError, match="100 now"):
            checkpoint.bytes_of("one")


def test_a_file_that_is_replaced_stays_as_it_was_opened(model: Path) -> None:
    with open_gguf(model) as checkpoint:
        before = bytes(checkpoint.bytes_of("one"))
        other = model.with_suffix(".new")
        other.write_bytes(b"something else")
        os.replace(other, model)
        assert bytes(checkpoint.bytes_of("one")) == before


def test_views_outlive_the_checkpoint(model: Path) -> None:
    with open_gguf(model) as checkpoint:
        kept, copy = checkpoint.array("one"), checkpoint.array("one").copy()
        words = checkpoint.metadata["b.types"]
    assert np.array_equal(kept, copy) and isinstance(words, np.ndarray) and words.sum() == 13
    checkpoint.close()
    with pytest.raises(BitternError, match="F106"):
        checkpoint.array("one")


def test_an_unknown_tensor_is_named_with_its_nearest(model: Path) -> None:
    with open_gguf(model) as checkpoint, pytest.raises(BitternError) as caught:
        checkpoint.bytes_of("thre")
    assert (caught.value.code, "`three`" in caught.value.remedy) == ("F107", True)


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refused(tmp_path / "missing").code == "F101"
    (tmp_path / "file").write_bytes(b"x")
    assert refused(tmp_path / "file" / "below").code == "F101"
    error = refused(tmp_path)
    assert (error.code, "is a directory" in error.what) == ("F102", True)
    os.mkfifo(tmp_path / "pipe")
    start = time.monotonic()
    error = refused(tmp_path / "pipe")
    assert (error.code, "is a pipe" in error.what) == ("F102", True) and time.monotonic() - start < 5
    assert refused(Path(os.devnull)).code == "F102"
    (tmp_path / "empty").touch()
    assert refused(tmp_path / "empty").code == "F104"
    os.symlink("round", tmp_path / "round")
    assert refused(tmp_path / "round").code == "F103"
    assert refused(tmp_path / "nul\0byte").code == "F103"
    assert refused(tmp_path / ("n" * 5000)).code == "F103"
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(tmp_path)  # because the path of a socket may have 107 bytes at most
        listener.bind("socket")
        assert refused(tmp_path / "socket").code in ("F102", "F103")


def test_a_file_without_permission_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        model.chmod(0)
    else:  # root may read everything

        def denied(*_: object) -> int:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("bittern.front.checkpoint.os.open", denied)
    error = refused(model)
    assert (error.code, "permissions" in error.remedy) == ("F103", True)


def test_a_file_that_cannot_be_mapped_is_refused(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object, **__: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("bittern.front.checkpoint.mmap.mmap", denied)
    assert refused(model).code == "F103"


def test_names_are_shown_short_and_harmless() -> None:
    assert shown("blk.0") == "`blk.0`"
    assert shown("a\x1b\n\u202e\u00e9") == "`a\\x1b\\n\\u202e\u00e9`"
    assert len(shown("n" * 10**6)) == len(shown("\0" * 10**6)) == 82
