"""Make a kernel smaller without changing a bit: rules, constants, addresses, sharing, hoisting, dead steps.

- Rules: the rows of `rewrites`, on steps whose operands match.
- Constants: a pure step of constants becomes its result, unless that holds a NaN that arithmetic made.
- Addresses: a constant part of a place goes into the offset of the access.
- Dots: `x + dot(0, y, z)` becomes `dot(x, y, z)`.
- Sharing and hoisting: equal pure steps are made once, as far out as their operands allow (not out of an `if`).
- Dead steps: what has no effect and no use goes; loads too.

One pass does it: a step is looked at when its operands are final, so nothing fits that did not fit then. Only what was
hoisted in front of a branch after the branch was left may be shared with it; then another pass follows. Steps and
values that stay as they are, are those of the given kernel.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import count
from typing import TypeAlias

import numpy as np

from bittern.bitops.kernel import Attributes, Block, Kernel, Step, Value, freeze
from bittern.bitops.kinds import KINDS, Site, is_pure, kinds
from bittern.bitops.lanes import Lanes, array_of_bits, bits_of_array
from bittern.bitops.rewrites import RULES, Rule, Term, parse

_ROUNDS = 4


def simplify(kernel: Kernel, rules: Sequence[Rule] = RULES) -> Kernel:
    """Return a kernel of equal meaning. rules: which of the rows to use."""
    kinds()
    chosen = _chosen(tuple(rules))
    for _ in range(_ROUNDS):
        one = _Pass(kernel, chosen)
        kernel = without_dead(one.run())
        if not one.is_again:
            break
    return kernel


# --- dead steps


def without_dead(kernel: Kernel) -> Kernel:
    """Return the kernel without steps that have neither effect nor use."""
    live: set[Value] = set()
    return replace(kernel, body=_live_block(kernel.body, live))


def _live_block(block: Block, live: set[Value]) -> Block:
    live.update(block.yields)
    kept: list[Step] = []
    for step in reversed(block.steps):
        if live.isdisjoint(step.results) and not _has_effect(step):
            continue
        live.update(step.operands)
        if step.blocks:
            step = replace(step, blocks=tuple([_live_block(b, live) for b in step.blocks]))
        kept.append(step)
    kept.reverse()
    return Block(block.parameters, tuple(kept), block.yields)


def _has_effect(step: Step) -> bool:
    if step.blocks:
        return any(_has_effect(inner) for block in step.blocks for inner in block.steps)
    return KINDS[step.kind].effect not in ("none", "load")


# --- rules made ready


_Key: TypeAlias = "tuple[str | bool | None, ...]"


@dataclass(frozen=True, slots=True)
class _Ready:
    """A rule, parsed. needs: of each operand the kind that must make it; None for any value.

    is_twice: whether the last two operands are one value.
    """

    rule: Rule
    old: Term
    new: Term
    needs: tuple[str | None, ...]
    is_twice: bool


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Rules by the kind of the step, and which of them may fit: by kind, makers of the operands, whether twice."""

    by_kind: Mapping[str, tuple[_Ready, ...]]
    fitting: dict[_Key, tuple[_Ready, ...]] = field(default_factory=dict)

    def fits(self, key: _Key) -> tuple[_Ready, ...]:
        """Return the rules that may fit a step, in order."""
        kind, *makers, is_twice = key
        found = tuple(
            ready
            for ready in self.by_kind.get(str(kind), ())
            if len(ready.needs) == len(makers)
            and all(need is None or need == maker for need, maker in zip(ready.needs, makers, strict=True))
            and (is_twice or not ready.is_twice)
        )
        self.fitting[key] = found
        return found


