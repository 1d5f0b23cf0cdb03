"""What a pass is, what it may ask of its surroundings, and the list of all passes in the order in which they run.

A pass is one file in this folder with a row `PASS`: the file's name is the pass's. It takes a function and returns one
of the same parameters, the same result type and the same bits; bodies of structural nodes are changed with it, callees
and ideal bodies are not (a callee's identity is what a kernel is chosen by). `needs` names the facts that a pass reads:
of the ten that ride with every node (`graph.facts.TEN`), and those that other passes establish, which therefore run
first. `gives` are the facts that hold when it has run; each has a test of its own, so that a claim can be proven.
No pass relies on another one for its bits: each can be left out.

Many passes look at one node at a time (`change`); those that follow each other do so in one walk.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

from bittern.graph.node import Function, Node


def _no_kernel(function: Function) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Context:
    """What passes may ask of the plan, and how far they go.

    has_kernel: whether a library function has a kernel; calls of it stay. repack: gives a call that reads constant
    weights in another layout a node that takes its place, or the node itself. folded_bytes, folded_work: the largest
    constant that is computed ahead, and the most operations for it. hoisted_bytes: the largest value that is kept for
    a whole loop or map. unrolled_rounds, unrolled_nodes: the longest fold that is unrolled, and the most nodes that
    come of it. scalars: the longest carried array that becomes single values. inlined_nodes: the most nodes that
    inlining makes. done: what a pass has made of a function, by the pass's name and the function's id.
    """

    has_kernel: Callable[[Function], bool] = _no_kernel
    repack: Callable[[Node], Node] | None = None
    folded_bytes: int = 1 << 16
    folded_work: int = 1 << 20
    hoisted_bytes: int = 1 << 20
    unrolled_rounds: int = 16
    unrolled_nodes: int = 512
    scalars: int = 16
    inlined_nodes: int = 1 << 19
    done: dict[str, dict[bytes, Function]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that holds of a whole function. against: returns a node that contradicts it, or None."""

    name: str
    doc: str
    against: Callable[[Function, Context], Node | None]


@dataclass(frozen=True, slots=True)
class Pass:
    """One row; see the module.

    run: changes one graph, whose bodies were changed before. change: instead, says what takes the place of one node,
    whose inputs and bodies were changed before; None leaves it.
    """

    name: str
    doc: str
    needs: tuple[str, ...]
    gives: tuple[Fact, ...]
    run: Callable[[Function, Context], Function] | None = None
    change: Callable[[Node, Context], Node | None] | None = None


@cache
def passes() -> Mapping[str, Pass]:
    """Return all passes by name, in the order in which they run: givers of a fact first, then those of one node."""
    folder = Path(__file__).parent
    modules = [import_module(f"bittern.passes.{path.stem}") for path in sorted(folder.glob("[!_]*.py"))]
    rows: dict[str, Pass] = {module.PASS.name: module.PASS for module in modules if hasattr(module, "PASS")}
    givers = {fact.name: row.name for row in rows.values() for fact in row.gives}
    order = TopologicalSorter({name: {givers[n] for n in row.needs if n in givers} for name, row in rows.items()})
    order.prepare()
    ordered: list[str] = []
    while order.is_active():
        ready = sorted(order.get_ready(), key=lambda name: (rows[name].change is None, name))
        ordered += ready
        order.done(*ready)
    return {name: rows[name] for name in ordered}
