"""Counts: predicted bytes are those that kernels touch in the interpreter, multiply-accumulates those of the graph."""

from typing import Any

import numpy as np
import plan_cases as cases
import pytest

from bittern.bitops.interpret import interpret
from bittern.bitops.kernel import Kernel
from bittern.kernels.recipes import build
from bittern.plan.counts import Counting, Run, Work, launched, touched
from bittern.plan.plan import Launch, Plan, identity_of

POSITION = 20


class Watched(np.ndarray[Any, Any]):
    """Memory that notes which bytes are read and which are written, in `log`."""

    log: Any = None

    def __array_finalize__(self, source: Any) -> None:
        self.log = getattr(source, "log", None)

    def __getitem__(self, key: Any) -> Any:
        if self.log is not None:
            self.log[0][key] = True
        return np.asarray(self)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        if self.log is not None:
            self.log[1][key] = True
        np.asarray(self)[key] = value


def _memory(kernel: Kernel, dims: list[int]) -> dict[str, Watched]:
    """Return buffers with values that a kernel can take: tokens at positions from 20 on, of sequence 0."""
    rng, made = np.random.default_rng(7), {}
    for buffer in kernel.buffers:
        if buffer.access == "scratch":
            continue
        count = buffer.size.value(dims)
        array = np.zeros(count, np.dtype(buffer.element.storage))
        if buffer.name in ("pos", "token"):
            array[:] = np.arange(count) + (POSITION if buffer.name == "pos" else 1)
        elif buffer.name != "seq":
            array[:] = rng.standard_normal(count) if buffer.element.is_float else rng.integers(0, 50, count)
        made[buffer.name] = array.view(Watched)
        made[buffer.name].log = (np.zeros(array.nbytes, bool), np.zeros(array.nbytes, bool))
    return made


def _interpreted(launch: Launch, run: Run) -> dict[tuple[str, bool], int]:
    """Return the bytes of each buffer that the kernel of a launch reads (False) and writes (True)."""
    kernel = launch.recipe.kernel or build(launch.recipe.name, launch.recipe.arguments)
    dims = [launch.sizes[name].value(run.sizes) for name in kernel.symbols]
    memory = _memory(kernel, dims)
    interpret(kernel, memory, dims)
    found = {(name, bool(k)): int(array.log[k].sum()) for name, array in memory.items() for k in (0, 1)}
    return {key: size for key, size in found.items() if size}


def _predicted(launch: Launch, plan: Plan, run: Run) -> dict[tuple[str, bool], int]:
    found = {(name, False): touched(launch, name, plan, run, False) for name in launch.reads}
    found |= {(name, True): touched(launch, name, plan, run, True) for name in launch.writes}
    return {key: size for key, size in found.items() if size}


def _each_recipe(plan: Plan) -> list[Launch]:
    return list({launch.recipe: launch for launch in plan.launches if launch.recipe.name != "generic"}.values())


@pytest.mark.parametrize(
    ("family", "tokens", "fuse", "element", "kept"),
    [
        ("llama", 1, True, "q4_1", "f16"),
        ("llama", 3, False, "q8_0", "f32"),
        ("gemma3", 2, True, "q5_0", "int8"),
        ("gemma3", 1, False, "q4_0", "int8"),
        ("llama", None, True, "q4_1", "f16"),
        ("gemma3", None, True, "q8_0", "int8"),
    ],
)
def test_kernels_touch_the_bytes_that_are_predicted(
    family: str, tokens: int | None, fuse: bool, element: str, kept: str
) -> None:
    """Every kernel of a plan, run by the interpreter over memory that notes each byte; an input is read once."""
    plan, run = cases.planned(family, tokens, fuse, element, kept), cases.run_of(tokens or 18, POSITION, 1)
    for launch in _each_recipe(plan):
        assert _interpreted(launch, run) == _predicted(launch, plan, run), launch.recipe


def test_a_wrong_prediction_is_seen() -> None:
    """A planted fault: a run at another position sees other parts of the cache."""
    plan, run = cases.planned("llama", 1), cases.run_of(1, POSITION, 1)
    (launch,) = (each for each in _each_recipe(plan) if each.recipe.name == "attention_step")
    assert _interpreted(launch, run) != _predicted(launch, plan, cases.run_of(1, POSITION + 1, 1))


def test_generic_takes_read_rows_only() -> None:
    plan, run = cases.planned("llama", 1, fuse=False), cases.run_of(1, 0, 1)
    region = next(region for region in plan.regions if region.covers and region.covers[0].name == "take")
    (work,) = Counting(plan).region(region, run)
    assert work == Work(0, 40 + 4, 40), "a row of 64 values of Q4_1, and a token"


