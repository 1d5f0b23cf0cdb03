"""The end of a greedy step: the chosen token becomes the next input, at the next position.

| buffer of `advance(stops, most)` | element, size | access |
|---|---|---|
| next | u32[1] | read |
| stop | u32[stops] | read |
| token | u32[1] | write |
| pos, made | u32[1] | update |
| out | u32[most] | write |
| flag | u32[1] | write |

`out[made]` becomes the token, if there is room; `made` and `pos` rise by one. `flag` becomes 1 if the token is one of
`stop` or the room is used up, else 0: the program's loop then ends.
"""

from bittern.bitops.builder import Builder
from bittern.bitops.kernel import Kernel


def advance(stops: int, most: int) -> Kernel:
    """Build the end of a greedy step; see the module. stops: numbers in `stop`. most: room in `out`."""
    b = Builder("advance")
    chosen, stop = b.buffer("next", "u32", 1, "read"), b.buffer("stop", "u32", stops, "read")
    token, pos = b.buffer("token", "u32", 1, "write"), b.buffer("pos", "u32", 1, "update")
    out, made = b.buffer("out", "u32", most, "write"), b.buffer("made", "u32", 1, "update")
    flag = b.buffer("flag", "u32", 1, "write", align=4)
    found, count = chosen.load("u32", 0), made.load("u32", 0)
    last = count + 1 >= b.const("u32", most)
    for k in range(stops):
        last = last | (stop.load("u32", k) == found)
    with b.when(count < b.const("u32", most)):
        out.store(count.convert("index"), found)
    token.store(0, found)
    pos.store(0, pos.load("u32", 0) + 1)
    made.store(0, count + 1)
    flag.store(0, last.convert("u32"))
    return b.build()
