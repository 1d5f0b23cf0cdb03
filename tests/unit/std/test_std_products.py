"""Weights of every format: decoding against the gguf package, products against the strict rule written in numpy."""

from collections.abc import Callable
from typing import Any

import block_formats
import numpy as np
import pytest
from block_formats import FORMATS, put_scale
from format_oracle import decoded, product
from std_oracle import Array, f32, fold, quantise, same_bits, sum16

from bittern.types import elements

EDGES = np.array([0.0, -0.0, 1.0, -1.0, 65504.0, 6e-8, -6e-8, np.inf, -np.inf, np.nan], np.float16)


def weights(name: str, rows: int, n: int, seed: int) -> Array:
    """Random blocks with scales of usual size."""
    rng = np.random.default_rng(seed)
    made = block_formats.blocks(rng, name, rows, n // FORMATS[name].columns)
    for which in range(len(FORMATS[name].halves)):
        put_scale(name, made, rng.standard_normal(made.shape[:2]) * 0.02, which)
    return made


def edge_weights(name: str) -> Array:
    """Blocks of equal bytes, each with every pair of scales among zeros, limits, infinities and NaN.

    Where scales are bytes, all 256 of them. -> [blocks, 1, bytes].
    """
    made = []
    for fill in (0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0):
        if name in ("mxfp4", "nvfp4"):
            some = np.full((256, FORMATS[name].size), fill, np.uint8)
            some[:, : 1 if name == "mxfp4" else 4] = np.arange(256)[:, None]
        else:
            pairs = [(a, b) for a in EDGES for b in EDGES[: 10 if len(FORMATS[name].halves) == 2 else 1]]
            some = np.full((len(pairs), FORMATS[name].size), fill, np.uint8)
            for which in range(len(FORMATS[name].halves)):
                put_scale(name, some, np.array(pairs)[:, which], which)
        made.append(some)
    return np.concatenate(made)[:, None, :]


def some_of(blocks: Array, count: int) -> Array:
    """Blocks from all over a list."""
    return blocks[:: -(-len(blocks) // count)]


def test_the_tables_agree() -> None:
    assert {name: (row.columns, row.size) for name, row in FORMATS.items()} == {
        name: (row.columns, row.bytes) for name, row in elements.FORMATS.items()
    }


@pytest.mark.covers("products.decode_*")
@pytest.mark.parametrize("name", FORMATS)
def test_decode_equals_the_gguf_package(run: Any, name: str) -> None:
    blocks = np.concatenate(
        [weights(name, 7, 512, 1), np.repeat(some_of(edge_weights(name), 60), 512 // FORMATS[name].columns, axis=1)]
    )
    same_bits(run(f"products.decode_{name}", blocks, dims=(len(blocks), 512)), decoded(name, blocks))


@pytest.mark.parametrize("name", FORMATS)
def test_decode_of_edge_blocks(run: Any, name: str) -> None:
    blocks = edge_weights(name)
    same_bits(run(f"products.decode_{name}", blocks, dims=(len(blocks), FORMATS[name].columns)), decoded(name, blocks))


@pytest.mark.covers("products.linear")
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
    n = FORMATS[name].columns
    blocks = some_of(edge_weights(name), 60)
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


@pytest.mark.covers("products.embed")
@pytest.mark.parametrize("name", FORMATS)
def test_embed_reads_rows(run: Any, name: str) -> None:
    blocks = weights(name, 6, 256, 7)
    token = np.array([5, 0, 5, 3, 99], np.uint32)
    expected = decoded(name, blocks)[[5, 0, 5, 3, 5]]
    same_bits(run("products.embed", blocks, token, dims=(6, 256, 5), overload=name), expected)


@pytest.mark.covers("products.linear")
@pytest.mark.parametrize("name", FORMATS)
def test_ideal_product_is_exact(run: Any, name: str) -> None:
    blocks = weights(name, 5, 512, 8)
    x = np.random.default_rng(9).standard_normal((2, 512)).astype(f32)
    y = run("products.linear", blocks, x, dims=(5, 512, 2), overload=name, ideal=True)
    exact = x.astype(np.float64) @ decoded(name, blocks).astype(np.float64).T
    np.testing.assert_allclose(y, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.covers("products.linear", "products.embed", "products.decode_*")
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
    ("q2_k", "quantise.btn", "reshape(q, [2, 16])] for q, d", "reshape(reverse(q), [2, 16])] for q, d"),
    ("q2_k", "products/rows.btn", "w.low * sums_of_16(x)", "w.low * reshape([[s, s] for s in x.ds], [n / 16])"),
    ("q3_k", "products/q3_k.btn", "(high >> j & 1) << 2", "(high >> 7 - j & 1) << 2"),
    ("q1_0", "products/q1_0.btn", "i8(b1(unpack[bit](block[2..18], 128)))", "-i8(b1(unpack[bit](block[2..18], 128)))"),
    ("q2_0", "products/q2_0.btn", "unpack[u2](block[2..18], 64)) - 1", "unpack[u2](block[2..18], 64)) - 2"),
    ("tq1_0", "products/tq1_0.btn", "bytes[48..52])[0..4]", "bytes[48..52])[1..5]"),
    ("tq2_0", "products/tq2_0.btn", "fill(half(block[64..66]), [8])", "fill(half(block[62..64]), [8])"),
    ("mxfp4", "products/mxfp4.btn", "0, -1, -2, -3, -4, -6, -8, -12]", "0, -1, -2, -3, -4, -6, -8, -13]"),
    ("nvfp4", "products/nvfp4.btn", "exponent + 119", "exponent + 120"),
    ("iq4_nl", "products/iq4_nl.btn", "-10, 1, 13", "-10, 0, 13"),
    ("iq4_xs", "products/iq4_xs.btn", "<< 4) - 32", "<< 4) - 31"),
    ("iq2_xxs", "products/grids.btn", "w >> 7 * i & 127", "w >> 7 * (3 - i) & 127"),
    ("iq2_xs", "products/grids.btn", "sign | popcount(sign) << 7", "sign | popcount(sign) << 6"),
    ("iq2_s", "products/grids.btn", "(0.5 + f32(scale)) * 0.25", "(0.5 + f32(scale)) * 0.125"),
    ("iq3_xxs", "products/iq3_xxs.btn", "(0.5 + f32(top_halves(word))) * 0.5", "(1.0 + f32(top_halves(word))) * 0.5"),
    ("iq3_s", "products/iq3_s.btn", "unpack[bit](high, 64)) << 8", "reverse(unpack[bit](high, 64))) << 8"),
    ("iq1_s", "products/iq1_s.btn", "select(bit == 1, -1, 1)", "select(bit == 1, 1, -1)"),
    ("iq1_m", "products/iq1_m.btn", "word[1] >> 12 << 4", "word[3] >> 12 << 4"),
]


def test_every_format_has_a_planted_fault() -> None:
    assert {row[0] for row in FAULTS} >= set(FORMATS) - {"q4_0", "q5_0", "q5_1"}  # whose rows share their lines


@pytest.mark.parametrize(("name", "file", "old", "new"), FAULTS)
def test_planted_faults_are_seen(edited: Callable[..., Any], name: str, file: str, old: str, new: str) -> None:
    wrong = edited(file, old, new)
    blocks = weights(name, 5, 1024, 11)
    x = np.random.default_rng(12).standard_normal((2, 1024)).astype(f32)
    y = wrong("products.linear", blocks, x, dims=(5, 1024, 2), overload=name)
    assert (y != np.stack([product(name, blocks, row) for row in x])).any()


@pytest.mark.covers("quantise.quantise")
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


@pytest.mark.covers("products.sum_in_order")
def test_sum_in_order_is_not_the_sum_of_partials(run: Any) -> None:
    x = np.random.default_rng(14).standard_normal(1000).astype(f32)
    same_bits(run("products.sum_in_order", x, dims=(1000,)), fold(x))
    assert fold(x) != sum16(x)
