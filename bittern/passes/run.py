"""Running the passes: all of them in order, again and again until none changes anything.

Ids tell what changed, so a round in which every pass gives back the very function it got is the last one. What all
passes keep is held on the way: parameters, result type, effects.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from bittern.base.errors import BitternError, code, nearest
from bittern.graph.node import Function, Node
from bittern.passes.rewriting import count_nodes, in_bodies, map_graph
from bittern.passes.table import Context, Pass, passes

UNKNOWN_PASS = code("R141", "no pass of this name")

_MOST_ROUNDS = 64
_MOST_CHANGES = 64  # of one node in one walk


@dataclass(frozen=True, slots=True)
class Step:
    """What one pass changed in one round. nodes: of the function afterwards, those of bodies included."""

    name: str
    round: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Passed:
    """What the passes made. steps: those that changed something, in order. without: the passes that were left out."""

    function: Function
    steps: tuple[Step, ...]
    without: tuple[str, ...]


def run_passes(
    function: Function, context: Context | None = None, *, without: Collection[str] = (), only: Collection[str] = ()
) -> Function:
    """Return a function of the same bits after all passes.

    without: names of passes to leave out. only: the names to run; empty for all. Errors: R140, R141.
    """
    return passed(function, context, without=without, only=only).function


def passed(
    function: Function, context: Context | None = None, *, without: Collection[str] = (), only: Collection[str] = ()
) -> Passed:
    """Run the passes and say what each did; arguments and errors as for `run_passes`."""
    context = replace(context or Context(), done={})
    rows = _chosen(without, only)
    steps: list[Step] = []
    for turn in range(1, _MOST_ROUNDS + 1):
        before = function.id
        for group in _together(rows):
            names: dict[str, None] = {}
            made = _run(group, function, context, names)
            assert made.params == function.params and made.result.type == function.result.type, (names, function)
            assert made.effects == function.effects and made.dims == function.dims, (names, function)
            if made.id != function.id:
                nodes = count_nodes(made)
                steps += [Step(name, turn, nodes) for name in names]
            function = made
        if function.id == before:
            chosen = {row.name for row in rows}
            return Passed(function, tuple(steps), tuple(name for name in passes() if name not in chosen))
    raise AssertionError(("the passes do not come to an end", function.name, steps[-8:]))


def _together(rows: Sequence[Pass]) -> list[list[Pass]]:
    """Return the passes in order, those of one node that follow each other together."""
    groups: list[list[Pass]] = []
    for row in rows:
        if groups and row.change is not None and groups[-1][0].change is not None:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _run(group: Sequence[Pass], function: Function, context: Context, names: dict[str, None]) -> Function:
    """Run passes on a function and its bodies. names: gets those that changed something."""
    run = group[0].run
    change = _one(group[0].name, run, context, names) if run is not None else _walk(group, context, names)
    return in_bodies(function, change, context.done.setdefault("+".join(row.name for row in group), {}))


def _one(
    name: str, run: Callable[[Function, Context], Function], context: Context, names: dict[str, None]
) -> Callable[[Function], Function]:
    def change(body: Function) -> Function:
        made = run(body, context)
        if made.id != body.id:
            names[name] = None
        return made

    return change


def _walk(group: Sequence[Pass], context: Context, names: dict[str, None]) -> Callable[[Function], Function]:
    """Return what changes each node until no pass of the group knows better."""
    changes = [(row.name, row.change) for row in group if row.change is not None]

    def settle(current: Node, old: Node) -> Node:
        for _ in range(_MOST_CHANGES):
            for name, change in changes:
                made = change(current, context)
                if made is not None and made is not current and made.type == old.type:
                    names[name], current = None, made
                    break
            else:
                break
        return current

    return lambda body: map_graph(body, settle)


def _chosen(without: Collection[str], only: Collection[str]) -> list[Pass]:
    known = passes()
    for name in (*without, *only):
        if name not in known:
            raise BitternError(UNKNOWN_PASS, f"There is no pass `{name}`.", nearest(name, list(known)))
    return [row for name, row in known.items() if name not in without and (not only or name in only)]
