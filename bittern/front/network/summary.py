"""The summary of a network: layer by layer shapes, bits, parameters, bytes in its file, multiply-accumulates by width.

A layer is what a builder or importer gave a name; operations without one belong to the next layer that uses them.
All numbers come from the graph: bytes are those of the `.keg` file, so with its header their sum is its size.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from bittern.front.network.draft import SUMS
from bittern.front.network.network import Network
from bittern.front.network.stored import stored_bytes
from bittern.graph.cost import known_size
from bittern.graph.keg import stored_size
from bittern.graph.node import Blob, Function, Node, functions_of, walk
from bittern.types.dims import Dim
from bittern.types.elements import Element
from bittern.types.values import Tensor, Tuple

Macs = Mapping[str, int]  # by width, as `b1 x u8`: weights x values

_UNNAMED = "(unnamed)"


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer.

    functions: of the library that it calls. shape: of one sample of what goes out; element: its element. sums: bits of
    its widest sum, 0 if not told. weights: elements of its constants of at most 8 bits. parameters: values of all its
    constants; bytes: what those take in the file. macs: multiply-accumulates of one sample.
    """

    name: str
    functions: tuple[str, ...]
    shape: tuple[int, ...]
    element: str
    sums: int
    weights: tuple[str, ...]
    parameters: int
    bytes: int
    macs: Macs


@dataclass(frozen=True, slots=True)
class Summary:
    """All layers, and what the file holds beside their constants: `rest` bytes of header and alignment."""

    name: str
    inputs: tuple[str, ...]
    rows: tuple[LayerRow, ...]
    rest: int

    @property
    def parameters(self) -> int:
        """How many values all constants have."""
        return sum(row.parameters for row in self.rows)

    @property
    def bytes(self) -> int:
        """The size of the network's file."""
        return self.rest + sum(row.bytes for row in self.rows)

    @property
    def macs(self) -> Macs:
        """Multiply-accumulates of one sample, by width."""
        return sum((Counter(row.macs) for row in self.rows), Counter[str]())

    def as_json(self) -> dict[str, Any]:
        """Return the summary as plain values."""
        return {
            "name": self.name,
            "inputs": list(self.inputs),
            "layers": [
                {
                    "name": row.name,
                    "functions": list(row.functions),
                    "shape": list(row.shape),
                    "element": row.element,
                    "bits_of_sums": row.sums,
                    "weights": list(row.weights),
                    "parameters": row.parameters,
                    "bytes": row.bytes,
                    "macs": dict(row.macs),
                }
                for row in self.rows
            ],
            "parameters": self.parameters,
            "bytes": self.bytes,
            "bytes_of_header": self.rest,
            "macs": dict(self.macs),
        }

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table: its head, a line for each layer, the file's header, and the totals."""
        head = ("layer", "computes", "shape", "codes", "sums", "weights", "parameters", "bytes", "multiply-accumulates")
        lines = [
            (
                _shortened(row.name),
                ", ".join(row.functions),
                " x ".join(map(str, row.shape)),
                row.element,
                f"{row.sums} bits" if row.sums else "",
                ", ".join(row.weights),
                f"{row.parameters:,}",
                f"{row.bytes:,}",
                _macs_text(row.macs),
            )
            for row in self.rows
        ]
        rest = ("(header, alignment)", "", "", "", "", "", "", f"{self.rest:,}", "")
        total = ("total", "", "", "", "", "", f"{self.parameters:,}", f"{self.bytes:,}", _macs_text(self.macs))
        return [head, *lines, rest, total]

    def text(self) -> str:
        """Return the table as plain text."""
        cells = self.cells()
        wide = [max(len(row[k]) for row in cells) for k in range(len(cells[0]))]
        lines = ["  ".join(_aligned(cell, wide[k], k) for k, cell in enumerate(row)).rstrip() for row in cells]
        return "\n".join([f"{self.name}: {'; '.join(self.inputs)}", lines[0], "-" * max(map(len, lines)), *lines[1:]])

    def __rich__(self) -> Any:
        from rich.table import Table

        head, *rows, total = self.cells()
        table = Table(title=f"{self.name}: {'; '.join(self.inputs)}", title_justify="left", show_footer=True)
        for k, (name, last) in enumerate(zip(head, total, strict=True)):
            table.add_column(name, last, justify="right" if k in _RIGHT else "left")
        for row in rows:
            table.add_row(*row)
        return table


_RIGHT = (6, 7)
_MOST = 40  # letters of a name in the table


def _shortened(name: str) -> str:
    """Return the first of names joined by `;`, as some tools write them, and of a long one its end."""
    first = name.partition(";")[0]
    return first if len(first) <= _MOST else "..." + first[3 - _MOST :]


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.rjust(width) if column in _RIGHT else cell.ljust(width)


def _macs_text(macs: Macs) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(macs.items()))


def summary(network: Network, sums: Mapping[str, int] | None = None) -> Summary:
    """Return the summary of a network.

    sums: bits that hold every sum, by the label of its node, if known. Raises F223 for a network that no file can hold.
    """
    nodes = list(walk(network.function.result))
    owner = _owners(nodes, network.function)
    elements = _elements(network.function)
    members: dict[str, list[Node]] = {}
    for node in nodes:
        if node.kind not in ("param", "item", "tuple"):
            members.setdefault(owner[node.id], []).append(node)
    counted: set[bytes] = set()
    dots = _Dots()
    bits: dict[str, int] = {}
    for label, count in (sums or {}).items():
        name = label.removesuffix(f".{SUMS}")
        bits[name] = max(bits.get(name, 0), count)
    rows = [_row(name, held, elements, counted, dots, bits.get(name, 0)) for name, held in members.items()]
    inputs = tuple(f"{p.name} {p.element}[{', '.join(map(str, p.shape))}]" for p in network.inputs)
    rest = stored_bytes(network) - sum(row.bytes for row in rows)
    return Summary(network.name, inputs, tuple(rows), rest)


