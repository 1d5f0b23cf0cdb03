"""Expressions of one graph: which nodes get a name, and the text of every primitive op."""

from collections.abc import Callable, Mapping, Sequence

from bittern.graph.node import Node
from bittern.lang.print_terms import (
    CALLS,
    INFIX,
    PREFIX,
    SHIFTS,
    SPREADING,
    attribute_text,
    is_spread,
    scalar_text,
)
from bittern.types.dims import Dim
from bittern.types.elements import BIT, I32, Element
from bittern.types.values import Tensor, Token

MAX_TEXT = 72  # longer expressions get a name
_COPIED = ("const", "size")  # written again wherever they are used


class Texts:
    """Texts of the nodes of one graph. dim: writes a dimension.

    texts: node id -> its text, and whether that needs no parentheses. uses: how often each is written. items: the item
    nodes by owner and index. forced: nodes that get a name whatever their use.
    """

    def __init__(self, dim: Callable[[Dim], str]) -> None:
        self.dim = dim
        self.texts: dict[bytes, tuple[str, bool]] = {}
        self.uses: dict[bytes, int] = {}
        self.items: dict[tuple[bytes, int], Node] = {}
        self.forced: set[bytes] = set()

    def count(self, nodes: Sequence[Node], leaves: Sequence[Node]) -> None:
        """Count uses and find what must have a name. nodes: of the whole graph, inputs before users."""
        for leaf in leaves:
            self.uses[leaf.id] = self.uses.get(leaf.id, 0) + 1
        for n in reversed(nodes):
            times = self.uses.get(n.id, 0) if is_spread(n) else 1  # a spread scalar is written at each of its uses
            for x in n.inputs:
                self.uses[x.id] = self.uses.get(x.id, 0) + times
            if n.kind == "item":
                index = n["index"]
                assert isinstance(index, int)
                self.items[n.inputs[0].id, index] = n
            self.forced.update(x.id for x in _named_inputs(n))

    def wants_name(self, n: Node, text: str) -> bool:
        """Whether a node of one result is written once, under a name."""
        if n.kind in _COPIED or is_spread(n):
            return n.id in self.forced
        return n.id in self.forced or self.uses.get(n.id, 0) > 1 or len(text) > MAX_TEXT

    def text(self, n: Node) -> str:
        """Return a node's text, as it may stand between commas."""
        return self.texts[n.id][0]

    def atom(self, n: Node) -> str:
        """Return a node's text, as it may stand beside an operator."""
        text, is_atom = self.texts[n.id]
        return text if is_atom else f"({text})"

    def size_of(self, value: Dim) -> str:
        """Return a dimension as a value in a form that no operator joins with its neighbours."""
        raise NotImplementedError

    def op(self, n: Node) -> tuple[str, bool]:
        """Return the text of a primitive op."""
        if n.kind == "size":
            value = n["value"]
            assert isinstance(value, Dim)
            text = self.dim(value)
            return (text, " " not in text) if value.constant is None else (self.size_of(value), True)
        if n.kind in INFIX:
            x, y = self._pair(n)
            sign = {"and": "and", "or": "or"}.get(n.kind, INFIX[n.kind]) if _is_bits(n) else INFIX[n.kind]
            return f"{x} {sign} {y}", False
        if n.kind in PREFIX:
            return PREFIX[n.kind] + self.atom(n.inputs[0]), False
        if n.kind == "convert":
            return f"{attribute_text(n['to'], self.dim)}({self.text(n.inputs[0])})", True
        if n.kind == "take":
            return self._take(n), True
        if n.kind == "slice":
            return self._slice(n), True
        if n.kind == "stack" and n["axis"] == 0:
            return "[" + ", ".join(map(self.text, n.inputs)) + "]", True
        if n.kind == "pad":
            x, value = map(self.text, n.inputs)
            parts = [x, *(attribute_text(n[name], self.dim) for name in ("before", "after")), value]
            return f"pad({', '.join(parts)}{_labelled(n, {'axis': 0})})", True
        return self._called(n), True

    def _called(self, n: Node) -> str:
        """Return an op as a call by its row."""
        bracketed, after, labelled = CALLS.get(n.kind, ("", (), {}))
        inputs = [x for x in n.inputs if not isinstance(x.type, Token)]
        spread = self._spread(n) if n.kind in SPREADING else [self.text(x) for x in inputs]
        parts = [*spread, *(attribute_text(n[name], self.dim) for name in after)]
        bracket = attribute_text(n[bracketed], self.dim) if bracketed and not _is_default_dot(n) else ""
        return n.kind + (f"[{bracket}]" if bracket else "") + f"({', '.join(parts)}{_labelled(n, labelled)})"

    def _take(self, n: Node) -> str:
        base, indices = n.inputs[0], n.inputs[1:]
        texts = [(scalar_text(i, suffix=False) if i.kind == "const" else None) or self.text(i) for i in indices]
        texts = [self.text(i) if i.id in self.forced else t for i, t in zip(indices, texts, strict=True)]
        name, _ = self.texts[base.id]
        if name.isidentifier():
            return f"{name}[{', '.join(texts)}]"
        return f"take({name}, {', '.join(texts)})"

    def _slice(self, n: Node) -> str:
        name, _ = self.texts[n.inputs[0].id]
        if n["axis"] != 0 or n["stride"] != 1 or not name.isidentifier():
            return self._called(n)
        low, high = (attribute_text(n[bound], self.dim) for bound in ("low", "high"))
        return f"{name}[{low}..{high}]"

    def _pair(self, n: Node) -> tuple[str, str]:
        """Return both operands of an operator; a spread scalar stands for itself, a literal takes the other's type."""
        x, y = n.inputs
        first = self._operand(x, y, is_free=n.kind not in SHIFTS)
        second = self._operand(y, x, is_free=True, is_count=n.kind in SHIFTS)
        return first, second

    def _spread(self, n: Node) -> list[str]:
        """Return operands of a call that spreads scalars as operators do."""
        if n.kind == "select":
            condition, a, b = n.inputs
            firm = not is_spread(condition)
            return [self.text(condition), *(self._bare(x) if firm and is_spread(x) else self.text(x) for x in (a, b))]
        x, y = n.inputs
        first = self._bare(x) if is_spread(x) and not is_spread(y) and n.kind not in SHIFTS else self.text(x)
        second = self._bare(y) if is_spread(y) and (n.kind in SHIFTS or not is_spread(x)) else self.text(y)
        return [first, second]

    def _bare(self, n: Node) -> str:
        return self.text(n.inputs[0])

    def _operand(self, n: Node, other: Node, *, is_free: bool, is_count: bool = False) -> str:
        """Return an operand. is_free: a spread scalar may leave its spreading to the operator."""
        if is_free and is_spread(n) and (is_count or not is_spread(other)):
            n = n.inputs[0]
        if n.kind == "size" and other.kind in ("size", "const"):
            value = n["value"]
            assert isinstance(value, Dim)
            return self.size_of(value)
        if n.kind == "const" and n.id not in self.forced:
            is_open = is_count or (is_free and other.kind not in ("const", "size") and not is_spread(other))
            literal = scalar_text(n, suffix=not (is_open and _element(n) == _element(other))) if is_open else None
            if literal is not None and not is_count:
                return f"({literal})" if literal.startswith("-") else literal
            if is_count:
                return scalar_text(n, suffix=False) or self.atom(n)
        return self.atom(n)


