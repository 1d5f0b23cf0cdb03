"""Legalise a kernel for a target: expand the kinds that it lacks, and split vectors to its width.

Two passes. The first (`Expander`) turns each step that the target lacks into steps that it has, at the width of the
logical vector: by the kind's expansion; else, for lane-wise kinds on narrow integers, in the next wider element; else a
scalar for each lane. The second (`split`) cuts what is wider than the target's vectors into pieces. A step that nothing
helps is refused by name. The bits never change.

A target whose vectors have no fixed width (SVE, RVV) is legalised for the width that it guarantees.
"""

from collections.abc import Sequence

from bittern.base.errors import BitternError, code
from bittern.bitops.builder import Builder, View
from bittern.bitops.expansions.table import Call, Outcome, expansions
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Attributes, Block, Kernel, Step, Value, walk
from bittern.bitops.kinds import KINDS
from bittern.bitops.lanes import WIDTH, Lanes
from bittern.bitops.rebuild import Rebuild
from bittern.bitops.target import Target

LACKING = code("B106", "a target lacks a kind that has no expansion into what it has")

_DEPTH = 40
# Kinds whose low bits, or truth, are right in a wider element too.
_WIDER = frozenset("add sub mul neg abs min max and or xor not shl shr popcount eq ne lt le select".split())  # noqa: SIM905


