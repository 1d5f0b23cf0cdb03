"""Weights of every format: decoding against the gguf package, products against the strict rule written in numpy."""

from collections.abc import Callable
from typing import Any

import gguf
import numpy as np
import pytest
from std_oracle import Array, f32, fold, quantise, same_bits, sum16

FORMATS = {"q4_0": 32, "q4_1": 32, "q5_0": 32, "q5_1": 32, "q8_0": 32, "q4_k": 256, "q5_k": 256, "q6_k": 256}
SIZE = {"q4_0": 18, "q4_1": 20, "q5_0": 22, "q5_1": 24, "q8_0": 34, "q4_k": 144, "q5_k": 176, "q6_k": 210}
HALVES = {"q4_1": (0, 2), "q5_1": (0, 2), "q4_k": (0, 2), "q5_k": (0, 2), "q6_k": (208,)}  # where f16 numbers stand
EDGES = np.array([0.0, -0.0, 1.0, -1.0, 65504.0, 6e-8, -6e-8, np.inf, -np.inf, np.nan], np.float16)
Group = tuple[list[int], Any, Any]


def weights(name: str, rows: int, n: int, seed: int) -> Array:
    """Random blocks with scales of usual size."""
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (rows, n // FORMATS[name], SIZE[name]), dtype=np.uint8)
    for place in HALVES.get(name, (0,)):
        scale = rng.standard_normal(blocks.shape[:2]).astype(np.float16) * np.float16(0.02)
        blocks[..., place : place + 2] = scale[..., None].view(np.uint8)
    return blocks


def edge_weights(name: str) -> Array:
    """Blocks of all-zero and all-one bytes, each with every pair of scales among zeros, limits, infinities and NaN."""
    blocks = []
    for fill in (0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0):
        for a in EDGES:
            for b in EDGES if len(HALVES.get(name, (0,))) == 2 else EDGES[:1]:
                block = np.full(SIZE[name], fill, np.uint8)
                for place, value in zip(HALVES.get(name, (0,)), (a, b), strict=False):
                    block[place : place + 2] = np.array([value]).view(np.uint8)
                blocks.append(block)
    return np.array(blocks)[:, None, :]


def _f16(block: Array, place: int) -> Any:
    return f32(block[place : place + 2].view(np.float16)[0])


def _scale_and_minimum(q: Array, j: int) -> tuple[int, int]:
    if j < 4:
        return int(q[j] & 63), int(q[j + 4] & 63)
    return int(q[j + 4] & 15) | int(q[j - 4] >> 6) << 4, int(q[j + 4] >> 4) | int(q[j] >> 6) << 4


def groups(name: str, block: Array) -> list[Group]:
    """The groups of one block, value by value: codes, scale, offset (None where the format has none)."""
    byte = [int(b) for b in block]
    if name in ("q4_0", "q4_1", "q5_0", "q5_1"):
        start = {"q4_0": 2, "q4_1": 4, "q5_0": 6, "q5_1": 8}[name]
        code = [byte[start + i % 16] >> 4 * (i // 16) & 15 for i in range(32)]
        if name.startswith("q5"):
            high = int.from_bytes(bytes(byte[start - 4 : start]), "little")
            code = [c | (high >> i & 1) << 4 for i, c in enumerate(code)]
        if name.endswith("_1"):
            return [(code, _f16(block, 0), _f16(block, 2))]
        return [([c - (8 if name == "q4_0" else 16) for c in code], _f16(block, 0), None)]
    if name == "q8_0":
        return [([b - 256 * (b > 127) for b in byte[2:]], _f16(block, 0), None)]
    if name in ("q4_k", "q5_k"):
        made: list[Group] = []
        start = 16 if name == "q4_k" else 48
        for j in range(8):
            code = [byte[start + 32 * (j // 2) + i] >> 4 * (j % 2) & 15 for i in range(32)]
            if name == "q5_k":
                code = [c | (byte[16 + i] >> j & 1) << 4 for i, c in enumerate(code)]
            scale, minimum = _scale_and_minimum(block[4:16], j)
            made.append((code, _f16(block, 0) * f32(scale), -(_f16(block, 2) * f32(minimum))))
        return made
    code = [0] * 256
    for half in range(2):
        for i in range(32):
            low, high = byte[64 * half + i], byte[64 * half + 32 + i]
            top = byte[128 + 32 * half + i]
            place = 128 * half + i
            code[place] = (low & 15 | (top & 3) << 4) - 32
            code[place + 32] = (high & 15 | (top >> 2 & 3) << 4) - 32
            code[place + 64] = (low >> 4 | (top >> 4 & 3) << 4) - 32
            code[place + 96] = (high >> 4 | (top >> 6 & 3) << 4) - 32
    scales = block[192:208].view(np.int8)
    return [(code[16 * j : 16 * j + 16], _f16(block, 208) * f32(scales[j]), None) for j in range(16)]


def product(name: str, blocks: Array, x: Array) -> Array:
    """NUMERICS 3 for one row after the other, group after group."""
    q, d, ds = quantise(x)
    flat = q.reshape(-1).astype(int)
    result = np.zeros(len(blocks), f32)
    with np.errstate(all="ignore"):
        for r, row in enumerate(blocks):
            acc, column = f32(0), 0
            for block in row:
                for code, scale, low in groups(name, block):
                    exact = f32(int(np.dot(code, flat[column : column + len(code)])))
                    b = column // 32
                    term = exact * (scale * d[b])
                    if low is not None:
                        term = term + low * ds[b]
                    acc = acc + term
                    column += len(code)
            result[r] = acc
    return result


def decoded(name: str, blocks: Array) -> Array:
    """What the gguf package makes of the blocks."""
    kind = gguf.GGMLQuantizationType[name.upper()]
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(blocks.reshape(len(blocks), -1), kind)


@pytest.mark.parametrize("name", FORMATS)
def test_decode_equals_the_gguf_package(run: Any, name: str) -> None:
    blocks = np.concatenate(
        [weights(name, 7, 512, 1), np.repeat(edge_weights(name)[:40], 512 // FORMATS[name], axis=1)]
    )
    same_bits(run(f"products.decode_{name}", blocks, dims=(len(blocks), 512)), decoded(name, blocks))


@pytest.mark.parametrize("name", FORMATS)
def test_decode_of_edge_blocks(run: Any, name: str) -> None:
    blocks = edge_weights(name)
    same_bits(run(f"products.decode_{name}", blocks, dims=(len(blocks), FORMATS[name])), decoded(name, blocks))


@pytest.mark.parametrize("name", FORMATS)
def test_linear_follows_the_strict_rule(run: Any, name: str) -> None:
    rng = np.random.default_rng(2)
    n = 2 * 256
    blocks = weights(name, 5, n, 3)
    x = rng.standard_normal((3, n)).astype(f32)
    x[1, 32:64] = 0.0
    x[2, 64:96] = 1e30
    y = run("products.linear", blocks, x, dims=(5, n, 3), overload=name)
    same_bits(y, np.stack([product(name, blocks, row) for row in x]))
    exact = decoded(name, blocks).astype(np.float64) @ x.T.astype(np.float64)
    assert np.abs(y[0] - exact.T[0]).max() < 0.02 * np.sqrt((exact[:, 0] ** 2).mean())


@pytest.mark.parametrize("name", FORMATS)
def test_linear_of_edge_blocks_and_edge_activations(run: Any, name: str) -> None:
    n = FORMATS[name]
    blocks = edge_weights(name)[:60]
    rng = np.random.default_rng(4)
    x = rng.standard_normal((6, n)).astype(f32)
    x[0] = 0.0
    x[1, 5] = np.inf
    x[2, 7] = np.nan
    x[3] = 3.4e38
    x[4] = -1e-38
    x[5, 3:9] = [-0.0, 1e-45, -1e-45, 127, -127, 126.5]
    y = run("products.linear", blocks, x, dims=(len(blocks), n, 6), overload=name)
    same_bits(y, np.stack([product(name, blocks, row) for row in x]))


@pytest.mark.parametrize("name", FORMATS)
def test_batch_law(run: Any, name: str) -> None:
    blocks = weights(name, 4, 256, 5)
    x = np.random.default_rng(6).standard_normal((9, 256)).astype(f32)
    whole = run("products.linear", blocks, x, dims=(4, 256, 9), overload=name)
    for t in (0, 4, 8):
        same_bits(run("products.linear", blocks, x[t : t + 1], dims=(4, 256, 1), overload=name), whole[t : t + 1])
    same_bits(run("products.linear", blocks[1:3], x, dims=(2, 256, 9), overload=name), whole[:, 1:3])


@pytest.mark.parametrize("name", FORMATS)
def test_embed_reads_rows(run: Any, name: str) -> None:
    blocks = weights(name, 6, 256, 7)
    token = np.array([5, 0, 5, 3, 99], np.uint32)
    expected = decoded(name, blocks)[[5, 0, 5, 3, 5]]
    same_bits(run("products.embed", blocks, token, dims=(6, 256, 5), overload=name), expected)


@pytest.mark.parametrize("name", FORMATS)
def test_ideal_product_is_exact(run: Any, name: str) -> None:
    blocks = weights(name, 5, 512, 8)
    x = np.random.default_rng(9).standard_normal((2, 512)).astype(f32)
    y = run("products.linear", blocks, x, dims=(5, 512, 2), overload=name, ideal=True)
    exact = x.astype(np.float64) @ decoded(name, blocks).astype(np.float64).T
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "element"), [("f32", np.float32), ("f16", np.float16), ("bf16", np.uint16)])
def test_float_weights_take_unquantised_activations(run: Any, name: str, element: type) -> None:
    rng = np.random.default_rng(10)
    values = rng.standard_normal((5, 77)).astype(f32)
    stored = (values.view(np.uint32) >> 16).astype(np.uint16) if name == "bf16" else values.astype(element)
    wide = (stored.astype(np.uint32) << 16).view(f32) if name == "bf16" else stored.astype(f32)
    x = rng.standard_normal((3, 77)).astype(f32)
    y = run("products.linear", stored, x, dims=(5, 77, 3), overload=name)
    same_bits(y, fold(x[:, None, :] * wide[None, :, :]))
    token = np.array([4, 1], np.uint32)
    same_bits(run("products.embed", stored, token, dims=(5, 77, 2), overload=name), wide[[4, 1]])
    same_bits(run(f"products.decode_{name}", stored, dims=(5, 77)), wide)


FAULTS = [
    ("q4_1", "products/q4_1.btn", "code: [wrap[i8](nibbles(block[4..20]))", "code: [wrap[i8](nibbles(block[3..19]))"),
    ("q4_k", "products/q4_k.btn", "bytes[8..12] >> 4 | bytes[4..8]", "bytes[8..12] >> 4 | bytes[0..4]"),
    ("q5_k", "products/q5_k.btn", "(high >> j & 1) << 4", "(high >> 7 - j & 1) << 4"),
    (
        "q6_k",
        "products/q6_k.btn",
        "concat(b & 3, b >> 2 & 3, b >> 4 & 3, b >> 6)",
        "concat(b & 3, b >> 4 & 3, b >> 2 & 3, b >> 6)",
    ),
    ("q8_0", "products/rows.btn", "sum_in_order(exact * (a_scale * b_scale))", "sum(exact * (a_scale * b_scale))"),
    ("q4_1", "products/rows.btn", "exact * (w.scale * x.d) + w.low * x.ds", "exact * w.scale * x.d + w.low * x.ds"),
    ("q8_0", "quantise.btn", "127.0 / a)", "128.0 / a)"),
]


@pytest.mark.parametrize(("name", "file", "old", "new"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], name: str, file: str, old: str, new: str) -> None:
    wrong = edited(file, old, new)
    blocks = weights(name, 5, 1024, 11)
    x = np.random.default_rng(12).standard_normal((2, 1024)).astype(f32)
    y = wrong("products.linear", blocks, x, dims=(5, 1024, 2), overload=name)
    assert (y != np.stack([product(name, blocks, row) for row in x])).any()


def test_quantise_follows_the_rule(run: Any) -> None:
    rng = np.random.default_rng(13)
    rows = [rng.standard_normal(32), np.zeros(32), np.full(32, -0.0), np.full(32, 2.0**-101), np.full(32, 2.0**-100)]
    rows += [np.full(32, 3.4028235e38), np.linspace(-1, 1, 32), np.where(np.arange(32) == 3, np.nan, 1.0)]
    rows += [
        np.where(np.arange(32) == 31, -np.inf, 1.0),
        (np.arange(32) - 16) / 2.0 * 127 / 8,
        1e-30 * rng.standard_normal(32),
    ]
    x = np.concatenate(rows).astype(f32)
    q, d, ds = run("quantise.quantise", x, dims=(x.size,))
    expected = quantise(x)
    assert np.array_equal(q, expected[0]) and q.dtype == np.int8
    same_bits(d, expected[1])
    same_bits(ds, expected[2])


def test_sum_in_order_is_not_the_sum_of_partials(run: Any) -> None:
    x = np.random.default_rng(14).standard_normal(1000).astype(f32)
    same_bits(run("products.sum_in_order", x, dims=(1000,)), fold(x))
    assert fold(x) != sum16(x)
