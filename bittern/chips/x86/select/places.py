"""Places in memory: index arithmetic as polynomials, numbers and pointers computed as far out as they can be.

Selection goes through nested frames: the kernel, loops, branches. A polynomial is computed in the outermost frame that
knows all its atoms; what a deeper frame needs of it is put before that frame. A pointer whose address grows with the
index of a loop is kept in a register and advanced each round (strength reduction; Cocke, Kennedy 1977); accesses that
differ by a constant share it. An index whose factor an addressing mode has (1, 2, 4, 8) is used as it is.
"""

from dataclasses import dataclass, field
from typing import Any

from bittern.bitops.kernel import Value
from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Address, Slot, Virtual
from bittern.chips.x86.features import Tier
from bittern.chips.x86.select.emission import Emission
from bittern.chips.x86.select.polynomial import Polynomial, atom, constant, number_of, plus, scaled, split, times
from bittern.types.dims import Dim, Ratio

_SCALES = (1, 2, 4, 8)
_NEAR = 1 << 31


@dataclass(slots=True, eq=False)
class Atom:
    """What an atom's number stands for. depth: of the frame that makes it. what: a Value, Virtual, symbol or Ratio."""

    depth: int
    what: Any
    is_index: bool = False


@dataclass(slots=True, eq=False)
class Frame:
    """A kernel, a loop or a branch. before: the stream in front of it. cache: what was computed in it, by content.

    Of a loop: index: the atom; low: its first value; stride: what is added each round; register: of the index, once it
    is wanted; advances: pointers, and the bytes that each moves in a round.
    """

    before: list[Any]
    cache: dict[Any, Virtual] = field(default_factory=dict)
    index: int = -1
    low: Polynomial = field(default_factory=dict)
    stride: Polynomial = field(default_factory=dict)
    register: Virtual | None = None
    advances: list[tuple[Virtual, Polynomial]] = field(default_factory=list)


