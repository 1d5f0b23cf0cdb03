"""Quantisers of QONNX against what its own executor computes (recorded, qonnx 1.0.0), and against written tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_files import imported, model, node, run

from bittern.base.errors import BitternError
from bittern.front.onnx import rounding
from bittern.front.onnx.rounding import MODES, rounded_array

Array = np.ndarray[Any, Any]
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "qonnx_executor.npz"
GENERAL = "qonnx.custom_op.general"

# The table of the QONNX page of `Quant`.
TABLE = """
 5.5  6  6  5  6  5  6  5
 2.5  2  3  2  3  2  3  2
 1.6  2  2  1  2  1  2  2
 1.1  1  2  1  2  1  1  1
 1.0  1  1  1  1  1  1  1
-1.0 -1 -1 -1 -1 -1 -1 -1
-1.1 -1 -1 -2 -2 -1 -1 -1
-1.6 -2 -1 -2 -2 -1 -2 -2
-2.5 -2 -2 -3 -3 -2 -3 -2
-5.5 -6 -5 -6 -6 -5 -6 -5
"""
ROWS = np.array([[float(word) for word in line.split()] for line in TABLE.strip().splitlines()], np.float32)
NAMES = ("ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")


def quantiser(x: Array, bits: float, signed: int, narrow: int, mode: str, scale: Any, zero: Any, **more: Any) -> bytes:
    """Return a file that quantises a batch of rows like x. more: constants and domain."""
    domain = more.get("domain", GENERAL)
    made = node(
        "Quant", ["x", "s", "z", "b"], ["y"], domain=domain, signed=signed, narrow=narrow, rounding_mode=mode, name="q"
    )
    constants = {"s": np.float32(scale), "z": np.float32(zero), "b": np.float32(bits)}
    return model([made], {"x": ("f32", x.shape)}, {"y": "f32"}, constants, 11, {domain: 1})


def wrong_rows() -> list[str]:
    """Return the rows of the recorded quantisers that the importer does not equal, bit for bit."""
    golden = np.load(GOLDEN)
    x = golden["x"][None]
    wrong = []
    for row, expected in zip(golden["quant_rows"], golden["quant"], strict=True):
        bits, signed, narrow, mode, scale, zero = row.split()
        if (bits, signed, narrow) == ("1", "0", "1"):
            continue  # no code but 0
        data = quantiser(x, int(bits), int(signed), int(narrow), mode, float(scale), float(zero))
        (found,) = run(imported(data), x)
        if not np.array_equal(found[0], expected):
            wrong.append(row)
    return wrong


@pytest.mark.req("C078")
def test_quantisers_equal_the_executor() -> None:
    assert not wrong_rows()


def test_a_planted_fault_in_the_rounding_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(rounding.MODES, "HALF_UP", rounding.MODES["HALF_DOWN"])
    assert any("HALF_UP" in row for row in wrong_rows())


def test_constants_are_quantised_as_computed_tensors_are() -> None:
    golden = np.load(GOLDEN)
    x = golden["x"]
    for row, expected in list(zip(golden["quant_rows"], golden["quant"], strict=True))[::3]:
        bits, signed, narrow, mode, scale, zero = row.split()
        attributes = {"signed": int(signed), "narrow": int(narrow), "rounding_mode": mode, "domain": GENERAL}
        nodes = [node("Quant", ["w", "s", "z", "b"], ["q"], **attributes), node("Add", ["x", "q"], ["y"])]
        constants = {"w": x, "s": np.float32(scale), "z": np.float32(zero), "b": np.float32(bits)}
        data = model(nodes, {"x": ("f32", (1, len(x)))}, {"y": "f32"}, constants, 11, {GENERAL: 1})
        (found,) = run(imported(data), np.zeros((1, len(x)), np.float32))
        assert np.array_equal(found[0], expected), row


@pytest.mark.parametrize("place", range(7), ids=NAMES)
def test_rounding_is_that_of_the_table(place: int) -> None:
    """EDGE_CASES B11: one table of names, and what is not in it is refused."""
    assert np.array_equal(rounded_array(ROWS[:, 0], NAMES[place]), ROWS[:, 1 + place])
    data = quantiser(ROWS[:, :1], 8, 1, 0, NAMES[place].lower(), 1, 0)
    (found,) = run(imported(data), ROWS[:, :1])
    assert np.array_equal(found[:, 0], ROWS[:, 1 + place])


def test_the_names_of_brevitas_mean_what_qonnx_says_otherwise() -> None:
    assert MODES["ROUND_TO_ZERO"] == MODES["TRUNC"] == MODES["DOWN"]
    assert MODES["HALF_EVEN"] == MODES["ROUND"]


@pytest.mark.parametrize("domain", ["onnx.brevitas", "finn.custom_op.general", "qonnx.custom_op", "finn", "qonnx"])
def test_every_name_of_the_domain_is_read(domain: str) -> None:
    x = np.array([[-3.0, 0.4, 2.5]], np.float32)
    (found,) = run(imported(quantiser(x, 3, 1, 0, "ROUND", 1, 0, domain=domain)), x)
    assert found.tolist() == [[-3, 0, 2]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": "SIDEWAYS"}, "rounding mode `SIDEWAYS` is unknown"),
        ({"mode": "ROUNDED"}, "Did you mean `ROUND`"),
        ({"mode": "DPU"}, "rounding mode `DPU` is unknown"),
        ({"bits": 9}, "codes of 9 bits"),
        ({"bits": 2.5}, "no whole number"),
        ({"scale": 0}, "scale is 0"),
        ({"scale": float("nan")}, "scale is 0 or no number"),
    ],
)
def test_a_quantiser_that_is_not_read_is_refused(given: dict[str, Any], words: str) -> None:
    x = np.zeros((1, 3), np.float32)
    values = {"bits": 4, "signed": 1, "narrow": 0, "mode": "ROUND", "scale": 1, "zero": 0, **given}
    with pytest.raises(BitternError) as raised:
        imported(quantiser(x, **values))
    assert raised.value.code == "N220"
    assert words in raised.value.what


def test_scales_and_zeros_may_run_along_channels() -> None:
    x = np.random.default_rng(3).normal(size=(2, 3, 4, 5)).astype(np.float32) * 4
    scale = np.array([0.5, 0.25, 2], np.float32).reshape(1, 3, 1, 1)
    zero = np.array([0, 3, -2], np.float32).reshape(1, 3, 1, 1)
    made = node("Quant", ["x", "s", "z", "b"], ["y"], domain=GENERAL, signed=1, narrow=0, rounding_mode="ROUND")
    nodes = [made, node("Transpose", ["y"], ["t"], perm=[0, 2, 3, 1])]
    constants = {"s": scale, "z": zero, "b": np.float32(4)}
    data = model(nodes, {"x": ("f32", x.shape)}, {"t": "f32"}, constants, 11, {GENERAL: 1})
    codes = np.rint(np.clip(x / scale + zero, np.float32(-8), np.float32(7)))
    (found,) = run(imported(data), x)
    assert np.array_equal(found, ((codes - zero) * scale).transpose(0, 2, 3, 1))


def test_zero_of_either_sign_is_plus_one() -> None:
    """EDGE_CASES B3."""
    data = model(
        [node("BipolarQuant", ["x", "s"], ["y"], domain=GENERAL)],
        {"x": ("f32", (1, 4))},
        {"y": "f32"},
        {"s": np.float32(0.5)},
        11,
        {GENERAL: 1},
    )
    (found,) = run(imported(data), np.array([[0.0, -0.0, -1e-30, 3]], np.float32))
    assert found.tolist() == [[0.5, 0.5, -0.5, 0.5]]


@pytest.mark.parametrize("bits", range(1, 9))
def test_fixed_point_numbers_are_exact_at_every_split(bits: int) -> None:
    """EDGE_CASES B12: bits in all, of which some stand before the point; every number of the grid is itself."""
    for before in range(-2, bits + 3):
        scale = np.float32(2.0 ** (before - bits))
        codes = np.arange(-(2 ** (bits - 1)), 2 ** (bits - 1)) if bits > 1 else np.array([-1, 1])
        grid = (codes * scale).astype(np.float32)[None]
        (found,) = run(imported(quantiser(grid, bits, 1, 0, "ROUND", scale, 0)), grid)
        assert np.array_equal(found, grid), (bits, before)
        beyond = np.array([[-1e6, 1e6]], np.float32)
        (ends,) = run(imported(quantiser(beyond, bits, 1, 0, "ROUND", scale, 0)), beyond)
        assert ends.tolist() == [[grid.min(), grid.max()]]


# --- Trunc


def truncation(row: str, shape: tuple[int, ...]) -> bytes:
    form, wide, kept, mode, narrow, signed, scale, new = row.split()
    constants = {"s": np.float32(scale), "z": np.float32(0), "w": np.float32(wide), "k": np.float32(kept)}
    names, attributes = ["r", "s", "z", "w", "k"], {"rounding_mode": mode}
    if form == "2":
        names = ["r", "s", "z", "w", "n", "z", "k"]
        attributes |= {"narrow": int(narrow), "signed": int(signed)}
        constants["n"] = np.float32(new)
    first = "Relu" if form == "1" else "Identity"
    nodes = [node(first, ["x"], ["r"]), node("Trunc", names, ["y"], domain=GENERAL, **attributes)]
    return model(nodes, {"x": ("f32", shape)}, {"y": "f32"}, constants, 11, {GENERAL: int(form)})


def test_truncations_equal_the_executor() -> None:
    golden = np.load(GOLDEN)
    for row, expected in zip(golden["trunc_rows"], golden["trunc"], strict=True):
        form, wide = row.split()[:2]
        codes = np.arange(2 ** int(wide)) if form == "1" else np.arange(-128, 128)
        x = (codes * 0.25).astype(np.float32)[None]
        (found,) = run(imported(truncation(row, x.shape)), x)
        assert np.array_equal(found[0], expected[: len(codes)]), row


# --- MultiThreshold


def reached(x: Array, thresholds: Array, axis: int, scale: float, bias: float) -> Array:
    """Return what a MultiThreshold computes, by counting."""
    moved = np.moveaxis(x, axis, -1)[..., None]
    count = np.moveaxis((moved >= thresholds).sum(-1), -1, axis).astype(np.float32)
    return count * np.float32(scale) + np.float32(bias)


@pytest.mark.parametrize(("count", "scale", "bias"), [(1, 2, -1), (1, 1, 0), (2, 1, -1), (7, 1, -4), (15, 0.1, 0.05)])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("on_sums", [False, True])
def test_thresholds_are_counted(count: int, scale: float, bias: float, rows: int, layout: str, on_sums: bool) -> None:
    chance = np.random.default_rng(count)
    x = chance.integers(-9, 10, (2, 3, 4, 3)).astype(np.float32)
    thresholds = np.sort(chance.normal(size=(rows, count)).astype(np.float32) * 4, 1)
    attributes = {"out_dtype": "INT8", "out_scale": float(scale), "out_bias": float(bias), "data_layout": layout}
    made = node("MultiThreshold", ["s", "t"], ["y"], domain="finn.custom_op.general", **attributes)
    constants: dict[str, Any] = {"t": thresholds}
    nodes = [node("Identity", ["x"], ["s"]), made]
    if on_sums:  # the identity as a convolution of codes: its sums are integers
        attributes = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND", "domain": GENERAL}
        constants |= {"w": np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1), "one": np.float32(1)}
        constants |= {"zero": np.float32(0), "bits": np.float32(5)}
        nodes = [
            node("Quant", ["x", "one", "zero", "bits"], ["q"], **attributes),
            node("Conv", ["q", "w"], ["s"]),
            made,
        ]
    versions = {"finn.custom_op.general": 1, GENERAL: 1}
    data = model(nodes, {"x": ("f32", x.shape)}, {"y": "f32"}, constants, 11, versions)
    network = imported(data)
    (found,) = run(network, x)
    assert np.array_equal(found, reached(x, thresholds, 1 if layout == "NCHW" else 3, scale, bias))


def test_average_pools_of_codes_lose_their_lowest_bits() -> None:
    x = np.random.default_rng(1).integers(0, 16, (2, 3, 6, 6)).astype(np.float32)
    attributes = {"signed": 0, "narrow": 0, "rounding_mode": "ROUND", "domain": GENERAL}
    sizes = {"kernel": 3, "stride": 3, "ibits": 4, "obits": 4, "signed": 0, "data_layout": "NCHW"}
    pool = node("QuantAvgPool2d", ["q"], ["y"], domain=GENERAL, **sizes)
    constants = {"one": np.float32(1), "zero": np.float32(0), "bits": np.float32(4)}
    nodes = [node("Quant", ["x", "one", "zero", "bits"], ["q"], **attributes), pool]
    data = model(nodes, {"x": ("f32", x.shape)}, {"y": "f32"}, constants, 11, {GENERAL: 1})
    (found,) = run(imported(data), x)
    sums = x.reshape(2, 3, 2, 3, 2, 3).sum((3, 5)).astype(np.int64)
    assert np.array_equal(found, sums >> 4)  # 9 * 15 has 8 bits, of which 4 stay
