"""Every block format, frozen: digests of the weights that bytes stand for and of products, on every chip here.

Edge case B1: the size of a group belongs to the format, never to the chip that reads it. With BITTERN_UPDATE_GOLDEN=1
`formats.json` is written anew; the change is read in the diff.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from block_formats import FORMATS, put_scale

from bittern.chips.vm.kernels import kernels
from bittern.graph.evaluate import World, prepare
from bittern.lang.library import Library
from bittern.types import elements

Array = npt.NDArray[Any]
RECORD = Path(__file__).parent / "formats.json"
UPDATE = os.environ.get("BITTERN_UPDATE_GOLDEN") == "1"
LIBRARY = Library.standard()
CHIPS = {"definition": World(), "vm": World(kernels=kernels(LIBRARY))}
ROWS, COLUMNS = 5, 512


def drawn(name: str, size: int) -> Array:
    """Bytes that depend on a name alone."""
    return np.frombuffer(hashlib.shake_256(name.encode()).digest(size), np.uint8)


def digest(values: Array) -> str:
    """The SHA-256 of an array of f32; every NaN is one value."""
    canonical = np.where(np.isnan(values), np.float32(np.nan), values).astype("<f4")
    return hashlib.sha256(canonical.tobytes()).hexdigest()


def weights(name: str) -> Array:
    """Blocks of any bytes, with scales of usual size."""
    row = FORMATS[name]
    shape = (ROWS, COLUMNS // row.columns, row.size)
    made = drawn(name, int(np.prod(shape))).reshape(shape).copy()
    for which in range(len(row.halves)):
        place = np.arange(made[..., 0].size, dtype=np.float32).reshape(shape[:2])
        put_scale(name, made, (place + 1) * np.float32(0.01 if which else -0.02), which)
    return made


def activations() -> Array:
    """Numbers of both signs over some powers of two."""
    word = drawn("activations", 2 * COLUMNS).view("<u2").astype(np.int64)
    return np.asarray((word - 32768) * np.exp2(-12.0 - word % 5), np.float32)


def run(chip: str, function: str, blocks: Array, *arguments: Array, dims: tuple[int, ...], overload: str = "") -> Array:
    """What a function of known weights gives on a chip."""
    found = LIBRARY.function(function, overload=overload or None)
    program = prepare(found, dims, world=CHIPS[chip], constants={0: blocks})
    return np.asarray(program(*arguments))


def digests(name: str, chip: str) -> dict[str, str]:
    """What is recorded for a format."""
    blocks = weights(name)
    decode = run(chip, f"products.decode_{name}", blocks, dims=(ROWS, COLUMNS))
    x = activations()[None]
    product = run(chip, "products.linear", blocks, x, dims=(ROWS, COLUMNS, 1), overload=name)
    return {"decode": digest(decode), "product": digest(product)}


@pytest.fixture(scope="module")
def record() -> dict[str, dict[str, str]]:
    """The recorded digests, written anew if that is asked for."""
    if UPDATE:
        made = {name: digests(name, "definition") for name in FORMATS}
        RECORD.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    found: dict[str, dict[str, str]] = json.loads(RECORD.read_text())
    return found


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("name", sorted(elements.FORMATS))
def test_b1_a_format_means_the_same_on_every_chip(name: str, chip: str, record: dict[str, dict[str, str]]) -> None:
    assert digests(name, chip) == record[name]


def test_b1_another_group_size_is_seen() -> None:
    """Planted fault: ternary blocks of 64 are read as if a group had 128 values."""
    blocks = weights("q2_0")
    stored = run("definition", "products.decode_q2_0", blocks, dims=(ROWS, COLUMNS))
    scale = blocks[..., :2].copy().view(np.float16).astype(np.float32)
    code = np.unpackbits(blocks[..., 2:], axis=-1, bitorder="little").reshape(ROWS, COLUMNS, 2) @ [1, 2] - 1
    right = (scale.repeat(64, axis=1)[..., 0] * code).astype(np.float32)
    wrong = (scale[:, ::2].repeat(128, axis=1)[..., 0] * code).astype(np.float32)
    assert digest(stored) == digest(right) != digest(wrong)


def test_the_record_has_every_format(record: dict[str, dict[str, str]]) -> None:
    assert sorted(record) == sorted(elements.FORMATS)
