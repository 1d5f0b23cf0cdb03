"""Records: what a run gave inside, kept to be compared with later ones.

A `.json` holds the digest of each value alone; any other name is a `.npz` with the values and inputs as well, of the
first samples. A record is read as data that anybody may have written: nothing in it runs, digests are checked.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.base.writing import write_whole
from bittern.runtime.diff_sides import Run
from bittern.runtime.observed import Array, Point

BAD_RECORD = code("N446", "the record of a run is damaged")
OTHER_DATA = code("N447", "the record is of other data")

SAMPLES = 16  # that a record holds at most
VERSION = 1
_KEY = "bittern_record"


@dataclass(frozen=True, slots=True)
class Row:
    """One value of a record. label, id, kind: of the node. digest: SHA-256 of element, shape and bytes."""

    label: str
    id: str
    kind: str
    digest: str
    value: Array | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record. about: network, graph, chip, tier. inputs: None where it holds digests alone."""

    name: str
    about: Mapping[str, str]
    samples: int
    input_digests: tuple[str, ...]
    inputs: tuple[Array, ...] | None
    rows: tuple[Row, ...]
    results: Mapping[str, Row]

    def check_data(self, inputs: Sequence[Array]) -> None:
        """Raise N447 where these are not the inputs of the record."""
        if tuple(map(digest, inputs)) != self.input_digests:
            raise BitternError(
                OTHER_DATA,
                f"`{self.name}` was recorded from other data: {self.samples} samples of another digest.",
                "Give the data of that run (and its `-n`), or leave --data out where the record holds the inputs.",
            )


def digest(value: Array) -> str:
    """Return what tells an array from others: SHA-256 of its type, shape and bytes."""
    head = f"{value.dtype.str}{list(value.shape)}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(value).tobytes()).hexdigest()


def record_of(run: Run, inputs: Sequence[Array]) -> Record:
    """Return the record of a run: its outputs, and the values of its labelled nodes (of all, if none has a label)."""
    given = [each[:SAMPLES] for each in inputs]
    seen = [each for each in run.points if each.label] or list(run.points)
    values = run.values(seen, given)
    rows = [_row(each.label, each.node.id.hex(), each.node.kind, values[each.node.id]) for each in seen]
    results = {name: _row(name, "", "output", value) for name, value in run.outputs(given).items()}
    about = {"network": run.network.name, "graph": run.function.id.hex(), "chip": run.chip, "tier": run.tier}
    return Record(
        "", about, len(given[0]), tuple(map(digest, given)), tuple(map(np.asarray, given)), tuple(rows), results
    )


def _row(label: str, key: str, kind: str, value: Array) -> Row:
    return Row(label, key, kind, digest(value), value)


def write_record(record: Record, path: Path) -> None:
    """Write a record; the file appears whole or not at all. Raises N465."""
    held = [record.rows, list(record.results.values())]
    told = {
        _KEY: VERSION,
        "about": dict(record.about),
        "samples": record.samples,
        "inputs": list(record.input_digests),
        "rows": [[row.label, row.id, row.kind, row.digest] for row in held[0]],
        "outputs": [[row.label, row.digest] for row in held[1]],
    }
    text = json.dumps(told, sort_keys=True, ensure_ascii=True)
    arrays = {f"input_{i}": each for i, each in enumerate(record.inputs or ())}
    arrays |= {f"row_{i}": row.value for i, row in enumerate(held[0]) if row.value is not None}
    arrays |= {f"output_{i}": row.value for i, row in enumerate(held[1]) if row.value is not None}

    def write(file: BinaryIO) -> None:
        if path.suffix == ".json":
            file.write(text.encode())
        else:
            np.savez_compressed(file, **{_KEY: np.frombuffer(text.encode(), np.uint8)}, **arrays)  # type: ignore[arg-type]

    write_whole(path, write)


def is_record(path: Path) -> bool:
    """Whether a file says that it is a record."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(1 << 16)
    if path.suffix == ".json":
        return _KEY.encode() in start
    return start.startswith(b"PK") and _KEY.encode() in start[:64]


def read_record(path: Path) -> Record:
    """Return the record of a file. Raises N446."""
    try:
        if path.suffix == ".json":
            return _record(path.name, json.loads(path.read_bytes()), None)
        with np.load(path, allow_pickle=False) as held:
            told = json.loads(held[_KEY].tobytes())
            return _record(path.name, told, held)
    except BitternError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, BadZipFile) as fault:
        raise _damaged(path.name, str(fault)) from fault


def _record(name: str, told: Any, held: Any) -> Record:
    if told[_KEY] != VERSION:
        raise ValueError(f"its version is {told[_KEY]}, known is {VERSION}")
    rows = tuple(
        _read_row(str(label), str(key), str(kind), str(found), held, f"row_{i}")
        for i, (label, key, kind, found) in enumerate(told["rows"])
    )
    results = {
        str(label): _read_row(str(label), "", "output", str(found), held, f"output_{i}")
        for i, (label, found) in enumerate(told["outputs"])
    }
    digests = tuple(str(each) for each in told["inputs"])
    inputs = None if held is None else tuple(held[f"input_{i}"] for i in range(len(digests)))
    if inputs is not None and tuple(map(digest, inputs)) != digests:
        raise ValueError("its inputs do not have their digests")
    about = {str(key): str(value) for key, value in told["about"].items()}
    return Record(name, about, int(told["samples"]), digests, inputs, rows, results)


def _read_row(label: str, key: str, kind: str, found: str, held: Any, member: str) -> Row:
    value = held[member] if held is not None and member in held else None
    if value is not None and digest(value) != found:
        raise ValueError(f"the value `{label or key}` does not have its digest")
    return Row(label, key, kind, found, value)


def _damaged(name: str, why: str) -> BitternError:
    return BitternError(BAD_RECORD, f"`{name}` is no whole record: {why or 'it ends too early'}.", "Record it again.")


def points_of(record: Record, others: Sequence[Point]) -> dict[bytes, Row]:
    """Return the rows of a record that stand for points of a graph, by the id of the node: by label, else by id."""
    labels = {row.label: row for row in record.rows if row.label}
    keys = {row.id: row for row in record.rows}
    found = {}
    for each in others:
        row = labels.get(each.label) if each.label else keys.get(each.node.id.hex())
        if row is not None:
            found[each.node.id] = row
    return found
