"""Runs routines on names of values, before and after register allocation, and makes random ones.

A value is a number made of what made it: instruction, result, values read. A run is the list of all that was read; the
ways that conditional jumps take are given as bits. Both runs of a routine must be one.
"""

from collections.abc import Iterator
from random import Random

from bittern.chips.machine.allocated import INSERTED, Allocated, Bank
from bittern.chips.machine.assembler import Label
from bittern.chips.machine.routine import Address, Instruction, Operand, Part, Routine, Slot, Virtual

BANKS = (
    Bank("general", (0, 1, 2, 3), frozenset({3}), swaps=True),
    Bank("vector", (0, 1, 2, 3)),
    Bank("mask", (1, 2, 3)),
)
CHEAP = frozenset({"constant"})
MOST = 300  # instructions that are noted in a run

Trace = list[tuple[int, tuple[int, ...]]]


def run_routine(routine: Routine, ways: int) -> Trace:
    """Return what a routine with virtual registers reads; bit i of `ways` says whether the i-th jump is taken."""
    held = {argument: hash(("argument", place)) for place, argument in enumerate(routine.arguments)}
    starts = {one.operands[0]: index for index, one in enumerate(routine.instructions) if one.name == "label"}
    trace: Trace = []
    at = 0
    while at < len(routine.instructions) and len(trace) < MOST:
        one = routine.instructions[at]
        if one.name == "moves":
            held.update(zip(one.writes, [held[register] for register in one.reads], strict=True))
        elif one.name != "label":
            values = tuple(held[register] for register in one.reads)
            values += () if one.tied is None else (held[one.tied],)
            trace += [(at, values)] if one.name != "constant" else []
            held.update((register, hash((at, place, values))) for place, register in enumerate(one.writes))
        at, ways = _next(at, one, starts, ways)
    return trace


def run_allocated(allocated: Allocated, ways: int) -> Trace:
    """Return what the allocated code reads. What nobody wrote is a new value each time."""
    fresh = _fresh()
    routine = allocated.routine
    held: dict[tuple[str, int] | Slot, tuple[int, int]] = {}  # value, and how many bytes of it are right
    for place, argument in enumerate(routine.arguments):
        held[(argument.bank, argument.fixed)] = (hash(("argument", place)), argument.size)
    instructions = allocated.instructions
    starts = {one.operands[0]: index for index, one in enumerate(instructions) if one.name == "label"}
    trace: Trace = []
    at = 0
    while at < len(instructions) and len(trace) < MOST:
        one, origin = instructions[at], allocated.origins[at]
        if origin == INSERTED:
            _run_inserted(one, allocated, held, fresh)
        elif origin < INSERTED:
            made, valid = one.writes[0], routine.instructions[-2 - origin].writes[0].size
            held[(made.bank, allocated.registers[made])] = (hash((-2 - origin, 0, ())), valid)
        elif one.name not in ("label", "moves"):
            places = [(register.bank, allocated.registers[register]) for register in one.writes]
            lost = [*one.clobbers, *(places[0 if one.tied is None else 1 :])] if one.early else []
            held.update((place, (next(fresh), 0)) for place in lost)
            reads = [(register.bank, allocated.registers[register]) for register in one.reads]
            reads += [] if one.tied is None else [places[0]]
            values = tuple(held[place][0] if place in held else next(fresh) for place in reads)
            trace += [(origin, values)] if one.name != "constant" else []
            held.update((place, (next(fresh), 0)) for place in one.clobbers)
            for number, (at_place, register) in enumerate(zip(places, one.writes, strict=True)):
                held[at_place] = (hash((origin, number, values)), register.size)
        at, ways = _next(at, one, starts, ways)
    return trace


def _run_inserted(
    one: Instruction, allocated: Allocated, held: dict[tuple[str, int] | Slot, tuple[int, int]], fresh: Iterator[int]
) -> None:
    """Bring values from place to place; one that does not fit is lost."""

    def place(operand: Operand) -> tuple[tuple[str, int] | Slot, int]:
        if isinstance(operand, Part):
            return (operand.register.bank, allocated.registers[operand.register]), operand.size
        assert isinstance(operand, Address) and operand.slot is not None
        return operand.slot, operand.slot.size

    (to, size), (source, other) = (place(operand) for operand in one.operands)
    moved = [held.get(source, (next(fresh), 0)), held.get(to, (next(fresh), 0))]
    fits = [value if value[1] <= min(size, other) else (next(fresh), 0) for value in moved]
    held[to] = fits[0]
    if one.name == "swap":
        held[source] = fits[1]


