"""What fusing saves: the ledger of two plans of one function, one with regions of several applications, one without."""

from dataclasses import dataclass

from bittern.plan.arena import Memory
from bittern.plan.counts import Counting, Run, launched, sum_of
from bittern.plan.memory import memory_of
from bittern.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that is counted, in the plan of single applications and in the fused one."""

    name: str
    single: int
    fused: int

    @property
    def removed(self) -> int:
        """How much less it is."""
        return self.single - self.fused


@dataclass(frozen=True, slots=True)
class Ledger:
    """Rows: launches and barriers of the first thread, allocations (values that have memory), transfers, bytes."""

    rows: tuple[Row, ...]

    def __getitem__(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return the rows as plain values."""
        return {row.name: {"single": row.single, "fused": row.fused, "removed": row.removed} for row in self.rows}


def ledger(single: Plan, fused: Plan, run: Run, *, loop: bool = False) -> Ledger:
    """Return what fusing saves in one run. loop: the plans are those of a loop's step."""
    before, after = _counted(single, run, loop), _counted(fused, run, loop)
    return Ledger(tuple(Row(name, before[name], after[name]) for name in before))


def _counted(plan: Plan, run: Run, loop: bool) -> dict[str, int]:
    launches, barriers = launched(plan, run.threads, 1, loop)
    work = sum_of(Counting(plan).works(run))
    memory = memory_of(plan, run.sizes)
    return {
        "launches": launches[0],
        "barriers": barriers[0],
        "allocations": allocations(memory),
        "transfers": 0,
        "bytes_read": work.read,
        "bytes_written": work.written,
        "bytes_kept": memory.shared.bytes + run.threads * memory.own.bytes,
    }


def allocations(memory: Memory) -> int:
    """Return how many values have memory, all made when the plan is loaded."""
    return len(memory.shared.places) + len(memory.own.places)
