"""Plans that are kept between runs, beside the code that they run: a second start makes neither a plan nor a graph.

A plan is found by everything that it was made from: the key of the bound model (the file's digest, the element of the
cache, the sources of Bittern) and what was asked for. It is only taken if all the code and the values that it needs are
kept, too, since a kept plan cannot make them.
"""

from collections.abc import Hashable
from typing import Any

from bittern.chips.machine.assembler import Code
from bittern.chips.machine.code_cache import CodeCache, code_key
from bittern.chips.x86.routines import Routines
from bittern.front.bound import Bound, blob_of
from bittern.plan.kept import NotKeptError, from_bytes, to_bytes
from bittern.plan.likeliest import Likeliest
from bittern.plan.plan import Packed, Plan, identity_of, value_of
from bittern.plan.watch import Watched


class KeptPlans:
    """The kept plans of one model. cache: where they are, or None. Without a key of the model nothing is kept."""

    def __init__(self, model: Bound, routines: Routines, cache: CodeCache | None) -> None:
        self.taken = 0  # plans that were found
        self._model, self._routines = model, routines
        self._cache = cache if model.key else None

    def take(self, wanted: Hashable) -> Any:
        """Return a plan, or what holds one, as it was kept; None: it is not there, or not all that it needs."""
        found = None if self._cache is None else self._cache.load(self._key(wanted))
        if found is None:
            return None
        try:
            made = from_bytes(found.data, lambda origin: blob_of(origin, self._model.checkpoint))
        except Exception:  # whatever is wrong with it, it is made again
            return None
        if not self._is_whole(plan_in(made)):
            return None
        self.taken += 1
        return made

    def keep(self, wanted: Hashable, made: object) -> None:
        """Keep what was made, if it can be."""
        if self._cache is None:
            return
        try:
            data = to_bytes(made, plan_in(made), self._model.program.origins)
        except NotKeptError:
            return
        self._cache.save(self._key(wanted), Code(data, 0, 1, {}))

    def _key(self, wanted: Hashable) -> str:
        return code_key(self._model.key, "plan", repr(wanted))

    def _is_whole(self, plan: Plan) -> bool:
        """Whether the code of all kernels is kept, and all that was evaluated ahead and is read."""
        launches = plan.launches
        reads = [operand for launch in launches for operand in launch.reads.values()]
        recipes = {launch.recipe for launch in launches} | {each.recipe for each in reads if isinstance(each, Packed)}
        roots = {plan.root[value] for value in (*map(value_of, reads), *plan.results)}
        values = {identity_of(plan.known[root], plan)[:-1] for root in roots if root in plan.known}
        return all(map(self._routines.has_code, recipes)) and all(map(self._routines.has_values, values))


def plan_in(made: object) -> Plan:
    """Return the plan that a table holds, or is."""
    if isinstance(made, Watched):
        return made.greedy.plan
    found = made.plan if isinstance(made, Likeliest) else made
    assert isinstance(found, Plan), made
    return found
