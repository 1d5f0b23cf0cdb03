"""Recipes compiled for a tier: made once in a process, and once for all on a machine with the code cache."""

from pathlib import Path

from bittern.chips.machine.assembler import Code
from bittern.chips.machine.code_cache import CodeCache, code_key, compiler_version
from bittern.chips.x86.features import Tier
from bittern.plan.plan import Recipe

_SOURCES = (
    "types",
    "bitops",
    "kernels",
    "chips/machine",
    "chips/x86",
)  # folders whose text decides what code comes out


class Routines:
    """Machine code by recipe. cache: where code is kept between runs, or None."""

    def __init__(self, tier: Tier, cache: CodeCache | None = None) -> None:
        self.tier = tier
        self.compiled = 0
        self._cache = cache
        self._made: dict[Recipe, Code] = {}

    def code(self, recipe: Recipe) -> Code:
        """Return the code of a recipe; `arguments` names its argument words."""
        if recipe not in self._made:
            self._made[recipe] = self._found(recipe)
        return self._made[recipe]

    def _found(self, recipe: Recipe) -> Code:
        if self._cache is None:
            return self._compile(recipe)
        root = Path(__file__).parents[2]
        version = compiler_version(*(root / folder for folder in _SOURCES))
        return self._cache.code(code_key(repr(recipe), self.tier.name, version), lambda: self._compile(recipe))

    def _compile(self, recipe: Recipe) -> Code:
        from dataclasses import replace

        from bittern.chips.x86.compile import compile_kernel
        from bittern.kernels.recipes import build

        self.compiled += 1
        kernel = recipe.kernel or build(recipe.name, recipe.arguments)
        made = compile_kernel(kernel, self.tier).code
        given = [(buffer.name, buffer.align) for buffer in kernel.buffers if buffer.access != "scratch"]
        names = [(name, 1) for name in kernel.symbols]
        numbers = [(parameter.name, 1) for parameter in kernel.parameters]
        return replace(made, arguments=(*names, *given, *numbers))
