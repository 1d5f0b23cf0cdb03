"""The lexer: tokens, numbers, the rule of line breaks, and brackets that are always balanced."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.lang import lexer
from bittern.lang.lexer import MAX_ERRORS, MAX_NESTING, Reports, decode, tokenize
from bittern.lang.source import Source


def _tokens(text):
    reports = Reports(Source("case.btn", text))
    return tokenize(reports.source, reports), reports.found


def _kinds(text):
    tokens, found = _tokens(text)
    assert not found, found
    return tokens.kinds


def _codes(text):
    return [each.code for each in _tokens(text)[1]]


def test_words_signs_and_numbers():
    expected = ["let", "name", "=", "name", "->", "number", "..", "name", "<<", "<=", "<", "!", "!=", "@", "end"]
    assert _kinds("let letter = _a9 -> 1..n << <= < ! != @") == expected


def test_line_break_ends_a_statement_after_what_can_end_an_expression():
    assert _kinds("a\nb") == ["name", "newline", "name", "end"]
    assert _kinds("a +\nb") == ["name", "+", "name", "end"]
    assert _kinds("f(a\n,\nb)\nc")[-3:] == ["newline", "name", "end"]
    assert "newline" not in _kinds("f(a\n,\n[b\n]\n)")
    assert _kinds("(if a {\nb\n} else {\nc\n})").count("newline") == 2
    assert _kinds("a // note\n\n\n// more\nb") == ["name", "newline", "name", "end"]
    assert _kinds("a\r\nb\r\n") == ["name", "newline", "name", "newline", "end"]


def test_a_wrong_line_break_rule_is_noticed(monkeypatch):
    monkeypatch.setattr(lexer, "_ENDS_EXPRESSION", frozenset(["name", "number"]))
    with pytest.raises(AssertionError):
        test_line_break_ends_a_statement_after_what_can_end_an_expression()


@pytest.mark.parametrize(
    ("written", "text", "suffix"),
    [
        ("0", "0", ""),
        ("12", "12", ""),
        ("1_000_000", "1000000", ""),
        ("0x1f", "0x1f", ""),
        ("0xdead_beef", "0xdeadbeef", ""),
        ("0x1fu8", "0x1f", "u8"),
        ("1.5", "1.5", ""),
        ("1e-6", "1e-6", ""),
        ("1.25E+3f64", "1.25E+3", "f64"),
        ("0x1p-100", "0x1p-100", ""),
        ("0x1.8p3f32", "0x1.8p3", "f32"),
        ("3bf16", "3", "bf16"),
        ("1b1", "1", "b1"),
        ("0t", "0", "t"),
        ("2f8_e4m3", "2", "f8_e4m3"),
    ],
)
def test_numbers(written, text, suffix):
    tokens, found = _tokens(written)
    assert not found
    assert (tokens.kinds, tokens.numbers[0]) == (["number", "end"], (text, suffix))


def test_ranges_of_numbers():
    assert _kinds("0..5") == ["number", "..", "number", "end"]
    assert _kinds("0x10..0x1f") == ["number", "..", "number", "end"]
    assert _kinds("1.5..n") == ["number", "..", "name", "end"]
    assert _kinds("0x1e+5") == ["number", "+", "number", "end"]
    assert _kinds("0x1e-5") == ["number", "-", "number", "end"]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("1.", "put a digit after the point: `1.0`"),
        ("1.f32", "put a digit after the point: `1.0`"),
        ("007", "write `7`"),
        ("1__0", "an underscore stands between two digits"),
        ("1_", "an underscore stands between two digits"),
        ("0x", "hexadecimal digits are 0 to 9 and a to f"),
        ("0xg1", "hexadecimal digits are 0 to 9 and a to f"),
        ("0x1.8", "a hexadecimal number with a point needs an exponent: `0x1.8p0`"),
        ("1.5.2", "a number has one point"),
        ("1" * 2000, "a number has at most 1000 characters"),
    ],
)
def test_malformed_numbers(written, hint):
    (error,) = _tokens(written)[1]
    assert (error.code, error.span.start, error.span.end) == ("E103", 0, len(written))
    assert error.hint == hint


@pytest.mark.parametrize("written", ["1e", "12q", "0b101", "0o7", "1e999999", "3f33", "1q4_0", "5n"])
def test_unknown_suffixes(written):
    assert _codes(written) == ["E104"]


def test_suffix_hint_names_the_nearest():
    assert "`f32`" in _tokens("3f33")[1][0].hint


@pytest.mark.parametrize(
    ("sign", "hint"),
    [("&&", "`and`"), ("||", "`or`"), (";", "line break"), ("#", "`//`"), ("$", "remove"), ("é", "letters a to z")],
)
def test_unknown_characters(sign, hint):
    (error,) = _tokens(f"a {sign} b")[1]
    assert error.code == "E102"
    assert (error.span.start, error.span.end) == (2, 2 + len(sign))
    assert hint in error.hint


def test_a_run_of_unknown_characters_is_one_error():
    assert _codes("a $$$ééé b") == ["E102"]


def test_unprintable_characters_are_named_by_number():
    assert "U+0000" in _tokens("a \0 b")[1][0].message


def test_byte_order_mark_is_skipped():
    assert _kinds("\ufeffa") == ["name", "end"]
    assert _codes("a\ufeff") == ["E102"]


def test_unclosed_brackets_point_at_the_bracket_and_say_why():
    (error,) = _tokens("fn f() {\n  g(a, [b\n  let c = 1\n}")[1]
    assert (error.code, error.span.start, error.expected) == ("E107", 16, "`]`")
    assert "`let` cannot stand inside" in error.notes[0][1]
    assert _codes("fn f() {\n a\nfn g() { b }") == ["E107"]
    assert _codes("f(a") == ["E107"]


def test_unopened_and_mismatched_brackets():
    assert _codes("a)") == ["E108"]
    assert _codes("}") == ["E108"]
    (error,) = _tokens("f(a]")[1]
    assert (error.code, error.expected, error.notes[0][0].start) == ("E108", "`)`", 1)


def test_one_bracket_error_a_line():
    assert _codes("a) b) c)\nd)") == ["E108", "E108"]


def test_deep_nesting_is_one_error():
    assert _codes("(" * 10_000 + ")" * 10_000) == ["E111"]
    assert _codes("(" * MAX_NESTING + ")" * MAX_NESTING) == []


def test_errors_are_counted_out():
    codes = _codes("$ a " * 5000)
    assert len(codes) == MAX_ERRORS + 1
    assert codes[-1] == "E118"


def test_docs_stand_before_their_token():
    tokens, found = _tokens("// no\n/// one\n///two\n//// no\nfn")
    assert not found
    assert list(tokens.docs) == [0]
    assert len(tokens.docs[0]) == 2


def test_doc_amid_a_line_is_an_error():
    assert _codes("a /// b") == ["E112"]


def test_decode():
    assert decode("a.btn", "é".encode()) == (Source("a.btn", "é"), [])
    source, (error,) = decode("a.btn", b"\xc3\xa9a\xff")
    assert (error.code, error.span.start, error.found) == ("E101", 2, "byte 0xff at offset 3")
    assert source.text == "éa\N{REPLACEMENT CHARACTER}"
    _, (error,) = decode("a.btn", b"ab\xc3")
    assert error.span.start == 2


def _check_balance(tokens):
    stack = []
    for kind, depth in zip(tokens.kinds, tokens.depths, strict=True):
        if kind in (")", "]", "}"):
            assert stack.pop() == kind
        assert depth == len(stack)
        if kind in ("(", "[", "{"):
            stack.append({"(": ")", "[": "]", "{": "}"}[kind])
    assert not stack
    assert tokens.kinds[-1] == "end"


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*"()[]{}a,1\n", "fn", "let"]), max_size=60), st.sampled_from(["", " "]))
def test_brackets_are_balanced_whatever_comes(parts, gap):
    tokens, _ = _tokens(gap.join(parts))
    _check_balance(tokens)
    assert tokens.starts == sorted(tokens.starts)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_any_text_becomes_balanced_tokens(text):
    _check_balance(_tokens(text)[0])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_become_tokens(data):
    source, errors = decode("case.btn", data)
    assert len(errors) <= 1
    reports = Reports(source)
    _check_balance(tokenize(source, reports))
