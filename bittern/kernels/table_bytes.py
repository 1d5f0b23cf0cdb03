"""Any function of one 8-bit code, from a table of all 256: requantisation, activations, clamps.

Buffers: x: [n] u8, the bits of the codes. table: [256] u8. y: [n] u8.
"""

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Kernel

_ROUND = 32768  # values of a round of the parallel loop
_PART = 64  # values of a vector
_REST = 16


def table_bytes(n: int) -> Kernel:
    """Return the kernel for n values."""
    b = Builder(f"table_{n}")
    x, table, y = (
        b.buffer(name, "u8", size, access)
        for name, size, access in (("x", n, "read"), ("table", 256, "read"), ("y", n, "write"))
    )

    def entries() -> list[Handle]:
        return [table.load("u8x64", 64 * k) for k in range(4)]

    whole = n // _PART
    if whole:
        with b.parallel(0, -(-whole * _PART // _ROUND)) as part:
            held, low = entries(), part * (_ROUND // _PART)
            with b.loop(low, (low + _ROUND // _PART).min(b.index(whole))) as loop:
                (k,) = loop
                y.store(k * _PART, x.load("u8x64", k * _PART).lookup(*held))
    if n % _PART:
        with b.parallel(0, 1):
            held = entries()
            for start in range(whole * _PART, n, _REST):
                mask = None if n - start >= _REST else b.const(f"bitx{_REST}", [k < n - start for k in range(_REST)])
                y.store(start, x.load(f"u8x{_REST}", start, mask).lookup(*held), mask)
    return b.build()
