"""Bring-up: a checkpoint becomes its graph, runs on every chip asked for, and is judged by the reference.

The reference makes N tokens greedily in float64; every chip makes N of its own. A near tie is told from a bug: at the
first token that differs the report gives the rank, the margin and the difference of the logits, and it says how many
tokens the chip agrees on when it is fed the reference's tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.base.hashing import digest
from bittern.base.progress import Progress
from bittern.chips.chip import Refusal, Session, chip, chip_names
from bittern.front.bind import Bound
from bittern.front.checkpoint import Checkpoint
from bittern.front.tokenizer import Tokenizer
from bittern.runtime.artifacts import write_program
from bittern.runtime.decode import check_room, greedy, greedy_steps, run_rows
from bittern.runtime.model import bound_model, need_tokenizer, open_checkpoint, tokenizer_of
from bittern.runtime.pinned import PINNED
from bittern.runtime.store import Store

NO_CHIPS = code("R108", "no chip is named")

DEFAULT_PROMPT = "The capital of France is"


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first token in which a chip leaves the reference.

    at: which of the N tokens, from 0. rank: of the chip's token in the reference's logits, from 1. margin: how far the
    reference's first token is ahead of its second. logit_diff: reference's logit of its own token minus that of the
    chip's token. error: by how much the chip's logits of these two tokens are off, the greater of both.
    """

    at: int
    rank: int
    margin: float
    logit_diff: float
    error: float


@dataclass(slots=True)
class ChipReport:
    """What one chip did. status: `ran`, `lowered` or `refused`. forced: agreement when fed the reference's tokens."""

    chip: str
    tier: str = ""
    status: str = "ran"
    mode: str = ""
    tokens: list[int] = field(default_factory=list)
    text: str | None = None
    agree: int | None = None
    of: int = 0
    mismatch: Mismatch | None = None
    forced: int | None = None
    misses: list[Mismatch] = field(default_factory=list)
    logits_sha256: str | None = None
    tokens_per_second: float | None = None
    prompt_seconds: float | None = None
    artifact: dict[str, str] | None = None
    refusal: Refusal | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object under `chips[]` of `--json`."""
        return {
            "chip": self.chip,
            "tier": self.tier,
            "status": self.status,
            "mode": self.mode,
            "tokens": self.tokens,
            "text": self.text,
            "agree": self.agree,
            "of": self.of,
            "mismatch": _mismatch_json(self.mismatch),
            "forced": None if self.forced is None else {"agree": self.forced, "of": self.of},
            "forced_misses": [_mismatch_json(miss) for miss in self.misses],
            "logits_sha256": self.logits_sha256,
            "tokens_per_second": self.tokens_per_second,
            "prompt_seconds": self.prompt_seconds,
            "artifact": self.artifact,
            "refusal": None
            if self.refusal is None
            else {"code": self.refusal.code, "what": self.refusal.what, "remedy": self.refusal.remedy},
        }


def _mismatch_json(mismatch: Mismatch | None) -> dict[str, Any] | None:
    if mismatch is None:
        return None
    return {
        "at": mismatch.at,
        "rank": mismatch.rank,
        "margin": mismatch.margin,
        "logit_diff": mismatch.logit_diff,
        "error": mismatch.error,
    }


@dataclass(slots=True)
class Report:
    """A whole bring-up. As text with `as_text`, as the object of `--json` with `as_json`."""

    source: dict[str, Any]
    model: dict[str, Any]
    graph: str
    cuts: list[dict[str, Any]]
    prompt: str | None
    tokens_prompt: list[int]
    reference: dict[str, Any]
    chips: list[ChipReport]
    files: dict[str, str]
    warnings: list[str]
    timings: dict[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "source": self.source,
            "model": self.model,
            "graph": self.graph,
            "cuts": self.cuts,
            "prompt": self.prompt,
            "tokens_prompt": self.tokens_prompt,
            "reference": self.reference,
            "chips": [report.as_json() for report in self.chips],
            "files": self.files,
            "warnings": self.warnings,
            "seconds": self.timings,
        }

    def as_text(self) -> str:
        """Return the report for people."""
        from bittern.runtime.report import as_text

        return as_text(self)


@dataclass(slots=True)
class _Run:
    """The tokens of one chip, and what is kept of its logits."""

    tokens: list[int]
    rows: list[npt.NDArray[np.float32]]
    sha256: str
    seconds: float
    prompt_seconds: float


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

    path: a GGUF file. prompt: text, or tokens: ids without BOS. count: tokens to make; EOS is ignored. context: positions
    of the cache; None: as many as are needed. chips: names, or `all`. out: folder for `NAME/` with program, keg, report.
    library: folders of programs and families that come before those of Bittern.
    Raises F1xx, F3xx, M1xx, R101 to R108; a chip that cannot run the model is a refusal in the report.
    """
    progress = progress or Progress()
    names = _chosen(chips)
    started = perf_counter()
    with open_checkpoint(path, store) as checkpoint:
        tokenizer = tokenizer_of(checkpoint, store)
        bound = bound_model(checkpoint, cache, library)
        if tokens is None:
            prompt = DEFAULT_PROMPT if prompt is None else prompt
            ids = need_tokenizer(tokenizer).encode(prompt)
        else:
            ids = [int(token) for token in tokens]
        context = context if context is not None else len(ids) + count - 1
        check_room(ids, count, context, bound.dims["vocab"])
        source, warnings = _source(checkpoint, progress)
        timings = {"load": perf_counter() - started}
        files = {} if out is None else write_program(bound, out)
        judge = _run(chip("reference").load(bound).start(context), ids, count, "reference", progress)
        reports = [_report(name, bound, tokenizer, ids, count, context, judge, progress) for name in names]
        report = Report(
            source=source,
            model=_model(bound, checkpoint),
            graph=graph_id(bound),
            cuts=_cuts(bound, ids, context),
            prompt=prompt if tokens is None else None,
            tokens_prompt=ids,
            reference={
                "tokens": judge.tokens,
                "text": _text(tokenizer, judge.tokens),
                "logits_sha256": judge.sha256,
                "tokens_per_second": count / judge.seconds,
            },
            chips=reports,
            files=files,
            warnings=warnings,
            timings=timings,
        )
    if out is not None:
        from bittern.runtime.artifacts import write_report

        files["report"] = str(write_report(bound, out, report.as_json()))
    return report


