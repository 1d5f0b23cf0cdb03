"""Bring-up: a checkpoint becomes its graph, runs on every chip asked for, and is judged by the reference.

The reference makes N tokens greedily in float64; every chip makes N of its own. A near tie is told from a bug: at the
first token that differs the report gives the rank, the margin and the difference of the logits, and it says how many
tokens the chip agrees on when it is fed the reference's tokens.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.base.hashing import digest
from bittern.base.progress import Progress
from bittern.chips.chip import UNKNOWN_CHIP, Chip, Reals, Refusal, Session, chip, chip_names
from bittern.front.bind import BoundEncoder
from bittern.front.bound import Bound
from bittern.front.tokenizer import Tokenizer
from bittern.graph.node import Function
from bittern.runtime.artifacts import file_names, model_folder, staged, write_program, write_report
from bittern.runtime.binding import bound_model
from bittern.runtime.decode import CHUNK, check_room, greedy, greedy_steps, run_last, run_rows, start
from bittern.runtime.model import decoded, need_tokenizer, open_checkpoint, tokenizer_of
from bittern.runtime.origin import name_of, source_of, warnings_of
from bittern.runtime.report import ChipReport, Forced, Mismatch, Report
from bittern.runtime.sample import MOST_TOKENS, check_range
from bittern.runtime.store import Store

NO_CHIPS = code("R108", "no chip is named")

DEFAULT_PROMPT = "The capital of France is"
REFERENCE = "reference"

Row = npt.NDArray[np.float32]  # the logits of one step: [vocab]


@dataclass(frozen=True, slots=True)
class _Job:
    """What every chip is asked to do: make `count` tokens after the ids, with a cache of `context` positions.

    prompt: the text that the ids come from, if there is one. source, warnings, seconds: as in the report.
    """

    bound: Bound
    tokenizer: Tokenizer | None
    prompt: str | None
    ids: list[int]
    count: int
    context: int
    source: dict[str, Any]
    warnings: list[str]
    seconds: dict[str, float]
    progress: Progress


@dataclass(frozen=True, slots=True)
class _Run:
    """The tokens of one chip, and what is kept of its logits.

    rows: those of every step for the reference, else only of the one in which the chip leaves it. has_nan: anywhere.
    """

    tokens: list[int]
    rows: dict[int, Row]
    sha256: str
    seconds: float
    prompt_seconds: float
    has_nan: bool


def bring_up(
    path: Path,
    *,
    prompt: str | None = None,
    tokens: Sequence[int] | None = None,
    count: int = 32,
    context: int | None = None,
    cache: str = "f16",
    chips: Sequence[str] = ("all",),
    out: Path | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
    library: Sequence[Path] = (),
) -> Report:
    """Bring a checkpoint up on chips.

    path: a GGUF file or a Hugging Face folder. prompt: text, or tokens: ids without BOS. count: tokens to make; EOS is
    ignored. context: positions of the cache; None: as many as needed. chips: names, or `all`. out: gets `NAME/` with
    program, keg and report, which are written when all has gone well. library: folders of programs and families that
    come before those of Bittern. progress: shows the work, and warnings before it begins.
    Raises F1xx, F3xx, M1xx, E212, R101 to R112; a chip that cannot run the model is a refusal in the report.
    """
    progress = progress or Progress()
    chosen = chosen_chips(chips)
    check_range("count", count, 1, MOST_TOKENS)
    started = perf_counter()
    with open_checkpoint(path, store, library) as checkpoint:
        with progress.task("load"):
            tokenizer = tokenizer_of(checkpoint, store)
            bound = bound_model(checkpoint, cache, library)
            if tokens is None:
                prompt = DEFAULT_PROMPT if prompt is None else prompt
                ids = need_tokenizer(tokenizer).encode(prompt)
            else:
                prompt, ids = None, [int(token) for token in tokens]
            positions = max(len(ids) + count - 1, 1) if context is None else context
            check_range("context", positions, 1, MOST_TOKENS)
            check_room(ids, count, positions, bound.dims["vocab"], bound.dims.get("places"))
            source, warnings = source_of(checkpoint), warnings_of(checkpoint, store, positions)
        for warning in warnings:
            progress.warn(warning)
        seconds = {"load": perf_counter() - started}
        job = _Job(bound, tokenizer, prompt, ids, count, positions, source, warnings, seconds, progress)
        if out is None:
            return _brought_up(job, chosen, {})
        target, names = model_folder(name_of(checkpoint, store), out), file_names(bound)
        with staged(target, names) as folder:
            write_program(bound, folder)
            report = _brought_up(job, chosen, {kind: str(target / name) for kind, name in names.items()})
            write_report(bound, folder, report.as_record())
        return report


def _brought_up(job: _Job, chosen: Sequence[str], files: dict[str, str]) -> Report:
    """Run the reference and every chip that was chosen."""
    made = chip(REFERENCE)
    judge = _run(start(made.load(job.bound), job.context), job, REFERENCE, None)
    reference = _ran(made, job, judge, judge, Forced(job.count, job.count))
    warnings = [*job.warnings]
    if judge.has_nan:
        warnings.append("The logits of the reference hold NaN, so agreement with it says little.")
    return Report(
        source=job.source,
        model={**model_of(job.bound), "cache": job.bound.cache},
        graph=graph_id(job.bound),
        cuts=_cuts(job),
        prompt=job.prompt,
        tokens_prompt=job.ids,
        reference=reference,
        chips=[reference if name == REFERENCE else _tried(chip(name), job, judge) for name in chosen],
        files=files,
        warnings=warnings,
        seconds=job.seconds,
    )


def graph_id(bound: Bound) -> str:
    """Return the identity of a model's program: of its forward function and its head, in hexadecimal."""
    return digest(("program", bound.forward, bound.head)).hex()


