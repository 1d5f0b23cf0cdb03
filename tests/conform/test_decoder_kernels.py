"""The kernels of a decoder beside its matrix products equal the library's definitions, bit for bit, as interpreted."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from decoder_cases import CASES, Case, attended, cached, cases, equal, flat, junk
from vm_cases import DEFINITIONS, LIBRARY, Array, numbers

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.bitops.simplify import simplify
from bittern.bitops.verify import verify
from bittern.graph.evaluate import prepare
from bittern.kernels import attend, attention, elementary, quantise, scores

_COUNTS = {"attention": 8, "attention_chunks": 4, "attention_step": 8, "rotary_store": 6, "norm_rows": 12}


@pytest.mark.req("C073")
@pytest.mark.parametrize("name", sorted(CASES))
def test_kernels_equal_their_definitions(name: str) -> None:
    for seed, case in enumerate(cases(name, _COUNTS.get(name, 4))):
        verify(case.kernel)
        assert case.wrong(case.run()) == [], seed


@pytest.mark.parametrize("name", ["gate_rows", "attention", "attention_step", "rotary_store"])
def test_the_order_of_rounds_does_not_matter(name: str) -> None:
    def backward(kernel: Kernel, buffers: dict[str, Array], t: int) -> None:
        interpret(kernel, buffers, (t,), backward=True)

    for case in cases(name, 2):
        assert case.wrong(case.run(backward)) == []


@pytest.mark.parametrize("name", ["norm_rows", "gate_rows", "attention", "argmax_rows"])
def test_kernels_stay_equal_when_simplified(name: str) -> None:
    for case in cases(name, 2):
        simple = replace(case, kernel=simplify(case.kernel))
        verify(simple.kernel)
        assert simple.wrong(simple.run()) == []


# The elementary functions, lane by lane


def _lanes(function: Callable[[Handle], Handle], x: Array) -> Array:
    b = Builder("lanes")
    source, to = b.buffer("x", "f32", x.size, "read"), b.buffer("y", "f32", x.size, "write")
    with b.loop(0, x.size, 16) as loop:
        (i,) = loop
        loop.carry()
        to.store(i, function(source.load("f32x16", i)))
    y = np.empty_like(x)
    interpret(b.build(), {"x": x, "y": y})
    return y


_EDGES = (0.0, -0.0, 1e-45, -1e-45, 0.625, -0.625, 88.72, 88.73, 88.8, 89.0, -103.97, -103.98, -104.0, -200.0)


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "silu", "gelu_tanh"])
def test_elementary_functions_equal_their_definitions(name: str) -> None:
    rng = np.random.default_rng(5)
    special = np.array([*_EDGES, np.inf, -np.inf, np.nan, 3e38, -3e38], np.float32)
    near = np.nextafter(special, np.float32(0)).astype(np.float32)
    x = np.concatenate([special, near, numbers(rng, 2048 - 2 * special.size, spread=7)])
    module = "activations" if name in ("silu", "gelu_tanh") else "elementary"
    program = prepare(LIBRARY.function(f"{module}.{name}"), (), world=DEFINITIONS, lead=1)
    with np.errstate(all="ignore"):
        expected = np.asarray(program(x))
    assert equal(_lanes(getattr(elementary, name), x), expected)


# Planted faults: each must be seen


def _unseen(monkeypatch: pytest.MonkeyPatch, where: object, name: str, fault: object, cases_of: str) -> bool:
    """Whether a fault passes all cases."""
    monkeypatch.setattr(where, name, fault)
    return not any(case.wrong(case.run()) for case in cases(cases_of, 12))


def test_a_wrong_exponential_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _unseen(monkeypatch, elementary, "_C7", elementary._C7 * 1.01, "attention")


def test_a_wrong_order_of_partials_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def pairs(self: Handle, kind: str) -> Handle:
        x = self
        while not x.type.is_scalar:
            half = x.type.count // 2
            lanes = [x.lane(k) for k in range(x.type.count)]
            made = [a.binary(kind, c) for a, c in zip(lanes[0::2], lanes[1::2], strict=True)]
            x = x.builder.collect(*made) if half > 1 else made[0]
        return x

    assert not _unseen(monkeypatch, Handle, "fold", pairs, "norm_rows")


def test_wrong_chunks_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend, "_SCALED", 256 + 16)
    assert not _unseen(monkeypatch, attend, "CHUNK", 256, "attention_chunks")


def test_a_mask_that_shows_too_much_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def sees(self: attend.Work, token: attend.Token, place: Handle) -> Handle:
        return place <= (token.last + 1).wrap("i32").broadcast(16)

    assert not _unseen(monkeypatch, attend.Work, "_sees", sees, "attention")


def test_a_wrong_bound_of_tiny_blocks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not _unseen(monkeypatch, quantise, "_TINY_BITS", 0x0D800000 + (3 << 23), "quantise_rows")


def test_keys_in_a_wrong_order_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = scores.transpose
    assert not _unseen(monkeypatch, scores, "transpose", lambda rows: right([*rows[1:], rows[0]]), "attention")


# Several tokens together, and contexts whose scores are too many to be kept


@pytest.mark.parametrize("name", ["attention", "attention_chunks"])
def test_scores_that_are_made_twice_are_the_same(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(attend, "_KEPT", 0)
    for case in cases(name, 4):
        verify(case.kernel)
        assert case.wrong(case.run()) == []


def test_tokens_together_equal_tokens_alone() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        held = cached(rng, 128, 7, 32)
        first = int(rng.integers(0, 100))
        pos = np.arange(first, first + 7, dtype=np.uint32)
        held = replace(held, seq=np.zeros(7, np.uint32), pos=pos, parts=[np.nan_to_num(p) for p in held.parts])
        view = attention.View(held.shape, 3, int(rng.choice([0, 1, 2, 5, 40])))
        q = numbers(rng, 7, held.shape.g * 3, 32) * np.float32(0.1)
        expected = {"y": attended(held, view, q)}
        given = held.buffers | flat(queries=q, y=junk(np.float32, q.size))
        for tokens in (1, 2, 4):
            kernel = attention.attention(replace(view, tokens=tokens), over="tokens")
            assert Case(kernel, 7, given, expected).wrong(Case(kernel, 7, given, expected).run()) == [], (seed, tokens)
