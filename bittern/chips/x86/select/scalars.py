"""Integer scalars in general registers.

Up to 32 bits they are computed in 32 and, where a result of 8 or 16 bits may have left its range, extended again by
their own sign. Division, which traps on what a kind defines, is guarded.
"""

from collections.abc import Callable
from typing import TypeAlias

from bittern.bitops.kernel import Step, Value
from bittern.bitops.lanes import Lanes
from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Part, Virtual
from bittern.chips.x86.select.constants import signed_extension
from bittern.chips.x86.select.selector import Selector

_Whole: TypeAlias = Callable[[Selector, Step, Virtual, int], None]

_WHOLE: dict[str, _Whole] = {}
_NEAR = 1 << 31


def _whole(*kinds: str) -> Callable[[_Whole], _Whole]:
    def declare(function: _Whole) -> _Whole:
        _WHOLE.update(dict.fromkeys(kinds, function))
        return function

    return declare


def whole_number(s: Selector, step: Step) -> None:
    """Write a step on integer scalars."""
    to = s.define(step.results[0])
    _WHOLE[step.kind](s, step, to, to.size)


def literal(s: Selector, value: Value) -> "int | None":
    """Return a constant as an immediate, if it is one and fits."""
    bits = s.constant_bits(value)
    if bits is None:
        return None
    number = signed_extension(s.uses.root(value).type, bits[0])
    of = value.type
    if of.element.bits == 32 and number >= _NEAR:
        number -= 1 << 32
    if of.element.bits == 64 and number >= 1 << 63:
        number -= 1 << 64
    return number if -_NEAR <= number < _NEAR else None


def operand(s: Selector, value: Value, size: int) -> "Part | int | object":
    """Return a scalar as the last source of an instruction: an immediate, memory, or its register."""
    number = literal(s, value)
    if number is not None:
        return number
    root = s.uses.root(value)
    if s.waiting(root, "load") is not None and root.type.bytes == size and size >= 4:
        return s.access(s.fold(root), size)
    return s.part(s.get(root), size)


