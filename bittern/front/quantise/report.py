"""What a quantisation did, tensor by tensor: sizes, signal-to-noise ratios, and accuracy where there are labels."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TensorReport:
    """One tensor. was, became: elements or formats. sqnr: in decibels, None where nothing was lost. note: or ""."""

    name: str
    shape: tuple[int, ...]
    was: str
    became: str
    bytes_before: int
    bytes_after: int
    sqnr: float | None = None
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the row as an object."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "was": self.was,
            "became": self.became,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "sqnr_db": None if self.sqnr is None else round(self.sqnr, 2),
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Score:
    """How many of `count` labelled inputs a network gets right. of: which network, such as `float`."""

    of: str
    right: int
    count: int

    @property
    def percent(self) -> float:
        """The share in percent."""
        return 100 * self.right / self.count


@dataclass(frozen=True, slots=True)
class Report:
    """The whole quantisation. bytes: of the files. sha256: of the file written. settings: what was asked for."""

    source: str
    target: str
    settings: dict[str, Any]
    bytes_before: int
    bytes_after: int
    sha256: str
    tensors: tuple[TensorReport, ...]
    layers: tuple[tuple[str, float | None], ...] = ()
    scores: tuple[Score, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def as_json(self) -> dict[str, Any]:
        """Return the report as an object."""
        return {
            "source": self.source,
            "target": self.target,
            "settings": self.settings,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "sha256": self.sha256,
            "tensors": [row.as_json() for row in self.tensors],
            "layers": [{"name": name, "sqnr_db": None if of is None else round(of, 2)} for name, of in self.layers],
            "accuracy": [
                {"of": score.of, "right": score.right, "count": score.count, "percent": round(score.percent, 4)}
                for score in self.scores
            ],
            "notes": list(self.notes),
        }


def report_text(report: Report) -> str:
    """Return the report for people: a line for each tensor that changed, then layers, accuracy, notes and sizes."""
    changed = [row for row in report.tensors if row.was != row.became or row.note]
    names = [*(row.name for row in changed), *(name for name, _ in report.layers)]
    width = max(map(len, names), default=0)
    lines = [
        f"{row.name:{width}}  {row.was} -> {row.became}  {row.bytes_before} -> {row.bytes_after} bytes  "
        f"{_decibels(row.sqnr)}{'  (' + row.note + ')' if row.note else ''}"
        for row in changed
    ]
    if report.layers:
        lines += ["", "outputs of layers, against float:"]
        lines += [f"{name:{width}}  {_decibels(of)}" for name, of in report.layers]
    if report.scores:
        lines.append("")
        lines += [f"{one.of}: {one.percent:.2f} % ({one.right} of {one.count})" for one in report.scores]
    lines += ["", *report.notes] if report.notes else []
    lines += ["", f"{report.target}: {report.bytes_before} -> {report.bytes_after} bytes, sha256 {report.sha256}"]
    return "\n".join(lines)


def _decibels(value: float | None) -> str:
    return "exact" if value is None else f"{value:.1f} dB"
