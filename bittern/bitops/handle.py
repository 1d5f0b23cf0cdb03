"""A value in a builder's hands, with operators that make steps.

A number beside a handle is a constant of the handle's type. `x < y` makes a mask; equality is written `x.eq(y)`,
because `==` compares handles. `>` and `>=` swap their operands.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from bittern.bitops.kernel import Value
from bittern.bitops.lanes import Lanes, bits_of_array, unsigned
from bittern.types.dims import Dim

if TYPE_CHECKING:
    from bittern.bitops.builder import Builder

Literal: TypeAlias = int | float | bool


def constant_bits(of: Lanes, number: "Literal | Sequence[Literal] | np.ndarray[Any, Any]") -> tuple[int, ...]:
    """Return the bits of a constant's lanes. number: one for all lanes, or one each, each a value of the element."""
    many = np.ndim(number) > 0
    numbers = [n.item() if isinstance(n, np.generic) else n for n in number] if many else [number]  # type: ignore[union-attr]
    assert len(numbers) in (1, of.count), (len(numbers), str(of))
    if of.is_mask:
        found = np.array([bool(n) for n in numbers])
    elif of.is_integer:
        assert all(isinstance(n, int) and of.element.low <= n <= of.element.high for n in numbers), (numbers, str(of))
        found = np.array(numbers, dtype=of.dtype)
    else:
        name = of.element.name
        if name == "bf16":
            wide = np.array(numbers, dtype=np.float32).view(np.uint32)
            assert not (wide & 0xFFFF).any(), (numbers, "no values of bf16")
            found = (wide >> 16).astype(np.uint16)
        else:
            found = np.array(numbers, dtype=of.dtype)
    return bits_of_array(found)


