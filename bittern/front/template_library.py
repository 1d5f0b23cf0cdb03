"""What a chat template may use: filters, tests, methods and functions, one row each; nothing else exists for it.

The meanings are those of Jinja 3 (documentation: Template Designer Documentation, lists of built-in filters and tests)
and of the `tojson`, `raise_exception` and `strftime_now` that chat templates are written against. Each pays its cost to
the budget before it works. Filters that format by a pattern (`format`), reach attributes (`attr`) or draw at random do
not exist here. `run` is the interpreter; `value` the filtered or tested value.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from bittern.base.errors import BitternError, code
from bittern.front.template_values import Function, Macro, Method, Namespace, Undefined, Value, scalar

if TYPE_CHECKING:
    from bittern.front.template_interpreter import Interpreter as Run

RAISED = code("F405", "the chat template refuses the conversation")

_SHOWN = 500
_WORD = re.compile(r"\w+")
_CLOCK_FORM = re.compile(r"(?:[^%]|%[-#]?[A-Za-z%])*")


def _folded(value: Value, case_sensitive: bool) -> Value:
    return value if case_sensitive or not isinstance(value, str) else value.lower()


def _by(run: "Run", attribute: Value, case_sensitive: bool = True, default: Value = None) -> Callable[[Value], Value]:
    """Return what reads `a.b.0` out of an item (None: the item itself), for filters that take an attribute."""
    parts = [] if attribute is None else str(attribute).split(".")

    def read(item: Value) -> Value:
        for part in parts:
            item = run.item(item, int(part) if part.isdigit() else part)
            if isinstance(item, Undefined) and default is not None:
                return default
        return _folded(item, case_sensitive)

    return read


def _filter_default(run: "Run", value: Value, other: Value = "", boolean: bool = False) -> Value:
    return other if isinstance(value, Undefined) or (boolean and not value) else value


def _filter_first(run: "Run", value: Value) -> Value:
    items = run.iterate(value)
    return items[0] if items else Undefined("The first of no items is not defined.")


def _filter_last(run: "Run", value: Value) -> Value:
    items = run.iterate(value)
    return items[-1] if items else Undefined("The last of no items is not defined.")


def _filter_length(run: "Run", value: Value) -> int:
    return 0 if isinstance(value, Undefined) else len(value)


def _filter_join(run: "Run", value: Value, between: Value = "", attribute: Value = None) -> str:
    read = _by(run, attribute)
    texts = [run.text(read(item)) for item in run.iterate(value)]
    gap: str = run.text(between)
    run.budget.text(sum(map(len, texts)) + len(gap) * len(texts))
    return gap.join(texts)


def _filter_replace(run: "Run", value: Value, old: Value, new: Value, count: int | None = None) -> str:
    return str(
        run.method(run.text(value), "replace", [run.text(old), run.text(new), -1 if count is None else count], {})
    )


def _filter_reverse(run: "Run", value: Value) -> Value:
    return value[::-1] if isinstance(value, str) else list(run.iterate(value))[::-1]


def _filter_sort(
    run: "Run", value: Value, reverse: bool = False, case_sensitive: bool = False, attribute: Value = None
) -> list[Value]:
    items = list(run.iterate(value))
    run.budget.whole(items)
    reads = [_by(run, part.strip(), case_sensitive) for part in str(attribute).split(",")] if attribute else None
    if reads is None:
        return sorted(items, key=lambda item: _folded(item, case_sensitive), reverse=reverse)
    return sorted(items, key=lambda item: [read(item) for read in reads], reverse=reverse)


def _filter_dictsort(
    run: "Run", value: Value, case_sensitive: bool = False, by: str = "key", reverse: bool = False
) -> list[tuple[Value, Value]]:
    run.budget.whole(value)
    at = ("key", "value").index(by)
    return sorted(value.items(), key=lambda item: _folded(item[at], case_sensitive), reverse=reverse)


def _filter_unique(run: "Run", value: Value, case_sensitive: bool = False, attribute: Value = None) -> list[Value]:
    read = _by(run, attribute, case_sensitive)
    seen: set[Value] = set()
    found: list[Value] = []
    for item in run.iterate(value):
        key = scalar(read(item))
        if key not in seen:
            seen.add(key)
            found.append(item)
    return found


def _extreme(choose: Callable[..., Value]) -> Callable[..., Value]:
    def filter_(run: "Run", value: Value, case_sensitive: bool = False, attribute: Value = None) -> Value:
        items = run.iterate(value)
        run.budget.whole(items)
        return choose(items, key=_by(run, attribute, case_sensitive)) if items else Undefined("No item is the extreme.")

    return filter_


def _filter_sum(run: "Run", value: Value, attribute: Value = None, start: Value = 0) -> Value:
    total, read = start, _by(run, attribute)
    for item in run.iterate(value):
        total = run.binary("add", total, read(item))
    return total


def _filter_map(run: "Run", value: Value, *args: Value, **named: Value) -> list[Value]:
    items = run.iterate(value) if value else []
    if "attribute" in named and not args:
        read = _by(run, named["attribute"], default=named.get("default"))
        return [read(item) for item in items]
    name, *rest = args
    return [run.filter(name, item, rest, named) for item in items]


def _choosing(keep: bool, by_attribute: bool) -> Callable[..., list[Value]]:
    """Return select, reject, selectattr or rejectattr."""

    def filter_(run: "Run", value: Value, *args: Value, **named: Value) -> list[Value]:
        read = _by(run, args[0]) if by_attribute else _by(run, None)
        name, *rest = args[by_attribute:] or (None,)

        def holds(item: Value) -> bool:
            found = read(item)
            return bool(found) if name is None else run.test(name, found, rest, named)

        return [item for item in run.iterate(value) if holds(item) == keep] if value else []

    return filter_


def _filter_round(run: "Run", value: Value, precision: int = 0, method: str = "common") -> Value:
    run.number(value)
    if abs(precision) > 100:
        raise ValueError(f"round to {precision} places")
    if method == "common":
        return round(value, precision)
    factor = 10**precision
    return {"ceil": math.ceil, "floor": math.floor}[method](value * factor) / factor


def _filter_int(run: "Run", value: Value, default: int = 0, base: int = 10) -> int:
    run.defined(value)
    try:
        return int(value, base) if isinstance(value, str) else int(value)
    except (TypeError, ValueError, OverflowError):
        try:
            return int(float(value))
        except (TypeError, ValueError, OverflowError):
            return default


def _filter_float(run: "Run", value: Value, default: float = 0.0) -> float:
    run.defined(value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return default


def _filter_indent(run: "Run", value: Value, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
    run.defined(value)
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} cannot be indented")
    text = value
    run.budget.text((width if isinstance(width, int) else len(width)) * (text.count("\n") + 2))
    margin = width if isinstance(width, str) else " " * width
    lines = (text + "\n").splitlines()
    rest = [margin + line if line or blank else line for line in lines[1:]]
    return "\n".join([(margin if first else "") + lines[0], *rest])


def _filter_items(run: "Run", value: Value) -> list[tuple[Value, Value]]:
    return [] if isinstance(value, Undefined) else list(value.items())


def _filter_title(run: "Run", value: Value) -> str:
    from jinja2.filters import do_title

    return str(do_title(run.text(value)))


def _filter_tojson(
    run: "Run",
    value: Value,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Value = None,
    sort_keys: bool = False,
) -> str:
    run.budget.whole(value)
    if indent is not None and not 0 <= indent <= 8:
        raise ValueError(f"indent by {indent}")
    if separators is not None and sum(map(len, separators)) > 16:
        raise ValueError("separators of more than 16 characters")
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    run.budget.text(len(text))
    return text


def _filter_center(run: "Run", value: Value, width: int = 80) -> str:
    return str(run.method(run.text(value), "center", [width], {}))


def _filter_trim(run: "Run", value: Value, chars: str | None = None) -> str:
    return run.text(value).strip(chars)


FILTERS: dict[str, Callable[..., Value]] = {
    "abs": lambda run, value: abs(value),
    "capitalize": lambda run, value: run.text(value).capitalize(),
    "center": _filter_center,
    "count": _filter_length,
    "d": _filter_default,
    "default": _filter_default,
    "dictsort": _filter_dictsort,
    "first": _filter_first,
    "float": _filter_float,
    "indent": _filter_indent,
    "int": _filter_int,
    "items": _filter_items,
    "join": _filter_join,
    "last": _filter_last,
    "length": _filter_length,
    "list": lambda run, value: list(run.iterate(value)),
    "lower": lambda run, value: run.text(value).lower(),
    "map": _filter_map,
    "max": _extreme(max),
    "min": _extreme(min),
    "reject": _choosing(keep=False, by_attribute=False),
    "rejectattr": _choosing(keep=False, by_attribute=True),
    "replace": _filter_replace,
    "reverse": _filter_reverse,
    "round": _filter_round,
    "safe": lambda run, value: run.text(value),
    "select": _choosing(keep=True, by_attribute=False),
    "selectattr": _choosing(keep=True, by_attribute=True),
    "sort": _filter_sort,
    "string": lambda run, value: run.text(value),
    "sum": _filter_sum,
    "title": _filter_title,
    "tojson": _filter_tojson,
    "trim": _filter_trim,
    "unique": _filter_unique,
    "upper": lambda run, value: run.text(value).upper(),
    "wordcount": lambda run, value: len(_WORD.findall(run.text(value))),
}


def _compared(operator: str) -> Callable[..., bool]:
    return lambda run, value, other: run.compare(operator, value, other)


TESTS: dict[str, Callable[..., bool]] = {
    "boolean": lambda run, value: isinstance(value, bool),
    "callable": lambda run, value: isinstance(value, Macro | Method | Function),
    "defined": lambda run, value: not isinstance(value, Undefined),
    "divisibleby": lambda run, value, other: run.binary("mod", run.number(value), other) == 0,
    "even": lambda run, value: run.number(value) % 2 == 0,
    "false": lambda run, value: value is False,
    "float": lambda run, value: isinstance(value, float),
    "integer": lambda run, value: isinstance(value, int) and not isinstance(value, bool),
    "iterable": lambda run, value: isinstance(value, str | list | tuple | dict | Undefined),
    "lower": lambda run, value: run.text(value).islower(),
    "mapping": lambda run, value: isinstance(value, dict),
    "none": lambda run, value: value is None,
    "number": lambda run, value: isinstance(value, int | float),
    "odd": lambda run, value: run.number(value) % 2 == 1,
    "sameas": lambda run, value, other: value is other,
    "sequence": lambda run, value: isinstance(value, str | list | tuple | dict | Undefined),
    "string": lambda run, value: isinstance(value, str),
    "true": lambda run, value: value is True,
    "undefined": lambda run, value: isinstance(value, Undefined),
    "upper": lambda run, value: run.text(value).isupper(),
    **dict.fromkeys(("eq", "equalto", "=="), _compared("eq")),
    **dict.fromkeys(("ne", "!="), _compared("ne")),
    **dict.fromkeys(("gt", "greaterthan", ">"), _compared("gt")),
    **dict.fromkeys(("ge", ">="), _compared("gteq")),
    **dict.fromkeys(("lt", "lessthan", "<"), _compared("lt")),
    **dict.fromkeys(("le", "<="), _compared("lteq")),
    "in": _compared("in"),
}


def _no_growth(text: str, *args: Value) -> int:
    return len(text)


def _in_pieces(text: str, *args: Value) -> int:
    return len(text) << 3


def _padded(text: str, width: int, *fill: Value) -> int:
    return max(width, len(text))


def _replaced(text: str, old: str, new: str, *count: Value) -> int:
    return len(text) + text.count(old) * len(new)


def _joined(text: str, parts: Value) -> int:
    return sum(map(len, parts)) + len(text) * len(parts)


_STR_PLAIN = (
    "capitalize casefold count endswith find index isalnum isalpha isdecimal isdigit islower isnumeric isspace isupper "
    "lower lstrip partition removeprefix removesuffix rfind rindex rpartition rstrip "
    "startswith strip swapcase title upper"
)
_STR_SIZES: dict[str, Callable[..., int]] = {
    **dict.fromkeys(_STR_PLAIN.split(), _no_growth),
    **dict.fromkeys(("split", "rsplit", "splitlines"), _in_pieces),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _padded),
    "replace": _replaced,
    "join": _joined,
}

METHODS: dict[type, dict[str, Callable[..., int]]] = {
    str: _STR_SIZES,
    dict: dict.fromkeys(("get", "items", "keys", "values"), lambda owner, *args: len(owner)),
    list: dict.fromkeys(("count", "index", "copy"), lambda owner, *args: len(owner)),
    tuple: dict.fromkeys(("count", "index"), lambda owner, *args: len(owner)),
}
"""Methods by the type of their owner, with the size of what they read or make, known before they run."""


def call_method(run: "Run", owner: Value, name: str, args: list[Value], named: Mapping[str, Value]) -> Value:
    """Call a method of the table with arguments of plain data; lists come back where Python has views."""
    size = METHODS[type(owner)][name]
    if isinstance(owner, dict):
        run.budget.spend(1 if name == "get" else len(owner))
        return owner.get(scalar(args[0]), *args[1:], **named) if name == "get" else list(getattr(dict, name)(owner))
    for value in (owner, *args):
        run.budget.whole(value)
    run.budget.text(size(owner, *args, *named.values()))
    return getattr(type(owner), name)(owner, *args, **named)


def _range(run: "Run", *bounds: int) -> list[int]:
    numbers = range(*bounds)
    run.budget.items(_length(numbers))
    return list(numbers)


def _length(numbers: range) -> int:
    try:
        return len(numbers)
    except OverflowError:
        return 1 << 62


def _dict(run: "Run", given: Mapping[Value, Value] | None = None, /, **named: Value) -> dict[Value, Value]:
    run.budget.value(given)
    if not isinstance(given, dict | None):
        raise TypeError(f"no dict is made of a {type(given).__name__}")
    return {**(given or {}), **named}


def _namespace(run: "Run", given: Mapping[Value, Value] | None = None, /, **named: Value) -> Namespace:
    return Namespace(_dict(run, given, **named))


def _raise_exception(run: "Run", message: Value) -> Value:
    raise BitternError(
        RAISED, f"The chat template says: {run.text(message)[:_SHOWN]}", "Give a conversation of the form it expects."
    )


FUNCTIONS: dict[str, Value] = {
    row.name: row
    for row in (
        Function("dict", _dict),
        Function("namespace", _namespace),
        Function("raise_exception", _raise_exception),
        Function("range", _range),
    )
}


def clock(now: datetime) -> Function:
    """Return `strftime_now` for a moment that the caller grants; without it the name is not defined."""

    def strftime_now(run: "Run", form: str) -> str:
        if len(form) > _SHOWN or _CLOCK_FORM.fullmatch(form) is None:
            raise ValueError(f"the time format {form[:_SHOWN]!r}")
        return now.strftime(form)

    return Function("strftime_now", strftime_now)


def loop_field(run: "Run", loop: Any, name: str) -> Value:
    """Return a field of `loop`, or None if it has no such field."""
    at, count = loop.at, len(loop.items)
    fields: dict[str, Callable[[], Value]] = {
        "index": lambda: at + 1,
        "index0": lambda: at,
        "revindex": lambda: count - at,
        "revindex0": lambda: count - at - 1,
        "first": lambda: at == 0,
        "last": lambda: at == count - 1,
        "length": lambda: count,
        "depth": lambda: loop.depth + 1,
        "depth0": lambda: loop.depth,
        "previtem": lambda: loop.items[at - 1] if at else Undefined("There is no item before the first."),
        "nextitem": lambda: loop.items[at + 1] if at + 1 < count else Undefined("There is no item after the last."),
        "cycle": lambda: Function("cycle", lambda run, *values: values[at % len(values)]),
        "changed": lambda: Function("changed", lambda run, *values: _changed(run, loop, list(values))),
    }
    return fields[name]() if name in fields else Undefined(f"`loop` has no `{name}`.")


def _changed(run: "Run", loop: Any, values: list[Value]) -> bool:
    if loop.seen and run.compare("eq", loop.seen[0], values):
        return False
    loop.seen[:] = [values]
    return True
