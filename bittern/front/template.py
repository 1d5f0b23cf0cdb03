"""Chat templates: from messages to the text a model was trained on, by the template that its own file carries.

In: the template's source (Jinja, `tokenizer.chat_template`), messages, tools. Out: text, byte for byte what Jinja gives
with the settings that chat templates are written for (`trim_blocks`, `lstrip_blocks`, loop controls). Source and file
are untrusted: Jinja parses in its immutable sandbox, the tree is checked once for what no template may contain, and
`template_interpreter` runs it under a budget. Templates never see a clock unless the caller grants one.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from bittern.base.errors import BitternError, code
from bittern.front.template_interpreter import FAILED, FORBIDDEN, Break, Continue, Interpreter
from bittern.front.template_library import FUNCTIONS, clock
from bittern.front.template_values import TOO_MUCH, Scope, Value, budget_for

if TYPE_CHECKING:
    from jinja2 import Environment

BAD_SOURCE = code("F401", "the chat template cannot be parsed")
NO_TEMPLATE = code("F409", "the file has no chat template")

_KEY = "tokenizer.chat_template"
_LONGEST = 1 << 17
_DEEPEST = 150
_KINDS = (
    "Template Output If For Assign AssignBlock Macro CallBlock FilterBlock With Break Continue Name NSRef Const "
    "TemplateData List Tuple Dict Pair Keyword Getattr Getitem Slice Call Filter Test CondExpr And Or Not Neg Pos "
    "Compare Operand Concat Add Sub Mul Div FloorDiv Mod Pow"
)
_ALLOWED = frozenset(_KINDS.split())


class ChatTemplate:
    """A parsed and checked chat template.

    Errors when made: F401 source that is no template or too long, F402 source with what templates may not use.
    """

    __slots__ = ("_body", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._body = _parse(source)

    @staticmethod
    def from_gguf(metadata: Mapping[str, object]) -> "ChatTemplate":
        """Return the template that a GGUF file carries. Errors: F409 none, and those of making one."""
        source = metadata.get(_KEY)
        if not isinstance(source, str):
            raise BitternError(
                NO_TEMPLATE, f"The file has no text under `{_KEY}`.", "Give the text itself, without a chat template."
            )
        return ChatTemplate(source)

    def render(
        self,
        messages: Sequence[Mapping[str, Value]],
        *,
        add_generation_prompt: bool,
        bos_token: str = "",
        eos_token: str = "",
        tools: Sequence[Value] | None = None,
        now: datetime | None = None,
        **extra: Value,
    ) -> str:
        """Return the text of a conversation.

        messages: dicts with `role`, `content` and what else the template reads; plain data. tools: descriptions of
        functions, or None. now: what `strftime_now` tells; without it that name is undefined, so that a template
        falls back on a date of its own and the text is the same every day. extra: further names for the template.
        Errors: F402 forbidden, F403 unknown filter or method, F404 undefined value, F405 the template refuses,
        F406 too many steps, F407 an operation failed, F408 not plain data.
        """
        given = {
            **extra,
            "messages": list(messages),
            "tools": tools,
            "add_generation_prompt": add_generation_prompt,
            "bos_token": bos_token,
            "eos_token": eos_token,
        }
        run = Interpreter(budget_for(self.source, given))
        functions = FUNCTIONS if now is None else {**FUNCTIONS, "strftime_now": clock(now)}
        try:
            return run.run(self._body, Scope(given, Scope(dict(functions))))
        except RecursionError:
            raise BitternError(
                TOO_MUCH,
                f"The chat template nests too deep in line {run.line}.",
                "It calls itself without end: use another template.",
            ) from None
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, Break, Continue) as error:
            raise BitternError(
                FAILED,
                f"The chat template fails in line {run.line}: {error!s:.200}.",
                "Give messages of the form that it expects.",
            ) from None


def _parse(source: str) -> list[Any]:
    from jinja2 import TemplateSyntaxError

    if len(source) > _LONGEST:
        raise _bad(f"is longer than {_LONGEST} characters", 1)
    try:
        tree = _environment().parse(source)
    except TemplateSyntaxError as error:
        raise _bad(f"has a fault: {error.message!s:.200}", error.lineno) from None
    except (RecursionError, ValueError, OverflowError) as error:
        raise _bad(f"cannot be read ({type(error).__name__})", 1) from None
    for node, depth in _nodes(tree):
        _check(node, depth)
    return tree.body


@cache
def _environment() -> "Environment":
    """Return Jinja's sandbox with the settings of chat templates; only its parser is used."""
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}`: marks what the model said, for training; the text is that of its body."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> list[nodes.Node]:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation], optimized=False, cache_size=0
    )


def _nodes(tree: Any) -> Iterator[tuple[Any, int]]:
    """Yield every node with its depth; without recursion, for the tree is not trusted yet."""
    rest = [(tree, 0)]
    while rest:
        node, depth = rest.pop()
        yield node, depth
        rest.extend((child, depth + 1) for child in node.iter_child_nodes())


def _check(node: Any, depth: int) -> None:
    kind = type(node).__name__
    if depth > _DEEPEST:
        raise _bad(f"nests more than {_DEEPEST} levels deep", node.lineno)
    name = getattr(node, "attr", None) if kind in ("Getattr", "NSRef") else getattr(node, "name", None)
    hidden = isinstance(name, str) and name.startswith("_" if kind in ("Getattr", "NSRef") else "__")
    if kind not in _ALLOWED or hidden:
        what = f"`{name:.50}`" if hidden else f"a `{kind}`"
        raise BitternError(
            FORBIDDEN,
            f"The chat template uses {what} in line {node.lineno}.",
            "Templates see plain data only, and no other files.",
        )


def _bad(what: str, line: int) -> BitternError:
    return BitternError(
        BAD_SOURCE, f"The chat template {what} (line {line}).", "Use another file, or give the text without a template."
    )
