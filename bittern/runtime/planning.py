"""Plans of a model as people ask for them: which cut, for how many tokens, on which chip; and the count of a real run.

Only chips that make machine code from plans have any; the others evaluate the graph as it is.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.chips.chip import chip
from bittern.front.bound import Bound
from bittern.front.network.network import Network
from bittern.graph.node import Function
from bittern.plan.ablate import Question
from bittern.plan.arena import Memory
from bittern.plan.caches import NOMINAL, CpuCache, caches
from bittern.plan.cost import Model, weight_bytes
from bittern.plan.counts import Counting, Run, Totals, Work, sum_of
from bittern.plan.explain import Decisions, prices, reason
from bittern.plan.memory import memory_of
from bittern.plan.plan import Plan
from bittern.plan.planner import NO_RULE, plan_of
from bittern.plan.record import Target, record_of
from bittern.plan.rules import KNOWN, RULES
from bittern.plan.savings import Ledger, Row, allocations, ledger
from bittern.plan.step import greedy, step_function
from bittern.plan.watch import watched
from bittern.plan.working_set import working_set
from bittern.runtime.bringup import graph_id
from bittern.runtime.sample import MOST_TOKENS, check_range
from bittern.runtime.store import Store

if TYPE_CHECKING:
    from bittern.chips.x86.cut import Cut
    from bittern.chips.x86.features import Tier
    from bittern.chips.x86.session import X86Model

NO_PLAN = code("P104", "the chip makes no plans")
TOO_DEEP = code("P105", "the tokens of a plan do not fit into its context")

CHIPS = ("x86",)
CUTS = ("step", "forward", "head")
NETWORK = "network"  # the cut of a network: all of it
_NO_TOKEN = 0xFFFFFFFF
_LABELLED = ("stop", "out", "made", "flag", "setting", "last", "seen")  # inputs that the loop of steps has


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be planned.

    cut: `step` (a token, its logits and the choice of the next, in a loop), `forward` or `head`. tokens: None for any
    number. context, sequences: of the cache. position: of the first token. threads: 0 for all cores. tier: "" for the
    best. fuse: whether regions cover several applications.
    """

    cut: str = "step"
    tokens: int | None = 1
    context: int = 512
    sequences: int = 1
    position: int = 0
    threads: int = 0
    chip: str = "x86"
    tier: str = ""
    fuse: bool = True


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it is for: a model, or a network. run: what is counted, of `any` tokens a whole chunk.

    graph: identity of what was planned, before passes. loop: its steps repeat. decisions: of its making, if noted.
    """

    bound: Bound | Network
    graph: str
    wish: Wish
    plan: Plan
    memory: Memory
    run: Run
    target: Target
    loop: bool
    decisions: Decisions | None = None

    @property
    def predicted(self) -> Totals:
        """What one run adds up to."""
        return Counting(self.plan).totals(self.run, loop=self.loop)

    def record(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        known = caches()
        about = {"graph": self.graph, "cut": self.wish.cut, "fused": self.wish.fuse}
        made = record_of(self.plan, self.target, self.run, self.memory, self.predicted, about)
        return made | {"working_set": working_set(self.plan, self.memory, self.run).as_json(known or NOMINAL)}

    def explained(self) -> list[dict[str, Any]]:
        """Return every decision with what its candidates cost, in the order in which the plan runs."""
        assert self.decisions is not None, "plan with explains=True"
        model = self._model(caches() or NOMINAL)
        told = []
        for decision in reversed(self.decisions.made):
            found = prices(decision, model)
            told.append(
                {
                    "operation": decision.apply.name,
                    "label": decision.apply.label,
                    "node": decision.apply.node.id.hex(),
                    "won": found[0].rule,
                    "reason": reason(found),
                    "candidates": [
                        {
                            "rule": price.rule,
                            "modelled_seconds": price.seconds,
                            "launches": price.launches,
                            "barriers": price.barriers,
                            "bytes": price.bytes,
                        }
                        for price in found
                    ],
                }
            )
        return told

    def _model(self, known: tuple[CpuCache, ...]) -> Model:
        weights = weight_bytes(self.plan, self.run)
        return Model(Counting(self.plan), self.run, self.target.tier, known, weights)


def planned(bound: Bound, wish: Wish, *, explains: bool = False) -> Planned:
    """Plan a cut of a model. explains: notes the decisions. Raises P101, P102, P104, P105, R101, R110, R162, R165."""
    tier, threads = _tier(wish), _threads(wish)
    sizes = _sizes(wish)
    decisions = Decisions(RULES, wish.fuse) if explains else None
    try:
        plan = _plan(bound, wish, sizes, decisions)
    except BitternError as refusal:
        if refusal.code != NO_RULE or 0 in sizes:
            raise
        from bittern.chips.x86.session import FIXED

        wish = replace(wish, tokens=FIXED)  # as a session does: the generic lowering takes known sizes only
        sizes, decisions = _sizes(wish), Decisions(RULES, wish.fuse) if explains else None
        plan = _plan(bound, wish, sizes, decisions)
    run = Run((_most(wish), *(sizes.get(k, 0) for k in range(1, len(plan.dims)))), wish.position, threads)
    memory = memory_of(plan, run.sizes)
    target = Target(wish.chip, tier.name, 8 * tier.vector)
    return Planned(bound, graph_id(bound), wish, plan, memory, run, target, wish.cut == "step", decisions)


def planned_network(network: Network, program: Function, wish: Wish, *, explains: bool = False) -> Planned:
    """Plan a network for `wish.tokens` samples. program: what passes made of it. Raises P101, P102, P104, R162."""
    tier, threads, batch = _tier(wish), _threads(wish), wish.tokens or 1
    decisions = Decisions(RULES, wish.fuse) if explains else None
    watch = None if decisions is None else decisions.note
    sizes = {0: batch}
    plan = plan_of(program, RULES, KNOWN, network.library, sizes, fuse=wish.fuse, watch=watch, tier=tier.name)
    run = Run((batch,), 0, threads)
    target = Target(wish.chip, tier.name, 8 * tier.vector)
    whole = replace(network, function=program)
    graph = network.function.id.hex()
    return Planned(whole, graph, wish, plan, memory_of(plan, run.sizes), run, target, False, decisions)


def question(bound: Bound, wish: Wish) -> Question:
    """Return what an ablation asks about: the same cut, without the loop around it. Raises what `planned` does."""
    tier, threads, sizes = _tier(wish), _threads(wish), _sizes(wish)
    function = _function(bound, wish)
    run = Run((_most(wish), *(sizes.get(k, 0) for k in range(1, function.dims))), wish.position, threads)
    return Question(function, RULES, KNOWN, bound.library, sizes, run, tier.name)


def saved(single: Planned, fused: Planned) -> Ledger:
    """Return what fusing saves, as predicted."""
    return ledger(single.plan, fused.plan, fused.run, loop=fused.loop)


def compiled(made: Planned) -> list[dict[str, Any]]:
    """Return what the compiler makes of each kernel of a plan: bytes, instructions, spills, the width of its vectors.

    Raises R162, R166.
    """
    from bittern.chips.x86.compile import compile_kernel
    from bittern.chips.x86.features import TIERS
    from bittern.kernels.recipes import build

    tier = next(each for each in TIERS if each.name == made.target.tier)
    told = []
    for recipe in dict.fromkeys(launch.recipe for launch in made.plan.launches):
        code = compile_kernel(recipe.kernel or build(recipe.name, recipe.arguments), tier)
        told.append(
            {
                "kernel": recipe.name,
                "arguments": list(recipe.arguments),
                "vector_bits": 8 * tier.vector,
                "bytes": len(code.code.data),
                "instructions": code.instructions,
                "frame_bytes": code.frame,
                **asdict(code.counts),
            }
        )
    return told


@dataclass(frozen=True, slots=True)
class Counted:
    """What the counters of a run say. values: how many had memory. kept: bytes of it. result: bytes of the first."""

    totals: Totals
    values: int
    kept: int
    result: bytes


def counted(made: Planned, steps: int = 1, store: Store | None = None) -> Counted:
    """Run a plan natively, and count.

    Launches and barriers are counted in the machine code, by each thread; each launch's bytes and multiply-accumulates
    are known, so they follow from how often it ran. Raises R161 to R165.
    """
    cut = _cut(made, store)
    tokens = made.run.tokens
    cut.state.clear_counts()
    for value, memory in cut.inputs.items():
        words = memory.view(np.uint32)
        number = value.number if value.label not in _LABELLED else -1
        if number == 0 and value.type.element.name == "u32":
            words[:tokens] = 1
        elif number == 2:
            words[:tokens] = np.arange(made.run.position, made.run.position + tokens, dtype=np.uint32)
        elif value.label == "stop":
            words[:] = _NO_TOKEN
    assert cut.run(tokens, steps) == steps, (steps, cut.state.done)
    counts = cut.state.counts()
    turns, rest = divmod(counts.launches[0], len(made.plan.launches))
    assert not rest, (counts, len(made.plan.launches))
    work = Work()
    for turn in range(turns):
        at = replace(made.run, position=made.run.position + turn * tokens)
        work = sum_of([work, *Counting(made.plan).works(at)])
    kept = cut.memory.shared.bytes + len(counts.launches) * cut.memory.own.bytes
    totals = Totals(counts.launches, counts.barriers, work)
    return Counted(totals, allocations(cut.memory), kept, cut.result(0).tobytes())


def saved_as_counted(single: Planned, fused: Planned, store: Store | None = None) -> dict[str, Any]:
    """Run both plans; return what fusing saves by their counters, and whether their results are equal in every bit."""
    before, after = counted(single, 1, store), counted(fused, 1, store)
    rows = Ledger(tuple(Row(name, number, _rows(after)[name]) for name, number in _rows(before).items()))
    return {"ledger": rows.as_json(), "same_bits": before.result == after.result}


def _rows(found: Counted) -> Mapping[str, int]:
    return {
        "launches": found.totals.launches[0],
        "barriers": found.totals.barriers[0],
        "allocations": found.values,
        "transfers": found.totals.transfers,
        "bytes_read": found.totals.work.read,
        "bytes_written": found.totals.work.written,
        "bytes_kept": found.kept,
    }


def _cut(made: Planned, store: Store | None) -> "Cut":
    """Compile a plan for a crew of which all threads always take part, so that counts are exact."""
    from bittern.chips.x86.chip import X86
    from bittern.chips.x86.cut import Cut, input_bytes
    from bittern.chips.x86.function import X86Function
    from bittern.chips.x86.threads import Crew
    from bittern.chips.x86.weights import aligned

    chip_here, root = X86(made.wish.tier, made.run.threads), None if store is None else store.root
    model: X86Model | X86Function
    if isinstance(made.bound, Network):
        model = chip_here.load_function(made.bound.function, made.bound.library, root)
    else:
        model = chip_here.load(made.bound, root)
    sizes = made.run.sizes
    inputs = {value: aligned(max(64, input_bytes(made.plan, value, sizes))) for value in made.plan.inputs}
    crew = Crew(made.run.threads, adapts=False)
    return Cut(made.plan, made.run.tokens, inputs, crew, model.routines, model.weights, made.loop)


def _function(bound: Bound, wish: Wish) -> Function:
    if wish.cut == "step":
        return step_function(bound.forward, bound.head)
    return bound.forward if wish.cut == "forward" else bound.head


def _plan(bound: Bound, wish: Wish, sizes: Mapping[int, int], decisions: Decisions | None) -> Plan:
    function, watch = _function(bound, wish), None if decisions is None else decisions.note
    plan = plan_of(function, RULES, KNOWN, bound.library, sizes, fuse=wish.fuse, watch=watch)
    return watched(greedy(plan)).greedy.plan if wish.cut == "step" else plan


def _sizes(wish: Wish) -> dict[int, int]:
    """Return the sizes that are fixed, by position; contexts are rounded as a session does. Raises P105, R110."""
    for name, value, low in (
        ("context", wish.context, 1),
        ("sequences", wish.sequences, 1),
        ("tokens", _most(wish), 1),
    ):
        check_range(name, value, low, MOST_TOKENS)
    room = _room(wish)
    if wish.cut != "head" and wish.position + _most(wish) > room:
        raise BitternError(
            TOO_DEEP,
            f"{_most(wish)} tokens from position {wish.position} on do not fit into {room} positions.",
            f"Give `--ctx {wish.position + _most(wish)}` or more.",
        )
    tokens = {} if wish.tokens is None else {0: wish.tokens}
    return tokens if wish.cut == "head" else {**tokens, 1: wish.sequences, 2: room}


def _room(wish: Wish) -> int:
    """Return the positions of the cache: rounded up, as a session does."""
    from bittern.chips.x86.session import LEAST_CONTEXT

    return max(LEAST_CONTEXT, 1 << (wish.context - 1).bit_length())


def _most(wish: Wish) -> int:
    """Return how many tokens are counted: of any number, a chunk, as far as the context has room."""
    if wish.cut == "step":
        return 1
    from bittern.chips.x86.session import CHUNK

    if wish.tokens is not None:
        return wish.tokens
    return CHUNK if wish.cut == "head" else min(CHUNK, max(1, _room(wish) - wish.position))


def _tier(wish: Wish) -> "Tier":
    """Return the tier. Raises P104, R101, R162, R165."""
    chip(wish.chip)
    if wish.chip not in CHIPS:
        raise BitternError(
            NO_PLAN, f"The chip `{wish.chip}` makes no plan: it evaluates the graph as it is.", "Give `--chip x86`."
        )
    from bittern.chips.x86.chip import X86
    from bittern.chips.x86.features import TIERS, tier

    if not wish.tier:
        return X86().chosen()
    return next((each for each in TIERS if each.name == wish.tier), None) or tier(frozenset(), wish.tier)


def _threads(wish: Wish) -> int:
    from bittern.chips.x86.threads import available

    return wish.threads or available()
