"""Make a kernel smaller without changing a bit: rules, constants, addresses, sharing, hoisting, dead steps.

- Rules: the rows of `rewrites`, on steps whose operands match.
- Constants: a pure step of constants becomes its result, unless that holds a NaN that arithmetic made.
- Addresses: a constant part of a place goes into the offset of the access.
- Dots: `x + dot(0, y, z)` becomes `dot(x, y, z)`.
- Sharing and hoisting: equal pure steps are made once, as far out as their operands allow (not out of an `if`).
- Dead steps: what has no effect and no use goes; loads too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Attributes, Block, Kernel, Step, Value, freeze
from bittern.bitops.kinds import KINDS, Site, is_pure, kinds
from bittern.bitops.lanes import Lanes, array_of_bits, bits_of_array
from bittern.bitops.rebuild import Rebuild
from bittern.bitops.rewrites import RULES, Rule, Term, parse

_ROUNDS = 4


def simplify(kernel: Kernel, rules: Sequence[Rule] = RULES) -> Kernel:
    """Return a kernel of equal meaning. rules: which of the rows to use."""
    kinds()
    before = -1
    for _ in range(_ROUNDS):
        kernel = without_dead(_Simplifier(kernel, rules).run())
        size = _size(kernel.body)
        if size == before:
            break
        before = size
    return kernel


def _size(block: Block) -> int:
    return sum(1 + sum(_size(b) for b in step.blocks) for step in block.steps)


# --- dead steps


def without_dead(kernel: Kernel) -> Kernel:
    """Return the kernel without steps that have neither effect nor use."""
    live: set[Value] = set()
    return replace(kernel, body=_live_block(kernel.body, live))


def _live_block(block: Block, live: set[Value]) -> Block:
    live.update(block.yields)
    kept: list[Step] = []
    for step in reversed(block.steps):
        if not _has_effect(step) and not any(r in live for r in step.results):
            continue
        blocks = tuple(_live_block(b, live) for b in step.blocks)
        live.update(step.operands)
        kept.append(replace(step, blocks=blocks) if blocks else step)
    return Block(block.parameters, tuple(reversed(kept)), block.yields)


def _has_effect(step: Step) -> bool:
    if step.blocks:
        return any(_has_effect(inner) for block in step.blocks for inner in block.steps)
    return KINDS[step.kind].effect not in ("none", "load")


# --- the rest


@dataclass(slots=True)
class _Depth:
    """One open block: the pure steps made in it, and whether steps may leave it outwards."""

    made: dict[tuple[object, ...], Value] = field(default_factory=dict)
    closed: bool = False


class _Sharing(Builder):
    """A builder that simplifies what is emitted."""

    def __init__(self, name: str, rules: Sequence[Rule]) -> None:
        super().__init__(name)
        self.by_kind: dict[str, list[Rule]] = {}
        for rule in rules:
            self.by_kind.setdefault(parse(rule.old).head, []).append(rule)
        self.makers: dict[Value, Step] = {}
        self.depth_of: dict[Value, int] = {}
        self.depths = [_Depth()]
        self.closed = False  # whether the next block to be entered is

    def enter(self, types: Sequence[Lanes]) -> tuple[Value, ...]:
        parameters = super().enter(types)
        self.depths.append(_Depth(closed=self.closed))
        self.closed = False
        for value in parameters:
            self.depth_of[value] = len(self.depths) - 1
        return parameters

    def leave(self, yields: Sequence[Value]) -> Block:
        self.depths.pop()
        return super().leave(yields)

    def control(
        self, kind: str, operands: Sequence[Value], blocks: Sequence[Block], attributes: "Attributes | None" = None
    ) -> tuple[Value, ...]:
        results = super().control(kind, operands, blocks, attributes)
        for value in results:
            self.depth_of[value] = len(self.depths) - 1
        return results

    def emit(self, kind: str, operands: Sequence[Value], attributes: "Attributes | None" = None) -> tuple[Value, ...]:
        attributes = attributes or {}
        if not is_pure(kind):
            return self._effectful(kind, operands, attributes)
        found = self._folded(kind, operands, attributes)
        if found is None:
            found = self._rewritten(kind, operands, attributes)
        return (found if found is not None else self._shared(kind, operands, attributes),)

    def _effectful(self, kind: str, operands: Sequence[Value], attributes: Attributes) -> tuple[Value, ...]:
        if "offset" in attributes:
            operands, attributes = self._addressed(operands, attributes)
        results = super().emit(kind, operands, attributes)
        for value in results:
            self.depth_of[value] = len(self.depths) - 1
        return results

    def _addressed(self, operands: Sequence[Value], attributes: Attributes) -> "tuple[Sequence[Value], Attributes]":
        """Move the constant part of a place into the offset."""
        size = next(b.element.bits // 8 for b in self.buffers if b.name == attributes["buffer"])
        place, step = operands[0], self.makers.get(operands[0])
        while step is not None and step.kind == "add" and (number := self.constant(step.operands[1])) is not None:
            moved = attributes["offset"] + _signed(number) * size
            if not -(2**31) <= moved < 2**31:
                break
            attributes = {**attributes, "offset": moved}
            place = step.operands[0]
            step = self.makers.get(place)
        return [place, *operands[1:]], attributes

    def constant(self, value: Value) -> "int | None":
        """Return the bits of a constant whose lanes are alike."""
        step = self.makers.get(value)
        if step is None or step.kind != "const" or len(step.attributes["bits"]) > 1:
            return None
        return int(step.attributes["bits"][0])

    def _shared(self, kind: str, operands: Sequence[Value], attributes: Attributes) -> Value:
        depth = max((self.depth_of.get(v, 0) for v in operands), default=0)
        for k in range(len(self.depths) - 1, depth, -1):
            if self.depths[k].closed:
                depth = k
                break
        key = (kind, tuple(operands), freeze(attributes))
        for k in range(depth, -1, -1):
            if key in self.depths[k].made:
                return self.depths[k].made[key]
        types = self.table[kind].rule(tuple(v.type for v in operands), attributes)
        value = self.value(types[0])
        step = Step(kind, tuple(operands), (value,), attributes, (), self.label)
        self.open[depth].steps.append(step)
        self.makers[value], self.depth_of[value], self.depths[depth].made[key] = step, depth, value
        return value

    def _folded(self, kind: str, operands: Sequence[Value], attributes: Attributes) -> "Value | None":
        makers = [self.makers.get(v) for v in operands]
        meaning = KINDS[kind].meaning
        if not operands or meaning is None:
            return None
        arrays = []
        for maker in makers:
            if maker is None or maker.kind != "const":
                return None
            arrays.append(array_of_bits(maker.result.type, maker.attributes["bits"]))
        types = self.table[kind].rule(tuple(v.type for v in operands), attributes)
        with np.errstate(all="ignore"):
            found = meaning(Site(tuple(v.type for v in operands), types, attributes), *arrays)
        if found.dtype.kind == "f" and np.isnan(found).any():
            return None
        return self._shared("const", (), {"type": types[0], "bits": bits_of_array(np.ascontiguousarray(found))})

    # --- rules

    def _rewritten(self, kind: str, operands: Sequence[Value], attributes: Attributes) -> "Value | None":
        if kind == "add" and (found := self._accumulated(operands)) is not None:
            return found
        for rule in self.by_kind.get(kind, ()):
            bound: dict[str, Value] = {}
            if self._matches(parse(rule.old), kind, operands, bound) and self._holds(rule, bound):
                types = self.table[kind].rule(tuple(v.type for v in operands), attributes)
                return self._built(parse(rule.new), bound, types[0])
        return None

    def _accumulated(self, operands: Sequence[Value]) -> "Value | None":
        for x, y in (operands, tuple(reversed(operands))):
            step = self.makers.get(y)
            if step is not None and step.kind in ("dot2", "dot4") and self.constant(step.operands[0]) == 0:
                return self.emit(step.kind, [x, *step.operands[1:]])[0]
        return None

    def _matches(self, term: Term, kind: str, operands: Sequence[Value], bound: dict[str, Value]) -> bool:
        if term.head != kind or len(term.operands) != len(operands):
            return False
        return all(self._fits(t, v, bound) for t, v in zip(term.operands, operands, strict=True))

    def _fits(self, term: Term, value: Value, bound: dict[str, Value]) -> bool:
        if term.is_call:
            step = self.makers.get(value)
            return step is not None and self._matches(term, step.kind, step.operands, bound)
        if term.number or term.head in LITERALS:
            return self.constant(value) == literal(term.head, value.type)
        if term.head.isupper() and self.constant(value) is None:
            return False
        return bound.setdefault(term.head, value) is value or (
            term.head.isupper() and self.constant(bound[term.head]) == self.constant(value)
        )

    def _holds(self, rule: Rule, bound: Mapping[str, Value]) -> bool:
        if not ELEMENT_TESTS[rule.elements](bound["x"].type):
            return False
        if rule.where is None:
            return True
        constants = {name: self.constant(v) or 0 for name, v in bound.items() if name.isupper()}
        return rule.where(constants, bound["x"].type.element.bits)

    def _built(self, term: Term, bound: Mapping[str, Value], type_: Lanes) -> Value:
        if not term.is_call:
            if term.number or term.head in LITERALS:
                return self._shared("const", (), {"type": type_, "bits": (literal(term.head, type_),)})
            return bound[term.head]
        inner = bound["x"].type if type_.is_mask else type_
        return self.emit(term.head, [self._built(t, bound, inner) for t in term.operands])[0]


def _signed(bits: int) -> int:
    return bits - (1 << 64) if bits >> 63 else bits


LITERALS = ("ones", "true", "false", "negative_zero")
ELEMENT_TESTS: dict[str, Callable[[Lanes], bool]] = {
    "int": lambda t: t.is_integer,
    "word": lambda t: t.is_integer and t.element.name != "index",
    "unsigned": lambda t: t.is_integer and not t.is_signed,
    "signed": lambda t: t.is_signed,
    "bit": lambda t: t.is_mask,
    "logical": lambda t: t.is_integer or t.is_mask,
    "float": lambda t: t.is_float,
    "any": lambda t: t.is_integer or t.is_float or t.is_mask,
}


def literal(name: str, type_: Lanes) -> int:
    """Return the bits of a lane of a rule's literal in a type."""
    if name in ("ones", "true"):
        return 1 if type_.is_mask else (1 << type_.element.bits) - 1
    if name == "false":
        return 0
    if name == "negative_zero":
        return 1 << (type_.element.bits - 1)
    if type_.is_float:
        return bits_of_array(np.array([float(name)], dtype=type_.dtype))[0]
    return int(name)


class _Simplifier(Rebuild):
    def __init__(self, kernel: Kernel, rules: Sequence[Rule]) -> None:
        self.sharing = _Sharing(kernel.name, rules)
        super().__init__(kernel, self.sharing)

    def control(self, step: Step) -> None:
        if step.kind == "if" and (truth := self.sharing.constant(self.pieces[step.operands[0]][0])) is not None:
            chosen = step.blocks[0 if truth else 1]
            self.steps(chosen)
            for result, value in zip(step.results, chosen.yields, strict=True):
                self.pieces[result] = self.pieces[value]
            return
        super().control(step)

    def block(self, block: Block, kind: str) -> Block:
        self.sharing.closed = kind == "if"
        return super().block(block, kind)
