"""Networks of few bits: planned with kernels that count bits, on every tier, equal the definitions bit for bit."""

from typing import Any

import numpy as np
import pytest
from bit_networks import LIBRARY, NETWORKS, Maker, values

from bittern.bitops.kernel import Kernel
from bittern.chips.x86.features import TIERS, is_here, read
from bittern.front.network.network import Network
from bittern.kernels import recipes
from bittern.plan.cost import counts_bits
from bittern.plan.plan import Plan
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES
from bittern.runtime.network import NetworkModel

native = pytest.mark.skipif(not is_here(), reason="this processor or system does not run x86-64 code")


def planned(network: Network, batch: int = 1, **options: Any) -> Plan:
    """Plan a network."""
    return plan_of(network.function, RULES, KNOWN, LIBRARY, {0: batch}, **options)


def kernels(plan: Plan) -> list[str]:
    """The names of the kernels of a plan."""
    return [launch.recipe.name for launch in plan.launches]


def leaves(found: Any) -> list[np.ndarray[Any, Any]]:
    """Results as a list."""
    return list(found.values()) if isinstance(found, dict) else [found]


def inputs(network: Network, batch: int) -> np.ndarray[Any, Any]:
    """Random inputs."""
    port = network.inputs[0]
    return values(np.random.default_rng(batch), port.element.name, (batch, *port.shape))


def equal(found: Any, wanted: Any) -> bool:
    """Whether all results are the same."""
    return all((a == b).all() and a.dtype == b.dtype for a, b in zip(leaves(found), leaves(wanted), strict=True))


@native
@pytest.mark.req("C019", "C020", "C045", "C046", "C101")
@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_fastest_tier_equals_the_definitions(name: str) -> None:
    network = NETWORKS[name]
    reference = NetworkModel(network, chip="vm")
    fused = NetworkModel(network, chip="x86", threads=2)
    plain = NetworkModel(network, chip="x86", threads=1, fuse=False)
    for batch in (1, 5, 64):
        x = inputs(network, batch)
        wanted = reference.run(x)
        assert equal(fused.run(x), wanted), batch
        if batch == 5:
            assert equal(plain.run(x), wanted)


def _chains() -> dict[str, Network]:
    """Networks whose inputs are numbers, quantised in ways that rise or fall."""

    def network(element: str, *steps: Any) -> Network:
        maker = Maker()
        x = maker.a.input("x", "f32", (75,))
        for kind, *more in steps:
            x = maker.a.scalar(kind, x, more[0], first=len(more) > 1) if more else maker.a.op(kind, x)
        codes = maker.a.op("sign" if element in ("b1", "t") else "round", x, to=element)
        return maker.made(maker.dense(maker.sign(maker.dense(codes, 40)), 10))

    half = np.float32(0.1)
    return {
        "signs of pixels": network("b1", ("mul", 2.0), ("sub", 1.0)),
        "signs that fall": network("b1", ("mul", -3.0), ("add", half), ("floor",)),
        "signs of what is taken away": network("b1", ("sub", 0.3, True), ("div", 7.0)),
        "always": network("b1", ("max", 0.5)),
        "never": network("b1", ("min", -0.5), ("neg",), ("neg",)),
        "ternary": network("t", ("div", 0.7), ("round_even",)),
        "ternary that falls": network("t", ("neg",), ("trunc",)),
        "two bits": network("u2", ("mul", half), ("add", 1.5)),
        "two signed bits that fall": network("i2", ("mul", -half)),
        "behind what rises and falls": network("u2", ("mul", half), ("abs",)),
    }


CHAINS = _chains()


@native
@pytest.mark.parametrize("name", sorted(CHAINS))
def test_numbers_become_codes_by_thresholds(name: str) -> None:
    network = CHAINS[name]
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((64, 75)) * 3).astype(np.float32)
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 0.5, 0.25, -0.25], np.float32)
    found = [each.recipe.arguments[1] for each in planned(network).launches if each.recipe.name == "bits_of_numbers"]
    assert len(found) == 1
    at = np.array([limit[0] for limits in found for limit in limits], np.uint32)  # type: ignore[union-attr,index]
    near = np.concatenate([at - np.uint32(1), at, at + np.uint32(1)]).view(np.float32)
    x[rng.random(x.shape) < 0.3] = rng.choice(edges)
    where = rng.random(x.shape) < 0.4
    x[where] = rng.choice(np.concatenate([edges, near]), where.sum())
    assert equal(NetworkModel(network, chip="x86").run(x), NetworkModel(network, chip="vm").run(x))


@native
@pytest.mark.parametrize("tier", [each.name for each in TIERS[:-1]])
def test_each_tier_equals_the_definitions(tier: str) -> None:
    if not next(each for each in TIERS if each.name == tier).features <= read():
        pytest.skip(f"this processor lacks {tier}")
    for name in ("two bits", "images of signs"):
        network = NETWORKS[name]
        x = inputs(network, 3)
        assert equal(NetworkModel(network, chip="x86", tier=tier).run(x), NetworkModel(network, chip="vm").run(x)), name


def test_signs_stay_packed_between_layers() -> None:
    plan = planned(NETWORKS["two dense layers of signs"])
    assert kernels(plan) == ["pack_values", "sign_product", "sign_product", "sign_product"]
    assert not any(launch.barrier for launch in plan.launches)
    plan = planned(NETWORKS["images of signs"], 64)
    assert kernels(plan) == ["pack_values", *["sign_product"] * 4]


def test_what_others_read_is_written_as_bytes_too() -> None:
    plan = planned(NETWORKS["signs that are given out"])
    assert kernels(plan) == ["pack_values", "sign_product", "pack_values", "sign_product", "sign_product"]


def test_rules_that_are_left_out_leave_a_sound_plan() -> None:
    for name, _ in RULES[:-1]:
        for network in ("images of signs", "pools that overlap", "signs that are given out"):
            planned(NETWORKS[network], without=[name])


@pytest.mark.req("C081")
def test_widths_decide_what_is_counted() -> None:
    assert all(counts_bits(pairs, 1.0, "") for pairs in (1, 2, 3, 4, 5))
    assert not any(counts_bits(pairs, 1.0, "") for pairs in (6, 8, 9, 16))
    assert not counts_bits(2, 1.0, "avx2-vnni")
    assert not counts_bits(1, 64 / 3, "")
    assert "sign_product" not in kernels(planned(NETWORKS["three bits"]))
    assert "sign_product" in kernels(planned(NETWORKS["two bits"]))
    assert "sign_product" not in kernels(planned(NETWORKS["two bits"], tier="avx2-vnni"))


@native
def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Maker(7)
    x = network.a.input("x", "b1", (1073,))  # sizes that no other test has: compiled code is kept
    made = network.made(network.dense(network.sign(network.dense(x, 1041)), 10))
    given = inputs(made, 4)

    def turned(*arguments: Any) -> Kernel:
        *front, weights = arguments
        return recipes_pack(*front, {"signs": "u1"}.get(weights, weights))

    recipes_pack = recipes.RECIPES["pack_planes"]
    monkeypatch.setattr(recipes, "RECIPES", {**recipes.RECIPES, "pack_planes": turned})
    assert not equal(NetworkModel(made, chip="x86").run(given), NetworkModel(made, chip="vm").run(given))
