"""Binding: a checkpoint and its family's program become functions whose weights are constants.

Every tensor of the file is consumed by a declared field, or the error names it; every field's tensor exists and has the
declared shape, or the error names both shapes. A family's binding and its program must agree field by field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256

from bittern.base.errors import BitternError, code, nearest
from bittern.base.hashing import digest
from bittern.front.bound import Bound, Origin, Outline, Program
from bittern.front.checkpoint import Checkpoint, TensorInfo
from bittern.front.finite import check_finite
from bittern.front.ternary import Scales, codes_blob, split
from bittern.graph.node import Function, Node, blob, const, const_blob
from bittern.lang import syntax
from bittern.lang.elaborate import bind as bind_parameter
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library
from bittern.models.family import Binding, Facts, Family, Field, Numbers, TernaryCode, TernaryScale, Weight, family
from bittern.types.dims import dim
from bittern.types.elements import ELEMENTS, F32, Kind, T
from bittern.types.values import Tensor, text

MISSING_TENSOR = code("M105", "a tensor that the family needs is missing")
SPARE_TENSOR = code("M106", "a tensor of the file is used by no field")
TENSOR_SHAPE = code("M107", "a tensor has another shape than its field")
TENSOR_ELEMENT = code("M108", "a tensor has another element type than its field")
NO_ARCHITECTURE = code("M109", "the file does not say which architecture it holds")
DISAGREE = code("M111", "a family's binding and its program do not fit each other")
CACHE_WIDTH = code("M112", "the model's heads do not fit the element of the cache")

_FLOATS = ("f32", "f16", "bf16")  # whose products the library has; a f64 weight would have to be rounded unasked
NO_DECODER = code("M115", "the checkpoint is an encoder: it makes vectors, not text")
NO_ENCODER = code("M116", "the checkpoint is no encoder: it makes text, not vectors")

_INT8_BLOCK = 32  # values of a head that share a scale in an int8 cache
_ENTRIES = ("forward", "head")  # the functions of every family's program
_PLACES = 3  # token, sequence, position come before the leaves of the cache


def bind_checkpoint(checkpoint: Checkpoint, library: Library, cache: str = "f16") -> Bound:
    """Return the program of a checkpoint. cache: element of keys and values. Raises M101 to M115, E212."""
    program = program_of(checkpoint, library, cache)
    return Bound(checkpoint, program.outline, lambda: library, lambda _: program)


def program_of(checkpoint: Checkpoint, library: Library, cache: str) -> Program:
    """Bind a checkpoint. Raises M101 to M115, E212."""
    chosen, binding = _binding(checkpoint, library)
    if chosen.encodes:
        raise BitternError(
            NO_DECODER,
            f"The family `{chosen.name}` makes vectors of texts, not continuations.",
            "Use `bittern embed`, or `bittern.load_encoder`.",
        )
    declared = {name: _entry(library, chosen, binding, name) for name in _ENTRIES}
    blocks = _cache_blocks(binding.dims["h"], cache)
    source = _Source(checkpoint, chosen, binding, library)
    element = ELEMENTS["i8" if cache == "int8" else cache]
    dims = {"forward": {**binding.dims, "b": blocks}, "head": dict(binding.dims)}
    elements = {"forward": {"e": element}, "head": {}}
    forward, head = (
        bind_parameter(library, f"{chosen.name}.{name}", declared[name], dims[name], elements[name], source.node)
        for name in _ENTRIES
    )
    source.check_all_used()
    leaves = tuple(each.type for each in forward.params[_PLACES:] if isinstance(each.type, Tensor))
    width = head.params[0].type.shape[-1].constant if isinstance(head.params[0].type, Tensor) else None
    assert width is not None, head
    graph = digest(("program", forward, head))
    outline = Outline(dict(binding.dims), cache, blocks, leaves, width, graph)
    return Program(outline, chosen, forward, head, source.steps(), source.origins)


@dataclass(frozen=True, slots=True)
class BoundEncoder:
    """An encoder's program with its constants. encode: tokens to vectors. mean: of all vectors of a text.

    pool: the vector of a text by the model's own pooler, or None where the checkpoint has none.
    """

    family: Family
    checkpoint: Checkpoint
    library: Library
    encode: Function
    mean: Function
    pool: Function | None
    dims: Mapping[str, int]
    steps: Mapping[str, str]


def bind_encoder(checkpoint: Checkpoint, library: Library) -> BoundEncoder:
    """Return the program of an encoder's checkpoint. Raises M101 to M116, E212."""
    chosen, binding = _binding(checkpoint, library)
    if not chosen.encodes:
        raise BitternError(
            NO_ENCODER,
            f"The family `{chosen.name}` continues texts; it makes no vectors of them.",
            "Use `bittern.load`.",
        )
    source = _Source(checkpoint, chosen, binding, library)
    made: dict[str, Function] = {}
    for name, prefix in {"encode": "", "pool": "pooler."}.items():
        if any(path.startswith(prefix) for path in binding.fields):
            entry = _entry(library, chosen, binding, name)
            giving = partial(_prefixed, source, prefix)
            made[name] = bind_parameter(library, f"{chosen.name}.{name}", entry, binding.dims, {}, giving)
    source.check_all_used()
    module = library.module(chosen.name)
    assert module is not None, chosen.name
    mean = instance_for(module, module.functions["mean"][0], {})
    return BoundEncoder(
        chosen, checkpoint, library, made["encode"], mean, made.get("pool"), binding.dims, source.steps()
    )


