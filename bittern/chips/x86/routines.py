"""Recipes compiled for a tier: made once in a process, and once for all on a machine with the code cache."""

from collections.abc import Callable, Sequence
from pathlib import Path

from bittern.base.hashing import digest
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
_MEANINGS = ("types", "ops", "graph")  # and what values
_ROOT = Path(__file__).parents[2]


class Routines:
    """Machine code by recipe. cache: where code is kept between runs, or None."""

    def __init__(self, tier: Tier, cache: CodeCache | None = None) -> None:
        self.tier = tier
        self.compiled = 0
        self._cache = cache
        self._made: dict[Recipe, Code] = {}
        self._values: dict[str, Code] = {}  # found, and not yet asked for

    def values(self, identity: object, make: Callable[[], Sequence[bytes]]) -> list[bytes]:
        """Return values that were computed ahead, from the cache if they are there. identity: of all they depend on."""
        if self._cache is None:
            return list(make())
        key = _values_key(identity)
        kept = self._values.pop(key, None) or self._cache.code(key, lambda: _joined(make()))
        starts = [kept.places[str(k)] for k in range(len(kept.places))]
        return [kept.data[low:high] for low, high in zip(starts, [*starts[1:], len(kept.data)], strict=True)]

    def has_values(self, identity: object) -> bool:
        """Whether values that were computed ahead are in the cache; then they are there for `values`."""
        key = _values_key(identity)
        found = None if self._cache is None else self._cache.load(key)
        if found is not None:
            self._values[key] = found
        return found is not None

    def has_code(self, recipe: Recipe) -> bool:
        """Whether the code of a recipe needs no compiling; then it is there for `code`."""
        if recipe in self._made:
            return True
        found = None if self._cache is None else self._cache.load(self._key(recipe))
        if found is not None:
            self._made[recipe] = found
        return found is not None

    def code(self, recipe: Recipe) -> Code:
        """Return the code of a recipe; `arguments` names its argument words."""
        if recipe not in self._made:
            self._made[recipe] = self._found(recipe)
        return self._made[recipe]

    def _found(self, recipe: Recipe) -> Code:
        if self._cache is None:
            return self._compile(recipe)
        return self._cache.code(self._key(recipe), lambda: self._compile(recipe))

    def _key(self, recipe: Recipe) -> str:
        version = compiler_version(*(_ROOT / folder for folder in _SOURCES))
        return code_key(repr(recipe), self.tier.name, version)

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


def _values_key(identity: object) -> str:
    version = compiler_version(*(_ROOT / folder for folder in _MEANINGS))
    return code_key(digest(identity).hex(), "values", version)


def _joined(values: Sequence[bytes]) -> Code:
    """Return values as the cache keeps them: one behind the other, their starts as places."""
    starts = [sum(map(len, values[:k])) for k in range(len(values))]
    return Code(b"".join(values), 0, 1, {str(k): start for k, start in enumerate(starts)})
