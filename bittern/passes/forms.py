"""Forms: what takes a chain's place, one of the functions of the library that make codes of whole numbers.

In goes a chain with the interval of its source, out comes the form and what draws it. The first that fits: signs and
ternary codes by thresholds; codes of up to 15 steps by thresholds (`levels`); codes of codes by a table; wider ones by
one multiplication and one rounding (`requantise`); by a table where the source has few values; by up to 255
thresholds. What turns back, and so has no thresholds, becomes a table if the source has few values.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bittern.front.network.assembly import Assembly
from bittern.graph.node import Node
from bittern.passes.chains import BlockedError, Chain
from bittern.passes.multipliers import Requantisation, requantisation
from bittern.passes.stairs import EVERY, Stairs, Table, can_tabulate, climb, is_few, stairs_of_table, tabulate
from bittern.passes.width import Interval
from bittern.types.elements import Element, Kind
from bittern.types.values import Tensor

_FEW_STEPS = 15  # up to 4 bits: comparing is as cheap as multiplying
_MOST_STEPS = 255
_CODE = 8  # bits of codes
_TABLE = 256  # values of a source that a table takes
_ROWS = 1 << 20  # values in tables of channels
_I32 = (-(1 << 31), (1 << 31) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What a chain becomes. name: of the function or op. draw: makes it of its source. steps: thresholds of a channel.

    falling: how many channels fall. proof: how it is known to be equal. detail: for people.
    """

    name: str
    draw: Callable[[Assembly, Node], Node]
    proof: str
    steps: int = 0
    falling: int = 0
    detail: str = ""


def form_of(chain: Chain, span: Interval, element: Element) -> Form:
    """Return what a chain becomes. span: of its source. element: of its codes. BlockedError where nothing fits."""
    own, is_looked_at = _element(chain.source), can_tabulate(chain, span)
    if not (is_looked_at and is_few(chain, span)):
        try:
            return _of_stairs(climb(chain, span), None, chain, element, own)
        except BlockedError:
            if not is_looked_at:
                raise
    return form_of_table(tabulate(chain, span), span, chain, element, own)


def form_of_table(table: Table, span: Interval, chain: Chain, element: Element, own: Element) -> Form:
    """Return what becomes of a table of a chain's codes. own: the element of what the table is read with."""
    try:
        stairs = stairs_of_table(table, span)
    except ValueError as turned:
        if _fits_lookup(table):
            return _lookup(table, own, element)
        if len(table.x) <= _TABLE and table.codes.size <= _ROWS:
            return _rows(table, element)
        what = f"it turns back in channel {turned.args[0]}, and its source has {len(table.x)} values"
        raise BlockedError(what, chain.end) from turned
    return _of_stairs(stairs, table, chain, element, own)


def _of_stairs(stairs: Stairs, table: Table | None, chain: Chain, element: Element, own: Element) -> Form:
    if bool((stairs.at < _I32[0]).any() or (stairs.at > _I32[1]).any()):
        raise BlockedError("a threshold does not fit 32 bits", chain.end)
    if element.kind is Kind.SIGN:
        return _signs(stairs, element)
    steps = stairs.at.shape[1]
    if steps <= _FEW_STEPS:
        return _levels(stairs, element)
    fits = table is not None and _fits_lookup(table)
    if table is not None and fits and own.bits <= _CODE:
        return _lookup(table, own, element)
    found = requantisation(stairs)
    if found is not None:
        return _requantised(stairs, found, element)
    if table is not None and fits:
        return _lookup(table, own, element)
    if steps > _MOST_STEPS:
        raise BlockedError(f"it has {steps} steps and is no multiple", chain.end)
    return _levels(stairs, element)


def _element(of: Node) -> Element:
    assert isinstance(of.type, Tensor), of
    return of.type.element


# --- drawing


def as_i32(a: Assembly, x: Node) -> Node:
    """Return whole numbers of any element as i32; the caller knows that they fit."""
    assert isinstance(x.type, Tensor), x
    element = x.type.element
    if element.name == "i32":
        return x
    is_inside = element.kind is Kind.SIGN or (_I32[0] <= element.low and element.high <= _I32[1])
    return a.op("convert" if is_inside else "wrap", x, to="i32")


def _channels(x: Node) -> int:
    assert isinstance(x.type, Tensor), x
    size = x.type.shape[-1].constant
    if size is None:
        raise BlockedError("its last axis has no known size", x)
    return size


def _apply(a: Assembly, name: str, x: Node, *arguments: Any, element: str = "") -> Node:
    """Return a function of rows of channels, along all axes in front."""
    assert isinstance(x.type, Tensor), x
    lead = len(x.type.shape) - 1
    elements = {"e": element} if element else {}
    mapped = (True, *(False for _ in arguments))
    return a.call(name, x, *arguments, lead=lead, mapped=mapped, elements=elements)


def _spread(values: Any, x: Node) -> Any:
    """Return numbers of each channel, or of all, for each channel of x."""
    array = np.asarray(values)
    return np.broadcast_to(array, (_channels(x), *array.shape[1:]))


def _signs(stairs: Stairs, element: Element) -> Form:
    """Signs of one threshold, ternary codes of two."""
    is_sign = element.name == "b1"
    never = np.where(stairs.falling, stairs.span.least - 1, stairs.span.most + 1)
    always = np.where(stairs.falling, stairs.span.most, stairs.span.least)
    columns = []
    for code in (1,) if is_sign else (0, 1):
        place = code - stairs.low - 1
        is_step = 0 <= place < stairs.at.shape[1]
        columns.append(stairs.at[:, place] if is_step else always if place < 0 else never)
    at = np.stack(columns, axis=1)
    name = "thresholds.sign_at" if is_sign else "thresholds.ternary_at"

    def draw(a: Assembly, x: Node) -> Node:
        x = as_i32(a, x)
        rows = _spread(at, x)
        falling = a.constant(_spread(stairs.falling, x), "bit")
        return _apply(a, name, x, a.constant(rows[:, 0] if is_sign else rows, "i32"), falling)

    return Form(name, draw, stairs.proof, at.shape[1], int(stairs.falling.sum()))


