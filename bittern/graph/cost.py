"""What a graph costs, from its shapes alone: multiply-accumulates, operations on values, bytes read and written.

Every number is a dimension: a polynomial in the dimension parameters of the function in which the node stands, so one
answer holds for every batch and context. What a plan does about it (fusion, packing, caches) is not in here.

Counting. A `dot` of n values is n multiply-accumulates for every value of its result. Arithmetic, comparisons, bits and
conversions are one operation for every value of their result; reductions and scans one for every value that they take.
Moving data is no operation. Bytes count each input once and the result once, in the stored form: a format's blocks, and
one byte for every value of 8 bits or fewer. A call, map or loop costs what its bodies do, as often as they run; its
bytes are those that cross its own edge and those of the constants inside, once. `size`, `item`, `tuple` and parameters
cost nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bittern.base.errors import BitternError
from bittern.graph.node import Blob, Function, Node, functions_of, walk
from bittern.types.dims import ZERO, Dim, DimTooLargeError, dim
from bittern.types.values import Tensor, Token, Tuple, Type

_FREE = ("param", "const", "tuple", "item", "size")
_MOVES = frozenset(
    {
        *("reshape", "permute", "reverse", "slice", "concat", "stack", "pad", "broadcast", "fill", "iota", "windows"),
        *("take", "dynamic_slice", "update", "scatter", "blocks", "move", "from_bits", "bits"),
    }
)
_OVER_INPUT = frozenset(
    {
        *("sum", "product", "max_of", "min_of", "argmax", "argmin", "all_of", "any_of", "xor_of"),
        *("scan_sum", "scan_max", "scan_xor", "scatter_add"),
    }
)
_MOST_TERMS = 512  # of one number


@dataclass(frozen=True, slots=True)
class Cost:
    """What a node or function costs. note: '' if the numbers are exact, else what they leave open."""

    macs: Dim = ZERO
    operations: Dim = ZERO
    read: Dim = ZERO
    written: Dim = ZERO
    note: str = ""

    def substitute(self, dims: Sequence[Dim]) -> "Cost":
        """Return the cost with dimension parameter i replaced by dims[i]."""
        numbers = (self.macs, self.operations, self.read, self.written)
        macs, operations, read, written = (number.substitute(dims) for number in numbers)
        return Cost(macs, operations, read, written, self.note)


UNTOLD = Cost(note="not told: the sizes have too many terms")


@dataclass(slots=True)
class Costs:
    """Answers for the nodes of a program; what was found out once about a function is kept."""

    _functions: dict[bytes, Cost] = field(default_factory=dict)
    _held: dict[bytes, Dim] = field(default_factory=dict)

    def function(self, function: Function) -> Cost:
        """Return the work of one run of a function; its bytes are those that its nodes move, each for itself."""
        stack = [(function, False)]
        while stack:  # callees first, however deep they nest
            current, is_ready = stack.pop()
            if current.id in self._functions:
                continue
            if is_ready:
                nodes = list(walk(current.result))
                self._functions[current.id] = self._sum([self.node(node) for node in nodes])
                self._held[current.id] = self._constants(nodes)
            else:
                stack.append((current, True))
                stack.extend((inner, False) for node in walk(current.result) for inner in functions_of(node))
        return self._functions[function.id]

    def node(self, node: Node) -> Cost:
        """Return the cost of a node, in the dimensions of the function in which it stands."""
        if node.kind in _FREE:
            return Cost()
        for function in functions_of(node):
            self.function(function)
        try:
            inside = [self._held[function.id] for function in functions_of(node)]
            read, written = _total([*(bytes_of(i.type) for i in node.inputs), *inside]), bytes_of(node.type)
            macs, operations, note = self._work(node)
        except DimTooLargeError:
            return UNTOLD
        return Cost(macs, operations, read, written, note)

    def _constants(self, nodes: Sequence[Node]) -> Dim:
        """Return the bytes of the constants among nodes and in the functions that they name, once for each naming."""
        try:
            own = [bytes_of(node.type) for node in nodes if node.kind == "const"]
            return _total([*own, *(self._held[inner.id] for node in nodes for inner in functions_of(node))])
        except DimTooLargeError:
            return ZERO

    def _sum(self, parts: list[Cost]) -> Cost:
        note = next((part.note for part in parts if part.note), "")
        try:
            macs = _total([part.macs for part in parts])
            operations = _total([part.operations for part in parts])
            read, written = _total([part.read for part in parts]), _total([part.written for part in parts])
        except DimTooLargeError:
            return UNTOLD
        return Cost(macs, operations, read, written, note)

    def _work(self, node: Node) -> tuple[Dim, Dim, str]:
        """Return multiply-accumulates, operations, and what they leave open."""
        if node.kind == "call":
            function, dims = node["function"], node["dims"]
            assert isinstance(function, Function) and isinstance(dims, tuple)
            inner = self.function(function).substitute([size for size in dims if isinstance(size, Dim)])
            return inner.macs, inner.operations, inner.note
        if node.kind in ("map", "for", "while"):
            return self._repeated(node)
        if node.kind == "if":
            return self._dearest(node)
        if node.kind in _MOVES:
            return ZERO, ZERO, ""
        if node.kind == "dot":
            taken = node.inputs[0].type
            assert isinstance(taken, Tensor)
            return _values(node.type) * taken.shape[-1], ZERO, ""
        return ZERO, _values(node.inputs[0].type if node.kind in _OVER_INPUT else node.type), ""

    def _repeated(self, node: Node) -> tuple[Dim, Dim, str]:
        body = node["body"]
        assert isinstance(body, Function)
        inner = self.function(body)
        macs, operations, note = inner.macs, inner.operations, inner.note
        if node.kind == "map":
            count = node["count"]
            assert isinstance(count, Dim)
            return macs * count, operations * count, note
        if node.kind == "while":
            test = node["test"]
            assert isinstance(test, Function)
            tested = self.function(test)
            macs, operations = macs + tested.macs, operations + tested.operations
            limit = known_size(node.inputs[0])
            if limit is not None:
                note = f"at most: a `while` ends before its limit. {note}".strip()
                return macs * limit, operations * limit, note
        else:
            low, high = known_size(node.inputs[0]), known_size(node.inputs[1])
            if low is not None and high is not None:
                turns = high - low
                return macs * turns, operations * turns, note
        return macs, operations, f"one turn: how often a `{node.kind}` runs depends on data. {note}".strip()

    def _dearest(self, node: Node) -> tuple[Dim, Dim, str]:
        """Return the dearer branch of an `if` where the branches can be compared, else the first."""
        then, otherwise = node["then"], node["otherwise"]
        assert isinstance(then, Function) and isinstance(otherwise, Function)
        sides = [self.function(then), self.function(otherwise)]
        pairs = [(side.macs.constant, side.operations.constant) for side in sides]
        if (sides[0].macs, sides[0].operations) == (sides[1].macs, sides[1].operations):
            return sides[0].macs, sides[0].operations, sides[0].note
        known = [(macs or 0) + (operations or 0) for macs, operations in pairs]
        is_known = all(number is not None for pair in pairs for number in pair)
        best = sides[known.index(max(known))] if is_known else sides[0]
        what = "at most: the dearer branch of an `if`." if is_known else "the first branch of an `if`."
        return best.macs, best.operations, f"{what} {best.note}".strip()


def known_size(node: Node) -> Dim | None:
    """Return the value of a u32 node that is a dimension or a constant number, else None."""
    if node.kind == "size":
        value = node["value"]
        return value if isinstance(value, Dim) else None
    if node.kind == "const" and isinstance(node.type, Tensor) and node.type.element.name == "u32":
        data = node["data"]
        assert isinstance(data, Blob)
        return _number(data) if not node.type.shape and data.size == 4 else None
    return None


def _number(data: Blob) -> Dim | None:
    """Return a stored u32; None where its bytes are not at hand."""
    try:
        return dim(int.from_bytes(data.read(), "little"))
    except BitternError:
        return None


def bytes_of(type_: Type) -> Dim:
    """Return how many bytes a value takes in its stored form; a token takes none."""
    if isinstance(type_, Token):
        return ZERO
    if isinstance(type_, Tuple):
        return _total([bytes_of(item) for item in type_.items])
    if type_.element.is_format:
        *rows, columns = type_.shape
        return _product([*rows, columns // type_.element.columns]) * dim(type_.element.bytes)
    return _product(type_.shape) * dim(max(1, type_.element.bits // 8))


def bits_of(type_: Type) -> str:
    """Return the bits of one value as text: of a format, its bytes shared by its values; of a tuple, each item's."""
    if isinstance(type_, Tuple):
        return ", ".join(dict.fromkeys(filter(None, (bits_of(item) for item in type_.items))))
    if isinstance(type_, Token):
        return ""
    if type_.element.is_format:
        return f"{8 * type_.element.bytes / type_.element.columns:g}"
    return str(type_.element.bits) if type_.element.bits else ""


def _values(type_: Type) -> Dim:
    if isinstance(type_, Tensor):
        return _product(type_.shape)
    return _total([_values(item) for item in type_.items]) if isinstance(type_, Tuple) else ZERO


def _product(sizes: Sequence[Dim]) -> Dim:
    product = dim(1)
    for size in sizes:
        product = product * size
    return product


def _total(numbers: Sequence[Dim]) -> Dim:
    sums: dict[Dim, int] = {}
    for number in numbers:  # equal ones first: a model has many
        sums[number] = sums.get(number, 0) + 1
    total = ZERO
    for number, count in sums.items():
        if len(total.terms) + len(number.terms) > _MOST_TERMS:
            raise DimTooLargeError(f"more than {_MOST_TERMS} terms")
        total = total + number * count
    return total
