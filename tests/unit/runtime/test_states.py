"""Saved states: the same continuation, whoever restores them; refusals of everything else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models

import bittern
from bittern.base.errors import BitternError
from bittern.runtime.model import Model
from bittern.runtime.states import PREAMBLE, State, read_state, write_state
from bittern.runtime.store import Store

SHAPE = tiny_models.Shape(vocab=259)
TEXT = [97, 98, 99, 100, 101, 102, 103]


def _file(folder: Path, seed: int = 6) -> Path:
    data = tiny_models.llama(shape=SHAPE, keys=tiny_models.tokenizer(), is_tied=False, seed=seed)
    return tiny_models.save(folder, data, f"model{seed}.gguf")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Keeps compiled code."""
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(params=["vm", "auto"])
def model(request: pytest.FixtureRequest, tmp_path: Path, store: Store) -> Iterator[Model]:
    with bittern.load(_file(tmp_path), chip=request.param, store=store) as loaded:
        yield loaded


def _tokens(model: Model, prompt: list[int], count: int, **options: float) -> list[int]:
    made = model.generate(prompt, count, ignore_eos=True, **options)  # type: ignore[arg-type]
    for _ in made:
        pass
    return made.tokens


@pytest.mark.req("K047")
def test_a_restored_state_goes_on_with_the_same_tokens(model: Model, tmp_path: Path, store: Store) -> None:
    first = _tokens(model, TEXT, 6)
    model.save_state(tmp_path / "state")
    wanted = _tokens(model, [*TEXT, *first], 12)
    for chip in ("vm", "auto"):
        with bittern.load(_file(tmp_path), chip=chip, store=store) as other:
            text = other.restore(tmp_path / "state")
            assert text == [*TEXT, *first]
            assert _tokens(other, text, 12) == wanted
            assert _tokens(other, text, 12, temperature=2.0, seed=3) == _tokens(
                model, text, 12, temperature=2.0, seed=3
            )


