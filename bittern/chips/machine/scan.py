"""Gives groups of virtual registers physical ones, in the order in which they start to live.

Linear scan with holes (Poletto and Sarkar, 1999; Traub, Holloway and Smith, 1998), but a group has one register for its
whole range, holes given to others. Where none is left, the group or those in its way go, whichever weigh least.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bittern.chips.machine.coalesce import Group
from bittern.chips.machine.liveness import Range

INFINITE = float("inf")


@dataclass(slots=True)
class Occupied:
    """When one physical register is taken, and by whom: ascending intervals [starts[i], ends[i]).

    owners: None where the register is blocked. until: the scan has seen that it is taken up to here.
    """

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    owners: list[Group | None] = field(default_factory=list)
    until: int = 0

    def is_free(self, needed: Range) -> bool:
        """Say whether no interval overlaps the range."""
        for start, end in needed:
            before = bisect_left(self.starts, end)
            if before and self.ends[before - 1] > start:
                return False
        return True

    def take(self, owner: Group | None, needed: Range) -> None:
        """Enter the range, which is free."""
        for start, end in needed:
            place = bisect_left(self.starts, start)
            self.starts.insert(place, start)
            self.ends.insert(place, end)
            self.owners.insert(place, owner)

    def block(self, start: int, end: int) -> None:
        """Make sure that the interval is taken."""
        if self.is_free([(start, end)]):
            self.take(None, [(start, end)])

    def drop(self, owner: Group) -> None:
        """Free what the owner has taken, which is all of its range."""
        for start, _ in owner.range:
            place = bisect_left(self.starts, start)
            assert self.owners[place] is owner, ("not its own", owner.members, start)
            del self.starts[place], self.ends[place], self.owners[place]
        self.until = 0

    def is_free_but_for(self, owners: Collection[Group], needed: Range) -> bool:
        """Say whether nothing overlaps the range that is not taken by one of the owners."""
        return all(
            self.owners[place] in owners
            for start, end in needed
            for place in range(bisect_right(self.ends, start), bisect_left(self.starts, end))
        )

    def in_the_way(self, needed: Range) -> list[Group | None]:
        """Return the owners of all that overlaps the range, each once; None for what is blocked."""
        found: dict[int, Group | None] = {}
        for start, end in needed:
            for place in range(bisect_right(self.ends, start), bisect_left(self.starts, end)):
                found[id(self.owners[place])] = self.owners[place]
        return list(found.values())


def reserve(
    groups: Iterable[Group], clobbered: Iterable[tuple[int, Range]], numbers: Sequence[int]
) -> dict[int, Occupied]:
    """Return the registers of a bank with what is fixed. Two fixed groups in one register are our own fault."""
    registers = {number: Occupied() for number in numbers}
    for group in groups:
        if group.fixed >= 0:
            register = registers.setdefault(group.fixed, Occupied())
            assert register.is_free(group.range), ("two values fixed to one register", group.fixed, group.members)
            register.take(None, group.range)
            group.register = group.fixed
    for number, intervals in clobbered:
        if number in registers:
            for start, end in intervals:
                registers[number].block(start, end)
    return registers


def scan(
    groups: Sequence[Group],
    order: Sequence[int],
    registers: dict[int, Occupied],
    weigh: Callable[[Group], float],
) -> list[Group]:
    """Choose registers for groups that ascend by their starts; return those that must be spilled.

    order: the numbers that may be given out, the best first. registers: as `reserve` gives them; filled.
    """
    spilled: list[Group] = []
    numbered = [(number, registers[number]) for number in order]
    for group in groups:
        needed = group.range
        for number in group.hints:
            if number in order and registers[number].is_free(needed):
                registers[number].take(group, needed)
                group.register = number
                break
        else:
            start = needed[0][0]
            for number, register in numbered:
                if register.until > start:
                    continue
                if register.is_free(needed):
                    register.take(group, needed)
                    register.until = needed[0][1]
                    group.register = number
                    break
                place = bisect_right(register.starts, start)
                if place and register.ends[place - 1] > start:
                    register.until = register.ends[place - 1]
            else:
                spilled += _make_room(group, numbered, weigh)
    return spilled


def restore(
    groups: Iterable[Group],
    pieces: Mapping[Group, Collection[Group]],
    order: Sequence[int],
    registers: dict[int, Occupied],
) -> list[Group]:
    """Give spilled groups a register again where now only their own pieces are in the way; return which got one."""
    restored = []
    for group in groups:
        own = pieces[group]
        for number in order:
            if registers[number].is_free_but_for(own, group.range):
                for piece in own:
                    if piece.register >= 0:
                        registers[piece.register].drop(piece)
                        piece.register = -1
                registers[number].take(group, group.range)
                group.register = number
                restored.append(group)
                break
    return restored


def _make_room(group: Group, numbered: Sequence[tuple[int, Occupied]], weigh: Callable[[Group], float]) -> list[Group]:
    """Give the group the register whose owners weigh least, or none if it weighs less; return who goes."""
    least, chosen, going = weigh(group), -1, [group]
    for number, register in numbered:
        owners = register.in_the_way(group.range)
        weight = sum(INFINITE if owner is None else weigh(owner) for owner in owners)
        if weight < least:
            least, chosen, going = weight, number, [owner for owner in owners if owner is not None]
    assert least < INFINITE, ("too few registers around one instruction", group.members, group.range)
    group.register = -1
    for number, register in numbered:
        if number == chosen:
            for owner in going:
                register.drop(owner)
                owner.register = -1
            register.take(group, group.range)
            group.register = chosen
    return going