def _prefixed(source: "_Source", prefix: str, path: str, declared: Tensor) -> Node:
    return source.node(prefix + path, declared)


def _binding(checkpoint: Checkpoint, library: Library) -> tuple[Family, Binding]:
    """Return the family of a checkpoint and what its binding file makes of it. Raises M101 to M104, M109, M110."""
    architecture = checkpoint.metadata.get("general.architecture")
    if not isinstance(architecture, str):
        raise BitternError(
            NO_ARCHITECTURE, "The metadata has no `general.architecture`.", "The file is incomplete: convert it again."
        )
    chosen = family(architecture, library.folders)
    shapes = {name: info.shape for name, info in checkpoint.tensors.items()}
    return chosen, chosen.bind(Facts(checkpoint.metadata, architecture, shapes))


def _entry(library: Library, chosen: Family, binding: Binding, name: str) -> str:
    """Return the parameter that takes the model in a function that every family's program has. Raises M111, E212."""
    module = library.module(chosen.name)
    library.raise_errors(module)
    found = module.functions.get(name, []) if module else []
    if len(found) != 1 or not found[0].parameters:
        raise _disagree(chosen, f"has {len(found) or 'no'} functions `{name}` that take the model", "Write one.")
    model = found[0].parameters[0]
    sizes = {"h"}  # of a head: the cache needs it
    if isinstance(model.type, syntax.NamedType):
        sizes |= {argument.name for argument in model.type.arguments if isinstance(argument, syntax.Name)}
    missing = sorted(sizes - set(binding.dims))
    if missing:
        names = ", ".join(f"`{size}`" for size in missing)
        raise _disagree(
            chosen, f"needs the dimensions {names}, which the binding does not give", "Give them in `dims`."
        )
    return model.name.name


def _cache_blocks(h: int, cache: str) -> int:
    """Return the number of scales in a head of the cache. Raises M112 where a head is no whole number of blocks."""
    if cache != "int8":
        return 0
    if h % _INT8_BLOCK:
        raise BitternError(
            CACHE_WIDTH,
            f"The model's heads have {h} values, but an int8 cache has one scale for every {_INT8_BLOCK}.",
            "Use `--cache f16` or `--cache f32`.",
        )
    return h // _INT8_BLOCK


def _disagree(chosen: Family, what: str, remedy: str) -> BitternError:
    return BitternError(DISAGREE, f"The program of the family `{chosen.name}` {what}.", f"{remedy} See {chosen.path}.")


