"""Machine code of planned networks: whole numbers between the boundaries, on every tier."""

from dataclasses import replace

import numpy as np
import pytest

from bittern.base.errors import BitternError
from bittern.chips.x86 import floats
from bittern.chips.x86.features import TIERS, is_here
from bittern.front.network.assembly import Assembly
from bittern.front.network.network import Network
from bittern.lang.library import Library
from bittern.passes.network import integer_only
from bittern.runtime.float_scan import need_integer_code, scan
from bittern.runtime.planning import NETWORK, Planned, Wish, planned_network

pytestmark = pytest.mark.skipif(not is_here(), reason="plans for x86 are made on x86-64")


def little() -> Network:
    """A float input, its quantiser, two layers with a norm between them, scores."""
    rng = np.random.default_rng(0)
    a = Assembly(Library.standard())
    code = a.op("sign", a.scalar("sub", a.input("x", "f32", (70,)), 0.5), to="b1")
    w = [a.constant(rng.choice([-1, 1], shape).astype(np.int8), "b1") for shape in ((40, 70), (10, 40))]
    y = a.scalar("mul", a.op("convert", a.call("dense.dense", w[0], code), to="f32"), 0.1)
    gain = a.constant(rng.standard_normal(40).astype(np.float32), "f32")
    y = a.label(a.op("sign", a.op("mul", y, a.spread(gain, y)), to="b1"), "act")
    y = a.label(a.call("dense.dense", w[1], y), "fc")
    scores = a.scalar("mul", a.op("convert", y, to="f32"), 0.25)
    return a.network("little", {"scores": scores})


def planned(tier: str, *, folds: bool = True) -> Planned:
    network = little()
    program = integer_only(network.function, network.library)[0] if folds else network.function
    return planned_network(network, program, Wish(NETWORK, 1, 1, chip="x86", tier=tier, threads=1))


@pytest.mark.req("C084")
@pytest.mark.parametrize("tier", [tier.name for tier in TIERS])
def test_float_instructions_stand_at_boundaries_alone(tier: str) -> None:
    found = need_integer_code(planned(tier))
    inner = [row for row in found if not row.is_boundary]
    assert inner and not any(row.count for row in inner)
    assert any(row.count for row in found if row.is_boundary), "scores are floats"
    assert found[0].as_json()["boundary"] in (True, False)


def test_without_the_passes_floats_stand_in_the_middle() -> None:
    names = [row.labels for row in scan(planned("avx2", folds=False)) if row.count]
    assert len(names) > len([row for row in scan(planned("avx2")) if row.count])


def test_floats_in_a_kernel_of_whole_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault: one kernel without floats at its edges is said to have a conversion inside."""
    use = floats.FloatUse(16, "vcvtdq2ps", "dot")
    real = floats.float_uses

    def planted(code: object) -> tuple[floats.FloatUse, ...]:
        return real(code) or (replace(use, offset=0),)  # type: ignore[arg-type]

    monkeypatch.setattr(floats, "float_uses", planted)
    with pytest.raises(BitternError, match="R169") as caught:
        need_integer_code(planned("avx2"))
    assert "vcvtdq2ps" in caught.value.what
