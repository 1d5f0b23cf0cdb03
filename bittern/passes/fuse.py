"""Fusion: maps over equally many elements that feed each other, or walk the same array, become one map.

A group is a set of maps, and of element-wise operations on arrays of as many rows, of which at least one is a map.
Element i of every member depends on elements i of the others alone, so one body computes all of them; what nobody
outside reads is not stored any more. A member joins a group only if no value on the way from the group to it is made
outside: then the group can be one node. Maps whose bodies call kernels are left to the plan, which fuses by kernel.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from bittern.graph.node import Function, Labels, Node, Parameter, make_tuple, map_over, param, walk
from bittern.passes.bodies import body_of, item_type, items_of, joined, parts_of
from bittern.passes.known import spread, spread_of
from bittern.passes.layout_rules import ELEMENTWISE, make
from bittern.passes.rewriting import (
    bodies_of,
    finished,
    index_of,
    joined_labels,
    put_in,
    users_of,
    with_inputs,
)
from bittern.passes.straighten import has_call
from bittern.passes.table import Context, Fact, Pass
from bittern.types.dims import Dim
from bittern.types.values import Tensor, Tuple

_NAMED = ("const", "size")  # a body names them itself


@dataclass(slots=True, eq=False)
class _Group:
    """Nodes that become one map. first, last: the places of its members in the order of the graph."""

    count: Dim
    first: int
    last: int
    members: list[Node] = field(default_factory=list)

    @property
    def is_worth(self) -> bool:
        """Whether there is something to fuse."""
        return len(self.members) > 1 and any(n.kind == "map" for n in self.members)


def _run(function: Function, context: Context) -> Function:
    groups = _Grouping(function).groups()
    return _Joining(function, groups).run() if groups else function


def _count(of: Node) -> Dim | None:
    """Return over how many elements a node can be one map, or None if it is no candidate."""
    if of.kind == "map":
        count = of["count"]
        assert isinstance(count, Dim), of
        return None if has_call(body_of(of)) else count
    if of.kind in ELEMENTWISE and isinstance(of.type, Tensor) and of.type.shape:
        return of.type.shape[0]
    return None


def _walked(of: Node) -> Sequence[Node]:
    """Return the inputs of which a candidate takes one element at a time."""
    if of.kind == "map":
        return parts_of(of).varying
    return [i for i in of.inputs if not _is_uniform(i)]


def _is_uniform(of: Node) -> bool:
    return of.kind in ("fill", "broadcast") and spread_of(of) is not None


def _maker(of: Node) -> Node:
    """Return the node that computes a value: of an item, the node with all of them."""
    return of.inputs[0] if of.kind == "item" else of


class _Grouping:
    """Finds the groups of one graph."""

    def __init__(self, function: Function) -> None:
        self.nodes = list(walk(function.result))
        self.place = {n.id: place for place, n in enumerate(self.nodes)}
        self.of: dict[bytes, _Group] = {}
        self.walkers: dict[bytes, list[_Group]] = {}
        self.all: list[_Group] = []

    def groups(self) -> dict[bytes, _Group]:
        """Return the group of each node that is to be fused."""
        for n in self.nodes:
            count = _count(n)
            if count is None:
                continue
            group = next((g for g in self._near(n) if g.count == count and self._may_join(n, g)), None)
            if group is None:
                group = _Group(count, self.place[n.id], self.place[n.id])
                self.all.append(group)
            group.members.append(n)
            group.last = self.place[n.id]
            self.of[n.id] = group
            for walked in _walked(n):
                known = self.walkers.setdefault(walked.id, [])
                if group not in known:
                    known.append(group)
        return {key: group for key, group in self.of.items() if group.is_worth}

    def _near(self, n: Node) -> Iterator[_Group]:
        """Yield the groups that make, or also walk, what a node walks."""
        for walked in _walked(n):
            made = self.of.get(_maker(walked).id)
            if made is not None:
                yield made
        for walked in _walked(n):
            yield from self.walkers.get(walked.id, ())

    def _may_join(self, n: Node, group: _Group) -> bool:
        """Whether no path leads from the group to the node but through what it walks."""
        walked = {w.id for w in _walked(n)}
        waiting = [
            i for i in n.inputs if i.id not in walked or self.of.get(_maker(i).id) is not group or _captures(n, i)
        ]
        start = self._start(group)
        seen: set[bytes] = set()
        while waiting:
            current = waiting.pop()
            if current.id in seen or self.place[current.id] < start:
                continue
            seen.add(current.id)
            found = self.of.get(current.id)
            if found is group:
                return False
            waiting += current.inputs
            if found is not None:
                waiting += [i for member in found.members for i in member.inputs]
        return True

    def _start(self, group: _Group) -> int:
        """Return a place before which nothing depends on the group, not even through what other groups join."""
        start = group.first
        for other in reversed(self.all):  # by their first member, the latest first
            if other.first < start <= other.last:
                start = other.first
        return start


def _captures(of: Node, value: Node) -> bool:
    """Whether a map also takes a value whole."""
    return of.kind == "map" and any(c is value for c in parts_of(of).captures)


class _Joining:
    """Rebuilds one graph with each group as one map."""

    def __init__(self, function: Function, groups: dict[bytes, _Group]) -> None:
        self.function, self.groups = function, groups
        self.users = users_of(function)
        self.fresh: dict[bytes, Node] = {}

    def run(self) -> Function:
        """Return the function with its groups joined."""
        waiting = [self.function.result]
        while waiting:
            current = waiting[-1]
            if current.id in self.fresh:
                waiting.pop()
                continue
            group = self.groups.get(current.id)
            needed = self._needs(group) if group else current.inputs
            missing = [i for i in needed if i.id not in self.fresh]
            if missing:
                waiting += missing
            elif group:
                self._join(group)
            else:
                self.fresh[current.id] = with_inputs(current, [self.fresh[i.id] for i in current.inputs])
        return finished(self.function, self.fresh)

    def _needs(self, group: _Group) -> list[Node]:
        """Return what a group takes from outside."""
        return [i for member in group.members for i in member.inputs if self.groups.get(_maker(i).id) is not group]

    def _join(self, group: _Group) -> None:
        """Make one map of a group; note what becomes of its members."""
        body = _Body(group, self)
        outputs = [n for n in group.members if self._is_read_outside(n, group)]
        made = body.finish(outputs)
        items, start = items_of(made), 0
        for member in group.members:
            width = len(member.type.items) if isinstance(member.type, Tuple) else 1
            if member in outputs:
                mine, start = items[start : start + width], start + width
                self.fresh[member.id] = make_tuple(mine) if isinstance(member.type, Tuple) else mine[0]
            else:
                self.fresh[member.id] = member  # read by members alone
            for user, _ in self.users.get(member.id, []):
                if user.kind == "item":
                    self.fresh[user.id] = with_inputs(user, [self.fresh[member.id]])

    def _is_read_outside(self, member: Node, group: _Group) -> bool:
        if member is self.function.result:
            return True
        for user, _ in self.users.get(member.id, []):
            if user.kind == "item":
                if user is self.function.result or any(
                    self.groups.get(u.id) is not group for u, _ in self.users.get(user.id, [])
                ):
                    return True
            elif self.groups.get(user.id) is not group:
                return True
        return False


class _Body:
    """The body of a joined map: what it takes, then its members put in one after the other."""

    def __init__(self, group: _Group, outside: _Joining) -> None:
        self.group, self.fresh, self.function = group, outside.fresh, outside.function
        self.inside = {member.id for member in group.members}
        self.mapped: dict[bytes, Node] = {}
        self.captured: dict[bytes, Node] = {}
        for member in group.members:
            self._gather(member)
        self.place = {key: place for place, key in enumerate(self.mapped)}
        self.whole = {key: len(self.mapped) + place for place, key in enumerate(self.captured)}
        self.values: dict[bytes, list[Node]] = {}
        self.labels = Labels()
        for member in group.members:
            self.values[member.id] = self._map(member) if member.kind == "map" else [self._operation(member)]

    def _gather(self, member: Node) -> None:
        """Note what a member takes from outside."""
        for i in _walked(member):
            if _maker(i).id not in self.inside:
                self.mapped.setdefault(self.fresh[i.id].id, self.fresh[i.id])
        if member.kind == "map":
            scalars = [self.fresh[c.id] for c in parts_of(member).captures]
        else:
            scalars = [self._scalar(i) for i in member.inputs if _is_uniform(i)]
            scalars = [scalar for scalar in scalars if scalar.kind not in _NAMED]
        self.captured.update((value.id, value) for value in scalars)

    def _scalar(self, of: Node) -> Node:
        scalar = spread_of(self.fresh[of.id])
        assert scalar is not None, of
        return scalar

    def _element(self, of: Node) -> Node:
        """Return one element of what a member walks."""
        maker = _maker(of)
        if maker.id in self.values:
            return self.values[maker.id][index_of(of) if of.kind == "item" else 0]
        outer = self.fresh[of.id]
        return param(self.place[outer.id], item_type(outer.type))

    def _taken(self, outer: Node) -> Node:
        """Return what is taken whole: a constant as it is, anything else as a capture."""
        return param(self.whole[outer.id], outer.type) if outer.id in self.whole else outer

    def _map(self, member: Node) -> list[Node]:
        parts = parts_of(member)
        inner = parts.bodies["body"]
        given = [self._element(i) for i in parts.varying]
        value, fresh = put_in(inner.result, [*given, *(self._taken(self.fresh[c.id]) for c in parts.captures)])
        self.labels = joined_labels(self.labels, inner.labels, fresh)
        values = items_of(value) if isinstance(value.type, Tuple) else [value]
        if len(values) == 1:
            self._name(member, values[0])
        return values

    def _operation(self, member: Node) -> Node:
        """Return an element-wise operation on one element of each operand."""
        assert isinstance(member.type, Tensor), member
        rest = member.type.shape[1:]
        inputs = [
            spread(self._taken(self._scalar(i)), rest) if _is_uniform(i) else self._element(i) for i in member.inputs
        ]
        made = make(member.kind, inputs, **dict(member.attributes))
        self._name(member, made)
        return made

    def _name(self, member: Node, value: Node) -> None:
        """Let a value inside have the name of the member that it is an element of."""
        name = self.function.labels.nodes.get(member.id)
        if name and value.kind not in ("param", "const"):
            self.labels = replace(self.labels, nodes={value.id: name, **self.labels.nodes})

    def finish(self, outputs: Sequence[Node]) -> Node:
        """Return the map. outputs: the members whose values leave it."""
        result = joined([value for n in outputs for value in self.values[n.id]])
        types = [*(item_type(i.type) for i in self.mapped.values()), *(i.type for i in self.captured.values())]
        facts = {fact for n in self.group.members if n.kind == "map" for fact in body_of(n).facts}
        params = tuple(map(Parameter, types))
        body = Function(self.function.dims, params, result, tuple(facts), labels=self.labels)
        return map_over(body, self.group.count, [*self.mapped.values()], [*self.captured.values()])


def _left(function: Function, context: Context) -> Node | None:
    """Return a map that could be one with another node."""
    stack = [function]
    while stack:
        current = stack.pop()
        groups = _Grouping(current).groups()
        if groups:
            return next(iter(groups.values())).members[0]
        stack.extend(body for n in walk(current.result) for body in bodies_of(n))
    return None


PASS = Pass(
    "fuse",
    "maps over equally many elements that feed each other, or walk the same array, become one",
    ("operation", "shapes", "flat", "live", "straight"),
    (Fact("fused", "no two maps that could be one are two", _left),),
    _run,
)
