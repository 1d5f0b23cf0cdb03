"""Split GGUF files: parts become one checkpoint; a missing, foreign or lying part is refused by its name and code."""

import hashlib
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gguf_files as g
import numpy as np
import pytest
import tiny_models

from bittern.base.errors import CODES, BitternError
from bittern.front import gguf, gguf_split
from bittern.front.checkpoint import Checkpoint, Value
from bittern.front.gguf import open_gguf
from bittern.front.gguf_write import Stored, stored_tensors, write_gguf, write_gguf_parts
from bittern.types.elements import ELEMENTS

LONG_AGO = 1_600_000_000
KEYS = ("split.no", "split.count", "split.tensors.count")
LIMIT = 26_000  # bytes of a part, for three of them


def written(folder: Path, data: bytes, limit: int = LIMIT) -> list[Path]:
    """Write a model as parts."""
    whole = tiny_models.save(folder, data, "whole.gguf")
    with open_gguf(whole) as checkpoint:
        paths = write_gguf_parts(folder / "m.gguf", checkpoint.metadata, stored_tensors(checkpoint), limit)
    whole.rename(folder / "whole.bin")
    return paths


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    """A tiny model in three parts."""
    paths = written(tmp_path, tiny_models.llama(), LIMIT)
    assert [path.name for path in paths] == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    return paths


def refusal(path: Path) -> BitternError:
    """Return the error with which opening fails; nothing stays open."""
    before = _open_files()
    with pytest.raises(BitternError) as caught:
        open_gguf(path)
    assert _open_files() == before
    return caught.value


def _open_files() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def rewritten(path: Path, facts: dict[str, Value | None], drop: int = 0, types: dict[str, str] | None = None) -> None:
    """Change the metadata of a part, and leave out some of its tensors."""
    with open_gguf_alone(path) as part:
        metadata = {key: value for key, value in {**part.metadata, **facts}.items() if value is not None}
        kept = [Stored(r.name, r.element, r.shape, partial(bytes, bytes(r.read()))) for r in stored_tensors(part)]
    write_gguf(path, metadata, kept[drop:], types)


def open_gguf_alone(path: Path) -> Checkpoint:
    """Open one part without its siblings."""
    return gguf._open_file(path, None)


@pytest.mark.parametrize("given", [0, 1, 2])
def test_parts_are_one_checkpoint_whichever_is_named(given: int, parts: list[Path]) -> None:
    shutil.copy(parts[0].with_name("whole.bin"), parts[0].with_name("whole.gguf"))
    with open_gguf(parts[given]) as split, open_gguf(parts[0].with_name("whole.gguf")) as whole:
        assert split.path == parts[0] and len(split.parts) == 3
        assert [part.file.path for part in split.parts] == parts
        assert split.size == sum(path.stat().st_size for path in parts)
        assert list(split.tensors) == list(whole.tensors)
        assert {info.part for info in split.tensors.values()} == {0, 1, 2}
        for name, info in whole.tensors.items():
            assert split.tensors[name].shape == info.shape and split.bytes_of(name) == whole.bytes_of(name)
            assert np.array_equal(split.array(name), whole.array(name))
            assert split.blob(name).digest == whole.blob(name).digest
        assert {k: v for k, v in split.metadata.items() if not k.startswith("split.")} == dict(whole.metadata)


def test_the_split_model_is_the_same_model(parts: list[Path]) -> None:
    from bittern.runtime.bringup import bring_up

    whole = parts[0].with_name("whole.gguf")
    shutil.copy(parts[0].with_name("whole.bin"), whole)
    reports = [
        bring_up(path, tokens=[1, 2], count=2, chips=["vm"], out=whole.parent / "out") for path in (whole, parts[1])
    ]
    assert reports[0].graph == reports[1].graph
    assert reports[0].chips[0].logits_sha256 == reports[1].chips[0].logits_sha256


