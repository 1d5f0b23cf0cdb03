"""`bittern export`: a network in another form, such as a program that needs nothing else."""

from pathlib import Path
from typing import Annotated

import typer

from bittern.cli.frame import print_json
from bittern.cli.options import AsJson, TierName, option


def command(
    network: Annotated[Path, typer.Argument(metavar="NETWORK", help="A .onnx, .tflite, .npz or .keg file.")],
    out: Annotated[Path, option("-o", "--out", metavar="FILE", help="What is written.")],
    to: Annotated[
        str, option("--to", metavar="FORM", help="The form; else by FILE's ending, and a program if it has none.")
    ] = "",
    tier: TierName = "",
    as_json: AsJson = False,
) -> int:
    """Write a network in another form, such as a program of its own."""
    from bittern.runtime.exports import FORMS, export
    from bittern.runtime.networks import open_network

    ending = out.suffix.lower()
    form = to or next((name for name, row in FORMS.items() if row.suffix == ending), ending.lstrip(".") or "elf")
    opened = open_network(network)
    size = export(opened, out, form, {"tier": tier})
    if as_json:
        print_json({"network": opened.name, "form": form, "file": str(out), "bytes": size})
    else:
        print(f"{out}: {FORMS[form].what}, {size:,} bytes")
    return 0