def extend(s: Selector, to: Virtual, of: Lanes) -> None:
    """Bring a result of 8 or 16 bits back into its range."""
    if of.element.bits < 32:
        name = "movsx" if of.is_signed else "movzx"
        s.put(name, (s.part(to, 4), s.part(to, of.element.bits // 8)), (to,))


_TWO = {"add": "add", "sub": "sub", "mul": "imul", "and": "and", "or": "or", "xor": "xor"}


@_whole("add", "sub", "mul", "and", "or", "xor")
def _two(s: Selector, step: Step, to: Virtual, size: int) -> None:
    x, y = step.operands
    if step.kind != "sub" and (s.is_foldable(x) or literal(s, x) is not None):
        x, y = y, x
    held = s.get(x)
    source = operand(s, y, size)
    if step.kind == "mul" and isinstance(source, int):
        s.put("imul", (s.part(to, size), s.part(held, size), source), (to,))
    else:
        s.whole(_TWO[step.kind], to, held, source, size=size)  # type: ignore[arg-type]
    if step.kind in ("add", "sub", "mul"):
        extend(s, to, step.results[0].type)


@_whole("neg", "not")
def _one(s: Selector, step: Step, to: Virtual, size: int) -> None:
    s.whole(step.kind, to, s.get(step.operands[0]), size=size)
    extend(s, to, step.results[0].type)


@_whole("abs")
def _abs(s: Selector, step: Step, to: Virtual, size: int) -> None:
    x = s.get(step.operands[0])
    minus = s.whole("neg", s.general(size), x, size=size)  # the sign flag is that of -x
    s.whole("cmovs", to, minus, x, size=size)
    extend(s, to, step.results[0].type)


@_whole("min", "max")
def _extreme(s: Selector, step: Step, to: Virtual, size: int) -> None:
    x, y = s.get(step.operands[0]), s.get(step.operands[1])
    s.put("cmp", (s.part(x, size), s.part(y, size)))
    below = "l" if step.results[0].type.is_signed else "b"
    above = "g" if step.results[0].type.is_signed else "a"
    s.whole(f"cmov{below if step.kind == 'min' else above}", to, y, x, size=size)


# --- shifts


@_whole("shl", "shr")
def _shift(s: Selector, step: Step, to: Virtual, size: int) -> None:
    of, (x, count) = step.results[0].type, step.operands
    width = of.element.bits
    name = "shl" if step.kind == "shl" else "sar" if of.is_signed else "shr"
    bits = s.constant_bits(count)
    if bits is not None:
        number = bits[0]
        if number >= width and name != "sar":
            s.immediate(to, 0)
            return
        s.whole(name, to, s.get(x), min(number, width - 1), size=size)
    else:
        _by_register(s, name, to, s.get(x), count, width)
    if name == "shl":
        extend(s, to, of)


def _by_register(s: Selector, name: str, to: Virtual, x: Virtual, count: Value, width: int) -> None:
    """Shift by a number that is known when running; counts of the width or more give 0, or all sign bits."""
    size, by = to.size, s.get(count)
    _, most = s.facts.range_of(count)
    is_inside = most is not None and most < width
    if name == "sar" and not is_inside:
        by = _at_most(s, by, width - 1)
    raw = to if is_inside or name == "sar" else s.general(size)
    if "bmi2" in s.tier.features:
        s.put(name + "x", (s.part(raw, size), s.part(x, size), s.part(by, size)), (raw,))
    else:
        cl = s.fixed(1, by.size)
        s.copy(cl, by)
        s.whole(name, raw, x, s.part(cl, 1), size=size)
    if raw is not to:
        zero = s.immediate(s.general(size), 0)
        s.put("cmp", (s.part(by, by.size), width))
        s.whole("cmovae", to, raw, zero, size=size)


def _at_most(s: Selector, x: Virtual, most: int) -> Virtual:
    """Return the unsigned minimum of a register and a number."""
    found, limit = s.general(x.size), s.immediate(s.general(x.size), most)
    s.put("cmp", (s.part(x, x.size), most))
    return s.whole("cmova", found, x, limit, size=x.size)


@_whole("rotl", "rotr")
def _rotate(s: Selector, step: Step, to: Virtual, size: int) -> None:
    of, (x, count) = step.results[0].type, step.operands
    width, bits = of.element.bits, s.constant_bits(count)
    name = "rol" if step.kind == "rotl" else "ror"
    if bits is None:
        cl = s.fixed(1, s.get(count).size)
        s.copy(cl, s.get(count))
        s.whole(name, to, s.get(x), s.part(cl, 1), size=width // 8)
        return
    number = bits[0] % width
    if "bmi2" in s.tier.features and width >= 32:
        source = operand(s, x, size)
        right = number if name == "ror" else -number % width
        s.put("rorx", (s.part(to, size), source, right), (to,))  # type: ignore[arg-type]
    else:
        s.whole(name, to, s.get(x), number, size=width // 8)


# --- bits


@_whole("popcount", "extract", "deposit")
def _bits(s: Selector, step: Step, to: Virtual, size: int) -> None:
    if step.kind == "popcount":
        s.put("popcnt", (s.part(to, size), operand(s, step.operands[0], size)), (to,))  # type: ignore[arg-type]
        return
    name = "pext" if step.kind == "extract" else "pdep"
    x, mask = (s.get(v) for v in step.operands)
    s.put(name, (s.part(to, size), s.part(x, size), s.part(mask, size)), (to,))


@_whole("clz")
def _clz(s: Selector, step: Step, to: Virtual, size: int) -> None:
    s.put("lzcnt", (s.part(to, size), s.part(s.get(step.operands[0]), size)), (to,))
    if (width := step.results[0].type.element.bits) < 32:
        s.whole("sub", to, to, 32 - width, size=size)


@_whole("ctz")
def _ctz(s: Selector, step: Step, to: Virtual, size: int) -> None:
    """Put a one above a narrow number, so that none is found beyond its width."""
    x, width = s.get(step.operands[0]), step.results[0].type.element.bits
    if width < 32:
        x = s.whole("or", s.general(4), x, 1 << width, size=4)
    s.put("tzcnt", (s.part(to, size), s.part(x, size)), (to,))


@_whole("reverse_bytes")
def _reverse_bytes(s: Selector, step: Step, to: Virtual, size: int) -> None:
    x, width = s.get(step.operands[0]), step.results[0].type.element.bits
    if width >= 32:
        s.whole("bswap", to, x, size=size)
    elif width == 16:
        s.whole("rol", to, x, 8, size=2)
    else:
        s.copy(to, x)


# --- products and quotients


@_whole("mul_high")
def _mul_high(s: Selector, step: Step, to: Virtual, size: int) -> None:
    of = step.results[0].type
    x, y = (s.get(v) for v in step.operands)
    if size == 8:
        rax, low, high = s.fixed(0), s.fixed(0), s.fixed(2)
        s.copy(rax, x)
        s.put("imul" if of.is_signed else "mul", (s.part(y, 8),), (low, high), None, (rax, y))
        s.copy(to, high)
        return
    if of.element.bits < 32:
        s.whole("imul", to, x, y, size=4)
        s.whole("sar" if of.is_signed else "shr", to, to, of.element.bits, size=4)
        return
    wide = [s.general(8) for _ in range(2)]
    for register, source in zip(wide, (x, y), strict=True):
        if of.is_signed:
            s.put("movsxd", (s.part(register, 8), s.part(source, 4)), (register,))
        else:
            s.put("mov", (s.part(register, 4), s.part(source, 4)), (register,))
    product = s.whole("imul", s.general(8), wide[0], wide[1], size=8)
    shifted = s.whole("shr", s.general(8), product, 32, size=8)
    s.put("mov", (s.part(to, 4), s.part(shifted, 4)), (to,))


@_whole("div", "rem")
def _divide(s: Selector, step: Step, to: Virtual, size: int) -> None:
    """Divide; x / 0 = 0, x % 0 = x, MIN / -1 = MIN. Narrow numbers cannot overflow in 32 bits."""
    of, (x, y) = step.results[0].type, step.operands
    number, is_rest = literal(s, y), step.kind == "rem"
    top = s.get(x)
    low, _ = s.facts.range_of(x)
    is_signed = of.is_signed and not (low is not None and low >= 0 and number is not None and number > 0)
    if number is not None and number > 0 and number & (number - 1) == 0 and not is_signed:
        _by_power(s, to, top, number, is_rest)
        return
    done = Label()
    bottom = s.get(y)
    if not number:
        _prepare(s, to, top, is_rest)
        s.put("test", (s.part(bottom, size), s.part(bottom, size)))
        s.jump("je", done)
    if is_signed and size >= 4 and of.element.bits >= 32 and (number is None or number == -1):
        _guard_minus_one(s, to, top, bottom, is_rest, done)
    _plain_division(s, to, top, bottom, is_rest, is_signed)
    s.place(done)
    if of.is_signed:
        extend(s, to, of)


def _prepare(s: Selector, to: Virtual, top: Virtual, is_rest: bool) -> None:
    if is_rest:
        s.copy(to, top)
    else:
        s.immediate(to, 0)


def _by_power(s: Selector, to: Virtual, top: Virtual, number: int, is_rest: bool) -> None:
    if is_rest:
        s.whole("and", to, top, number - 1, size=to.size)
    else:
        s.whole("shr", to, top, number.bit_length() - 1, size=to.size)


def _guard_minus_one(s: Selector, to: Virtual, top: Virtual, bottom: Virtual, is_rest: bool, done: Label) -> None:
    other = Label()
    s.put("cmp", (s.part(bottom, to.size), -1))
    s.jump("jne", other)
    if is_rest:
        s.immediate(to, 0)
    else:
        s.whole("neg", to, top, size=to.size)
    s.jump("jmp", done)
    s.place(other)


def _plain_division(s: Selector, to: Virtual, top: Virtual, bottom: Virtual, is_rest: bool, is_signed: bool) -> None:
    size = to.size
    rax, high = s.fixed(0, size), s.fixed(2, size)
    s.copy(rax, top)
    if is_signed:
        s.put("cqo" if size == 8 else "cdq", (), (high,), None, (rax,))
    else:
        s.immediate(high, 0)
    quotient, rest = s.fixed(0, size), s.fixed(2, size)
    s.put("idiv" if is_signed else "div", (s.part(bottom, size),), (quotient, rest), None, (rax, high, bottom))
    s.copy(to, rest if is_rest else quotient)
