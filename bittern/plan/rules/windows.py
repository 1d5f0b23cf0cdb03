"""What convolutions and pools read: back through `windows` and `pad` to the array whose windows they see.

A function of the library sees windows, [lead, o, p, v, q, channels]; how they were cut stands in the nodes in front of
it. A kernel reads the array itself, so rules ask here for the array, strides, dilations and paddings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bittern.plan.flow import Apply, Value
from bittern.plan.scene import Scene, constant
from bittern.types.dims import Dim

# function -> (number of the argument that has windows, spatial axes)
SPATIAL: Mapping[str, tuple[int, int]] = {
    "convolution.conv1d": (1, 1),
    "convolution.conv2d": (1, 2),
    "convolution.conv3d": (1, 3),
    "convolution.depthwise1d": (1, 1),
    "convolution.depthwise2d": (1, 2),
    "convolution.conv1d_grouped": (1, 1),
    "convolution.conv2d_grouped": (1, 2),
    "convolution.local1d": (1, 1),
    "convolution.local2d": (1, 2),
    "pooling.max_pool1d": (0, 1),
    "pooling.max_pool2d": (0, 2),
    "pooling.sum_pool1d": (0, 1),
    "pooling.sum_pool2d": (0, 2),
}


@dataclass(frozen=True, slots=True)
class Windowed:
    """Windows of an array; tuples have one number for each spatial axis.

    source: [lead, spatial, inner]. lead: how many axes stand in front of the spatial ones. sizes: of the source, before
    padding. windows: their sizes. padding: what is put in front and behind; None where nothing is. counts: how many
    windows. inner: the axes behind, channels last. covers: the nodes between that nobody else reads, in order.
    """

    source: Value
    lead: int
    sizes: tuple[int, ...]
    windows: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    padding: int | float | None
    counts: tuple[int, ...]
    inner: tuple[int, ...]
    covers: tuple[Apply, ...]

    @property
    def is_padded(self) -> bool:
        """Whether any window reaches over an edge."""
        return any(self.before) or any(self.after)

    @property
    def channels(self) -> int:
        """Values of one position."""
        total = 1
        for size in self.inner:
            total *= size
        return total


def windows_of(apply: Apply, scene: Scene) -> Windowed | None:
    """Return the windows that an application of a function of `SPATIAL` sees, or None if they cannot be told."""
    if apply.name not in SPATIAL:
        return None
    argument, spatial = SPATIAL[apply.name]
    if not apply.mapped[argument] and apply.lead:
        return None
    return windowed(apply.arguments[argument], apply, len(apply.lead), spatial, scene)


def windowed(value: Value, user: Apply, lead: int, spatial: int, scene: Scene) -> Windowed | None:
    """Return the windows that a value of [lead, count, size, count, size, ..., inner] holds. user: who reads them."""
    return _Search(value, user, lead, spatial, scene).found()


@dataclass(slots=True)
class _Search:
    """Undoes one node after the other. open: for each axis that is left, its spatial number, twice while it is cut."""

    value: Value
    user: Apply
    lead: int
    spatial: int
    scene: Scene
    steps: dict[int, tuple[int, int, int]] = field(default_factory=dict)  # axis: size, stride, dilation
    pads: dict[int, tuple[int, int]] = field(default_factory=dict)
    padding: int | float | None = None
    covers: list[Apply] = field(default_factory=list)

    def found(self) -> Windowed | None:
        shape = self.value.type.shape
        inner = shape[self.lead + 2 * self.spatial :]
        counts = shape[self.lead : self.lead + 2 * self.spatial : 2]
        axes = [k for k in range(self.spatial) for _ in range(2)]
        value, is_private = self.value, True
        while True:
            made = self.scene.maker(value)
            if made is None or not self._undo(made, axes):
                break
            is_private = is_private and self.scene.private(value, self.user)
            if is_private:
                self.covers.insert(0, made)
                self.user = made
            value = made.arguments[0]
        return self._windowed(value, counts, inner) if len(axes) == self.spatial else None

    def _undo(self, made: Apply, axes: list[int]) -> bool:
        """Note what a node does and leave what was before it; False where it is no part of the windows."""
        if made.name == "reshape":
            return self._undo_reshape(made, axes)
        if made.name not in ("windows", "pad"):
            return False
        at = made.node["axis"]
        assert isinstance(at, int)
        at -= self.lead
        if not 0 <= at < len(axes):
            return False
        axis, is_cut = axes[at], axes.count(axes[at]) == 2
        if made.name == "windows":
            size = _size(made.node["size"])
            if not is_cut or axes.index(axis) != at or size is None:
                return False
            self.steps[axis] = (size, _int(made.node["stride"]), _int(made.node["dilation"]))
            del axes[at]
            return True
        before, after = _size(made.node["before"]), _size(made.node["after"])
        number = self.scene.number(made.arguments[1])
        if is_cut or before is None or after is None or number is None or self.padding not in (None, number):
            return False
        self.padding = number
        more = self.pads.get(axis, (0, 0))
        self.pads[axis] = (before + more[0], after + more[1])
        return True

    def _undo_reshape(self, made: Apply, axes: list[int]) -> bool:
        """Undo windows of size 1 that are written as a reshape."""
        shape, ones = list(made.results[0].type.shape), []
        for at in range(len(axes) - 1, 0, -1):
            if axes[at] == axes[at - 1] and constant(shape[self.lead + at]) == 1:
                del shape[self.lead + at]
                ones.append(at)
        if not ones or tuple(shape) != made.arguments[0].type.shape:
            return False
        for at in ones:
            self.steps[axes[at]] = (1, 1, 1)
            del axes[at]
        return True

    def _windowed(self, source: Value, counts: tuple[Dim, ...], inner: tuple[Dim, ...]) -> Windowed | None:
        sizes = source.type.shape[self.lead : self.lead + self.spatial]
        known = [tuple(constant(size) for size in each) for each in (sizes, counts, inner)]
        if any(size is None for each in known for size in each):
            return None
        steps = [self.steps[axis] for axis in range(self.spatial)]
        pads = [self.pads.get(axis, (0, 0)) for axis in range(self.spatial)]
        whole = [tuple(size or 0 for size in each) for each in known]
        return Windowed(
            source,
            self.lead,
            whole[0],
            tuple(size for size, _, _ in steps),
            tuple(stride for _, stride, _ in steps),
            tuple(dilation for _, _, dilation in steps),
            tuple(before for before, _ in pads),
            tuple(after for _, after in pads),
            self.padding if self.pads else None,
            whole[1],
            whole[2],
            tuple(self.covers),
        )


def _size(value: object) -> int | None:
    return constant(value) if isinstance(value, Dim) else _int(value)


def _int(value: object) -> int:
    assert isinstance(value, int), value
    return value
