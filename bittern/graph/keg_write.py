"""The writer of `.keg` files: functions with all that they refer to, as the same bytes whenever they mean the same.

Rows stand in the order in which a walk from the roots, sorted by label, first needs them; so neither the order in which
a graph was built nor that of the arguments shows. `keg_format` states the layout.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeAlias

from bittern.base.errors import BitternError
from bittern.base.writing import replacing
from bittern.graph.keg_format import (
    ALIGN,
    MAGIC,
    MAX_INT,
    NOT_STORABLE,
    NOT_WRITTEN,
    PREAMBLE,
    VERSION,
    WRONG_BLOB,
    aligned,
)
from bittern.graph.keg_packing import pack, packed_size, packing
from bittern.graph.node import Attribute, Blob, Function, Labels, Node, functions_of
from bittern.graph.record import effects_of, ownership_of, policy_of
from bittern.types.dims import Atom, Dim
from bittern.types.elements import ELEMENTS, Element
from bittern.types.values import Tensor, Token, Tuple, Type

Plain: TypeAlias = bool | int | str | bytes | list["Plain"] | dict[str, "Plain"] | None


@dataclass(frozen=True, slots=True)
class ExternalBlob:
    """Where the bytes of a constant lie outside the `.keg`.

    file: a name for people. sha256: of that whole file, 32 bytes. offset, size: of the bytes in it.
    """

    file: str
    sha256: bytes
    offset: int
    size: int


def write_keg(
    path: Path | str,
    roots: Mapping[str, Function],
    external: Mapping[bytes, ExternalBlob] | None = None,
    notes: Mapping[str, str] | None = None,
) -> None:
    """Write functions by label, and all that they refer to, as one `.keg` file; the file appears whole or not at all.

    external: constants (by SHA-256) that stay in another file. notes: text for people.
    Errors: F222 the place cannot be written, F223 a number beyond 64 bits or an open element, F215 a constant whose
    bytes are not those of its digest any more.
    """
    header, inside = _header(roots, external or {}, notes or {})
    size = _size(header, inside)
    preamble = PREAMBLE.pack(MAGIC, VERSION, len(header), size, hashlib.sha256(header).digest())
    target = Path(path)
    if not target.name:
        raise BitternError(NOT_WRITTEN, f"`{target}` cannot be written: it is a folder.", "Choose another place.")
    try:
        with replacing(target, syncs=True) as file:
            _write_padded(file, preamble + header)
            for blob, packed in inside:
                data = _checked(blob)
                _write_padded(file, data if packed is None else pack(data, packed))
    except OSError as fault:
        raise BitternError(NOT_WRITTEN, f"`{target}` cannot be written: {fault}.", "Choose another place.") from fault


def keg_size(
    roots: Mapping[str, Function],
    external: Mapping[bytes, ExternalBlob] | None = None,
    notes: Mapping[str, str] | None = None,
) -> int:
    """Return how many bytes the file of `write_keg` has. Errors: F223."""
    return _size(*_header(roots, external or {}, notes or {}))


def stored_size(blob: Blob, elements: Iterable[Element]) -> int:
    """Return how many bytes of a file a constant takes. elements: of the nodes that hold it."""
    return _stored(blob, packing(elements, blob.size))


def _stored(blob: Blob, packed: str | None) -> int:
    return blob.size if packed is None else packed_size(blob.size, packed)


def _size(header: bytes, inside: "list[_Inside]") -> int:
    return aligned(PREAMBLE.size + len(header)) + sum(aligned(_stored(*each)) for each in inside)


def _write_padded(file: BinaryIO, data: memoryview | bytes) -> None:
    file.write(data)
    file.write(bytes(-len(data) % ALIGN))


def _checked(blob: Blob) -> memoryview:
    data = memoryview(blob.read()).cast("B")
    if len(data) != blob.size or hashlib.sha256(data).digest() != blob.digest:
        raise BitternError(
            WRONG_BLOB,
            f"A constant reads as {len(data)} bytes that are not the {blob.size} of {blob.digest.hex()[:16]}.",
            "The file in which it lies has changed: load it again.",
        )
    return data


_Inside: TypeAlias = tuple[Blob, str | None]  # a blob of the file, and by which element it is packed


def _header(
    roots: Mapping[str, Function], external: Mapping[bytes, ExternalBlob], notes: Mapping[str, str]
) -> tuple[bytes, list[_Inside]]:
    from cbor2 import dumps

    tables = _Tables()
    entries = list(_in_order([roots[label] for label in sorted(roots)]))
    blobs: dict[bytes, Blob] = {}
    elements: dict[bytes, set[Element]] = {}
    for holder, blob in _held(entries):
        blobs[blob.digest] = blob
        elements.setdefault(blob.digest, set()).update(holder)
    inside = [
        (blobs[digest], packing(elements[digest], blobs[digest].size))
        for digest in sorted(blobs)
        if digest not in external
    ]
    tables.blobs = {digest: place for place, digest in enumerate(sorted(blobs))}
    for place, entry in enumerate(entries):
        tables.entries[entry.id] = place
        tables.entry_rows.append(tables.node(entry) if isinstance(entry, Node) else tables.function(entry))
    labels, lines = _labels(roots, entries, tables.entries)
    plain: dict[str, Plain] = {
        "blobs": _blob_rows(blobs, inside, external),
        "dims": tables.dim_rows,
        "entries": tables.entry_rows,
        "labels": labels,
        "lines": lines,
        "notes": {name: _clean(notes[name]) for name in sorted(notes)},
        "roots": {_clean(label): tables.entries[roots[label].id] for label in sorted(roots)},
        "types": tables.type_rows,
    }
    return dumps(plain, canonical=True), inside


def _in_order(roots: Sequence[Function]) -> Iterator[Node | Function]:
    """Yield every node and function that the roots need, each once, before what refers to it."""
    seen: set[bytes] = set()
    stack: list[tuple[Node | Function, bool]] = [(root, False) for root in reversed(roots)]
    while stack:
        current, ready = stack.pop()
        if ready:
            yield current
        elif current.id not in seen:
            seen.add(current.id)
            stack.append((current, True))
            stack.extend((needed, False) for needed in reversed(_needs(current)) if needed.id not in seen)


def _needs(current: Node | Function) -> list[Node | Function]:
    if isinstance(current, Node):
        return [*current.inputs, *functions_of(current)]
    return [current.result] if current.ideal is None else [current.result, current.ideal]


def _held(entries: Sequence[Node | Function]) -> Iterator[tuple[list[Element], Blob]]:
    """Yield every blob of the entries, with the element of the constant that it is."""
    for entry in entries:
        if isinstance(entry, Node):
            known = [entry.type.element] if entry.kind == "const" and isinstance(entry.type, Tensor) else []
            for _, value in entry.attributes:
                for blob in _blobs_in(value):
                    yield known, blob


def _blobs_in(value: Attribute) -> Iterator[Blob]:
    if isinstance(value, Blob):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _blobs_in(item)


def _blob_rows(
    blobs: Mapping[bytes, Blob], inside: list[_Inside], external: Mapping[bytes, ExternalBlob]
) -> list[Plain]:
    offsets: dict[bytes, list[Plain]] = {}
    offset = 0
    for blob, packed in inside:
        offsets[blob.digest] = [offset] if packed is None else [offset, packed]
        offset += aligned(_stored(blob, packed))
    rows: list[Plain] = []
    for digest in sorted(blobs):
        if digest in offsets:
            rows.append([digest, blobs[digest].size, *offsets[digest]])
        else:
            place = external[digest]
            assert place.size == blobs[digest].size and len(place.sha256) == 32, (place, blobs[digest])
            rows.append([digest, place.size, place.offset, _clean(place.file), place.sha256])
    return rows


@dataclass(slots=True)
class _Tables:
    """Rows that were written, and the index of each."""

    dims: dict[Dim, int] = field(default_factory=dict)
    dim_rows: list[Plain] = field(default_factory=list)
    types: dict[Type, int] = field(default_factory=dict)
    type_rows: list[Plain] = field(default_factory=list)
    entries: dict[bytes, int] = field(default_factory=dict)
    entry_rows: list[Plain] = field(default_factory=list)
    blobs: dict[bytes, int] = field(default_factory=dict)

    def node(self, node: Node) -> Plain:
        """Return the record of a node (`keg_format.NODE`)."""
        return [
            "node",
            node.id,
            node.kind,
            [self.entries[i.id] for i in node.inputs],
            self.type(node.type),
            {name: self.attribute(value) for name, value in node.attributes},
            list(effects_of(node)),
            list(ownership_of(node)),
            policy_of(node),
        ]

    def function(self, function: Function) -> Plain:
        """Return the record of a function (`keg_format.FUNCTION`)."""
        return [
            "function",
            function.id,
            function.dims,
            [[self.type(p.type), p.mode] for p in function.params],
            self.entries[function.result.id],
            [[self.dim(top), self.dim(bottom)] for top, bottom in function.facts],
            list(function.effects),
            None if function.ideal is None else self.entries[function.ideal.id],
        ]

    def attribute(self, value: Attribute) -> Plain:
        """Return an attribute: plain values as they are, a tuple as a list, the rest as a map of one key."""
        match value:
            case bool() | str() | bytes():
                return value
            case int():
                return _number(value)
            case tuple():
                return [self.attribute(item) for item in value]
            case Dim():
                return {"dim": self.dim(value)}
            case Element():
                return {"element": _element(value)}
            case Tensor():
                return {"type": self.type(value)}
            case Blob():
                return {"blob": self.blobs[value.digest]}
            case Function():
                return {"function": self.entries[value.id]}
        raise AssertionError(value)

    def type(self, value: Type) -> int:
        """Return the row of a type."""
        if value not in self.types:
            row: Plain
            match value:
                case Tensor():
                    row = ["tensor", _element(value.element), [self.dim(size) for size in value.shape], value.space]
                case Tuple():
                    row = ["tuple", [self.type(item) for item in value.items]]
                case Token():
                    row = ["token", value.effect]
            self.types[value] = len(self.type_rows)
            self.type_rows.append(row)
        return self.types[value]

    def dim(self, value: Dim) -> int:
        """Return the row of a dimension."""
        if value not in self.dims:
            row: list[Plain] = [[_number(factor), [self.atom(a) for a in atoms]] for atoms, factor in value.terms]
            self.dims[value] = len(self.dim_rows)
            self.dim_rows.append(row)
        return self.dims[value]

    def atom(self, value: Atom) -> Plain:
        """Return an atom of a dimension: a symbol's position, or a division."""
        return value if isinstance(value, int) else [value.kind, self.dim(value.top), self.dim(value.bottom)]


