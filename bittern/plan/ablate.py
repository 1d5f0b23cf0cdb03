"""What a fact is worth: a plan made without it, and the decisions that come out otherwise.

The facts are those that rules ask for; each can be withheld. Nothing is built: nodes that no kernel takes are counted
as the generic lowering would do them, which moves all their inputs and results, and is refused where sizes are open.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bittern.base.errors import BitternError, code, nearest
from bittern.graph.node import Function
from bittern.lang.library import Library
from bittern.plan.cost import Model, weight_bytes
from bittern.plan.counts import Counting, Run, Work, launched
from bittern.plan.explain import LOWERED, lowered
from bittern.plan.flow import Apply
from bittern.plan.plan import Plan, Region
from bittern.plan.planner import Rule, plan_of
from bittern.plan.scene import Scene

UNKNOWN_FACT = code("P103", "there is no such fact to leave out")

_REFUSED = "no kernel"  # the rule of what nothing covers
_PRODUCTS = "products."


@dataclass(frozen=True, slots=True)
class Fact:
    """name: of the fact. tells: what rules learn by it."""

    name: str
    tells: str


# fmt: off
FACTS: tuple[Fact, ...] = (
    Fact("names",   "which library function a call is; without it only primitive operations are left"),
    Fact("formats", "how the weights are stored; without it no kernel can take them as they are, or in tiles"),
    Fact("sizes",   "the constant sizes of arrays; without them no kernel has its loops"),
    Fact("tokens",  "how many tokens run; without it every plan is one for many"),
    Fact("own",     "that the function owns its cache; without it the cache is copied, not updated"),
    Fact("last",    "which read of a value is the last; without it nothing is updated in place"),
    Fact("readers", "who else reads a value; without it nothing can go unmade"),
    Fact("numbers", "the values of constant numbers, such as eps, window and the number of a layer"),
)
# fmt: on
NAMES = tuple(fact.name for fact in FACTS)


@dataclass(frozen=True, slots=True)
class Question:
    """What is planned. dims: sizes that are fixed, by position. run: what is counted. tier: see cost.py."""

    function: Function
    rules: Sequence[tuple[str, Rule]]
    known: frozenset[str]
    library: Library
    dims: Mapping[int, int]
    run: Run
    tier: str


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that comes out otherwise. what: is decided about. count: how often the same change occurs."""

    what: str
    before: str
    after: str
    count: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a plan adds up to. refused: applications that nothing covers. seconds: modelled, of what is covered."""

    regions: int
    launches: int
    barriers: int
    work: Work
    refused: int
    seconds: float

    def as_json(self) -> dict[str, object]:
        """Return the numbers as plain values."""
        return {
            "regions": self.regions,
            "launches": self.launches,
            "barriers": self.barriers,
            "bytes_read": self.work.read,
            "bytes_written": self.work.written,
            "refused": self.refused,
            "modelled_seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class Ablation:
    """A fact left out. changes: by kind, in the order in which the first of each comes."""

    fact: Fact
    before: Outcome
    after: Outcome
    changes: tuple[Change, ...]

    @property
    def changed(self) -> int:
        """How many decisions changed."""
        return sum(change.count for change in self.changes)

    def as_json(self) -> dict[str, object]:
        """Return the whole as plain values."""
        changes = [
            {"what": each.what, "before": each.before, "after": each.after, "count": each.count}
            for each in self.changes
        ]
        return {
            "fact": self.fact.name,
            "tells": self.fact.tells,
            "changed": self.changed,
            "before": self.before.as_json(),
            "after": self.after.as_json(),
            "changes": changes,
        }


def fact_named(name: str) -> Fact:
    """Return a fact. Raises P103."""
    for fact in FACTS:
        if fact.name == name:
            return fact
    hint = nearest(name, list(NAMES)) or f"Facts are {', '.join(NAMES)}."
    raise BitternError(UNKNOWN_FACT, f"There is no fact `{name}`.", hint)


def ablated(question: Question, fact: Fact) -> Ablation:
    """Return what changes without a fact. Raises P101."""
    before, after = _planned(question, ""), _planned(question, fact.name)
    return Ablation(fact, _outcome(before, question), _outcome(after, question), _changes(before, after))


def _planned(question: Question, fact: str) -> Plan:
    """Return the plan that is made without a fact, or with all of them."""
    rules = [row for row in question.rules if row[0] != LOWERED]
    known = question.known
    if fact == "names":
        known = frozenset()
    if fact == "formats":
        known = frozenset(name for name in known if not name.startswith(_PRODUCTS))
        rules = [row for row in rules if not row[0].startswith("embedding")]
    dropped = frozenset({fact} - {""})
    asked = [*rules, (LOWERED, _lowered), (_REFUSED, _refused)]
    return plan_of(question.function, asked, known, question.library, question.dims, dropped=dropped)


def _lowered(apply: Apply, scene: Scene) -> Region | None:
    """The generic lowering, without a kernel; it needs known sizes."""
    sizes = [size.constant for value in (*apply.inputs, *apply.results) for size in value.type.shape]
    return None if None in sizes or any(scene.is_cache(value) for value in apply.inputs) else lowered(apply)


def _refused(apply: Apply, _: Scene) -> Region:
    return Region("", (apply,))


def _outcome(plan: Plan, question: Question) -> Outcome:
    counting, refused = Counting(plan), sum(region.rule == _REFUSED for region in plan.regions)
    sizes = question.run.sizes
    run = replace(question.run, sizes=(*sizes, *map(int, plan.dims[len(sizes) :])))
    launches, barriers = launched(plan, run.threads)
    work = sum(counting.works(run), Work())
    model = Model(counting, run, question.tier, weights=weight_bytes(plan, run))
    seconds = sum(model.seconds(region) for region in plan.regions)
    return Outcome(len(plan.regions), launches[0], barriers[0], work, refused, seconds)


def _changes(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Return the decisions that differ, equal ones together."""
    covered = {which: region for region, apply, which in _numbered(after)}
    found: Counter[Change] = Counter()
    for region, last, which in _numbered(before):
        if last is not region.covers[-1]:
            continue
        other = covered.get(which)
        mine = _text(region, last)
        theirs = "in parts: only its definition is left" if other is None else _text(other, last)
        if mine != theirs:
            found[Change(last.name, mine, theirs)] += 1
    return tuple(replace(change, count=count) for change, count in found.items())


def _numbered(plan: Plan) -> Iterator[tuple[Region, Apply, tuple[object, ...]]]:
    """Yield every application with its region and what it is: node, label and, as layers share both, its number."""
    met: Counter[tuple[bytes, str]] = Counter()
    for region in plan.regions:
        for apply in region.covers:
            key = (apply.node.id, apply.label)
            met[key] += 1
            yield region, apply, (*key, met[key])


def _text(region: Region, apply: Apply) -> str:
    """Return a decision about an application in words that equal decisions share."""
    if region.rule == _REFUSED:
        return _REFUSED
    kernels = [f"{launch.recipe.name} ({launch.mode})" for launch in region.launches]
    shown = f"{region.rule}: {', '.join(kernels)}" if kernels else f"{region.rule}: nothing runs"
    in_place = any(value in region.same for value in apply.results) and kernels
    return f"{shown}, in place" if in_place else shown
