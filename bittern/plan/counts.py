"""What a plan does when it runs, counted before it runs: multiply-accumulates, bytes, launches, barriers, allocations.

Multiply-accumulates are those of the graph (graph/cost.py): one for each product that a `dot` adds up; attention counts
the positions that its tokens see. Bytes are those of memory that a launch touches, each buffer once: what a kernel
reads again is in a cache. Of an embedding it reads the rows of its tokens, of tables and caches the positions that are
meant; keys in as many positions as are scored together. A launch that every thread does for itself counts once
for each. Nothing is allocated while a plan runs: all places are made when it is loaded.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from bittern.graph.cost import Costs
from bittern.kernels.recipes import positions_together
from bittern.plan.flow import Apply, Value
from bittern.plan.memory import bytes_of
from bittern.plan.plan import Launch, Packed, Plan, Region, value_of

TILE = 64  # positions: the room for keys is a multiple of it
_ATTENTION = ("attention.attention", "attention_capped.attention_capped")
_ATTENDING = ("attention", "attention_step")  # recipes that read a cache
_STORING = ("attention_step", "rotary_store", "store_rows")  # recipes that write to it
_CACHE = ("k", "v", "kd", "vd")  # names of its buffers
_TABLES = ("cos", "sin")  # one row a token
_ONE_WORD = (("advance", "out"), ("watch", "seen"))  # long buffers of which a launch touches 4 bytes


@dataclass(frozen=True, slots=True)
class Work:
    """macs: multiply-accumulates. read, written: bytes."""

    macs: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other: "Work") -> "Work":
        return Work(self.macs + other.macs, self.read + other.read, self.written + other.written)

    def times(self, count: int) -> "Work":
        """Return the work of doing it so often."""
        return Work(self.macs * count, self.read * count, self.written * count)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a plan. sizes: of its dimensions, tokens first.

    position: of the first token in its sequence; the others follow it. threads: that take part.
    """

    sizes: tuple[int, ...]
    position: int = 0
    threads: int = 1

    @property
    def tokens(self) -> int:
        """How many tokens run."""
        return self.sizes[0]

    def seen(self, window: int) -> int:
        """Return how many positions the tokens see, added up. window: positions that one sees at most, 0 for all."""
        places = range(self.position + 1, self.position + self.tokens + 1)
        return sum(min(place, window) if window else place for place in places)

    def span(self, window: int) -> tuple[int, int]:
        """Return the positions that all tokens together see: from the first to behind the last."""
        end = self.position + self.tokens
        return (max(0, self.position + 1 - window) if window else 0), end


@dataclass(frozen=True, slots=True)
class Totals:
    """What runs of a plan add up to. launches, barriers: of each thread. transfers: between spaces of memory.

    allocations: while it runs.
    """

    launches: tuple[int, ...]
    barriers: tuple[int, ...]
    work: Work
    allocations: int = 0
    transfers: int = 0

    def as_json(self) -> dict[str, object]:
        """Return the numbers as plain values."""
        return {
            "macs": self.work.macs,
            "bytes_read": self.work.read,
            "bytes_written": self.work.written,
            "launches": list(self.launches),
            "barriers": list(self.barriers),
            "allocations": self.allocations,
            "transfers": self.transfers,
        }


@dataclass(slots=True)
class Counting:
    """Counts the launches of one plan. What was found out about the graph is kept."""

    plan: Plan
    _costs: Costs = field(default_factory=Costs)
    _macs: dict[Region, int] = field(default_factory=dict)

    def works(self, run: Run) -> list[Work]:
        """Return the work of every launch of one run, all threads together."""
        return [work for region in self.plan.regions for work in self.region(region, run)]

    def region(self, region: Region, run: Run) -> list[Work]:
        """Return the work of every launch of a region; the last one has the multiply-accumulates."""
        works = [_bytes(launch, region, self.plan, run) for launch in region.launches]
        if works:
            works[-1] = replace(works[-1], macs=self.macs(region, run))
        return works

    def macs(self, region: Region, run: Run) -> int:
        """Return the multiply-accumulates of what a region covers."""
        return sum(self._of(apply, run) for apply in region.covers)

    def totals(self, run: Run, *, steps: int = 1, loop: bool = False) -> Totals:
        """Return what so many steps add up to. loop: the plan's steps repeat, each with its tokens behind the last."""
        works = Work()
        for step in range(steps):
            at = replace(run, position=run.position + step * run.tokens)
            works = sum(self.works(at), works)
        return Totals(*launched(self.plan, run.threads, steps, loop), works)

    def _of(self, apply: Apply, run: Run) -> int:
        if apply.name in _ATTENTION:
            _, heads, h = (size.value(run.sizes) for size in apply.results[0].type.shape)
            return 2 * heads * h * run.seen(_window(apply))
        cost = self._costs.node(apply.node)
        return cost.substitute(apply.setting).macs.value(run.sizes)


