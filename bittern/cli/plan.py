"""`bittern plan`: how a model will run on a chip: its regions, kernels, memory, and what they add up to."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json
from bittern.cli.options import AsJson, Cache, Folders, option, whole, word

if TYPE_CHECKING:
    from bittern.runtime.planning import Planned, Wish
    from bittern.runtime.store import Store


class Plans(Protocol):
    """What plans for a wish."""

    def __call__(self, wish: "Wish", explains: bool = False) -> "Planned":
        """Return the plan. explains: decisions are noted."""
        ...


def tokens_of(given: str | int) -> int:
    """Read the number of tokens of --tokens; `any` is 0. Errors: U111."""
    return 0 if str(given) == "any" else whole("--tokens", 1)(given)


Tokens = Annotated[
    int,
    option(
        "--tokens",
        metavar="N|any",
        parser=tokens_of,
        help="Tokens (of a network: samples) that run at once; 1: a step.",
    ),
]
Context = Annotated[
    int,
    option("--ctx", metavar="N", parser=whole("--ctx", 1), help="Positions of the cache, as a session rounds them."),
]
Position = Annotated[
    int, option("--depth", metavar="N", parser=whole("--depth", 0), help="Positions before the first token.")
]
Threads = Annotated[
    int, option("--threads", metavar="N", parser=whole("--threads", 0), help="Threads that work; 0 takes all cores.")
]
Cut = Annotated[
    str,
    option(
        "--cut",
        metavar="CUT",
        parser=word("--cut", ("", "step", "forward", "head")),
        help="step, forward or head; else step for one token, forward for more.",
    ),
]
Chip = Annotated[str, option("--chip", metavar="NAME", help="The chip to plan for.")]
Tier = Annotated[str, option("--tier", metavar="NAME", help="The chip's feature level; else the best of this machine.")]


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file or folder, a pulled model, or a network.")],
    tokens: Tokens = 1,
    context: Context = 512,
    depth: Position = 0,
    cut: Cut = "",
    chip: Chip = "x86",
    tier: Tier = "",
    threads: Threads = 0,
    cache: Cache = "f16",
    explain: Annotated[
        bool, option("--explain", help="For every decision: what else would have done, and what it costs.")
    ] = False,
    no_fuse: Annotated[bool, option("--no-fuse", help="One region for each operation, for comparison.")] = False,
    savings: Annotated[bool, option("--savings", help="What fusing removes.")] = False,
    run: Annotated[bool, option("--run", help="Run it too, and hold the counters against the prediction.")] = False,
    code: Annotated[
        bool, option("--code", help="What the compiler makes of each kernel: its size and its spills.")
    ] = False,
    full: Annotated[bool, option("--full", help="Show every region and buffer, nothing folded.")] = False,
    library: Folders = None,
    as_json: AsJson = False,
) -> int:
    """Show how a model will run on a chip: regions, kernels, memory, counts.

    Nothing runs, unless `--run` is given. Counts are exact: after a run the counters must say the same.
    """
    wish = wish_of(cut, tokens, context, depth, chip, tier, threads)
    if savings and no_fuse:
        raise BitternError(BAD_ARGUMENTS, "--savings compares both plans.", "Leave --no-fuse out.")
    record, parts = _made(model, cache, library, wish, (explain, no_fuse, savings, run, code, full))
    if as_json:
        print_json(record)
    else:
        print("\n\n".join(parts))
    return 0


def wish_of(cut: str, tokens: int, context: int, depth: int, chip: str, tier: str, threads: int) -> "Wish":
    """Return what the options ask for. Errors: U111."""
    from bittern.runtime.planning import Wish

    chosen = cut or ("step" if tokens == 1 else "forward")
    if chosen == "step" and tokens != 1:
        raise BitternError(BAD_ARGUMENTS, "A step is one token.", "Leave --tokens out, or give --cut forward.")
    return Wish(chosen, tokens or None, context, position=depth, threads=threads, chip=chip, tier=tier)


@contextmanager
def _planner(model: str, cache: str, library: list[Path] | None, store: "Store") -> "Iterator[Plans]":
    """Give what plans a model or a network for a wish; a model's file is open meanwhile."""
    from bittern.runtime.networks import is_network, load_network

    if is_network(model):
        from bittern.runtime.planning import NETWORK, planned_network

        network = load_network(model, chip="vm")

        def plan(wish: "Wish", explains: bool = False) -> "Planned":
            whole = replace(wish, cut=NETWORK)
            return planned_network(network.network, network.program, whole, explains=explains)

        yield plan
        return
    from bittern.runtime.binding import bound_model
    from bittern.runtime.model import open_checkpoint
    from bittern.runtime.planning import planned

    with open_checkpoint(model_path(model, store), store, library or ()) as checkpoint:
        bound = bound_model(checkpoint, cache, library or ())
        yield lambda wish, explains=False: planned(bound, wish, explains=explains)


def _made(
    model: str,
    cache: str,
    library: list[Path] | None,
    wish: "Wish",
    asked: tuple[bool, ...],
) -> tuple[dict[str, Any], list[str]]:
    """Return the record, and the parts of the text."""
    from bittern.runtime.planning import compiled, counted, saved, saved_as_counted
    from bittern.runtime.planning_text import code_text, explained_text, plan_text, savings_text

    explain, no_fuse, savings, run, code, full = asked
    store = open_store()
    with _planner(model, cache, library, store) as plan:
        made = plan(replace(wish, fuse=not no_fuse), explain)
        record = made.record()
        ran = counted(made, 1, store) if run else None
        if ran is not None:
            record["counted"] = ran.totals.as_json()
        parts = [plan_text(record, full)]
        if explain:
            record["decisions"] = made.explained()
            parts.append(explained_text(record["decisions"]))
        if code:
            record["code"] = compiled(made)
            parts.append(code_text(record["code"]))
        if savings:
            single = plan(replace(made.wish, fuse=False))
            fused = made if single.wish.tokens == made.wish.tokens else plan(replace(single.wish, fuse=True))
            record["savings"] = saved(single, fused).as_json()
            if run:
                record["savings_counted"] = saved_as_counted(single, fused, store)
            parts.append(savings_text(record["savings"], record.get("savings_counted")))
    return record, parts
