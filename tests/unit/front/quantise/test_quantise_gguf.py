"""Block formats: bytes equal to the reference rules, searched scales against brute force, whole files."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_models
from quantise_cases import bell, printed_everywhere

from bittern.base.errors import BitternError
from bittern.base.progress import Progress
from bittern.front.gguf import open_gguf
from bittern.front.gguf_write import Stored, write_gguf
from bittern.front.quantise.gguf import blocks, search, super_blocks
from bittern.front.quantise.gguf.file import decoded, quantise_gguf
from bittern.front.quantise.gguf.formats import FORMATS, OF_WIDTH, encode, format_named
from bittern.front.quantise.report import report_text
from bittern.lang.library import Library
from bittern.types.elements import ELEMENTS

REFERENCE = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "tq1_0", "tq2_0")
FLOORS = {"q1_0": 4, "q2_0": 8, "q2_k": 10.5, "q3_k": 16, "q4_k": 22, "q5_k": 28, "q6_k": 34}  # dB on bells


def rows() -> np.ndarray:
    """Rows of many sizes and kinds: zeros of both signs, tiny, ternary, one-sided, few values, ties."""
    rng = np.random.default_rng(1)
    x = bell(rng, 40, 512) * (10.0 ** rng.integers(-6, 3, (40, 1))).astype(np.float32)
    x[0], x[1], x[2] = 0, -0.0, np.float32(1e-9)
    x[3] = rng.integers(-1, 2, 512) * np.float32(0.02)
    x[4, 5:] = 0
    x[5] = rng.integers(-9, 10, 512) / 2
    x[6], x[7] = np.abs(x[6]), -np.abs(x[7])
    x[8] = np.float32(1e-42)
    x[9, ::2] = -x[9, 1::2]
    return x


def ratio(x: np.ndarray, y: np.ndarray) -> float:
    return float(10 * np.log10((x.astype(float) ** 2).sum() / ((x.astype(float) - y) ** 2).sum()))


@pytest.mark.parametrize("name", REFERENCE)
def test_bytes_are_those_of_the_reference(name: str) -> None:
    """Oracle: the quantisers of the package gguf, also where 1 / scale overflows there into nothing that is defined."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize

    x = rows()
    kept = np.ones(len(x), np.bool_)
    kept[8] = False  # the scale is subnormal, its inverse infinite: undefined there
    with np.errstate(all="ignore"):
        theirs = quantize(x[kept], GGMLQuantizationType[name.upper()])
    own = encode(x, FORMATS[name])
    assert np.array_equal(own[kept].reshape(theirs.shape), theirs)
    assert not decoded(own[8:9], ELEMENTS[name], Library.standard()).any()


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_read(name: str) -> None:
    """The library's own decoder, and the package gguf where it has one, read values near the given ones."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    x = bell(np.random.default_rng(2), 32, 1024) / 20
    library = Library.standard()
    found = {}
    for method in ("max", "mse"):
        made = encode(x, FORMATS[name], method=method)
        values = decoded(made, ELEMENTS[name], library)
        if name not in ("q1_0", "q2_0"):
            theirs = dequantize(made.reshape(len(x), -1), GGMLQuantizationType[name.upper()])
            assert np.array_equal(theirs, values)
        found[method] = ratio(x, values)
    assert found["mse"] >= found["max"] and found["mse"] > FLOORS.get(name, 7)
    if FORMATS[name].searched:
        assert found["mse"] == found["max"]


def test_searched_scales_are_near_the_best() -> None:
    """Brute force over a thousand scales of each group, and over scales and minima."""
    x = bell(np.random.default_rng(3), 40, 16)
    ones = np.ones_like(x)
    for low, high in ((-4, 3), (-8, 7), (-32, 31)):
        scale = search.best_scale(x, ones, low, high)
        found = np.array([least(row, s, 0.0, low, high) for row, s in zip(x, scale, strict=True)])
        tries = [sign * np.abs(x).max(1) * i / 400 / high for i in range(150, 520) for sign in (1, -1)]
        best = np.min([[least(row, s, 0.0, low, high) for row, s in zip(x, t, strict=True)] for t in tries[::7]], 0)
        assert found.mean() < best.mean() * 1.1, (low, found.mean(), best.mean())
    scale, minimum = search.best_scale_and_minimum(x, ones, 15)
    found = np.array([least(r, s, m, 0, 15) for r, s, m in zip(x, scale, minimum, strict=True)])
    plain = (x.max(1) - x.min(1)) / 15
    simple = np.array([least(r, s, -r.min(), 0, 15) for r, s in zip(x, plain, strict=True)])
    assert (minimum >= 0).all() and (found <= simple + 1e-9).all() and found.mean() < 0.9 * simple.mean()


def least(row: np.ndarray, scale: float, minimum: float, low: int, high: int) -> float:
    codes = np.clip(np.rint((row + minimum) / scale), low, high) if scale else np.zeros_like(row)
    return float(((row - (scale * codes - minimum)) ** 2).sum())


def test_ternary_scales_are_the_best() -> None:
    """Brute force over all thresholds of each block."""
    x = bell(np.random.default_rng(4), 10, 256)
    scale = blocks.best_ternary_scale(x, np.ones_like(x))
    for row, found in zip(x, scale, strict=True):
        sizes = np.sort(np.abs(row))[::-1].astype(float)
        means = [sizes[: k + 1].mean() for k in range(256)]
        errors = [(sizes**2).sum() - (k + 1) * m * m for k, m in enumerate(means)]
        assert abs(found - means[int(np.argmin(errors))]) < 1e-5


@pytest.mark.parametrize("name", FORMATS)
def test_edge_case_b17_importance_is_never_nothing(name: str) -> None:
    """Edge case B17: zero, tiny, huge and one-hot importance give finite blocks; all zeros count as none."""
    x = rows()[9:20] / 4
    library, row = Library.standard(), FORMATS[name]
    plain = encode(x, row, method="mse")
    for importance in (np.zeros(512), np.full(512, 1e-38), np.full(512, 1e30), np.eye(512)[7]):
        made = encode(x, row, importance.astype(np.float32))
        values = decoded(made, ELEMENTS[name], library)
        assert np.isfinite(values).all()
        if not importance.any():
            assert np.array_equal(made, plain)
        assert ratio(x, values) > ratio(x, decoded(plain, ELEMENTS[name], library)) - 3
    one = decoded(encode(x, row, np.eye(512, dtype=np.float32)[7]), ELEMENTS[name], library)
    without = decoded(plain, ELEMENTS[name], library)
    if name != "q1_0":
        assert np.abs(one - x)[:, 7].mean() <= np.abs(without - x)[:, 7].mean()


def test_edge_case_b18_the_same_bytes_everywhere() -> None:
    """Edge case B18: one digest for all formats, with any threads, BLAS and vector instructions, and it is recorded."""
    program = """
