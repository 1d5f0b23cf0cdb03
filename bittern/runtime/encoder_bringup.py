"""Bring-up of an encoder: its checkpoint becomes its graph, makes the vector of a text on every chip, and is judged.

The reference makes the vectors of all tokens in float64; every chip makes its own. A report says the cosine of the
text's vectors, and how far single values are off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from bittern.base.errors import BitternError
from bittern.base.hashing import digest
from bittern.base.progress import Progress
from bittern.chips.chip import EncodingChip, LoadedEncoder, Reals, Refusal, chip
from bittern.front.bind import BoundEncoder, bind_encoder
from bittern.runtime.artifacts import file_names, model_folder, roots_of, staged, write_program, write_report
from bittern.runtime.binding import library_of
from bittern.runtime.bringup import DEFAULT_PROMPT, REFERENCE, chosen_chips, model_of
from bittern.runtime.decode import check_room
from bittern.runtime.encoder import check_pooling, encoding_chip, pooled
from bittern.runtime.encoder_report import EncoderChipReport, EncoderReport
from bittern.runtime.model import need_tokenizer, open_checkpoint, tokenizer_of
from bittern.runtime.origin import name_of, source_of, warnings_of
from bittern.runtime.store import Store


@dataclass(frozen=True, slots=True)
class _Run:
    """What one chip made: the vectors [t, d] of the tokens, that of the text [d], and the seconds of a second run."""

    vectors: Reals
    vector: Reals
    seconds: float


def bring_up_encoder(
    path: Path,
    *,
    prompt: str | None = None,
    tokens: Sequence[int] | None = None,
    pooling: str = "mean",
    chips: Sequence[str] = ("all",),
    out: Path | None = None,
    store: Store | None = None,
    progress: Progress | None = None,
    library: Sequence[Path] = (),
) -> EncoderReport:
    """Bring an encoder up on chips; arguments as for `bring_up`.

    tokens: ids with marks. pooling: how a text's vector is made, as for `Encoder.embed`. Raises F1xx, F3xx, M1xx, E212,
    R101, R103, R104, R107, R108, R111, R112, R117, R118; a chip that cannot run it is a refusal in the report.
    """
    progress = progress or Progress()
    chosen = chosen_chips(chips)
    started = perf_counter()
    with open_checkpoint(path, store, library) as checkpoint:
        with progress.task("load"):
            tokenizer = tokenizer_of(checkpoint, store)
            bound = bind_encoder(checkpoint, library_of(library))
            check_pooling(bound, pooling)
            if tokens is None:
                prompt = DEFAULT_PROMPT if prompt is None else prompt
                ids = need_tokenizer(tokenizer).encode(prompt)
            else:
                prompt, ids = None, [int(token) for token in tokens]
            check_room(ids, 1, bound.dims["places"], bound.dims["vocab"], bound.dims["places"])
            warnings = warnings_of(checkpoint, store, len(ids))
        for warning in warnings:
            progress.warn(warning)
        seconds = {"load": perf_counter() - started}
        given = (prompt, ids, pooling, warnings, seconds)
        if out is None:
            return _brought_up(bound, chosen, given, {}, progress)
        target, names = model_folder(name_of(checkpoint, store), out), file_names(bound)
        with staged(target, names) as folder:
            write_program(bound, folder)
            files = {kind: str(target / name) for kind, name in names.items()}
            report = _brought_up(bound, chosen, given, files, progress)
            write_report(bound, folder, report.as_record())
        return report


def _brought_up(
    bound: BoundEncoder,
    chosen: Sequence[str],
    given: tuple[str | None, list[int], str, list[str], dict[str, float]],
    files: dict[str, str],
    progress: Progress,
) -> EncoderReport:
    """Run the reference and every chip that was chosen."""
    prompt, ids, pooling, warnings, seconds = given
    judge = _run(encoding_chip(REFERENCE).load_encoder(bound), bound, ids, pooling, progress, REFERENCE)
    rows = []
    for name in chosen:
        made = chip(name)
        try:
            run = judge if name == REFERENCE else _tried(name, bound, ids, pooling, progress)
        except BitternError as error:
            refusal = Refusal(error.code, error.what, error.remedy)
            rows.append(EncoderChipReport(name, made.tier, "refused", made.mode, refusal=refusal))
            continue
        largest = float(np.abs(judge.vectors).max()) or 1.0
        rows.append(
            EncoderChipReport(
                chip=name,
                tier=made.tier,
                status="ran",
                mode=made.mode,
                cosine=cosine(run.vector, judge.vector),
                error=float(np.abs(run.vectors.astype(np.float64) - judge.vectors).max()) / largest,
                vectors_sha256=_digest(run.vectors),
                tokens_per_second=len(ids) / run.seconds,
            )
        )
    return EncoderReport(
        source=source_of(bound.checkpoint),
        model=model_of(bound),
        graph=digest(("program", *roots_of(bound).values())).hex(),
        cuts=_cuts(bound, len(ids)),
        prompt=prompt,
        tokens_prompt=ids,
        pooling=pooling,
        norm=float(np.sqrt(np.square(judge.vector.astype(np.float64)).sum())),
        chips=rows,
        files=files,
        warnings=warnings,
        seconds=seconds,
    )


def cosine(x: Reals, y: Reals) -> float:
    """Return the cosine of two vectors [d], in float64; that of a zero vector is 0."""
    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    length = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / length if length else 0.0


def _tried(name: str, bound: BoundEncoder, ids: list[int], pooling: str, progress: Progress) -> _Run:
    made: EncodingChip = encoding_chip(name)
    return _run(made.load_encoder(bound), bound, ids, pooling, progress, name)


def _run(
    loaded: LoadedEncoder, bound: BoundEncoder, ids: list[int], pooling: str, progress: Progress, name: str
) -> _Run:
    token = np.array(ids, np.uint32)
    with progress.task(name):
        loaded.encode(token)  # programs are prepared before the clock starts: building is not running
        started = perf_counter()
        vectors = loaded.encode(token)
        seconds = perf_counter() - started
    return _Run(vectors, pooled(loaded, bound, vectors, pooling), seconds)


def _digest(vectors: Reals) -> str:
    rows = np.array(vectors, "<f4")
    rows[np.isnan(rows)] = np.nan
    return sha256(rows.tobytes()).hexdigest()


def _cuts(bound: BoundEncoder, count: int) -> list[dict[str, Any]]:
    """Return the named parts of the program with numbers for their dimensions."""
    sizes = {"encode": (count,), "mean": (count, bound.dims["d"]), "pool": (count,)}
    return [
        {
            "name": name,
            "function": function.name,
            "id": digest(("cut", function, sizes[name])).hex(),
            "dims": dict(zip(function.labels.dims, sizes[name], strict=True)),
        }
        for name, function in roots_of(bound).items()
    ]
