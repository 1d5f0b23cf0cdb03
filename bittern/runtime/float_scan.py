"""The proof that a planned network runs on whole numbers, from the machine code of every kernel of its plan.

Each kernel is compiled as for a run, and its bytes are read back. A kernel with float instructions must be given floats
or give some: it quantises an input or makes scores, and the graph's own proof (`passes/integers.py`) says that no other
floats exist. A kernel without floats at its edges and with float instructions inside is refused.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bittern.base.errors import BitternError

if TYPE_CHECKING:
    from bittern.runtime.planning import Planned


@dataclass(frozen=True, slots=True)
class KernelFloats:
    """A kernel. labels: of its launches. instructions: mnemonics of the float ones, sorted. count: of them.

    is_boundary: whether it is given floats or gives some.
    """

    kernel: str
    labels: tuple[str, ...]
    is_boundary: bool
    count: int
    instructions: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the kernel as plain values."""
        return {
            "kernel": self.kernel,
            "labels": list(self.labels),
            "boundary": self.is_boundary,
            "float_instructions": self.count,
            "mnemonics": list(self.instructions),
        }


def scan(made: "Planned") -> tuple[KernelFloats, ...]:
    """Return for each kernel of a plan for x86 its float instructions. Errors: R162, R166, R168."""
    from bittern.chips.x86.compile import compile_kernel
    from bittern.chips.x86.features import TIERS
    from bittern.chips.x86.floats import float_uses, has_float_buffers
    from bittern.kernels.recipes import build

    tier = next(each for each in TIERS if each.name == made.target.tier)
    labels: dict[Any, list[str]] = {}
    for launch in made.plan.launches:
        labels.setdefault(launch.recipe, []).append(launch.label or launch.recipe.name)
    found = []
    for recipe, names in labels.items():
        kernel = recipe.kernel or build(recipe.name, recipe.arguments)
        uses = float_uses(compile_kernel(kernel, tier).code)
        mnemonics = tuple(sorted({use.name for use in uses}))
        row = KernelFloats(recipe.name, tuple(dict.fromkeys(names)), has_float_buffers(kernel), len(uses), mnemonics)
        found.append(row)
    return tuple(found)


def need_integer_code(made: "Planned") -> tuple[KernelFloats, ...]:
    """Return what `scan` finds, or refuse float instructions in kernels of whole numbers. Errors: R169 and `scan`'s."""
    from bittern.chips.x86.floats import HAS_FLOAT_CODE

    found = scan(made)
    wrong = [row for row in found if row.count and not row.is_boundary]
    if wrong:
        told = "; ".join(f"`{row.kernel}` ({', '.join(row.labels)}): {', '.join(row.instructions)}" for row in wrong)
        raise BitternError(
            HAS_FLOAT_CODE,
            f"Kernels that work on whole numbers have float instructions: {told}.",
            "Report it: the plan promises whole numbers between the boundaries.",
        )
    return found
