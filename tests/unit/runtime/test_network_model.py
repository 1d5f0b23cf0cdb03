"""Networks that run: one sample or a batch, on every chip the same bits, and refusals of what does not fit."""

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bittern.base.errors import BitternError
from bittern.chips.machine import memory
from bittern.chips.x86.features import is_here
from bittern.front.network.assembly import BATCH, Assembly
from bittern.front.network.network import Network, Port
from bittern.lang.library import Library
from bittern.runtime.exports import export
from bittern.runtime.network import NetworkModel
from bittern.runtime.networks import fitted, open_network
from bittern.types.elements import ELEMENTS

CHIPS = ["vm", pytest.param("x86", marks=pytest.mark.skipif(not is_here(), reason="the chip x86 is not here"))]


def layers() -> Network:
    """Two inputs of bytes, their products with one matrix, added and compared."""
    rng = np.random.default_rng(3)
    a = Assembly(Library.standard())
    x, y = a.input("x", "i8", (33,)), a.input("y", "i8", (33,))
    w = a.constant(rng.integers(-128, 128, (9, 33)), "i8")
    sums = a.op("add", a.call("dense.dense", w, x), a.call("dense.dense", w, y))
    at, falling = a.constant(np.arange(9) * 500 - 2000, "i32"), a.constant(np.arange(9) % 2 == 1, "bit")
    return a.network("layers", {"sums": sums, "signs": a.call("thresholds.sign_at", sums, at, falling)})


def data(count: int) -> tuple[Any, Any, Any]:
    """Return two batches and the sums that numpy gets."""
    rng = np.random.default_rng(4)
    x, y = (rng.integers(-128, 128, (count, 33), dtype=np.int8) for _ in range(2))
    w = np.random.default_rng(3).integers(-128, 128, (9, 33))
    return x, y, (x.astype(np.int64) + y) @ w.T


@pytest.mark.req("K067", "K068", "K069")
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("count", [1, 2, 3, 64, 300])
def test_batches_of_any_length(chip: str, count: int) -> None:
    x, y, wanted = data(count)
    found = NetworkModel(layers(), chip).run(x, y)
    assert np.array_equal(found["sums"], wanted)
    edges = np.arange(9) * 500 - 2000
    signs = np.where(np.arange(9) % 2 == 1, wanted <= edges, wanted >= edges)
    assert np.array_equal(found["signs"], np.where(signs, 1, -1))


@pytest.mark.parametrize("chip", CHIPS)
def test_one_sample_has_no_batch_axis(chip: str) -> None:
    x, y, wanted = data(2)
    found = NetworkModel(layers(), chip).run(x[1], y[1])
    assert found["sums"].shape == (9,) and np.array_equal(found["sums"], wanted[1])


@pytest.mark.parametrize("chip", CHIPS)
def test_bound_memory_is_computed_in_place(chip: str) -> None:
    bound = NetworkModel(layers(), chip).bound(4)
    for seed in (0, 1):
        x, y, wanted = data(4 + seed)
        bound.inputs[0][...], bound.inputs[1][...] = x[-4:], y[-4:]
        bound.call()
        assert np.array_equal(bound.results[0], wanted[-4:])


@pytest.mark.skipif(not is_here(), reason="the chip x86 is not here")
def test_a_call_keeps_its_memory_alive() -> None:
    held = NetworkModel(layers()).bound(1)
    call, results = held.call, held.results
    held.inputs[0][...], held.inputs[1][...] = 1, 2
    del held
    gc.collect()
    junk = [np.full(4096, 7, np.uint8) for _ in range(64)]
    call()
    w = np.random.default_rng(3).integers(-128, 128, (9, 33))
    assert np.array_equal(results[0][0], 3 * w.sum(axis=1)) and all((each == 7).all() for each in junk)


