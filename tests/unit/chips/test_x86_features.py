"""Features and tiers: made up facts, this processor against what its system says, forced tiers."""

from pathlib import Path

import pytest
from x86_run import features

from bittern.base.errors import BitternError
from bittern.chips.x86.encode import Assembler
from bittern.chips.x86.features import FEATURES, TIERS, Facts, decode, tier
from bittern.chips.x86.registers import xmm, zmm

SAVED = {"avx512": 0xE7, "avx": 0x7, "sse": 0x3}
# What Linux calls some of them.
OTHER_NAMES = {"sse3": "pni", "lzcnt": "abm", "prefetchw": "3dnowprefetch"}


def facts(names: frozenset[str]) -> dict[tuple[int, int], Facts]:
    """Return the words of a processor that has these features."""
    words: dict[tuple[int, int], list[int]] = {}
    for feature in FEATURES:
        row = words.setdefault((feature.leaf, feature.subleaf), [0, 0, 0, 0])
        if feature.name in names:
            row[feature.register] |= 1 << feature.bit
    return {place: (row[0], row[1], row[2], row[3]) for place, row in words.items()}


def test_made_up_processors_get_their_tier() -> None:
    for wanted in TIERS:
        found = decode(facts(wanted.features), SAVED["avx512"])
        assert found == wanted.features and tier(found) == wanted


def test_registers_that_the_system_does_not_save_do_not_count() -> None:
    everything = facts(frozenset(feature.name for feature in FEATURES))
    assert tier(decode(everything, SAVED["avx512"])).name == "avx512-vnni"
    assert tier(decode(everything, SAVED["avx"])).name == "avx2-vnni"
    without = decode(everything, SAVED["sse"])
    assert tier(without).name == "sse2" and {"bmi2", "popcnt", "sse4_2"} <= without


def test_one_missing_feature_costs_the_tier() -> None:
    best = TIERS[-1]
    for name in sorted(best.features - TIERS[0].features):
        assert tier(decode(facts(best.features - {name}), SAVED["avx512"])) != best, name


def test_tiers_are_in_order() -> None:
    assert [t.name for t in TIERS] == ["sse2", "avx2", "avx2-vnni", "avx512", "avx512-vnni"]
    assert [t.vector for t in TIERS] == [16, 32, 32, 64, 64]
    assert TIERS[0].features < TIERS[1].features < TIERS[3].features < TIERS[4].features


@pytest.mark.req("C044")
def test_a_tier_is_forced_or_refused_by_name() -> None:
    here = TIERS[1].features
    assert tier(here).name == "avx2" and tier(here, "sse2").name == "sse2"
    with pytest.raises(BitternError) as missing:
        tier(here, "avx512")
    assert missing.value.code == "R163" and "avx512bw, avx512cd" in missing.value.what
    assert "Choose `avx2`" in missing.value.remedy
    with pytest.raises(BitternError) as unknown:
        tier(here, "avx51")
    assert unknown.value.code == "R162" and "`avx512`" in unknown.value.remedy


def test_a_forced_tier_bounds_what_is_written() -> None:
    a = Assembler(TIERS[0].features)
    a.paddd(xmm[1], xmm[2])
    with pytest.raises(AssertionError, match="pshufb x x needs ssse3"):
        a.pshufb(xmm[1], xmm[2])
    with pytest.raises(AssertionError, match="needs avx512_bf16"):
        Assembler(TIERS[-1].features).vcvtne2ps2bf16(zmm[1], zmm[2], zmm[3])


@pytest.mark.req("C044")
def test_the_processor_says_what_its_system_says() -> None:
    found, listing = features(), Path("/proc/cpuinfo")
    if not listing.is_file():
        pytest.skip("this system lists no features of its processor")
    line = next(line for line in listing.read_text().splitlines() if line.startswith("flags"))
    flags = set(line.partition(":")[2].split())
    shown = {feature.name for feature in FEATURES if OTHER_NAMES.get(feature.name, feature.name) in flags}
    assert found == shown


def test_a_planted_wrong_bit_is_caught() -> None:
    shifted = {place: (a << 1, b << 1, c << 1, d << 1) for place, (a, b, c, d) in facts(TIERS[1].features).items()}
    assert decode(shifted, SAVED["avx512"]) != TIERS[1].features
