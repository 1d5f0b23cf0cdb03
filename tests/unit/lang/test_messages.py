"""Diagnostics as JSON: every field of rustc's shape, places in bytes and columns, and advice that really mends."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.base.errors import CODES
from bittern.lang.check import check_text
from bittern.lang.messages import MAX_COLUMNS, MAX_LINES, as_message, replacements
from bittern.lang.source import Diagnostic, Source, Span, source_text

CASES = Path(__file__).parents[2] / "golden" / "check"
SPAN = {
    *("file_name", "byte_start", "byte_end", "line_start", "line_end", "column_start", "column_end"),
    *("is_primary", "text", "label", "suggested_replacement", "suggestion_applicability", "expansion"),
}


def span(text, start, end, name="case.btn"):
    """Return a place in a text."""
    return Span(Source(name, text), start, end)


def test_every_field():
    text = "a\né(b,\n  c)"
    note = (span("x = 1", 0, 1, "norms.btn"), "declared here")
    told = as_message(Diagnostic("E301", span(text, 3, 11), "they differ", "`u8`", "`f32`", "write `f(b)`", (note,)))
    assert told == json.loads(json.dumps(told))
    assert set(told) == {"$message_type", "message", "code", "level", "spans", "children", "rendered"}
    assert (told["message"], told["level"]) == ("they differ", "error")
    assert told["code"] == {"code": "E301", "explanation": CODES["E301"]}
    (primary,) = told["spans"]
    assert set(primary) == SPAN
    assert primary == {
        **{"file_name": "case.btn", "byte_start": 4, "byte_end": 12},
        **{"line_start": 2, "line_end": 3, "column_start": 2, "column_end": 5, "is_primary": True},
        "text": [
            {"text": "é(b,", "highlight_start": 2, "highlight_end": 5},
            {"text": "  c)", "highlight_start": 1, "highlight_end": 5},
        ],
        **{"label": "expected `f32`", "suggested_replacement": None, "suggestion_applicability": None},
        "expansion": None,
    }
    assert [(child["level"], child["message"]) for child in told["children"]] == [
        ("note", "found `u8`"),
        ("note", "expected `f32`"),
        ("help", "write `f(b)`"),
        ("note", "declared here"),
    ]
    (advice,) = told["children"][2]["spans"]
    assert (advice["suggested_replacement"], advice["suggestion_applicability"]) == ("f(b)", "MaybeIncorrect")
    assert told["children"][3]["spans"][0]["file_name"] == "norms.btn"
    assert told["rendered"].startswith("case.btn:2:2: error[E301]: they differ\n") and told["rendered"].endswith("\n")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200), st.data())
def test_places_agree_however_they_are_counted(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    place = as_message(Diagnostic("E105", span(text, start, end), "no"))["spans"][0]
    assert text.encode()[place["byte_start"] : place["byte_end"]].decode() == text[start:end]
    lines = text.split("\n")
    before = sum(len(line) + 1 for line in lines[: place["line_start"] - 1]) + place["column_start"] - 1
    assert before == start
    if place["text"] and "\r" not in text:
        parts = [line["text"][line["highlight_start"] - 1 : line["highlight_end"] - 1] for line in place["text"]]
        assert "\n".join(parts) == text[start:end]


def test_large_places_are_not_repeated():
    for text in ("x" * (MAX_COLUMNS + 1), "x\n" * (MAX_LINES + 1)):
        assert as_message(Diagnostic("E105", span(text, 0, len(text)), "no"))["spans"][0]["text"] == []


@pytest.mark.parametrize(
    ("text", "hint", "wanted"),
    [
        ("nrm", "Did you mean `norm` or `nrms`?", ["norm", "nrms"]),
        ("a + b", "Did you mean `norm`?", []),
        ("&&", "write `and`", ["and"]),
        ("x", "write `f32(x)`", ["f32(x)"]),
        ("x", "convert it with `f32(x)`", ["f32(x)"]),
        (")", "write `name: type`", []),
        ("x", "write `let x = ...`", []),
        (";", "a line break ends a statement: remove the `;`", [""]),
        ("x", "choose another name", []),
    ],
)
def test_replacements(text, hint, wanted):
    assert replacements(hint, span(text, 0, len(text))) == wanted


def advised():
    """Yield the golden cases whose diagnostics have a replacement."""
    for path in sorted(CASES.glob("*.btn")):
        if path.stem == "E101_not_utf8":
            continue
        text = path.read_text("utf-8")
        for found in check_text(text, path.name):
            for new in replacements(found.hint, found.span) if found.span.source.text == text else []:
                yield pytest.param(path.name, text, found, new, id=f"{path.stem}-{found.span.start}-{new}")


@pytest.mark.parametrize(("name", "text", "found", "new"), list(advised()))
def test_a_replacement_mends_its_error(name, text, found, new):
    mended = text[: found.span.start] + new + text[found.span.end :]
    left = check_text(mended, name)
    assert (found.code, found.message) not in {(each.code, each.message) for each in left if _is_at(each, found)}


def _is_at(each, found):
    return each.span.start == found.span.start


def test_there_are_replacements_and_wrong_ones_are_noticed():
    cases = [case.values for case in advised()]
    assert len(cases) >= 8
    name, text, found, _ = cases[0]
    with pytest.raises(AssertionError):
        test_a_replacement_mends_its_error(name, text, found, source_text(found.span))