def graph_id(bound: Bound) -> str:
    """Return the identity of a model's program: of its forward function and its head, in hexadecimal."""
    return digest(("program", bound.forward, bound.head)).hex()


def _chosen(chips: Sequence[str]) -> list[str]:
    if not chips:
        raise BitternError(NO_CHIPS, "No chip is named.", "Give `--chips all`, or names with commas.")
    names = chip_names() if "all" in chips else list(dict.fromkeys(chips))
    for name in names:
        chip(name)
    return names


def _run(session: Session, ids: Sequence[int], count: int, name: str, progress: Progress) -> _Run:
    """Make `count` greedy tokens; keep the logits as f32 rows."""
    _warm_up(session, ids)
    started = perf_counter()
    result = _Run([], [], "", 0.0, 0.0)
    whole = sha256()
    with progress.task(name, count, "tokens") as task:
        for token, logits in greedy_steps(session, ids, count):
            if not result.tokens:
                result.prompt_seconds = perf_counter() - started
            row = np.asarray(logits, "<f4")
            whole.update(row.tobytes())
            result.tokens.append(token)
            result.rows.append(row)
            task.advance(1)
    result.seconds = perf_counter() - started
    result.sha256 = whole.hexdigest()
    return result


def _warm_up(session: Session, ids: Sequence[int]) -> None:
    """Have programs prepared before the clock starts: building is not running. The run writes every place anew."""
    session.logits(run_rows(session, ids)[-1:])
    session.logits(run_rows(session, ids[:1]))


