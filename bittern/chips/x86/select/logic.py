"""Logic on vectors, masks and truths. With AVX-512, trees of up to three inputs become one VPTERNLOG.

The table of a function of three bits is the function applied to the columns 0xF0, 0xCC, 0xAA of the truth table of its
inputs (Intel's manual, volume 2, VPTERNLOGD).
"""

from collections.abc import Callable, Mapping

from bittern.bitops.kernel import Step, Value
from bittern.bitops.lanes import Lanes
from bittern.chips.machine.routine import Virtual
from bittern.chips.x86.select.scalars import whole_number
from bittern.chips.x86.select.selector import LOGIC, Selector, selects
from bittern.chips.x86.select.uses import is_general

_COLUMNS = (0xF0, 0xCC, 0xAA)
_MEANINGS: Mapping[str, Callable[..., int]] = {
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x: x ^ 0xFF,
}


@selects("and", "or", "xor", "not")
def _logic(s: Selector, step: Step) -> None:
    of = step.results[0].type
    if of.is_mask and of.is_scalar and step.kind == "not":
        s.whole("xor", s.define(step.results[0]), s.get(step.operands[0]), 1, size=4)
    elif is_general(of):
        whole_number(s, step)
    elif of.is_mask:
        _on_masks(s, step)
    elif s.is_evex:
        _ternary(s, step)
    else:
        _binary(s, step)


# --- vectors with AVX-512


def _ternary(s: Selector, step: Step) -> None:
    leaves: list[Value] = []
    folded: list[Value] = []
    _gather(s, step, leaves, folded, 3)
    leaves = list(dict.fromkeys(leaves))
    if len(leaves) <= 2 and not folded and step.kind != "not":
        _plain(s, step)
        return
    if len(leaves) == 2 and step.kind == "and" and (inverted := _inverted(s, step)) is not None:
        _and_not(s, step, *inverted)
        return
    table = _table(s, step, leaves, folded)
    for value in folded:
        s.fold(value)
    _write_ternary(s, step, leaves, table)


def _gather(s: Selector, step: Step, leaves: list[Value], folded: list[Value], most: int) -> None:
    """Collect the inputs of a tree of steps that wait, as long as there are no more than `most` different ones."""
    roots = [s.uses.root(v) for v in step.operands]
    leaves += roots
    for root in roots:
        child = s.pending.get(root)
        if child is None or child.kind not in LOGIC:
            continue
        tried, inside = list(leaves), list(folded)
        tried.remove(root)
        inside.append(root)
        _gather(s, child, tried, inside, most)
        if len(set(tried)) <= most:
            leaves[:], folded[:] = tried, inside


def _table(s: Selector, step: Step, leaves: list[Value], folded: list[Value]) -> int:
    columns = dict(zip(leaves, _COLUMNS, strict=False))

    def of(value: Value) -> int:
        root = s.uses.root(value)
        if root in folded:
            child = s.pending[root]
            return _MEANINGS[child.kind](*map(of, child.operands))
        return columns[root]

    return _MEANINGS[step.kind](*map(of, step.operands))


def _write_ternary(s: Selector, step: Step, leaves: list[Value], table: int) -> None:
    size = max(16, step.results[0].type.bytes)
    ordered = sorted(leaves, key=lambda v: (s.is_foldable(v), s.uses.counts.get(v, 0) > 1))
    table = reordered(table, [leaves.index(v) for v in ordered])
    first = s.get(ordered[0])
    second = s.get(ordered[1]) if len(ordered) == 3 else first
    last = s.source(ordered[-1], "vpternlogd", size)
    if len(ordered) == 2:  # inputs 0 and 1 become inputs 0 and 2
        table = reordered(table, [0, 2, 1])
    elif len(ordered) == 1:
        table = 0xAA * (table >> 7 & 1) | 0x55 * (table & 1)
    s.tied_op("vpternlogd", s.define(step.results[0]), first, second, last, table, size=size)


