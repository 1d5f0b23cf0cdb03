"""Selects instructions for a kernel: walks its steps and lets the handler of each kind write them.

A step whose result is used once, in its own block, may wait (`pending`) until its user asks for it: a load becomes a
memory operand, a broadcast of a load an embedded broadcast, an `and` a part of a VPTERNLOG, a comparison the condition
of a jump. What waits and reads memory is written before a store that might change it. Constants and index arithmetic
are written where and if they are wanted.

Handlers are declared with `@selects("kind")`; families of them are the other files of this folder.

How values are held: integers of up to 32 bits in the low 32 bits of a general register, extended by their own sign;
64 bits and `index` in a whole one; truths as 0 or 1; f16 and bf16 scalars as their bits; f32 and f64 scalars in lane 0
of a vector register; vectors in the low bytes of one; masks of AVX-512 in mask registers, other masks as vectors of
integers with all or no bits set.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TypeAlias

from bittern.bitops.kernel import Block, Kernel, Step, Value
from bittern.bitops.kinds import KINDS
from bittern.bitops.lanes import Lanes
from bittern.bitops.verify import Facts
from bittern.chips.machine.routine import Address, Part, Routine, Virtual
from bittern.chips.x86.features import Tier
from bittern.chips.x86.select.places import Places, signed
from bittern.chips.x86.select.polynomial import Polynomial, atom, constant, plus, scaled, times
from bittern.chips.x86.select.table import element_of, form_of
from bittern.chips.x86.select.uses import Uses, is_general, uses_of

Handler: TypeAlias = "Callable[[Selector, Step], None]"

HANDLERS: dict[str, Handler] = {}
_FAMILIES = (
    "arithmetic", "scalars", "logic", "comparing", "converting", "moving", "shuffling", "memory", "control",
    "constants",
)  # fmt: skip
LOGIC = frozenset(("and", "or", "xor", "not"))
_CHAIN = 16
_COMPARES = frozenset(("eq", "ne", "lt", "le"))


def selects(*kinds: str) -> Callable[[Handler], Handler]:
    """Declare the decorated function as the handler of kinds."""

    def declare(function: Handler) -> Handler:
        for kind in kinds:
            assert kind not in HANDLERS, kind
            HANDLERS[kind] = function
        return function

    return declare


def handlers() -> dict[str, Handler]:
    """Return the whole table, loading the families on first use."""
    for family in _FAMILIES:
        import_module(f"bittern.chips.x86.select.{family}")
    return HANDLERS


class Selector(Places):
    """See the module."""

    def __init__(self, kernel: Kernel, tier: Tier, facts: Facts) -> None:
        super().__init__(kernel.name, tier)
        self.kernel, self.facts = kernel, facts
        self.uses: Uses = uses_of(kernel)
        self.buffers = {b.name: b for b in kernel.buffers}
        self.held: dict[Value, Virtual] = {}
        self.depths: dict[Value, int] = {}
        self.lane_bits: dict[Value, int] = {}  # of masks in vector registers
        self.pending: dict[Value, Step] = {}
        self.table = handlers()
        self.chains: dict[Value, int] = {}  # how many steps of logic wait for each other

    def run(self) -> Routine:
        """Return the routine."""
        arguments = self.arguments = self.fixed(7)
        self.routine.arguments = (arguments, self.fixed(6), self.fixed(2))
        kept = tuple(self.general(8) for _ in range(3))
        self.moves(kept, self.routine.arguments)
        self.arguments, self.thread, self.threads = kept
        position = len(self.kernel.symbols)
        for buffer in self.kernel.buffers:
            if buffer.access == "scratch":
                size = buffer.size.constant
                assert size is not None, ("scratch of unknown size", buffer)
                self.slots[buffer.name] = self.routine.slot(max(1, size * buffer.element.bits // 8), 64)
            else:
                self.argument[buffer.name] = position
                position += 1
        for parameter in self.kernel.parameters:
            self._parameter(parameter.value, position)
            position += 1
        self.block(self.kernel.body)
        self.label = ""
        if not self.is_legacy:
            self.put("vzeroupper", ())
        self.put("ret", ())
        return self.finish()

    def _parameter(self, value: Value, position: int) -> None:
        """Read a parameter from its slot, if it is used."""
        if not self.uses.counts.get(value):
            return
        to = self.define(value)
        of = value.type
        place = Address(self.arguments, displacement=8 * position, size=max(1, of.bytes))
        self.load_scalar(to, of, place)

    # --- values

    def define(self, value: Value) -> Virtual:
        """Return a new register for a value, which it is held in from now on."""
        return self.hold(value, self.register_for(value.type))

    def hold(self, value: Value, register: Virtual) -> Virtual:
        """Say in which register a value is."""
        self.held[value] = register
        self.depths[value] = len(self.frames) - 1
        return register

    def register_for(self, of: Lanes) -> Virtual:
        """Return a new register for a value of a type."""
        if of.is_scalar and not of.is_float:
            return self.general(8 if of.element.bits == 64 else 4)
        if of.is_mask and self.is_evex:
            return self.mask()
        return self.vector(self.tier.vector if of.is_mask else of.bytes)

    def get(self, value: Value) -> Virtual:
        """Return the register of a value, which must not be written."""
        value = self.uses.root(value)
        found = self.held.get(value)
        if found is not None:
            return found
        if value in self.polynomials:
            return self.number(self.polynomials[value])
        step = self.pending.pop(value, None)
        if step is None:
            return self.constant(value)
        self.write(step)
        return self.held[value]

    def maker(self, value: Value) -> "Step | None":
        """Return the step that makes the root of a value."""
        return self.uses.makers.get(self.uses.root(value))

    def waiting(self, value: Value, kind: str) -> "Step | None":
        """Return the step of a value if it waits to be folded into its user and is of a kind."""
        step = self.pending.get(self.uses.root(value))
        return step if step is not None and step.kind == kind else None

    def fold(self, value: Value) -> Step:
        """Take a waiting step: the caller does what it means."""
        return self.pending.pop(self.uses.root(value))

    def constant_bits(self, value: Value) -> "tuple[int, ...] | None":
        """Return the bits of the lanes of a constant (one number if all are alike), None if it is none."""
        step = self.maker(value)
        if step is None or step.kind != "const":
            return None
        bits: tuple[int, ...] = step.attributes["bits"]
        return bits

    def uniform_bits(self, value: Value) -> "int | None":
        """Return the bits of each lane of a constant whose lanes are alike, seen as elements of the value's type."""
        root = self.uses.root(value)
        bits = self.constant_bits(root)
        if bits is None or len(bits) > 1:
            return None
        if root.type.element.bits == value.type.element.bits:
            return bits[0]
        data = bits[0].to_bytes(root.type.element.bits // 8, "little") * root.type.count
        each = value.type.element.bits // 8
        parts = {data[k : k + each] for k in range(0, len(data), each)}
        return int.from_bytes(parts.pop(), "little") if len(parts) == 1 else None

    def constant(self, value: Value) -> Virtual:
        """Return a register with a constant."""
        from bittern.chips.x86.select.constants import constant_register

        return constant_register(self, value)

    # --- operands

    def source(self, value: Value, mnemonic: str, size: int, to: "Value | None" = None) -> "Part | Address":
        """Return a value as the last source of a vector instruction: memory where it may be."""
        root = self.uses.root(value)
        step = self.pending.get(root)
        if step is not None:
            if step.kind == "load" and self._is_whole(step, size) and form_of(mnemonic, size, self.tier):
                del self.pending[root]
                return self.access(step, size)
            if step.kind == "broadcast" and self.is_evex:
                load = self.waiting(step.operands[0], "load")
                each = step.operands[0].type.bytes
                if load is not None and each in (4, 8) and each == element_of(mnemonic, size, self.tier):
                    del self.pending[root]
                    del self.pending[self.uses.root(step.operands[0])]
                    return self.access(load, each, size // each)
        elif root not in self.held:
            address = self.constant_source(root, mnemonic, size)
            if address is not None:
                return address
        return self.part(self.get(root), size)

    def constant_source(self, value: Value, mnemonic: str, size: int) -> "Address | None":
        """Return a constant as memory, where that is better than a register."""
        from bittern.chips.x86.select.constants import constant_operand

        return constant_operand(self, value, mnemonic, size) if self.constant_bits(value) is not None else None

    def pooled(self, data: bytes, size: int, lanes: int = 0) -> Address:
        """Return a constant behind the code as an operand."""
        return Address(size=size, broadcast=lanes, label=self.pool(data, size))

    def pooled_register(self, data: bytes, size: int) -> Virtual:
        """Return a register with a constant that no step of the kernel has."""
        key = ("const", data, size)
        found = self.cached(key)
        if found is None:
            found = self.vector(size)
            saved = self.enter_depth(0)
            self.put(self.named("vmovaps"), (self.part(found, size), self.pooled(data, size)), (found,))
            self.out = saved
            self.frames[0].cache[key] = found
        return found

    def define_in(self, value: Value, size: int) -> Virtual:
        """Return a new vector register of so many bytes for a value."""
        return self.hold(value, self.vector(size))

    def scalar_source(self, value: Value) -> "Part | Address":
        """Return a scalar float as the last source of a scalar instruction."""
        root = self.uses.root(value)
        if self.waiting(root, "load") is not None:
            return self.access(self.fold(root), root.type.bytes)
        bits = self.constant_bits(root)
        if bits is not None and root not in self.held and bits[0]:
            return self.pooled(bits[0].to_bytes(root.type.bytes, "little"), root.type.bytes)
        return self.part(self.get(root), 16)

    def is_foldable(self, value: Value) -> bool:
        """Whether a value waits as something that may become memory."""
        step = self.pending.get(self.uses.root(value))
        return step is not None and step.kind in ("load", "broadcast")

    def masks_alike(self, values: Sequence[Value]) -> tuple[list[Virtual], int]:
        """Return masks in vector registers with lanes of one width, and that width."""
        from bittern.chips.x86.select.comparing import mask_in_lanes

        for value in values:
            self.get(value)
        widths = [self.lane_bits[self.uses.root(v)] for v in values]
        bits = widths[0] if len(set(widths)) == 1 else self.mask_lane_bits(values[0].type)
        return [mask_in_lanes(self, v, bits) for v in values], bits

    def is_better_last(self, x: Value, y: Value) -> bool:
        """Whether the sources of an instruction that takes them in any order should change places.

        What may become memory comes last; on the legacy tier, whose results take the place of the first source, what
        lives on does.
        """
        if self.is_foldable(x) != self.is_foldable(y):
            return self.is_foldable(x)
        counts, first, second = self.uses.counts, self.uses.root(x), self.uses.root(y)
        return self.is_legacy and counts.get(second) == 1 and counts.get(first, 0) > 1

    def mask_lane_bits(self, of: Lanes) -> int:
        """Return how wide the lanes of a mask in a vector register are where nothing else decides."""
        return max(8, min(64, 8 * self.tier.vector // of.count))

    def _is_whole(self, step: Step, size: int) -> bool:
        """Whether a load may be the memory operand of an instruction of so many bytes."""
        of = step.results[0].type
        if of.bytes != size or size < 16:
            return False
        return not self.is_legacy or self.facts.accesses[step].align >= 16

    def access(self, step: Step, size: int, lanes: int = 0) -> Address:
        """Return the operand of the access that a step makes."""
        name = step.attributes["buffer"]
        each = self.buffers[name].element.bits // 8
        place = self.polynomial(step.operands[0])
        return self.address(name, place, each, step.attributes.get("offset", 0), size, lanes)

    # --- steps

    def block(self, block: Block) -> None:
        """Write the steps of a block."""
        pending, roots = self.pending, self.uses.roots
        for step in block.steps:
            kind = step.kind
            if step.results and step.results[0] in roots:
                continue
            if kind == "const" or (kind == "dim" and self._is_polynomial(step)):
                continue
            if kind in _POLYNOMIAL and step.results[0].type.element.name == "index" and self._is_polynomial(step):
                continue
            if step.results and self._waits(step):
                pending[step.results[0]] = step
                continue
            if KINDS[kind].form in ("memory", "control"):
                self.settle(step)
            self.write(step)

    def write(self, step: Step) -> None:
        """Write a step now."""
        saved, self.label = self.label, step.label
        self.table[step.kind](self, step)
        self.label = saved

    def _waits(self, step: Step) -> bool:
        """Whether a step waits for its user."""
        result, kind = step.results[0], step.kind
        if not self.uses.is_single(result):
            return False
        if kind == "load":
            return True
        if kind == "broadcast":
            return self.is_evex and self.waiting(step.operands[0], "load") is not None
        user = self.uses.users.get(result)
        if user is None:
            return False
        if kind in LOGIC:
            if user.kind not in LOGIC or not result.type.bits or result.type.is_scalar:
                return False
            self.chains[result] = 1 + max(self.chains.get(self.uses.root(v), 0) for v in step.operands)
            return self.chains[result] % _CHAIN != 0
        if kind in _COMPARES:
            return result.type.is_scalar and user.kind in ("if", "select") and user.operands[0] is result
        return False

    def settle(self, step: Step) -> None:
        """Write what waits and must not be moved behind a step that stores or has blocks."""
        if not self.pending or KINDS[step.kind].effect in ("load", "hint"):
            return
        condition = self.uses.root(step.operands[0]) if step.kind == "if" else None
        for value, waiting in reversed(list(self.pending.items())):
            if value is condition or value not in self.pending:
                continue
            if step.blocks or self._may_change(step, waiting):
                self.get(value)

    def _may_change(self, store: Step, waiting: Step) -> bool:
        """Whether what waits reads what a step stores; buffers other than scratch may be one memory."""
        if waiting.kind == "load":
            first, second = self.buffers[store.attributes["buffer"]], self.buffers[waiting.attributes["buffer"]]
            return first is second or "scratch" not in (first.access, second.access)
        makers = [self.pending.get(self.uses.root(v)) for v in waiting.operands]
        return any(m is not None and self._may_change(store, m) for m in makers)

    # --- index arithmetic

    def polynomial(self, value: Value) -> Polynomial:
        """Return an index as a polynomial."""
        found = self.polynomials.get(value)
        if found is None:
            bits = self.constant_bits(value)
            known = None if bits is None else constant(signed(bits[0]))
            found = known if known is not None else atom(self.new_atom(value, self.depths[value]))
            self.polynomials[value] = found
        return found

    def _is_polynomial(self, step: Step) -> bool:
        """Whether the result of a step on indices is only a polynomial; then it is remembered."""
        kind = step.kind
        if kind == "dim":
            found = self.of_dim(step.attributes["size"])
        else:
            x = self.polynomial(step.operands[0])
            y = x if kind in ("neg", "shl") else self.polynomial(step.operands[1])
            if kind in ("add", "sub"):
                found = plus(x, y, 1 if kind == "add" else -1)
            elif kind == "neg":
                found = scaled(x, -1)
            elif kind == "shl":
                bits = self.constant_bits(step.operands[1])
                if bits is None or bits[0] > 63:
                    return False
                found = scaled(x, 1 << bits[0])
            elif min(len(x), len(y)) > 1 or max(len(x), len(y)) > 4:
                return False
            else:
                found = times(x, y)
        self.polynomials[step.results[0]] = found
        return True

    def load_scalar(self, to: Virtual, of: Lanes, place: Address) -> None:
        """Load a scalar into its register."""
        if not is_general(of):
            self.put(self.named("vmovss" if of.bytes == 4 else "vmovsd"), (self.part(to, 16), place), (to,))
        elif of.bytes <= 2:
            self.put("movsx" if of.is_signed else "movzx", (self.part(to, 4), place), (to,))
        else:
            self.put("mov", (self.part(to, of.bytes), place), (to,))

    def named(self, mnemonic: str) -> str:
        """Return the name of a vector instruction in the tier's encoding."""
        return mnemonic[1:] if self.is_legacy else mnemonic


_POLYNOMIAL = frozenset(("add", "sub", "mul", "neg", "shl"))
