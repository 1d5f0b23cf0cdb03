"""How often and where the values of a kernel are used: what decides whether a step may wait for its user.

Steps that change nothing in a register (a reinterpretation) are seen through: the value behind them is the root.
"""

from dataclasses import dataclass, field

from bittern.bitops.kernel import Block, Kernel, Step, Value
from bittern.bitops.lanes import Lanes


def is_general(type_: Lanes) -> bool:
    """Whether values of a type are held in general registers: scalars but f32 and f64."""
    return type_.is_scalar and not type_.is_float


def is_alias(step: Step) -> bool:
    """Whether a step's result is its operand, as registers hold them."""
    if step.kind not in ("reinterpret", "wrap") or not step.operands:
        return False
    source, result = step.operands[0].type, step.results[0].type
    if "index" in (source.element.name, result.element.name):
        return False
    if not source.is_scalar and not result.is_scalar:
        return step.kind == "reinterpret" or source.element.bits == result.element.bits
    if source.count != result.count or source.element.bits != result.element.bits:
        return False
    if not is_general(source) or not is_general(result):
        return source.is_float and result.is_float
    # Narrow numbers are kept extended to 32 bits by their own sign.
    return source.element.bits >= 32 or (not source.is_signed and not result.is_signed)


@dataclass(slots=True)
class Uses:
    """makers: of each value. roots: of values made by aliases. counts: uses of each root. users: the last of them.

    is_local: whether the only use of a root is in the block that makes it.
    """

    makers: dict[Value, Step] = field(default_factory=dict)
    roots: dict[Value, Value] = field(default_factory=dict)
    counts: dict[Value, int] = field(default_factory=dict)
    users: dict[Value, Step] = field(default_factory=dict)
    local: set[Value] = field(default_factory=set)
    _blocks: dict[Value, int] = field(default_factory=dict)
    _next: int = 0

    def root(self, value: Value) -> Value:
        """Return the value that holds the same register."""
        return self.roots.get(value, value)

    def is_single(self, value: Value) -> bool:
        """Whether a root is used once, in the block that makes it."""
        return value in self.local


def uses_of(kernel: Kernel) -> Uses:
    """Return the uses of a kernel's values."""
    uses = Uses()
    for parameter in kernel.parameters:
        uses._blocks[parameter.value] = 0
    _block(uses, kernel.body)
    uses.local = {value for value in uses.local if uses.counts[value] == 1}
    return uses


def _block(uses: Uses, block: Block) -> None:
    number = uses._next = uses._next + 1
    for parameter in block.parameters:
        uses._blocks[parameter] = number
    for step in block.steps:
        if is_alias(step):
            uses.roots[step.results[0]] = uses.root(step.operands[0])
            continue
        for operand in step.operands:
            _use(uses, operand, number, step)
        for inner in step.blocks:
            _block(uses, inner)
        for result in step.results:
            uses.makers[result] = step
            uses._blocks[result] = number
    for value in block.yields:
        _use(uses, value, number, None)


def _use(uses: Uses, value: Value, number: int, step: "Step | None") -> None:
    root = uses.root(value)
    uses.counts[root] = uses.counts.get(root, 0) + 1
    if step is not None:
        uses.users[root] = step
    if uses._blocks.get(root) == number:
        uses.local.add(root)
