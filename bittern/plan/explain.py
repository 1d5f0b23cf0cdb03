"""Why a plan is as it is: for each region the rules that matched, what each would cost, which one won and why.

Candidates cover different applications, so each is completed: what the others cover and it does not is added with the
cheapest rules for one application alone. Costs are modelled (cost.py), barriers as one after every launch that
threads share. The rules' table decides, which stands in the order of what they save; `reason` says whether the model
agrees.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bittern.plan.cost import BARRIER, Model
from bittern.plan.counts import Work, sum_of
from bittern.plan.flow import Apply
from bittern.plan.plan import Launch, Operand, Recipe, Region
from bittern.plan.planner import Rule
from bittern.plan.scene import Scene

LOWERED = "generic"  # the rule by which any application can be covered


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to cover an application.

    rest: regions for what other candidates cover and this one does not.
    """

    rule: str
    region: Region
    rest: tuple[Region, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """What was chosen for an application, and from what; the first candidate won."""

    apply: Apply
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Price:
    """What a candidate costs, completed. seconds: modelled. barriers: at most. bytes: read and written."""

    rule: str
    seconds: float
    launches: int
    barriers: int
    bytes: int


@dataclass(slots=True)
class Decisions:
    """Notes the decisions while a plan is made: give `note` to the planner as `watch`. rules: those of the planner."""

    rules: Sequence[tuple[str, Rule]]
    fuse: bool = True
    made: list[Decision] = field(default_factory=list)

    def note(self, apply: Apply, scene: Scene, chosen: Region) -> None:
        """Note a decision."""
        found = [Candidate(chosen.rule, chosen)]
        for name, rule in self.rules:
            if name != chosen.rule and (region := _asked(name, rule, apply, scene)) is not None:
                found.append(Candidate(name, region))
        allowed = [each for each in found if self.fuse or len(each.region.covers) == 1]
        together = list(dict.fromkeys(a for each in allowed for a in each.region.covers))
        self.made.append(Decision(apply, tuple(self._completed(each, together, scene) for each in allowed)))

    def _completed(self, candidate: Candidate, together: Sequence[Apply], scene: Scene) -> Candidate:
        covered = candidate.region.covers
        rest = tuple(self._alone(apply, scene) for apply in together if apply not in covered)
        return Candidate(candidate.rule, candidate.region, rest)

    def _alone(self, apply: Apply, scene: Scene) -> Region:
        """Return the first rule's region for an application alone; the generic one if there is no other."""
        for name, rule in self.rules:
            region = _asked(name, rule, apply, scene)
            if region is not None and len(region.covers) == 1:
                return region
        return lowered(apply)


def _asked(name: str, rule: Rule, apply: Apply, scene: Scene) -> Region | None:
    """Return what a rule answers, without a change of the scene and without the lowering of a node."""
    if name != LOWERED:
        return rule(apply, scene.copy())
    is_call = apply.node.kind == "call"
    sizes = [size.constant for size in (apply.dims if is_call else apply.setting)]
    known = None not in sizes and not any(scene.is_cache(value) for value in apply.inputs)
    return lowered(apply) if known else None


def lowered(apply: Apply) -> Region:
    """Return how the generic lowering covers an application, without the kernel: all is read, all is written."""
    reads: dict[str, Operand] = {
        f"p{k}": value for k, value in enumerate(dict.fromkeys((*apply.inputs, *apply.arguments)))
    }
    writes: dict[str, Operand] = {f"r{k}": value for k, value in enumerate(apply.results)}
    launch = Launch(Recipe(LOWERED, (apply.node.id.hex(),)), reads, writes, mode="one", label=apply.label)
    return Region(LOWERED, (apply,), (launch,))


def prices(decision: Decision, model: Model) -> list[Price]:
    """Return what each candidate of a decision costs, the winner first."""
    return [_price(candidate, model) for candidate in decision.candidates]


def _price(candidate: Candidate, model: Model) -> Price:
    seconds, launches, barriers, work = 0.0, 0, 0, Work()
    for region in (candidate.region, *candidate.rest):
        works = model.counting.region(region, model.run)
        work += sum_of(works)
        for launch, each in zip(region.launches, works, strict=True):
            meets = launch.mode != "each"
            seconds += model.launch(launch, each) + BARRIER * (meets and model.run.threads > 1)
            launches, barriers = launches + 1, barriers + meets
    return Price(candidate.rule, seconds, launches, barriers, work.read + work.written)


def reason(found: Sequence[Price]) -> str:
    """Return in words why the first candidate won."""
    winner, *others = found
    if not others:
        return "nothing else covers it"
    best = min(others, key=lambda price: price.seconds)
    if winner.seconds > best.seconds:
        return f"first of the table, though `{best.rule}` is cheaper by the model"
    less = [
        f"{more - mine} {noun if more - mine == 1 else plural}"
        for noun, plural, mine, more in (
            ("launch", "launches", winner.launches, best.launches),
            ("barrier", "barriers", winner.barriers, best.barriers),
            ("byte", "bytes", winner.bytes, best.bytes),
        )
        if more > mine
    ]
    shown = f" ({', '.join(less)} less)" if less else ""
    return f"cheapest: {(best.seconds - winner.seconds) * 1e6:.2f} us less than `{best.rule}`{shown}"
