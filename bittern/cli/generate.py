"""`bittern generate`: continue prompts and stream the text to stdout."""

import secrets
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json, progress
from bittern.cli.options import (
    AsJson,
    Cache,
    ChipName,
    Context,
    Count,
    Folders,
    MinP,
    Quiet,
    Seed,
    Temperature,
    Threads,
    TierName,
    TopK,
    TopP,
    option,
)

if TYPE_CHECKING:
    from bittern.runtime.batch import Batch
    from bittern.runtime.generation import Generation
    from bittern.runtime.model import Model


def command(
    model: Annotated[str, option("-m", "--model", metavar="MODEL", help="A file or folder, or a pulled model's name.")],
    prompt: Annotated[
        list[str],
        option("-p", "--prompt", metavar="TEXT", help="What the text starts with; given again, several at once."),
    ],
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
    chip: ChipName = "auto",
    tier: TierName = "",
    threads: Threads = None,
    no_speculation: Annotated[
        bool, option("--no-speculation", help="Make every token by itself; the text is the same.")
    ] = False,
    restore: Annotated[Path | None, option(metavar="FILE", help="Go on with the text of a saved state.")] = None,
    save: Annotated[Path | None, option(metavar="FILE", help="Save the state, to go on later.")] = None,
    ignore_eos: Annotated[bool, option("--ignore-eos", help="Go on after the end of the text.")] = False,
    library: Folders = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> int:
    """Continue a prompt and stream the text.

    A text ends at the model's end mark, or after N tokens. Only the text goes to stdout; of several prompts the texts
    are made together and printed in their order, with an empty line between.
    """
    if len(prompt) > 1 and (restore or save):
        raise BitternError(
            BAD_ARGUMENTS, "A state is that of one text, and several prompts are given.", "Give one prompt."
        )
    store = open_store()
    path = model_path(model, store)
    teller = progress(as_json or quiet)
    if creative:
        seed = secrets.randbits(64)
        teller.note(f"seed {seed}")
    from bittern.runtime.model import load

    sampling: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "seed": seed,
    }
    mode = "creative" if creative else "seeded" if temperature else "strict"
    setting: dict[str, Any] = {"chip": chip, "tier": tier, "threads": threads or 0, "context": context, "cache": cache}
    with load(path, **setting, store=store, library=library or (), progress=teller) as loaded:
        arguments: dict[str, Any] = {"ignore_eos": ignore_eos, "progress": teller, "speculates": not no_speculation}
        arguments |= {"chat": chat, **sampling}
        about = {"chip": loaded.chip.name, "mode": mode, **sampling}
        if len(prompt) > 1:
            batch = loaded.generate_many(prompt, count, **arguments)
            longest = max(len(text.prompt) for text in batch.texts)
            warnings = _warn(loaded, store, teller, longest + count - 1)
            _several(loaded, batch, prompt, about, warnings, as_json)
            return 0
        start: str | list[int] = prompt[0]
        if restore is not None:
            start = [*loaded.restore(restore), *_continuing(loaded, prompt[0], chat)]
        made = loaded.generate(start, count, **arguments)
        warnings = _warn(loaded, store, teller, len(made.prompt) + count - 1)
        if as_json:
            _print_whole(loaded, made, {"prompt": prompt[0], "tokens_prompt": made.prompt, **about}, warnings)
        else:
            _stream(made)
        if save is not None:
            loaded.save_state(save)
    return 0


def _warn(loaded: "Model", store: Any, teller: Any, positions: int) -> list[str]:
    """Tell what speaks against the run, and return it."""
    from bittern.runtime.origin import warnings_of

    warnings = warnings_of(loaded.bound.checkpoint, store, positions)
    for warning in warnings:
        teller.warn(warning)
    return warnings


def _continuing(loaded: "Model", prompt: str, chat: bool) -> list[int]:
    """Return the token ids of a prompt that goes on with a text."""
    from bittern.runtime.model import need_tokenizer

    return need_tokenizer(loaded.tokenizer).encode(loaded.chat_text(prompt) if chat else prompt, bos=False)


def _source(loaded: "Model") -> dict[str, Any]:
    """Return what is said of the model's file, the same for the same run."""
    from bittern.runtime.origin import source_of

    source = source_of(loaded.bound.checkpoint)
    del source["sha256_origin"]  # the only thing here that a second run would tell otherwise
    return source


def _print_whole(loaded: "Model", made: "Generation", about: dict[str, Any], warnings: list[str]) -> None:
    """Print a generation as one JSON object, the same for the same run."""
    text = "".join(made)
    ended = {"text": text, "tokens": made.tokens, "stopped": made.stopped, "warnings": warnings}
    print_json({"source": _source(loaded), **about, **ended})


def _several(
    loaded: "Model", batch: "Batch", prompts: list[str], about: dict[str, Any], warnings: list[str], as_json: bool
) -> None:
    """Print several texts: one JSON object, or each as it comes once those before it are complete."""
    if not as_json:
        _stream(_in_order(batch))
        return
    batch.finish()
    texts = [
        {"prompt": prompt, "tokens_prompt": text.prompt, "text": text.made, "tokens": text.tokens}
        | {"stopped": text.stopped}
        for prompt, text in zip(prompts, batch.texts, strict=True)
    ]
    print_json({"source": _source(loaded), **about, "texts": texts, "warnings": warnings})


def _in_order(batch: "Batch") -> Iterable[str]:
    """Yield the pieces of the first text that is not complete; then what there is of the next one."""
    shown, said = 0, 0
    for _ in batch:
        while True:
            text = batch.texts[shown]
            if len(text.made) > said:
                yield text.made[said:]
                said = len(text.made)
            if text.stopped is None or shown == len(batch.texts) - 1:
                break
            yield "\n\n"
            shown, said = shown + 1, 0
    for text in batch.texts[shown + 1 :]:
        yield f"\n\n{text.made}"


def _stream(pieces: Iterable[str]) -> None:
    """Write pieces of text as they come, and end the line however they end."""
    try:
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
    finally:
        print()
