"""`bittern summary`: a network -> its layers with shapes, bits, parameters, bytes and multiply-accumulates."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from bittern.cli.frame import print_json
from bittern.cli.options import AsJson


def command(
    network: Annotated[Path, typer.Argument(metavar="NETWORK", help="A .onnx, .tflite, .npz or .keg file.")],
    as_json: AsJson = False,
) -> int:
    """List the layers of a network: shapes, bits, parameters, bytes, multiply-accumulates.

    Bytes are those of the network's .keg file, in which codes of 1 to 7 bits are packed: their sum is its size.
    Multiply-accumulates are those of one sample, by the widths of weights and values.
    """
    from bittern.runtime.built import summary_of
    from bittern.runtime.networks import open_network

    told = summary_of(open_network(network))
    if as_json:
        print_json(told.as_json())
    elif sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        from rich.console import Console

        Console().print(told)
    else:
        print(told.text())
    return 0
