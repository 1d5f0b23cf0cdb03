"""The last rules: whatever has no kernel of its own goes through the generic lowering, at known sizes.

Small work is left to one thread, large work is shared. What the lowering made is remembered by what the part computes
and its sizes, so that equal parts of a model share it. Elementwise operations that only feed each other are one part.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from bittern.base.errors import BitternError
from bittern.graph.node import Function, Node, blob
from bittern.passes.layout_rules import ELEMENTWISE
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Mode, Operand, Recipe, Region
from bittern.plan.rules.attention import is_tiled
from bittern.plan.scene import Scene
from bittern.types.dims import dim
from bittern.types.values import Tensor

if TYPE_CHECKING:
    from bittern.kernels.generic.lower import Lowered

_SHARED = 1 << 14  # numbers that a part reads and writes, from which threads share it
_MOST = 32  # operations of one part
_SPREAD = "broadcast"


def elementwise(apply: Apply, scene: Scene) -> Region | None:
    """Elementwise operations that only feed each other, and what they spread: nothing in between is stored."""
    if apply.name not in ELEMENTWISE or not apply.arguments:
        return None
    covers, values, nodes = _joined(apply, scene)
    if len(covers) == 1:
        return None
    return _region(covers, [apply.node], nodes, values, scene)


def generic(apply: Apply, scene: Scene) -> Region | None:
    """Any application by itself."""
    if apply.function is not None and apply.node.kind == "call":
        return _launched((apply,), apply.function, apply.dims, apply.inputs, scene)
    return _region((apply,), [apply.node], apply.node.inputs, apply.inputs, scene)


def _joined(apply: Apply, scene: Scene) -> tuple[tuple[Apply, ...], list[Value], list[Node]]:
    """Return what is joined, inputs before users, and the values and nodes that it reads."""
    covers, waiting = [apply], [apply]
    values: dict[Value, Node] = {}
    while waiting:
        user = waiting.pop()
        for value, node in zip(user.inputs, user.node.inputs, strict=True):
            made = scene.maker(value)
            if made in covers:
                continue  # read twice by the one that reads it
            if (
                made is not None
                and made.name in (*ELEMENTWISE, _SPREAD)
                and made.node is node
                and made.setting == apply.setting
                and len(covers) < _MOST
                and value not in scene.known
                and made not in scene.covered
                and scene.private(value, user)
            ):
                covers.append(made)
                waiting.append(made)
            else:
                values[value] = node
    return tuple(reversed(covers)), list(values), list(values.values())


def _region(
    covers: tuple[Apply, ...], results: Sequence[Node], nodes: Sequence[Node], values: Sequence[Value], scene: Scene
) -> Region | None:
    from bittern.kernels.generic.lower import part

    setting = covers[-1].setting
    return _launched(covers, part(results, nodes, len(setting)), setting, values, scene)


def _launched(
    covers: tuple[Apply, ...], function: Function, dims: Sequence[object], values: Sequence[Value], scene: Scene
) -> Region | None:
    apply = covers[-1]
    sizes = tuple(getattr(size, "constant", None) for size in dims)
    if None in sizes or any(scene.is_cache(value) and is_tiled(value) for value in values):
        return None
    known = tuple(size or 0 for size in sizes)
    mode = _mode((*values, *apply.results), scene)
    try:
        found = _lowered(function, known, mode == "split")
    except BitternError:
        return None
    recipe = Recipe("generic", (function.id.hex(), mode, *sizes), found.kernel)
    reads: dict[str, Operand] = {
        leaf.buffer: value for leaf, value in zip(found.parameters, values, strict=True) if leaf.size
    }
    same = {apply.results[leaf]: values[parameter] for leaf, parameter in found.taken.items()}
    rest = [value for leaf, value in enumerate(apply.results) if leaf not in found.taken]
    kept = [leaf for number, leaf in enumerate(found.results) if number not in found.taken]
    writes: dict[str, Operand] = {leaf.buffer: value for leaf, value in zip(kept, rest, strict=True) if leaf.size}
    for parameter in found.taken.values():
        writes[found.parameters[parameter].buffer] = values[parameter]
    buffers = {buffer.name: buffer for buffer in found.kernel.buffers}
    for name, array in found.constants.items():
        type_ = Tensor(buffers[name].element, tuple(dim(size) for size in array.shape))
        reads[name] = Value(type_, "const", data=blob(array.tobytes()), label=name)
    for name in found.workspaces:
        size = buffers[name].size.constant
        assert size is not None, name
        writes[name] = Value(Tensor(buffers[name].element, (dim(size),)), "made", label=name)
    reads = {name: operand for name, operand in reads.items() if name in buffers}
    writes = {name: operand for name, operand in writes.items() if name in buffers}
    return Region("", covers, (Launch(recipe, reads, writes, mode=mode, label=apply.label),), same)


def _mode(values: Sequence[Value], scene: Scene) -> Mode:
    """Return who runs a part that touches these values."""
    total = 0
    for value in values:
        total += value.size.constant or 0
    return "split" if total >= _SHARED else "one"


@lru_cache(maxsize=256)
def _lowered(function: Function, sizes: tuple[int, ...], is_shared: bool) -> "Lowered":
    from bittern.kernels.generic.lower import lower

    return lower(function, sizes, shared=is_shared)