def launched(plan: Plan, threads: int, steps: int = 1, loop: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the launches and the barriers of each thread. A loop meets once more at the end of a step."""
    launches = plan.launches
    others = sum(launch.mode != "one" for launch in launches)
    barriers = sum(launch.barrier for launch in launches) + loop
    return (steps * len(launches), *[steps * others] * (threads - 1)), (steps * barriers,) * threads


def _bytes(launch: Launch, region: Region, plan: Plan, run: Run) -> Work:
    """Return the bytes that a launch touches, for all threads."""
    taken = region.covers[0].arguments[0] if region.rule == "generic" and region.covers[0].name == "take" else None
    read = written = 0
    for name, operand in launch.reads.items():
        rows = operand is taken
        read += bytes_of(region.covers[0].results[0], run.sizes) if rows else touched(launch, name, plan, run, False)
    for name in launch.writes:
        written += touched(launch, name, plan, run, True)
    return Work(0, read, written).times(run.threads if launch.mode == "each" else 1)


def touched(launch: Launch, name: str, plan: Plan, run: Run, writes: bool) -> int:
    """Return the bytes of one buffer that a launch reads or writes."""
    recipe, operand = launch.recipe.name, (launch.writes if writes else launch.reads)[name]
    if isinstance(operand, Packed):
        return operand.bytes
    value = value_of(operand)
    if (recipe, name) in _ONE_WORD:
        return 4
    if name in _CACHE and recipe in (*_ATTENDING, *_STORING):
        return _of_cache(launch, name, value, run, writes)
    whole = plan.bytes.get(plan.root.get(value, value), bytes_of(value, run.sizes))
    if (recipe == "embed_rows" and name == "w") or name in _TABLES:
        rows = value.type.shape[0].value(run.sizes)
        return whole // max(1, rows) * min(rows, run.tokens)
    return whole


def _of_cache(launch: Launch, name: str, leaf: Value, run: Run, writes: bool) -> int:
    """Return the bytes of a cache that tokens write, or that they see. leaf: [layers, s, c, g, h] or [.., h / 32]."""
    *_, positions, heads, width = (size.value(run.sizes) for size in leaf.type.shape)
    row = heads * width * max(1, leaf.type.element.bits // 8)
    if writes:
        return min(run.tokens, positions) * row
    if launch.recipe.name not in _ATTENDING:
        return 0
    low, end = run.span(_window_of(launch))
    if name != "v":
        step = positions_together(launch.recipe.name, launch.recipe.arguments)
        low, end = low // step * step, min(-(-end // step) * step, -(-positions // TILE) * TILE)
    return (end - low) * row


def _window(apply: Apply) -> int:
    """Return how many positions a token sees at most, from the constant that says so; 0 for all."""
    value = apply.arguments[8]
    return int.from_bytes(bytes(value.data.read()), "little") if value.data is not None else 0


def _window_of(launch: Launch) -> int:
    """Return the same from the recipe of a launch: (shape of the cache, query heads a key head, window, ...)."""
    window = launch.recipe.arguments[2]
    assert isinstance(window, int), launch.recipe
    return window


def run_of(plan: Plan, sizes: Mapping[str, int], position: int = 0, threads: int = 1) -> Run:
    """Return a run. sizes: by name of the plan's dimensions; what is not named is 0."""
    return Run(tuple(sizes.get(name, 0) for name in plan.dims), position, threads)


def sum_of(works: Sequence[Work]) -> Work:
    """Return the sum."""
    return sum(works, Work())
