"""Diagnostics as the JSON messages that rustc made common, so that editors and other tools read them as they are.

Format: "JSON output" of The rustc book. Lines and columns count from 1, columns in characters; bytes count from 0 in
UTF-8; ends are exclusive. What a diagnostic found, expected and advises are children (`note`, `help`); an advice that
is a text to put in place of the marked one has it as `suggested_replacement`.
"""

import re
from typing import Any

from bittern.base.errors import CODES
from bittern.lang.render import as_text
from bittern.lang.source import Diagnostic, Source, Span, source_text

MAX_LINES, MAX_COLUMNS = 20, 1000  # of the text that a span repeats; of a larger place it repeats none

_NEAREST = re.compile(r"Did you mean (`[^`]+`(?: or `[^`]+`)?)\?")
_WRITE = re.compile(r"(?:write|convert it with) `([^`]+)`")
_REMOVE = re.compile(r".*: remove the `([^`]+)`")


def as_message(diagnostic: Diagnostic) -> dict[str, Any]:
    """Return a diagnostic as a message of rustc's shape."""
    label = f"expected {diagnostic.expected}" if diagnostic.expected else None
    children = []
    if diagnostic.found:
        children.append(_child("note", f"found {diagnostic.found}"))
    if diagnostic.expected:
        children.append(_child("note", f"expected {diagnostic.expected}"))
    if diagnostic.hint:
        advice = [_span(diagnostic.span, replacement=text) for text in replacements(diagnostic.hint, diagnostic.span)]
        children.append(_child("help", diagnostic.hint, advice))
    children += [_child("note", phrase, [_span(span)]) for span, phrase in diagnostic.notes]
    return {
        "$message_type": "diagnostic",
        "message": diagnostic.message,
        "code": {"code": diagnostic.code, "explanation": CODES.get(diagnostic.code)},
        "level": "error",
        "spans": [_span(diagnostic.span, label)],
        "children": children,
        "rendered": as_text(diagnostic) + "\n",
    }


def replacements(hint: str, span: Span) -> list[str]:
    """Return the texts that a hint advises to put in place of a span; none if it advises something else."""
    if nearby := _NEAREST.fullmatch(hint):
        return re.findall(r"`([^`]+)`", nearby[1]) if source_text(span).isidentifier() else []
    if written := _WRITE.fullmatch(hint):
        is_whole = "..." not in written[1] and (" " not in written[1] or source_text(span) in written[1])
        return [written[1]] if is_whole and source_text(span) else []
    removed = _REMOVE.fullmatch(hint)
    return [""] if removed and source_text(span) == removed[1] else []


def _child(level: str, message: str, spans: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "message": message,
        "code": None,
        "level": level,
        "spans": spans or [],
        "children": [],
        "rendered": None,
    }


def _span(span: Span, label: str | None = None, replacement: str | None = None) -> dict[str, Any]:
    source = span.source
    line, column = source.position(span.start)
    end_line, end_column = source.position(span.end)
    return {
        "file_name": source.name,
        "byte_start": _bytes(source.text[: span.start]),
        "byte_end": _bytes(source.text[: span.end]),
        "line_start": line,
        "line_end": end_line,
        "column_start": column,
        "column_end": end_column,
        "is_primary": True,
        "text": _lines(source, (line, column), (end_line, end_column)),
        "label": label,
        "suggested_replacement": replacement,
        "suggestion_applicability": None if replacement is None else "MaybeIncorrect",
        "expansion": None,
    }


def _lines(source: Source, begin: tuple[int, int], end: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the lines of a place, each with the columns that belong to it."""
    if end[0] - begin[0] >= MAX_LINES:
        return []
    texts = source.text.split("\n", end[0])[begin[0] - 1 : end[0]]
    if any(len(text) > MAX_COLUMNS for text in texts):
        return []
    return [
        {
            "text": text.rstrip("\r"),
            "highlight_start": begin[1] if number == begin[0] else 1,
            "highlight_end": end[1] if number == end[0] else len(text.rstrip("\r")) + 1,
        }
        for number, text in enumerate(texts, begin[0])
    ]


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
