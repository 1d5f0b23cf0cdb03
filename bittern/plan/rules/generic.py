"""The last rule: whatever has no kernel of its own goes through the generic lowering, at known sizes.

One thread does the work. What the lowering made is remembered by the node and its sizes, so that the layers of a model
share it.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from bittern.base.errors import BitternError
from bittern.graph.node import Function, Node, blob
from bittern.plan.flow import Apply, Value
from bittern.plan.plan import Launch, Operand, Recipe, Region
from bittern.plan.rules.attention import is_tiled
from bittern.plan.scene import Scene
from bittern.types.dims import dim
from bittern.types.values import Tensor

if TYPE_CHECKING:
    from bittern.kernels.generic.lower import Lowered


def generic(apply: Apply, scene: Scene) -> Region | None:
    """One node as a kernel of its own."""
    is_call = apply.node.kind == "call"
    sizes = tuple(size.constant for size in (apply.dims if is_call else apply.setting))
    if None in sizes or any(scene.is_cache(value) and is_tiled(value) for value in apply.inputs):
        return None
    known = tuple(size or 0 for size in sizes)
    try:
        found = _callee(apply.function, known) if apply.function and is_call else _node(apply.node, known)
    except BitternError:
        return None
    recipe = Recipe("generic", (apply.node.id.hex(), *sizes), found.kernel)
    reads: dict[str, Operand] = {
        leaf.buffer: value for leaf, value in zip(found.parameters, apply.inputs, strict=True) if leaf.size
    }
    same = {apply.results[leaf]: apply.inputs[parameter] for leaf, parameter in found.taken.items()}
    rest = [value for leaf, value in enumerate(apply.results) if leaf not in found.taken]
    kept = [leaf for number, leaf in enumerate(found.results) if number not in found.taken]
    writes: dict[str, Operand] = {leaf.buffer: value for leaf, value in zip(kept, rest, strict=True) if leaf.size}
    for parameter in found.taken.values():
        writes[found.parameters[parameter].buffer] = apply.inputs[parameter]
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
    return Region("", (apply,), (Launch(recipe, reads, writes, mode="one", label=apply.label),), same)


@lru_cache(maxsize=256)
def _node(node: Node, sizes: tuple[int, ...]) -> "Lowered":
    from bittern.kernels.generic.lower import lower_nodes

    return lower_nodes([node], node.inputs, sizes, shared=False)


@lru_cache(maxsize=256)
def _callee(function: Function, sizes: tuple[int, ...]) -> "Lowered":
    from bittern.kernels.generic.lower import lower

    return lower(function, sizes, shared=False)
