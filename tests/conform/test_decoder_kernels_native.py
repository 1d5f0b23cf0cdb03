"""The kernels of a decoder as machine code of this processor equal the definitions, on every tier that it has."""

import numpy as np
import pytest
from decoder_cases import CASES, DTYPES, cases, equal, flat, junk, laid
from vm_cases import LIBRARY, TABLE, Array, numbers

from bittern.bitops.kernel import Kernel
from bittern.chips.x86 import features
from bittern.chips.x86.compile import compile_kernel
from bittern.chips.x86.run import run_kernel
from bittern.graph.evaluate import World, prepare
from bittern.kernels import attention, cache_store

if not features.is_here():
    pytest.skip("no x86-64 processor here", allow_module_level=True)

_HERE = features.read()
_TIERS = [tier for tier in features.TIERS if tier.features <= _HERE]
_COUNTS = {"attention": 6, "attention_step": 4, "attention_chunks": 3, "norm_rows": 4}


def _check(name: str, tier: features.Tier, count: int, threads: int = 1) -> None:
    def run(kernel: Kernel, buffers: dict[str, Array], t: int) -> None:
        compiled = compile_kernel(kernel, tier)
        for thread in range(threads):
            run_kernel(compiled, (t,), buffers, thread=thread, threads=threads)

    for seed, case in enumerate(cases(name, count)):
        assert case.wrong(case.run(run)) == [], (seed, tier.name)


@pytest.mark.req("C073")
@pytest.mark.parametrize("name", sorted(CASES))
def test_machine_code_equals_the_definitions(name: str) -> None:
    _check(name, _TIERS[-1], _COUNTS.get(name, 2))


@pytest.mark.parametrize("tier", _TIERS[:-1], ids=lambda tier: tier.name)
@pytest.mark.parametrize(
    "name", ["quantise_rows", "norm_rows", "gate_rows", "attention", "attention_step", "argmax_rows"]
)
def test_every_tier_gives_the_same_bits(name: str, tier: features.Tier) -> None:
    _check(name, tier, 1)


@pytest.mark.parametrize("name", ["gate_rows", "attention", "attention_step", "rotary_store", "argmax_join"])
@pytest.mark.parametrize("threads", [2, 3])
def test_any_number_of_threads_gives_the_same_bits(name: str, threads: int) -> None:
    _check(name, _TIERS[-1], 2, threads)


@pytest.mark.parametrize("element", ["f16", "i8"])
@pytest.mark.parametrize(("g", "r", "h", "window"), [(3, 3, 64, 0), (1, 4, 256, 0), (1, 4, 256, 512)])
def test_attention_at_the_shapes_of_real_models(element: str, g: int, r: int, h: int, window: int) -> None:
    rng, c, t = np.random.default_rng(1), 2048, 6
    shape = cache_store.CacheShape(element, 1, c, g, h, True)
    parts = [numbers(rng, 1, 1, c, g, size, spread=0) for size in (h, h, shape.blocks, shape.blocks)]
    if element == "i8":
        parts[:2] = [rng.integers(-127, 128, part.shape).astype(np.int8) for part in parts[:2]]
        parts[2:] = [part * np.float32(0.01) for part in parts[2:]]
    parts[:2] = [part.astype(DTYPES[element]) for part in parts[:2]]
    q = numbers(rng, t, g * r, h, spread=0) * np.float32(h**-0.5)
    pos, seq = np.arange(1150, 1150 + t, dtype=np.uint32), np.zeros(t, np.uint32)
    function = LIBRARY.function("attention.attention", overload=element)
    dims = (1, 1, c, g, h, *(() if element == "i8" else (0,)), r, t)
    run = prepare(function, dims, world=World(kernels=TABLE))
    expected = np.asarray(run(*parts, np.uint32(0), q, seq, pos, np.uint32(window)))
    buffers = laid(shape, [part[0] for part in parts]) | flat(queries=q, seq=seq, pos=pos, y=junk(np.float32, q.size))
    for over in ("heads", "tokens"):
        kernel = attention.attention(attention.View(shape, r, window), over=over)
        run_kernel(compile_kernel(kernel, _TIERS[-1]), (t,), buffers)
        assert equal(buffers["y"], expected.reshape(-1)), over
        buffers["y"][:] = 0


def test_a_wrong_result_would_be_seen() -> None:
    case = next(iter(cases("attention", 1)))
    buffers = case.run(lambda kernel, arrays, t: run_kernel(compile_kernel(kernel, _TIERS[-1]), (t,), arrays))
    name = next(iter(case.expected))
    buffers[name].view(np.uint8)[0] ^= 1
    assert case.wrong(buffers) == [name]
