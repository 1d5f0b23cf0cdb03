"""What one run of a plan has in its hands, and which cache holds it."""

from collections.abc import Sequence
from dataclasses import dataclass

from bittern.plan.arena import Memory
from bittern.plan.caches import CpuCache, home
from bittern.plan.counts import Run, touched
from bittern.plan.plan import Launch, Packed, Plan, value_of


@dataclass(frozen=True, slots=True)
class WorkingSet:
    """Bytes, each counted once. weights: constants that are read. cache: keys, values and other inputs.

    values: of the arenas, each thread's own included. largest: of the launch that touches most.
    """

    weights: int
    cache: int
    values: int
    largest: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.cache + self.values

    def homes(self, known: Sequence[CpuCache]) -> dict[str, str]:
        """Return the smallest cache that holds each part, or `memory`."""
        parts = {"weights": self.weights, "cache": self.cache, "values": self.values}
        parts |= {"largest": self.largest, "total": self.total}
        return {name: home(size, tuple(known)) for name, size in parts.items()}

    def as_json(self, known: Sequence[CpuCache]) -> dict[str, object]:
        """Return the numbers as plain values, with the caches that they were held against."""
        return {
            "weights": self.weights,
            "cache": self.cache,
            "values": self.values,
            "largest_launch": self.largest,
            "total": self.total,
            "homes": self.homes(known),
            "caches": [{"level": each.level, "bytes": each.bytes, "cores": each.cores} for each in known],
        }


def working_set(plan: Plan, memory: Memory, run: Run) -> WorkingSet:
    """Return the working set of one run."""
    weights: dict[object, int] = {}
    inputs: dict[object, int] = {}
    largest = 0
    for launch in plan.launches:
        sizes = list(_sizes(launch, plan, run))
        largest = max(largest, sum(size for _, _, size in sizes))
        for key, source, size in sizes:
            if source == "const":
                weights[key] = max(weights.get(key, 0), size)
            elif source == "input":
                inputs[key] = max(inputs.get(key, 0), size)
    values = memory.shared.bytes + run.threads * memory.own.bytes
    return WorkingSet(sum(weights.values()), sum(inputs.values()), values, largest)


def _sizes(launch: Launch, plan: Plan, run: Run) -> list[tuple[object, str, int]]:
    """Return what a launch touches: what it is, where it comes from, its bytes."""
    found: dict[object, tuple[str, int]] = {}
    for operands, writes in ((launch.reads, False), (launch.writes, True)):
        for name, operand in operands.items():
            value = plan.root[value_of(operand)]
            source = "const" if value in plan.known else value.source
            layout = operand.recipe if isinstance(operand, Packed) else getattr(operand, "offset", 0)
            key = (value.data or value, layout)
            size = touched(launch, name, plan, run, writes)
            found[key] = (source, max(size, found.get(key, ("", 0))[1]))
    return [(key, *rest) for key, rest in found.items()]
