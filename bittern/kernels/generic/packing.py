"""Ops between values and their bytes or packed codes: `from_bits` of bytes, `pack`, `unpack`."""

from collections.abc import Callable
from math import prod

from bittern.bitops.handle import Handle
from bittern.bitops.lanes import WIDTH, lanes
from bittern.kernels.generic.context import Context, Site
from bittern.kernels.generic.conversions import code_of, from_word, value_of
from bittern.kernels.generic.emitter import NotLanesError, TooWideError
from bittern.kernels.generic.places import Place, Places, every, has_lane, number, variable
from bittern.kernels.generic.views import MOST, Promoted, View, computed, promoted


def takes_bytes(w: Site) -> bool:
    """Whether a `from_bits` joins the bytes of its operand's last axis."""
    source = w.operands[0]
    return source.name == "u8" and (w.result.is_float or w.result.is_integer) and w.result.bits > 8


def joined_bytes(c: Context, w: Site, x: View) -> View:
    """Return the values whose bytes, low byte first, are on the last axis."""
    size = w.result.bits // 8
    if isinstance(x, Promoted) and prod(w.shape) <= MOST:
        return promoted(c.e, w.result, w.shape, [_word(c, w, x, p, size) for p in every(w.shape)])
    return computed(w.result, w.shape, (x,), 1 + x.cost, lambda p: _word(c, w, x, p, size))


def _word(c: Context, w: Site, x: View, p: Places, size: int) -> Handle:
    word = _loaded(c, x, p, size)
    if word is None:
        word = _combined(c, x, p, size)
    return from_word(c.e, w.result, word)


def _loaded(c: Context, x: View, p: Places, size: int) -> Handle | None:
    """Load the word where its bytes are in memory behind each other."""
    e = c.e
    found = [x.locate((*p, number(k))) for k in range(size)]
    first = found[0]
    if first is None or any(f is None or f[1] != first[1] + k for k, f in enumerate(found)):
        return None
    buffer, place = first
    factor = place.factor_of_lane() if e.lanes else 0
    if factor not in (0, size):
        return None
    of = lanes(f"u{8 * size}")
    if factor:
        if of.bits * e.lanes > WIDTH:
            raise TooWideError
        of = of.of(e.lanes)
    return buffer.load(of, e.index_of(place.without_lane()))


def _combined(c: Context, x: View, p: Places, size: int) -> Handle:
    e, to = c.e, f"u{8 * size}"
    total: Handle | None = None
    for k in range(size):
        byte = x.at(e, (*p, number(k)))
        if lanes(to).bits * byte.type.count > WIDTH:
            raise TooWideError
        part = byte.convert(to) << 8 * k
        total = part if total is None else e.apply("or", total, part)
    assert total is not None
    return total


# --- packed codes


def _count_word(c: Context, place: Place) -> Handle:
    return c.e.word_of(place, "u8")


def _clamped(c: Context, place: Place, size: int) -> Place:
    if place.high < size:
        return place
    if has_lane(place):
        raise NotLanesError
    return variable(c.e.index_of(place).min(size - 1).value, min(place.low, size - 1), size - 1)


def packed(c: Context, w: Site, x: View) -> View:
    """Return codes of k bits as bytes, the first in the low bits; what is behind the last one is 0."""
    width, n, e = w.attributes["bits"], x.shape[0], c.e
    steps = 1 if 8 % width == 0 else 0
    most = 8 // width if steps else 8 // width + 2

    def make(p: Places) -> Handle:
        first, shift = (p[0] * 8) // width, (p[0] * 8) % width
        total = e.const("u8", 0)
        for k in range(most):
            place = first + k
            if place.low >= n:
                break
            code = code_of(e, x.element, x.at(e, (_clamped(c, place, n),)), width)
            code = _moved(c, code, shift, k * width)
            if place.high >= n:
                code = e.choose(e.index_of(place) < n, code, e.const("u8", 0))
            total = e.apply("or", total, code)
        return total

    cost = most * (x.cost + 4)
    if isinstance(x, Promoted) and w.shape[0] <= MOST:
        return promoted(e, w.result, w.shape, [make(p) for p in every(w.shape)])
    return computed(w.result, w.shape, (x,), cost, make)


def _moved(c: Context, code: Handle, shift: Place, up: int) -> Handle:
    """Return code * 2^up / 2^shift; one of both amounts is spent first, so that no bit is lost."""
    e = c.e
    if shift.constant is not None:
        by = up - shift.constant
        return code << by if by >= 0 and by < 8 else code >> -by if by < 0 else e.like(code, 0)
    if not up:
        return e.apply("shr", code, _count_word(c, shift))
    wide = code.convert("u16") << up
    return e.apply("shr", wide, e.word_of(shift, "u16")).wrap("u8")


def unpacked(c: Context, w: Site, x: View) -> View:
    """Return the codes of k bits in bytes, the first in the low bits."""
    width, e, last = w.result.bits, c.e, x.shape[0]

    def make(p: Places) -> Handle:
        byte, shift = (p[0] * width) // 8, (p[0] * width) % 8
        low = x.at(e, (byte,))
        if 8 % width == 0 or shift.high + width <= 8:
            code = e.apply("shr", low, _count_word(c, shift))
        else:
            high = x.at(e, (_clamped(c, byte + 1, last),))
            both = e.apply("or", low.convert("u16"), high.convert("u16") << 8)
            code = e.apply("shr", both, e.word_of(shift, "u16")).wrap("u8")
        return value_of(e, w.result, code & ((1 << width) - 1) if width < 8 else code)

    cost = 2 * x.cost + 4
    if isinstance(x, Promoted) and w.shape[0] <= MOST:
        return promoted(e, w.result, w.shape, [make(p) for p in every(w.shape)])
    return computed(w.result, w.shape, (x,), cost, make)


ROWS: dict[str, Callable[..., View]] = {"pack": packed, "unpack": unpacked}
