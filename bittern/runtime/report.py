"""The report of a bring-up as readable text."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bittern.runtime.bringup import ChipReport, Report


def as_text(report: "Report") -> str:
    """Return a report as lines for people: the model's facts, then each chip."""
    model, source = report.model, report.source
    dims = model["dims"]
    formats = ", ".join(f"{count} {name}" for name, count in model["formats"].items())
    lines = [
        f"{model['name'] or model['family']}: family {model['family']}, {model['parameters'] / 1e6:.1f} M parameters",
        f"  file    {source['path']}, {source['size'] / 1e6:.1f} MB",
        f"  sha256  {source['sha256']} ({source['sha256_origin']})",
        f"  shape   {dims['layers']} layers, width {dims['d']}, {dims['g'] * dims['r']} query and {dims['g']} key heads "
        f"of {dims['h']}, {dims['ff']} hidden, {dims['vocab']} tokens",
        f"  tensors {model['tensors']}: {formats}; cache {model['cache']}",
        *(f"  binding {field}: {steps}" for field, steps in model["steps"].items()),
        f"  graph   {report.graph}",
        *(f"  cut     {cut['name']}: {cut['function']} {_dims(cut['dims'])} {cut['id'][:16]}" for cut in report.cuts),
        *(f"  {kind:<7} {path}" for kind, path in report.files.items()),
        f"  loaded in {report.timings['load']:.2f} s",
        "",
    ]
    shown = repr(report.prompt) if report.prompt is not None else "given as ids"
    lines.append(f"prompt: {shown}, {len(report.tokens_prompt)} tokens")
    for chip in report.chips:
        lines.append("")
        lines += _chip(chip)
    lines += [f"warning: {warning}" for warning in report.warnings]
    return "\n".join(lines)


def _dims(dims: dict[str, int]) -> str:
    return "[" + ", ".join(f"{name} = {value}" for name, value in dims.items()) + "]"


def _chip(chip: "ChipReport") -> list[str]:
    head = f"{chip.chip}:{chip.tier}  {chip.status}"
    if chip.refusal is not None:
        return [f"{head}  {chip.refusal.code}: {chip.refusal.what}", f"  remedy: {chip.refusal.remedy}"]
    speed = f"{chip.tokens_per_second:.1f} tokens/s" if chip.tokens_per_second else ""
    lines = [f"{head} on {chip.mode}  {speed}, {chip.agree} of {chip.of} tokens agree with the reference"]
    if chip.text is not None:
        lines.append(f"  {chip.text!r}")
    if chip.mismatch is not None:
        m = chip.mismatch
        lines.append(
            f"  leaves the reference at token {m.at}: its token is rank {m.rank} there, {m.logit_diff:.4f} below the first "
            f"(margin {m.margin:.4f}, logits off by {m.error:.4f})"
        )
        lines.append(f"  fed the reference's tokens it agrees on {chip.forced} of {chip.of}")
    lines.append(f"  logits sha256 {chip.logits_sha256}")
    return lines