def reordered(table: int, order: list[int]) -> int:
    """Return the table of the same function when its inputs are given in another order.

    order: which of the old inputs each new one is; what is left out has no influence.
    """
    found = 0
    for row in range(8):
        old = 0
        for new, which in enumerate(order):
            if row >> (2 - new) & 1:
                old |= 1 << (2 - which)
        found |= (table >> old & 1) << row
    return found


def _plain(s: Selector, step: Step) -> None:
    x, y = step.operands
    size = max(16, step.results[0].type.bytes)
    letter = "d" if element_bytes(s, y, step.results[0].type) == 4 else "q"
    if s.is_foldable(x) and not s.is_foldable(y):
        x, y = y, x
        letter = "d" if element_bytes(s, y, step.results[0].type) == 4 else "q"
    name = f"vp{step.kind}{letter}"
    first = s.get(x)
    s.op(name, s.define(step.results[0]), first, s.source(y, name, size), size=size)


def element_bytes(s: Selector, value: Value, of: Lanes) -> int:
    """Return the bytes of the element that a logical instruction should see: that of a broadcast which it can take."""
    step = s.waiting(value, "broadcast")
    bits = step.operands[0].type.element.bits if step is not None else of.element.bits
    return 8 if bits == 64 else 4


def _inverted(s: Selector, step: Step) -> "tuple[Value, Value] | None":
    """Return (x, y) of an `and` that is ~x & y."""
    for x, y in (step.operands, step.operands[::-1]):
        child = s.waiting(x, "not")
        if child is not None:
            return x, y
    return None


def _and_not(s: Selector, step: Step, x: Value, y: Value) -> None:
    inner = s.fold(x).operands[0]
    size = max(16, step.results[0].type.bytes)
    name = "vpandn"
    if s.is_evex:
        name = "vpandnd" if element_bytes(s, y, step.results[0].type) == 4 else "vpandnq"
    first = s.get(inner)
    s.op(name, s.define(step.results[0]), first, s.source(y, name, size), size=size)


# --- vectors without it


def _binary(s: Selector, step: Step) -> None:
    to_size = max(16, step.results[0].type.bytes)
    if step.kind == "not":
        x = s.get(step.operands[0])
        s.op("vpxor", s.define(step.results[0]), x, all_ones(s, to_size), size=to_size)
        return
    if step.kind == "and" and (inverted := _inverted(s, step)) is not None:
        _and_not(s, step, *inverted)
        return
    left, right = step.operands
    if s.is_better_last(left, right):
        left, right = right, left
    name = f"vp{step.kind}"
    first = s.get(left)
    s.op(name, s.define(step.results[0]), first, s.source(right, name, to_size), size=to_size)


def all_ones(s: Selector, size: int) -> Virtual:
    """Return a vector register with all bits set."""
    to = s.vector(size)
    if s.is_evex:
        target = s.part(to, size)
        s.set_without_reading("vpternlogd", (target, target, target, 0xFF), to)
        return to
    target = s.part(to, size)
    operands = (target, target) if s.is_legacy else (target, target, target)
    s.set_without_reading(s.named("vpcmpeqd"), operands, to)
    return to


# --- masks

_ON_MASKS = {"and": "kand", "or": "kor", "xor": "kxor", "not": "knot"}


def mask_suffix(count: int) -> str:
    """Return the letter of mask instructions for so many lanes."""
    return "b" if count <= 8 else "w" if count <= 16 else "d" if count <= 32 else "q"


def _on_masks(s: Selector, step: Step) -> None:
    of = step.results[0].type
    if s.is_evex:
        registers = [s.part(s.get(v), 0) for v in step.operands]
        to = s.define(step.results[0])
        s.put(_ON_MASKS[step.kind] + mask_suffix(of.count), (s.part(to, 0), *registers), (to,))
        return
    registers_, bits = s.masks_alike(step.operands)
    size = max(16, bits * of.count // 8)
    to = s.define(step.results[0])
    s.lane_bits[step.results[0]] = bits
    if step.kind == "not":
        s.op("vpxor", to, registers_[0], all_ones(s, size), size=size)
    else:
        s.op(f"vp{step.kind}", to, registers_[0], registers_[1], size=size)
