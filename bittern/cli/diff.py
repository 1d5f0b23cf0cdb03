"""`bittern diff`: where two runs of a network part, and what kind of mistake that is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, open_store, print_json
from bittern.cli.options import AsJson, Pixels, array_of, option, whole, words

if TYPE_CHECKING:
    from bittern.runtime.diff_record import Record
    from bittern.runtime.diff_sides import Side, Spelling
    from bittern.runtime.networks import Array

_SAMPLES = 4

LEFT = (
    "NETWORK@WORDS: a chip, tier, `source` or `passed`, `fused` or `unfused`; or `onnxruntime`, `tflite`; or a record."
)


def command(
    left: Annotated[str, typer.Argument(metavar="A", help=LEFT)],
    right: Annotated[str, typer.Argument(metavar="B", help="Another one; `@WORDS` alone is of the same network.")],
    data: Annotated[
        list[str] | None,
        option("--data", metavar="FILE[:NAME]", help="A .npy, .npz or IDX file; one for each input, in order."),
    ] = None,
    pixels: Pixels = "auto",
    count: Annotated[
        int | None, option("-n", "--count", metavar="N", parser=whole("-n", 1), help="Compare the first N samples.")
    ] = None,
    ignore: Annotated[
        str, option("--ignore", metavar="CLASSES", help="Differences to pass over, such as order,sign of zero.")
    ] = "",
    as_json: AsJson = False,
) -> int:
    """Show where two runs of a network part: chips, levels, ONNX Runtime, TFLite, a record."""
    from bittern.runtime.diff_text import comparison_text

    made = _compared(left, right, data or [], pixels, count, _classes(ignore))
    if as_json:
        print_json(made.as_json())
    else:
        print(comparison_text(made))
    return 0 if made.is_equal else 1


def _classes(given: str) -> tuple[str, ...]:
    """Return the classes to pass over. Errors: U111."""
    from bittern.base.errors import nearest
    from bittern.runtime.diff_classes import CLASSES

    known = sorted({name for name, _ in CLASSES})
    for each in words(given):
        if each not in known:
            raise BitternError(BAD_ARGUMENTS, f"--ignore does not know `{each}`.", nearest(each, known))
    return words(given)


def _compared(left: str, right: str, data: list[str], pixels: str, count: int | None, passing: tuple[str, ...]) -> Any:
    """Return the comparison. Errors: N443 to N448, those of reading networks and data, U111."""
    from bittern.runtime.diff import compared, compared_with_record
    from bittern.runtime.diff_record import Record
    from bittern.runtime.diff_sides import spelled

    spellings = [spelled(left), spelled(right)]
    paths = [each.path for each in spellings]
    if not any(paths):
        raise BitternError(BAD_ARGUMENTS, "Neither side names a network.", "Write A as NETWORK@WORDS.")
    sides = [
        _side(spelling, path or other) for spelling, path, other in zip(spellings, paths, paths[::-1], strict=True)
    ]
    one, other = sides
    records = [each for each in sides if isinstance(each, Record)]
    runs = [each for each in sides if not isinstance(each, Record)]
    if not runs:
        raise BitternError(BAD_ARGUMENTS, "Both sides are records.", "Give a network as one of them.")
    inputs = _inputs(runs, records[0] if records else None, data, pixels, count)
    if records:
        return compared_with_record(runs[0], records[0], inputs, is_left=isinstance(one, Record))
    assert not isinstance(one, Record) and not isinstance(other, Record)
    return compared(one, other, inputs, passing)


def _side(spelling: "Spelling", path: str) -> "Side | Record":
    from bittern.lang.library import Library
    from bittern.runtime.diff_record import is_record, read_record
    from bittern.runtime.diff_sides import run_side
    from bittern.runtime.networks import open_network

    if not spelling.words and is_record(Path(path)):
        return read_record(Path(path))
    if spelling.peer:
        from bittern.runtime.diff_peers import peer_side

        return peer_side(spelling, Path(path), Library.standard())
    return run_side(spelling, open_network(path), open_store().root)


def _inputs(
    runs: "list[Side]", record: "Record | None", data: list[str], pixels: str, count: int | None
) -> "list[Array]":
    """Return the data as batches of the network's inputs: those of the record, where none are given."""
    from bittern.runtime.network import checked
    from bittern.runtime.networks import fitted

    network = runs[0].network
    if not data and record is not None and record.inputs is not None:
        return list(record.inputs)
    if len(data) != len(network.inputs):
        names = ", ".join(f"`{port.name}`" for port in network.inputs)
        raise BitternError(
            BAD_ARGUMENTS, f"--data is given {len(data)} times.", f"The network takes {names}: give one for each."
        )
    rows = count or (record.samples if record is not None else _SAMPLES)
    arrays = [array_of(each) for each in data]
    batches = [fitted(each, port, pixels)[:rows] for each, port in zip(arrays, network.inputs, strict=True)]
    return checked(batches, network.inputs)