def test_a_keg_names_the_part_of_each_constant(parts: list[Path]) -> None:
    """It refers to the file that has the bytes, by that file's own digest."""
    from bittern.runtime.artifacts import _external_blobs
    from bittern.runtime.binding import bound_model

    with open_gguf(parts[0]) as checkpoint:
        bound = bound_model(checkpoint, "f16")
        found = _external_blobs(checkpoint, (bound.forward, bound.head))
    assert len({row.file for row in found.values()}) > 1
    for digest, row in found.items():
        data = parts[0].with_name(row.file).read_bytes()
        assert row.sha256 == hashlib.sha256(data).digest()
        assert digest == hashlib.sha256(data[row.offset : row.offset + row.size]).digest()


def test_digests_are_kept_for_each_part(parts: list[Path], tmp_path: Path) -> None:
    for path in parts:
        os.utime(path, (LONG_AGO, LONG_AGO))
    with open_gguf(parts[0], tmp_path / "cache") as checkpoint:
        first = [part.sha256 for part in checkpoint.parts], checkpoint.sha256
        assert checkpoint.sha256_origin == "hashed now"
        assert len(set(first[0])) == 3
    assert len(list((tmp_path / "cache" / "digests").iterdir())) == 3
    with open_gguf(parts[2], tmp_path / "cache") as checkpoint:
        assert ([part.sha256 for part in checkpoint.parts], checkpoint.sha256) == first
        assert checkpoint.sha256_origin == "cached"


def test_a_part_that_changes_while_it_is_open_is_refused(parts: list[Path]) -> None:
    with open_gguf(parts[0]) as checkpoint:
        name = next(name for name, info in checkpoint.tensors.items() if info.part == 2)
        with parts[2].open("ab") as file:
            file.write(b"more")
        with pytest.raises(BitternError, match="F105"):
            checkpoint.array(name)


def test_one_of_one_is_a_plain_file(tmp_path: Path) -> None:
    keys: dict[str, Value] = dict(zip(KEYS, (0, 1, 0), strict=True))
    for name, facts in (("any name", keys), ("m-00001-of-00001", keys), ("n-00001-of-00001", {})):
        write_gguf(tmp_path / f"{name}.gguf", facts, [])
        with open_gguf(tmp_path / f"{name}.gguf") as checkpoint:
            assert len(checkpoint.parts) == 1


def test_a_first_part_without_tensors(tmp_path: Path) -> None:
    """Some splitters keep all tensors out of the first part."""
    count: dict[str, Value] = {"split.count": 2, "split.tensors.count": 1}
    write_gguf(tmp_path / "m-00001-of-00002.gguf", {"general.architecture": "toy", "split.no": 0, **count}, [])
    row = Stored("w", ELEMENTS["f32"], (2,), lambda: bytes(8))
    write_gguf(tmp_path / "m-00002-of-00002.gguf", {"split.no": 1, **count}, [row])
    with open_gguf(tmp_path / "m-00001-of-00002.gguf") as checkpoint:
        assert checkpoint.metadata["general.architecture"] == "toy" and list(checkpoint.tensors) == ["w"]


@dataclass(frozen=True)
class Lie:
    """What is done to three parts before the first is opened, and what the refusal says.

    check: the check of the reader that acts, without `_check_`.
    """

    code: str
    words: tuple[str, ...]
    act: Callable[[list[Path]], Path | None]
    check: str = ""


def _edit(place: int, facts: dict[str, Value | None], drop: int = 0) -> Callable[[list[Path]], None]:
    return lambda paths: rewritten(paths[place], facts, drop)


def _swap(paths: list[Path]) -> None:
    spare = paths[1].with_name("spare")
    paths[1].rename(spare)
    paths[2].rename(paths[1])
    spare.rename(paths[2])


