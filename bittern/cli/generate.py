"""`bittern generate`: continue a prompt and stream the text to stdout."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bittern.cli.frame import model_path, open_store, print_json, progress
from bittern.cli.options import CACHES, folder, real, whole, word

_U32, _U64 = (1 << 32) - 1, (1 << 64) - 1
_HOTTEST = 1e6


def command(
    model: Annotated[
        str, typer.Option("-m", "--model", metavar="MODEL", help="A GGUF file, or a pulled model's name.")
    ],
    prompt: Annotated[str, typer.Option("-p", "--prompt", metavar="TEXT", help="What the text starts with.")],
    count: Annotated[
        int,
        typer.Option("-n", "--count", metavar="N", parser=whole("-n", 1), help="How many tokens to make at most."),
    ] = 128,
    temperature: Annotated[
        float,
        typer.Option(
            "--temp",
            metavar="X",
            parser=real("--temp", 0, _HOTTEST),
            help="0 always takes the likeliest token; more varies more.",
        ),
    ] = 0.0,
    top_k: Annotated[
        int,
        typer.Option(metavar="N", parser=whole("--top-k", 0, _U32), help="Keep the N likeliest tokens; 0 keeps all."),
    ] = 0,
    top_p: Annotated[
        float,
        typer.Option(metavar="X", parser=real("--top-p", 0, 1), help="Keep the likeliest of this total probability."),
    ] = 1.0,
    min_p: Annotated[
        float,
        typer.Option(
            metavar="X", parser=real("--min-p", 0, 1), help="Keep what has this share of the best one's probability."
        ),
    ] = 0.0,
    seed: Annotated[
        int, typer.Option(metavar="N", parser=whole("--seed", 0, _U64), help="The same seed gives the same text.")
    ] = 0,
    chat: Annotated[bool, typer.Option("--chat", help="Put the prompt into the model's chat template.")] = False,
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
    chip: Annotated[str, typer.Option(metavar="NAME", help="The chip to run on.")] = "vm",
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after the end of the text.")] = False,
    library: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", parser=folder("--library"), help="A folder of programs and families, before Bittern's own."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> int:
    """Continue a prompt and stream the text.

    The text ends at the model's end mark or after N tokens. Only the text goes to stdout.
    """
    store = open_store()
    path = model_path(model, store)
    teller = progress(as_json or quiet)
    from bittern.runtime.model import load
    from bittern.runtime.origin import source_of, warnings_of

    with load(path, chip=chip, context=context, cache=cache, store=store, library=library or ()) as loaded:
        made = loaded.generate(
            prompt,
            count,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            seed=seed,
            chat=chat,
            ignore_eos=ignore_eos,
            progress=teller,
        )
        checkpoint = loaded.bound.checkpoint
        warnings = warnings_of(checkpoint, store, len(made.prompt) + count - 1)
        for warning in warnings:
            teller.warn(warning)
        if as_json:
            text = "".join(made)
            source = source_of(checkpoint)
            del source["sha256_origin"]  # the only thing here that a second run would tell otherwise
            print_json(
                {
                    "source": source,
                    "chip": chip,
                    "prompt": prompt,
                    "tokens_prompt": made.prompt,
                    "seed": seed,
                    "text": text,
                    "tokens": made.tokens,
                    "stopped": made.stopped,
                    "warnings": warnings,
                }
            )
            return 0
        try:
            for piece in made:
                sys.stdout.write(piece)
                sys.stdout.flush()
        finally:
            print()
    return 0
