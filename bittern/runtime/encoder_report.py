"""The report of an encoder's bring-up: what the model is, and how far each chip's vectors are from the reference's.

As the object that `--json` prints (`encoder` in `docs/report.schema.json` is its schema), and as text for people.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bittern.chips.chip import Refusal
from bittern.runtime.report import model_lines


@dataclass(frozen=True, slots=True)
class EncoderChipReport:
    """What one chip did.

    status: `ran` or `refused`. mode: `hardware`, `emulated` or `model`. cosine: of the text's vector and the
    reference's. error: the greatest distance of a value of the tokens' vectors from the reference's, of 1, its greatest
    value. vectors_sha256: of the vectors of all tokens, little-endian f32, every NaN the canonical one.
    tokens_per_second: of a second run, building excluded.
    """

    chip: str
    tier: str
    status: str
    mode: str
    cosine: float | None = None
    error: float | None = None
    vectors_sha256: str | None = None
    tokens_per_second: float | None = None
    refusal: Refusal | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object under `chips[]`."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EncoderReport:
    """A whole bring-up of an encoder. vector: of the text, as the reference makes it; norm: its length."""

    source: Mapping[str, Any]
    model: Mapping[str, Any]
    graph: str
    cuts: Sequence[Mapping[str, Any]]
    prompt: str | None
    tokens_prompt: Sequence[int]
    pooling: str
    norm: float
    chips: Sequence[EncoderChipReport]
    files: Mapping[str, str]
    warnings: Sequence[str]
    seconds: Mapping[str, float]

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "source": dict(self.source),
            "model": dict(self.model),
            "graph": self.graph,
            "cuts": [dict(cut) for cut in self.cuts],
            "prompt": self.prompt,
            "tokens_prompt": list(self.tokens_prompt),
            "pooling": self.pooling,
            "norm": self.norm,
            "chips": [chip.as_json() for chip in self.chips],
            "files": dict(self.files),
            "warnings": list(self.warnings),
            "seconds": dict(self.seconds),
        }

    def as_record(self) -> dict[str, Any]:
        """Return what of the report is the same in every run: no times, and nothing of where things lie here."""
        whole = self.as_json()
        del whole["seconds"], whole["files"], whole["source"]["path"], whole["source"]["sha256_origin"]
        for part in whole["chips"]:
            del part["tokens_per_second"]
        return whole

    def as_text(self) -> str:
        """Return the report as lines for people: the model's facts, then each chip."""
        shown = repr(self.prompt) if self.prompt is not None else "given as ids"
        lines = model_lines(self.source, self.model, self.graph, self.cuts, self.files, self.seconds["load"])
        count = len(self.tokens_prompt)
        lines += ["", f"text: {shown}, {count} token{'s' * (count != 1)}; one vector by `{self.pooling}`"]
        for chip in self.chips:
            lines += ["", *_chip(chip)]
        if self.warnings:
            lines += ["", *(f"warning: {warning}" for warning in self.warnings)]
        return "\n".join(lines)


def _chip(chip: EncoderChipReport) -> list[str]:
    head = f"{chip.chip}:{chip.tier}  {chip.status}"
    if chip.refusal is not None:
        remedy = [f"  {chip.refusal.remedy}"] if chip.refusal.remedy else []
        return [f"{head}  {chip.refusal.code}: {chip.refusal.what}", *remedy]
    return [
        f"{head} on {chip.mode}  {chip.tokens_per_second:.1f} tokens/s",
        f"  cosine with the reference {chip.cosine:.9f}, values off by {chip.error:.1e} of the greatest at most",
        f"  vectors sha256 {chip.vectors_sha256}",
    ]
