"""A builder for generated code: constants fold, equal steps are made once, indices keep their ranges.

What was made is remembered for the block in which it stands and those inside. A load is equal to an earlier one while
nothing was stored in its buffer; a block that is entered or left forgets loads of all buffers that the kernel writes,
since a loop comes back. `mark` and `back` undo what an attempt has made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bittern.bitops.builder import Builder, View
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Attributes, Block, Step, Value, freeze
from bittern.bitops.kinds import KINDS, Misfit, Site, is_pure
from bittern.bitops.lanes import INDEX_TYPE, WIDTH, Lanes, array_of_bits, bits_of_array, lanes
from bittern.kernels.generic.places import Part, Place, Variable, has_lane, number, variable

_MOST = 1 << 40  # sizes stay far below what an index holds


class NotLanesError(Exception):
    """What was asked for lane by lane cannot be had so; scalars can."""


class TooWideError(NotLanesError):
    """With fewer lanes it could be had."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A state of an emitter."""

    sizes: tuple[int, ...]  # steps of each open block
    buffers: int
    journal: int
    free: tuple[tuple[str, int, str], ...]
    lanes: int


class Emitter(Builder):
    """See the module. lanes: how many lanes a vector being made has; 0 outside of vectors."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.lanes = 0
        self.clock = 0  # counts arrays in registers
        self.guards: list[tuple[int, int]] = []  # block and clock of each step that may be made anew
        self.declare_scratch: Callable[[str, int], View] | None = None
        self.apart: list[Step] = []  # loops whose rounds are independent of each other
        self.makers: dict[Value, Step] = {}
        self.known_places: dict[Value, Place] = {}
        self.free: tuple[tuple[str, int, str], ...] = ()  # scratch to be used again: element, size, name
        self._scopes: list[dict[object, Any]] = [{}]
        self._journal: list[tuple[dict[object, Any], object]] = []
        self._versions: dict[str, int] = {}
        self._epoch = 0
        self._bounds: dict[Value, tuple[int, int]] = {}

    # --- attempts

    def mark(self) -> Mark:
        """Return the state now."""
        return Mark(
            tuple(len(o.steps) for o in self.open), len(self.buffers), len(self._journal), self.free, self.lanes
        )

    def back(self, mark: Mark) -> None:
        """Undo all that was made since."""
        del self.open[len(mark.sizes) :]
        del self._scopes[len(mark.sizes) :]
        for block, size in zip(self.open, mark.sizes, strict=True):
            del block.steps[size:]
        del self.buffers[mark.buffers :]
        while len(self._journal) > mark.journal:
            scope, key = self._journal.pop()
            scope.pop(key, None)
        self.free, self.lanes = mark.free, mark.lanes
        self._epoch += 1

    # --- memory of what was made

    def remember(self, key: object, found: Any) -> Any:
        """Keep something for this block and those inside."""
        self._scopes[-1][key] = found
        self._journal.append((self._scopes[-1], key))
        return found

    def recall(self, key: object) -> Any:
        """Return what was kept, or None."""
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def version(self, buffer: str) -> object:
        """Return what changes when the contents of a buffer may have changed."""
        access = next(b.access for b in self.buffers if b.name == buffer)
        return 0 if access == "read" else (self._versions.get(buffer, 0), self._epoch)

    def enter(self, types: Sequence[Lanes]) -> tuple[Value, ...]:
        """Open a block and return its parameters."""
        self._scopes.append({})
        self._epoch += 1
        return super().enter(types)

    def leave(self, yields: Sequence[Value]) -> Block:
        """Close the innermost block."""
        self._scopes.pop()
        self._epoch += 1
        return super().leave(yields)

    # --- steps

    def emit(self, kind: str, operands: Sequence[Value], attributes: "Attributes | None" = None) -> tuple[Value, ...]:
        """Make a step, or return what is equal to it."""
        attributes = attributes or {}
        row = KINDS[kind]
        if row.effect == "store":
            name = attributes["buffer"]
            self._versions[name] = self._versions.get(name, 0) + 1
            return super().emit(kind, operands, attributes)
        if not is_pure(kind) and row.effect != "load":
            return super().emit(kind, operands, attributes)
        found = self._folded(kind, operands, attributes) if row.effect == "none" else None
        if found is not None:
            return (found,)
        key: tuple[object, ...] = (kind, tuple(operands), freeze(attributes))
        if row.effect == "load":
            key = (*key, self.version(attributes["buffer"]))
        known = self.recall(key)
        if known is None:
            try:
                known = super().emit(kind, operands, attributes)
            except (Misfit, ValueError) as fault:
                if self.lanes:
                    raise TooWideError from fault
                raise
            self.makers[known[0]] = self.open[-1].steps[-1]
            self.remember(key, known)
        result: tuple[Value, ...] = known
        return result

    def constant(self, x: "Handle | Value") -> int | None:
        """Return the number that a constant integer or truth is, alike in all lanes."""
        step = self.makers.get(x.value if isinstance(x, Handle) else x)
        if step is None or step.kind != "const" or len(step.attributes["bits"]) > 1:
            return None
        bits, of = int(step.attributes["bits"][0]), step.attributes["type"]
        return bits - (1 << of.element.bits) if of.is_signed and bits >> (of.element.bits - 1) else bits

    def _folded(self, kind: str, operands: Sequence[Value], attributes: Attributes) -> Value | None:
        if not operands or KINDS[kind].meaning is None:
            return None
        same = self._identity(kind, operands)
        if same is not None:
            return same
        arrays = []
        for operand in operands:
            maker = self.makers.get(operand)
            if maker is None or maker.kind != "const":
                return None
            arrays.append(array_of_bits(operand.type, maker.attributes["bits"]))
        types = KINDS[kind].rule(tuple(v.type for v in operands), attributes)
        meaning = KINDS[kind].meaning
        assert meaning is not None
        with np.errstate(all="ignore"):
            found = meaning(Site(tuple(v.type for v in operands), types, attributes), *arrays)
        if found.dtype.kind == "f" and np.isnan(found).any():
            return None
        bits = bits_of_array(np.ascontiguousarray(found))
        return self.emit("const", (), {"type": types[0], "bits": bits})[0]

    def _identity(self, kind: str, operands: Sequence[Value]) -> Value | None:
        """Return the operand that a step would only hand on."""
        if kind in ("select",) and operands[1] is operands[2]:
            return operands[1]
        if kind == "select" and (truth := self.constant(operands[0])) is not None:
            return operands[1] if truth else operands[2]
        if len(operands) != 2 or not operands[0].type.is_integer or operands[1].type.count != operands[0].type.count:
            return None
        right, left = self.constant(operands[1]), self.constant(operands[0])
        if kind in ("add", "sub", "or", "xor", "shl", "shr", "rotl", "rotr") and right == 0:
            return operands[0]
        if kind in ("mul", "div") and right == 1:
            return operands[0]
        if kind in ("add", "or", "xor") and left == 0:
            return operands[1]
        return operands[1] if kind == "mul" and left == 1 else None

    def apply(self, kind: str, *operands: Handle, **attributes: Any) -> Handle:
        """Make a step of one result; scalars among vectors are repeated."""
        count = max(o.type.count for o in operands)
        return self.make(kind, *(o.broadcast(count) if o.type.is_scalar else o for o in operands), **attributes)

    def like(self, x: Handle, value: "int | float | bool") -> Handle:
        """Return a constant of the type of a handle."""
        return self.const(x.type, value)

    def choose(self, mask: Handle, x: Handle, y: Handle) -> Handle:
        """Return x where the mask is set, else y."""
        if mask.type.is_scalar and not (x.type.is_scalar and y.type.is_scalar):
            count = max(x.type.count, y.type.count)
            mask = self.spread(mask, count)
        return self.apply("select", mask, x, y)

    def spread(self, x: Handle, count: int) -> Handle:
        """Repeat a scalar in all lanes, a truth too."""
        if not x.type.is_mask or x.type.count == count:
            return x.broadcast(count) if x.type.is_scalar else x
        one, none = self.const("u8", 1), self.const("u8", 0)
        return self.select(x, one, none).broadcast(count).ne(0)

    # --- memory

    def scratch(self, element: str, size: int) -> View:
        """Return memory that nothing else uses now."""
        for entry in self.free:
            if entry[:2] == (element, size):
                self.free = tuple(other for other in self.free if other is not entry)
                return View(self, next(b for b in self.buffers if b.name == entry[2]))
        assert self.declare_scratch is not None
        return self.declare_scratch(element, size)

    def release(self, view: View) -> None:
        """Give scratch back."""
        size = view.buffer.size.constant
        assert size is not None
        self.free = (*self.free, (view.buffer.element.name, size, view.buffer.name))

    # --- places

    def index_of(self, place: Place) -> Handle:
        """Make a place as an index; it has no lane."""
        total: Handle | None = None
        for atom, factor in place.terms:
            term = self._atom(atom)
            if factor != 1:
                term = term * factor
            total = term if total is None else total + term
        if total is None:
            return self.const(INDEX_TYPE, place.number)
        return total + place.number if place.number else total

    def _atom(self, atom: "Variable | Part") -> Handle:
        if isinstance(atom, Variable):
            assert atom.value is not None
            return Handle(self, atom.value)
        top = self.index_of(atom.top)
        if atom.bottom & (atom.bottom - 1) == 0:
            if atom.kind == "/":
                return self.make("shr", top, self.const("u64", atom.bottom.bit_length() - 1))
            return top & (atom.bottom - 1)
        return top // atom.bottom if atom.kind == "/" else top % atom.bottom

    def word_of(self, place: Place, element: str) -> Handle:
        """Make a place as an unsigned word, modulo its width; a vector where the place has a lane."""
        if place.constant is not None:
            return self.const(element, place.number % (1 << lanes(element).bits))
        factor = place.factor_of_lane()
        if factor is None:
            raise NotLanesError
        base = self.index_of(place.without_lane()).wrap(element)
        if factor:
            steps = np.arange(self.lanes, dtype=np.int64) * factor % (1 << lanes(element).bits)
            if lanes(element).bits * self.lanes > WIDTH:
                raise TooWideError
            of = lanes(element).of(self.lanes)
            base = self.apply("add", base, self.const(of, steps.astype(of.dtype)))
        if place.low >= 0 and place.high < 1 << base.type.element.bits:
            self.known_places[base.value] = place
        return base

    def place_between(self, index: Handle, low: int, high: int) -> Place:
        """Return an index of a loop as a place."""
        return variable(index.value, low, high)

    def bounds(self, x: Handle) -> tuple[int, int]:
        """Return numbers between which an integer is, both included."""
        return self._bounds_of(x.value, 0)

    def _bounds_of(self, value: Value, depth: int) -> tuple[int, int]:
        known = self._bounds.get(value)
        if known is None:
            element = value.type.element
            low, high = (0, _MOST) if element.name == "index" else (element.low, element.high)
            place = self.known_places.get(value)
            step = self.makers.get(value)
            found = (low, high)
            if place is not None:
                found = place.low, place.high
            elif step is not None and depth < 40:
                found = self._derived(step, depth) or found
            known = found if low <= found[0] and found[1] <= high else (low, high)
            self._bounds[value] = known
        return known

    def _derived(self, step: Step, depth: int) -> tuple[int, int] | None:
        integers = [v for v in step.operands if v.type.is_integer]
        if len(integers) < len(step.operands):
            return None
        if step.kind == "const":
            array = array_of_bits(step.results[0].type, step.attributes["bits"])
            return int(array.min()), int(array.max())
        rule = _BOUNDS.get(step.kind)
        return rule(*(self._bounds_of(v, depth + 1) for v in integers)) if rule and integers else None

    def place_of(self, x: Handle, most: int | None = None) -> Place:
        """Return an unsigned number as a place, at most `most` (larger ones become it)."""
        place = self._place_of(x.value, 0)
        if place is None:
            low, high = self.bounds(x)
            if x.type.count > 1:
                raise NotLanesError
            place = variable(x.convert("index").value, low, high)
        if most is None or place.high <= most:
            return place
        if place.low >= most:
            return number(most)
        if has_lane(place):
            raise NotLanesError
        return variable(self.index_of(place).min(most).value, min(place.low, most), most)

    def _place_of(self, value: Value, depth: int) -> Place | None:
        known = self.known_places.get(value)
        if known is not None:
            return known
        step = self.makers.get(value)
        if step is None or depth > 12 or not value.type.is_integer:
            return None
        if step.kind == "const":
            constant = self.constant(value)
            return None if constant is None else number(constant)
        if step.kind in ("broadcast", "convert") and step.operands[0].type.is_integer:
            return self._place_of(step.operands[0], depth + 1)
        if step.kind not in _AFFINE:
            return None
        parts = [self._place_of(v, depth + 1) for v in step.operands]
        x, y = parts
        if x is None or y is None:
            return None
        return _fitting(_AFFINE[step.kind](x, y), value.type)


def _fitting(place: Place | None, type_: Lanes) -> Place | None:
    if place is None or place.low < 0 or place.high > type_.element.high:
        return None
    return place


def _by_constant(act: Callable[[Place, int], Place]) -> Callable[[Place, Place], Place | None]:
    def on(x: Place, y: Place) -> Place | None:
        return None if y.constant is None or y.constant < 1 or x.low < 0 else act(x, y.constant)

    return on


def _mul(x: Place, y: Place) -> Place | None:
    if y.constant is None:
        x, y = y, x
    return None if y.constant is None else x * y.constant


def _masked(x: Place, y: Place) -> Place | None:
    if y.constant is None:
        x, y = y, x
    mask = y.constant
    return x % (mask + 1) if mask is not None and mask & (mask + 1) == 0 and x.low >= 0 else None


_AFFINE: dict[str, Callable[[Place, Place], Place | None]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": _mul,
    "and": _masked,
    "div": _by_constant(lambda x, c: x // c),
    "rem": _by_constant(lambda x, c: x % c),
    "shr": lambda x, y: _by_constant(lambda z, c: z // c)(x, number(1 << min(y.number, 63))) if not y.terms else None,
    "shl": lambda x, y: x * (1 << min(y.number, 63)) if not y.terms else None,
}

_Range = tuple[int, int]


def _one_known(act: Callable[[_Range, int], _Range | None]) -> Callable[[_Range, _Range], _Range | None]:
    """Return a rule for a natural number and a known one."""

    def rule(x: _Range, y: _Range) -> _Range | None:
        return act(x, y[0]) if y[0] == y[1] and y[0] >= 0 and x[0] >= 0 else None

    return rule


def _either_known(act: Callable[[_Range, int], _Range | None]) -> Callable[[_Range, _Range], _Range | None]:
    def rule(x: _Range, y: _Range) -> _Range | None:
        return _one_known(act)(x, y) or _one_known(act)(y, x)

    return rule


# Only what the verifier can derive as well: its bounds are those that count.
_BOUNDS: dict[str, Callable[..., "_Range | None"]] = {
    "add": lambda x, y: (x[0] + y[0], x[1] + y[1]),
    "sub": lambda x, y: (x[0] - y[1], x[1] - y[0]),
    "mul": _either_known(lambda x, k: (x[0] * k, x[1] * k)),
    "min": _either_known(lambda x, k: (min(x[0], k), k)),
    "and": _either_known(lambda x, k: (0, k)),
    "div": _one_known(lambda x, k: (x[0] // k, x[1] // k) if k else None),
    "rem": _one_known(lambda x, k: (0, k - 1) if k else None),
    "shr": _one_known(lambda x, k: (x[0] >> min(k, 64), x[1] >> min(k, 64))),
    "shl": _one_known(lambda x, k: (x[0] << k, x[1] << k) if k < 64 else None),
    "convert": lambda x: x,
    "wrap": lambda x: x,
    "broadcast": lambda x: x,
    "popcount": lambda x: (0, 64),
    "clz": lambda x: (0, 64),
    "ctz": lambda x: (0, 64),
}
