"""Binding: a checkpoint and its family's program become functions whose weights are constants.

Every tensor of the file is consumed by a declared field, or the error names it; every field's tensor exists and has the
declared shape, or the error names both shapes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bittern.base.errors import BitternError, code, nearest
from bittern.front.checkpoint import Checkpoint
from bittern.graph.node import Function, Node, const, const_blob
from bittern.lang.elaborate import bind as bind_parameter
from bittern.lang.library import Library
from bittern.models.family import Binding, Facts, Family, Weight, family
from bittern.types.dims import dim
from bittern.types.elements import ELEMENTS, Kind
from bittern.types.values import Tensor, text

MISSING_TENSOR = code("M105", "a tensor that the family needs is missing")
SPARE_TENSOR = code("M106", "a tensor of the file is used by no field")
TENSOR_SHAPE = code("M107", "a tensor has another shape than its field")
TENSOR_ELEMENT = code("M108", "a tensor has another element type than its field")
NO_ARCHITECTURE = code("M109", "the file does not say which architecture it holds")

CACHES = ("f16", "f32", "int8")


@dataclass(frozen=True, slots=True)
class Bound:
    """A model's program with its constants. forward, head: the graph's functions. steps: what binding did, by field.

    cache: name of the cache's element as the user says it. cache_blocks: scales in a head of the cache.
    """

    family: Family
    checkpoint: Checkpoint
    library: Library
    forward: Function
    head: Function
    dims: Mapping[str, int]
    cache: str
    cache_blocks: int
    steps: Mapping[str, str]


def bind_checkpoint(checkpoint: Checkpoint, library: Library, cache: str = "f16") -> Bound:
    """Return the program of a checkpoint. cache: element of keys and values. Raises M101 to M109, E212."""
    architecture = checkpoint.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise BitternError(
            NO_ARCHITECTURE, "The metadata has no `general.architecture`.", "The file is incomplete: convert it again."
        )
    chosen = family(architecture, library.folders)
    shapes = {name: info.shape for name, info in checkpoint.tensors.items()}
    facts = Facts(checkpoint.metadata, architecture, shapes)
    binding = chosen.bind(facts)
    facts.finish()
    source = _Source(checkpoint, binding)
    element = ELEMENTS["i8" if cache == "int8" else cache]
    blocks = binding.dims["h"] // 32 if cache == "int8" else 0
    forward = bind_parameter(
        library, f"{chosen.name}.forward", "m", {**binding.dims, "b": blocks}, {"e": element}, source.node
    )
    head = bind_parameter(library, f"{chosen.name}.head", "m", dict(binding.dims), {}, source.node)
    source.check_all_used()
    return Bound(chosen, checkpoint, library, forward, head, binding.dims, cache, blocks, source.steps())


@dataclass(slots=True)
class _Source:
    """Gives the constants of fields, each made once."""

    checkpoint: Checkpoint
    binding: Binding

    def node(self, path: str, declared: Tensor) -> Node:
        """Return the constant of a field."""
        field = self.binding.fields[path]
        if isinstance(field, Weight):
            return self._weight(path, field, declared)
        made = const(field.value, field.element)
        assert made.type == declared, (path, made.type, declared)
        return made

    def _weight(self, path: str, field: Weight, declared: Tensor) -> Node:
        info = self.checkpoint.tensors.get(field.tensor)
        if info is None:
            raise BitternError(
                MISSING_TENSOR,
                f"The file has no tensor `{field.tensor}` for the field `{path}`, {text(declared)}.",
                nearest(field.tensor, list(self.checkpoint.tensors)) or "Convert the checkpoint again.",
            )
        shape = tuple(dim(size) for size in info.shape)
        if shape != declared.shape:
            wanted = [size.constant for size in declared.shape]
            raise BitternError(
                TENSOR_SHAPE,
                f"The tensor `{field.tensor}` has shape {list(info.shape)}, but the field `{path}` has {wanted}.",
                "Metadata and tensors disagree: convert the checkpoint again.",
            )
        is_open = declared.element.kind is Kind.OPEN
        if not (info.element == declared.element or (is_open and (info.element.is_format or info.element.is_float))):
            raise BitternError(
                TENSOR_ELEMENT,
                f"The tensor `{field.tensor}` holds {info.element}, but the field `{path}` is {text(declared)}.",
                "Convert the checkpoint so that this tensor has the declared type.",
            )
        return const_blob(self.checkpoint.blob(field.tensor), Tensor(info.element, shape))

    def check_all_used(self) -> None:
        """Refuse a file with tensors that no field takes. Raises M106."""
        used = {field.tensor for field in self.binding.fields.values() if isinstance(field, Weight)}
        spare = [name for name in self.checkpoint.tensors if name not in used]
        if spare:
            first = self.checkpoint.tensors[spare[0]]
            more = f" and {len(spare) - 1} more" if len(spare) > 1 else ""
            raise BitternError(
                SPARE_TENSOR,
                f"The tensor `{spare[0]}`, {first.element}{list(first.shape)}{more}, is used by no field.",
                "The checkpoint holds something that this family does not compute, so it is not run.",
            )

    def steps(self) -> dict[str, str]:
        """Return what was done besides naming, by field."""
        fields = self.binding.fields.items()
        return {path: "; ".join(f.steps) for path, f in fields if isinstance(f, Weight) and f.steps}
