"""What register allocation takes beside a routine (`Bank`) and what it gives (`Allocated`).

For selection: how a `Routine` must look

- `reads` has every register that the instruction reads, those in addresses and masks too; `tied` stands beside it and
  is repeated in `reads` only where another operand reads it as well. The first operand is then `Part(writes[0], ...)`.
  Where the tied value lives on, the allocator puts a `copy` in front: selection never copies for a tie. An operation
  that takes its sources in either order should tie the one that dies.
- `moves` takes all its values at once, costs nothing where its registers can be one, and may stand anywhere, between a
  comparison and its jump too: none of the pseudo-instructions here may touch the flags. `operands` stay empty.
- A `fixed` register should live shortly: `moves` into it right before the instruction that needs it, `moves` out of it
  right behind (arguments: at the start). It is never spilled, but what is moved to or from it tends to get its number.
- `clobbers` are lost after the instruction has read and before it has written; with `early`, while it reads. A register
  that is written is no clobber.
- A register may be written at several places. Every way to a read must pass a write. A jump writes nothing.
- A part written without its other lanes (`Part.mask` without zeroing) is tied. An instruction that sets a register
  without caring for its value (a zero by exclusive or) does not read it.
- Bytes of a register beyond the `size` of what was moved into it are undefined.

For encoding: what an `Allocated` has

- `instructions`: in order; every Virtual in an operand has its number in `registers`, one for all of its life. Those of
  the routine are the same objects where nothing was spilled. `moves` and `label` are still there; `moves` now emits
  nothing (what it took stands in front of it). Further pseudo-instructions, whose operands, the Virtuals in them
  and the slot all have one `size`:

      copy        Part, Part         first = second
      swap        Part, Part         exchanges both; only in a bank with `swaps`
      load_slot   Part, Address      the address is a `slot` of the frame
      store_slot  Address, Part      likewise

- `frame`, `alignment`: bytes of the frame, the routine's own slots first, and what its address is a multiple of.
- `saved`: the callee-saved registers that are written, as (bank, number), for prologue and epilogue.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bittern.chips.machine.routine import Instruction, Routine, Virtual

INSERTED = -1


@dataclass(frozen=True, slots=True)
class Bank:
    """Registers of one kind.

    name: `general`, `vector` or `mask`. registers: the numbers that may be given out, the best ones first.
    callee_saved: those that the caller expects unchanged. swaps: whether the chip exchanges two of them cheaply.
    """

    name: str
    registers: tuple[int, ...]
    callee_saved: frozenset[int] = frozenset()
    swaps: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """How many instructions allocation has added. remade: values that are made again where others are loaded."""

    copies: int = 0
    swaps: int = 0
    loads: int = 0
    stores: int = 0
    remade: int = 0


@dataclass(frozen=True, slots=True)
class Allocated:
    """A routine whose registers are chosen; the module's text says how to read it.

    origins: for each instruction its index in the routine; `INSERTED` for a pseudo-instruction that allocation added;
    -2 - index for an instruction of the routine that was made again for a spilled value.
    """

    routine: Routine
    instructions: tuple[Instruction, ...]
    registers: Mapping[Virtual, int]
    origins: tuple[int, ...]
    frame: int
    alignment: int
    saved: tuple[tuple[str, int], ...]
    counts: Counts
