"""`bittern generate`: continue a prompt and stream the text to stdout."""

import secrets
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

from bittern.cli.frame import model_path, open_store, print_json, progress
from bittern.cli.options import (
    AsJson,
    Cache,
    Context,
    Count,
    Folders,
    MinP,
    Quiet,
    Seed,
    Temperature,
    TopK,
    TopP,
    option,
)

if TYPE_CHECKING:
    from bittern.runtime.model import Generation


def command(
    model: Annotated[str, option("-m", "--model", metavar="MODEL", help="A file or folder, or a pulled model's name.")],
    prompt: Annotated[str, option("-p", "--prompt", metavar="TEXT", help="What the text starts with.")],
    count: Count = 128,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: MinP = 0.0,
    seed: Seed = 0,
    creative: Annotated[
        bool, option("--creative", help="Draw the seed anew; it is told, and replays with --seed.")
    ] = False,
    chat: Annotated[bool, option("--chat", help="Put the prompt into the model's chat template.")] = False,
    context: Context = None,
    cache: Cache = "f16",
    chip: Annotated[str, option(metavar="NAME", help="The chip to run on.")] = "vm",
    ignore_eos: Annotated[bool, option("--ignore-eos", help="Go on after the end of the text.")] = False,
    library: Folders = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Continue a prompt and stream the text.

    The text ends at the model's end mark, or after N tokens. Only the text goes to stdout.
    """
    store = open_store()
    path = model_path(model, store)
    teller = progress(as_json or quiet)
    if creative:
        seed = secrets.randbits(64)
        teller.note(f"seed {seed}")
    from bittern.runtime.model import load
    from bittern.runtime.origin import source_of, warnings_of

    sampling: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
    }
    with load(path, chip=chip, context=context, cache=cache, store=store, library=library or ()) as loaded:
        made = loaded.generate(prompt, count, chat=chat, ignore_eos=ignore_eos, progress=teller, **sampling)
        warnings = warnings_of(loaded.bound.checkpoint, store, len(made.prompt) + count - 1)
        for warning in warnings:
            teller.warn(warning)
        if as_json:
            mode = "creative" if creative else "seeded" if temperature else "strict"
            about = {"chip": chip, "prompt": prompt, "tokens_prompt": made.prompt, "mode": mode, **sampling}
            _print_whole(made, source_of(loaded.bound.checkpoint), about, warnings)
        else:
            _stream(made)
    return 0


def _print_whole(made: "Generation", source: dict[str, Any], about: dict[str, Any], warnings: list[str]) -> None:
    """Print a generation as one JSON object, the same for the same run."""
    text = "".join(made)
    del source["sha256_origin"]  # the only thing here that a second run would tell otherwise
    ended = {"text": text, "tokens": made.tokens, "stopped": made.stopped, "warnings": warnings}
    print_json({"source": source, **about, **ended})


def _stream(pieces: Iterable[str]) -> None:
    """Write pieces of text as they come, and end the line however they end."""
    try:
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
    finally:
        print()
