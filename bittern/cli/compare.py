"""`bittern compare`: what a fact is worth: which decisions of a plan change when it is left out."""

from typing import Annotated

import typer

from bittern.cli.frame import model_path, open_store, print_json
from bittern.cli.options import AsJson, Cache, Folders, option
from bittern.cli.plan import Chip, Context, Cut, Position, Threads, Tier, Tokens, wish_of


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file or folder, or the name of a pulled model.")],
    ablate: Annotated[
        str, option("--ablate", metavar="FACT", help="The one fact to leave out; else each in turn.")
    ] = "",
    tokens: Tokens = 1,
    context: Context = 512,
    depth: Position = 0,
    cut: Cut = "",
    chip: Chip = "x86",
    tier: Tier = "",
    threads: Threads = 0,
    cache: Cache = "f16",
    library: Folders = None,
    as_json: AsJson = False,
) -> int:
    """Show what a fact is worth: which decisions of a plan change without it.

    Facts: names, formats, sizes, tokens, own, last, readers, numbers. Nothing runs; times are modelled.
    """
    from bittern.plan.ablate import FACTS, ablated, fact_named
    from bittern.runtime.binding import bound_model
    from bittern.runtime.model import open_checkpoint
    from bittern.runtime.planning import question
    from bittern.runtime.planning_text import ablation_text

    facts = [fact_named(ablate)] if ablate else FACTS
    wish, store = wish_of(cut, tokens, context, depth, chip, tier, threads), open_store()
    with open_checkpoint(model_path(model, store), store, library or ()) as checkpoint:
        asked = question(bound_model(checkpoint, cache, library or ()), wish)
        found = [ablated(asked, fact).as_json() for fact in facts]
    if as_json:
        print_json({"facts": found})
    else:
        print(ablation_text(found))
    return 0
