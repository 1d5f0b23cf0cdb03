"""Puts moves that happen all at once in an order in which they can happen one after another.

A place is written once nothing is still to be read from it; what is left then are cycles. A cycle of registers is
turned by exchanges where the chip has them; otherwise one value of it waits in a spare place.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from bittern.chips.machine.routine import Instruction, Slot

Place: TypeAlias = "int | Slot | Instruction"  # a register's number, a place in the frame, or what makes the value


def in_order(
    moves: Mapping[Place, Place], can_swap: bool, spare: Callable[[], Place]
) -> Iterator[tuple[str, Place, Place]]:
    """Give steps ("copy", to, from) and ("swap", a, b).

    moves: what each place gets. spare: returns a place that holds nothing, where a cycle needs one; while it is in use
    it is not asked for again.
    """
    pending = {to: source for to, source in moves.items() if to != source}
    readers: dict[Place, int] = {}
    for source in pending.values():
        readers[source] = readers.get(source, 0) + 1
    ready = [to for to in pending if to not in readers]
    while pending:
        while ready:
            to = ready.pop()
            source = pending.pop(to)
            yield "copy", to, source
            readers[source] -= 1
            if not readers[source] and source in pending:
                ready.append(source)
        if not pending:
            return
        to, source = next(iter(pending.items()))
        reader = next(one for one, read in pending.items() if read == to)
        if can_swap and isinstance(to, int) and isinstance(source, int):
            yield "swap", to, source
            del pending[to]
            if reader == source:
                del pending[source]
            else:
                pending[reader] = source
            continue
        waiting = spare()
        yield "copy", waiting, to
        pending[reader] = waiting
        readers[waiting] = 1
        ready.append(to)
