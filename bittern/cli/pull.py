"""`bittern pull`: fetch a model into the store; the last line on stdout is its path."""

from typing import Annotated

import typer

from bittern.cli.frame import open_store, print_json, progress
from bittern.runtime.pull import pull


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The model; `bittern models` lists them.")],
    accept: Annotated[
        str, typer.Option("--accept-licence", metavar="LICENCE", help="The licence that you have read and accept.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, and no progress.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> int:
    """Fetch a model into the store and print its path.

    pip says where it is, so index, proxy and certificates are pip's. A pull that was stopped continues where it was;
    one that was complete only checks what is there.
    """
    entry = pull(name, open_store(), accept=accept, progress=progress(as_json or quiet))
    if as_json:
        print_json(entry.as_json())
    else:
        print(entry.path)
    return 0