def agreeing(tokens: Sequence[int], reference: Sequence[int]) -> int:
    """Return the number of leading tokens that are equal."""
    pairs = zip(tokens, reference, strict=False)
    return next((at for at, (mine, theirs) in enumerate(pairs) if mine != theirs), min(len(tokens), len(reference)))


def chosen_chips(chips: Sequence[str]) -> list[str]:
    """Return the names of the chips asked for, each once. Raises R101, R108."""
    known, named = chip_names(), list(dict.fromkeys(chips))
    unknown = [name for name in named if name != "all" and name not in known]
    if not named:
        raise BitternError(NO_CHIPS, "No chip is named.", "Give `--chips all`, or names with commas.")
    if unknown:
        shown = ", ".join(f"`{name}`" for name in unknown)
        what = f"There is no chip {shown}." if len(unknown) == 1 else f"There are no chips {shown}."
        raise BitternError(UNKNOWN_CHIP, what, nearest(unknown[0], known) or f"Known: {', '.join(known)}.")
    return known if "all" in named else named


def _tried(made: Chip, job: _Job, judge: _Run) -> ChipReport:
    """Return what a chip did, or its refusal."""
    try:
        loaded = made.load(job.bound)
        session = start(loaded, job.context)
    except BitternError as error:
        refusal = Refusal(error.code, error.what, error.remedy)
        return ChipReport(made.name, made.tier, "refused", made.mode, job.count, refusal=refusal)
    run = _run(session, job, made.name, judge.tokens)
    forced = Forced(job.count, job.count) if run.tokens == judge.tokens else _forced(session, job, judge)
    return _ran(made, job, run, judge, forced, loaded.artifact)


def _ran(
    made: Chip, job: _Job, run: _Run, judge: _Run, forced: Forced, artifact: Mapping[str, str] | None = None
) -> ChipReport:
    agree = agreeing(run.tokens, judge.tokens)
    return ChipReport(
        chip=made.name,
        tier=made.tier,
        status="ran",
        mode=made.mode,
        of=job.count,
        tokens=tuple(run.tokens),
        text=None if job.tokenizer is None else decoded(job.tokenizer, run.tokens),
        agree=agree,
        mismatch=None if agree == job.count else mismatch(agree, run.rows[agree], judge.rows[agree]),
        forced=forced,
        logits_sha256=run.sha256,
        tokens_per_second=job.count / run.seconds,
        prompt_seconds=run.prompt_seconds,
        artifact=artifact,
    )