@pytest.mark.req("K066")
def test_refused_executable_memory_leaves_vm(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(data: bytes) -> Any:
        raise OSError("refused")

    monkeypatch.setattr(memory, "WAYS", {"planted": refused})
    x, y, wanted = data(3)
    model = NetworkModel(layers())
    assert model.chip.name == "vm"
    assert np.array_equal(model.run(x, y)["sums"], wanted)


@pytest.mark.parametrize("chip", CHIPS)
def test_a_network_may_compute_nothing(chip: str) -> None:
    a = Assembly(Library.standard())
    x = a.input("x", "i8", (2, 3))
    model = NetworkModel(a.network("flat", {"y": a.op("reshape", x, shape=(BATCH, 6))}), chip)
    for count in (1, 3):
        given = np.arange(6 * count, dtype=np.int8).reshape(count, 2, 3)
        assert np.array_equal(model.run(given), given.reshape(count, 6))


@pytest.mark.skipif(not is_here(), reason="the chip x86 is not here")
@pytest.mark.req("K069")
def test_the_plan_is_shown_when_asked_for() -> None:
    model = NetworkModel(layers())
    text = model.explain()
    assert "regions" in text and "predicted" in text and model.network.function.id.hex() in text


@pytest.mark.parametrize(
    ("code", "give"),
    [
        ("N401", lambda x, y: (x,)),
        ("N402", lambda x, y: (x[:, 1:], y)),
        ("N402", lambda x, y: (x, y[:1])),
        ("N403", lambda x, y: (x.astype(np.int16) + 300, y)),
        ("N403", lambda x, y: (x.astype(np.float32) + 0.5, y)),
        ("N404", lambda x, y: (x[:0], y[:0])),
    ],
)
def test_what_does_not_fit_is_refused(code: str, give: Any) -> None:
    x, y, _ = data(3)
    with pytest.raises(BitternError) as refused:
        NetworkModel(layers(), "vm").run(*give(x, y))
    assert refused.value.code == code and refused.value.remedy


def test_chips_that_run_no_networks_say_so() -> None:
    with pytest.raises(BitternError, match="runs no networks") as refused:
        NetworkModel(layers(), "reference")
    assert refused.value.code == "N405"


@pytest.mark.parametrize(("name", "code"), [("model.h5", "N406"), ("missing.onnx", "N407")])
def test_files_that_are_no_networks(name: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "model.h5").write_bytes(b"x")
    with pytest.raises(BitternError) as refused:
        open_network(tmp_path / name)
    assert refused.value.code == code


def test_forms_that_nobody_writes(tmp_path: Path) -> None:
    with pytest.raises(BitternError) as refused:
        export(layers(), tmp_path / "x", "h5")
    assert refused.value.code == "N464"
    if is_here():
        with pytest.raises(BitternError) as refused:
            export(layers(), tmp_path / "missing" / "x", "elf")
        assert refused.value.code == "N465"


def _port(element: str, scale: float | None = None, zero: int = 0) -> Port:
    return Port("x", ELEMENTS[element], (2, 2), scale, zero)


def test_data_are_fitted_to_an_input() -> None:
    pixels = np.array([[0, 255, 51, 102]], np.uint8)
    assert fitted(pixels, _port("u8")).shape == (1, 2, 2)
    assert np.array_equal(fitted(pixels, _port("f32")).reshape(-1), np.float32([0, 1, 0.2, 0.4]))
    assert np.array_equal(fitted(pixels, _port("f32"), "raw").reshape(-1), np.float32([0, 255, 51, 102]))
    assert np.array_equal(fitted(pixels, _port("f32"), "signed").reshape(-1)[:2], np.float32([-1, 1]))
    assert fitted(pixels, _port("i8", 1.0, -128)).reshape(-1).tolist() == [-128, 127, -77, -26]
    assert fitted(np.float32([[0.5, 1.5, -9, 9]]), _port("i8", 1.0, 0)).reshape(-1).tolist() == [0, 2, -9, 9]
    assert fitted(pixels[0], _port("u8")).shape == (1, 2, 2)
    with pytest.raises(BitternError) as refused:
        fitted(pixels[:, :3], _port("u8"))
    assert refused.value.code == "N408"
