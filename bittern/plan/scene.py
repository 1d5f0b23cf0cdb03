"""What a rule sees when it looks for its region: who makes and who reads a value, and the numbers of constants.

A rule asks for every fact here, so that a plan can be made without one (`dropped`), to see what hangs on it: `own`,
`last` (reads), `readers`, `tokens`, `numbers`; without `sizes` all that it sees has open sizes.
"""

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from bittern.plan.flow import Apply, Flow, Value
from bittern.plan.plan import Known
from bittern.types.dims import Dim

if TYPE_CHECKING:
    from bittern.lang.library import Library

_CACHE_AXES = 5  # layers, sequences, positions, heads, values


@dataclass(slots=True)
class Scene:
    """See the module.

    flow: what is planned. tokens: the number of tokens if it is fixed. library: where the program comes from. dropped:
    facts that are not told. same: aliases so far. known: values evaluated once. extra: values that the plan adds, by
    (value, purpose); what has one is made. needed: values that regions found so far read. without: rules that are not
    used. fuse: whether a region may cover several applications. tier: what the plan is for, a row of `cost.PEAKS`, ""
    for the best.
    """

    flow: Flow
    tokens: int | None
    library: "Library"
    dropped: frozenset[str] = frozenset()
    covered: set[Apply] = field(default_factory=set)
    same: dict[Value, Value] = field(default_factory=dict)
    extra: dict[tuple[Value, str], Value] = field(default_factory=dict)
    known: dict[Value, Known] = field(default_factory=dict)
    needed: set[Value] = field(default_factory=set)
    without: frozenset[str] = frozenset()
    fuse: bool = True
    tier: str = ""
    _beside: set[Value] = field(default_factory=set)  # values that something is made beside
    _makers: Mapping[Value, Apply] = field(default_factory=dict)
    _users: Mapping[Value, list[Apply]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._makers = {result: apply for apply in self.flow.applies for result in apply.results}
        self._users = self.flow.users()
        self.needed.update(self.flow.results)
        if "tokens" in self.dropped:
            self.tokens = None

    def copy(self) -> "Scene":
        """Return a scene that changes apart from this one."""
        made = copy(self)
        made.covered, made.same = set(self.covered), dict(self.same)
        made.extra, made.known = dict(self.extra), dict(self.known)
        made.needed, made._beside = set(self.needed), set(self._beside)
        return made

    def is_needed(self, apply: Apply) -> bool:
        """Whether a region found so far reads a result of an application, or what is made beside it."""
        return not (self.needed.isdisjoint(apply.results) and self._beside.isdisjoint(apply.results))

    def maker(self, value: Value) -> Apply | None:
        """Return what makes a value, or None for constants and inputs."""
        return self._makers.get(value)

    def users(self, value: Value) -> list[Apply]:
        """Return who reads a value."""
        return self._users.get(value, [])

    def through(self, value: Value) -> Value:
        """Return the value before reshapes."""
        made = self.maker(value)
        while made is not None and made.name == "reshape":
            value = made.arguments[0]
            made = self.maker(value)
        return value

    def private(self, value: Value, user: Apply) -> bool:
        """Whether nothing but one application reads a value (through reshapes), so that it may go unmade."""
        if value in self.flow.results or "readers" in self.dropped:
            return False
        for each in self.users(value):
            if each is user:
                continue
            if each.name != "reshape" or not self.private(each.results[0], user):
                return False
        return True

    def is_last(self, value: Value) -> bool:
        """Whether an application is the last that reads a value, so that it may write over it.

        Regions are found from the last to the first, so whatever is covered already runs later.
        """
        base = self.through(value)
        if base.source != "made" or base in self.known or "last" in self.dropped:
            return False
        return self._all_before(base)

    def _all_before(self, value: Value) -> bool:
        if value in self.flow.results:
            return False
        for each in self.users(value):
            if each.name == "reshape":
                if not self._all_before(each.results[0]):
                    return False
            elif each in self.covered:
                return False
        return True

    def chain(self, value: Value) -> list[Apply]:
        """Return the reshapes between a value and where it was made."""
        found = []
        made = self.maker(value)
        while made is not None and made.name == "reshape":
            found.append(made)
            made = self.maker(made.arguments[0])
        return found

    def is_cache(self, value: Value) -> bool:
        """Whether a value is a leaf of a cache that the function owns: updated in place, in an order of its own."""
        base = value
        while (made := self.maker(base)) is not None and made.name == "attention.store":
            base = made.arguments[made.results.index(base)]
        is_owned = base.mode == "own" and "own" not in self.dropped
        return base.source == "input" and is_owned and len(base.type.shape) == _CACHE_AXES

    def number(self, value: Value) -> int | float | None:
        """Return the number of a constant scalar, or None."""
        if value.source != "const" or value.type.shape or value.data is None or "numbers" in self.dropped:
            return None
        found = np.frombuffer(value.data.read(), dtype=np.dtype(value.type.element.storage))
        number: int | float = found[0].item()
        return number

    def extra_value(self, value: Value, purpose: str, made: Value | None = None) -> Value | None:
        """Return, or note, a value that the plan adds beside another."""
        if made is not None:
            self.extra[(value, purpose)] = made
            self._beside.add(value)
        return self.extra.get((value, purpose))


def constant(size: Dim) -> int | None:
    """Return a dimension as a number if it is one."""
    return size.constant
