"""Mutated chat templates: a refusal by code or a text, in bounded time; `test_template.py` compares with Jinja.

By hand: `python tests/fuzz/test_template_fuzz.py SECONDS [SEED]`, or `--case SEED NUMBER`.
"""

import random
import re
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]

import fuzzing
from jinja_oracle import CONVERSATION, TOOL

from bittern.front.template import ChatTemplate

SECONDS = 0.5  # of processor time, for one template
_WORD = re.compile(r"\{%-?|-?%\}|\{\{-?|-?\}\}|\w+|\s+|'[^'\n]*'|\"[^\"\n]*\"|.", re.DOTALL)
_TEMPLATES = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}",
    "{{ bos_token }}{%- if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}"
    "{% set messages = messages[1:] %}{% else %}{% set system = '' %}{% endif %}{{ system }}"
    "{%- for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}{% for c in m.tool_calls %}"
    "{{ c.function.name }}({{ c.function.arguments | tojson(indent=2) }}){% endfor %}{% else %}"
    "[{{ loop.index0 }}/{{ loop.length }}] {{ m.content }}{% endif %}{% endfor %}",
    "{%- macro item(x, depth=0) -%}{% if x is mapping %}{% for k, v in x.items() | sort %}"
    "{{ k | upper }}={{ item(v, depth + 1) }};"
    "{% endfor %}{% elif x is iterable and x is not string %}{% for y in x %}{{ item(y, depth + 1) }},{% endfor %}"
    "{% else %}{{ x | string | replace('a', 'b') | indent(depth) }}{% endif %}{%- endmacro -%}"
    "{% for t in tools or [] %}{{ item(t) }}{% endfor %}{% set ns = namespace(n=0) %}"
    "{% for m in messages %}{% set ns.n = ns.n + (m.content or '') | length %}{% endfor %}{{ ns.n // 2 }}",
    "{{ '%s-%05d' | format('a', 7) }}{{ 'x'.join(['a', 'b']) }}{{ [3, 1, 2] | sort(reverse=true) | join(',') }}"
    "{{ ('a ' * 3).split(' ') | select | list | length }}{{ {'a': 1} | dictsort }}{{ 7 ** 2 % 5 }}"
    "{{ 'é' | urlencode }}",
)
_SPARE = (
    *(
        "{%",
        "%}",
        "{{",
        "}}",
        "{%-",
        "-%}",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "|",
        ".",
        ",",
        ":",
        "+",
        "*",
        "**",
        "//",
        "~",
    ),
    *("for", "in", "if", "else", "endfor", "endif", "set", "macro", "endmacro", "call", "filter", "include", "import"),
    *("messages", "loop", "self", "range", "lipsum", "cycler", "joiner", "namespace", "raise_exception", "tools", "x"),
    *(
        "__class__",
        "__init__",
        "_x",
        "mro",
        "format_map",
        "0",
        "1",
        "99999999",
        "1e9",
        "-1",
        "none",
        "true",
        "''",
        "' '",
    ),
    *(
        " recursive ",
        " loop(x) ",
        "range(10 ** 9)",
        "'a' * 10 ** 9",
        "'%99999999d' | format(1)",
        "'a' | center(10 ** 9)",
    ),
    *(
        "'{:>999999999}'.format(1)",
        "'a'.replace('', 'aaaa')",
        "messages | batch(10 ** 9, 'x')",
        "2 ** 10 ** 7",
        "| tojson",
    ),
)
_MESSAGES = CONVERSATION


def case(seed: int, number: int) -> str:
    """Return a mutated template; the same for the same seed and number."""
    chance = random.Random(f"{seed}:{number}")
    words = _WORD.findall(chance.choice(_TEMPLATES))
    return "".join(fuzzing.mutated_words(chance, words, _SPARE))


def judge(source: str) -> str:
    """Render a template; return its outcome."""

    def read() -> None:
        text = ChatTemplate(source).render(_MESSAGES, add_generation_prompt=True, bos_token="<s>", tools=[TOOL])
        assert len(text) < 1 << 22, "the text is longer than any budget allows"

    return fuzzing.outcome_of(read, SECONDS)


def test_mutated_templates() -> None:
    """EDGE_CASES E7: whatever a template says, it is data."""
    outcomes = fuzzing.run(1.0, fuzzing.fresh_seed(), case, judge)
    assert outcomes["accepted"] and len(outcomes) > 3, outcomes


if __name__ == "__main__":
    fuzzing.main(sys.argv[1:], case, judge)
