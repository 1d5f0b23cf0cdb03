"""A conversation in the language: declarations and `let`s that stay, and expressions between them.

Text comes in piece by piece. What declares is checked with all that was declared before and kept only if the whole is
free of errors; a declaration replaces those of its name. An expression becomes a function without parameters.
"""

from dataclasses import dataclass, field
from pathlib import Path

from bittern.graph.node import Function, Labels
from bittern.lang import syntax
from bittern.lang.check import check_module
from bittern.lang.context import Context, Reject, expression
from bittern.lang.elaborate import instance_for
from bittern.lang.frame import make_result
from bittern.lang.lexer import DECLARATION_WORDS, TOO_DEEP, UNCLOSED_BRACKET, Reports, tokenize
from bittern.lang.library import Library, Module
from bittern.lang.parser import parse
from bittern.lang.source import Diagnostic, Source, Span
from bittern.lang.values import LangType

INPUT = "input"
_HEAD = "fn input() -> bit {\n"
_TAIL = "\n}\n"


class Fault(Exception):
    """What was wrong with a piece of text. found: its diagnostics."""

    def __init__(self, found: list[Diagnostic]) -> None:
        super().__init__(len(found))
        self.found = found


@dataclass(frozen=True, slots=True)
class Entry:
    """An expression as a function. type: as the language writes it."""

    function: Function
    type: LangType
    type_text: str


@dataclass(slots=True)
class Session:
    """What was said so far. declared: texts by name. lets: statements, in order. folder: where `use` looks first."""

    folder: Path
    declared: dict[str, str] = field(default_factory=dict)
    lets: list[str] = field(default_factory=list)

    def declare(self, text: str, name: str = INPUT) -> list[str]:
        """Add the declarations of a text; return their names. Raises Fault."""
        file, faults = parse(Source(name, text))
        if faults:
            raise Fault(faults)
        new: dict[str, str] = {}
        for declaration in file.declarations:
            key = _key(declaration)
            new[key] = new.get(key, "") + _text(declaration)
        tried = Session(self.folder, {**self.declared, **new}, [])
        check_module(module := tried._module({_key(each): (text, name) for each in file.declarations}))
        if module.library.errors.found:
            raise Fault(module.library.errors.found)
        self.declared = tried.declared
        return list(new)

    def let(self, text: str) -> None:
        """Add a `let` or an assignment to a place. Raises Fault."""
        self.entry("0u8", text)
        self.lets.append(text)

    def entry(self, text: str, *lets: str) -> Entry:
        """Return an expression as a function. lets: statements before it, besides those said. Raises Fault."""
        said = "\n".join([*self.lets, *lets, text])
        file, faults = parse(Source(INPUT, f"{_HEAD}{said}{_TAIL}"))
        if faults:
            raise Fault([_seen(fault, said) for fault in faults])
        (function,) = file.declarations if len(file.declarations) == 1 else (None,)
        if not isinstance(function, syntax.FunctionDecl) or function.ideal is not None:
            span = Span(Source(INPUT, said), 0, len(said))
            raise Fault([Diagnostic("E105", span, "this is not one expression", expected="an expression")])
        module = self._module({})
        ctx, errors = Context.outside(module), module.library.errors
        try:
            value = expression(ctx, function.body, None)
        except Reject as reject:
            ctx.caught(reject)
            raise Fault([_seen(fault, said) for fault in errors.found]) from None
        except RecursionError:
            span = Span(Source(INPUT, said), 0, len(said))
            message = "calls and expressions here are nested too deeply"
            raise Fault([Diagnostic(TOO_DEEP, span, message, hint="name parts of them with `let`")]) from None
        if errors.found:
            raise Fault([_seen(fault, said) for fault in errors.found])
        labels = Labels("input", (), (), ctx.labels, ctx.lines)
        return Entry(Function(0, (), make_result(value.leaves), labels=labels), value.type, ctx.text(value.type))

    def functions(self, name: str) -> list[Function]:
        """Return the forms of a function in sight, all dimensions symbolic; none if there is none of this name."""
        module = self._module({})
        return [
            instance_for(found.module, member, {}) for found in module.find_functions(name) for member in found.members
        ]

    def _module(self, fresh: dict[str, tuple[str, str]]) -> Module:
        """Return the module of all declarations. fresh: names whose text is another source, and that source."""
        kept = "".join(text for name, text in self.declared.items() if name not in fresh)
        sources = [Source("earlier", kept), *(Source(name, text) for text, name in dict.fromkeys(fresh.values()))]
        return Library.standard().add("session", sources, self.folder)


def is_open(text: str) -> bool:
    """Say whether a text goes on: a bracket is not closed at its end, or it is a comment or head without a body."""
    reports = Reports(Source(INPUT, text))
    tokens = tokenize(reports.source, reports)
    if tokens.kinds[0] in ("fn", "inline", "struct") and "{" not in tokens.kinds:
        return True
    if tokens.kinds == ["end"]:
        return "///" in text
    ends = [note for each in reports.found if each.code == UNCLOSED_BRACKET for note in each.notes]
    return any(span.start == len(text) for span, _ in ends)


def is_empty(text: str) -> bool:
    """Say whether a text holds only comments and blanks."""
    return _kinds(text) == ["end"] and "///" not in text


def is_declaration(text: str) -> bool:
    """Say whether a text begins with a declaration."""
    kinds = _kinds(text)
    return kinds[0] in DECLARATION_WORDS or text.lstrip().startswith("///")


def is_statement(text: str) -> bool:
    """Say whether a text is a `let` or an assignment."""
    kinds, depth = _kinds(text), 0
    if kinds[0] == "let":
        return True
    for kind in kinds:
        depth += (kind in "([{") - (kind in ")]}")
        if kind in ("if", "for", "each", "while", "with"):
            return False
        if kind == "=" and depth == 0:
            return True
    return False


def _kinds(text: str) -> list[str]:
    source = Source(INPUT, text)
    return tokenize(source, Reports(source)).kinds


def _key(declaration: syntax.Declaration) -> str:
    if isinstance(declaration, syntax.Use):
        return "use " + ".".join(name.name for name in declaration.path)
    return declaration.name.name


def _text(declaration: syntax.Declaration) -> str:
    span = declaration.span
    doc = "" if isinstance(declaration, syntax.Use) else declaration.doc
    lines = [f"/// {line}".rstrip() + "\n" for line in doc.split("\n")] if doc else []
    return "".join(lines) + span.source.text[span.start : span.end] + "\n"


def _seen(fault: Diagnostic, said: str) -> Diagnostic:
    """Return a diagnostic whose places are in what was said, not in the function around it."""
    source = Source(INPUT, said)

    def moved(span: Span) -> Span:
        if span.source.name != INPUT:
            return span
        start, end = (min(max(at - len(_HEAD), 0), len(said)) for at in (span.start, span.end))
        return Span(source, start, end)

    notes = tuple((moved(span), phrase) for span, phrase in fault.notes)
    return Diagnostic(fault.code, moved(fault.span), fault.message, fault.found, fault.expected, fault.hint, notes)