class Handle:
    """A value and its builder."""

    __slots__ = ("builder", "value")

    def __init__(self, builder: "Builder", value: Value) -> None:
        self.builder, self.value = builder, value

    @property
    def type(self) -> Lanes:
        """The type of the value."""
        return self.value.type

    def like(self, other: "Handle | Literal | Dim") -> "Handle":
        """Return the other operand as a handle; a number becomes a constant of this type."""
        if isinstance(other, Handle):
            return other
        if isinstance(other, Dim):
            return self.builder.index(other)
        return self.builder.const(self.type, other)

    def _binary(self, kind: str, other: "Handle | Literal | Dim", swap: bool = False) -> "Handle":
        right = self.like(other)
        return self.builder.make(kind, right, self) if swap else self.builder.make(kind, self, right)

    def __add__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("add", other)

    def __radd__(self, other: "Literal | Dim") -> "Handle":
        return self._binary("add", other, swap=True)

    def __sub__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("sub", other)

    def __rsub__(self, other: "Literal | Dim") -> "Handle":
        return self._binary("sub", other, swap=True)

    def __mul__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("mul", other)

    def __rmul__(self, other: "Literal | Dim") -> "Handle":
        return self._binary("mul", other, swap=True)

    def __truediv__(self, other: "Handle | Literal") -> "Handle":
        return self._binary("div", other)

    def __rtruediv__(self, other: Literal) -> "Handle":
        return self._binary("div", other, swap=True)

    def __floordiv__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("div", other)  # truncates

    def __mod__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("rem", other)

    def __and__(self, other: "Handle | Literal") -> "Handle":
        return self._binary("and", other)

    def __or__(self, other: "Handle | Literal") -> "Handle":
        return self._binary("or", other)

    def __xor__(self, other: "Handle | Literal") -> "Handle":
        return self._binary("xor", other)

    def __invert__(self) -> "Handle":
        return self.builder.make("not", self)

    def __neg__(self) -> "Handle":
        return self.builder.make("neg", self)

    def _counts(self, count: "Handle | int") -> "Handle":
        return count if isinstance(count, Handle) else self.builder.const(unsigned(self.type), count)

    def __lshift__(self, count: "Handle | int") -> "Handle":
        return self.builder.make("shl", self, self._counts(count))

    def __rshift__(self, count: "Handle | int") -> "Handle":
        return self.builder.make("shr", self, self._counts(count))

    def rotl(self, count: "Handle | int") -> "Handle":
        """Rotate upwards."""
        return self.builder.make("rotl", self, self._counts(count))

    def rotr(self, count: "Handle | int") -> "Handle":
        """Rotate downwards."""
        return self.builder.make("rotr", self, self._counts(count))

    def __lt__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("lt", other)

    def __le__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("le", other)

    def __gt__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("lt", other, swap=True)

    def __ge__(self, other: "Handle | Literal | Dim") -> "Handle":
        return self._binary("le", other, swap=True)

    def eq(self, other: "Handle | Literal | Dim") -> "Handle":
        """Make the mask of equal lanes."""
        return self._binary("eq", other)

    def ne(self, other: "Handle | Literal | Dim") -> "Handle":
        """Make the mask of unequal lanes."""
        return self._binary("ne", other)

    def min(self, other: "Handle | Literal | Dim") -> "Handle":
        """Return self if self < other, else other."""
        return self._binary("min", other)

    def max(self, other: "Handle | Literal | Dim") -> "Handle":
        """Return self if self > other, else other."""
        return self._binary("max", other)

    def unary(self, kind: str) -> "Handle":
        """Make a step of a kind with one operand: sqrt, abs, floor, round_even, popcount, clz, bits, ..."""
        return self.builder.make(kind, self)

    def binary(self, kind: str, other: "Handle | Literal") -> "Handle":
        """Make a step of a kind with two operands of one type: add_sat, mul_high, extract, ..."""
        return self._binary(kind, other)

    def convert(self, to: str) -> "Handle":
        """Return equal values of another element."""
        return self.builder.make("convert", self, to=to)

    def wrap(self, to: str) -> "Handle":
        """Return the low bits as another integer element."""
        return self.builder.make("wrap", self, to=to)

    def sat(self, to: str) -> "Handle":
        """Return integers clamped to another element."""
        return self.builder.make("sat", self, to=to)

    def round(self, to: str) -> "Handle":
        """Round floats to an integer or a narrower float element."""
        return self.builder.make("round", self, to=to)

    def reinterpret(self, to: str) -> "Handle":
        """Return the same bits as another element."""
        return self.builder.make("reinterpret", self, to=to)

    def bits(self) -> "Handle":
        """Return floats as unsigned integers, each NaN the canonical one."""
        return self.builder.make("bits", self)

    def broadcast(self, count: int) -> "Handle":
        """Return a vector with the scalar in each lane; one lane: the scalar itself."""
        return self if count == 1 else self.builder.make("broadcast", self, lanes=count)

    def lane(self, k: int) -> "Handle":
        """Return the scalar in a lane."""
        return self if self.type.is_scalar else self.builder.make("lane", self, lane=k)

    def part(self, first: int, count: int) -> "Handle":
        """Return `count` lanes from lane `first` on, a multiple of count."""
        if count == self.type.count:
            return self
        return self.lane(first) if count == 1 else self.builder.make("part", self, first=first, lanes=count)

    def shuffle(self, picks: Sequence[int], other: "Handle | None" = None) -> "Handle":
        """Return lanes picks[k] of this and the other vector."""
        operands = [self] if other is None else [self, other]
        return self.builder.make("shuffle", *operands, picks=tuple(picks))

    def lookup(self, *tables: "Handle") -> "Handle":
        """Return the entries of the tables whose numbers these codes are."""
        return self.builder.make("lookup", self, *tables)

    def mask_word(self) -> "Handle":
        """Return the mask as u64, lane k in bit k."""
        return self.builder.make("mask_word", self)

    def dot(self, other: "Handle", total: "Handle | None" = None) -> "Handle":
        """Return the exact products in groups of four (u8 with i8) or two (i16), added to total or 0, as i32."""
        group = 4 if self.type.element.name == "u8" else 2
        if total is None:
            total = self.builder.const(self.type.to("u8").of(self.type.count // group).to("i32"), 0)
        return self.builder.make(f"dot{group}", total, self, other)

    def fold(self, kind: str) -> "Handle":
        """Fold all lanes into one scalar by halves: lane k with k + n/2, then k + n/4, ... (the tree of reductions)."""
        x = self
        while not x.type.is_scalar:
            half = x.type.count // 2
            x = x.part(0, half).binary(kind, x.part(half, half))
        return x
