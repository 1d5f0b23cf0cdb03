"""Chat templates: the text of real ones, Jinja itself as the oracle, and hostile ones refused in time."""

import datetime
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from jinja_oracle import CONVERSATION, NAMES, TOOL, Templates, expected

from bittern.base.errors import BitternError
from bittern.front.gguf import open_gguf
from bittern.front.template import ChatTemplate

CHATS: dict[str, list[dict[str, Any]]] = {
    "one": [{"role": "user", "content": "Hi"}],
    "turns": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " What is 2+2? "},
        {"role": "assistant", "content": "4"},
        {"role": "user", "content": 'And "é"?\n'},
    ],
    "tools": CONVERSATION,
}


def render(source: str, messages: list[dict[str, Any]] | None = None, **names: Any) -> str:
    given = {"add_generation_prompt": True, **names}
    return ChatTemplate(source).render(CHATS["one"] if messages is None else messages, **given)


def refusal(source: str, **names: Any) -> BitternError:
    with pytest.raises(BitternError) as caught:
        render(source, **names)
    return caught.value


# Real templates, expectations written by hand


def test_smollm2_as_its_file_says(smollm2: Path) -> None:
    """EDGE_CASES C19: the file's own template, never one guessed by name."""
    with open_gguf(smollm2) as checkpoint:
        template = ChatTemplate.from_gguf(checkpoint.metadata)
    assert template.render(CHATS["one"], add_generation_prompt=True) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )
    assert template.render(CHATS["turns"], add_generation_prompt=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n What is 2+2? <|im_end|>\n"
        '<|im_start|>assistant\n4<|im_end|>\n<|im_start|>user\nAnd "é"?\n<|im_end|>\n'
    )


GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set opening = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set opening = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set opening = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for turn in turns -%}
    {%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("user and model must take turns") }}
    {%- endif -%}
    {%- set name = "model" if turn['role'] == 'assistant' else turn['role'] -%}
    {{ '<start_of_turn>' + name + '\\n' + (opening if loop.first else "") }}
    {%- if turn['content'] is string -%}
        {{ turn['content'] | trim }}
    {%- elif turn['content'] is iterable -%}
        {%- for part in turn['content'] -%}
            {%- if part['type'] == 'image' -%}{{ '<start_of_image>' }}
            {%- elif part['type'] == 'text' -%}{{ part['text'] | trim }}{%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("content is neither text nor parts") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
"""


def test_gemma_turns() -> None:
    assert render(GEMMA, CHATS["turns"], bos_token="<bos>") == (
        "<bos><start_of_turn>user\nBe brief.\n\nWhat is 2+2?<end_of_turn>\n<start_of_turn>model\n4<end_of_turn>\n"
        '<start_of_turn>user\nAnd "é"?<end_of_turn>\n<start_of_turn>model\n'
    )
    parts = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": " See? "}]}]
    assert render(GEMMA, parts, bos_token="<bos>") == (
        "<bos><start_of_turn>user\n<start_of_image>See?<end_of_turn>\n<start_of_turn>model\n"
    )
    with pytest.raises(BitternError, match="F405: The chat template says: user and model must take turns"):
        render(GEMMA, [CHATS["one"][0], CHATS["one"][0]])


# The dialects of published templates, against Jinja


DIALECTS = {
    "chatml": "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content']|string + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "headers": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start|>' + "
    "message['role'] + '<|end|>\n\n'+ message['content'] | trim + '<|eot|>' %}{% if loop.index0 == 0 %}"
    "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}",
    "inst": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% elif m.role == 'assistant' and m.content is not none %}{{ m.content + eos_token }}{% elif m.role == 'tool' %}"
    "{{ '[R]' ~ {'content': m.content}|tojson ~ '[/R]' }}{% endif %}{% endfor %}",
    "tools": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>" }}
{%- endif %}
{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and message.content is string %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == "assistant" %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- set thought = ('<think>\\n' + thought + '\\n</think>\\n\\n') if loop.last else '' %}
        {{- '<|im_start|>assistant\\n' + thought + content }}
        {%- if message.tool_calls %}
            {%- for call in message.tool_calls %}
                {%- if call.function %}{%- set call = call.function %}{%- endif %}
                {{- '<tool_call>{"name": "' ~ call.name ~ '", "arguments": ' }}
                {%- if call.arguments is string %}
                    {{- call.arguments }}
                {%- else %}
                    {{- call.arguments|tojson }}
                {%- endif %}
                {{- '}</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<r>\\n' ~ message.content|map(attribute='text')|join ~ '\\n</r>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "schema": """{%- macro describe(schema, depth=0) -%}
    {%- if schema.type == 'object' -%}
        {
        {%- for name, one in schema.properties.items() %}
            {{- '\\n' ~ '  ' * (depth + 1) ~ name ~ ('' if name in (schema.required or []) else '?') ~ ': ' }}
            {{- describe(one, depth + 1) }}{{ ',' if not loop.last }}
        {%- endfor %}
        {{- '\\n' ~ '  ' * depth ~ '}' }}
    {%- elif schema.type == 'array' -%}
        {{- describe(schema['items'], depth) if schema['items'] is mapping else 'any' }}[]
    {%- else -%}
        {{- schema.type | default('any') }}
    {%- endif -%}
{%- endmacro -%}
{%- for tool in tools or [] %}
// {{ tool.function.description | default('', true) | replace('\\n', ' ') | title }}
type {{ tool.function.name }} = (_: {{ describe(tool.function.parameters) }}) => any;
{% endfor -%}
{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('\\n') | indent(2, true) }}
{{ messages | rejectattr('content', 'none') | list | length }} {{ (messages | last).role | upper }}""",
    "dates": "{%- if strftime_now is defined %}{%- set day = strftime_now('%d %b %Y') %}{%- else %}"
    "{%- set day = '26 Jul 2024' %}{%- endif %}\n Today: {{ day }}\n {#- note -#} {{ eos_token }}",
    "skip": "{% for m in messages %}{% if m.role == 'system' %}{% continue %}{% endif %}{% if m.content is none %}"
    "{% break %}{% endif %}{{ loop.index }}:{{ m.content }};{% else %}none{% endfor %}",
}


@pytest.mark.parametrize("chat", CHATS.values(), ids=CHATS)
@pytest.mark.parametrize("source", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("tools", [None, [TOOL]], ids=["no tools", "tools"])
def test_dialects_are_byte_equal_to_jinja(source: str, chat: list[dict[str, Any]], tools: Any) -> None:
    names = {"bos_token": "<s>", "eos_token": "</s>", "tools": tools, "add_generation_prompt": True}
    wanted = expected(source, {"messages": chat, **names})
    try:
        got = ChatTemplate(source).render(chat, **names)
    except BitternError:
        got = None
    assert got == wanted


def test_most_dialects_take_most_chats() -> None:
    """Equality of failures proves nothing: most of the pairs must give text."""
    given = [{"messages": chat, **NAMES} for chat in CHATS.values()]
    assert sum(expected(source, one) is not None for source in DIALECTS.values() for one in given) >= 18


def answer(source: str) -> str | None:
    try:
        return ChatTemplate(source).render(CONVERSATION, **NAMES)
    except BitternError:
        return None


@pytest.mark.parametrize("seed", range(8))
def test_random_templates_are_byte_equal_to_jinja(seed: int) -> None:
    templates, texts = Templates(seed), 0
    given = {"messages": CONVERSATION, **NAMES}
    for at in range(120):
        source = f"{{{{ {templates.expression(3)} }}}}" if at % 2 else templates.statements(2)
        wanted, got = expected(source, given), answer(source)
        if wanted is None and _lenient(source):
            continue
        if wanted is not None and (" object at 0x" in wanted or "<built-in" in wanted or _late(source)):
            continue
        assert got == wanted, (seed, source)
        texts += wanted is not None
    assert texts > 15


_SLICED = re.compile(r"\)\[[-\d]*:")


def _lenient(source: str) -> bool:
    """Whether the template hashes a list, where Jinja fails and Bittern says `not in`."""
    return " in " in source or "is in(" in source or "is not in(" in source


def _late(source: str) -> bool:
    """Whether Jinja may be more lenient: lazy filters never run there, slices of constants are folded to nothing."""
    return any(f"|{name}" in source for name in ("unique", "select", "reject", "map")) or bool(_SLICED.search(source))


def test_a_planted_fault_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from bittern.front import template_library

    monkeypatch.setitem(template_library.FILTERS, "trim", lambda run, value: run.text(value).lstrip())
    names = {"bos_token": "<s>", "add_generation_prompt": True}
    assert ChatTemplate(DIALECTS["headers"]).render(CHATS["turns"], **names) != expected(
        DIALECTS["headers"], {"messages": CHATS["turns"], **names}
    )


# What is ours


def test_the_clock_is_granted_or_not_there() -> None:
    assert "26 Jul 2024" in render(DIALECTS["dates"])
    assert "05 Mar 2025" in render(DIALECTS["dates"], now=datetime.datetime(2025, 3, 5))
    error = refusal("{{ strftime_now('%1000000d') }}", now=datetime.datetime(2025, 3, 5))
    assert error.code == "F407" and "time format" in error.what


def test_a_method_hides_the_item_of_its_name() -> None:
    source = "{{ x.items is callable }} {{ x['items'] }} {{ x.keys() | list }} {{ x.other }}"
    given = {"x": {"items": 1, "other": 2}}
    assert render(source, **given) == expected(source, given) == "True 1 ['items', 'other'] 2"


def test_generation_marks_are_passed_over() -> None:
    assert render("{% generation %}{{ 1 + 1 }}{% endgeneration %}!") == "2!"


def test_a_file_without_template_is_refused() -> None:
    with pytest.raises(BitternError, match=r"F409: The file has no text under `tokenizer\.chat_template`"):
        ChatTemplate.from_gguf({})


@pytest.mark.parametrize(
    "given", [{1: 2}, {"a": object()}, {"a": b"bytes"}, {"a": {1, 2}}], ids=["key", "object", "bytes", "set"]
)
def test_only_plain_data_is_taken(given: Any) -> None:
    assert refusal("{{ x }}", x=given).code == "F408"


def test_data_within_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert refusal("{{ x }}", x=loop).code == "F408"


def test_a_long_conversation_has_a_budget_to_match() -> None:
    chat = [{"role": ("user", "assistant")[at % 2], "content": "word " * 200} for at in range(400)]
    for source in (DIALECTS["tools"], DIALECTS["chatml"], GEMMA):
        text = ChatTemplate(source).render(chat, add_generation_prompt=True, tools=[TOOL] * 30)
        assert len(text) > 400_000


# Hostile templates


def _doubled(start: str, step: str, last: str) -> str:
    loop = "{% for i in range(5000) %}{% set ns.x = STEP %}{% endfor %}".replace("STEP", step)
    return f"{{% set ns = namespace(x={start}) %}}{loop}{last}"


_MUTUAL = (
    "{% macro f() %}{{ caller() }}{% endmacro %}"
    "{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}{{ g() }}"
)


HOSTILE = [
    ("F402", "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
    ("F402", "{{ x.__globals__ }}"),
    ("F402", "{{ cycler.__init__.__globals__.os.popen('id').read() }}"),
    ("F402", "{{ joiner.__init__.__globals__ }}"),
    ("F402", "{{ namespace.__init__.__globals__ }}"),
    ("F402", "{{ self._TemplateReference__context }}"),
    ("F402", "{{ raise_exception.__globals__ }}"),
    ("F402", "{{ range.__self__ }}"),
    ("F402", "{{ ''.join.__self__ }}"),
    ("F402", "{{ loop.__class__ }}"),
    ("F402", "{{ ''['__class__'] }}"),
    ("F402", "{{ ''['__cl' ~ 'ass__'] }}"),
    ("F402", "{{ [''] | map(attribute='__class__') | list }}"),
    ("F402", "{{ [''] | sort(attribute='__class__') }}"),
    ("F402", "{{ __builtins__ }}"),
    ("F402", "{% set ns = namespace() %}{% set ns.__class__ = 1 %}"),
    ("F402", "{% include 'x' %}"),
    ("F402", "{% import 'x' as y %}"),
    ("F402", "{% from 'x' import y %}"),
    ("F402", "{% extends 'x' %}"),
    ("F402", "{% block a %}{% endblock %}"),
    ("F403", "{{ '' | attr('__class__') }}"),
    ("F403", "{{ '{0.__class__}'.format(1) }}"),
    ("F403", "{{ '{a.__class__}'.format_map({'a': 1}) }}"),
    ("F403", "{{ '%s' | format(1) }}"),
    ("F403", "{{ 'x' | formt }}"),
    ("F403", "{{ 'x' is formt }}"),
    ("F403", "{{ [1] | map('attr', 'real') | list }}"),
    ("F403", "{{ messages.append(1) }}"),
    ("F403", "{{ messages[0].update({}) }}"),
    ("F403", "{{ messages[0]['clear']() }}"),
    ("F403", "{{ 'a'.encode() }}"),
    ("F403", "{{ 'a'.translate({}) }}"),
    ("F403", "{{ 'a'.expandtabs(10**9) }}"),
    ("F403", "{{ (1).to_bytes(10**9, 'big') }}"),
    ("F403", "{{ [1] | batch(10**9, 'x') | list }}"),
    ("F403", "{{ 'x' | slice(10**9) | list }}"),
    ("F403", "{{ 'x' | urlize }}"),
    ("F403", "{{ 'x' | wordwrap(1) }}"),
    ("F404", "{{ cycler(1) }}"),
    ("F404", "{{ lipsum(n=10**9) }}"),
    ("F404", "{{ none.foo.bar }}"),
    ("F405", "{{ raise_exception('no ' * 1000) }}"),
    ("F406", "{% for i in range(10**9) %}x{% endfor %}"),
    ("F406", "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}"),
    ("F406", "{% for i in range(9999) if range(9999) | list %}{% endfor %}"),
    ("F406", "{{ range(10**10) | list }}"),
    ("F406", "{{ range(10**30) }}"),
    ("F406", "{{ 'a' * 10**9 }}"),
    ("F406", "{{ 10**9 * 'a' }}"),
    ("F406", "{{ ['a'] * 10**9 }}"),
    ("F406", "{{ ('a',) * 10**9 }}"),
    ("F406", "{{ 'x'.center(10**9) }}"),
    ("F406", "{{ 'x'.zfill(10**9) }}"),
    ("F406", "{{ 'x' | center(10**9) }}"),
    ("F406", "{{ 'x' | indent(10**9, true) }}"),
    ("F406", "{{ ('a' * 2000000) | list | length }}"),
    ("F406", "{{ ('a ' * 1000000).split() | length }}"),
    ("F406", "{% for k in 'a' * 2000000 %}{% endfor %}"),
    ("F406", "{{ 'a'.replace('', 'b' * 60000).replace('b', 'c' * 60000) }}"),
    ("F406", "{{ 'aa' | replace('', 'b' * 60000) | replace('b', 'c' * 60000) }}"),
    ("F406", "{{ ','.join(['a' * 60000] * 60000) }}"),
    ("F406", "{{ (['a' * 60000] * 60000) | join }}"),
    ("F406", "{{ ([[1] * 1000] * 1000) | tojson | length }}"),
    ("F406", "{{ ([[1] * 1000] * 1000) | string | length }}"),
    ("F406", "{{ ([[1] * 1000] * 1000) == ([[1] * 1000] * 1000) }}"),
    ("F406", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
    ("F406", "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro %}{{ f(30) }}"),
    ("F406", _MUTUAL),
    ("F406", "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
    ("F406", "{% set x %}{% for i in range(40000) %}" + "a" * 60 + "{% endfor %}{% endset %}"),
    ("F406", _doubled("'a'", "ns.x ~ ns.x", "")),
    ("F406", _doubled("'a'", "ns.x + ns.x", "")),
    ("F406", _doubled("[1]", "ns.x + ns.x", "")),
    ("F406", _doubled("[1]", "[ns.x, ns.x]", "{{ ns.x }}")),
    ("F406", _doubled("[1]", "[ns.x, ns.x]", "{{ ns.x | tojson }}")),
    ("F406", _doubled("[1]", "[ns.x, ns.x]", "{{ ns.x == [ns.x[0], ns.x[1]] }}")),
    ("F406", _doubled("[1]", "[ns.x, ns.x]", "{{ ns.x in [ns.x[0], 1] }}")),
    ("F406", _doubled("[1]", "[ns.x, ns.x]", "{{ ns.x | sort }}")),
    ("F406", _doubled("1", "[ns.x]", "{{ ns.x }}")),
    ("F407", _doubled("(1,)", "(ns.x,)", "{{ {ns.x: 1} }}")),
    ("F407", _doubled("(1,)", "(ns.x,)", "{{ [ns.x] | unique | list }}")),
    ("F407", _doubled("(1,)", "(ns.x,)", "{{ messages[0].get(ns.x) }}")),
    ("F407", _doubled("(1,)", "(ns.x,)", "{{ dict([(ns.x, 1)]) }}")),
    ("F407", _doubled("2", "ns.x * ns.x", "{{ ns.x }}")),
    ("F407", "{{ 10 ** 5000 }}"),
    ("F407", "{{ 2 ** -100000 }}"),
    ("F407", "{{ '%1000000000d' % 1 }}"),
    ("F407", "{{ '%1000000000d' is even }}"),
    ("F407", "{{ '%1000000000d' is odd }}"),
    ("F407", "{{ '%1000000000d' is divisibleby(1) }}"),
    ("F407", "{{ 'a' | round(9, 'ceil') }}"),
    ("F407", "{{ 1.5 | round(10**9, 'ceil') }}"),
    ("F407", "{{ [1] | tojson(indent=10**9) }}"),
    ("F407", "{{ [1, 1] | tojson(separators=('a' * 60000, ':')) }}"),
    ("F407", "{{ 1 / 0 }}"),
    ("F407", "{% break %}"),
    ("F401", "{{ " + "(" * 500 + "1" + ")" * 500 + " }}"),
    ("F401", "{{ " + "[" * 300 + "]" * 300 + " }}"),
    ("F401", "{{ " + "-" * 5000 + "1 }}"),
    ("F401", "{{ " + "1+" * 5000 + "1 }}"),
    ("F401", "{{ " + "9" * 10000 + " }}"),
    ("F401", "{{ 'a'" + "|upper" * 3000 + " }}"),
    ("F401", "{% if 1 %}" * 300 + "{% endif %}" * 300),
    ("F401", "x" * 200_000),
    ("F401", "{% if %}"),
    ("F401", "{{ 1 "),
]


@pytest.mark.parametrize(("code", "source"), HOSTILE, ids=[f"{row[0]}-{row[1][:40]}" for row in HOSTILE])
def test_hostile_templates_are_refused_in_time_and_memory(code: str, source: str) -> None:
    ChatTemplate("{{ 1 }}").render([], add_generation_prompt=False)
    begun = time.process_time()
    error = refusal(source)
    assert error.code == code, error
    assert time.process_time() - begun < 1
    tracemalloc.start()
    refusal(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 48 << 20
    assert len(str(error)) < 900


def test_jinja_alone_would_do_what_is_refused() -> None:
    """Some of the list is harmless to refuse only because Jinja's sandbox would have run it."""
    assert len(expected("{{ 'x' | center(10**7) }}", {}) or "") == 10**7
    assert len(expected("{{ '%10000000d' % 1 }}", {}) or "") == 10**7
