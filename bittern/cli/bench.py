"""`bittern bench`: how fast a model runs on a chip, and what that is of the memory's speed."""

from typing import Annotated

import typer

from bittern.cli.frame import model_path, open_store, print_json, progress
from bittern.cli.options import AsJson, Cache, Folders, Quiet, option, whole


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file or folder, or the name of a pulled model.")],
    chip: Annotated[str, option(metavar="NAME", help="The chip to run on; auto: the best one here.")] = "auto",
    tier: Annotated[str, option(metavar="NAME", help="Its feature level; else the best.")] = "",
    threads: Annotated[
        int | None,
        option("--threads", metavar="N", parser=whole("--threads", 1), help="Cores to use; else all."),
    ] = None,
    prompt: Annotated[
        int, option("--pp", metavar="N", parser=whole("--pp", 1), help="Tokens of the prompt that is timed.")
    ] = 512,
    count: Annotated[
        int, option("--tg", metavar="N", parser=whole("--tg", 1), help="New tokens that are timed.")
    ] = 128,
    depth: Annotated[
        int, option("--depth", metavar="N", parser=whole("--depth", 0), help="Tokens before the new ones.")
    ] = 0,
    repeats: Annotated[
        int, option("--repeats", metavar="N", parser=whole("--repeats", 1), help="How often each is timed.")
    ] = 3,
    cache: Cache = "f16",
    library: Folders = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Measure how fast a model runs on a chip.

    Prompt tokens and new tokens a second, the time to the first token, to load and to build, the most memory, and how
    fast this machine reads memory in the same run. Medians with their spread; other processes disturb all of it.
    """
    store = open_store()
    path = model_path(model, store)
    from bittern.runtime.bench import measure

    report = measure(
        path,
        chip=chip,
        tier=tier,
        prompt=prompt,
        count=count,
        depth=depth,
        repeats=repeats,
        threads=threads,
        cache=cache,
        store=store,
        library=library or (),
        progress=progress(as_json or quiet),
    )
    if as_json:
        print_json(report.as_json())
    else:
        print(report.as_text())
    return 0
