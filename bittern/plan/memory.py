"""Where the values of a plan lie: lifetimes, and places in one arena that values which never live together share.

A value lives from the first launch that touches it to the last, results to the end. Values are placed by size, the
largest first, each at the lowest place where nothing lives that lives when it does (greedy by size, Pisarchyk & Lee
2020). A thread's own values lie in an arena of each thread.
"""

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

from bittern.plan.arena import LINE, Arena, Memory
from bittern.plan.check import check
from bittern.plan.flow import Value
from bittern.plan.plan import Plan, value_of
from bittern.plan.planner import private_values


@dataclass(frozen=True, slots=True)
class Life:
    """A value's size in bytes and when it lives, first to last, both included.

    Time is counted in launches for what a thread has for itself, and in barriers for what all see: between two barriers
    one thread may be ahead of another.
    """

    value: Value
    bytes: int
    first: int
    last: int


def memory_of(plan: Plan, sizes: Sequence[int]) -> Memory:
    """Place the made values of a plan, and check that the plan holds (check.py).

    sizes: of the plan's dimensions; of tokens, the most that will run.
    """
    shared, own = lives_of(plan, sizes)
    memory = Memory(place(shared), place(own))
    check(plan, memory, sizes)
    return memory


def lives_of(plan: Plan, sizes: Sequence[int]) -> tuple[list[Life], list[Life]]:
    """Return the lives of the made values that all threads see, and of those that every thread has for itself."""
    launches = plan.launches
    private = private_values(launches, plan.root)
    spans: dict[Value, tuple[int, int]] = {}
    barriers = 0
    for number, launch in enumerate(launches):
        for operand in (*launch.reads.values(), *launch.writes.values()):
            value = plan.root[value_of(operand)]
            if value.source == "made" and value not in plan.known:
                at = number if value in private else barriers
                spans[value] = (spans[value][0] if value in spans else at, at)
        barriers += launch.barrier
    keep = {plan.root[value] for value in plan.results}
    lives = [
        Life(value, bytes_of(value, sizes), first, len(launches) if value in keep else last)
        for value, (first, last) in spans.items()
    ]
    return [life for life in lives if life.value not in private], [life for life in lives if life.value in private]


def bytes_of(value: Value, sizes: Sequence[int]) -> int:
    """Return the bytes of a value for sizes of the dimensions."""
    element = value.type.element
    count = prod(size.value(sizes) for size in value.type.shape)
    return count * element.bytes // element.columns if element.is_format else -(-count * max(8, element.bits) // 8)


def place(lives: Iterable[Life]) -> Arena:
    """Return places for values of which no two that live together overlap."""
    placed: list[tuple[int, int, int, Life]] = []  # from the lowest up
    places: dict[Value, int] = {}
    for number, life in enumerate(sorted(lives, key=lambda each: (-each.bytes, each.first))):
        size = max(LINE, -(-life.bytes // LINE) * LINE)
        at = 0
        for low, high, _, other in placed:
            if other.last < life.first or life.last < other.first:
                continue
            if at + size <= low:
                break
            at = max(at, high)
        places[life.value] = at
        insort(placed, (at, at + size, number, life))
    return Arena(places, max((high for _, high, _, _ in placed), default=0))