def _fresh() -> Iterator[int]:
    count = 0
    while True:
        count += 1
        yield hash(("nobody wrote this", count))


def _next(at: int, one: Instruction, starts: dict[Operand, int], ways: int) -> tuple[int, int]:
    if one.target is not None and (not one.falls or ways & 1):
        return starts[one.target], ways >> one.falls
    return at + 1, ways >> (one.target is not None)


class Maker:
    """Makes a random routine of nested loops and branches. Every read has a write before it on each way."""

    def __init__(self, seed: int, length: int = 30) -> None:
        self.random = Random(seed)
        self.routine = Routine(f"random {seed}")
        self.left = self.random.randrange(1, length)
        defined: list[Virtual] = []
        arguments = [self.routine.virtual("general", 8, number) for number in (2, 1)]
        self.routine.arguments = tuple(arguments)
        taken = [self.new("general", 8) for _ in arguments]
        self.routine.instructions.append(Instruction("moves", (), tuple(taken), tuple(arguments)))
        defined += taken
        self.sequence(defined, 0)
        last = self.some(defined, 3)
        self.add("store", (), last)
        self.routine.instructions.append(Instruction("ret", falls=False))

    def new(self, bank: str = "", size: int = 0) -> Virtual:
        """Return a register of the bank, or of any."""
        bank = bank or self.random.choice(("general", "general", "vector", "vector", "vector", "mask"))
        sizes = {"general": (8, 8, 4), "vector": (64, 64, 16), "mask": (8,)}
        return self.routine.virtual(bank, size or self.random.choice(sizes[bank]))

    def some(self, defined: list[Virtual], most: int) -> tuple[Virtual, ...]:
        """Return registers that hold a value, at most so many, new ones rather than old ones."""
        count = self.random.randrange(0, most + 1)
        near = defined[-8:] if self.random.random() < 0.7 else defined
        return tuple(self.random.choice(near) for _ in range(count)) if near else ()

    def add(
        self,
        name: str,
        writes: tuple[Virtual, ...],
        reads: tuple[Virtual, ...],
        tied: Virtual | None = None,
        early: bool = False,
        clobbers: tuple[tuple[str, int], ...] = (),
    ) -> None:
        """Append an instruction whose operands are its registers."""
        operands = tuple(Part(register, register.size) for register in (*writes, *reads))
        self.routine.instructions.append(Instruction(name, operands, writes, reads, tied, early, clobbers))

    def sequence(self, defined: list[Virtual], depth: int) -> None:
        """Append instructions, loops and branches; `defined` grows by what is written on every way."""
        while self.left > 0:
            self.left -= 1
            kind = self.random.random()
            if kind < 0.07 and depth < 3:
                self.loop(defined, depth)
            elif kind < 0.13 and depth < 3:
                self.branch(defined, depth)
            elif kind < 0.23:
                self.moves(defined)
            elif kind < 0.29:
                self.call(defined)
            elif kind < 0.35 and depth:
                return
            else:
                self.operation(defined)

    def operation(self, defined: list[Virtual]) -> None:
        """Append an ordinary instruction; it may write what has a value already."""
        kind = self.random.random()
        if kind < 0.15:
            written = self.new()
            self.add("constant", (written,), ())
            defined.append(written)
            return
        reads = self.reads(defined)
        early = self.random.random() < 0.15
        tied = self.random.choice(defined[-6:]) if kind < 0.6 else None
        if tied is not None:
            same = [one for one in defined if (one.bank, one.size) == (tied.bank, tied.size)]
            again = self.random.choice(same) if self.random.random() < 0.25 else None
            first = again or self.new(tied.bank, tied.size)
        else:
            again = self.random.choice(defined) if self.random.random() < 0.15 else None
            first = again or self.new()
        writes = (first,) if early or self.random.random() < 0.85 else (first, self.new())
        if early:
            reads = tuple(register for register in reads if register not in writes)
        clobbers = (("vector", self.random.randrange(4)),) if self.random.random() < 0.1 else ()
        self.add("op", writes, reads, tied, early, clobbers)
        defined += [register for register in writes if register not in defined]

    def reads(self, defined: list[Virtual]) -> tuple[Virtual, ...]:
        """Return two registers of a bank at most: with a tie, two results and pieces for them all it still fits."""
        found = self.some(defined, 4)
        return tuple(one for place, one in enumerate(found) if [two.bank for two in found[:place]].count(one.bank) < 2)

    def moves(self, defined: list[Virtual]) -> None:
        """Append moves: to new registers, to old ones, in cycles."""
        pairs: dict[Virtual, Virtual] = {}
        for _ in range(self.random.randrange(1, 5)):
            source = self.random.choice(defined)
            same = [one for one in defined if (one.bank, one.size) == (source.bank, source.size)]
            is_new = self.random.random() < 0.3
            pairs[self.new(source.bank, source.size) if is_new else self.random.choice(same)] = source
        if self.random.random() < 0.3:
            bank = self.random.choice([one.bank for one in defined])
            same = [one for one in defined if one.bank == bank and one.size == 8 * 8 ** (bank == "vector")]
            ring = self.random.sample(same, min(len(same), 3))
            pairs = dict(zip(ring, [*ring[1:], *ring[:1]], strict=True))
        if pairs:
            self.routine.instructions.append(Instruction("moves", (), tuple(pairs), tuple(pairs.values())))
            defined += [register for register in pairs if register not in defined]

    def call(self, defined: list[Virtual]) -> None:
        """Append an instruction with fixed operands and clobbers, and the moves to and from them."""
        general = [one for one in defined if one.bank == "general"]
        given = tuple(self.random.choice(general) for _ in range(self.random.randrange(1, 3)))
        fixed = tuple(self.routine.virtual("general", one.size, place) for place, one in enumerate(given))
        result = self.routine.virtual("general", 8, 0)
        taken = self.new("general", 8)
        self.routine.instructions.append(Instruction("moves", (), fixed, given))
        clobbers = (("general", 1), ("vector", 0), ("vector", 1))[: self.random.randrange(4)]
        tied = fixed[0] if self.random.random() < 0.3 and fixed[0].size == 8 else None
        self.add("call", (result,), fixed[1:] if tied else fixed, tied, False, clobbers)
        self.routine.instructions.append(Instruction("moves", (), (taken,), (result,)))
        defined.append(taken)

    def loop(self, defined: list[Virtual], depth: int) -> None:
        """Append a loop with carried values."""
        given = tuple(dict.fromkeys(self.some(defined, 3)))
        carried = tuple(self.new(one.bank, one.size) for one in given)
        top = Label("loop")
        self.routine.instructions.append(Instruction("moves", (), carried, given))
        self.routine.instructions.append(Instruction("label", (top,)))
        inside = [*defined, *carried]
        self.sequence(inside, depth + 1)
        again = []
        for one in carried:
            same = [other for other in inside if (other.bank, other.size) == (one.bank, one.size)]
            again.append(self.random.choice(same[-3:]))
        self.routine.instructions.append(Instruction("moves", (), carried, tuple(again)))
        reads = tuple(one for one in self.some(inside, 1) if one.bank == "general")
        self.routine.instructions.append(Instruction("again", (top,), (), reads, target=top))
        defined[:] = inside

    def branch(self, defined: list[Virtual], depth: int) -> None:
        """Append a branch with one or two sides; results come out of it through moves on both."""
        other, end = Label("else"), Label("end")
        self.routine.instructions.append(Instruction("if", (other,), (), self.some(defined, 1), target=other))
        joined = [self.new() for _ in range(self.random.randrange(3))]
        for side in range(2):
            inside = list(defined)
            self.sequence(inside, depth + 1)
            pairs = []
            for one in joined:
                same = [two for two in inside if (two.bank, two.size) == (one.bank, one.size)]
                if same:
                    pairs.append((one, self.random.choice(same)))
                else:
                    self.add("op", (one,), ())
            if pairs:
                to, source = zip(*pairs, strict=True)
                self.routine.instructions.append(Instruction("moves", (), to, source))
            if side == 0:
                jump = Instruction("jump", (end,), target=end, falls=False)
                self.routine.instructions += [jump, Instruction("label", (other,))]
        self.routine.instructions.append(Instruction("label", (end,)))
        defined += joined
