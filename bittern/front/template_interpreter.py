"""Runs a chat template: walks the tree that Jinja parsed, with Jinja's meanings, on plain data only.

Jinja's own sandbox compiles templates to Python and guards attribute access; it counts no steps. Here nothing is
compiled and no Python attribute is read on a template's behalf: what a node may do is what its method below does, and
each pays the budget. Scoping is Jinja's: a loop, a `with`, a macro and a block assignment have a scope of their own,
each round of a loop starts afresh, and a macro sees the names around its definition as they are when it is called.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any

from bittern.base.errors import BitternError, code, nearest
from bittern.front.template_library import FILTERS, METHODS, TESTS, call_method, loop_field
from bittern.front.template_values import (
    Budget,
    Function,
    Loop,
    Macro,
    Method,
    Namespace,
    Scope,
    Undefined,
    Value,
    scalar,
)

FORBIDDEN = code("F402", "the chat template reaches for something that templates may not use")
UNKNOWN_NAME = code("F403", "the chat template uses a filter, test or method that Bittern does not have")
UNDEFINED = code("F404", "the chat template uses a value that is not defined")
FAILED = code("F407", "an operation of the chat template failed")

_BITS = 4096
_CALLS = 32

_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "pow": operator.pow,
}
_COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "lteq": operator.le,
    "gt": operator.gt,
    "gteq": operator.ge,
    "in": lambda item, container: item in container,
    "notin": lambda item, container: item not in container,
}


class Break(Exception):
    """Leaves the innermost loop."""


class Continue(Exception):
    """Goes on with the next item of the innermost loop."""


class Interpreter:
    """One run of a template. budget: what the run may spend. line: of the statement that runs, for messages."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.line = 1
        self._calls = 0
        self._statements: dict[str, Callable[[Any, Scope, list[str]], None]] = {
            "Output": self._output,
            "If": self._if,
            "For": self._for,
            "Assign": self._assign,
            "AssignBlock": self._assign_block,
            "Macro": self._macro,
            "CallBlock": self._call_block,
            "FilterBlock": self._filter_block,
            "With": self._with,
            "Break": self._break,
            "Continue": self._continue,
        }
        self._values: dict[str, Callable[[Any, Scope], Value]] = {
            "Name": lambda node, scope: scope.find(node.name),
            "Const": lambda node, scope: node.value,
            "TemplateData": lambda node, scope: node.data,
            "List": lambda node, scope: [self.value(item, scope) for item in node.items],
            "Tuple": lambda node, scope: tuple([self.value(item, scope) for item in node.items]),
            "Dict": self._dict,
            "Getattr": lambda node, scope: self.attribute(self.value(node.node, scope), node.attr),
            "Getitem": self._getitem,
            "Call": self._call,
            "Filter": self._filter,
            "Test": self._test,
            "CondExpr": self._choice,
            "And": lambda node, scope: self.value(node.left, scope) and self.value(node.right, scope),
            "Or": lambda node, scope: self.value(node.left, scope) or self.value(node.right, scope),
            "Not": lambda node, scope: not self.value(node.node, scope),
            "Neg": lambda node, scope: -self.number(self.value(node.node, scope)),
            "Pos": lambda node, scope: +self.number(self.value(node.node, scope)),
            "Compare": self._compare,
            "Concat": self._concat,
            **dict.fromkeys(("Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"), self._binary),
        }

    def run(self, body: list[Any], scope: Scope) -> str:
        """Run statements and return what they put out."""
        out: list[str] = []
        self._inline(body, scope, out)
        return "".join(out)

    def value(self, node: Any, scope: Scope) -> Value:
        """Evaluate an expression."""
        self.budget.spend(1)
        return self._values[type(node).__name__](node, scope)

    # Statements

    def _inline(self, body: list[Any], scope: Scope, out: list[str]) -> None:
        for node in body:
            self.budget.spend(1)
            self.line = node.lineno
            self._statements[type(node).__name__](node, scope, out)

    def _output(self, node: Any, scope: Scope, out: list[str]) -> None:
        for part in node.nodes:
            text = self.text(self.value(part, scope))
            self.budget.text(len(text))
            out.append(text)

    def _if(self, node: Any, scope: Scope, out: list[str]) -> None:
        for branch in (node, *node.elif_):
            if self.value(branch.test, scope):
                return self._inline(branch.body, scope, out)
        return self._inline(node.else_, scope, out)

    def _for(self, node: Any, scope: Scope, out: list[str]) -> None:
        self._loop(node, self.value(node.iter, scope), scope, out, 0)

    def _loop(self, node: Any, given: Value, scope: Scope, out: list[str], depth: int) -> None:
        items = self.iterate(given)
        if node.test is not None:
            items = [item for item in items if self._passes(node, item, scope)]

        def again(below: Value) -> str:
            inner: list[str] = []
            self._nested(lambda: self._loop(node, below, scope, inner, depth + 1))
            return "".join(inner)

        loop = Loop(items, depth, again if node.recursive else None)
        for at, item in enumerate(items):
            self.budget.spend(1)
            loop.at = at
            inner = Scope({"loop": loop}, scope)
            self._store(node.target, item, inner)
            try:
                self._inline(node.body, inner, out)
            except Continue:
                continue
            except Break:
                break
        if not items:
            self._inline(node.else_, Scope({}, scope), out)

    def _passes(self, node: Any, item: Value, scope: Scope) -> bool:
        inner = Scope({}, scope)
        self._store(node.target, item, inner)
        return bool(self.value(node.test, inner))

    def _break(self, node: Any, scope: Scope, out: list[str]) -> None:
        raise Break("`break` outside of a loop")

    def _continue(self, node: Any, scope: Scope, out: list[str]) -> None:
        raise Continue("`continue` outside of a loop")

    def _assign(self, node: Any, scope: Scope, out: list[str]) -> None:
        self._store(node.target, self.value(node.node, scope), scope)

    def _assign_block(self, node: Any, scope: Scope, out: list[str]) -> None:
        text = self.run(node.body, Scope({}, scope))
        self._store(node.target, self._through(node.filter, text, scope), scope)

    def _filter_block(self, node: Any, scope: Scope, out: list[str]) -> None:
        text = self.run(node.body, Scope({}, scope))
        out.append(self.text(self._through(node.filter, text, scope)))

    def _through(self, node: Any, value: Value, scope: Scope) -> Value:
        """Apply the filters of a block, innermost first."""
        if node is None:
            return value
        value = self._through(node.node, value, scope)
        args, named = self._arguments(node, scope)
        return self.filter(node.name, value, args, named)

    def _with(self, node: Any, scope: Scope, out: list[str]) -> None:
        inner = Scope({}, scope)
        for target, value in zip(node.targets, [self.value(value, scope) for value in node.values], strict=True):
            self._store(target, value, inner)
        self._inline(node.body, inner, out)

    def _macro(self, node: Any, scope: Scope, out: list[str]) -> None:
        scope.names[node.name] = self._make_macro(node.name, node, scope)

    def _call_block(self, node: Any, scope: Scope, out: list[str]) -> None:
        args, named = self._arguments(node.call, scope)
        named["caller"] = self._make_macro("caller", node, scope)
        text = self.text(self.call(self.value(node.call.node, scope), args, named))
        self.budget.text(len(text))
        out.append(text)

    def _make_macro(self, name: str, node: Any, scope: Scope) -> Macro:
        return Macro(name, [part.name for part in node.args], node.defaults, node.body, scope)

    def _store(self, target: Any, value: Value, scope: Scope) -> None:
        kind = type(target).__name__
        if kind == "Name":
            scope.names[target.name] = value
        elif kind == "NSRef":
            owner = scope.find(target.name)
            if not isinstance(owner, Namespace):
                raise TypeError(f"`{target.name}` is not a namespace, so `{target.name}.{target.attr}` cannot be set")
            owner.fields[target.attr] = value
        else:
            for part, item in zip(target.items, self.iterate(value), strict=True):
                self._store(part, item, scope)

    # Expressions

    def _dict(self, node: Any, scope: Scope) -> Value:
        return {scalar(self.value(pair.key, scope)): self.value(pair.value, scope) for pair in node.items}

    def _getitem(self, node: Any, scope: Scope) -> Value:
        owner = self.value(node.node, scope)
        if type(node.arg).__name__ != "Slice":
            return self.item(owner, self.value(node.arg, scope))
        self.defined(owner)
        bounds = [
            None if part is None else self.value(part, scope) for part in (node.arg.start, node.arg.stop, node.arg.step)
        ]
        self.budget.value(owner)
        if not isinstance(owner, str | list | tuple):
            raise TypeError(f"a {type(owner).__name__} has no slices")
        return owner[slice(*bounds)]

    def _call(self, node: Any, scope: Scope) -> Value:
        target = self.value(node.node, scope)
        args, named = self._arguments(node, scope)
        return self.call(target, args, named)

    def _arguments(self, node: Any, scope: Scope) -> tuple[list[Value], dict[str, Value]]:
        args = [self.value(part, scope) for part in node.args]
        named = {part.key: self.value(part.value, scope) for part in node.kwargs}
        if node.dyn_args is not None:
            args += self.iterate(self.value(node.dyn_args, scope))
        if node.dyn_kwargs is not None:
            more = self.value(node.dyn_kwargs, scope)
            self.budget.value(more)
            named = {**named, **more}
        return args, named

    def _filter(self, node: Any, scope: Scope) -> Value:
        value = self.value(node.node, scope)
        args, named = self._arguments(node, scope)
        return self.filter(node.name, value, args, named)

    def _test(self, node: Any, scope: Scope) -> bool:
        value = self.value(node.node, scope)
        args, named = self._arguments(node, scope)
        return self.test(node.name, value, args, named)

    def _choice(self, node: Any, scope: Scope) -> Value:
        if self.value(node.test, scope):
            return self.value(node.expr1, scope)
        if node.expr2 is not None:
            return self.value(node.expr2, scope)
        return Undefined("An `if` without `else` chose nothing.")

    def _compare(self, node: Any, scope: Scope) -> bool:
        left = self.value(node.expr, scope)
        for operand in node.ops:
            right = self.value(operand.expr, scope)
            if not self.compare(operand.op, left, right):
                return False
            left = right
        return True

    def _concat(self, node: Any, scope: Scope) -> str:
        texts = [self.text(self.value(part, scope)) for part in node.nodes]
        self.budget.text(sum(map(len, texts)))
        return "".join(texts)

    def _binary(self, node: Any, scope: Scope) -> Value:
        return self.binary(type(node).__name__.lower(), self.value(node.left, scope), self.value(node.right, scope))

    # What the library uses too

    def text(self, value: Value) -> str:
        """Return a value as templates print it."""
        if isinstance(value, str):
            return value
        if isinstance(value, Undefined):
            return ""
        self.budget.whole(value)
        return str(value)

    def iterate(self, value: Value) -> list[Value] | tuple[Value, ...]:
        """Return the items that a loop over the value visits."""
        self.budget.value(value)
        if isinstance(value, list | tuple):
            return value
        if isinstance(value, str | dict):
            self.budget.items(len(value))
            return list(value)
        if isinstance(value, Undefined):
            return []
        raise TypeError(f"a {type(value).__name__} cannot be walked through")

    def attribute(self, owner: Value, name: str) -> Value:
        """Return `owner.name`: a field, a method, or an item of a dict. Errors: F402, F403, F404."""
        self.defined(owner)
        if name.startswith("_"):
            raise BitternError(
                FORBIDDEN, f"The chat template asks for `{name}` in line {self.line}.", "Templates see plain data only."
            )
        if isinstance(owner, Namespace):
            return owner.fields.get(name, Undefined(f"The namespace has no `{name}`."))
        if isinstance(owner, Loop):
            return loop_field(self, owner, name)
        methods = METHODS.get(type(owner), {})
        if name in methods:
            return Method(owner, name)
        if isinstance(owner, dict) and name in owner and not hasattr(dict, name):
            return owner[name]
        if isinstance(owner, str | int | float | list | tuple | dict) and hasattr(type(owner), name):
            raise BitternError(
                UNKNOWN_NAME,
                f"The chat template uses `{name:.50}` of a {type(owner).__name__} in line {self.line}, "
                "which is not offered.",
                nearest(name, [*methods]) or "Use another template.",
            )
        return Undefined(f"A {type(owner).__name__} has no `{name}`.")

    def item(self, owner: Value, key: Value) -> Value:
        """Return `owner[key]`, or an `Undefined`. Errors: F402, F403, F404."""
        self.defined(owner)
        if isinstance(owner, dict):
            if not isinstance(key, list | tuple | dict) and key in owner:
                return owner[key]
        elif isinstance(owner, str | list | tuple) and isinstance(key, int):
            return owner[key] if -len(owner) <= key < len(owner) else Undefined(f"There is no item {key}.")
        if isinstance(key, str):
            return self.attribute(owner, key)
        return Undefined(f"A {type(owner).__name__} has no item {key!r:.50}.")

    def call(self, target: Value, args: list[Value], named: dict[str, Value]) -> Value:
        """Call a macro, a method, a function or a recursive loop."""
        self.defined(target)
        if isinstance(target, Function):
            return target.call(self, *args, **named)
        if isinstance(target, Method):
            return self.method(target.owner, target.name, args, named)
        if isinstance(target, Macro):
            return self._nested(lambda: self._run_macro(target, args, named))
        if isinstance(target, Loop) and target.recurse is not None and len(args) == 1:
            return target.recurse(args[0])
        raise TypeError(f"a {type(target).__name__} cannot be called")

    def method(self, owner: Value, name: str, args: list[Value], named: Mapping[str, Value]) -> Value:
        """Call a method that `METHODS` has."""
        return call_method(self, owner, name, args, named)

    def filter(self, name: Value, value: Value, args: list[Value], named: dict[str, Value]) -> Value:
        """Apply a filter by name. Errors: F403."""
        found = self._named("filter", name, FILTERS)
        self.budget.value(value)
        return found(self, value, *args, **named)

    def test(self, name: Value, value: Value, args: list[Value], named: dict[str, Value]) -> bool:
        """Apply a test by name. Errors: F403."""
        return bool(self._named("test", name, TESTS)(self, value, *args, **named))

    def compare(self, name: str, left: Value, right: Value) -> bool:
        """Compare two values with an operator of the tree (`eq`, `in`, ...), paying for what it may read."""
        if name in ("in", "notin"):
            right = () if isinstance(right, Undefined) else right
            if isinstance(right, dict) and isinstance(left, list | tuple | dict):
                return name == "notin"
            self.budget.whole(right) if isinstance(left, list | tuple | dict) else self.budget.value(right)
        elif name not in ("eq", "ne"):
            self.defined(left)
            self.defined(right)
        if isinstance(left, list | tuple | dict) and isinstance(right, list | tuple | dict):
            self.budget.whole(left)
            self.budget.whole(right)
        elif isinstance(left, str) and isinstance(right, str):
            self.budget.text(min(len(left), len(right)))
        return bool(_COMPARE[name](left, right))

    def binary(self, name: str, left: Value, right: Value) -> Value:
        """Calculate with two numbers, or join or repeat texts and lists; the result's size is paid before."""
        self.defined(left)
        self.defined(right)
        if name == "mul" and isinstance(left, int) and isinstance(right, str | list | tuple):
            left, right = right, left
        if isinstance(left, str | list | tuple) and name == "add":
            size = len(left) + len(right)
        elif isinstance(left, str | list | tuple) and name == "mul" and isinstance(right, int):
            size = len(left) * max(right, 0)
        else:
            self.number(left)
            self.number(right)
            return self._calculate(name, left, right)
        self.budget.text(size) if isinstance(left, str) else self.budget.items(size)
        return _BINARY[name](left, right)

    def _calculate(self, name: str, left: Any, right: Any) -> Value:
        if isinstance(left, int) and isinstance(right, int):
            bits = max(left.bit_length(), 1) * abs(right) if name == "pow" else left.bit_length() + right.bit_length()
            if bits > _BITS:
                raise OverflowError(f"a number of more than {_BITS} bits")
        return _BINARY[name](left, right)

    def number(self, value: Value) -> Any:
        """Return a value that is a number, true and false being 1 and 0. Errors: F404; TypeError for others."""
        self.defined(value)
        if not isinstance(value, int | float):
            raise TypeError(f"a {type(value).__name__} is not a number")
        return value

    def defined(self, value: Value) -> None:
        """Refuse an `Undefined`. Errors: F404."""
        if isinstance(value, Undefined):
            raise BitternError(
                UNDEFINED,
                f"The chat template uses a value that does not exist in line {self.line}. {value.what}",
                "Give the messages the fields that the template expects.",
            )

    def _named(self, kind: str, name: Value, table: Mapping[str, Callable[..., Value]]) -> Callable[..., Value]:
        found = table.get(name) if isinstance(name, str) else None
        if found is None:
            raise BitternError(
                UNKNOWN_NAME,
                f"The chat template uses the {kind} `{name!s:.50}` in line {self.line}, which is not offered.",
                nearest(str(name)[:50], [*table]) or "Use another template.",
            )
        return found

    def _nested(self, run: Callable[[], Value]) -> Value:
        self._calls += 1
        if self._calls > _CALLS:
            raise RecursionError
        try:
            return run()
        except (Break, Continue):
            raise TypeError("`break` or `continue` outside of a loop") from None
        finally:
            self._calls -= 1

    def _run_macro(self, macro: Macro, args: list[Value], named: dict[str, Value]) -> str:
        names = dict(zip(macro.parameters, args, strict=False))
        names |= {"caller": named.get("caller", Undefined("The macro was called without a block."))}
        rest = {key: value for key, value in named.items() if key not in macro.parameters and key != "caller"}
        names |= {"varargs": tuple(args[len(macro.parameters) :]), "kwargs": rest}
        scope = Scope(names, macro.scope)
        first_default = len(macro.parameters) - len(macro.defaults)
        for at, parameter in enumerate(macro.parameters):
            if parameter in named:
                names[parameter] = named[parameter]
            elif at >= len(args) and at >= first_default:
                names[parameter] = self.value(macro.defaults[at - first_default], scope)
            elif at >= len(args):
                names[parameter] = Undefined(f"The macro `{macro.name}` was called without `{parameter}`.")
        return self.run(macro.body, scope)
