"""Jinja itself, with the settings of chat templates, as the oracle; and random templates to compare with it."""

import json
import random
import warnings
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

warnings.filterwarnings("ignore", category=SyntaxWarning, module="<template>")


class RefusedError(Exception):
    """What the oracle's `raise_exception` raises."""


def _raise(message: str) -> None:
    raise RefusedError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Any = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


_JINJA = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], optimized=False
)
_JINJA.filters["tojson"] = _tojson
_JINJA.globals["raise_exception"] = _raise


def expected(source: str, given: dict[str, Any]) -> str | None:
    """Return what Jinja makes of a template, or None where it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _JINJA.from_string(source).render(**given)
        except Exception:
            return None


CALL = {"type": "function", "function": {"name": "f", "arguments": {"a": 1, "b": [1, 2.5, None, True]}}}
CONVERSATION: list[dict[str, Any]] = [
    {"role": "system", "content": "Be  kind.\n"},
    {"role": "user", "content": 'Hi <b> "x" é'},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "content": [{"type": "text", "text": " t "}], "name": "f"},
    {"role": "assistant", "content": "<think>\nhm\n</think>\n\nDone."},
]
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": 'says "é"',
        "parameters": {"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]},
    },
}
NAMES: dict[str, Any] = {
    **{"bos_token": "<s>", "eos_token": "</s>", "tools": [TOOL], "add_generation_prompt": True},
    **{"n": 3, "z": 0, "fl": 2.5, "s": "abc def", "e": "", "nn": None, "t": True},
    **{"l": [3, 1, 2], "d": {"b": 1, "a": 2}, "ls": ["x", "Yy", "z"]},
}

_ATOMS = [
    *(
        "messages",
        "tools",
        "add_generation_prompt",
        "bos_token",
        "eos_token",
        "undef",
        "loop is defined",
        *"nzsetld",
        "fl",
        "nn",
    ),
    *("ls", "'a'", "'role'", "' x '", "'items'", "0", "1", "-1", "7", "1.5", "true", "false", "none", "[]", "{}"),
    *("messages[0]", "messages[0]['content']", "messages[1].content", "messages[2]['tool_calls'][0].function"),
    *("tools[0].function.parameters.properties['items']", "[1,'a']", "('p',2)", "{'a':1,'k':l}"),
]
_FILTERS = [
    *("upper", "lower", "trim", "length", "list", "first", "last", "string", "int", "float", "tojson", "capitalize"),
    *("title", "sort", "abs", "join", "max", "min", "sum", "dictsort", "wordcount", "count", "round"),
    *("tojson(indent=2)", "indent(2)", "indent(4, true)", "indent(2, false, true)", "replace('a', 'b')", "d('?')"),
    *("default('?', true)", "join('-')", "selectattr('role')|list", "rejectattr('content', 'none')|list"),
    *("selectattr('role', 'equalto', 'user')|list", "select('string')|list", "reject('mapping')|list"),
    *("map(attribute='role')|list", "map('upper')|list", "map(attribute='content', default='?')|list", "unique|list"),
]
_TESTS = [
    *("defined", "undefined", "none", "string", "mapping", "sequence", "iterable", "number", "integer", "float"),
    *("boolean", "true", "false", "odd", "even", "lower", "upper", "eq(1)", "ne('a')", "gt(1)", "in(l)", "sameas(t)"),
    "divisibleby(3)",
]
_METHODS = [
    *("strip()", "upper()", "lower()", "split()", "split('a')", "get('role')", "get('zz', 3)", "startswith('a')"),
    *("endswith('f')", "replace('a', 'b')", "title()", "lstrip('a')", "rstrip()", "count('a')", "find('b')"),
    *("join(['p', 'q'])", "index(1)", "isdigit()", "splitlines()", "capitalize()", "rsplit(' ', 1)"),
]
_SLICES = [":", "1:", ":-1", "::2", "::-1", "0:2", "-1:"]
_OPERATORS = [*("+", "-", "*", "/", "//", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or")]
_FIELDS = ["role", "content", "a", "b", "name", "function", "foo"]

_STATEMENTS = [
    "{% if X2 %}\nBODY{% elif X1 %}OTHER{% else %}!{% endif %}\n",
    "{% for x in X1 %}BODY{{ loop.index }}{{ x }}{% else %}OTHER{% endfor %}",
    "{% for x in messages %}BODY{{ loop.revindex }}{{ x.role }}{% else %}OTHER{% endfor %}",
    "{% for x in s %}BODY{{ loop.last }}{{ x }}{% endfor %}",
    "{% for x in ls if x != 'z' %}BODY{{ loop.length }}{{ loop.previtem }}{% endfor %}",
    "{% for a, b in d.items() %}BODY{{ a }}={{ loop.cycle('p', b) }}{% endfor %}",
    "{% for x in l %}{% if X1 %}{% break %}{% endif %}BODY{% endfor %}",
    "{% for x in l %}{% if X1 %}{% continue %}{% endif %}BODY{% endfor %}",
    "{% macro m(a, b=X1) %}BODY{{ a }}{{ b }}{% endmacro %}{{ m(X3) }}{{ m(b=2) }}",
    "{% macro q(a) %}[{{ caller(a) }}]{% endmacro %}{% call(u) q(1) %}{{ u }}BODY{% endcall %}",
    "{% set v %}BODY{% endset %}{{ v }}",
    "{% set v | upper | trim %}BODY{% endset %}{{ v }}",
    "{% filter upper %}BODY{% endfilter %}",
    "{% with q = X1, r = 2 %}BODY{{ q }}{% endwith %}{{ q }}",
    "{% set ns = namespace(v=0) %}{% for x in l %}{% set ns.v = ns.v + x %}BODY{% endfor %}{{ ns.v }}",
    "{% for x in [1,[2,[3]]] recursive %}{{ loop.depth }}{% if x is sequence %}{{ loop(x) }}{% endif %}{% endfor %}",
    "  {%- set v = X1 -%}  BODY{{ v }}",
]


class Templates:
    """Random templates from one seed; most of their expressions fail, as most of Jinja's do, in the same places."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)

    def expression(self, depth: int) -> str:
        """Return an expression of at most this depth."""
        pick = self._draw.choice
        if depth <= 0:
            return pick(_ATOMS)
        one, two = self.expression(depth - 1), self.expression(depth - 1 - self._draw.randrange(2))
        return pick(
            [
                f"({one} {pick(_OPERATORS)} {two})",
                f"({one} {pick(_OPERATORS)} {two})",
                f"(not {one})",
                f"(-{one})",
                f"({one} if {two} else {pick(_ATOMS)})",
                f"({one} if {two})",
                f"({one}).{pick(_FIELDS)}",
                f"({one})[{two}]",
                f"({one})[{pick(_SLICES)}]",
                f"({one}|{pick(_FILTERS)})",
                f"({one}|{pick(_FILTERS)})",
                f"({one} is {pick(['', 'not '])}{pick(_TESTS)})",
                f"({one}).{pick(_METHODS)}",
                f"[{one}, {two}]",
                f"({one}, {two})",
                f"{{'k': {one}}}",
                f"namespace(a={one}).a",
                f"dict(a={one})",
            ]
        )

    def statements(self, depth: int) -> str:
        """Return a few statements, nested at most this deep."""
        return "".join(self._statement(depth) for _ in range(self._draw.randrange(1, 4)))

    def _statement(self, depth: int) -> str:
        pick, x = self._draw.choice, self.expression
        if depth <= 0:
            return pick(
                [f"{{{{ {x(2)} }}}}", "text\n", f"  {{% set v = {x(2)} %}}\n", "{{- v -}}  ", "{# note #}\n", "\n  \n"]
            )
        body, other = self.statements(depth - 1), self.statements(depth - 1)
        form = pick(_STATEMENTS)
        for mark in ("X1", "X2", "X3"):
            form = form.replace(mark, x(2 if mark == "X2" else 1))
        return form.replace("BODY", body).replace("OTHER", other)