import hashlib
from test_quantise_gguf import digest
print(digest())
"""
    (found,) = printed_everywhere(program)
    assert found.strip() == digest() == RECORDED


def digest() -> str:
    state = hashlib.sha256()
    importance = np.arange(512, dtype=np.float32) % 17
    for row in FORMATS.values():
        for method, weight in (("max", None), ("mse", None), ("mse", importance)):
            state.update(encode(rows(), row, weight, method).tobytes())
    return state.hexdigest()


RECORDED = "097827ecf0356652e4575f4c9292dde39799de783fa922f507e4cbc1e68d47b7"


# Files.


def checkpoint(folder: Path, name: str = "in.gguf", **changed: Any) -> Path:
    """Return a file with matrices of several kinds. changed: values by tensor name."""
    rng = np.random.default_rng(5)
    shapes = {
        "token_embd": (7, 256), "blk.0.attn_q": (6, 256), "blk.0.ffn_up": (5, 64), "blk.0.odd": (3, 40),
        "blk.0.attn_norm": (256,), "blk.0.ffn_gate_inp": (4, 256), "blk.0.ffn_gate_exps": (2, 3, 256),
    }  # fmt: skip
    tensors = []
    for short, shape in shapes.items():
        values = changed.get(short, bell(rng, *shape) / 8)
        tensors.append(Stored(f"{short}.weight", ELEMENTS["f32"], shape, values.astype("<f4").tobytes))
    tensors.append(Stored("blk.0.half.weight", ELEMENTS["f16"], (4, 256), bell(rng, 4, 256).astype("<f2").tobytes))
    write_gguf(folder / name, {"general.architecture": "x", "general.file_type": 0, "x.u": 3}, tensors, {"x.u": "u8"})
    return folder / name


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_becomes_one_in_the_format(tmp_path: Path, name: str) -> None:
    source, target = checkpoint(tmp_path), tmp_path / "out.gguf"
    report = quantise_gguf(source, target, name, Progress())
    row = FORMATS[name]
    narrow = FORMATS.get(row.narrow)
    with open_gguf(source) as before, open_gguf(target) as after:
        kinds = {each: info.element.name for each, info in after.tensors.items()}
        assert kinds["blk.0.attn_q.weight"] == kinds["blk.0.ffn_gate_exps.weight"] == name
        assert kinds["blk.0.half.weight"] == name and kinds["token_embd.weight"] == row.head
        fits = row if row.element.columns <= 64 else narrow
        assert kinds["blk.0.ffn_up.weight"] == (fits.name if fits else "f32")
        for kept in ("blk.0.attn_norm", "blk.0.ffn_gate_inp", "blk.0.odd"):
            assert bytes(after.bytes_of(f"{kept}.weight")) == bytes(before.bytes_of(f"{kept}.weight"))
        own = encode(before.array("blk.0.attn_q.weight"), row)
        assert np.array_equal(after.array("blk.0.attn_q.weight"), own)
        experts = encode(before.array("blk.0.ffn_gate_exps.weight").reshape(6, 256), row)
        assert bytes(after.bytes_of("blk.0.ffn_gate_exps.weight")) == experts.tobytes()
        assert after.metadata["general.quantization_version"] == 2 and after.metadata["x.u"] == 3
        assert after.metadata.get("general.file_type", -1) == row.file_type
    assert report.sha256 == hashlib.sha256(target.read_bytes()).hexdigest()
    told = {each.name: each for each in report.tensors}
    assert len(told) == 8 and (told["blk.0.attn_q.weight"].sqnr or 0) > 1
    assert told["blk.0.attn_norm.weight"].sqnr is None and "no blocks" in told["blk.0.odd.weight"].note
    assert "attn_q.weight" in report_text(report) and "dB" in report_text(report)
    again = tmp_path / "again.gguf"
    quantise_gguf(source, again, name, Progress())
    assert again.read_bytes() == target.read_bytes() and not list(tmp_path.glob(".*"))


def test_widths_and_names(tmp_path: Path) -> None:
    assert {name: format_named(name).name for name in OF_WIDTH} == OF_WIDTH
    assert format_named("Q4_K").name == "q4_k"
    with pytest.raises(BitternError, match="`q4_7` is no format") as caught:
        format_named("q4_7")
    assert caught.value.code == "N421" and "`q4_" in caught.value.remedy


def test_a_quantised_file_is_quantised_again(tmp_path: Path) -> None:
    """A tiny Llama in q4_1 becomes q8_0, and is still the model."""
    source = tiny_models.save(tmp_path, tiny_models.llama("q4_1"))
    report = quantise_gguf(source, tmp_path / "out.gguf", "8", Progress(), keep=["attn_v"])
    with open_gguf(source) as before, open_gguf(tmp_path / "out.gguf") as after:
        library = Library.standard()
        for name, info in after.tensors.items():
            was = before.tensors[name]
            assert (info.element.name == "q8_0") == (len(info.shape) == 2 and "attn_v" not in name), name
            if info.element.name == "q8_0":
                x, y = (decoded(c.array(name), c.tensors[name].element, library) for c in (before, after))
                assert was.element.name == "q4_1" and ratio(x, y) > 38
    assert {row.note for row in report.tensors if "attn_v" in row.name} == {"kept"}


def importance_file(folder: Path, **sums: np.ndarray) -> Path:
    tensors = []
    for name, values in sums.items():
        full = f"{name.replace('__', '.')}.weight"
        tensors.append(Stored(f"{full}.in_sum2", ELEMENTS["f32"], values.shape, values.astype("<f4").tobytes))
        count = np.full((*values.shape[:-1], 1) if values.ndim > 1 else (1,), 4, "<f4")
        tensors.append(Stored(f"{full}.counts", ELEMENTS["f32"], count.shape, count.tobytes))
    write_gguf(folder / "importance.gguf", {"general.type": "imatrix"}, tensors)
    return folder / "importance.gguf"


def test_importance_files(tmp_path: Path) -> None:
    source = checkpoint(tmp_path)
    own, each = np.arange(256.0), np.stack((np.arange(256.0), np.zeros(256)))
    given = importance_file(tmp_path, blk__0__attn_q=own, blk__0__ffn_gate_exps=each)
    quantise_gguf(source, tmp_path / "out.gguf", "q4_0", Progress(), importance=given)
    with open_gguf(source) as before, open_gguf(tmp_path / "out.gguf") as after:
        x = before.array("blk.0.attn_q.weight")
        wanted = encode(x, FORMATS["q4_0"], (own / 4).astype(np.float32))
        assert np.array_equal(after.array("blk.0.attn_q.weight"), wanted)
        experts = before.array("blk.0.ffn_gate_exps.weight")
        wanted = np.stack(
            [encode(m, FORMATS["q4_0"], (r / 4).astype(np.float32)) for m, r in zip(experts, each, strict=True)]
        )
        assert np.array_equal(after.array("blk.0.ffn_gate_exps.weight"), wanted)
        plain = encode(before.array("blk.0.half.weight").astype(np.float32), FORMATS["q4_0"])
        assert np.array_equal(after.array("blk.0.half.weight"), plain)
    for bad in (
        {"blk__0__attn_q": np.ones(64)},
        {"blk__0__attn_q": -own},
        {"blk__0__attn_q": own * np.nan},
        {"other": own},
    ):
        with pytest.raises(BitternError) as caught:
            quantise_gguf(source, tmp_path / "no.gguf", "4", Progress(), importance=importance_file(tmp_path, **bad))
        assert caught.value.code == "N422" and not (tmp_path / "no.gguf").exists()


def test_refusals_leave_nothing_behind(tmp_path: Path) -> None:
    bad = bell(np.random.default_rng(6), 6, 256)
    for value, code, words in (
        (np.nan, "N413", "an infinity or a NaN"),
        (np.inf, "N413", "blk.0.attn_q"),
        (3e9, "N420", "65504"),
    ):
        bad[5, 255] = value
        source = checkpoint(tmp_path, "bad.gguf", **{"blk.0.attn_q": bad})
        for name in ("q4_0", "q6_k", "tq2_0"):
            with pytest.raises(BitternError, match=words) as caught:
                quantise_gguf(source, tmp_path / "out.gguf", name, Progress())
            assert caught.value.code == code and "attn_q" in caught.value.what
            assert not (tmp_path / "out.gguf").exists() and not list(tmp_path.glob(".*"))
    source = checkpoint(tmp_path)
    for target, code in ((source, "N423"), (tmp_path, "N424"), (tmp_path / "no" / "x.gguf", "N424")):
        with pytest.raises(BitternError) as caught:
            quantise_gguf(source, target, "4", Progress())
        assert caught.value.code == code


def test_planted_faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong ties, a wrong order of codes, a scale that is not searched."""
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "_half_away", np.rint)
        with pytest.raises(AssertionError):
            test_bytes_are_those_of_the_reference("q8_0")
    with monkeypatch.context() as patch:
        patch.setattr(super_blocks, "_nibbles", lambda codes: codes[:, ::2] | codes[:, 1::2] << 4)
        with pytest.raises(AssertionError):
            test_what_is_written_is_read("q4_k")
    with monkeypatch.context() as patch:
        patch.setattr(search, "_TRIES", 0)
        with pytest.raises(AssertionError):
            test_searched_scales_are_near_the_best()
