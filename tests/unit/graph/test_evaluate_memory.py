"""What evaluation overwrites and what it copies; faults planted in it are found."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from building import FLAG, WORD, add, check, function, op, same, word, words, zero_words
from plain import interpret
from test_evaluate import (
    test_a_carry_becomes_batched_in_the_body,
    test_a_program_with_batch_axes_of_its_own,
    test_map_broadcasts_a_result_that_ignores_its_element,
    test_while_alone_and_in_a_batch,
)

from bittern.graph import batch, control
from bittern.graph.evaluate import CallSite, prepare
from bittern.graph.node import (
    Function,
    Node,
    call,
    choose,
    const,
    fold,
    item,
    make_tuple,
    map_over,
)
from bittern.graph.prepare import Builder
from bittern.types.dims import dim
from bittern.types.elements import F16, F32, U32
from bittern.types.values import tensor

# --- in place


CACHE = tensor(F16, 5, 8, 4)


def model(layers: int, *, late_read: bool = False, size: int = 8) -> Function:
    """A cache passed through layers as an owned parameter; each writes rows into it and then reads it."""
    cache_type = tensor(F16, layers, size, 4)
    slab, row = tensor(F16, size, 4), tensor(F32, 4)

    def block(cache: Node, x: Node, layer: Node, at: Node) -> Node:
        stored = op("update", cache, layer, at, op("round", x, type_=tensor(F16, 4), to=F16))
        read = op("take", stored, layer, type_=slab)
        rows = map_over(
            function([tensor(F16, 4)], lambda r: op("convert", r, type_=row, to=F32)), dim(size), [read], []
        )
        summed = op("sum", op("permute", rows, type_=tensor(F32, 4, size), axes=(1, 0)), type_=row)
        for _ in range(50):  # large enough not to be laid out in line
            summed = add(summed, const(np.float32(1e-3) * np.ones(4, np.float32), F32))
        return make_tuple([stored, add(x, summed)])

    layer_function = function([[cache_type], row, WORD, WORD], block)

    def forward(cache: Node, x: Node, at: Node) -> Node:
        first = op("take", cache, word(0), at, type_=tensor(F16, 4))
        for layer in range(layers):
            result = call(layer_function, [cache, x, word(layer), at])
            cache, x = item(result, 0), item(result, 1)
        if late_read:
            return make_tuple([cache, x, op("convert", first, type_=row, to=F32)])
        return make_tuple([cache, x])

    return function([[cache_type], row, WORD], forward)


@pytest.mark.parametrize("late_read", [False, True])
def test_a_cache_through_thirty_layers_is_never_copied(late_read: bool) -> None:
    f = model(30, late_read=late_read)
    program = prepare(f, donated=frozenset((0,)))
    cache, x = np.zeros((30, 8, 4), np.float16), np.ones(4, np.float32)
    wanted = interpret(f, [cache.copy(), x, np.uint32(3)])
    result = program(cache, x, np.uint32(3))
    same(tuple(result), wanted)
    assert (
        np.shares_memory(result[0], cache)
        and result[0].__array_interface__["data"] == cache.__array_interface__["data"]
    )
    assert program.copies.count == 0
    assert program.written == {0}


def test_without_a_donation_the_cache_is_copied_once() -> None:
    f = model(30)
    program = prepare(f)
    cache, x = np.zeros((30, 8, 4), np.float16), np.ones(4, np.float32)
    same(program(cache, x, np.uint32(3)), interpret(f, [cache, x, np.uint32(3)]))
    assert (program.copies.count, program.copies.bytes) == (1, cache.nbytes)
    assert not cache.any() and program.written == frozenset()


def test_a_kernel_may_write_what_it_owns() -> None:
    f = function([[tensor(U32, 4)], WORD], lambda c, x: op("update", c, word(1), x))
    donations = []

    def kernel(site: CallSite) -> Any:
        donations.append(site.donated)

        def run(cache: np.ndarray, x: np.ndarray) -> np.ndarray:
            cache = cache if 0 in site.donated else cache.copy()
            cache[1] = x
            return cache

        return run

    g = function([[tensor(U32, 4)], WORD], lambda c, x: call(f, [call(f, [c, x]), add(x, x)]))
    cache = words(1, 2, 3, 4)
    result = prepare(g, donated=frozenset((0,)), kernels={f.id: kernel})(cache, np.uint32(7))
    assert result.tolist() == [1, 14, 3, 4] and np.shares_memory(result, cache)
    assert donations == [{0}, {0}]
    keeps = function([[tensor(U32, 4)], WORD], lambda c, x: make_tuple([call(f, [c, x]), c]))
    check(keeps, cache, np.uint32(9), kernels={f.id: kernel})
    assert donations[-1] == frozenset()


def test_reads_of_the_old_value_come_first() -> None:
    def make(x: Node, i: Node) -> Node:
        new = op("update", x, i, word(9))
        return make_tuple([new, add(op("sum", new, type_=WORD), op("sum", x, type_=WORD))])

    f = function([[tensor(U32, 4)], WORD], make)
    program = prepare(f, donated=frozenset((0,)))
    x = words(1, 2, 3, 4)
    same(program(x.copy(), np.uint32(2)), interpret(f, [x, np.uint32(2)]))
    assert program.copies.count == 0


def test_an_old_value_that_is_returned_is_kept() -> None:
    f = function([[tensor(U32, 4)]], lambda x: make_tuple([op("update", x, word(1), word(9)), x]))
    result = prepare(f, donated=frozenset((0,)))(words(1, 2, 3, 4))
    assert [leaf.tolist() for leaf in result] == [[1, 9, 3, 4], [1, 2, 3, 4]]


def test_views_count_as_the_value() -> None:
    def make(x: Node) -> Node:
        view = op("reverse", x, axis=0)
        return make_tuple([op("update", x, word(0), word(9)), add(view, view), view])

    f = function([[tensor(U32, 4)]], make)
    same(prepare(f, donated=frozenset((0,)))(words(1, 2, 3, 4)), interpret(f, [words(1, 2, 3, 4)]))
    through = function([tensor(U32, 4)], lambda x: op("reverse", x, axis=0))
    g = function([[tensor(U32, 4)]], lambda x: make_tuple([op("update", x, word(0), word(9)), call(through, [x])]))
    same(prepare(g, donated=frozenset((0,)))(words(1, 2, 3, 4)), interpret(g, [words(1, 2, 3, 4)]))


def test_an_earlier_result_never_changes() -> None:
    f = function([WORD], lambda x: op("update", zero_words(4), word(1), x))
    program = prepare(f)
    results = [program(np.uint32(i)) for i in range(10)]
    assert [int(result[1]) for result in results] == list(range(10))


def sieve() -> Function:
    """A table filled by a loop: `own` in the language, in place here."""
    body = function([WORD, tensor(U32, 64)], lambda i, w: op("update", w, i, op("mul", i, i)))
    return function([WORD], lambda n: fold(body, word(0), n, [zero_words(64)], []))


def test_a_loop_copies_what_it_carries_at_most_once() -> None:
    program = prepare(sieve())
    same(program(np.uint32(64)), np.arange(64, dtype=np.uint32) ** 2)
    assert (program.copies.count, program.copies.bytes) == (1, 256)
    body = function([WORD, tensor(U32, 64)], lambda i, w: op("update", w, i, i))
    owned = function([[tensor(U32, 64)], WORD], lambda w, n: fold(body, word(0), n, [w], []))
    program = prepare(owned, donated=frozenset((0,)))
    w = np.zeros(64, np.uint32)
    assert np.shares_memory(program(w, np.uint32(9)), w) and program.copies.count == 0
    same(w, np.where(np.arange(64) < 9, np.arange(64), 0).astype(np.uint32))


def loops_that_mix_arrays() -> list[Function]:
    """Loops whose carries meet constants, captures and each other."""
    two = [tensor(U32, 4), tensor(U32, 4)]

    def swap(i: Node, a: Node, b: Node) -> Node:
        return make_tuple([b, op("update", a, i, add(i, word(100)))])

    def twin(i: Node, a: Node, b: Node) -> Node:
        new = op("update", a, i, add(i, word(100)))
        return make_tuple([new, new])

    def restart(i: Node, a: Node, b: Node, c: Node) -> Node:
        return make_tuple([c, add(b, op("update", a, i, word(7)))])

    def from_constant(i: Node, a: Node, b: Node) -> Node:
        return make_tuple([const([5, 6, 7, 8], U32), add(b, op("update", a, i, word(7)))])

    def part(i: Node, a: Node, b: Node) -> Node:
        return make_tuple([op("update", a, i, i), op("reverse", a, axis=0)])

    def loop(body: Callable[..., Node], captures: int = 0, *, alike: bool = False) -> Function:
        inner = function([WORD, *two, *two[:captures]], body)

        def make(n: Node, a: Node, b: Node) -> Node:
            state = fold(inner, word(0), n, [a, a if alike else b], [a][:captures])
            return make_tuple([item(state, 0), item(state, 1)])

        return function([WORD, *two], make)

    pairs = [loop(body, alike=alike) for body in (swap, twin, from_constant, part) for alike in (False, True)]
    return [*pairs, loop(restart, 1), loop(restart, 1, alike=True)]


@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("donated", [(), (1,), (1, 2)])
def test_loops_that_mix_arrays(place: int, donated: tuple[int, ...]) -> None:
    f = loops_that_mix_arrays()[place]
    for rounds in range(5):
        check(f, np.uint32(rounds), words(1, 2, 3, 4), words(5, 6, 7, 8), donated=frozenset(donated))


def masked_updates() -> Function:
    """A loop in a map: each element has its own bounds and table, which rounds outside them must not touch."""
    body = function([WORD, tensor(U32, 4), WORD], lambda i, w, x: op("update", w, i, add(x, i)))
    inner = function([tensor(U32, 4), WORD, WORD], lambda w, low, high: fold(body, low, high, [w], [high]))
    return function(
        [tensor(U32, 3, 4), tensor(U32, 3), tensor(U32, 3)],
        lambda w, low, high: map_over(inner, dim(3), [w, low, high], []),
    )


def test_rounds_that_an_element_does_not_take_change_nothing() -> None:
    table = np.arange(12, dtype=np.uint32).reshape(3, 4)
    check(masked_updates(), table, words(0, 2, 1), words(4, 3, 1))
    check(masked_updates(), table, words(0, 2, 1), words(4, 3, 1), donated=frozenset((0,)))


def test_a_branch_may_write_in_place() -> None:
    then = function([tensor(U32, 4), WORD], lambda w, x: op("update", w, word(0), x))
    keep = function([tensor(U32, 4), WORD], lambda w, x: w)
    f = function([[tensor(U32, 4)], WORD, FLAG], lambda w, x, c: choose(c, then, keep, [w, x]))
    for condition in (True, False):
        program = prepare(f, donated=frozenset((0,)))
        w = words(1, 2, 3, 4)
        result = program(w, np.uint32(9), np.bool_(condition))
        assert np.shares_memory(result, w) and program.copies.count == 0
        assert result.tolist() == ([9, 2, 3, 4] if condition else [1, 2, 3, 4])
    g = function(
        [[tensor(U32, 3, 4)], tensor(FLAG.element, 3)], lambda w, c: map_over(_chosen(then, keep), dim(3), [w, c], [])
    )
    table, flags = np.arange(12, dtype=np.uint32).reshape(3, 4), np.array([True, False, True])
    check(g, table, flags, donated=frozenset((0,)))


def _chosen(then: Function, otherwise: Function) -> Function:
    return function([tensor(U32, 4), FLAG], lambda w, c: choose(c, then, otherwise, [w, word(9)]))


# --- planted faults: each of the checks above can fail


def _fails(*checks: Callable[[], object]) -> bool:
    for one in checks:
        try:
            one()
        except (AssertionError, IndexError, ValueError):
            return True
    return False


@pytest.mark.parametrize("fault", ["always", "aliases", "entry", "clean", "sharing", "masks", "spread", "lead"])
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = monkeypatch.setattr
    if fault == "always":  # every update in place
        plant(Builder, "is_exclusive", lambda self, value, others: value.array is None)
    elif fault == "aliases":  # views forgotten
        plant(Builder, "is_exclusive", lambda self, value, others: value.array is None and value.roots <= self._owned)
    elif fault == "entry":  # a loop overwrites what it was given
        plant(control._Loop, "_to_copy", lambda self: set())
    elif fault == "clean":  # a loop overwrites a capture
        plant(control._Loop, "_is_clean", lambda *_: True)
    elif fault == "sharing":  # masked rounds overwrite the old state
        plant(Builder, "later", lambda self, *args: lambda: self.nested(*args[:3], frozenset(range(3)), args[3]))
    elif fault == "masks":
        plant(batch, "merge", lambda mask, new, old, ranks: tuple(new))
    elif fault == "spread":
        plant("bittern.graph.prepare.spread", lambda lead, count: lambda array: array)
    else:  # an unbatched array overwritten by each element
        plant(control, "_covers", lambda *_: True)
    loops = [lambda place=place: test_loops_that_mix_arrays(place, ()) for place in range(10)]
    assert _fails(
        test_an_old_value_that_is_returned_is_kept,
        test_views_count_as_the_value,
        *loops,
        test_rounds_that_an_element_does_not_take_change_nothing,
        test_while_alone_and_in_a_batch,
        test_map_broadcasts_a_result_that_ignores_its_element,
        test_a_carry_becomes_batched_in_the_body,
        lambda: test_a_program_with_batch_axes_of_its_own(),
    )
