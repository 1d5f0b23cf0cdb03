"""A kernel made so that several threads may call it at once: its work divided, or done by one of them.

Where all that a kernel writes is written by loops whose rounds are independent, and none of these reads what another
one writes, each becomes a parallel loop. Otherwise the whole kernel is the one round of a parallel loop.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Block, Kernel, Step, walk
from bittern.bitops.kinds import KINDS
from bittern.bitops.lanes import INDEX_TYPE


def shared(b: Builder, kernel: Kernel, apart: Sequence[Step]) -> Kernel:
    """Return the kernel for several threads. b: what made it. apart: loops whose rounds are independent."""
    steps = kernel.body.steps
    loops = [step for step in steps if not _is_alike(step, kernel)]
    if loops and all(step in apart and not step.results for step in loops) and _are_independent(kernel, loops):
        found = tuple(replace(s, kind="parallel") if s in loops else s for s in steps)
        return replace(kernel, body=Block((), found, ()))
    index, low, high = (b.value(INDEX_TYPE) for _ in range(3))
    bounds = [Step("const", (), (v,), {"type": INDEX_TYPE, "bits": (k,)}) for k, v in enumerate((low, high))]
    whole = Step("parallel", (low, high, high), (), {}, (Block((index,), steps, ()),))
    return replace(kernel, body=Block((), (*bounds, whole), ()))


def _is_alike(step: Step, kernel: Kernel) -> bool:
    """Whether every thread may do a step: it computes, or reads what nobody writes."""
    row = KINDS[step.kind]
    if row.effect == "load":
        return kernel.buffer(step.attributes["buffer"]).access == "read"
    return row.form != "control" and row.effect == "none"


def _are_independent(kernel: Kernel, loops: Sequence[Step]) -> bool:
    private = {b.name for b in kernel.buffers if b.access == "scratch"}
    read = [_touched(step, ("load",)) for step in loops]
    written = [_touched(step, ("store",)) for step in loops]
    everywhere = set().union(*written) - private
    if any(each & everywhere for each in read):
        return False
    for k, (loads, stores) in enumerate(zip(read, written, strict=True)):
        others = set().union(*(r | w for j, (r, w) in enumerate(zip(read, written, strict=True)) if j != k))
        if (loads & private) - stores or (loads | stores) & private & others:
            return False
    return True


def _touched(loop: Step, effects: Collection[str]) -> set[str]:
    inner = (step for block in loop.blocks for step in walk(block))
    return {step.attributes["buffer"] for step in inner if KINDS[step.kind].effect in effects}
