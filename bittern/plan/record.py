"""A plan as a record: plain values for JSON, and an identity of its own that names the graph's.

The identity is that of everything that decides what runs: the function, the target, and for every region its rule, what
it covers and its launches with kernels, operands, sizes, modes and barriers. Places in memory follow from that, and
labels are for people; neither enters it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from bittern.base.hashing import digest
from bittern.plan.arena import Memory
from bittern.plan.counts import Counting, Run, Totals
from bittern.plan.flow import Value
from bittern.plan.memory import bytes_of
from bittern.plan.plan import Argument, Launch, Operand, Packed, Part, Plan, Recipe, Region, identity_of, value_of
from bittern.types.dims import Dim

FORMAT = 1
SPACE = "host"  # where every value of a plan for a processor lies


@dataclass(frozen=True, slots=True)
class Target:
    """What a plan is for. vector: bits of the widest register that its code uses."""

    chip: str
    tier: str
    vector: int

    def tokens(self) -> object:
        """State the identity of the target for hashing."""
        return ("target", self.chip, self.tier)


@dataclass(slots=True)
class Names:
    """Short names of a plan's values: `v0`, `v1`, ... in the order in which they are met."""

    plan: Plan
    numbers: dict[Value, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for value in self.plan.inputs:
            self.number(value)

    def number(self, value: Value) -> int:
        """Return the number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))

    def of(self, operand: Operand) -> str:
        """Return the name of an operand: of a value, of a part of it, or of its other layout."""
        name = f"v{self.number(value_of(operand))}"
        if isinstance(operand, Part):
            return f"{name}+{operand.offset}"
        return f"{operand.recipe.name} {name}" if isinstance(operand, Packed) else name


def plan_id(plan: Plan, target: Target) -> str:
    """Return the identity of a plan for a target, in hexadecimal."""
    names = Names(plan)
    inputs = tuple((value.type, value.mode) for value in plan.inputs)
    regions = tuple(_region_tokens(region, names) for region in plan.regions)
    results = tuple(names.number(value) for value in plan.results)
    sizes = tuple((names.number(value), size) for value, size in plan.bytes.items())
    return digest(("plan", plan.function, target, inputs, regions, results, sizes)).hex()


def _region_tokens(region: Region, names: Names) -> tuple[object, ...]:
    covers = tuple((apply.name, apply.node.id) for apply in region.covers)
    launches = tuple(_launch_tokens(launch, names) for launch in region.launches)
    same = tuple((names.number(result), names.number(source)) for result, source in region.same.items())
    return (region.rule, covers, launches, same)


def _launch_tokens(launch: Launch, names: Names) -> tuple[object, ...]:
    return (
        _recipe_tokens(launch.recipe),
        tuple((name, _operand_tokens(each, names)) for name, each in launch.reads.items()),
        tuple((name, _operand_tokens(each, names)) for name, each in launch.writes.items()),
        tuple(launch.sizes.items()),
        tuple((name, _plain(number)) for name, number in launch.numbers.items()),
        (launch.mode, launch.partition, tuple(sorted(launch.shares)), launch.barrier),
    )


def _operand_tokens(operand: Operand, names: Names) -> object:
    value = value_of(operand)
    known = names.plan.known.get(value)
    if value.data is not None:
        base: object = ("const", value.data, value.type)
    elif known is not None:
        base = ("known", identity_of(known, names.plan))
    else:
        base = names.number(value)
    if isinstance(operand, Part):
        return ("part", base, operand.offset)
    return ("packed", base, _recipe_tokens(operand.recipe)) if isinstance(operand, Packed) else base


def _recipe_tokens(recipe: Recipe) -> tuple[object, ...]:
    return (recipe.name, tuple(_plain(each) for each in recipe.arguments))


def _plain(argument: Argument) -> object:
    """Return an argument in a form that can be hashed: a number with a point as its exact text."""
    if isinstance(argument, tuple):
        return tuple(_plain(each) for each in argument)
    return ("f64", argument.hex()) if isinstance(argument, float) else argument


def record_of(
    plan: Plan, target: Target, run: Run, memory: Memory, predicted: Totals, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a plan as plain values. about: what is put in front, such as the identity of the model's graph."""
    names = Names(plan)
    counting = Counting(plan)
    regions = [_region(region, number, names, counting, run) for number, region in enumerate(plan.regions)]
    return {
        "format": FORMAT,
        "plan": plan_id(plan, target),
        **about,
        "function": {"name": plan.name, "id": plan.function},
        "target": {"chip": target.chip, "tier": target.tier, "vector_bits": target.vector, "threads": run.threads},
        "dims": dict(zip(plan.dims, run.sizes, strict=False)),
        "position": run.position,
        "capabilities": [],
        "movement": {"space": SPACE, "transfers": []},
        "predicted": predicted.as_json(),
        "memory": _memory(plan, memory, run),
        "buffers": list(_buffers(plan, names, memory, run)),
        "regions": regions,
    }


def _region(region: Region, number: int, names: Names, counting: Counting, run: Run) -> dict[str, Any]:
    works = counting.region(region, run)
    launches = []
    for launch, work in zip(region.launches, works, strict=True):
        counts = {"macs": work.macs, "bytes_read": work.read, "bytes_written": work.written}
        launches.append(_launch(launch, names, run) | counts)
    return {
        "number": number,
        "rule": region.rule,
        "covers": [
            {"node": apply.node.id.hex(), "operation": apply.name, "label": apply.label} for apply in region.covers
        ],
        "launches": launches,
        "same": {names.of(result): names.of(source) for result, source in region.same.items()},
    }


def _launch(launch: Launch, names: Names, run: Run) -> dict[str, Any]:
    return {
        "kernel": launch.recipe.name,
        "arguments": _json(launch.recipe.arguments),
        "mode": launch.mode,
        "barrier": launch.barrier,
        "partition": launch.partition,
        "label": launch.label,
        "sizes": {name: _size(size, names.plan) for name, size in launch.sizes.items()},
        "reads": {name: names.of(operand) for name, operand in launch.reads.items()},
        "writes": {name: names.of(operand) for name, operand in launch.writes.items()},
    }


def _json(argument: Argument) -> object:
    return [_json(each) for each in argument] if isinstance(argument, tuple) else argument


def _size(size: Dim, plan: Plan) -> int | str:
    constant = size.constant
    return size.text(plan.dims) if constant is None else constant


def _buffers(plan: Plan, names: Names, memory: Memory, run: Run) -> Iterator[dict[str, Any]]:
    """Yield every piece of memory that launches touch: where it is, how big, and between which launches it lives."""
    found: dict[tuple[Value, str], dict[str, Any]] = {}
    for number, launch in enumerate(plan.launches):
        for operand in (*launch.reads.values(), *launch.writes.values()):
            value = plan.root[value_of(operand)]
            layout = operand.recipe.name if isinstance(operand, Packed) else ""
            known = found.setdefault((value, layout), {"first": number})
            known["last"] = number
            if len(known) == 2:
                known |= _buffer(plan, value, operand, names, memory, run)
    kept = {plan.root[value] for value in plan.results}
    for (value, _), made in found.items():
        yield made | {"result": value in kept}


def _buffer(plan: Plan, value: Value, operand: Operand, names: Names, memory: Memory, run: Run) -> dict[str, Any]:
    place, offset = _place(plan, value, operand, memory)
    whole = operand.bytes if isinstance(operand, Packed) else plan.bytes.get(value, bytes_of(value, run.sizes))
    return {
        "name": names.of(operand if isinstance(operand, Packed) else value),
        "label": value.label,
        "element": str(value.type.element),
        "shape": [_size(size, plan) for size in value.type.shape],
        "bytes": whole,
        "place": place,
        "offset": offset,
    }


def _place(plan: Plan, value: Value, operand: Operand, memory: Memory) -> tuple[str, int | None]:
    """Return where a value lies: in an arena (with its offset there), or in memory of its own."""
    if isinstance(operand, Packed):
        return "packed", None
    if value in plan.known:
        return "known", None
    if value.source != "made":
        return ("stored" if value.source == "const" else "input"), None
    if value in memory.own.places:
        return "own", memory.own.places[value]
    return "shared", memory.shared.places[value]


def _memory(plan: Plan, memory: Memory, run: Run) -> dict[str, int]:
    """Return the bytes of each kind of memory, that which every thread has for all of them."""
    packed: dict[object, int] = {}
    stored: dict[object, int] = {}
    inputs: dict[Value, int] = {}
    for launch in plan.launches:
        for operand in launch.reads.values():
            value = plan.root[value_of(operand)]
            if isinstance(operand, Packed):
                packed[value.data, operand.recipe] = operand.bytes
            elif value.data is not None:
                stored[value.data] = value.data.size
    for value in plan.inputs:
        inputs[plan.root[value]] = plan.bytes.get(plan.root[value], bytes_of(value, run.sizes))
    return {
        "shared": memory.shared.bytes,
        "own": memory.own.bytes * run.threads,
        "inputs": sum(inputs.values()),
        "packed": sum(packed.values()),
        "stored": sum(stored.values()),
    }
