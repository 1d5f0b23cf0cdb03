"""The premises of the strict chip: they hold here, and a machine on which one does not is refused by its code."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import family_files as f
import numpy as np
import pytest

import bittern
from bittern.chips.vm import premises


@pytest.fixture(autouse=True)
def _anew() -> Iterator[None]:
    premises._tried.cache_clear()
    yield
    premises._tried.cache_clear()


def _rounded(x: Any, bits: int) -> Any:
    """Return f32 values with so many bits of the significand, as a BLAS of lower precision would take them."""
    kept = np.asarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF)
    return kept.view(np.float32)


@pytest.mark.req("K047")
def test_they_hold_here() -> None:
    premises.check_arithmetic()
    assert premises.is_product_exact() and premises.is_sum_ordered() and premises.is_subnormal_kept()


@pytest.mark.parametrize("bits", [8, 11])
def test_a_blas_of_fewer_bits_is_refused(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edge cases A2 and C12: planted fault: bf16 or TF32 factors, chosen silently. The model does not load at all."""
    whole = np.matmul
    few = lambda x, w: whole(_rounded(x, bits), w) if x.dtype == np.float32 else whole(x, w)  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(np, "matmul", few)
        for load, name in ((partial(bittern.load, chip="vm"), "llama"), (bittern.load_encoder, "bert")):
            with pytest.raises(bittern.BitternError, match="matrix product") as caught:
                load(f.GOLDEN / name)
            assert caught.value.code == "R113" and np.__version__ in caught.value.what
    bittern.load(f.GOLDEN / "llama", chip="vm").close()


def test_sums_in_another_order_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: sums taken pairwise."""

    ordered = np.add

    class Pairwise:
        @staticmethod
        def reduce(x: Any, axis: int, initial: float) -> Any:
            return [ordered.reduce(row) for row in np.ascontiguousarray(x.T)]

    monkeypatch.setattr(np, "add", Pairwise)
    assert not premises.is_sum_ordered()


def test_flushed_subnormals_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: what is below 2^-126 becomes zero."""
    monkeypatch.setattr(np, "full", lambda count, value, dtype: np.zeros(count, dtype))
    assert not premises.is_subnormal_kept()


def test_it_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []
    monkeypatch.setattr(premises, "is_product_exact", lambda: not tried.append(1))
    premises.check_arithmetic()
    premises.check_arithmetic()
    assert len(tried) == 1