def _report(
    name: str,
    bound: Bound,
    tokenizer: Tokenizer | None,
    ids: Sequence[int],
    count: int,
    context: int,
    judge: _Run,
    progress: Progress,
) -> ChipReport:
    made = chip(name)
    report = ChipReport(name, made.tier, mode=made.mode, of=count)
    try:
        loaded = made.load(bound)
        session = loaded.start(context)
    except BitternError as refusal:
        report.status, report.refusal = "refused", Refusal(refusal.code, refusal.what, refusal.remedy)
        return report
    run = judge if name == "reference" else _run(session, ids, count, name, progress)
    report.tokens, report.text = run.tokens, _text(tokenizer, run.tokens)
    report.logits_sha256, report.tokens_per_second = run.sha256, count / run.seconds
    report.prompt_seconds = run.prompt_seconds
    report.artifact = None if loaded.artifact is None else dict(loaded.artifact)
    report.agree = agreeing(run.tokens, judge.tokens)
    report.forced = count
    if report.agree < count:
        at = report.agree
        report.mismatch = _mismatch(at, run.rows[at], judge.rows[at])
        _judge_forced(report, session, ids, judge)
    return report


def agreeing(tokens: Sequence[int], reference: Sequence[int]) -> int:
    """Return the number of leading tokens that are equal."""
    count = 0
    for mine, theirs in zip(tokens, reference, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _judge_forced(report: ChipReport, session: Session, ids: Sequence[int], judge: _Run) -> None:
    """Feed the reference's tokens and count where the chip would have taken the same next one."""
    hidden = run_rows(session, [*ids, *judge.tokens[:-1]])[len(ids) - 1 :]
    report.forced = 0
    for at, row in enumerate(hidden):
        logits = np.asarray(session.logits(row[None])[0], "<f4")
        if greedy(logits) == judge.tokens[at]:
            report.forced += 1
        else:
            report.misses.append(_mismatch(at, logits, judge.rows[at]))


def _mismatch(at: int, mine: npt.NDArray[np.float32], reference: npt.NDArray[np.float32]) -> Mismatch:
    chosen, wanted = greedy(mine), greedy(reference)
    rank = int(np.count_nonzero(reference > reference[chosen])) + 1
    second, first = np.partition(reference, -2)[-2:] if len(reference) > 1 else (reference[0], reference[0])
    both = [chosen, wanted]
    error = np.abs(mine[both].astype(np.float64) - reference[both].astype(np.float64)).max()
    difference = float(reference[wanted]) - float(reference[chosen])
    return Mismatch(at, rank, float(first) - float(second), difference, float(error))


def _text(tokenizer: Tokenizer | None, tokens: Sequence[int]) -> str | None:
    return None if tokenizer is None else tokenizer.decode(tokens, start=False)


def _source(checkpoint: Checkpoint, progress: Progress) -> tuple[dict[str, Any], list[str]]:
    """Return what is known of the file, and warnings: a file that has the size of a pinned model but other bytes."""
    found = checkpoint.sha256
    source: dict[str, Any] = {
        "path": str(checkpoint.path),
        "kind": checkpoint.kind,
        "size": checkpoint.size,
        "sha256": found,
        "sha256_origin": checkpoint.sha256_origin,
        "pinned": None,
    }
    warnings = []
    for row in PINNED.values():
        if row.sha256 == found:
            source["pinned"] = row.name
        elif row.size == checkpoint.size:
            warnings.append(
                f"The file has the size of the pinned model `{row.name}`, but its SHA-256 is {found}, not {row.sha256}."
            )
    for warning in warnings:
        progress.note(f"warning: {warning}")
    return source, warnings


def _model(bound: Bound, checkpoint: Checkpoint) -> dict[str, Any]:
    formats: dict[str, int] = {}
    parameters = 0
    for info in checkpoint.tensors.values():
        formats[info.element.name] = formats.get(info.element.name, 0) + 1
        parameters += int(np.prod(info.shape, dtype=np.int64))
    return {
        "family": bound.family.name,
        "name": str(checkpoint.metadata.get("general.name", "")),
        "parameters": parameters,
        "dims": dict(bound.dims),
        "tensors": len(checkpoint.tensors),
        "formats": dict(sorted(formats.items())),
        "cache": bound.cache,
        "steps": dict(bound.steps),
    }


def _cuts(bound: Bound, ids: Sequence[int], context: int) -> list[dict[str, Any]]:
    """Return the named parts of the one program: each is a function with numbers for its dimensions."""
    rows: list[tuple[str, Any, tuple[int, ...]]] = [
        ("decode_step", bound.forward, (1, 1, context)),
        ("prefill_chunk", bound.forward, (len(ids), 1, context)),
        ("head", bound.head, (1,)),
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
