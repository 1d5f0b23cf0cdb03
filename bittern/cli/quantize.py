"""`bittern quantize`: a float ONNX model, or a GGUF model, with fewer bits, and what that costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, model_path, open_store, print_json, progress
from bittern.cli.options import AsJson, Quiet, folder, option, real, whole, word

if TYPE_CHECKING:
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
    Path | None, option("--data", metavar="FILE", parser=folder("--data"), help="ONNX: samples, as IDX, npy or npz.")
]
Labels = Annotated[
    Path | None, option("--labels", metavar="FILE", parser=folder("--labels"), help="ONNX: a label for each sample.")
]
Samples = Annotated[
    int, option("--samples", metavar="N", parser=whole("--samples", 1), help="ONNX: how many samples to calibrate on.")
]
Factor = Annotated[
    float, option("--factor", metavar="X", parser=real("--factor", -1e30, 1e30), help="ONNX: samples are times this.")
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
    data: Data = None,
    labels: Labels = None,
    samples: Samples = 256,
    factor: Factor = 1.0,
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
    """Give a float ONNX model, or a GGUF model, fewer bits, and say what that costs.

    The same input gives the same bytes on every machine.
    """
    from bittern.front.quantise.report import report_text

    path = model_path(source, open_store())
    reporter = progress(quiet or as_json)
    if _is_gguf(path):
        for name, given in (("--data", data), ("--labels", labels)):
            if given is not None:
                raise BitternError(BAD_ARGUMENTS, f"{name} is for ONNX models.", "A GGUF model takes --importance.")
        from bittern.front.quantise.gguf.file import quantise_gguf

        report = quantise_gguf(
            path, out, width, reporter, word("--method", ("max", "mse"))(method), importance, keep or ()
        )
    else:
        if importance is not None:
            raise BitternError(BAD_ARGUMENTS, "--importance is for GGUF models.", "An ONNX model takes --data.")
        from bittern.front.quantise.onnx.file import Settings, quantise_onnx

        kept = tuple(keep or ())
        form = word("--form", ("", *_FORMS))(form)
        settings = Settings(
            width, activations, method, percentile, granularity, weights, asymmetric, signed, dynamic, form, samples,
            factor, kept,
        )  # fmt: skip
        report = quantise_onnx(path, out, settings, data, labels, reporter)
    _print(report, as_json, report_text(report))
    return 0


def _print(report: "Report", as_json: bool, text: str) -> None:
    if as_json:
        print_json(report.as_json())
    else:
        print(text)


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
