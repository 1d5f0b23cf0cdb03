"""`bittern bringup`: a checkpoint -> its graph -> every chip asked for: what ran, and how well it agrees."""

from pathlib import Path
from typing import Annotated

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json, progress
from bittern.cli.options import CACHES, folder, token_ids, whole, word, words


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A GGUF file, or the name of a pulled model.")],
    prompt: Annotated[str | None, typer.Option(metavar="TEXT", help="What the text starts with.")] = None,
    tokens: Annotated[
        str | None, typer.Option(metavar="IDS", help="Token ids instead of a prompt, such as 1,2,3; no BOS is added.")
    ] = None,
    count: Annotated[
        int,
        typer.Option(
            "-n", "--count", metavar="N", parser=whole("-n", 1), help="How many tokens to make; EOS is ignored."
        ),
    ] = 32,
    context: Annotated[
        int | None,
        typer.Option(
            "--ctx", metavar="N", parser=whole("--ctx", 1), help="Positions of the cache; else as many as needed."
        ),
    ] = None,
    cache: Annotated[
        str,
        typer.Option(metavar="ELEMENT", parser=word("--cache", CACHES), help=f"Of the cache: {', '.join(CACHES)}."),
    ] = "f16",
    chips: Annotated[str, typer.Option(metavar="a,b|all", help="The chips to bring the model up on.")] = "all",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=folder("--out"), help="Where program, keg and report go, in a folder of the model."
        ),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", parser=folder("--library"), help="A folder of programs and families, before Bittern's own."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> int:
    """Turn a checkpoint into its graph and run it on every chip asked for.

    Shows each chip's text, speed, and how many of its tokens agree with the f64 reference; or why it was refused.
    """
    if prompt is not None and tokens is not None:
        raise BitternError(BAD_ARGUMENTS, "Both --prompt and --tokens are given.", "Give one of them.")
    ids = None if tokens is None else token_ids(tokens)
    store = open_store()
    path = model_path(model, store)
    from bittern.runtime.bringup import bring_up

    report = bring_up(
        path,
        prompt=prompt,
        tokens=ids,
        count=count,
        context=context,
        cache=cache,
        chips=words(chips),
        out=out,
        library=library or (),
        store=store,
        progress=progress(as_json or quiet),
    )
    if as_json:
        print_json(report.as_json())
    else:
        print(report.as_text())
    return 0
