"""What a layer sees of its input: windows of one or two axes, or, for a dense layer, one place alone.

Input lies as [samples, height, width, values of a place], output as [samples, out_height, out_width, ...]. One axis
alone is an image of height 1.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Field:
    """Sizes of the input and of the windows; pairs are (of rows, of columns). before, after: places of padding."""

    size: tuple[int, int] = (1, 1)
    window: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)

    @property
    def taps(self) -> int:
        """Places of a window."""
        return self.window[0] * self.window[1]

    @property
    def out(self) -> tuple[int, int]:
        """Windows of each axis."""
        return self._count(0), self._count(1)

    @property
    def places(self) -> int:
        """Windows of a sample."""
        return self.out[0] * self.out[1]

    @property
    def is_padded(self) -> bool:
        """Whether a window reaches over an edge."""
        return any((*self.before, *self.after))

    @property
    def padded_width(self) -> int:
        """Places of a padded row."""
        return self.before[1] + self.size[1] + self.after[1]

    def _count(self, axis: int) -> int:
        room = self.before[axis] + self.size[axis] + self.after[axis]
        return (room - (self.window[axis] - 1) * self.dilations[axis] - 1) // self.strides[axis] + 1

    def inside(self, axis: int, number: int) -> tuple[bool, ...]:
        """Return which places of a window of one axis are no padding."""
        start = number * self.strides[axis] - self.before[axis]
        steps = (start + k * self.dilations[axis] for k in range(self.window[axis]))
        return tuple(0 <= step < self.size[axis] for step in steps)

    def as_tuple(self) -> tuple[tuple[int, int], ...]:
        """Return the numbers, for a recipe."""
        return (self.size, self.window, self.strides, self.dilations, self.before, self.after)
