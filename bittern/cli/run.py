"""`bittern run`: a network and data -> what it answers, and how often that is right."""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from bittern.base.errors import BitternError
from bittern.cli.frame import BAD_ARGUMENTS, open_store, print_json, progress
from bittern.cli.options import AsJson, ChipName, Pixels, Quiet, Threads, TierName, array_of, option, whole

if TYPE_CHECKING:
    from bittern.base.progress import Task
    from bittern.front.network.network import Network
    from bittern.runtime.network import NetworkModel
    from bittern.runtime.networks import Array

_SHOWN = 10  # samples that are told one by one
_BATCH = 256


def command(
    network: Annotated[Path, typer.Argument(metavar="NETWORK", help="A .onnx, .tflite, .npz or .keg file.")],
    data: Annotated[
        list[str],
        option("--data", metavar="FILE[:NAME]", help="A .npy, .npz or IDX file; one for each input, in order."),
    ],
    labels: Annotated[str, option("--labels", metavar="FILE[:NAME]", help="The right answers, to count hits.")] = "",
    out: Annotated[Path | None, option("--out", metavar="FILE", help="Where all outputs go: .npy, or .npz.")] = None,
    pixels: Pixels = "auto",
    count: Annotated[
        int | None, option("-n", "--count", metavar="N", parser=whole("-n", 1), help="Run the first N samples only.")
    ] = None,
    chip: ChipName = "auto",
    tier: TierName = "",
    threads: Threads = None,
    no_fuse: Annotated[bool, option("--no-fuse", help="Run every layer by itself; the outputs are the same.")] = False,
    monitor: Annotated[
        bool, option("--monitor", help="Watch the values inside: saturation, dead channels, flips, sums.")
    ] = False,
    record: Annotated[
        Path | None,
        option("--record", metavar="FILE", help="Keep the values inside for `bittern diff`: .npz, or .json (digests)."),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> int:
    """Run a network on data: its answers, and how many are right."""
    from bittern.runtime.network import NetworkModel
    from bittern.runtime.networks import fitted, open_network

    opened = open_network(network)
    if len(data) != len(opened.inputs):
        names = ", ".join(f"`{port.name}`" for port in opened.inputs)
        raise BitternError(
            BAD_ARGUMENTS, f"--data is given {len(data)} times.", f"The network takes {names}: give one for each."
        )
    batches = [fitted(array_of(each), port, pixels)[:count] for each, port in zip(data, opened.inputs, strict=True)]
    wanted = _answers(labels, count, len(batches[0]))
    shown = progress(quiet or as_json)
    model = NetworkModel(opened, chip, threads or 0, tier, open_store().root, not no_fuse, shown)
    started = perf_counter()
    with shown.task("running", len(batches[0]), "samples") as task:
        outputs = _joined([_some(model, batches, low, task) for low in range(0, len(batches[0]), _BATCH)])
    seconds = perf_counter() - started
    if out is not None:
        _write(out, outputs)
    told: dict[str, Any] = {"network": opened.name, "source": opened.source, "graph": opened.function.id.hex()}
    told |= {"chip": model.chip.name, "tier": model.chip.tier, "samples": len(batches[0]), "seconds": seconds}
    if record is not None:
        _record(model, batches, record, not no_fuse)
    watched = model.monitor(*batches) if monitor else None
    if watched is not None and as_json:
        told["monitor"] = watched.as_json()
    status = _tell(opened, outputs, wanted, told, as_json)
    if watched is not None and not as_json:
        print(f"\n{watched}")
    return status


def _answers(labels: str, count: int | None, samples: int) -> "Array | None":
    """Return the right answers, one for each sample, or None. Errors: U111, and those of reading data."""
    if not labels:
        return None
    wanted = array_of(labels).reshape(-1)[:count]
    if len(wanted) != samples:
        raise BitternError(
            BAD_ARGUMENTS, f"There are {len(wanted)} labels for {samples} samples.", "Give one for each."
        )
    return wanted


def _some(model: "NetworkModel", batches: "list[Array]", low: int, task: "Task") -> "dict[str, Array]":
    """Run a part of the data; return its outputs by name."""
    here = [each[low : low + _BATCH] for each in batches]
    found = model.run(*here)
    task.advance(len(here[0]))
    return found if isinstance(found, dict) else {model.network.outputs[0].name: found}


def _record(model: "NetworkModel", batches: "list[Array]", path: Path, fuse: bool) -> None:
    from bittern.runtime.diff_record import record_of, write_record
    from bittern.runtime.diff_sides import run_of

    write_record(record_of(run_of(model, fuse=fuse), batches), path)


def _joined(parts: "list[dict[str, Array]]") -> "dict[str, Array]":
    import numpy as np

    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _write(out: Path, outputs: "dict[str, Array]") -> None:
    """Write the outputs; the file appears whole or not at all. Errors: N465."""
    from bittern.base.writing import write_whole

    write_whole(out, lambda file: _save(file, outputs, is_many=out.suffix == ".npz" or len(outputs) > 1))


def _save(file: BinaryIO, outputs: "dict[str, Array]", *, is_many: bool) -> None:
    """Write one array, or several by their names, which may be any text."""
    from zipfile import ZipFile, ZipInfo

    import numpy as np

    if not is_many:
        np.save(file, next(iter(outputs.values())))
        return
    with ZipFile(file, "w") as held:  # `numpy.savez` takes no array called `file`
        for name, array in outputs.items():
            with held.open(ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _tell(
    opened: "Network", outputs: "dict[str, Array]", labels: "Array | None", told: dict[str, Any], as_json: bool
) -> int:
    """Print what came out. Scores [b, classes] are answered by the largest, at the lowest place."""
    first = next(iter(outputs.values()))
    scores = first.reshape(len(first), -1)
    answers = scores[:, 0].astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
    if labels is not None:
        hits = int((answers == labels).sum())
        told |= {"right": hits, "accuracy": hits / len(labels)}
    if as_json:
        rows = {name: value.tolist() for name, value in outputs.items()}
        print_json({**told, "answers": answers.tolist(), "outputs": rows})
        return 0
    for number, (answer, row) in enumerate(zip(answers[:_SHOWN], scores[:_SHOWN], strict=True)):
        values = " ".join(f"{value:.6g}" for value in row[:_SHOWN]) + (" ..." if len(row) > _SHOWN else "")
        print(f"{number:5}  {answer:5}  {values}")
    if len(answers) > _SHOWN:
        print(f"  ...  {len(answers) - _SHOWN} more; --json and --out have all")
    rate = told["samples"] / told["seconds"] if told["seconds"] else 0.0
    print(f"{told['samples']} samples on {told['chip']}:{told['tier']}, {rate:,.0f} a second, compiling included")
    if labels is not None:
        print(f"{told['right']} right of {len(labels)}: {100 * told['accuracy']:.2f} %")
    return 0