def test_what_was_restored_is_not_run_again(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _tokens(model, TEXT, 4)
    model.save_state(tmp_path / "state")
    with bittern.load(_file(tmp_path), chip="vm") as other:
        text = other.restore(tmp_path / "state")
        session = other._pool.last
        assert session is not None and session.tokens == [*TEXT, *first][:-1]
        ran = []
        forward = session.session.forward

        def counted(*given: Any) -> Any:
            ran.append(len(given[0]))
            return forward(*given)

        monkeypatch.setattr(session.session, "forward", counted)
        _tokens(other, text, 2)
        assert ran == [1, 1]


def test_only_used_positions_are_saved(model: Model, tmp_path: Path) -> None:
    _tokens(model, TEXT, 3)
    model.save_state(tmp_path / "state")
    used = len(TEXT) + 2
    row = SHAPE.layers * SHAPE.g * SHAPE.h * 2 * 2  # keys and values in f16
    assert used * row < (tmp_path / "state").stat().st_size < used * row + 512
    assert [path.name for path in tmp_path.glob(".part-*")] == []


def test_without_a_text(model: Model, tmp_path: Path) -> None:
    with pytest.raises(BitternError, match="R150"):
        model.save_state(tmp_path / "state")


def test_of_another_model_or_cache(model: Model, tmp_path: Path) -> None:
    _tokens(model, TEXT, 2)
    model.save_state(tmp_path / "state")
    with bittern.load(_file(tmp_path, seed=7), chip="vm") as other, pytest.raises(BitternError, match="R154"):
        other.restore(tmp_path / "state")
    with bittern.load(_file(tmp_path), chip="vm", cache="f32") as other, pytest.raises(BitternError, match="R154"):
        other.restore(tmp_path / "state")
    with bittern.load(_file(tmp_path), chip="reference") as other, pytest.raises(BitternError, match="R154") as caught:
        other.restore(tmp_path / "state")
    assert "another kind" in caught.value.what


def test_without_room(model: Model, tmp_path: Path) -> None:
    _tokens(model, TEXT, 2)
    model.save_state(tmp_path / "state")
    with bittern.load(_file(tmp_path), chip="vm", context=4) as other, pytest.raises(BitternError, match="R102"):
        other.restore(tmp_path / "state")


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small state."""
    path = tmp_path_factory.mktemp("saved") / "state"
    leaves = np.arange(24, dtype=np.float16).reshape(2, 3, 2, 2), np.arange(24, dtype=np.int8).reshape(2, 3, 4, 1)
    write_state(State(b"g" * 32, (5, 6, 7, 8), leaves), path)
    return path


def test_reads_what_was_written(saved: Path) -> None:
    state = read_state(saved, b"g" * 32)
    assert state.tokens == (5, 6, 7, 8) and state.used == 3
    assert state.leaves[0].dtype == np.float16 and state.leaves[0].ravel().tolist() == list(range(24))
    assert state.leaves[1].dtype == np.int8 and state.leaves[1].shape == (2, 3, 4, 1)


def test_equal_states_are_equal_files(saved: Path, tmp_path: Path) -> None:
    write_state(read_state(saved, b"g" * 32), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_every_damage_is_seen(saved: Path, tmp_path: Path) -> None:
    """Each byte changed, each length cut, and bytes behind the end: refused by code, whatever it hits."""
    data, path = saved.read_bytes(), tmp_path / "damaged"
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        path.write_bytes(changed)
        with pytest.raises(BitternError) as caught:
            read_state(path, b"g" * 32)
        assert caught.value.code == ("R152" if at < 16 else "R153"), at
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(BitternError) as caught:
            read_state(path, b"g" * 32)
        assert caught.value.code == ("R152" if length < PREAMBLE.size else "R153")
    path.write_bytes(data + b"\0")
    with pytest.raises(BitternError, match="R153"):
        read_state(path, b"g" * 32)


def test_forged_headers_are_refused(saved: Path, tmp_path: Path) -> None:
    """A digest proves no good will: the fields of a header are checked too."""
    import hashlib

    import cbor2

    data = saved.read_bytes()
    magic, version, size, _, _ = PREAMBLE.unpack(data[: PREAMBLE.size])
    header, rest = cbor2.loads(data[PREAMBLE.size : PREAMBLE.size + size]), data[PREAMBLE.size + size :]
    shapes = [["<f2", [2, 3, 2, 2]], ["|i1", [2, 3, 4, 1]]]
    forged = [
        {**header, "used": 0},
        {**header, "used": 9},
        {**header, "tokens": [1, -2, 3, 4]},
        {**header, "tokens": [1 << 32] * 4},
        {**header, "leaves": [["<f2", [2, 3, 1 << 62, 2]], shapes[1]]},
        {**header, "leaves": [["|O8", [2, 3, 2, 2]], shapes[1]]},
        {**header, "leaves": [["<f2", [2, 4, 2, 2]], shapes[1]]},
        {**header, "leaves": shapes[:1]},
        {**header, "more": 1},
        {key: value for key, value in header.items() if key != "used"},
        [1, 2],
        "text",
    ]
    path = tmp_path / "forged"
    for content in forged:
        body = cbor2.dumps(content, canonical=True) + rest
        length = len(body) - len(rest)
        front = PREAMBLE.pack(magic, version, length, PREAMBLE.size + len(body), b"")[:32]
        path.write_bytes(front + hashlib.sha256(front + body).digest() + body)
        with pytest.raises(BitternError) as caught:
            read_state(path, b"g" * 32)
        assert caught.value.code == "R153", content


def test_files_that_cannot_be_read_or_written(tmp_path: Path, saved: Path) -> None:
    with pytest.raises(BitternError, match="R151"):
        read_state(tmp_path / "none", b"g" * 32)
    with pytest.raises(BitternError, match="R151"):
        write_state(read_state(saved, b"g" * 32), tmp_path / "no" / "folder")
    (tmp_path / "text").write_text("not a state" * 20)
    with pytest.raises(BitternError, match="R152"):
        read_state(tmp_path / "text", b"g" * 32)


def test_an_interrupted_save_leaves_the_old_one(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(BitternError, match="R151"):
        write_state(read_state(saved, b"g" * 32), path)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