class Places(Emission):
    """See the module. slots: of buffers in the frame. argument: the place of each buffer's address in the arguments."""

    def __init__(self, name: str, tier: Tier) -> None:
        super().__init__(name, tier)
        self.atoms: list[Atom] = []
        self.frames: list[Frame] = [Frame([])]
        self.polynomials: dict[Value, Polynomial] = {}
        self.slots: dict[str, Slot] = {}
        self.argument: dict[str, int] = {}
        self.arguments = self.general(8)
        self._sizes: dict[int | Ratio, int] = {}
        self._dims: dict[Dim, Polynomial] = {}

    def get(self, value: Value) -> Virtual:
        """Return the register of a value."""
        raise NotImplementedError

    # --- atoms

    def new_atom(self, what: Any, depth: int, is_index: bool = False) -> int:
        """Return a new atom."""
        self.atoms.append(Atom(depth, what, is_index))
        return len(self.atoms) - 1

    def of_dim(self, size: Dim) -> Polynomial:
        """Return a polynomial of sizes over atoms."""
        found = self._dims.get(size)
        if found is None:
            total: Polynomial = {}
            for monomial, coefficient in size.terms:
                product = constant(coefficient)
                for part in monomial:
                    product = times(product, atom(self._size_atom(part)))
                total = plus(total, product)
            found = self._dims[size] = total
        return found

    def _size_atom(self, what: "int | Ratio") -> int:
        if what not in self._sizes:
            self._sizes[what] = self.new_atom(what, 0)
        return self._sizes[what]

    def depth_of(self, x: Polynomial) -> int:
        """Return the depth of the frame that knows all atoms of a polynomial."""
        atoms = self.atoms
        return max((atoms[a].depth for monomial in x for a in monomial), default=0)

    # --- numbers

    def cached(self, key: Any) -> "Virtual | None":
        """Return what was computed under a key in a frame around here."""
        for frame in reversed(self.frames):
            if key in frame.cache:
                return frame.cache[key]
        return None

    def enter_depth(self, depth: int) -> list[Any]:
        """Let instructions go where a frame of this depth has them before what is under way; return the old stream."""
        saved = self.out
        if depth + 1 < len(self.frames):
            self.out = self.frames[depth + 1].before
        return saved

    def number(self, x: Polynomial) -> Virtual:
        """Return a general register with the value of a polynomial; it must not be written."""
        if len(x) == 1:
            ((monomial, coefficient),) = x.items()
            if coefficient == 1 and len(monomial) == 1:
                return self._register_of(monomial[0])
        key = ("number", frozenset(x.items()))
        found = self.cached(key)
        if found is None:
            depth = self.depth_of(x)
            saved = self.enter_depth(depth)
            found = self._sum(x, depth)
            self.out = saved
            self.frames[depth].cache[key] = found
        return found

    def _register_of(self, number: int) -> Virtual:
        what = self.atoms[number]
        if what.is_index:
            return self.index_register(self.frames[what.depth])
        if isinstance(what.what, Value):
            return self.get(what.what)
        if isinstance(what.what, Virtual):
            return what.what
        key = ("size", what.what)
        found = self.cached(key)
        if found is None:
            saved = self.enter_depth(0)
            found = self.argument_of(what.what) if isinstance(what.what, int) else self._ratio(what.what)
            self.out = saved
            self.frames[0].cache[key] = found
        return found

    def argument_of(self, position: int, size: int = 8) -> Virtual:
        """Load an argument slot."""
        found = self.general(size)
        self.put(
            "mov", (self.part(found, size), Address(self.arguments, displacement=8 * position, size=size)), (found,)
        )
        return found

    def index_register(self, frame: Frame) -> Virtual:
        """Return the register of a loop's index, which counts from now on."""
        if frame.register is None:
            frame.register = self.general(8)
            saved, self.out = self.out, frame.before
            low = number_of(frame.low)
            if low is not None:
                self.immediate(frame.register, low)
            else:
                self.copy(frame.register, self.number(frame.low))
            self.out = saved
        return frame.register

    def _sum(self, x: Polynomial, depth: int) -> Virtual:
        atoms = self.atoms
        rest = dict(x)
        offset = rest.pop((), 0)
        inner = {m: c for m, c in rest.items() if max(atoms[a].depth for a in m) == depth}
        outer = {m: c for m, c in rest.items() if m not in inner}
        start = self.number(outer) if outer and inner else None
        if start is None and not inner:
            if not rest:
                return self.immediate(self.general(8), offset)
            start = self.number(rest)
        return self.sum_from(start, inner, offset)

    def sum_from(self, start: "Virtual | None", terms: Polynomial, offset: int) -> Virtual:
        """Return start + terms + offset in a register, which may be start."""
        total = start
        ordered = sorted(terms.items(), key=lambda term: term[1] in (1, 2, 4, 8))
        for monomial, coefficient in ordered:
            register = self._product(monomial)
            if total is None and coefficient == 1:
                total = register
                continue
            if coefficient == -1 and total is not None:
                total = self.whole("sub", self.general(8), total, register, size=8)
                continue
            if coefficient not in _SCALES or (total is None and coefficient not in (2, 4, 8)):
                register, coefficient = self.multiple(register, coefficient), 1
                if total is None:
                    total = register
                    continue
            total = self.lea(Address(total, register, coefficient))
        assert total is not None
        if offset:
            total = self._moved(total, offset)
        return total

    def _moved(self, register: Virtual, offset: int) -> Virtual:
        if -_NEAR <= offset < _NEAR:
            return self.lea(Address(register, displacement=offset))
        return self.lea(Address(register, self.immediate(self.general(8), offset)))

    def lea(self, address: Address) -> Virtual:
        """Return a register with an address."""
        found = self.general(8)
        self.put("lea", (self.part(found, 8), address), (found,))
        return found

    def lea_sum(self, x: Virtual, y: Virtual) -> Virtual:
        """Return a register with the sum of two."""
        return self.lea(Address(x, y))

    def multiple(self, register: Virtual, factor: int) -> Virtual:
        """Return a register with a multiple of another one."""
        found = self.general(8)
        if factor > 0 and factor & (factor - 1) == 0:
            self.whole("shl", found, register, factor.bit_length() - 1, size=8)
        elif -_NEAR <= factor < _NEAR:
            self.put("imul", (self.part(found, 8), self.part(register, 8), factor), (found,))
        else:
            self.whole("imul", found, register, self.immediate(self.general(8), factor), size=8)
        return found

    def _product(self, monomial: tuple[int, ...]) -> Virtual:
        if len(monomial) == 1:
            return self._register_of(monomial[0])
        key = ("number", frozenset({monomial: 1}.items()))
        found = self.cached(key)
        if found is None:
            depth = self.depth_of({monomial: 1})
            saved = self.enter_depth(depth)
            left = self._product(monomial[:-1])
            found = self.whole("imul", self.general(8), left, self._register_of(monomial[-1]), size=8)
            self.out = saved
            self.frames[depth].cache[key] = found
        return found

    def _ratio(self, ratio: Ratio) -> Virtual:
        """Compute top / bottom or top % bottom, rounded down; the bottom is positive, or 0 (then 0 and the top)."""
        top, bottom = self.number(self.of_dim(ratio.top)), ratio.bottom.constant
        if bottom is not None and bottom & (bottom - 1) == 0 and bottom:
            shift = bottom.bit_length() - 1
            if ratio.kind == "/":
                return self.whole("sar", self.general(8), top, shift, size=8)
            return self.whole("and", self.general(8), top, self._small(bottom - 1), size=8)
        return self._divided_down(top, self.number(self.of_dim(ratio.bottom)), ratio.kind == "/")

    def _small(self, number: int) -> "Virtual | int":
        return number if number < _NEAR else self.immediate(self.general(8), number)

    def _divided_down(self, top: Virtual, bottom: Virtual, is_quotient: bool) -> Virtual:
        found = self.general(8)
        done, inexact = Label(), Label()
        if is_quotient:
            self.immediate(found, 0)
        else:
            self.copy(found, top)
        self.put("test", (self.part(bottom, 8), self.part(bottom, 8)))
        self.jump("je", done)
        rax, rdx = self.fixed(0), self.fixed(2)
        self.copy(rax, top)
        high = self.fixed(2)
        self.put("cqo", (), (high,), None, (rax,))
        quotient = self.fixed(0)
        self.put("idiv", (self.part(bottom, 8),), (quotient, rdx), None, (rax, high, bottom))
        self.copy(found, quotient if is_quotient else rdx)
        self.put("test", (self.part(rdx, 8), self.part(rdx, 8)))
        self.jump("jns", inexact)
        if is_quotient:
            self.whole("sub", found, found, 1, size=8)
        else:
            self.whole("add", found, found, bottom, size=8)
        self.place(inexact)
        self.place(done)
        return found

    # --- pointers

    def pointer(self, name: str, x: Polynomial) -> Virtual:
        """Return a register with the address of a buffer plus a polynomial of bytes that has no constant term."""
        key = (name, frozenset(x.items()))
        found = self.cached(key)
        if found is None:
            depth = self.depth_of(x)
            frame = self.frames[depth]
            advancing = self._advancing(x, frame, depth) if x else None
            if advancing is not None:
                found = self._advanced(name, *advancing, frame)
            else:
                saved = self.enter_depth(depth)
                found = self._plain_pointer(name, x, frame, depth)
                self.out = saved
            frame.cache[key] = found
        return found

    def _advancing(self, x: Polynomial, frame: Frame, depth: int) -> "tuple[Polynomial, Polynomial] | None":
        """Return factor and rest where the polynomial grows with the index of the frame's loop alone."""
        parts = split(x, frame.index) if frame.index >= 0 else None
        if parts is None or not parts[0]:
            return None
        return None if depth in (self.depth_of(parts[0]), self.depth_of(parts[1])) else parts

    def _advanced(self, name: str, factor: Polynomial, rest: Polynomial, frame: Frame) -> Virtual:
        start = dict(plus(rest, times(factor, frame.low)))
        offset = start.pop((), 0)
        base = self.pointer(name, start)
        found = self.general(8)
        saved, self.out = self.out, frame.before
        if offset:
            self.copy(found, self._moved(base, offset))
        else:
            self.copy(found, base)
        self.out = saved
        frame.advances.append((found, times(factor, frame.stride)))
        return found

    def _plain_pointer(self, name: str, x: Polynomial, frame: Frame, depth: int) -> Virtual:
        if not x:
            if name in self.slots:
                return self.lea(Address(slot=self.slots[name], size=8))
            return self.argument_of(self.argument[name])
        inner = {m: c for m, c in x.items() if self._stays(m, frame, depth)}
        outer = {m: c for m, c in x.items() if m not in inner}
        return self.sum_from(self.pointer(name, outer), inner, 0)

    def _stays(self, monomial: tuple[int, ...], frame: Frame, depth: int) -> bool:
        """Whether a term must be added in the frame itself: it has a value made there, beside or without the index."""
        here = [a for a in monomial if self.atoms[a].depth == depth]
        return bool(here) and (depth == 0 or here != [frame.index])

    def address(self, name: str, place: Polynomial, each: int, offset: int, size: int, lanes: int = 0) -> Address:
        """Return the operand of an access. each: bytes of an element of the buffer. lanes: of a broadcast."""
        x = dict(scaled(place, each))
        offset += x.pop((), 0)
        if not x and name in self.slots:
            return Address(displacement=offset, size=size, broadcast=lanes, slot=self.slots[name])
        if not -_NEAR <= offset < _NEAR:
            base = self._moved(self.pointer(name, x), offset)
            return Address(base, size=size, broadcast=lanes)
        index, scale = self._scaled_term(x)
        return Address(self.pointer(name, x), index, scale, offset, size, lanes)

    def _scaled_term(self, x: dict[tuple[int, ...], int]) -> "tuple[Virtual | None, int]":
        """Take a term out that an addressing mode can add: of the innermost atom alone, times 1, 2, 4 or 8."""
        depth = self.depth_of(x)
        for monomial, coefficient in x.items():
            if len(monomial) == 1 and coefficient in _SCALES and self.atoms[monomial[0]].depth == depth:
                what = self.atoms[monomial[0]]
                if depth == 0 and not isinstance(what.what, Value):
                    continue
                del x[monomial]
                return self._register_of(monomial[0]), coefficient
        return None, 1


def signed(bits: int) -> int:
    """Return the signed number that 64 bits are."""
    return bits - (1 << 64) if bits >> 63 else bits