def _levels(stairs: Stairs, element: Element) -> Form:
    def draw(a: Assembly, x: Node) -> Node:
        x = as_i32(a, x)
        at = a.constant(_spread(stairs.at, x), "i32")
        falling = a.constant(_spread(stairs.falling, x), "bit")
        return _apply(a, "thresholds.levels", x, at, falling, stairs.low, element=element.name)

    return Form("thresholds.levels", draw, stairs.proof, stairs.at.shape[1], int(stairs.falling.sum()))


def _requantised(stairs: Stairs, found: Requantisation, element: Element) -> Form:
    if found.is_even:
        return _even(stairs, found, element)

    def draw(a: Assembly, x: Node) -> Node:
        x = _nudge(a, as_i32(a, x), found)
        if found.spread:
            x = a.op("shl", x, a.spread(a.constant(found.spread, "u32"), x))
        if found.offset is not None:
            x = _apply(a, "requantise.bias", x, a.constant(_spread(found.offset, x), "i32"))
        multiplier = a.constant(_spread(found.multiplier, x), "i32")
        shift = a.constant(_spread(found.shift, x), "u32")
        return _apply(
            *(a, "requantise.requantise", x, multiplier, shift, found.zero, found.low, found.high),
            element=element.name,
        )

    bits = int(np.abs(found.multiplier).max()).bit_length()
    detail = f"multipliers of {bits} bits" + (f", behind x * 2^{found.spread} + offset" if found.spread else "")
    detail += f", up to {len(found.nudges)} places of a channel nudged" if found.nudges else ""
    proof = f"{stairs.proof}; equal on both sides of every step"
    return Form("requantise.requantise", draw, proof, stairs.at.shape[1], int(stairs.falling.sum()), detail)


def _nudge(a: Assembly, x: Node, found: Requantisation) -> Node:
    """Return values of which a few are one more or one less."""
    made = x
    for at, by in found.nudges:
        place, more = (a.spread(a.constant(_spread(values, x), "i32"), x) for values in (at, by))
        none = a.spread(a.constant(0, "i32"), x)
        made = a.op("add", made, a.op("select", a.op("eq", x, place), more, none))
    return made


def _even(stairs: Stairs, found: Requantisation, element: Element) -> Form:
    """One multiplication, and a rounding with ties to even."""

    def draw(a: Assembly, x: Node) -> Node:
        assert isinstance(x.type, Tensor), x
        x = as_i32(a, x)
        factors = a.spread(a.constant(_spread(found.multiplier, x), "i32"), x)
        shifts = a.spread(a.constant(_spread(found.shift, x), "u32"), x)
        lead = len(factors.type.shape) if isinstance(factors.type, Tensor) else 0
        made = a.call("rounding.requantise_half_even", x, factors, shifts, lead=lead, mapped=(True, True, True))
        made = a.scalar("min", a.scalar("max", made, found.low - found.zero), found.high - found.zero)
        return a.op("wrap", a.scalar("add", made, found.zero) if found.zero else made, to=element.name)

    bits = int(np.abs(found.multiplier).max()).bit_length()
    proof = f"{stairs.proof}; equal on both sides of every step"
    detail = f"multipliers of {bits} bits, ties to even"
    return Form("rounding.requantise_half_even", draw, proof, stairs.at.shape[1], int(stairs.falling.sum()), detail)


def _fits_lookup(table: Table) -> bool:
    return table.codes.shape[1] == 1 and int(table.x[-1] - table.x[0]) < _TABLE


def _lookup(table: Table, own: Element, element: Element) -> Form:
    """A table of all values, the same for all channels."""
    first, count = int(table.x[0]), int(table.x[-1] - table.x[0]) + 1
    direct = own.kind is Kind.UNSIGNED and own.bits <= _CODE
    bits = own.bits if direct else max(2, (count - 1).bit_length())
    start = 0 if direct else first
    place = np.clip(np.searchsorted(table.x, start + np.arange(1 << bits)), 0, len(table.x) - 1)
    values = table.codes[place, 0]

    def draw(a: Assembly, x: Node) -> Node:
        entry = x if direct else _entry(a, x, first, f"u{bits}")
        return a.op("lookup", a.constant(values, element.name), entry)

    return Form("lookup", draw, EVERY, 0, 0, f"{count} values")


def _entry(a: Assembly, x: Node, first: int, element: str) -> Node:
    x = as_i32(a, x)
    return a.op("wrap", a.scalar("sub", x, first) if first else x, to=element)


def _rows(table: Table, element: Element) -> Form:
    """A table for each channel."""
    first = int(table.x[0])
    place = np.searchsorted(table.x, np.arange(first, int(table.x[-1]) + 1))  # where none is, any code will do
    values = table.codes[place].T

    def draw(a: Assembly, x: Node) -> Node:
        assert isinstance(x.type, Tensor), x
        entry = _entry(a, x, first, "u32")
        channel = a.spread(a.op("iota", count=_channels(x)), entry)
        return a.op("take", a.constant(values, element.name), channel, entry)

    return Form("take", draw, EVERY, 0, 0, f"{values.shape[1]} values of each channel")
