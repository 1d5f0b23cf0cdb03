"""The tables of a `.keg` header, turned back into dimensions, types, nodes and functions, each row checked.

What comes in are plain values of canonical CBOR that nobody vouches for. Sizes are counted before anything is built
from a row, so that a small file cannot stand for a large computation.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, TypeVar

from bittern.graph import keg_format as form
from bittern.graph.keg_blobs import Blobs, with_values
from bittern.graph.node import Attribute, Blob, Function, Labels, Node, Parameter, node
from bittern.graph.record import POLICIES, effects_of, ownership_of, policy_of
from bittern.types.dims import Atom, Dim, Monomial, Ratio
from bittern.types.elements import ELEMENTS
from bittern.types.values import EFFECTS, SPACES, Tensor, Token, Tuple, Type

Row = TypeVar("Row")


@dataclass(slots=True)
class Tables:
    """The rows of one header. plain: its map. budget: how many parts all records together may have, counted out."""

    plain: Mapping[str, Any]
    blobs: Blobs
    budget: int
    dims: list[Dim] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    entries: list[Node | Function] = field(default_factory=list)
    places: dict[bytes, int] = field(default_factory=dict)
    callees: list[Function] = field(default_factory=list)
    _labels: dict[int, Labels] = field(default_factory=dict)
    _sizes: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: {"dims": [], "types": []})  # weight, depth
    _used: dict[str, set[int]] = field(
        default_factory=lambda: {t: set() for t in ("blobs", "dims", "entries", "types")}
    )

    def load(self) -> None:
        """Build all rows. Errors: F207 to F213, F217, F218, F220, F224."""
        for table in ("dims", "types", "entries"):
            if type(self.plain[table]) is not list:
                _wrong(f"`{table}` is no list")
        for place, row in enumerate(self.plain["dims"]):
            self.dims.append(self._dim(place, row))
        for place, row in enumerate(self.plain["types"]):
            self.types.append(self._type(place, row))
        for name, rows in (("dims", self.dims), ("types", self.types)):
            if len({*rows}) != len(rows):
                raise form.fault(form.DUPLICATE, f"a row of `{name}` stands there twice")
        self._load_labels()
        for place, row in enumerate(self.plain["entries"]):
            entry = self._entry(place, row)
            if self.places.setdefault(entry.id, place) != place:
                raise form.fault(form.DUPLICATE, f"entry {place} is entry {self.places[entry.id]} again")
            self.entries.append(entry)

    def roots(self) -> dict[str, Function]:
        """Return the functions by label, after the last reference has been seen. Errors: F209, F210, F218."""
        roots = self.plain["roots"]
        if type(roots) is not dict:
            _wrong("`roots` is no map")
        functions = {}
        for label, index in roots.items():
            function = self._row("entries", self.entries, index, f"root {label!r}")
            if type(label) is not str or not isinstance(function, Function):
                _wrong(f"root {label!r} is no function under a name")
            functions[label] = function
        for table, rows in (("dims", self.dims), ("types", self.types), ("blobs", self.blobs.rows)):
            self._expect_used(table, len(rows))
        self._expect_used("entries", len(self.entries))
        return functions

    def notes(self) -> dict[str, str]:
        """Return the notes. Errors: F209."""
        notes = self.plain["notes"]
        if type(notes) is not dict or not all(type(k) is str and type(v) is str for k, v in notes.items()):
            _wrong("`notes` is no map of texts")
        return dict(notes)

    def _expect_used(self, table: str, count: int) -> None:
        if len(self._used[table]) != count:
            place = min({*range(count)} - self._used[table])
            raise form.fault(form.UNUSED, f"nothing refers to row {place} of `{table}`")

    def _row(self, table: str, rows: list[Row], index: object, where: str) -> Row:
        """Return an earlier row of a table, and note that it is used. where: the record that refers to it."""
        if type(index) is not int or index < 0:
            _wrong(f"{where} refers to {index!r} of `{table}`")
        if index >= len(rows):
            later = table != "blobs" and index < len(self.plain[table])
            what = "a later or its own" if later else "no"
            raise form.fault(
                form.FORWARD if later else form.NO_SUCH_ROW, f"{where} refers to {what} row {index} of `{table}`"
            )
        self._used[table].add(index)
        return rows[index]

    # --- dimensions and types

    def _dim(self, place: int, row: Any) -> Dim:
        where, weight, depth = f"row {place} of `dims`", 1, 0
        terms: list[tuple[Monomial, int]] = []
        for factor, atoms in _pairs(row, where):
            if type(factor) is not int or type(atoms) is not list:
                _wrong(f"{where} has other fields")
            monomial: list[Atom] = []
            for atom in atoms:
                if type(atom) is list:
                    if len(atom) != 3 or atom[0] not in ("/", "%"):
                        _wrong(f"{where} has an atom that is no division")
                    parts = [self._row("dims", self.dims, index, where) for index in atom[1:]]
                    monomial.append(Ratio(atom[0], parts[0], parts[1]))
                    sizes = [self._sizes["dims"][index] for index in atom[1:]]
                    weight, depth = weight + sum(s[0] for s in sizes), max(depth, *(1 + s[1] for s in sizes))
                elif type(atom) is int and atom >= 0:
                    monomial.append(atom)
                else:
                    _wrong(f"{where} has an atom that is no symbol")
            weight += 1 + len(monomial)
            terms.append((tuple(monomial), factor))
        if weight > form.MAX_WEIGHT or depth > form.MAX_DEPTH:
            raise form.fault(form.TOO_LARGE, f"{where} is a dimension of {weight} parts, {depth} deep")
        self._sizes["dims"].append((weight, depth))
        built = Dim(tuple(terms))
        if built.substitute({}) != built:
            _wrong(f"{where} is no dimension in normal form")
        return built

    def _type(self, place: int, row: Any) -> Type:
        where = f"row {place} of `types`"
        built: Type
        match row:
            case ["tensor", str(name), list(shape), space] if name in ELEMENTS and (space is None or space in SPACES):
                sizes = tuple(self._row("dims", self.dims, index, where) for index in shape)
                parts = [self._sizes["dims"][index] for index in shape]
                built = Tensor(ELEMENTS[name], sizes, space)
            case ["tuple", list(items)]:
                built = Tuple(tuple(self._row("types", self.types, index, where) for index in items))
                parts = [self._sizes["types"][index] for index in items]
            case ["token", str(effect)] if effect in EFFECTS:
                built, parts = Token(effect), []
            case _:
                _wrong(f"{where} is no type")
        weight, depth = 1 + sum(p[0] for p in parts), 1 + max((p[1] for p in parts), default=0)
        self._spend(weight, where)
        if depth > 2 * form.MAX_DEPTH:
            raise form.fault(form.TOO_LARGE, f"{where} is nested {depth} deep")
        self._sizes["types"].append((weight, depth))
        return built

    def _spend(self, weight: int, where: str) -> None:
        self.budget -= weight
        if self.budget < 0:
            raise form.fault(form.TOO_LARGE, f"with {where} its records have too many parts for a file of its size")

    # --- nodes and functions

    def _entry(self, place: int, row: Any) -> Node | Function:
        if type(row) is list and len(row) == len(form.NODE) and row[0] == "node":
            return self._node(place, row)
        if type(row) is list and len(row) == len(form.FUNCTION) and row[0] == "function":
            return self._function(place, row)
        return _wrong(f"entry {place} is neither a node nor a function")

    def _node(self, place: int, row: list[Any]) -> Node:
        _, identity, kind, inputs, type_, attributes, effects, ownership, policy = row
        if type(kind) is not str or type(inputs) is not list or type(attributes) is not dict:
            _wrong(f"entry {place} has other fields than a node")
        where = f"entry {place} ({kind})"
        before = [self._row("entries", self.entries, index, where) for index in inputs]
        nodes = [entry for entry in before if isinstance(entry, Node)]
        if len(nodes) != len(before):
            _wrong(f"{where} has a function as input")
        given = self._row("types", self.types, type_, where)
        self._spend(self._sizes["types"][type_][0] + len(inputs), where)
        values = {name: self._attribute(value, where) for name, value in attributes.items() if type(name) is str}
        if len(values) != len(attributes):
            _wrong(f"{where} has an attribute without name")
        data = values.get("data")
        if kind == "const" and isinstance(data, Blob) and isinstance(given, Tensor):
            values["data"] = with_values(data, given.element)
        built = node(kind, nodes, values, given)
        self._expect_id(built.id, identity, where)
        stated = [list(effects_of(built)), list(ownership_of(built)), policy_of(built)]
        if [effects, ownership, policy] != stated or policy not in POLICIES:
            raise form.fault(
                form.WRONG_RECORD, f"{where} states {effects}, {ownership}, {policy!r} instead of {stated}"
            )
        callee = values.get("function")
        if kind == "call" and isinstance(callee, Function):
            self.callees.append(callee)
        return built

    def _attribute(self, value: Any, where: str) -> Attribute:
        match value:
            case bool() | int() | str() | bytes():
                return value
            case list():
                return tuple(self._attribute(item, where) for item in value)
            case {"dim": index, **rest} if not rest:
                dim = self._row("dims", self.dims, index, where)
                self._spend(self._sizes["dims"][index][0], where)
                return dim
            case {"type": index, **rest} if not rest:
                type_ = self._row("types", self.types, index, where)
                self._spend(self._sizes["types"][index][0], where)
                return (
                    type_ if isinstance(type_, Tensor) else _wrong(f"{where} has an attribute that is no tensor type")
                )
            case {"element": str(name), **rest} if not rest and name in ELEMENTS:
                return ELEMENTS[name]
            case {"blob": index, **rest} if not rest:
                return self._row("blobs", self.blobs.rows, index, where)
            case {"function": index, **rest} if not rest:
                entry = self._row("entries", self.entries, index, where)
                return entry if isinstance(entry, Function) else _wrong(f"{where} has a node as a function")
        return _wrong(f"{where} has an attribute that cannot be: {value!r:.80}")

    def _function(self, place: int, row: list[Any]) -> Function:
        _, identity, dims, params, result, facts, effects, ideal = row
        where = f"entry {place} (function)"
        if type(dims) is not int or dims < 0 or type(effects) is not list:
            _wrong(f"{where} has other fields than a function")
        if not all(e in EFFECTS for e in effects) or effects != sorted({*effects}):
            _wrong(f"{where} has effects {effects!r:.80}, which are not sorted names of effects")
        last = self._row("entries", self.entries, result, where)
        other = None if ideal is None else self._row("entries", self.entries, ideal, where)
        if not isinstance(last, Node) or not (other is None or isinstance(other, Function)):
            _wrong(f"{where} has a function as result, or a node as ideal body")
        parameters = []
        for type_, mode in _pairs(params, where):
            if mode not in ("", "&", "own"):
                _wrong(f"{where} has a parameter that is {mode!r:.80}")
            parameters.append(Parameter(self._row("types", self.types, type_, where), mode))
            self._spend(self._sizes["types"][type_][0], where)
        promised = []
        for top, bottom in _pairs(facts, where):
            fact = (self._row("dims", self.dims, top, where), self._row("dims", self.dims, bottom, where))
            self._spend(self._sizes["dims"][top][0] + self._sizes["dims"][bottom][0], where)
            promised.append(fact)
        labels = self._labels.get(place, Labels())
        built = Function(dims, tuple(parameters), last, tuple(promised), tuple(effects), other, labels)
        if built.facts != tuple(promised):
            _wrong(f"{where} has facts that are repeated or out of order")
        self._expect_id(built.id, identity, where)
        return built

    def _expect_id(self, found: bytes, recorded: object, where: str) -> None:
        if found != recorded:
            shown = recorded.hex()[:16] if type(recorded) is bytes else repr(recorded)[:40]
            raise form.fault(
                form.WRONG_ID, f"{where} is recorded as {shown}, but its meaning hashes to {found.hex()[:16]}"
            )

    # --- labels

    def _load_labels(self) -> None:
        """Read the labels of all functions by the entry that they belong to."""
        files, rows, entries = self.plain["lines"], self.plain["labels"], self.plain["entries"]
        if type(files) is not list or not all(type(f) is str for f in files) or files != sorted({*files}):
            _wrong("`lines` is no list of different names in order")
        if type(rows) is not list:
            _wrong("`labels` is no list")
        used: set[int] = set()
        last = -1
        for row in rows:
            match row:
                case [entry, str(name), list(dims), list(params), list(nodes), list(lines)] if _is_from(
                    entry, last + 1
                ):
                    last = entry
                case _:
                    _wrong(f"the labels after those of entry {last} have other fields or are out of order")
            where = f"the labels of entry {entry}"
            if entry >= len(entries) or not all(type(text) is str for text in [*dims, *params]):
                _wrong(f"{where} have other fields or belong to nothing")
            texts, spots = {}, {}
            for place, text in _pairs(nodes, where):
                texts[self._node_id(place, where)] = text
                if type(text) is not str:
                    _wrong(f"{where} hold a name that is no text")
            for spot in lines:
                match spot:
                    case [place, file, line] if _is_from(file, 0) and _is_from(line, 0) and file < len(files):
                        used.add(file)
                        spots[self._node_id(place, where)] = (files[file], line)
                    case _:
                        _wrong(f"{where} hold a line that cannot be")
            self._labels[entry] = Labels(name, tuple(dims), tuple(params), texts, spots)
        if len(used) != len(files):
            raise form.fault(form.UNUSED, "no label refers to some name in `lines`")

    def _node_id(self, place: object, where: str) -> bytes:
        """Return the recorded id of a node by its entry; that it is right is checked when the entry is built."""
        entries = self.plain["entries"]
        if type(place) is not int or not 0 <= place < len(entries):
            raise form.fault(form.NO_SUCH_ROW, f"{where} refer to no entry {place!r}")
        row = entries[place]
        if type(row) is not list or len(row) != len(form.NODE) or type(row[1]) is not bytes:
            _wrong(f"{where} refer to entry {place}, which is no node")
        return bytes(row[1])


def _pairs(rows: Any, where: str) -> list[tuple[Any, Any]]:
    if type(rows) is not list or not all(type(row) is list and len(row) == 2 for row in rows):
        _wrong(f"{where} has other fields")
    return rows


def _is_from(value: object, low: int) -> bool:
    return type(value) is int and value >= low


def _wrong(what: str) -> NoReturn:
    raise form.fault(form.WRONG_SCHEMA, what)
