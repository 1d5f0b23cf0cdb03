"""Diagnostics as text and as objects: the caret stands under the character it means."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.lang import render
from bittern.lang.render import MAX_SHOWN, as_text
from bittern.lang.source import Diagnostic, Source, Span


def _at(text, start, end, **more):
    return Diagnostic(
        "E301", Span(Source("norms.btn", text), start, end), "operands have different element types", **more
    )


def test_all_parts():
    text = "fn f() {\n  let y = 1\n  let y = x * gain\n}\n"
    start = text.index("*")
    error = _at(
        text,
        start,
        start + 1,
        found="f32[n] and f16[n]",
        expected="one element type",
        hint="convert with `f32(gain)`",
        notes=((Span(Source("norms.btn", text), 11, 14), "bound here"),),
    )
    assert as_text(error) == (
        "norms.btn:3:13: error[E301]: operands have different element types\n"
        "  3 |   let y = x * gain\n"
        "    |             ^\n"
        "  found: f32[n] and f16[n]\n"
        "  expected: one element type\n"
        "  hint: convert with `f32(gain)`\n"
        "norms.btn:2:3: note: bound here\n"
        "  2 |   let y = 1\n"
        "    |   ^^^"
    )


def test_empty_parts_are_left_out():
    assert as_text(_at("a", 0, 1)).count("\n") == 2


def test_multi_line_spans_underline_the_first_line():
    assert as_text(_at("f(a,\n  b)\n", 0, 10)).split("\n")[1:] == ["  1 | f(a,", "    | ^^^^"]


def test_places_without_characters_get_one_caret():
    assert as_text(_at("ab\n", 2, 3)).split("\n")[1:] == ["  1 | ab", "    |   ^"]
    assert as_text(_at("ab", 2, 2)).split("\n")[2] == "    |   ^"
    assert as_text(_at("", 0, 0)).split("\n")[1:] == ["  1 |", "    | ^"]


def test_line_numbers_widen_the_margin():
    lines = as_text(_at("\n" * 999 + "ab", 1000, 1001)).split("\n")
    assert lines[1:] == ["  1000 | ab", "       |  ^"]


def _columns_of_carets(text, start, end):
    shown, carets = (line.split("| ", 1)[1] for line in as_text(_at(text, start, end)).split("\n")[1:3])
    return shown, carets.index("^"), len(carets)


def _check_wide():
    assert _columns_of_carets("\tab", 2, 3) == ("    ab", 5, 6)
    assert _columns_of_carets("x\tab", 2, 3) == ("x   ab", 4, 5)
    assert _columns_of_carets("名前 + b", 5, 6) == ("名前 + b", 7, 8)
    assert _columns_of_carets("名前 + b", 0, 2) == ("名前 + b", 0, 4)
    assert _columns_of_carets("e\u0301x", 2, 3) == ("e\u0301x", 1, 2)
    assert _columns_of_carets("\x1b\ud800x", 2, 3) == ("\ufffd\ufffdx", 2, 3)
    assert _columns_of_carets("ab\r\nc", 1, 2) == ("ab", 1, 2)


def test_tabs_wide_and_unprintable_characters():
    _check_wide()


def test_a_wrong_width_is_noticed(monkeypatch):
    monkeypatch.setattr(render, "_width", lambda character: 1)
    with pytest.raises(AssertionError):
        _check_wide()


def test_long_lines_are_cut_around_the_place():
    text = "a" * 5000 + "!" + "b" * 5000
    shown, first, last = _columns_of_carets(text, 5000, 5001)
    assert shown[first:last] == "!"
    assert len(shown) <= MAX_SHOWN + 8
    assert shown.startswith("... aaa")
    assert shown.endswith("bbb ...")
    assert _columns_of_carets(text, 0, 9000)[2] <= MAX_SHOWN + 8


def test_colour_adds_only_escapes():
    error = _at("a + b", 2, 3, hint="none", notes=((Span(Source("norms.btn", "a"), 0, 1), "here"),))
    painted = as_text(error, colour=True)
    assert "\x1b[1;31merror[E301]\x1b[0m" in painted
    for style in ("1", "1;31", "1;34", "1;36", "0"):
        painted = painted.replace(f"\x1b[{style}m", "")
    assert painted == as_text(error)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=300), st.data())
def test_any_place_renders_in_three_lines(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    lines = as_text(_at(text, start, end)).split("\n")
    assert len(lines) == 3
    assert lines[2].rstrip("^").rstrip(" ").endswith("|")
