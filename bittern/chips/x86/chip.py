"""The chip `x86`: machine code for x86-64 that Bittern writes itself; the bits of the chip `vm`."""

from pathlib import Path
from typing import TYPE_CHECKING

from bittern.base.errors import BitternError, code
from bittern.chips.machine.code_cache import CodeCache
from bittern.chips.x86.features import Tier, is_here, read, tier
from bittern.chips.x86.session import X86Model
from bittern.front.bound import Bound

if TYPE_CHECKING:
    from bittern.chips.x86.function import X86Function
    from bittern.graph.evaluate import World
    from bittern.graph.node import Function
    from bittern.lang.library import Library

NOT_HERE = code("R165", "the processor or the system is none that the chip knows")


class X86:
    """Runs plans natively. wanted: name of the tier, "" for the best. threads: 0 takes all cores."""

    name = "x86"
    mode = "hardware"
    is_strict = True

    def __init__(self, wanted: str = "", threads: int = 0) -> None:
        self.wanted = wanted
        self.threads = threads

    def is_here(self) -> bool:
        """Whether this machine is an x86-64 with a system that the chip knows."""
        return is_here()

    def at(self, tier: str = "", threads: int = 0) -> "X86":
        """Return the chip at a tier, on so many threads; see `NativeChip`."""
        return X86(tier, threads)

    @property
    def tier(self) -> str:
        """The name of the tier that code is made for."""
        return self.chosen().name

    def chosen(self) -> Tier:
        """Return the tier. Raises R162, R163, R165."""
        if not is_here():
            raise BitternError(NOT_HERE, "This machine is no x86-64 with Linux or macOS.", "Run on the chip `vm`.")
        return tier(read(), self.wanted)

    def load(self, model: Bound, cache: Path | None = None) -> X86Model:
        """Prepare a model. cache: a folder where compiled code is kept. Raises P101, P102, R161 to R165."""

        def world() -> "World":
            from bittern.chips.vm.kernels import kernels
            from bittern.graph.evaluate import World

            return World(kernels=kernels(model.library, [model.forward, model.head]))

        code_cache = None if cache is None else CodeCache(cache / "code")
        return X86Model(model, self.chosen(), self.threads, code_cache, world)

    def load_function(
        self, function: "Function", library: "Library", cache: Path | None = None, fuse: bool = True
    ) -> "X86Function":
        """Prepare a function over a batch. Raises P101, R161 to R165; P102 at the first run of a batch size."""
        from bittern.chips.x86.function import X86Function

        code_cache = None if cache is None else CodeCache(cache / "code")
        return X86Function(function, library, self.chosen(), self.threads, code_cache, fuse)


CHIP = X86()