def _element(n: Node) -> Element | None:
    return n.type.element if isinstance(n.type, Tensor) else None


def _is_bits(n: Node) -> bool:
    return _element(n) == BIT


def _is_default_dot(n: Node) -> bool:
    if n.kind != "dot":
        return False
    element = _element(n.inputs[0])
    return element is not None and n["to"] == (element if element.is_float else I32)


def _labelled(n: Node, labelled: Mapping[str, int]) -> str:
    given = {name: n[name] for name, default in labelled.items() if n[name] != default}
    return "".join(f", {name}: {value!s}" for name, value in given.items())


def _named_inputs(n: Node) -> list[Node]:
    """Return the inputs of a node that must have a name where they are used."""
    if n.kind in ("for", "while"):
        carries = n["carries"]
        assert isinstance(carries, int)
        return [x for x in n.inputs[(2 if n.kind == "for" else 1) + carries :] if x.kind not in _COPIED]
    if n.kind == "if":
        return [x for x in n.inputs[1:] if x.kind not in _COPIED]
    if n.kind == "map":
        mapped = n["mapped"]
        assert isinstance(mapped, int)
        return [x for x in n.inputs[mapped:] if x.kind not in _COPIED]
    if n.kind == "neg":
        return [x for x in n.inputs if x.kind == "const"]  # a sign before a literal is part of it
    if n.kind in ("take", "update", "scatter", "scatter_add"):
        return [x for x, size in zip(n.inputs[1:], _shape(n.inputs[0]), strict=False) if _is_outside(x, size)]
    return []


def _shape(n: Node) -> tuple[Dim, ...]:
    return n.type.shape if isinstance(n.type, Tensor) else ()


def _is_outside(n: Node, size: Dim) -> bool:
    """Whether an index is a number that the checker would call outside."""
    if n.kind != "const" or size.constant is None or _shape(n):
        return False
    literal = scalar_text(n, suffix=False)
    return literal is None or not literal.isdigit() or int(literal) >= size.constant
