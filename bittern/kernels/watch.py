"""The watch for a text that repeats itself: whether its last tokens stood in it before.

| buffer of `watch()` | element, size | access |
|---|---|---|
| token | u32[1] | read |
| setting | u32[5] | read |
| last | u32[3] | update |
| seen | u32[WORDS] | update |
| flag | u32[1] | update |

The last tokens are hashed: h = setting[0] token + setting[1] last[0] + setting[2] last[1] + setting[3] last[2] modulo
2^32, of which the highest `BITS` bits name a bit of `seen` (multiply and add, Dietzfelbinger 1996). Factors of 0 leave
tokens out, so that the settings choose how many count. If the bit was set and setting[4] is not 0, `flag` becomes 1,
which ends the program's loop; else it stays. Then the bit is set, and `last` takes the token in front.

Two runs of tokens may share a bit: who reads the flag looks the tokens up.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from bittern.bitops.kernel import Kernel

BITS = 16
WORDS = 1 << BITS >> 5
LONGEST = 4  # tokens that may count
SETTING = LONGEST + 1

_FACTORS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F)  # odd, from the digits of roots and logarithms


def watch() -> "Kernel":
    """Build the watch; see the module."""
    from bittern.bitops.builder import Builder

    b = Builder("watch")
    token, setting = b.buffer("token", "u32", 1, "read"), b.buffer("setting", "u32", SETTING, "read")
    last, seen = b.buffer("last", "u32", LONGEST - 1, "update"), b.buffer("seen", "u32", WORDS, "update")
    flag = b.buffer("flag", "u32", 1, "update", align=4)
    run = [token.load("u32", 0), *(last.load("u32", k) for k in range(LONGEST - 1))]
    h = run[0] * setting.load("u32", 0)
    for k in range(1, LONGEST):
        h = h + run[k] * setting.load("u32", k)
    place = (h >> (32 - BITS)).convert("index")
    bit = b.const("u32", 1) << ((h >> (32 - BITS)) & 31)
    word = seen.load("u32", place // 32)
    was = (word & bit).ne(0) & setting.load("u32", LONGEST).ne(0)
    flag.store(0, flag.load("u32", 0) | was.convert("u32"))
    seen.store(place // 32, word | bit)
    for k in range(LONGEST - 1):
        last.store(k, run[k])
    return b.build()


def factors(grams: int) -> npt.NDArray[np.uint32]:
    """Return the first part of the setting for so many tokens: u32[LONGEST]."""
    assert 1 <= grams <= LONGEST, grams
    return np.array([*_FACTORS[:grams], *[0] * (LONGEST - grams)], np.uint32)


def places(text: Sequence[int], grams: int) -> npt.NDArray[np.uint32]:
    """Return the bit of `seen` for each run of `grams` tokens of a text, in order."""
    tokens = np.asarray(text, np.uint32)
    count = max(len(tokens) - grams + 1, 0)
    h = np.zeros(count, np.uint32)
    for k in range(grams):
        h += tokens[grams - 1 - k :][:count] * np.uint32(_FACTORS[k])
    return h >> np.uint32(32 - BITS)
