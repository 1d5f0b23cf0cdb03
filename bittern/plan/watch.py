"""The greedy loop that comes back when the text repeats itself, so that what follows can be drafted and verified.

`Watch` is what the caller knows of a text: which runs of tokens stood in it. `watched` puts the launch that looks at it
behind a greedy step (kernels/watch.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bittern.kernels.watch import LONGEST, SETTING, WORDS, factors, places
from bittern.plan.flow import Value
from bittern.plan.plan import Launch, Recipe, Region
from bittern.plan.step import Greedy
from bittern.types.dims import dim
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor

Words = npt.NDArray[np.uint32]


class Watch:
    """Runs of tokens of one text, by their hashes. grams: how many tokens make a run, 1 to 4; 0: nothing is watched.

    setting, last, seen: what the kernel takes.
    """

    def __init__(self) -> None:
        self.grams = 0
        self.setting: Words = np.zeros(SETTING, np.uint32)
        self.last: Words = np.zeros(LONGEST - 1, np.uint32)
        self.seen: Words = np.zeros(WORDS, np.uint32)
        self._noted = 0  # tokens of the text whose runs are in `seen`

    def look(self, text: Sequence[int], grams: int) -> None:
        """Take note of a text, which begins with the one of the last call."""
        if grams != self.grams:
            self.grams, self._noted = grams, 0
            self.seen[:] = 0
            self.setting[:] = 0
            if grams:
                self.setting[:LONGEST], self.setting[LONGEST] = factors(grams), 1
        if not grams:
            return
        new = places(text[max(self._noted - grams + 1, 0) :], grams)
        np.bitwise_or.at(self.seen, new >> np.uint32(5), np.uint32(1) << (new & np.uint32(31)))
        self._noted = len(text)
        for k in range(LONGEST - 1):
            self.last[k] = text[-1 - k] if k < len(text) else 0


@dataclass(frozen=True, slots=True)
class Watched:
    """A greedy loop with a watch: `setting`, `last` and `seen` are given before each run."""

    greedy: Greedy
    setting: Value
    last: Value
    seen: Value


def watched(greedy: Greedy) -> Watched:
    """Return the greedy loop with the watch at its end."""
    plan = greedy.plan
    sizes = {"setting": SETTING, "last": LONGEST - 1, "seen": WORDS}
    made = {
        name: Value(Tensor(ELEMENTS["u32"], (dim(size),)), "input", number=len(plan.inputs) + k, label=name)
        for k, (name, size) in enumerate(sizes.items())
    }
    updated = {"last": made["last"], "seen": made["seen"], "flag": greedy.flag}
    launch = Launch(
        Recipe("watch"),
        {"token": greedy.token, "setting": made["setting"], **updated},
        updated,
        mode="one",
        label="watch",
    )
    root = {**plan.root, **{value: value for value in made.values()}}
    regions = (*plan.regions, Region("watch", (), (launch,)))
    whole = replace(plan, regions=regions, root=root, inputs=(*plan.inputs, *made.values()))
    return Watched(replace(greedy, plan=whole), **made)
