"""The greatest of windows of packed values: where each plane tells that one threshold is reached, it is their `or`.

Padding is the least value, so it is left out. Places lie as `window_product` has them.
"""

from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Kernel
from bittern.kernels.field import Field
from bittern.types.dims import dim


def pool_planes(field: Field, span: int, samples: int | None) -> Kernel:
    """Return the kernel of places of so many words. samples: how many; None makes them the symbol `b`.

    Buffers: x: u64 [samples, height, width, span], y: u64 [samples, out_height, out_width, span].
    """
    b = Builder(f"pool_planes_{span}", () if samples is not None else ("b",))
    count = dim(samples) if samples is not None else b.dims[0]
    (height, width), (rows, columns) = field.size, field.out
    x = b.buffer("x", "u64", count * (height * width * span), "read")
    y = b.buffer("y", "u64", count * (rows * columns * span), "write")
    with b.parallel(0, count * rows) as number, b.when(number // rows < count):  # always; what follows needs it
        sample, row = number // rows, number % rows
        with b.loop(0, columns) as across, b.loop(0, span) as inner:
            (column,), (k,) = across, inner
            total = b.const("u64", 0)
            for tap in range(field.taps):
                down, right = tap // field.window[1] * field.dilations[0], tap % field.window[1] * field.dilations[1]
                line = row * field.strides[0] + (down - field.before[0])
                place = column * field.strides[1] + (right - field.before[1])
                if not field.is_padded:
                    total = total | x.load("u64", ((sample * height + line) * width + place) * span + k)
                    continue
                inside = b.branch((line >= 0) & (line < height) & (place >= 0) & (place < width))
                with inside.yes:
                    near, there = line.max(0).min(height - 1), place.max(0).min(width - 1)  # for the proof
                    inside.give(total | x.load("u64", ((sample * height + near) * width + there) * span + k))
                with inside.no:
                    inside.give(total)
                (total,) = inside.results
            y.store((number * columns + column) * span + k, total)
    return b.build()
