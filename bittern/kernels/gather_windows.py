"""What each window sees, side by side (im2col): rows of bytes for a matrix product.

It pays where a row of a window fills groups of 4 bytes badly and many output channels share what is gathered.

Buffers: x: [images, rows, columns, c] i8 or u8. y: [places of all images, groups * 4] u8, the bytes unsigned; what lies
behind the last byte of a window is not stated.
"""

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel
from bittern.kernels.arrange import Arrange
from bittern.kernels.conv_shapes import Area, Conv, cut

_NEAR = 48 << 10  # bytes of copied rows of a round
_MOVES = (64, 32, 16, 8, 4, 2, 1)  # bytes at a time


def gathered(area: Area, images: int) -> Area:
    """Return the area of the product of what was gathered: one row of places of all images."""
    p, q = area.window
    size = (1, images * area.places)
    return Area(size, -(-p * q * area.c // 4) * 4, (1, 1), (1, 1), (1, 1), (0, 0), size, 0, "u8")


def moves(area: Area) -> int:
    """Return how many loads and stores a window takes."""
    conv = Conv(area, 1)
    stretches = conv.all_groups // conv.groups
    return stretches * len(_pieces(conv.stretch_bytes))


def _pieces(size: int) -> list[tuple[int, int]]:
    """Return place and size of what moves so many bytes; the last piece may repeat some."""
    most = next(each for each in _MOVES if each <= size)
    found = [(at, most) for at in range(0, size - most + 1, most)]
    return found if size % most == 0 else [*found, (size - most, most)]


def gather_windows(area: Area, images: int) -> Kernel:
    """Return the kernel."""
    b, to = Builder(f"gather_{area.element}_{area.c}"), gathered(area, images)
    x = b.buffer("x", area.element, images * (area.sizes[0] * area.sizes[1] * area.c), "read")
    y = b.buffer("y", "u8", to.places * to.c, "write")
    high, wide = cut(area, lambda rows, columns: area.reach(0, rows) * area.reach(1, columns) * area.c, False, _NEAR)
    near = Arrange(b, area, x, (high, wide))
    conv, (p, q) = Conv(area, 1), area.window
    rows, columns = area.counts
    with b.parallel(0, b.index(images) * near.rounds) as number:
        image, row, column = near.round(number)
        first = (image * rows + row) * columns + column
        with b.loop(0, high) as down, b.loop(0, wide) as across:
            (i,), (j,) = down, across
            source = i * (area.strides[0] * near.row_bytes) + j * (area.strides[1] * area.c)
            target = (first + i * columns + j) * to.c

            def copy(k: int, at: int, size: int) -> None:
                for offset, each in _pieces(size):
                    type_ = f"u8x{each}" if each >= 16 else f"u{8 * each}"
                    loaded: Handle = near.near.load(type_, source, offset=at + offset)
                    y.store(target, loaded, offset=k * size + offset)

            if conv.is_joined:
                for k in range(p):
                    copy(k, k * area.dilations[0] * near.row_bytes, q * area.c)
            else:
                for k in range(p * q):
                    at = k // q * area.dilations[0] * near.row_bytes + k % q * area.dilations[1] * area.c
                    copy(k, at, area.c)
    return b.build()