def _number(value: int) -> int:
    if abs(value) > MAX_INT:
        raise BitternError(NOT_STORABLE, f"The graph holds the number {value}.", "Numbers of a graph have 64 bits.")
    return value


def _element(value: Element) -> str:
    if value.name not in ELEMENTS:
        raise BitternError(
            NOT_STORABLE, f"The graph holds the open element `{value.name}`.", "Write instances of generic functions."
        )
    return value.name


def _clean(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()


def _labels(
    roots: Mapping[str, Function], entries: Sequence[Node | Function], places: Mapping[bytes, int]
) -> tuple[list[Plain], list[Plain]]:
    """Return the rows of labels and the names of files in them.

    Equal functions may have been met under several names; a root's own labels win, then the fullest, then the smallest.
    """
    rooted = {function.id for function in roots.values()}
    found: dict[bytes, list[Labels]] = {}
    for function in roots.values():
        found.setdefault(function.id, []).append(function.labels)
    for entry in entries:
        inner = [*functions_of(entry)] if isinstance(entry, Node) else [entry.ideal] if entry.ideal else []
        for function in inner:
            if function.id not in rooted:
                found.setdefault(function.id, []).append(function.labels)
    rows = {places[key]: min((_label_row(one, places) for one in all_), key=_fullest) for key, all_ in found.items()}
    kept = {place: row for place, row in sorted(rows.items()) if any(row)}
    files = sorted({file for row in kept.values() for _, file, _ in row[4]})
    listed: list[Plain] = [
        [
            place,
            row[0],
            list(row[1]),
            list(row[2]),
            [[node, text] for node, text in row[3]],
            [[node, files.index(file), _number(line)] for node, file, line in row[4]],
        ]
        for place, row in kept.items()
    ]
    return listed, list(files)


_LabelRow: TypeAlias = tuple[
    str, tuple[str, ...], tuple[str, ...], tuple[tuple[int, str], ...], tuple[tuple[int, str, int], ...]
]


def _label_row(labels: Labels, places: Mapping[bytes, int]) -> _LabelRow:
    nodes = sorted((places[key], _clean(text)) for key, text in labels.nodes.items() if key in places)
    lines = sorted((places[key], _clean(file), line) for key, (file, line) in labels.lines.items() if key in places)
    dims, params = tuple(map(_clean, labels.dims)), tuple(map(_clean, labels.params))
    return _clean(labels.name), dims, params, tuple(nodes), tuple(lines)


def _fullest(row: _LabelRow) -> tuple[int, _LabelRow]:
    return -sum(len(part) for part in row), row
