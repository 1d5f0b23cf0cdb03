"""Where two runs of a network part: the first value that differs, how, and what kind of mistake that is.

First the outputs of both programs as they are; then the values of all nodes with a label, in the order of the graph;
then the nodes without one that lead to the first of those. Observing a value keeps a plan from joining launches there.
So where outputs differ and nothing inside does, joined launches are at fault, and the first value at which a program
that ends there differs is looked for.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bittern.base.errors import BitternError, code
from bittern.graph.node import Function
from bittern.passes.applied import applied
from bittern.runtime.diff_case import Case, different
from bittern.runtime.diff_classes import Finding, classified, last_bits
from bittern.runtime.diff_pairs import Pair, causes, paired, span
from bittern.runtime.diff_record import Record, digest, points_of
from bittern.runtime.diff_sides import Run, Side
from bittern.runtime.observed import Array, Point, evaluated
from bittern.types.elements import Element
from bittern.types.values import Tensor

NOTHING_SHARED = code("N448", "two sides have nothing to compare")

_MOST = 1 << 19  # numbers of a value that are looked at to tell the class
_OBSERVED = "values inside are those of a program that joins fewer launches; the outputs are those of the whole one"

FUSION = Finding("fusion", "the same value is equal where it is written to memory: joined launches differ")


@dataclass(frozen=True, slots=True)
class Row:
    """One value that was compared. differing: how many of `count` numbers; -1: only known that they differ."""

    name: str
    count: int
    differing: int
    largest: float = 0.0


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first value that differs.

    layer: label of the value in whose computation it lies. node: label, or kind and id. kind: library function, or kind
    of the node. at: the first element that differs, the sample first. classes: likeliest first. causes: what the two
    nodes differ in, where both sides have a graph.
    """

    layer: str
    node: str
    kind: str
    element: str
    shape: tuple[int, ...]
    at: tuple[int, ...]
    left: str
    right: str
    differing: int
    count: int
    classes: tuple[Finding, ...]
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was compared. outputs: of the programs as they are. rows: values inside. first: None if all is equal.

    passed: how many values differ in a way that was passed over.
    """

    left: str
    right: str
    samples: int
    outputs: tuple[Row, ...]
    rows: tuple[Row, ...]
    first: Divergence | None
    notes: tuple[str, ...] = ()
    passed: int = 0

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs but what was passed over."""
        return self.first is None

    def as_json(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        return {"equal": self.is_equal, **asdict(self)}


@dataclass(slots=True)
class _Two:
    """A comparison under way: two sides, and the classes to pass over."""

    left: Side
    right: Side
    inputs: Sequence[Array]
    passing: frozenset[str]
    pairs: list[Pair] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    passed: int = 0

    def first(self, pairs: Sequence[Pair], keeps: bool = True) -> tuple[Pair, Array, Array] | None:
        """Compare values; return the first pair that differs, with both values. keeps: whether rows are noted."""
        lefts = self.left.values([each.left for each in pairs], self.inputs)
        rights = self.right.values([each.right for each in pairs], self.inputs)
        found = None
        for each in pairs:
            one, other = lefts.get(each.left.node.id), rights.get(each.right.node.id)
            if one is None or other is None:
                continue
            one, other = alike(one, other)
            row = row_of(each.name, one, other)
            if keeps:
                self.rows.append(row)
            if row.differing and found is None and not self._is_passed(each, one, other):
                found = (each, one, other)
        return found

    def _is_passed(self, pair: Pair, left: Array, right: Array) -> bool:
        """Whether a difference is of a class to pass over. What is behind a passed one may differ in last bits too."""
        if not self.passing:
            return False
        case, classes = self.case(pair, left, right)
        is_passed = classes[0].name in self.passing or bool(self.passed and last_bits(case) is not None)
        self.passed += is_passed
        return is_passed

    def case(self, pair: Pair, left: Array, right: Array) -> tuple[Case, list[Finding]]:
        """Return a difference with the classes that fit."""
        of, function = self._facts(pair)
        layer = applied(of.node)
        given = layer.arguments if layer is not None else of.node.inputs
        rows = _telling(left, right)
        inputs, left, right = [each[rows] for each in self.inputs], left[rows], right[rows]
        values = evaluated(function, [each for each in given if isinstance(each.type, Tensor)], inputs)
        known = [_wide(values[each.id]) for each in given if each.id in values]
        assert isinstance(of.node.type, Tensor), of
        element = of.node.type.element
        made = Case(_wide(left), _wide(right), element, of.node, layer, known if len(known) == len(given) else ())
        return made, classified(made)

    def _facts(self, pair: Pair) -> tuple[Point, Function]:
        """Return the point of the side that has a graph of its own, and the graph."""
        return (pair.left, self.left.function) if isinstance(self.left, Run) else (pair.right, self.right.function)


def _telling(left: Array, right: Array) -> "slice | list[int]":
    """Return the samples to look at: all, or of large values the first ones that differ."""
    if left.size <= _MOST or left.shape != right.shape:
        return slice(None)
    rows = np.flatnonzero(different(left, right).reshape(len(left), -1).any(axis=1))
    return [int(k) for k in rows[: max(1, _MOST * len(left) // left.size)]]


def _wide(value: Array) -> Array:
    """Return whole numbers as i64, which loses nothing that networks have; real ones as they are."""
    return value if value.dtype.kind == "f" else value.astype(np.int64)


def alike(left: Array, right: Array) -> tuple[Array, Array]:
    """Return two values ready to be compared: of one kind, floats of one width."""
    if left.dtype == right.dtype:
        return left, right
    if left.dtype.kind == "f" or right.dtype.kind == "f":
        return left.astype(np.float64), right.astype(np.float64)
    return left.astype(np.int64), right.astype(np.int64)


def row_of(name: str, left: Array, right: Array) -> Row:
    """Return how much two values differ."""
    where = different(left, right)
    count = int(where.sum())
    largest = 0.0
    if count and left.shape == right.shape:
        with np.errstate(all="ignore"):
            step = np.abs(right[where].astype(np.float64) - left[where].astype(np.float64))
        largest = float(np.nan_to_num(step, nan=np.inf).max())
    return Row(name, int(left.size), count if left.shape == right.shape else max(count, 1), largest)


def compared(left: Side, right: Side, inputs: Sequence[Array], passing: Sequence[str] = ()) -> Comparison:
    """Compare two sides on data that fits both. passing: classes of differences to pass over. Raises N448."""
    two = _Two(left, right, inputs, frozenset(passing))
    two.pairs = paired(left.points, right.points)
    is_of_levels = isinstance(left, Run) and isinstance(right, Run) and left.level != right.level
    if is_of_levels:  # what passes move keeps its label and may hold other values there
        two.pairs = [each for each in two.pairs if _element(each.left) == _element(each.right)]
    outputs, first_output = _outputs(left, right, inputs)
    if not outputs and not two.pairs:
        raise BitternError(
            NOTHING_SHARED,
            f"`{left.name}` and `{right.name}` share no output and no value with one label.",
            "Compare two runs of one network, or of two that have the same labels.",
        )
    labelled = [each for each in two.pairs if each.label] or two.pairs
    found = two.first(labelled)
    first = None
    if found is not None:
        inner = span(found[0], two.pairs)
        closer = two.first(inner, keeps=False) if inner else None
        first = _divergence(two, found[0], *(closer or found))
    elif first_output is not None and not passing:
        first = _joined(two, labelled) or first_output
    return Comparison(
        left.name, right.name, len(inputs[0]), outputs, tuple(two.rows), first, tuple(_notes(two)), two.passed
    )


def _element(point: Point) -> Element:
    assert isinstance(point.node.type, Tensor), point
    return point.node.type.element


def _outputs(left: Side, right: Side, inputs: Sequence[Array]) -> tuple[tuple[Row, ...], Divergence | None]:
    """Compare the outputs: by name, or in order where both have as many and no name is shared."""
    one, other = left.outputs(inputs), right.outputs(inputs)
    pairs = [(name, name) for name in one if name in other]
    if not pairs and len(one) == len(other):
        pairs = list(zip(one, other, strict=True))
    rows, first = [], None
    for mine, theirs in pairs:
        values = alike(one[mine], other[theirs])
        rows.append(row_of(mine, *values))
        if rows[-1].differing and first is None:
            first = _plain(mine, *values, (Finding("unknown", "only the outputs were compared"),))
    return tuple(rows), first


def _plain(name: str, left: Array, right: Array, classes: tuple[Finding, ...]) -> Divergence:
    """Return the divergence of an output, of whose node nothing is known."""
    at, texts = _first_place(left, right)
    row = row_of(name, left, right)
    return Divergence(name, name, "output", str(left.dtype), left.shape, at, *texts, row.differing, row.count, classes)


def _first_place(left: Array, right: Array) -> tuple[tuple[int, ...], tuple[str, str]]:
    if left.shape != right.shape:
        return (), (str(list(left.shape)), str(list(right.shape)))
    places = np.argwhere(different(left, right))
    at = tuple(int(k) for k in places[0]) if len(places) else ()
    return at, (_number(left[at]), _number(right[at]))


def _number(value: Any) -> str:
    return repr(float(value)) if np.asarray(value).dtype.kind == "f" else str(int(value))


def _divergence(two: _Two, layer: Pair, pair: Pair, left: Array, right: Array) -> Divergence:
    """Return the divergence of a pair that lies in the computation of a labelled one."""
    case, classes = two.case(pair, left, right)
    at, texts = _first_place(left, right)
    row = row_of(pair.name, left, right)
    return Divergence(
        layer.name,
        pair.name,
        case.name,
        case.element.name,
        left.shape,
        at,
        *texts,
        row.differing,
        row.count,
        tuple(classes),
        tuple(causes(pair)),
    )


def _joined(two: _Two, labelled: Sequence[Pair]) -> Divergence | None:
    """Return the first value at which programs that end there differ, though it is equal where it is observed."""
    low, high = 0, len(labelled) - 1
    last: tuple[Pair, Array, Array] | None = None
    while low <= high:
        middle = (low + high) // 2
        found = two.first([labelled[middle]], keeps=False)
        if found is None:
            low = middle + 1
        else:
            last, high = found, middle - 1
    if last is None:
        return None
    made = _divergence(two, last[0], *last)
    classes = (FUSION, *made.classes)
    return Divergence(**{name: getattr(made, name) for name in made.__slots__} | {"classes": classes})


def _notes(two: _Two) -> list[str]:
    """Return what a reader has to know of how values were observed."""
    runs = [side for side in (two.left, two.right) if isinstance(side, Run)]
    told = []
    if any(side.fuse and side.chip != "vm" for side in runs):
        told.append(_OBSERVED)
    lone = len([each for each in two.left.points if each.label]) - len([each for each in two.pairs if each.label])
    if lone > 0:
        told.append(f"{lone} labelled values of the left side have none to compare with on the right")
    return told


def compared_with_record(run: Side, record: Record, inputs: Sequence[Array], *, is_left: bool) -> Comparison:
    """Compare a side with a record. is_left: whether the record is the left side. Raises N447, N448."""
    record.check_data(inputs)
    points = list(run.points)
    rows = points_of(record, points)
    shared = [each for each in points if each.node.id in rows]
    mine = run.outputs(inputs)
    outputs = [(name, mine[name], record.results[name]) for name in mine if name in record.results]
    if not shared and not outputs:
        raise BitternError(
            NOTHING_SHARED,
            f"`{run.name}` has no value that `{record.name}` holds.",
            "Give the record of a run of this network.",
        )
    values = run.values(shared, inputs)
    two = _Two(run, run, inputs, frozenset())
    told, first = [], None
    for each in shared:
        value, row = values[each.node.id], rows[each.node.id]
        told.append(_recorded(each.name, value, row.digest, row.value, is_left))
        if told[-1].differing and first is None:
            first = _of_record(two, Pair(each, each), value, row.value, is_left)
    ends = [_recorded(name, value, row.digest, row.value, is_left) for name, value, row in outputs]
    if first is None:
        for (name, value, row), end in zip(outputs, ends, strict=True):
            if end.differing:
                first = _of_output(name, value, row.value, is_left)
                break
    names = (record.name, run.name) if is_left else (run.name, record.name)
    return Comparison(*names, len(inputs[0]), tuple(ends), tuple(told), first)


def _recorded(name: str, value: Array, known: str, old: Array | None, is_left: bool) -> Row:
    if digest(value) == known:
        return Row(name, int(value.size), 0)
    if old is None:
        return Row(name, int(value.size), -1)
    return row_of(name, *(alike(old, value) if is_left else alike(value, old)))


def _of_record(two: _Two, pair: Pair, value: Array, old: Array | None, is_left: bool) -> Divergence:
    if old is not None:
        return _divergence(two, pair, pair, *(alike(old, value) if is_left else alike(value, old)))
    made = _of_output(pair.name, value, None, is_left)
    layer = applied(pair.left.node)
    kind = layer.name if layer is not None else pair.left.node.kind
    return Divergence(**{name: getattr(made, name) for name in made.__slots__} | {"kind": kind})


def _of_output(name: str, value: Array, old: Array | None, is_left: bool) -> Divergence:
    if old is not None:
        both = alike(old, value) if is_left else alike(value, old)
        return _plain(name, *both, (Finding("unknown", "only the outputs differ"),))
    texts = ("?", "?")
    finding = Finding("unknown", "the record holds digests alone, so it is not known where they differ")
    return Divergence(name, name, "output", str(value.dtype), value.shape, (), *texts, -1, int(value.size), (finding,))
