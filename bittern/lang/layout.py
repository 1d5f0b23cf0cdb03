"""Lays out text within a width: what fits on a line stays on it, what does not is broken at its outermost brackets.

A document is a string, a list of documents, or one of the three below (after Wadler, "A prettier printer", 2003, with
the rule that a group which holds a forced break is broken). Time is linear in the size of the document.
"""

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Break:
    """A place where a line may end. flat: what stands there otherwise; None: the line ends always."""

    flat: str | None
    broken: str = ""  # stands before the line break if there is one


@dataclass(frozen=True, slots=True)
class Nest:
    """A document whose lines are indented two columns more. forced: whether it holds a break that is always one."""

    body: "Document"
    forced: bool


@dataclass(frozen=True, slots=True)
class Group:
    """A document whose breaks (not those of groups inside) are all line ends, or none is."""

    body: "Document"
    forced: bool


Document: TypeAlias = str | Break | Nest | Group | list["Document"]

LINE_END = Break(None)
SPACE = Break(" ")
NOTHING = Break("")

_INDENT = 2


def nest(*parts: Document) -> Nest:
    """Return the parts, indented."""
    body = list(parts)
    return Nest(body, _is_forced(body))


def group(*parts: Document) -> Group:
    """Return the parts as one group."""
    body = list(parts)
    return Group(body, _is_forced(body))


def bracketed(opener: str, items: list[Document], closer: str, inner: str = "") -> Document:
    """Return a list in brackets: on one line, or with one item and a comma a line. inner: what pads the brackets."""
    if not items:
        return opener + closer
    separated: list[Document] = []
    for item in items[:-1]:
        separated += [item, ",", SPACE]
    return group(opener, nest(Break(inner), *separated, items[-1]), Break(inner, ","), closer)


def joined(items: list[Document], separator: str = ",") -> list[Document]:
    """Return items with a separator and a possible line end between them."""
    parts: list[Document] = []
    for item in items[:-1]:
        parts += [item, separator, SPACE]
    return [*parts, *items[-1:]]


def is_forced(document: Document) -> bool:
    """Say whether a document cannot stand on one line."""
    return _is_forced([document])


def _is_forced(parts: list[Document]) -> bool:
    for part in parts:
        if isinstance(part, Break):
            if part.flat is None:
                return True
        elif isinstance(part, Nest | Group):
            if part.forced:
                return True
        elif isinstance(part, list) and _is_forced(part):
            return True
    return False


def lay_out(document: Document, width: int) -> str:
    """Return the document as text with lines of at most `width` columns, where its breaks allow it."""
    out: list[str] = []
    column = 0
    pending: list[tuple[int, bool, Document]] = [(0, False, document)]  # indent, whether flat, what
    while pending:
        indent, flat, part = pending.pop()
        if isinstance(part, str):
            out.append(part)
            column += len(part)
        elif isinstance(part, Break):
            if flat and part.flat is not None:
                out.append(part.flat)
                column += len(part.flat)
            else:
                out.append(part.broken + "\n" + " " * indent)
                column = indent
        elif isinstance(part, list):
            pending.extend((indent, flat, each) for each in reversed(part))
        elif isinstance(part, Nest):
            pending.append((indent + _INDENT, flat, part.body))
        else:
            flat = flat or (not part.forced and _fits(part.body, pending, width - column))
            pending.append((indent, flat, part.body))
    return "".join(out)


def _fits(body: Document, pending: list[tuple[int, bool, Document]], room: int) -> bool:
    """Say whether a document on one line, and what follows up to the next possible line end, takes at most `room`."""
    stack: list[tuple[bool, Document]] = [(True, body)]
    follow = len(pending)
    while room >= 0:
        if not stack:
            if not follow:
                return True
            follow -= 1
            _, flat, part = pending[follow]
        else:
            flat, part = stack.pop()
        if isinstance(part, str):
            room -= len(part)
        elif isinstance(part, Break):
            if not flat or part.flat is None:
                return room >= len(part.broken)
            room -= len(part.flat)
        elif isinstance(part, list):
            stack.extend((flat, each) for each in reversed(part))
        else:
            stack.append((flat, part.body))
    return False