def _other_model(paths: list[Path]) -> None:
    folder = paths[0].parent / "other"
    folder.mkdir()
    other = written(folder, tiny_models.llama(shape=tiny_models.Shape(layers=3), seed=9), LIMIT * 3 // 2)
    assert len(other) == 3
    shutil.copy(other[1], paths[1])


def _renamed(paths: list[Path]) -> Path:
    return paths[0].rename(paths[0].with_name("model.gguf"))


def _broken(paths: list[Path]) -> None:
    paths[1].write_bytes(g.build(g.File(version=9))[0])


def _no_first(paths: list[Path]) -> Path:
    paths[0].unlink()
    return paths[1]


def _folder(paths: list[Path]) -> None:
    paths[1].unlink()
    paths[1].mkdir()


def _no_total(paths: list[Path]) -> None:
    for path in paths:
        rewritten(path, {"split.tensors.count": None})


def _same_tensors(paths: list[Path]) -> None:
    shutil.copy(paths[1], paths[2])
    rewritten(paths[2], {"split.no": 2})


LIES: dict[str, Lie] = {
    "missing second": Lie("F144", ("m-00002-of-00003.gguf", "part 2 of 3"), lambda p: p[1].unlink()),
    "missing first": Lie("F144", ("m-00001-of-00003.gguf",), _no_first),
    "a folder": Lie("F102", ("directory",), _folder),
    "broken part": Lie("F112", ("m-00002-of-00003.gguf", "version 9"), _broken),
    "count 0": Lie("F142", ("`split.count` is `0`", "from 1"), _edit(0, {"split.count": 0})),
    "count huge": Lie("F142", ("`split.count` is `65535`",), _edit(0, {"split.count": 65535})),
    "count text": Lie("F142", ("`split.count` is `3`",), _edit(0, {"split.count": "3"})),
    "count true": Lie("F142", ("`split.count` is `True`",), _edit(0, {"split.count": True})),
    "no number": Lie("F142", ("`split.no` is missing",), _edit(0, {"split.no": None})),
    "number 3": Lie("F142", ("`split.no` is `3`", "0 to 2"), _edit(0, {"split.no": 3})),
    "number -1": Lie("F142", ("`split.no` is `-1`",), _edit(0, {"split.no": -1})),
    "name of another": Lie("F143", ("m-00001-of-00003.gguf", "part 2 of 3"), _edit(0, {"split.no": 1}), "name"),
    "name of a whole": Lie("F143", ("`model.gguf`", "00001-of-00003"), _renamed),
    "count unlike name": Lie("F143", ("part 1 of 2",), _edit(0, {"split.count": 2}), "name"),
    "count 1": Lie("F143", ("part 1 of 1",), _edit(0, {"split.count": 1}), "name"),
    "no count": Lie("F142", ("`split.count` is missing",), _edit(0, {"split.count": None})),
    "no keys": Lie("F142", ("`split.count` is missing",), _edit(0, dict.fromkeys(KEYS))),
    "swapped": Lie("F145", ("m-00002-of-00003.gguf", "`split.no` is `2`, theirs `1`"), _swap, "kin"),
    "no split keys": Lie("F145", ("`split.no` is missing",), _edit(1, {"split.no": None}), "kin"),
    "other count": Lie("F145", ("`split.count` is `4`",), _edit(1, {"split.count": 4}), "kin"),
    "other total": Lie("F145", ("`split.tensors.count`",), _edit(2, {"split.tensors.count": 7}), "kin"),
    "other model": Lie("F145", ("m-00002-of-00003.gguf", "split.tensors.count"), _other_model, "kin"),
    "other architecture": Lie("F145", ("`gemma`, theirs `llama`",), _edit(1, {"general.architecture": "gemma"}), "kin"),
    "more metadata": Lie("F145", ("`a.key` is `1`, theirs missing",), _edit(1, {"a.key": 1}), "kin"),
    "tensor lost": Lie("F146", ("19 tensors", "announces 20"), _edit(2, {}, 1), "total"),
    "tensors twice": Lie("F146", ("is in `m-00002-of-00003.gguf` and in `m-00003-of-00003.gguf`",), _same_tensors),
    "no total": Lie("F142", ("`split.tensors.count` is missing",), _no_total),
}


def _lied(lie: Lie, parts: list[Path]) -> Path:
    return lie.act(parts) or parts[0]


@pytest.mark.parametrize("name", LIES)
def test_parts_that_do_not_fit_are_refused(name: str, parts: list[Path]) -> None:
    """Edge case E2 for split files: one set of files for each lie."""
    lie = LIES[name]
    error = refusal(_lied(lie, parts))
    assert error.code == lie.code, str(error)
    assert all(word in error.what for word in lie.words), error.what
    assert error.what.endswith(".") and error.remedy.endswith(".")
    assert str(parts[0].parent) not in error.what or error.code in ("F102", "F144")


def test_every_code_has_a_lie() -> None:
    declared = {code for code in vars(gguf_split).values() if isinstance(code, str) and code in CODES and code > "F140"}
    assert declared == {lie.code for lie in LIES.values() if lie.code > "F140"}


@pytest.mark.parametrize("check", ["name", "kin", "total"])
def test_a_reader_without_a_check_is_noticed(check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a check is taken out; every lie that it refuses must then get another answer."""
    monkeypatch.setattr(gguf_split, f"_check_{check}", lambda *_: None)
    noticed = 0
    for name, lie in LIES.items():
        if lie.check == check:
            folder = tmp_path / name
            folder.mkdir()
            path = _lied(lie, written(folder, tiny_models.llama(), LIMIT))
            try:
                open_gguf(path).close()
                noticed += 1
            except BitternError as error:
                noticed += error.code != lie.code
    assert noticed


def test_many_parts_are_not_looked_for(parts: list[Path]) -> None:
    rewritten(parts[0], {"split.count": 1024})
    parts[0].rename(parts[0].with_name("m-00001-of-01024.gguf"))
    error = refusal(parts[0].with_name("m-00001-of-01024.gguf"))
    assert error.code == "F144" and "part 2 of 1024" in error.what


def test_the_gguf_package_writes_parts_that_are_read(tmp_path: Path) -> None:
    package: Any = pytest.importorskip("gguf", reason="the package gguf is the oracle here")
    rng = np.random.default_rng(5)
    arrays = {f"t{i}": rng.standard_normal((8, 32)).astype(np.float32) for i in range(5)}
    writer = package.GGUFWriter(tmp_path / "m.gguf", "toy", split_max_tensors=2)
    writer.add_uint32("toy.count", 7)
    for name, array in arrays.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    paths = sorted(tmp_path.glob("*.gguf"))
    assert len(paths) == 3
    with open_gguf(paths[1]) as checkpoint:
        assert checkpoint.metadata["toy.count"] == 7
        assert {name: checkpoint.array(name).tobytes() for name in arrays} == {
            n: a.tobytes() for n, a in arrays.items()
        }


def test_mutated_parts_end_in_a_refusal_or_a_checkpoint(parts: list[Path]) -> None:
    """Half a second of one flipped, cut or repeated byte of one header: whatever is accepted has all tensors."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    with open_gguf(parts[0]) as whole:
        names = set(whole.tensors)
    until = time.monotonic() + 0.5
    outcomes: Counter[str] = Counter()
    while time.monotonic() < until:
        path = chance.choice(parts)
        kept = path.read_bytes()
        place = chance.randrange(min(len(kept), 1500))
        cut = {"flip": (bytes([kept[place] ^ 1 << chance.randrange(8)]), 1), "drop": (b"", 1), "repeat": (b"\0", 0)}
        put, size = cut[chance.choice(list(cut))]
        path.write_bytes(kept[:place] + put + kept[place + size :])
        try:
            with open_gguf(chance.choice(parts)) as checkpoint:
                assert len(checkpoint.tensors) == len(names)
                assert all(checkpoint.bytes_of(name).nbytes == info.size for name, info in checkpoint.tensors.items())
                outcomes["accepted"] += 1
        except BitternError as error:
            outcomes[error.code] += 1
        path.write_bytes(kept)
    print(dict(outcomes))
    assert len(outcomes) > 5
