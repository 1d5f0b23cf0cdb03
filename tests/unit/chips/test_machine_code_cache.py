"""Code on disk: found again, whole or not at all, by what made it, by this user alone, within its limit."""

import os
from pathlib import Path

import pytest

from bittern.chips.machine.assembler import Code
from bittern.chips.machine.code_cache import CodeCache, code_key, compiler_version

CODE = Code(
    bytes(range(256)) * 3, 700, 64, {"more": 16, "Ωmega": 32}, ((0, "node a"), (16, "node b")), (("x", 64), ("n", 1))
)
KEY = code_key("kernel", "avx2", "compiler")


def refused() -> Code:
    """Stand for a compiler that must not be called."""
    raise AssertionError("compiled again")


def test_code_is_made_once(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path / "derived" / "code")
    assert cache.code(KEY, lambda: CODE) == CODE
    assert cache.code(KEY, refused) == CODE
    assert CodeCache(cache.folder).code(KEY, refused) == CODE
    assert (cache.made, cache.found) == (1, 1)
    assert [path.name for path in cache.folder.iterdir()] == [KEY], "nothing else is left behind"


def test_the_key_tells_everything_apart() -> None:
    keys = {code_key(kernel, tier, compiler) for kernel in ("a", "b") for tier in ("sse2", "avx2") for compiler in "12"}
    assert len(keys) == 8 and all(len(key) == 64 for key in keys)


def test_every_change_of_the_compiler_is_another_version(tmp_path: Path) -> None:
    for name in ("one", "two", "three", "four"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "a.py").write_text("x = 1\n")
        (tmp_path / name / "deep" / "b.py").write_text("y = 2\n")
    (tmp_path / "two" / "deep" / "b.py").write_text("y = 3\n")
    (tmp_path / "three" / "deep" / "b.py").rename(tmp_path / "three" / "deep" / "c.py")
    (tmp_path / "four" / "data.txt").write_text("no source")
    one, two, three, four = (compiler_version(tmp_path / name) for name in ("one", "two", "three", "four"))
    assert one == four and len({one, two, three}) == 3
    assert compiler_version(tmp_path / "one", tmp_path / "two") not in (one, two)


@pytest.mark.parametrize("position", [0, 31, 32, 35, 36, 40, 100, 300, -1])
def test_a_damaged_entry_is_made_again(tmp_path: Path, position: int) -> None:
    cache = CodeCache(tmp_path)
    cache.save(KEY, CODE)
    entry = bytearray((tmp_path / KEY).read_bytes())
    entry[position] ^= 1
    (tmp_path / KEY).write_bytes(entry)
    assert cache.load(KEY) is None
    assert cache.code(KEY, lambda: CODE) == CODE
    assert cache.code(KEY, refused) == CODE, "and whole again"


@pytest.mark.parametrize("size", [0, 10, 32, 34, 50, 400, 100_000])
def test_a_cut_or_grown_entry_is_ignored(tmp_path: Path, size: int) -> None:
    cache = CodeCache(tmp_path)
    cache.save(KEY, CODE)
    entry = (tmp_path / KEY).read_bytes()
    (tmp_path / KEY).write_bytes(entry[:size] if size < len(entry) else entry.ljust(size, b"\0"))
    assert cache.load(KEY) is None


def test_any_bit_of_an_entry_is_checked(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path)
    cache.save(KEY, Code(b"\xc3", 1, 1, {}))
    entry = (tmp_path / KEY).read_bytes()
    for bit in range(0, 8 * len(entry), 5):
        damaged = bytearray(entry)
        damaged[bit // 8] ^= 1 << bit % 8
        (tmp_path / KEY).write_bytes(damaged)
        assert cache.load(KEY) is None, bit


def test_an_entry_under_another_name_is_ignored(tmp_path: Path) -> None:
    cache, other = CodeCache(tmp_path), code_key("kernel", "avx512", "compiler")
    cache.save(KEY, CODE)
    os.rename(tmp_path / KEY, tmp_path / other)
    assert cache.load(other) is None and cache.load(KEY) is None


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no owners of files")
def test_what_others_may_write_is_not_run(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path / "code")
    cache.save(KEY, CODE)
    os.chmod(cache.folder / KEY, 0o666)
    assert cache.load(KEY) is None
    os.chmod(cache.folder / KEY, 0o600)
    assert cache.load(KEY) == CODE
    os.chmod(cache.folder, 0o777)
    assert cache.load(KEY) is None and not cache.save(KEY, CODE)
    os.chmod(cache.folder, 0o700)
    os.rename(cache.folder / KEY, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", cache.folder / KEY)
    assert cache.load(KEY) is None


def test_a_cache_that_cannot_be_written_only_forgets(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    cache = CodeCache(tmp_path / "file")
    assert cache.code(KEY, lambda: CODE) == CODE
    assert not cache.save(KEY, CODE) and cache.load(KEY) is None
    assert cache.code(KEY, lambda: CODE) == CODE and cache.made == 2


def test_the_oldest_entries_go(tmp_path: Path) -> None:
    cache = CodeCache(tmp_path, limit=50_000)
    keys = [code_key(str(number), "avx2", "compiler") for number in range(20)]
    for number, key in enumerate(keys):
        cache.save(key, Code(bytes(10_000), 10_000, 1, {}))
        os.utime(tmp_path / key, ns=(number * 10**9, number * 10**9))
        cache.load(keys[0])  # which makes it young
    left = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert left <= 50_000 + 50_000 // 8
    assert (tmp_path / keys[0]).exists() and (tmp_path / keys[-1]).exists() and not (tmp_path / keys[1]).exists()
    assert CodeCache(tmp_path, limit=0).save(KEY, CODE) and not list(tmp_path.iterdir())


def test_a_cache_that_trusts_what_it_reads_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: the digest is not compared, so a flipped bit of the code comes through."""
    import hashlib

    from bittern.chips.machine import code_cache

    cache = CodeCache(tmp_path)
    cache.save(KEY, CODE)
    entry = bytearray((tmp_path / KEY).read_bytes())
    entry[-1] ^= 1
    (tmp_path / KEY).write_bytes(entry)
    stored = bytes(entry[:32])

    class Trusting:
        """A digest that always fits."""

        def digest(self) -> bytes:
            """Return the stored digest."""
            return stored

    assert hashlib.sha256(entry[32:]).digest() != stored
    monkeypatch.setattr(code_cache.hashlib, "sha256", lambda _: Trusting())
    found = cache.load(KEY)
    assert found is not None and found != CODE
