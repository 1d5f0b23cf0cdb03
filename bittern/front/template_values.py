"""What a chat template computes with: plain data, a few objects of its own, and a budget that every step draws on.

A template comes with a model file and is not trusted. Its values are texts, numbers, lists, tuples and dicts, or one
of the classes here; none of them is ever asked for a Python attribute. `Budget` bounds time and memory together: each
evaluated node costs one unit, and whatever reads or makes text or lists costs by its length, before it is done.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bittern.base.errors import BitternError, code

TOO_MUCH = code("F406", "the chat template does more than its budget of steps allows")
NOT_PLAIN = code("F408", "what a chat template is given is not plain data")

Value: TypeAlias = Any
"""None, bool, int, float, str, list, tuple, dict, or a class of this file."""

_TEXT_SHIFT = 6  # 64 characters cost one unit
_LIST_SHIFT = 3
_BASE = 40_000
_PER_VALUE = 300
_DEPTH = 64


class Budget:
    """Units left. limit: how many there were, for the message."""

    __slots__ = ("left", "limit")

    def __init__(self, units: int) -> None:
        self.left = self.limit = units

    def spend(self, units: int) -> None:
        """Take units away. Errors: F406 when none are left."""
        self.left -= units
        if self.left < 0:
            raise BitternError(
                TOO_MUCH,
                f"The chat template needs more than {self.limit} steps for this conversation.",
                "It loops or grows without need: use `--tokens` or another template.",
            )

    def text(self, length: int) -> None:
        """Pay for a text of this length, before it is made."""
        self.spend(1 + (length >> _TEXT_SHIFT))

    def items(self, length: int) -> None:
        """Pay for a list of this length, before it is made."""
        self.spend(1 + (length >> _LIST_SHIFT))

    def value(self, value: Value) -> None:
        """Pay for the outermost level of a value."""
        if isinstance(value, str):
            self.text(len(value))
        elif isinstance(value, list | tuple | dict):
            self.items(len(value))
        else:
            self.spend(1)

    def whole(self, value: Value) -> None:
        """Pay for all levels of a value, a shared part as often as it occurs."""
        rest = [value]
        while rest:
            item = rest.pop()
            self.value(item)
            if isinstance(item, list | tuple):
                rest.extend(item)
            elif isinstance(item, dict):
                rest.extend(item.keys())
                rest.extend(item.values())


def budget_for(source: str, given: Value) -> Budget:
    """Return the budget for a template's source and what it is given: more for a longer conversation.

    Errors: F408 where something given is not plain data.
    """
    units, rest = _BASE + len(source), [(given, 0)]
    while rest:
        item, depth = rest.pop()
        units += _PER_VALUE
        if depth > _DEPTH:
            raise _not_plain("data nested too deep or within itself")
        if isinstance(item, str):
            units += len(item) >> 2
        elif isinstance(item, list | tuple):
            rest.extend((part, depth + 1) for part in item)
        elif isinstance(item, dict):
            if not all(isinstance(key, str) for key in item):
                raise _not_plain("a dict with keys that are not texts")
            rest.extend((part, depth + 1) for part in item.values())
        elif item is not None and not isinstance(item, bool | int | float):
            raise _not_plain(f"a {type(item).__name__}")
    return Budget(units)


def _not_plain(what: str) -> BitternError:
    return BitternError(
        NOT_PLAIN,
        f"The conversation contains {what}.",
        "Messages and tools are dicts, lists, texts, numbers, true, false and null.",
    )


@dataclass(frozen=True, slots=True)
class Undefined:
    """A name or item that does not exist: prints as nothing, is empty and false. what: the sentence that says so."""

    what: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Undefined)

    def __hash__(self) -> int:
        return 0

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "Undefined"


@dataclass(slots=True, eq=False)
class Namespace:
    """What `namespace(...)` makes: the one object whose fields a template may set."""

    fields: dict[str, Value]

    def __repr__(self) -> str:
        return "<Namespace>"


@dataclass(slots=True, eq=False)
class Macro:
    """A template's own function: parameters, defaults of the last of them, body, and the scope it was written in."""

    name: str
    parameters: list[str]
    defaults: list[Any]
    body: list[Any]
    scope: "Scope"

    def __repr__(self) -> str:
        return f"<Macro {self.name!r}>"


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method of a text, list or dict, not yet called."""

    owner: Value
    name: str

    def __repr__(self) -> str:
        return f"<method {self.name!r}>"


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function that every template may call. call: takes the interpreter first."""

    name: str
    call: Callable[..., Value]

    def __repr__(self) -> str:
        return f"<function {self.name!r}>"


@dataclass(slots=True, eq=False)
class Loop:
    """The `loop` of a `for`: the items, where it stands, and how to run it again for the items of a branch."""

    items: list[Value] | tuple[Value, ...]
    depth: int
    recurse: Callable[[Value], str] | None
    at: int = 0
    seen: list[Value] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<loop {self.at + 1}/{len(self.items)}>"


def scalar(key: Value) -> Value:
    """Return the key of a dict if it is no container: hashing a deeply nested one would exhaust the machine's stack."""
    if isinstance(key, list | tuple | dict):
        raise TypeError(f"a {type(key).__name__} cannot be a key")
    return key


@dataclass(slots=True, eq=False)
class Scope:
    """Names of one block, and the scope around it."""

    names: dict[str, Value]
    parent: "Scope | None" = None

    def find(self, name: str) -> Value:
        """Return the value of a name, innermost scope first, or an `Undefined`."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return Undefined(f"`{name}` is not defined.")
