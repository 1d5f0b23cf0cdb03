"""What a model family says about a checkpoint: which numbers and tensors become which fields of its program.

A family is one program (`NAME.btn`) and one binding file (`NAME.py`) with a function `bind(facts) -> Binding`. Facts
are read through `Facts`, which remembers what was read: metadata of the architecture that a family neither reads nor
lists as free of meaning may change the mathematics, so the checkpoint is refused by that name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from math import isfinite
from pathlib import Path
from traceback import extract_tb
from typing import Any, NoReturn, TypeAlias

from bittern.base.errors import BitternError, code, nearest
from bittern.models.huggingface import Config, Neutral
from bittern.types.elements import Element

UNKNOWN_FAMILY = code("M101", "no family for this architecture")
MISSING_FACT = code("M102", "metadata that the family needs is missing")
BAD_FACT = code("M103", "metadata has an impossible value")
UNREAD_FACT = code("M104", "metadata that may change the mathematics is not read by the family")
UNKNOWN_MODEL_TYPE = code("M113", "no family for this model_type of a Hugging Face folder")
BROKEN_BINDING = code("M110", "a family's binding file does not work")

LIMIT = 1 << 24  # no dimension of a model is larger


@dataclass(frozen=True, slots=True)
class Weight:
    """A field that is a tensor of the file. steps: what binding did besides naming it, for people and records."""

    tensor: str
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Numbers:
    """A field that is computed from metadata: one number, or a flat list of them."""

    value: float | list[float]
    element: Element


@dataclass(frozen=True, slots=True)
class TernaryCode:
    """A field that is the codes -1, 0, +1 of a matrix of the file. tensor: its name without `.weight`."""

    tensor: str


@dataclass(frozen=True, slots=True)
class TernaryScale:
    """A field that is the scale of each row of such a matrix. tensor: its name without `.weight`."""

    tensor: str


Field: TypeAlias = Weight | Numbers | TernaryCode | TernaryScale


@dataclass(frozen=True, slots=True)
class Binding:
    """How a checkpoint becomes the arguments of a program. dims: of the struct. fields: by path (`layer.3.q`)."""

    dims: Mapping[str, int]
    fields: Mapping[str, Field]


@dataclass(slots=True)
class Facts:
    """The metadata of one checkpoint, for one architecture.

    prefix: of the architecture's keys (`llama`). tensors: the shapes of the file's tensors by name.
    """

    metadata: Mapping[str, Any]
    prefix: str
    tensors: Mapping[str, tuple[int, ...]]
    read: set[str] = field(default_factory=set)

    def whole(
        self, key: str, default: int | None = None, *, high: int = LIMIT, multiple_of: int = 1, divides: int = 0
    ) -> int:
        """Return a whole number of the architecture, at least 1. Raises M102, M103."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            self._refuse(key, value, f"a whole number from 1 to {high}")
        if value % multiple_of:
            self._refuse(key, value, f"a multiple of {multiple_of}")
        if divides % value:
            self._refuse(key, value, f"a divisor of {divides}")
        return int(value)

    def real(self, key: str, default: float | None = None, low: float = 0.0) -> float:
        """Return a finite real number above `low`. Raises M102, M103."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or not value > low:
            self._refuse(key, value, f"a finite number above {low:g}")
        return float(value)

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string. Raises M102, M103."""
        value = self._get(key, default)
        if not isinstance(value, str):
            self._refuse(key, value, "a string")
        return str(value)

    def must_be(self, key: str, allowed: object) -> None:
        """Refuse the checkpoint if a key is there and has another value than the one the program computes with."""
        name = f"{self.prefix}.{key}"
        self.read.add(name)
        if name in self.metadata and self.metadata[name] != allowed:
            self._refuse(key, self.metadata[name], f"{allowed} (all that this family computes)")

    def has(self, key: str) -> bool:
        """Whether the metadata has a key of the architecture."""
        return f"{self.prefix}.{key}" in self.metadata

    def ignore(self, *keys: str) -> None:
        """State that these keys do not change what is computed."""
        self.read.update(f"{self.prefix}.{key}" for key in keys)

    def finish(self) -> None:
        """Refuse metadata of the architecture that nobody read. Raises M104."""
        unread = sorted(k for k in self.metadata if k.startswith(f"{self.prefix}.") and k not in self.read)
        if unread:
            names = ", ".join(f"`{name}`" for name in unread)
            raise BitternError(
                UNREAD_FACT,
                f"The metadata {names} may change what is computed, and the family `{self.prefix}` does not read it.",
                "Use a checkpoint without it, or teach the family's binding file what it means.",
            )

    def _get(self, key: str, default: Any) -> Any:
        name = f"{self.prefix}.{key}"
        self.read.add(name)
        value = self.metadata.get(name, default)
        if value is None:
            raise BitternError(
                MISSING_FACT, f"The metadata has no `{name}`.", "The checkpoint is incomplete: convert it again."
            )
        return value

    def _refuse(self, key: str, value: object, allowed: str) -> NoReturn:
        shown = repr(value)
        raise BitternError(
            BAD_FACT,
            f"The metadata `{self.prefix}.{key}` is {shown if len(shown) < 80 else shown[:77] + '...'}.",
            f"Expected {allowed}.",
        )