class Expander(Builder):
    """A builder that makes only what a target has, at any width."""

    def __init__(self, target: Target, name: str) -> None:
        super().__init__(name)
        self.target = target
        self._table = expansions()
        self._depth = 0
        self._constants: dict[Value, tuple[int, ...]] = {}
        self._guards: dict[Value, Handle] = {}  # masks made by `first` -> the count
        self._joint: dict[Value, tuple[Value, ...]] = {}  # masks made by `and`
        self._lanes: dict[Value, list[Handle]] = {}  # vectors made of scalars

    def can(self, kind: str, *operands: Lanes, of: Lanes) -> bool:
        """Whether the target has a kind whose result is of a type."""
        return self.target.has(kind, operands, (of,))

    def spill(self, of: Lanes, count: int = 1) -> View:
        """Return scratch memory for so many values of a type."""
        name = f"spill_{of.element.name}_{of.count * count}"
        found = next((b for b in self.buffers if b.name == name), None)
        return View(self, found) if found else self.buffer(name, of.element.name, of.count * count, "scratch")

    def lanes(self, x: Handle) -> list[Handle]:
        """Return all lanes of a value as scalars."""
        if x.value in self._lanes:
            return self._lanes[x.value]
        of = x.type.of(1)
        guards = x.value in self._guards or x.value in self._joint
        if x.type.is_mask and not guards and not self.can("lane", x.type, of=of):
            return [lane.ne(0) for lane in self.lanes(self.numbers(x))]
        if x.type.is_scalar or x.type.is_mask or self.can("lane", x.type, of=of):
            return [x.lane(k) for k in range(x.type.count)]
        spill = self.spill(x.type)
        spill.store(0, x)
        return [spill.load(of, 0, offset=k * of.bytes) for k in range(x.type.count)]

    def mask_type(self, mask: Lanes) -> Lanes:
        """Return the type of integers that hold a mask in one vector of the target, at most i32."""
        bits = (self.target.width or WIDTH) // mask.count
        return mask.to(f"i{max(8, min(32, bits))}")

    def numbers(self, mask: Handle) -> Handle:
        """Return a mask as integers: all bits set, or 0."""
        of = self.mask_type(mask.type)
        return self.select(mask, self.const(of, -1), self.const(of, 0))

    def emit(self, kind: str, operands: Sequence[Value], attributes: "Attributes | None" = None) -> tuple[Value, ...]:
        """Make a step, or what does the same with what the target has. BitternError B106."""
        attributes = attributes or {}
        if kind == "lane" and (truth := self._guarded(operands[0], attributes["lane"])) is not None:
            return (truth.value,)
        made = self._made(kind, operands, attributes)
        if kind == "first":
            self._guards[made[0]] = Handle(self, operands[0])
        elif kind == "collect":
            self._lanes[made[0]] = [Handle(self, v) for v in operands]
        elif kind == "broadcast":
            self._lanes[made[0]] = [Handle(self, operands[0])] * made[0].type.count
        elif kind == "and" and made[0].type.is_mask:
            self._joint[made[0]] = tuple(operands)
        return made

    def _guarded(self, mask: Value, k: int) -> "Handle | None":
        """Return lane k of a mask that guards an access, so that it can be seen what it guards from."""
        if mask in self._guards:
            return self.index(k) < self._guards[mask]
        sides = [self._guarded(side, k) for side in self._joint.get(mask, ())]
        if all(side is None for side in sides):
            return None
        x, y = (s or Handle(self, m).lane(k) for s, m in zip(sides, self._joint[mask], strict=True))
        return x & y

    def _made(self, kind: str, operands: Sequence[Value], attributes: Attributes) -> tuple[Value, ...]:
        types = tuple(v.type for v in operands)
        results = self.table[kind].rule(types, attributes)
        if self._legal(kind, operands, results):
            made = super().emit(kind, operands, attributes)
            if kind == "const":
                self._constants[made[0]] = attributes["bits"]
            return made
        call = Call(kind, tuple(Handle(self, v) for v in operands), results, attributes)
        self._depth += 1
        if self._depth > _DEPTH:
            raise self._lacking(call)
        found = self._expanded(call)
        self._depth -= 1
        return found

    def _legal(self, kind: str, operands: Sequence[Value], results: Sequence[Lanes]) -> bool:
        types = [v.type for v in operands]
        if kind == "lookup" and not self._native_lookup(types):
            return False
        if self.target.has(kind, types, results):
            return True
        if kind in ("shl", "shr") and len(self._constants.get(operands[1], ())) == 1:
            return self.target.has(f"{kind}_uniform", types[:1], results)
        return kind == "lookup" and len(types) == 3 and self.target.has("lookup2", types, results)

    def _native_lookup(self, types: Sequence[Lanes]) -> bool:
        """Whether each table is at most one vector of the target, and codes are as wide as entries."""
        if self.target.width == 0 or types[0].element.bits != types[1].element.bits:
            return False
        most = 2 if len(types) == 3 and self.target.has("lookup2", types[:1], (types[1],)) else 1
        return len(types) - 1 <= most and types[1].bits <= self.target.width

    def _expanded(self, call: Call) -> tuple[Value, ...]:
        wider = self._wider(call)
        found: Outcome = None
        if wider:
            found = self._widened(call)
        elif call.kind in self._table:
            found = self._table[call.kind](self, call)
        if found is None and KINDS[call.kind].form == "lane" and call.results[0].count > 1:
            found = self._apart(call)
        if found is None:
            raise self._lacking(call)
        return () if isinstance(found, tuple) else (found.value,)

    def _lacking(self, call: Call) -> BitternError:
        types = ", ".join(str(o.type) for o in call.operands)
        what = f"`{call.kind}` of ({types}) -> {', '.join(map(str, call.results))}"
        return BitternError(LACKING, f"The target `{self.target.name}` lacks {what}.", "Add the kind to the target.")

    # --- in a wider element

    def _wider(self, call: Call) -> bool:
        """Whether the target has the kind on an element of more bits: nearer than any expansion."""
        x = call.operands[-1].type if call.operands else None
        if call.kind not in _WIDER or x is None or not x.is_integer or x.element.name == "index":
            return False
        bits = 2 * x.element.bits
        while bits <= 64:
            wide = [self._wide(o.type, bits) for o in call.operands]
            of = [self._wide(r, bits) for r in call.results]
            if self.target.has(call.kind, wide, of):
                return True
            bits *= 2
        return False

    def _wide(self, of: Lanes, bits: int) -> Lanes:
        if of.is_mask:
            return of.of(1)
        return of.of(1).to(f"{of.element.name[0]}{bits}")

    def _widened(self, call: Call) -> Handle:
        x = call.operands[-1].type
        bits = 2 * x.element.bits
        if x.count * bits > WIDTH:
            half = x.count // 2
            parts = [
                Handle(self, self.emit(call.kind, [o.part(k, half).value for o in call.operands], call.attributes)[0])
                for k in (0, half)
            ]
            return self.join(*parts)
        operands = [o if o.type.is_mask else o.convert(f"{o.type.element.name[0]}{bits}") for o in call.operands]
        wide = Handle(self, self.emit(call.kind, [o.value for o in operands], call.attributes)[0])
        return wide if call.results[0].is_mask else wide.wrap(call.results[0].element.name)

    # --- lane by lane

    def _apart(self, call: Call) -> "Handle | None":
        counts = {o.type.count for o in call.operands} | {call.results[0].count}
        if len(counts) > 1 or not call.operands:
            return None
        rows = zip(*(self.lanes(o) for o in call.operands), strict=True)
        made = [self.emit(call.kind, [x.value for x in row], call.attributes)[0] for row in rows]
        return self.collect(*(Handle(self, v) for v in made))

    # --- control

    def control(
        self, kind: str, operands: Sequence[Value], blocks: Sequence[Block], attributes: "Attributes | None" = None
    ) -> tuple[Value, ...]:
        """Make a control step; a parallel loop without barriers may become a plain one. BitternError B106."""
        if not self.target.has(kind, (), ()):
            if kind == "parallel" and not any(s.kind == "barrier" for s in walk(blocks[0])):
                return self.control("for", operands, blocks)
            raise BitternError(
                LACKING, f"The target `{self.target.name}` lacks `{kind}`.", "Add the kind to the target."
            )
        return super().control(kind, operands, blocks, attributes)


def expand(kernel: Kernel, target: Target) -> Kernel:
    """Return a kernel of equal bits that has only what the target has. BitternError B106 if that is not possible."""
    from bittern.bitops.split import Splitter

    whole = Rebuild(kernel, Expander(target, kernel.name)).run()
    return Splitter(whole, Expander(target, kernel.name)).run()


def beyond(kernel: Kernel, target: Target) -> list[Step]:
    """Return the steps of a kernel that a target does not have as they are."""
    constants = {s.results[0] for s in walk(kernel.body) if s.kind == "const" and len(s.attributes["bits"]) == 1}
    found = []
    for step in walk(kernel.body):
        types, results = [v.type for v in step.operands], [v.type for v in step.results]
        wide = any(t.bits > max(target.width, 1) and not t.is_scalar for t in (*types, *results))
        named = target.has(step.kind, types if not step.blocks else (), results if not step.blocks else ())
        if step.kind in ("shl", "shr") and step.operands[1] in constants:
            named = named or target.has(f"{step.kind}_uniform", types[:1], results)
        if step.kind == "lookup" and len(types) == 3:
            named = target.has("lookup2", types, results)
        if wide or not named:
            found.append(step)
    return found