def _run(session: Session, job: _Job, name: str, reference: Sequence[int] | None) -> _Run:
    """Make greedy tokens. reference: its tokens; None: this is the reference, all of whose logits are kept."""
    _warm_up(session, job.ids)
    tokens: list[int] = []
    rows: dict[int, Row] = {}
    whole, has_nan, prompt_seconds = sha256(), False, 0.0
    started = perf_counter()
    with job.progress.task(name, job.count, "tokens") as task:
        for token, logits in greedy_steps(session, job.ids, job.count, job.progress):
            prompt_seconds = prompt_seconds or perf_counter() - started
            row = _canonical(logits)
            has_nan = has_nan or bool(np.isnan(row).any())
            whole.update(row.tobytes())
            if reference is None or (not rows and token != reference[len(tokens)]):
                rows[len(tokens)] = row
            tokens.append(token)
            task.advance(1)
    return _Run(tokens, rows, whole.hexdigest(), perf_counter() - started, prompt_seconds, has_nan)


def _canonical(logits: Reals) -> Row:
    """Return logits as f32 of their own, every NaN the canonical one."""
    row = np.array(logits, "<f4")
    row[np.isnan(row)] = np.nan
    return row


def _warm_up(session: Session, ids: Sequence[int]) -> None:
    """Have programs prepared before the clock starts: building is not running. The run writes every place anew."""
    run_last(session, ids)
    run_last(session, ids[:1])


def _forced(session: Session, job: _Job, judge: _Run) -> Forced:
    """Feed the reference's tokens and count where the chip would have taken the same next one."""
    hidden = run_rows(session, [*job.ids, *judge.tokens[:-1]])[len(job.ids) - 1 :]
    rows = ((at, _canonical(session.logits(row[None])[0])) for at, row in enumerate(hidden))
    misses = tuple(mismatch(at, row, judge.rows[at]) for at, row in rows if greedy(row) != judge.tokens[at])
    return Forced(job.count - len(misses), job.count, misses)


def mismatch(at: int, mine: Row, reference: Row) -> Mismatch:
    """Compare the logits of a step in which a chip takes another token than the reference; NaN counts as the least."""
    chosen, wanted = greedy(mine), greedy(reference)
    ranked = np.where(np.isnan(reference), -np.inf, reference)
    rank = int(np.count_nonzero(ranked > ranked[chosen])) + 1
    others = np.delete(ranked, wanted)
    margin = float(reference[wanted]) - float(others.max(initial=-np.inf))
    both = [chosen, wanted]
    error = np.abs(mine[both].astype(np.float64) - reference[both].astype(np.float64)).max()
    return Mismatch(at, rank, margin, float(reference[wanted]) - float(reference[chosen]), float(error))


def model_of(bound: Bound | BoundEncoder) -> dict[str, Any]:
    """Return what a report says of a model, but for its cache."""
    tensors = bound.checkpoint.tensors.values()
    return {
        "family": bound.family.name,
        "name": str(bound.checkpoint.metadata.get("general.name", "")),
        "parameters": sum(prod(info.shape) for info in tensors),
        "dims": dict(bound.dims),
        "tensors": len(tensors),
        "formats": dict(sorted(Counter(info.element.name for info in tensors).items())),
        "steps": dict(bound.steps),
    }


def _cuts(job: _Job) -> list[dict[str, Any]]:
    """Return the named parts of the one program: each is a function with numbers for its dimensions."""
    forward, head = job.bound.forward, job.bound.head
    rows: list[tuple[str, Function, tuple[int, ...]]] = [
        ("decode_step", forward, (1, 1, job.context)),
        ("prefill_chunk", forward, (min(len(job.ids), CHUNK), 1, job.context)),
        ("head", head, (1,)),
    ]
    return [
        {
            "name": name,
            "function": function.name,
            "id": digest(("cut", function, dims)).hex(),
            "dims": dict(zip(function.labels.dims, dims, strict=True)),
        }
        for name, function, dims in rows
    ]
