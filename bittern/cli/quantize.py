"""`bittern quantize`: a float ONNX model, or a GGUF model, with fewer bits, and what that costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json, progress
from bittern.cli.options import PIXELS, AsJson, Quiet, array_of, folder, option, real, whole, word

if TYPE_CHECKING:
    from bittern.base.progress import Progress
    from bittern.front.quantise.onnx.settings import Settings
    from bittern.front.quantise.report import Report

_METHODS = ("max", "percentile", "mse", "kl")
_ROUNDINGS = ("rtn", "gptq", "adaround")
_ACTIVATIONS = ("none", "b1", "t", "2", "3", "4", "8")
_FORMS = ("qdq", "qonnx")

Source = Annotated[str, typer.Argument(metavar="IN", help="An ONNX model of floats, a GGUF model, or a pulled one.")]
Target = Annotated[Path, option("-o", "--out", metavar="OUT", parser=folder("-o"), help="The file to write.")]
Wide = Annotated[
    str, option("--width", metavar="W", help="Of weights: b1, t, 2, 3, 4, 8; for GGUF also a format, such as q4_0.")
]
Activations = Annotated[
    str,
    option("--activations", metavar="W", parser=word("--activations", _ACTIVATIONS), help="ONNX: none, or a width."),
]
Data = Annotated[
    str, option("--data", metavar="FILE[:NAME]", help="ONNX: samples to calibrate on, a .npy, .npz or IDX file.")
]
Labels = Annotated[
    str, option("--labels", metavar="FILE[:NAME]", help="ONNX: a label for each sample, to measure accuracy.")
]
Samples = Annotated[
    int, option("--samples", metavar="N", parser=whole("--samples", 1), help="ONNX: how many samples to calibrate on.")
]
Pixels = Annotated[
    str,
    option(
        "--pixels",
        metavar="RANGE",
        parser=word("--pixels", PIXELS),
        help="ONNX: what bytes become: raw (0 to 255), unit (0 to 1), signed (-1 to 1); auto is unit.",
    ),
]
Method = Annotated[
    str,
    option("--method", metavar="HOW", parser=word("--method", _METHODS), help="Scales: max, percentile, mse or kl."),
]
Percentile = Annotated[
    float,
    option(
        "--percentile", metavar="P", parser=real("--percentile", 50, 100), help="What the method of this name keeps."
    ),
]
Granularity = Annotated[
    str, option("--granularity", metavar="HOW", help="ONNX: a scale by tensor, channel, or group of N weights.")
]
Rounding = Annotated[
    str, option("--weights", metavar="HOW", parser=word("--weights", _ROUNDINGS), help="ONNX: rtn, gptq or adaround.")
]
Asymmetric = Annotated[bool, option("--asymmetric", help="ONNX: weights get zero points.")]
Signed = Annotated[bool, option("--signed", help="ONNX: activations get no zero point.")]
Dynamic = Annotated[bool, option("--dynamic", help="ONNX: scales of activations are found as the network runs.")]
Form = Annotated[str, option("--form", metavar="NAME", help="ONNX: qdq or qonnx; else qdq where it has the widths.")]
Importance = Annotated[
    Path | None,
    option("--importance", metavar="FILE", parser=folder("--importance"), help="GGUF: an importance matrix."),
]
Keep = Annotated[
    list[str] | None, option("--keep", metavar="NAME", help="A layer or tensor, or part of it, that stays.")
]


def command(
    source: Source,
    out: Target,
    width: Wide,
    activations: Activations = "8",
    data: Data = "",
    labels: Labels = "",
    samples: Samples = 256,
    pixels: Pixels = "auto",
    method: Method = "max",
    percentile: Percentile = 99.99,
    granularity: Granularity = "channel",
    weights: Rounding = "rtn",
    asymmetric: Asymmetric = False,
    signed: Signed = False,
    dynamic: Dynamic = False,
    form: Form = "",
    importance: Importance = None,
    keep: Keep = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Give an ONNX or GGUF model fewer bits, and say what that costs.

    The same input gives the same bytes on every machine.
    """
    from bittern.front.quantise.onnx.settings import Settings
    from bittern.front.quantise.report import report_text

    path = model_path(source, open_store())
    form = word("--form", ("", *_FORMS))(form)
    settings = Settings(
        width, activations, method, percentile, granularity, weights, asymmetric, signed, dynamic, form, samples,
        pixels, tuple(keep or ()),
    )  # fmt: skip
    reporter = progress(quiet or as_json)
    if _is_gguf(path):
        _need_defaults(settings, data or labels)
        report = _of_gguf(path, out, settings, importance, reporter)
    elif importance is not None:
        raise BitternError(BAD_ARGUMENTS, "--importance is for GGUF models.", "An ONNX model takes --data.")
    else:
        report = _of_onnx(path, out, settings, data, labels, reporter)
    if as_json:
        print_json(report.as_json())
    else:
        print(report_text(report))
    return 0


def _need_defaults(settings: "Settings", data: str) -> None:
    """Refuse options that a GGUF model does not take. Errors: U111."""
    from dataclasses import fields

    taken = ("width", "method", "keep")
    changed = [
        each.name
        for each in fields(settings)
        if each.name not in taken and getattr(settings, each.name) != each.default
    ]
    words = {"rounding": "weights"}
    named = [f"--{words.get(name, name)}" for name in changed] + ["--data and --labels"] * bool(data)
    if named:
        what = f"{', '.join(named)} {'is' if len(named) == 1 and not data else 'are'} for ONNX models."
        raise BitternError(BAD_ARGUMENTS, what, "A GGUF model takes --width, --method, --keep and --importance.")


def _of_gguf(path: Path, out: Path, settings: "Settings", importance: Path | None, reporter: "Progress") -> "Report":
    from bittern.front.quantise.gguf.file import METHODS, quantise_gguf

    method = word("--method", METHODS)(settings.method)
    return quantise_gguf(path, out, settings.width, reporter, method, importance, settings.keep)


def _of_onnx(path: Path, out: Path, settings: "Settings", data: str, labels: str, reporter: "Progress") -> "Report":
    from bittern.front.quantise.onnx.file import quantise_onnx

    samples, answers = (array_of(given) if given else None for given in (data, labels))
    return quantise_onnx(path, out, settings, samples, answers, reporter)


def _is_gguf(path: Path) -> bool:
    """Whether a file is a GGUF model, by its first letters. A folder is none that can be quantised. Errors: U111."""
    if path.is_dir():
        what = f"{path} is a folder."
        raise BitternError(BAD_ARGUMENTS, what, "Give an ONNX or GGUF file; other models are converted to one first.")
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"GGUF"
    except OSError:
        return False  # the reader says what is wrong
