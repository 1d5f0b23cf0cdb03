"""`bittern generate`: continue prompts and stream the text to stdout."""

import secrets
import sys
from collections.abc import Iterable
from dataclasses import dataclass
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
    from bittern.base.progress import Progress
    from bittern.front.tokenizer import Tokenizer
    from bittern.runtime.batch import Batch
    from bittern.runtime.model import Model
    from bittern.runtime.store import Store


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
        what = "A state is that of one text, and several prompts are given."
        raise BitternError(BAD_ARGUMENTS, what, "Give one prompt.")
    store, teller = open_store(), progress(as_json or quiet)
    path = model_path(model, store)
    if creative:
        seed = secrets.randbits(64)
        teller.note(f"seed {seed}")
    from bittern.runtime.model import load

    sampling = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "seed": seed}
    mode = "creative" if creative else "seeded" if temperature else "strict"
    setting: dict[str, Any] = {"chip": chip, "tier": tier, "threads": threads or 0, "context": context, "cache": cache}
    with load(path, **setting, store=store, library=library or (), progress=teller) as loaded:
        how: dict[str, Any] = {"ignore_eos": ignore_eos, "chat": chat, "speculates": not no_speculation, **sampling}
        run = _Run(loaded, store, teller, count, how, {"chip": loaded.chip.name, "mode": mode, **sampling}, as_json)
        if len(prompt) > 1:
            run.several(prompt)
        else:
            run.one(prompt[0], restore, save)
    return 0


@dataclass(frozen=True, slots=True)
class _Run:
    """One call of the command. how: arguments of `generate`. about: what the JSON says of it."""

    loaded: "Model"
    store: "Store"
    teller: "Progress"
    count: int
    how: dict[str, Any]
    about: dict[str, Any]
    as_json: bool

    def one(self, prompt: str, restore: Path | None, save: Path | None) -> None:
        """Continue one prompt, which may go on with a saved state."""
        loaded = self.loaded
        start: str | list[int] = prompt
        if restore is not None:
            text = loaded.restore(restore)
            more = loaded.chat_text(prompt) if self.how["chat"] else prompt
            start = [*text, *self._tokenizer().encode(more, bos=False)]
        made = loaded.generate(start, self.count, **self.how, progress=self.teller)
        warnings = self._warn(len(made.prompt))
        if self.as_json:
            told = {"prompt": prompt, "tokens_prompt": made.prompt, **self.about}
            ended = {"text": "".join(made), "tokens": made.tokens, "stopped": made.stopped, "warnings": warnings}
            print_json({"source": self._source(), **told, **ended})
        else:
            _stream(made)
        if save is not None:
            loaded.save_state(save)

    def several(self, prompts: list[str]) -> None:
        """Continue several prompts at once."""
        batch = self.loaded.generate_many(prompts, self.count, **self.how, progress=self.teller)
        warnings = self._warn(max(len(text.prompt) for text in batch.texts))
        if not self.as_json:
            _stream(_in_order(batch))
            return
        batch.finish()
        texts = [
            {
                "prompt": prompt,
                "tokens_prompt": text.prompt,
                "text": text.made,
                "tokens": text.tokens,
                "stopped": text.stopped,
            }
            for prompt, text in zip(prompts, batch.texts, strict=True)
        ]
        print_json({"source": self._source(), **self.about, "texts": texts, "warnings": warnings})

    def _warn(self, prompt: int) -> list[str]:
        """Tell what speaks against the run, and return it. prompt: its tokens."""
        from bittern.runtime.origin import warnings_of

        warnings = warnings_of(self.loaded.bound.checkpoint, self.store, prompt + self.count - 1)
        for warning in warnings:
            self.teller.warn(warning)
        return warnings

    def _tokenizer(self) -> "Tokenizer":
        from bittern.runtime.model import need_tokenizer

        return need_tokenizer(self.loaded.tokenizer)

    def _source(self) -> dict[str, Any]:
        """Return what is said of the model's file, the same for the same run."""
        from bittern.runtime.origin import source_of

        source = source_of(self.loaded.bound.checkpoint)
        del source["sha256_origin"]  # the only thing here that a second run would tell otherwise
        return source


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
