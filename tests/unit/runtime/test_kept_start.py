"""A second start: outlines and plans that were kept give the same tokens, and none that is stale is ever met."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiny_models

from bittern.chips.machine import code_cache
from bittern.chips.x86.chip import X86
from bittern.chips.x86.session import X86Model
from bittern.front.bound import Bound, Origin, blob_of
from bittern.front.gguf import open_gguf
from bittern.graph.node import Blob
from bittern.plan import kept
from bittern.plan.likeliest import Likeliest
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES
from bittern.runtime import binding
from bittern.runtime.binding import bound_model
from bittern.runtime.store import Store

pytestmark = pytest.mark.skipif(not X86().is_here(), reason="no x86-64 here")
SHAPE = tiny_models.Shape(layers=1, d=64, ff=64, heads=2, g=2)
TOKENS = np.array([5, 9, 3], np.uint32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, and a store in which one start kept all."""
    made = tmp_path_factory.mktemp("kept")
    tiny_models.save(made, tiny_models.llama(shape=SHAPE))
    _start(made)
    return made


def _bound(folder: Path, cache: str = "f16", library: tuple[Path, ...] = ()) -> Bound:
    return bound_model(open_gguf(folder / "tiny.gguf", folder), cache, library, Store(folder))


def _start(folder: Path, cache: str = "f16") -> tuple[list[int], X86Model]:
    """Start, choose tokens and go on; return them and the model."""
    model = X86(threads=1).load(_bound(folder, cache), folder)
    session = model.start(16)
    made = session.likeliest(TOKENS, np.zeros(3, np.uint32), np.arange(3, dtype=np.uint32))
    return made + session.greedy([*TOKENS.tolist(), made[-1]], 4), model


def _no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("bound again")

    monkeypatch.setattr("bittern.front.bind.program_of", refuse)
    monkeypatch.setattr("bittern.front.bind.bind_checkpoint", refuse)


def test_a_second_start_binds_plans_and_compiles_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = _start(folder)
    _no_binding(monkeypatch)
    second, model = _start(folder)
    assert second == first and model._kept.taken == 2 and model.routines.compiled == 0


def test_the_program_is_bound_when_it_is_asked_for(folder: Path) -> None:
    kept_one, fresh = _bound(folder), bound_model(open_gguf(folder / "tiny.gguf"), "f16")
    assert "program" not in vars(kept_one)
    assert (kept_one.forward.id, kept_one.head.id) == (fresh.forward.id, fresh.head.id)
    assert kept_one.outline == fresh.outline == kept_one.program.outline
    assert kept_one.steps == fresh.steps and kept_one.family.name == "llama"


def test_another_element_of_the_cache_is_another_key(folder: Path) -> None:
    keys = {_bound(folder, cache).key for cache in ("f16", "f32", "int8")}
    assert len(keys) == 3
    assert _bound(folder, "f32").outline.leaves[0].element.name == "f32"


def test_a_library_of_the_user_is_always_bound_anew(folder: Path, tmp_path: Path) -> None:
    made = _bound(folder, library=(tmp_path,))
    assert made.key == ""
    model = X86(threads=1).load(made, folder)
    model.likeliest_plan(4, 1, 512)
    assert model._kept.taken == 0


def _other_weights() -> bytes:
    return tiny_models.llama(shape=SHAPE, seed=2)


def _other_metadata() -> bytes:
    return tiny_models.llama(shape=SHAPE, keys={"llama.rope.freq_base": 5e5})


def _other_table() -> bytes:
    return tiny_models.llama("q8_0", shape=SHAPE)


def _other_family() -> bytes:
    return tiny_models.gemma3(shape=SHAPE)


@pytest.mark.parametrize("make", [_other_weights, _other_metadata, _other_table, _other_family])
def test_a_changed_file_meets_no_stale_entry(folder: Path, make: Callable[[], bytes]) -> None:
    before = _bound(folder).key
    path = folder / "other.gguf"
    path.write_bytes(make())
    made = bound_model(open_gguf(path, folder), "f16", (), Store(folder))
    assert made.key != before
    assert made.outline == bound_model(open_gguf(path), "f16").outline
    assert made.forward.id != _bound(folder).forward.id


def test_changed_sources_are_another_version(tmp_path: Path) -> None:
    sources = (("a.py", "x = 1"), ("a.py", "x = 2"), ("a.btn", "x = 1"), ("b.py", "x = 1"))
    versions = set()
    for number, (name, text) in enumerate(sources):
        place = tmp_path / str(number) / "deep"
        place.mkdir(parents=True)
        (place / name).write_text(text)
        (place / "notes.txt").write_text(str(number))
        versions.add(code_cache.program_version(place.parent))
    assert len(versions) == 4


def test_a_changed_program_is_bound_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _bound(folder).key
    monkeypatch.setattr(binding, "program_version", lambda: "0" * 64)
    made = _bound(folder)
    assert made.key != before


@pytest.mark.parametrize("place", [0, 40, -1])
def test_damaged_entries_are_made_again(folder: Path, place: int) -> None:
    wanted, _ = _start(folder)
    for entry in (folder / "code").iterdir():
        data = bytearray(entry.read_bytes())
        data[place] ^= 1
        entry.write_bytes(data)
    found, model = _start(folder)
    assert found == wanted and model._kept.taken == 0
    assert _start(folder)[1]._kept.taken == 2, "and whole again"


def test_what_others_may_write_is_not_read(folder: Path) -> None:
    for entry in (folder / "code").iterdir():
        entry.chmod(0o666)
    _, model = _start(folder)
    assert model._kept.taken == 0
    assert _start(folder)[1]._kept.taken == 2


def test_a_plan_whose_code_is_gone_is_not_taken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, _ = _start(folder)
    model = X86(threads=1).load(_bound(folder), folder)
    monkeypatch.setattr(model.routines, "has_code", lambda recipe: recipe.name != "argmax_join")
    assert model._kept.take((("likeliest", 3, 1, 512), True)) is None
    assert _start(folder)[0] == wanted


def test_a_plan_as_bytes_is_the_plan(folder: Path) -> None:
    bound = bound_model(open_gguf(folder / "tiny.gguf"), "f16")
    plan = plan_of(bound.head, RULES, KNOWN, bound.library, {0: 2})
    found = kept.from_bytes(kept.to_bytes(plan, plan, bound.program.origins), lambda origin: _read(bound, origin))
    assert [str(launch.recipe) for launch in found.launches] == [str(launch.recipe) for launch in plan.launches]
    assert [launch.barrier for launch in found.launches] == [launch.barrier for launch in plan.launches]
    assert found.inputs[0] in found.root and found.inputs[0] not in plan.root


def _read(bound: Bound, origin: Origin) -> Blob:
    made = blob_of(origin, bound.checkpoint)
    assert made.size == len(made.read())
    return made


def test_bytes_name_no_other_class() -> None:
    import pickle

    for hostile in (sys.exit, os.system, Likeliest.__init__):
        with pytest.raises((KeyError, AttributeError)):
            kept.from_bytes(pickle.dumps(hostile, protocol=5))