def test_products_count_as_the_planner_says() -> None:
    """Two ways to count: the graph's dots, and rows times columns of the launch."""
    for tokens in (1, 4, None):
        plan, run = cases.planned("gemma3", tokens), cases.run_of(tokens or 23)
        works = Counting(plan).works(run)
        for launch, work in zip(plan.launches, works, strict=True):
            if launch.recipe.name in ("matvec", "matmul"):
                assert work.macs == launch.macs.value(run.sizes) > 0
            elif launch.recipe.name not in ("attention", "attention_step"):
                assert work.macs == 0, launch.recipe


@pytest.mark.parametrize(("window", "position", "tokens"), [(0, 0, 1), (0, 5, 3), (4, 0, 1), (4, 2, 5), (4, 9, 3)])
def test_positions_that_are_seen(window: int, position: int, tokens: int) -> None:
    run = cases.run_of(tokens, position)
    sees = [
        {p for p in range(place + 1) if not window or place - p < window}
        for place in range(position, position + tokens)
    ]
    assert run.seen(window) == sum(map(len, sees))
    together = set().union(*sees)
    assert run.span(window) == (min(together), max(together) + 1)


def test_attention_counts_scores_and_values_of_what_is_seen() -> None:
    plan = cases.planned("llama", 3)
    counting, run = Counting(plan), cases.run_of(3, 10)
    attending = [region for region in plan.regions if region.rule == "attention_of_few"]
    assert [counting.macs(region, run) for region in attending] == [2 * 2 * 32 * (11 + 12 + 13)] * 2


def test_steps_of_a_loop_add_up() -> None:
    plan = cases.planned("llama", 1)
    counting = Counting(plan)
    first, second = (counting.totals(cases.run_of(1, position), loop=True) for position in (7, 8))
    both = counting.totals(cases.run_of(1, 7), steps=2, loop=True)
    assert both.work == first.work + second.work
    assert both.launches == tuple(map(sum, zip(first.launches, second.launches, strict=True)))
    assert both.barriers == tuple(2 * count for count in first.barriers)
    assert (both.allocations, both.transfers) == (0, 0)


def test_threads_launch_what_is_theirs() -> None:
    plan = cases.planned("llama", 1)
    launches, barriers = launched(plan, 3)
    alone = sum(launch.mode == "one" for launch in plan.launches)
    assert launches == (len(plan.launches), *[len(plan.launches) - alone] * 2) and alone > 0
    assert len(set(barriers)) == 1 and launched(plan, 3, loop=True)[1][0] == barriers[0] + 1
    one, two = (Counting(plan).totals(cases.run_of(1, 0, threads)).work for threads in (1, 2))
    assert one.macs == two.macs and one.read < two.read, "what each does for itself counts for each"


def test_known_values_are_told_apart_by_what_goes_in() -> None:
    """The layers of a model share their nodes; constants of two of them must not stand for each other."""
    plan = cases.plan(
        """
        fn squared(x: f32[4], k: f32[4]) -> f32[4] { x + k * k }
        fn f(x: f32[4]) -> f32[4] { squared(squared(x, [1.0, 2.0, 3.0, 4.0]), [5.0, 6.0, 7.0, 8.0]) }
        """
    )
    found = [known for known in plan.known.values() if known.apply.name == "mul"]
    assert len(found) == 2 and found[0].apply.node is found[1].apply.node
    assert identity_of(found[0], plan) != identity_of(found[1], plan)
    assert identity_of(found[0], plan) == identity_of(found[0], plan)


def test_buffers_are_as_large_as_kernels_take_them() -> None:
    """What a kernel is proven to stay inside of is what the plan gives it."""
    for family, tokens, fuse in (("llama", 1, True), ("gemma3", None, True), ("gemma3", 3, False)):
        plan, run = cases.planned(family, tokens, fuse), cases.run_of(tokens or 18)
        for launch in _each_recipe(plan):
            kernel = build(launch.recipe.name, launch.recipe.arguments)
            dims = [launch.sizes[name].value(run.sizes) for name in kernel.symbols]
            for buffer in kernel.buffers:
                if buffer.access != "scratch":
                    needs = buffer.size.value(dims) * max(1, buffer.element.bits // 8)
                    assert needs <= _given(launch, buffer.name, plan, run), (launch.recipe, buffer.name)


def _given(launch: Launch, name: str, plan: Plan, run: Run) -> int:
    """Return the bytes behind the address that a launch gets for a buffer."""
    from bittern.plan.memory import bytes_of
    from bittern.plan.plan import Packed, Part, value_of

    operand = {**launch.reads, **launch.writes}[name]
    if isinstance(operand, Packed):
        return operand.bytes
    root = plan.root[value_of(operand)]
    whole = plan.bytes.get(root, bytes_of(root, run.sizes))
    return whole - operand.offset if isinstance(operand, Part) else whole