def _owners(nodes: Sequence[Node], function: Function) -> dict[bytes, str]:
    """Return the layer of every node: its own name, or that of the first layer that uses it."""
    names = function.labels.nodes
    owner: dict[bytes, str] = {}
    for node in reversed(nodes):  # users before inputs
        if node.kind not in ("const", "param") and node.id in names:
            owner[node.id] = names[node.id].removesuffix(f".{SUMS}")
        mine = owner.setdefault(node.id, _UNNAMED)
        for each in node.inputs:
            owner[each.id] = mine  # the last one met here is the first user in the network
    return owner


def _elements(function: Function) -> dict[bytes, set[Element]]:
    """Return the elements of every constant in a function and all that it names, by digest."""
    found: dict[bytes, set[Element]] = {}
    stack, seen = [function], {function.id}
    while stack:
        for node in walk(stack.pop().result):
            data = node["data"] if node.kind == "const" else None
            if isinstance(data, Blob) and isinstance(node.type, Tensor):
                found.setdefault(data.digest, set()).add(node.type.element)
            for inner in functions_of(node):
                if inner.id not in seen:
                    seen.add(inner.id)
                    stack.append(inner)
    return found


def _row(
    name: str,
    nodes: Sequence[Node],
    elements: Mapping[bytes, set[Element]],
    counted: set[bytes],
    dots: "_Dots",
    bits: int,
) -> LayerRow:
    """Return what a layer's nodes add up to. counted: digests whose bytes an earlier layer has; new ones are added."""
    last = next((node for node in reversed(nodes) if node.kind != "const"), nodes[-1])
    parameters, size, weights = 0, 0, []
    macs: Counter[str] = Counter()
    functions: list[str] = []
    for node in nodes:
        macs += dots.of(node, (1,))
        functions += _called(node)
        if node.kind != "const":
            continue
        data, type_ = node["data"], node.type
        assert isinstance(data, Blob) and isinstance(type_, Tensor)
        parameters += prod(each.value((1,)) for each in type_.shape)
        if 1 <= type_.element.bits <= 8 and type_.element.name != "bit":
            weights.append(str(type_.element))
        if data.digest not in counted:
            counted.add(data.digest)
            size += stored_size(data, elements[data.digest])
    shape, element = _told(last)
    return LayerRow(
        name,
        tuple(dict.fromkeys(functions)),
        shape,
        element,
        bits,
        tuple(dict.fromkeys(weights)),
        parameters,
        size,
        macs,
    )


def _told(node: Node) -> tuple[tuple[int, ...], str]:
    type_ = node.type.items[0] if isinstance(node.type, Tuple) else node.type
    if not isinstance(type_, Tensor):
        return (), ""
    return tuple(size.value((1,)) for size in type_.shape[1:]), str(type_.element)


def _called(node: Node) -> list[str]:
    """Return the names of the functions that a node applies, through maps."""
    if node.kind == "call":
        function = node["function"]
        assert isinstance(function, Function)
        return [function.labels.name.partition("[")[0]]
    if node.kind == "map":
        body = node["body"]
        assert isinstance(body, Function)
        return [name for inner in walk(body.result) for name in _called(inner)]
    return [node.kind] if node.kind in ("add", "concat", "lookup", "sign", "round") else []


class _Dots:
    """Counts multiply-accumulates by the elements of both operands, in a function of known sizes."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, tuple[int, ...]], Counter[str]] = {}

    def of(self, node: Node, sizes: tuple[int, ...]) -> Counter[str]:
        """Return the counts of a node. sizes: of the dimensions of the function in which it stands."""
        if node.kind == "dot":
            left, right = (each.type for each in node.inputs)
            assert isinstance(left, Tensor) and isinstance(right, Tensor)
            return Counter({f"{left.element} x {right.element}": prod(size.value(sizes) for size in left.shape)})
        if node.kind == "call":
            function, dims = node["function"], node["dims"]
            assert isinstance(function, Function) and isinstance(dims, tuple)
            return self._function(function, tuple(d.value(sizes) for d in dims if isinstance(d, Dim)))
        times = self._times(node, sizes)
        total: Counter[str] = Counter()
        for inner in functions_of(node):
            for name, count in self._function(inner, sizes).items():
                total[name] += count * times
        return total

    def _times(self, node: Node, sizes: tuple[int, ...]) -> int:
        if node.kind == "map":
            count = node["count"]
            assert isinstance(count, Dim)
            return count.value(sizes)
        if node.kind == "for":
            low, high = known_size(node.inputs[0]), known_size(node.inputs[1])
            return max(0, high.value(sizes) - low.value(sizes)) if low is not None and high is not None else 1
        return 1

    def _function(self, function: Function, sizes: tuple[int, ...]) -> Counter[str]:
        key = function.id, sizes
        if key not in self._known:
            total: Counter[str] = Counter()
            for node in walk(function.result):
                total += self.of(node, sizes)
            self._known[key] = total
        return self._known[key]
