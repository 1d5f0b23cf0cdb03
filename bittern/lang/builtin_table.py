"""The names by which the language calls ops, each with what elaborates its call; filled by the files of the rows."""

from collections.abc import Callable
from typing import TypeAlias

from bittern.lang import syntax
from bittern.lang.context import Context
from bittern.lang.values import Value
from bittern.types.elements import Element

Brackets: TypeAlias = tuple[syntax.Expr, ...]
Builtin: TypeAlias = Callable[[Context, syntax.Call, Brackets, Element | None], Value]

BUILTINS: dict[str, Builtin] = {}
IDEAL: dict[str, Builtin] = {}  # in `ideal` bodies only; elsewhere these are ordinary names


def builtin(*names: str) -> Callable[[Builtin], Builtin]:
    """Declare the decorated function as what elaborates calls of these names."""

    def declare(row: Builtin) -> Builtin:
        BUILTINS.update(dict.fromkeys(names, row))
        return row

    return declare
