"""`bittern generate`: continue a prompt and stream the text to stdout."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from bittern.cli.bringup import CACHES
from bittern.cli.frame import choice, model_path, open_store, print_json


def command(
    model: Annotated[str, typer.Option("-m", "--model", metavar="FILE", help="A GGUF file or a pulled model.")],
    prompt: Annotated[str, typer.Option("-p", "--prompt", metavar="TEXT", help="What the text starts with.")],
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many tokens to make at most.")] = 128,
    temperature: Annotated[
        float, typer.Option("--temp", min=0.0, help="0 always takes the likeliest token; more varies more.")
    ] = 0.0,
    top_k: Annotated[int, typer.Option(min=0, help="Keep the k likeliest tokens; 0 keeps all.")] = 0,
    top_p: Annotated[float, typer.Option(min=0.0, max=1.0, help="Keep the likeliest of this total probability.")] = 1.0,
    min_p: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Keep what has this share of the best one's probability.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same text.")] = 0,
    chat: Annotated[bool, typer.Option("--chat", help="Put the prompt into the model's chat template.")] = False,
    context: Annotated[
        int | None, typer.Option("--ctx", min=1, help="Positions of the cache.", show_default="as many as needed")
    ] = None,
    cache: Annotated[str, typer.Option(help=f"Element of the cache: {', '.join(CACHES)}.")] = "f16",
    chip: Annotated[str, typer.Option(help="The chip to run on.")] = "vm",
    ignore_eos: Annotated[bool, typer.Option("--ignore-eos", help="Go on after the end of the text.")] = False,
    library: Annotated[
        list[Path] | None, typer.Option(metavar="DIR", help="A folder of programs and families, before Bittern's own.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> int:
    """Continue a prompt and stream the text."""
    choice("--cache", cache, CACHES)
    store = open_store()
    path = model_path(model, store)
    from bittern.runtime.model import load

    with load(path, chip=chip, context=context, cache=cache, store=store, library=library or ()) as loaded:
        pieces = loaded.generate(
            prompt,
            count,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            seed=seed,
            chat=chat,
            ignore_eos=ignore_eos,
        )
        if as_json:
            print_json({"model": str(path), "chip": chip, "prompt": prompt, "seed": seed, "text": "".join(pieces)})
            return 0
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        print()
    return 0
