"""`bittern bringup`: a checkpoint -> its graph -> every chip asked for: what ran, and how well it agrees."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json, progress
from bittern.cli.options import AsJson, Cache, Context, Count, Folders, Quiet, folder, option, token_ids, words

if TYPE_CHECKING:
    from bittern.runtime.encoder_report import EncoderReport
    from bittern.runtime.report import Report


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file or folder, or the name of a pulled model.")],
    prompt: Annotated[str | None, option(metavar="TEXT", help="What the text starts with.")] = None,
    tokens: Annotated[
        str | None, option(metavar="IDS", help="Token ids instead of a prompt, such as 1,2,3; no BOS is added.")
    ] = None,
    count: Count = 32,
    context: Context = None,
    cache: Cache = "f16",
    chips: Annotated[str, option(metavar="a,b|all", help="The chips to bring the model up on.")] = "all",
    out: Annotated[
        Path | None,
        option(
            metavar="DIR", parser=folder("--out"), help="Where program, keg and report go, in a folder of the model."
        ),
    ] = None,
    library: Folders = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Turn a checkpoint into its graph and run it on every chip asked for.

    Makes exactly N tokens, whatever they are. Shows each chip's text, speed, and how many of its tokens agree with the
    f64 reference; or why it was refused. An encoder makes the vector of the text instead: shown is its cosine with the
    reference's, and how far single values are off.
    """
    if prompt is not None and tokens is not None:
        raise BitternError(BAD_ARGUMENTS, "Both --prompt and --tokens are given.", "Give one of them.")
    ids = None if tokens is None else token_ids(tokens)
    store = open_store()
    path = model_path(model, store)
    from bittern.front.bind import NO_DECODER
    from bittern.runtime.bringup import bring_up
    from bittern.runtime.encoder_bringup import bring_up_encoder

    common: dict[str, Any] = {"prompt": prompt, "tokens": ids, "chips": words(chips), "out": out, "store": store}
    common |= {"library": library or (), "progress": progress(as_json or quiet)}
    report: Report | EncoderReport
    try:
        report = bring_up(path, count=count, context=context, cache=cache, **common)
    except BitternError as error:
        if error.code != NO_DECODER:
            raise
        report = bring_up_encoder(path, **common)
    if as_json:
        print_json(report.as_json())
    else:
        print(report.as_text())
    return 0