@dataclass(frozen=True, slots=True)
class Family:
    """One family. name: of its module, and of the checkpoint's architecture. path: of its binding file.

    model_types: of the Hugging Face folders that `translate` brings into the neutral form. encodes: it makes vectors of
    texts, with the functions `encode` and `pool`, not continuations with `forward` and `head`.
    """

    name: str
    path: Path
    function: Callable[[Facts], Binding]
    model_types: tuple[str, ...] = ()
    translation: Callable[[Config], Neutral] | None = None
    encodes: bool = False

    def bind(self, facts: Facts) -> Binding:
        """Return what the binding file makes of a checkpoint's facts; it must read all. Raises M102 to M104, M110."""
        try:
            binding = self.function(facts)
        except BitternError:
            raise
        except Exception as error:
            raise _broken(self.path, error) from error
        if not isinstance(binding, Binding):
            raise _broken(self.path, TypeError(f"`bind` returned {type(binding).__name__}, not a Binding"))
        facts.finish()
        return binding

    def translate(self, config: Config) -> Neutral:
        """Return the neutral form of a folder; its configuration must be read whole. Raises F180 to F182, M110."""
        assert self.translation is not None, self.name
        try:
            neutral = self.translation(config)
        except BitternError:
            raise
        except Exception as error:
            raise _broken(self.path, error) from error
        config.finish()
        return neutral


def names(folders: Sequence[Path] = ()) -> list[str]:
    """Return the names of all families: one for each program that has a binding file beside it.

    folders: where else to look, before the families that ship with Bittern.
    """
    found = {
        path.stem for folder in _all(folders) for path in folder.glob("*.btn") if path.with_suffix(".py").is_file()
    }
    return sorted(found)


def family(architecture: str, folders: Sequence[Path] = ()) -> Family:
    """Return the family of an architecture. folders: as for `names`; their binding files are run. Raises M101, M110."""
    known = names(folders)
    if architecture not in known:
        what = f"There is no family for the architecture `{architecture}`."
        raise BitternError(UNKNOWN_FAMILY, what, nearest(architecture, known))
    files = [(folder / f"{architecture}.btn", folder / f"{architecture}.py") for folder in _all(folders)]
    path = next(binding for program, binding in files if program.is_file() and binding.is_file())
    spec = spec_from_file_location(f"bittern.models.{architecture}", path)
    assert spec is not None and spec.loader is not None, path
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        types = tuple(getattr(module, "MODEL_TYPES", ()))
        translation = module.translate if types else None
        return Family(architecture, path, module.bind, types, translation, bool(getattr(module, "ENCODES", False)))
    except Exception as error:
        raise _broken(path, error) from error


def family_of(model_type: str, folders: Sequence[Path] = ()) -> Family:
    """Return the family that reads Hugging Face folders of a `model_type`. Raises M113, M110."""
    known: list[str] = []
    for name in names(folders):
        found = family(name, folders)
        if model_type in found.model_types:
            return found
        known += found.model_types
    what = f"There is no family for the `model_type` `{model_type}` of the folder's config.json."
    raise BitternError(UNKNOWN_MODEL_TYPE, what, nearest(model_type, known) or f"Known: {', '.join(known)}.")


def _broken(path: Path, error: Exception) -> BitternError:
    """Return the error for a binding file that failed, with the line of that file where it did."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(path)]
    line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else None
    place = f"{path}:{line}" if line else str(path)
    return BitternError(
        BROKEN_BINDING,
        f"The binding file {place} failed: {type(error).__name__}: {error}.",
        "Mend it: it has a function `bind(facts: Facts) -> Binding`, as docs/map.md says.",
    )


def _all(folders: Sequence[Path]) -> list[Path]:
    return [*folders, Path(__file__).parent]