@dataclass(slots=True)
class _Source:
    """Gives the constants of fields and remembers which were asked for."""

    checkpoint: Checkpoint
    family: Family
    binding: Binding
    library: Library
    asked: set[str] = field(default_factory=set)
    parted: dict[str, tuple[Origin, Scales]] = field(default_factory=dict)
    origins: dict[bytes, Origin] = field(default_factory=dict)

    def node(self, path: str, declared: Tensor) -> Node:
        """Return the constant of a field."""
        self.asked.add(path)
        found = self.binding.fields.get(path)
        if found is None:
            remedy = nearest(path, list(self.binding.fields)) or "Give it in `fields`."
            raise _disagree(self.family, f"has the field `{path}`, which the binding does not give", remedy)
        if isinstance(found, Weight):
            return self._weight(path, found, declared)
        if isinstance(found, Numbers):
            return self._numbers(path, found, declared)
        return self._ternary(path, found, declared)

    def _numbers(self, path: str, found: Numbers, declared: Tensor) -> Node:
        made = const(found.value, found.element)
        if made.type != declared:
            assert isinstance(made.type, Tensor), path
            what = f"has the field `{path}`, {text(declared)}, but the binding gives {text(made.type)}"
            raise _disagree(self.family, what, "Give it the declared type.")
        return made

    def _ternary(self, path: str, found: TernaryCode | TernaryScale, declared: Tensor) -> Node:
        """Return one part of a ternary matrix; scales are kept only until both parts were asked for."""
        name = f"{found.tensor}.weight"
        self._need(path, name, declared)
        origin, scales = parts = self.parted.pop(found.tensor, None) or self._split(found.tensor)
        if not {path for path, other in self.binding.fields.items() if self._is_same(found, other)} <= self.asked:
            self.parted[found.tensor] = parts
        is_code = isinstance(found, TernaryCode)
        element, sizes = (T, self.checkpoint.info(name).shape) if is_code else (F32, scales.shape)
        shape = tuple(dim(size) for size in sizes)
        if (element, shape) != (declared.element, declared.shape):
            raise BitternError(
                TENSOR_SHAPE,
                f"The tensor `{name}` has shape {list(sizes)}, but the field `{path}` is {text(declared)}.",
                "Metadata and tensors disagree: convert the checkpoint again.",
            )
        data = codes_blob(self.checkpoint, origin, self.library) if is_code else blob(scales.tobytes())
        return const_blob(data, Tensor(element, shape))

    def _split(self, tensor: str) -> tuple[Origin, Scales]:
        """Return where the codes of a matrix lie, and its scales."""
        codes, scales = split(self.checkpoint, tensor, self.library)
        origin = Origin("codes", tensor, sha256(codes.data).digest(), codes.size)
        self.origins[origin.digest] = origin
        return origin, scales

    def _is_same(self, found: TernaryCode | TernaryScale, other: object) -> bool:
        return isinstance(other, (TernaryCode, TernaryScale)) and other.tensor == found.tensor

    def _weight(self, path: str, found: Weight, declared: Tensor) -> Node:
        info = self._need(path, found.tensor, declared)
        shape = tuple(dim(size) for size in info.shape)
        if shape != declared.shape:
            wanted = [size.constant for size in declared.shape]
            raise BitternError(
                TENSOR_SHAPE,
                f"The tensor `{found.tensor}` has shape {list(info.shape)}, but the field `{path}` has {wanted}.",
                "Metadata and tensors disagree: convert the checkpoint again.",
            )
        is_weight = declared.element.kind is Kind.OPEN and (info.element.is_format or info.element.name in _FLOATS)
        if not (is_weight or info.element == declared.element):
            raise BitternError(
                TENSOR_ELEMENT,
                f"The tensor `{found.tensor}` holds {info.element}, but the field `{path}` is {text(declared)}.",
                f"Convert it: weights are {', '.join(_FLOATS)} or a block format, other tensors as declared.",
            )
        check_finite(self.checkpoint, found.tensor)
        made = self.checkpoint.blob(found.tensor)
        self.origins[made.digest] = Origin("weight", found.tensor, made.digest, made.size)
        return const_blob(made, Tensor(info.element, shape))

    def _need(self, path: str, tensor: str, declared: Tensor) -> TensorInfo:
        """Return what is known of a field's tensor. Raises M105."""
        info = self.checkpoint.tensors.get(tensor)
        if info is None:
            raise BitternError(
                MISSING_TENSOR,
                f"The file has no tensor `{tensor}` for the field `{path}`, {text(declared)}.",
                nearest(tensor, list(self.checkpoint.tensors)) or "Convert the checkpoint again.",
            )
        return info

    def check_all_used(self) -> None:
        """Refuse fields that the program lacks, and tensors that no field takes. Raises M106, M111."""
        extra = sorted(set(self.binding.fields) - self.asked)
        if extra:
            what = f"has no field `{extra[0]}`, which the binding gives"
            raise _disagree(self.family, what, nearest(extra[0], sorted(self.asked)) or "Take it out of `fields`.")
        fields = self.binding.fields.values()
        used = {found.tensor for found in fields if isinstance(found, Weight)}
        used |= {f"{f.tensor}.weight" for f in fields if isinstance(f, TernaryCode)}
        used |= {f"{f.tensor}.scale" for f in fields if isinstance(f, TernaryScale)}
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
        made = {path: "; ".join(self._steps_of(found)) for path, found in self.binding.fields.items()}
        return {path: steps for path, steps in made.items() if steps}

    def _steps_of(self, found: Field) -> tuple[str, ...]:
        """Return what was done for a field: by the reader of the checkpoint, then by binding."""
        if isinstance(found, Numbers):
            return ()
        derived = self.checkpoint.derived.get(found.tensor if isinstance(found, Weight) else f"{found.tensor}.weight")
        before = derived.steps if derived else ()
        if isinstance(found, Weight):
            return (*before, *found.steps)
        return (*before, "codes of a ternary matrix" if isinstance(found, TernaryCode) else "scales of its rows")
