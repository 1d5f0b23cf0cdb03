"""The report of a bring-up: what the model is, what each chip did, and how that compares with the reference.

As the object that `--json` prints (`docs/report.schema.json` is its schema), and as text for people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bittern.chips.chip import Refusal


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A token in which a chip leaves the reference.

    at: which of the N tokens, from 0. rank: of the chip's token in the reference's logits, from 1. margin: how far the
    reference's first token is ahead of its second. logit_diff: the reference's logit of its own token minus that of the
    chip's token. error: by how much the chip's logits of these two tokens are off, the greater of both.
    A near tie has rank 2, a small margin and an error of its size; a bug has neither.
    """

    at: int
    rank: int
    margin: float
    logit_diff: float
    error: float


@dataclass(frozen=True, slots=True)
class Forced:
    """How a chip does when it is fed the reference's tokens. agree: tokens that it would have taken too."""

    agree: int
    of: int
    misses: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, slots=True)
class ChipReport:
    """What one chip did.

    status: `ran`, `lowered` (there is an artifact, but nothing that runs it here) or `refused`. mode: `hardware`,
    `emulated` or `model`. agree: leading tokens that are the reference's, of `of`. tokens_per_second: from the first
    token of the prompt to the last one made, building excluded. logits_sha256: of the N logit vectors from which the N
    tokens were taken, little-endian f32, every NaN the canonical one.
    """

    chip: str
    tier: str
    status: str
    mode: str
    of: int
    tokens: tuple[int, ...] = ()
    text: str | None = None
    agree: int | None = None
    mismatch: Mismatch | None = None
    forced: Forced | None = None
    logits_sha256: str | None = None
    tokens_per_second: float | None = None
    prompt_seconds: float | None = None
    artifact: Mapping[str, str] | None = None
    refusal: Refusal | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object under `chips[]`."""
        return {
            "chip": self.chip,
            "tier": self.tier,
            "status": self.status,
            "mode": self.mode,
            "tokens": list(self.tokens),
            "text": self.text,
            "agree": self.agree,
            "of": self.of,
            "mismatch": self.mismatch and asdict(self.mismatch),
            "forced": self.forced and asdict(self.forced),
            "logits_sha256": self.logits_sha256,
            "tokens_per_second": self.tokens_per_second,
            "prompt_seconds": self.prompt_seconds,
            "artifact": None if self.artifact is None else dict(self.artifact),
            "refusal": self.refusal and asdict(self.refusal),
        }


@dataclass(frozen=True, slots=True)
class Report:
    """A whole bring-up. seconds: how long its parts took. files: what was written, by kind."""

    source: Mapping[str, Any]
    model: Mapping[str, Any]
    graph: str
    cuts: Sequence[Mapping[str, Any]]
    prompt: str | None
    tokens_prompt: Sequence[int]
    reference: ChipReport
    chips: Sequence[ChipReport]
    files: Mapping[str, str]
    warnings: Sequence[str]
    seconds: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        judge = self.reference.as_json()
        return {
            "source": dict(self.source),
            "model": dict(self.model),
            "graph": self.graph,
            "cuts": [dict(cut) for cut in self.cuts],
            "prompt": self.prompt,
            "tokens_prompt": list(self.tokens_prompt),
            "reference": {key: judge[key] for key in ("tokens", "text", "logits_sha256", "tokens_per_second")},
            "chips": [chip.as_json() for chip in self.chips],
            "files": dict(self.files),
            "warnings": list(self.warnings),
            "seconds": dict(self.seconds),
        }

    def as_record(self) -> dict[str, Any]:
        """Return what of the report is the same in every run: no times, and nothing of where things lie here."""
        whole = self.as_json()
        del whole["seconds"], whole["files"], whole["source"]["path"], whole["source"]["sha256_origin"]
        for part in (whole["reference"], *whole["chips"]):
            for measured in ("tokens_per_second", "prompt_seconds"):
                part.pop(measured, None)
        return whole

    def as_text(self) -> str:
        """Return the report as lines for people: the model's facts, then each chip."""
        shown = repr(self.prompt) if self.prompt is not None else "given as ids"
        lines = model_lines(self.source, self.model, self.graph, self.cuts, self.files, self.seconds["load"])
        lines += ["", f"prompt: {shown}, {_count(len(self.tokens_prompt), 'token')}"]
        for chip in self.chips:
            lines += ["", *_chip(chip)]
        if self.warnings:
            lines += ["", *(f"warning: {warning}" for warning in self.warnings)]
        return "\n".join(lines)


def model_lines(
    source: Mapping[str, Any],
    model: Mapping[str, Any],
    graph: str,
    cuts: Sequence[Mapping[str, Any]],
    files: Mapping[str, str],
    seconds: float,
) -> list[str]:
    """Return the lines about a model with which the text of a report begins. seconds: that loading took."""
    formats = ", ".join(f"{count} {name}" for name, count in model["formats"].items())
    shape = ", ".join(f"{name} = {value}" for name, value in model["dims"].items())
    cache = f"; cache {model['cache']}" if "cache" in model else ""
    return [
        f"{model['name'] or model['family']}: family {model['family']}, {model['parameters'] / 1e6:.1f} M parameters",
        f"  file    {source['path']}, {source['size'] / 1e6:.1f} MB",
        f"  sha256  {source['sha256']} ({source['sha256_origin']})",
        f"  shape   {shape}",
        f"  tensors {model['tensors']}: {formats}{cache}",
        *(f"  binding {field}: {steps}" for field, steps in model["steps"].items()),
        f"  graph   {graph}",
        *(f"  cut     {cut['name']}: {cut['function']} {_dims(cut['dims'])} {cut['id'][:16]}" for cut in cuts),
        *(f"  {kind:<7} {path}" for kind, path in files.items()),
        f"  loaded in {seconds:.2f} s",
    ]


def _dims(dims: Mapping[str, int]) -> str:
    return "[" + ", ".join(f"{name} = {value}" for name, value in dims.items()) + "]"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _chip(chip: ChipReport) -> list[str]:
    head = f"{chip.chip}:{chip.tier}  {chip.status}"
    if chip.refusal is not None:
        remedy = [f"  {chip.refusal.remedy}"] if chip.refusal.remedy else []
        return [f"{head}  {chip.refusal.code}: {chip.refusal.what}", *remedy]
    lines = [f"{head} on {chip.mode}"]
    if chip.tokens_per_second is not None:
        lines[0] += f"  {chip.tokens_per_second:.1f} tokens/s"
    if chip.agree is not None:
        lines[0] += f", {chip.agree} of {chip.of} tokens agree with the reference"
    if chip.text is not None:
        lines.append(f"  {chip.text!r}")
    if chip.mismatch is not None:
        m = chip.mismatch
        lines.append(f"  leaves the reference at token {m.at}: {_miss(m)}")
    if chip.forced is not None and chip.mismatch is not None:
        lines.append(f"  fed the reference's tokens it agrees on {chip.forced.agree} of {chip.forced.of}")
        lines += [f"    misses token {m.at}: {_miss(m)}" for m in chip.forced.misses if m != chip.mismatch]
    if chip.logits_sha256 is not None:
        lines.append(f"  logits sha256 {chip.logits_sha256}")
    return lines


def _miss(m: Mismatch) -> str:
    return (
        f"its token is rank {m.rank} there, {m.logit_diff:.4f} below the first "
        f"(margin {m.margin:.4f}, logits off by {m.error:.4f})"
    )
