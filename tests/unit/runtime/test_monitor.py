"""What the values inside of a network are like on data, against counting by hand."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from bittern.base.errors import BitternError
from bittern.chips.x86.features import is_here
from bittern.front.network.assembly import Assembly
from bittern.front.network.network import Network
from bittern.lang.library import Library
from bittern.runtime.monitor import Monitor, Watched
from bittern.runtime.network import NetworkModel

Array = npt.NDArray[Any]

CHIPS = ["vm", pytest.param("x86", marks=pytest.mark.skipif(not is_here(), reason="the chip x86 is not here"))]
WEIGHTS = np.random.default_rng(1).integers(-8, 8, (12, 20))
AT = np.where(np.arange(12) == 5, 100000, 0)  # channel 5 never reaches its threshold


def watched_network() -> Network:
    """Codes, sums, signs with one dead channel, and bytes that end at -100 and 100."""
    a = Assembly(Library.standard())
    x = a.input("x", "i8", (20,))
    sums = a.call("dense.dense", a.constant(WEIGHTS, "i8"), x)
    signs = a.call("thresholds.sign_at", sums, a.constant(AT, "i32"), a.constant(np.zeros(12, bool), "bit"))
    one, none = a.constant(np.full(12, 1), "i32"), a.constant(np.full(12, 3), "u32")
    codes = a.call("requantise.requantise", sums, one, none, 0, -100, 100, elements={"e": "i8"})
    return a.network("watched", {"signs": a.label(signs, "signs"), "codes": a.label(codes, "codes")})


def data(seed: int = 2, count: int = 150) -> Array:
    """Return samples."""
    return np.random.default_rng(seed).integers(-128, 128, (count, 20)).astype(np.int8)


def rows(made: Monitor) -> dict[tuple[str, str], Watched]:
    """Return the rows by name and function."""
    return {(each.name, each.function): each for each in made.layers}


@pytest.mark.parametrize("chip", CHIPS)
def test_counts_are_those_of_numpy(chip: str) -> None:
    x = data()
    made = NetworkModel(watched_network(), chip).monitor(x)
    found, sums = rows(made), x.astype(np.int64) @ WEIGHTS.T
    total = found["signs", "dense.dense"]
    assert (total.low, total.high, total.count) == (sums.min(), sums.max(), sums.size)
    most = (np.abs(WEIGHTS) * np.where(WEIGHTS > 0, 127, 128)).sum(1).max()
    assert total.most == most and total.least is not None and total.least <= total.low and total.bits == 15
    signs = np.where(sums >= AT, 1, -1)
    row = found["signs", "thresholds.sign_at"]
    assert (row.dead, row.channels) == (1, 12) and row.saturation is None
    assert row.flips == pytest.approx((signs[1:] != signs[:-1]).mean())
    codes = np.clip((sums + 4) >> 3, -100, 100)
    row = found["codes", "requantise.requantise"]
    assert row.at_low == (codes == -100).mean() > 0 and row.at_high == (codes == 100).mean() > 0
    assert row.saturation == row.at_low + row.at_high and row.flips is None and row.dead == 0
    assert made.samples == 150 and "dead" in made.text() and "-100" in str(made)


def test_flips_between_two_sets_of_data() -> None:
    x, y = data(), data(3)
    made = NetworkModel(watched_network(), "vm").monitor(x, others=[y])
    one, other = (np.where(each.astype(np.int64) @ WEIGHTS.T >= AT, 1, -1) for each in (x, y))
    assert rows(made)["signs", "thresholds.sign_at"].flips == (one != other).mean()
    assert rows(NetworkModel(watched_network(), "vm").monitor(x, others=[x]))["signs", "thresholds.sign_at"].flips == 0


def test_data_that_do_not_fit_are_refused() -> None:
    model = NetworkModel(watched_network(), "vm")
    for given, code in (((), "N401"), ((data()[:, :3],), "N402"), ((data()[:0],), "N404")):
        with pytest.raises(BitternError) as caught:
            model.monitor(*given)
        assert caught.value.code == code
    with pytest.raises(BitternError) as caught:
        model.monitor(data(), others=[data(3, 7)])
    assert caught.value.code == "N402"


def test_one_sample_and_json() -> None:
    made = NetworkModel(watched_network(), "vm").monitor(data()[0])
    told = made.as_json()
    assert told["samples"] == 1 and {"name", "saturation", "dead", "flips", "bits"} <= set(told["layers"][0])
    assert rows(made)["signs", "thresholds.sign_at"].flips is None
