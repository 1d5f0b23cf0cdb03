"""From a function to its plan: choose a rule for every application, order the launches, and put barriers between them.

Applications are looked at from the last to the first, so that a rule that covers several finds them through the one
that ends them. Of the rules that match, the first in the table wins: they stand there from the one that saves most to
the generic one. Without fusing only rules that cover a single application are asked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bittern.base.errors import BitternError, code
from bittern.graph.node import Function
from bittern.plan.flow import Apply, Value, flow_of, without_sizes
from bittern.plan.plan import Known, Launch, Operand, Plan, Region, value_of
from bittern.plan.scene import Scene

if TYPE_CHECKING:
    from bittern.lang.library import Library

NO_RULE = code("P102", "no kernel and no lowering covers a node")

Rule = Callable[[Apply, Scene], "Region | None"]
Watch = Callable[[Apply, Scene, Region], None]


def plan_of(
    function: Function,
    rules: Sequence[tuple[str, Rule]],
    known: frozenset[str],
    library: "Library",
    dims: Mapping[int, int] | None = None,
    *,
    fuse: bool = True,
    without: Iterable[str] = (),
    dropped: frozenset[str] = frozenset(),
    watch: Watch | None = None,
    tier: str = "",
) -> Plan:
    """Plan a function.

    rules: by name, the best first. known: library functions that rules are about. library: where the program comes
    from. dims: sizes that are fixed; position 0 is the number of tokens. without: names of rules that are not used.
    dropped: facts that rules are not told (scene.py); without `sizes`, constant ones are dimensions of the plan. watch:
    is shown every decision before it changes the scene. tier: what the plan is for, see cost.py; "" for the best.
    Raises P101, P102.
    """
    flow, names = flow_of(function, known, dims), function.labels.dims
    if "sizes" in dropped:
        flow, open_ = without_sizes(flow, function.dims)
        names = (*names, *map(str, open_))
    scene = Scene(flow, (dims or {}).get(0), library, dropped, without=frozenset(without), fuse=fuse, tier=tier)
    for apply in flow.applies:
        _note_known(apply, scene)
    regions = list[Region]()
    for apply in reversed(flow.applies):
        if apply in scene.covered or not scene.is_needed(apply):
            continue  # what nothing reads, or what all that read it know as a number, is not made
        region = _region(apply, scene, [(name, rule) for name, rule in rules if name not in scene.without], fuse)
        if watch is not None:
            watch(apply, scene, region)
        scene.covered.update(region.covers)
        scene.same.update(region.same)
        scene.needed.update(_needs(region))
        regions.append(region)
    regions.reverse()
    root = _roots(flow.inputs, regions, scene)
    ordered = tuple(_with_barriers(_by_one(regions, root), root))
    sizes = {root[value]: size for region in regions for value, size in region.bytes.items()}
    inputs, results = flow.inputs, flow.results
    return Plan(function.name, names, inputs, results, ordered, root, dict(scene.known), sizes, function.id.hex())


def _needs(region: Region) -> Iterator[Value]:
    """Yield the values that have to be there for a region; of one that is only noted, all that it covers reads."""
    yield from region.same.values()
    if not region.launches and not region.same:
        yield from (value for apply in region.covers for value in apply.arguments)
    for launch in region.launches:
        yield from (value_of(operand) for operand in (*launch.reads.values(), *launch.writes.values()))


def _note_known(apply: Apply, scene: Scene) -> None:
    """Note an application whose arguments are all constants, or known themselves: it is evaluated once."""
    sizes = [size.constant for result in apply.results for size in result.type.shape]
    if apply.name == "blocks" or apply.lead or None in sizes:
        return
    if all(each.source == "const" or each in scene.known for each in apply.inputs):
        for leaf, result in enumerate(apply.results):
            scene.known[result] = Known(apply, leaf)
        scene.covered.add(apply)


def _region(apply: Apply, scene: Scene, rules: Sequence[tuple[str, Rule]], fuse: bool) -> Region:
    for name, rule in rules:
        region = rule(apply, scene)
        if region is not None and (fuse or len(region.covers) == 1):
            return replace(region, rule=name)
    raise BitternError(
        NO_RULE, f"Nothing covers `{apply.label or apply.name}` ({apply.name}).", "Run the model on the chip `vm`."
    )


def _roots(inputs: Sequence[Value], regions: Sequence[Region], scene: Scene) -> Mapping[Value, Value]:
    """Return the value whose memory each value has, through chains of aliases."""
    root: dict[Value, Value] = {}

    def find(value: Value) -> Value:
        while value in scene.same:
            value = scene.same[value]
        return value

    for region in regions:
        for launch in region.launches:
            for operand in (*launch.reads.values(), *launch.writes.values()):
                root[value_of(operand)] = find(value_of(operand))
    for value in (*inputs, *scene.flow.results, *scene.same):
        root[value] = find(value)
    return root


def _by_one(regions: Sequence[Region], root: Mapping[Value, Value]) -> list[Region]:
    """Have one thread alone do what every thread was to do for itself, where others update the result in place."""
    launches = [launch for region in regions for launch in region.launches]
    written = {launch: {root[value_of(each)] for each in launch.writes.values()} for launch in launches}
    shared = {value for launch in launches if launch.mode != "each" for value in written[launch]}
    each = [launch for launch in launches if launch.mode == "each"]
    one: set[Launch] = set()
    while found := [launch for launch in each if launch not in one and not shared.isdisjoint(written[launch])]:
        one.update(found)
        shared.update(value for launch in found for value in written[launch])
    done = []
    for region in regions:
        made = (replace(launch, mode="one") if launch in one else launch for launch in region.launches)
        done.append(replace(region, launches=tuple(made)))
    return done


def _with_barriers(regions: Sequence[Region], root: Mapping[Value, Value]) -> list[Region]:
    """Mark the launches after which all threads must meet.

    A launch that touches what another thread may have written, or writes what another may still read, since the last
    barrier, has one in front. No other thread touches what a thread makes for itself, what all share out in the same
    partition, or what the first thread does alone.
    """
    flat = [(at, launch) for at, region in enumerate(regions) for launch in region.launches]
    private = private_values((launch for _, launch in flat), root)
    written: dict[Value, str] = {}
    read: dict[Value, str] = {}
    marked: list[bool] = [False] * len(flat)
    for k, (_, launch) in enumerate(flat):
        reads = _shares(launch, launch.reads, k, root, private)
        writes = _shares(launch, launch.writes, k, root, private)
        late = any(written.get(value, own) != own for value, own in (*reads.items(), *writes.items()))
        if late or any(read.get(value, own) != own for value, own in writes.items()):
            marked[k - 1] = True
            written, read = {}, {}
        written.update((value, own if written.get(value, own) == own else "several") for value, own in writes.items())
        read.update((value, own if read.get(value, own) == own else "several") for value, own in reads.items())
    done: list[list[Launch]] = [[] for _ in regions]
    for (at, launch), barrier in zip(flat, marked, strict=True):
        done[at].append(replace(launch, barrier=barrier))
    return [replace(region, launches=tuple(launches)) for region, launches in zip(regions, done, strict=True)]


def _shares(
    launch: Launch, operands: Mapping[str, Operand], number: int, root: Mapping[Value, Value], private: set[Value]
) -> dict[Value, str]:
    """Return what a launch touches, with who touches it: a partition, the first thread alone, or just this launch."""
    found: dict[Value, str] = {}
    for name, operand in operands.items():
        value = root[value_of(operand)]
        if value not in private:
            own = launch.partition if launch.partition and name in launch.shares else f"launch {number}"
            own = "the first thread" if launch.mode == "one" else own
            found[value] = own if found.get(value, own) == own else f"launch {number}"
    return found


def private_values(launches: Iterable[Launch], root: Mapping[Value, Value]) -> set[Value]:
    """Return the values that every thread makes for itself: nothing else may write them."""
    made = list(launches)
    own = {root[value_of(each)] for launch in made if launch.mode == "each" for each in launch.writes.values()}
    for launch in made:
        others = {root[value_of(each)] for each in launch.writes.values()} if launch.mode != "each" else set()
        assert not own & others, ("a thread's own value is written by all", launch.recipe, launch.label)
    return own