@lru_cache(maxsize=16)
def _chosen(rules: tuple[Rule, ...]) -> _Chosen:
    by_kind: dict[str, tuple[_Ready, ...]] = {}
    for rule in rules:
        old = parse(rule.old)
        needs = tuple(t.head if t.is_call else "const" if _is_constant(t) else None for t in old.operands)
        is_twice = needs[-2:] == (None, None) and old.operands[-1] == old.operands[-2]
        by_kind[old.head] = (*by_kind.get(old.head, ()), _Ready(rule, old, parse(rule.new), needs, is_twice))
    return _Chosen(by_kind)


def _is_constant(term: Term) -> bool:
    return term.number or term.head in LITERALS or term.head.isupper()


@cache
def _pure_kinds() -> frozenset[str]:
    return frozenset(name for name in KINDS if is_pure(name))


# --- the rest


@dataclass(slots=True)
class _Level:
    """One open block: its steps, and the pure ones by what they do. outermost: the level beyond which none goes."""

    outermost: int = 0
    steps: list[Step] = field(default_factory=list)
    made: dict[tuple[object, ...], Value] = field(default_factory=dict)


class _Pass:
    """One pass over a kernel. is_again: whether another one may find more."""

    def __init__(self, kernel: Kernel, rules: _Chosen) -> None:
        self.kernel, self.rules = kernel, rules
        self.is_again = False
        self._sizes = {b.name: b.element.bits // 8 for b in kernel.buffers}
        self._levels = [_Level()]
        self._label = ""
        self._pure = _pure_kinds()
        self._now: dict[Value, Value] = {}  # what stands for a value of the given kernel, where that is another one
        self._level_of: dict[Value, int] = {}  # but 0
        self._makers: dict[Value, Step] = {}  # of pure steps
        self._bits: dict[Value, tuple[int, ...]] = {}  # of constants
        self._kept_in: dict[tuple[object, ...], list[tuple[_Level, ...]]] = {}  # what a branch did not let out
        self._numbers = count(1 + max(_last(kernel.body), *[p.value.number for p in kernel.parameters], -1))

    def run(self) -> Kernel:
        """Return the new kernel."""
        self._steps(self.kernel.body)
        return replace(self.kernel, body=Block((), tuple(self._levels[0].steps), ()))

    def _steps(self, block: Block) -> None:
        now, pure = self._now, self._pure
        for step in block.steps:
            self._label = step.label
            operands = step.operands
            if now:
                operands = tuple([now.get(v, v) for v in operands])
            if step.kind in pure:
                found = self._made(step.kind, operands, step.attributes, step)
                if found is not step.results[0]:
                    now[step.results[0]] = found
            elif step.blocks:
                self._control(step, operands)
            else:
                self._effectful(step, operands)

    # --- steps that stay where they are

    def _control(self, step: Step, operands: tuple[Value, ...]) -> None:
        if step.kind == "if" and (truth := self._constant(operands[0])) is not None:
            chosen = step.blocks[0 if truth else 1]
            self._steps(chosen)
            for result, value in zip(step.results, chosen.yields, strict=True):
                self._now[result] = self._now.get(value, value)
            return
        outermost = len(self._levels) if step.kind == "if" else self._levels[-1].outermost
        blocks = tuple([self._block(block, outermost) for block in step.blocks])
        self._put(Step(step.kind, operands, step.results, step.attributes, blocks, step.label))

    def _block(self, block: Block, outermost: int) -> Block:
        self._levels.append(_Level(outermost))
        for value in block.parameters:
            self._level_of[value] = len(self._levels) - 1
        self._steps(block)
        yields = tuple([self._now.get(v, v) for v in block.yields])
        return Block(block.parameters, tuple(self._levels.pop().steps), yields)

    def _effectful(self, step: Step, operands: tuple[Value, ...]) -> None:
        attributes = step.attributes
        if "offset" in attributes:
            operands, attributes = self._addressed(operands, attributes)
        if operands != step.operands or attributes is not step.attributes:
            step = Step(step.kind, operands, step.results, attributes, (), step.label)
        self._put(step)

    def _put(self, step: Step) -> None:
        self._levels[-1].steps.append(step)
        for value in step.results:
            self._level_of[value] = len(self._levels) - 1

    def _addressed(self, operands: tuple[Value, ...], attributes: Attributes) -> "tuple[tuple[Value, ...], Attributes]":
        """Move the constant part of a place into the offset."""
        step = self._makers.get(operands[0])
        while step is not None and step.kind == "add" and (number := self._constant(step.operands[1])) is not None:
            moved = attributes["offset"] + _signed(number) * self._sizes[attributes["buffer"]]
            if not -(2**31) <= moved < 2**31:
                break
            attributes = {**attributes, "offset": moved}
            operands = (step.operands[0], *operands[1:])
            step = self._makers.get(operands[0])
        return operands, attributes

    # --- pure steps

    def _constant(self, value: Value) -> "int | None":
        """Return the bits of a constant whose lanes are alike."""
        bits = self._bits.get(value)
        return bits[0] if bits is not None and len(bits) == 1 else None

    def _made(self, kind: str, operands: tuple[Value, ...], attributes: Attributes, old: "Step | None" = None) -> Value:
        """Return the value of a pure step. old: the step of the given kernel that it comes from."""
        found = None
        if operands:
            if operands[-1] in self._bits:
                found = self._folded(kind, operands, attributes)
            if found is None:
                found = self._rewritten(kind, operands, attributes, old)
        return found if found is not None else self._shared(kind, operands, attributes, old)

    def _shared(
        self, kind: str, operands: tuple[Value, ...], attributes: Attributes, old: "Step | None" = None
    ) -> Value:
        levels, level_of = self._levels, self._level_of
        least = 0
        for operand in operands:
            least = max(least, level_of.get(operand, 0))
        level = max(least, levels[-1].outermost)
        key = (kind, operands, _identity(kind, attributes) if attributes else None)
        for k in range(level, -1, -1):
            known = levels[k].made.get(key)
            if known is not None:
                return known
        step = self._new(kind, operands, attributes, old)
        value = step.results[0]
        levels[level].steps.append(step)
        levels[level].made[key] = value
        if level:
            level_of[value] = level
        self._makers[value] = step
        if kind == "const":
            self._bits[value] = attributes["bits"]
        if level > least or key in self._kept_in:
            self._watch(key, level, least)
        return value

    def _watch(self, key: tuple[object, ...], level: int, least: int) -> None:
        """See whether a step comes to stand in front of a branch that has the same step, made before."""
        inside = self._kept_in.get(key, ())
        if inside and len(self._levels) > level + 1:
            outer = self._levels[level + 1]
            self.is_again = self.is_again or any(path[level + 1] is outer for path in inside if len(path) > level + 1)
        if level > least:
            self._kept_in.setdefault(key, []).append(tuple(self._levels[: level + 1]))

    def _new(self, kind: str, operands: tuple[Value, ...], attributes: Attributes, old: "Step | None") -> Step:
        if old is None:
            return Step(kind, operands, (self._value(kind, operands, attributes),), attributes, (), self._label)
        if operands == old.operands:
            return old
        return Step(kind, operands, old.results, attributes, (), self._label)

    def _value(self, kind: str, operands: tuple[Value, ...], attributes: Attributes) -> Value:
        (type_,) = KINDS[kind].rule(tuple([v.type for v in operands]), attributes)
        return Value(next(self._numbers), type_)

    def _folded(self, kind: str, operands: tuple[Value, ...], attributes: Attributes) -> "Value | None":
        bits = [self._bits.get(v) for v in operands]
        meaning = KINDS[kind].meaning
        if None in bits or meaning is None:
            return None
        given = tuple([v.type for v in operands])
        arrays = [array_of_bits(v.type, self._bits[v]) for v in operands]
        types = KINDS[kind].rule(given, attributes)
        with np.errstate(all="ignore"):
            found = meaning(Site(given, types, attributes), *arrays)
        if found.dtype.kind == "f" and np.isnan(found).any():
            return None
        return self._shared("const", (), {"type": types[0], "bits": bits_of_array(np.ascontiguousarray(found))})

    # --- rules

    def _rewritten(
        self, kind: str, operands: tuple[Value, ...], attributes: Attributes, old: "Step | None"
    ) -> "Value | None":
        makers = [None if step is None else step.kind for step in map(self._makers.get, operands)]
        if kind == "add" and ("dot4" in makers or "dot2" in makers):
            found = self._accumulated(operands)
            if found is not None:
                return found
        key = (kind, *makers, len(operands) > 1 and operands[-1] is operands[-2])
        fitting = self.rules.fitting.get(key)
        for ready in self.rules.fits(key) if fitting is None else fitting:
            bound: dict[str, Value] = {}
            if self._matches(ready.old, operands, bound) and self._holds(ready.rule, bound):
                given = tuple([v.type for v in operands])
                type_ = KINDS[kind].rule(given, attributes)[0] if old is None else old.results[0].type
                return self._built(ready.new, bound, type_)
        return None

    def _accumulated(self, operands: tuple[Value, ...]) -> "Value | None":
        for x, y in (operands, operands[::-1]):
            step = self._makers.get(y)
            if step is not None and step.kind in ("dot2", "dot4") and self._constant(step.operands[0]) == 0:
                return self._made(step.kind, (x, *step.operands[1:]), {})
        return None

    def _matches(self, term: Term, operands: tuple[Value, ...], bound: dict[str, Value]) -> bool:
        if len(term.operands) != len(operands):
            return False
        return all(self._fits(t, v, bound) for t, v in zip(term.operands, operands, strict=True))

    def _fits(self, term: Term, value: Value, bound: dict[str, Value]) -> bool:
        if term.is_call:
            step = self._makers.get(value)
            return step is not None and step.kind == term.head and self._matches(term, step.operands, bound)
        if term.number or term.head in LITERALS:
            return self._constant(value) == literal(term.head, value.type)
        if term.head.isupper() and self._constant(value) is None:
            return False
        return bound.setdefault(term.head, value) is value or (
            term.head.isupper() and self._constant(bound[term.head]) == self._constant(value)
        )

    def _holds(self, rule: Rule, bound: Mapping[str, Value]) -> bool:
        if not ELEMENT_TESTS[rule.elements](bound["x"].type):
            return False
        if rule.where is None:
            return True
        constants = {name: self._constant(v) or 0 for name, v in bound.items() if name.isupper()}
        return rule.where(constants, bound["x"].type.element.bits)

    def _built(self, term: Term, bound: Mapping[str, Value], type_: Lanes) -> Value:
        if not term.is_call:
            if term.number or term.head in LITERALS:
                return self._shared("const", (), {"type": type_, "bits": (literal(term.head, type_),)})
            return bound[term.head]
        inner = bound["x"].type if type_.is_mask else type_
        return self._made(term.head, tuple([self._built(t, bound, inner) for t in term.operands]), {})


def _last(block: Block) -> int:
    """Return the highest number of a value that a block makes."""
    last = max([v.number for v in block.parameters], default=-1)
    for step in block.steps:
        for value in step.results:
            if value.number > last:
                last = value.number
        for inner in step.blocks:
            last = max(last, _last(inner))
    return last


def _identity(kind: str, attributes: Attributes) -> object:
    """Return what tells attributes of one kind apart, and is quickly compared."""
    if kind == "const":
        of = attributes["type"]
        return of.element.name, of.count, attributes["bits"]
    return freeze(attributes)


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
    return _float_bits(name, type_.element.name) if type_.is_float else int(name)


@cache
def _float_bits(number: str, element: str) -> int:
    return bits_of_array(np.array([float(number)], dtype=element.replace("f", "float")))[0]
