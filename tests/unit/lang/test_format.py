"""The formatter: what it prints parses to the same tree, and formatting again changes nothing."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from syntax_trees import SAMPLES, expression, expressions, files, parsed, shape

import bittern
from bittern.lang import format as formatter
from bittern.lang.format import WIDTH, format_expression, format_file, format_type


def _check_law(tree):
    text = format_file(tree)
    again = parsed(text)
    assert shape(again.declarations) == shape(tree.declarations)
    assert format_file(again) == text


_RANDOM = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


@_RANDOM
@given(files())
def test_random_files_come_back(tree):
    _check_law(tree)


@_RANDOM
@given(expressions())
def test_random_expressions_come_back(tree):
    text = format_expression(tree)
    again = expression(text)
    assert shape(again) == shape(tree)
    assert format_expression(again) == text


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_come_back(name):
    _check_law(parsed(SAMPLES[name]))


def test_the_library_comes_back():
    files = sorted(Path(bittern.__file__).parent.rglob("*.btn"))
    for path in files:
        _check_law(parsed(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", SAMPLES)
def test_lines_keep_to_the_width(name):
    assert max(map(len, format_file(parsed(SAMPLES[name])).split("\n"))) <= WIDTH


def test_canonical_samples_stay_as_they_are():
    for name in ("rms_norm", "sha256", "dense_sign"):
        assert format_file(parsed(SAMPLES[name])) == SAMPLES[name].lstrip("\n")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a))+(b*c)", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)-(d)", "a - (b - c) - d"),
        ("(a<b)==(c<d)", "(a < b) == (c < d)"),
        ("(a and b) or (c or d)", "a and b or (c or d)"),
        ("(a&b)^(a&c)", "a & b ^ a & c"),
        ("-(-a)", "--a"),
        ("&(&a)", "& &a"),
        ("not(a==b)", "not (a == b)"),
        ("not(a)==b", "not a == b"),
        ("(-a)[0]", "(-a)[0]"),
        ("-a[0]", "-a[0]"),
        ("(1).x", "(1).x"),
        ("a[ 0 .. n/2 , i ]", "a[0..n / 2, i]"),
        ("round[ f16 ](k,)", "round[f16](k)"),
        ("f(x:1,y : 2)", "f(x: 1, y: 2)"),
        ("[ ]", "[]"),
        ("( a , b , )", "(a, b)"),
        ("[f(x) for x,_ in xs,0..n]", "[f(x) for x, _ in xs, 0..n]"),
        ("if a {\n b\n} else { c }", "if a { b } else { c }"),
        ("(if a { b } else { c }).d", "(if a { b } else { c }).d"),
        ("1_000u32", "1000u32"),
        ("while a limit 9 with b,c=1 { (b,c) }", "while a limit 9 with b, c = 1 { (b, c) }"),
    ],
)
def test_expressions(text, canonical):
    assert format_expression(expression(text)) == canonical


def test_types():
    text = "(own (f32[n, 32] @device, u8), &list[Layer[d], k])"
    type_ = parsed(f"fn f() -> {text} {{ 1 }}").declarations[0].result
    assert format_type(type_) == text


def test_long_brackets_break_at_the_outermost_that_must():
    names = ", ".join(f"argument_number_{i}" for i in range(8))
    text = f"const x: f32 = some_function(first_of_all, other_function({names}), last)\n"
    inner = f"  other_function({names}),\n"
    lines = format_file(parsed(text)).split("\n")
    assert len(inner) > WIDTH
    assert lines[:3] == ["const x: f32 = some_function(", "  first_of_all,", "  other_function("]
    assert lines[-4:] == ["  ),", "  last,", ")", ""]


def test_long_sums_break_after_operators():
    text = "const x: f32 = " + " + ".join(f"summand_number_{i}" for i in range(8)) + "\n"
    lines = format_file(parsed(text)).rstrip("\n").split("\n")
    assert lines[0] == "const x: f32 = summand_number_0 +"
    assert lines[1] == "  summand_number_1 +"


def test_blocks_of_one_choice_break_together():
    long = "a_rather_long_name * another_rather_long_name + still_another_name"
    text = f"const x: f32 = if a {{ {long} }} else if b {{ 1 }} else {{ {long} }}\n"
    assert format_file(parsed(text)) == (
        f"const x: f32 = if a {{\n  {long}\n}} else if b {{\n  1\n}} else {{\n  {long}\n}}\n"
    )


def test_blank_lines_and_docs():
    text = "use a\nuse b\n/// One.\n///\n/// two\nconst c: u8 = 1\nconst d: u8 = 2\n"
    assert format_file(parsed(text)) == ("use a\nuse b\n\n/// One.\n///\n/// two\nconst c: u8 = 1\n\nconst d: u8 = 2\n")
    assert format_file(parsed("")) == ""


def test_large_tables_take_bounded_time():
    text = "const x: u32[4_999] = [" + ", ".join(f"-{i} + 1" for i in range(1, 5_000)) + "]\n"
    assert format_file(parsed(text)).count("\n") == 5_001


_FAULTS = [
    ("_operand", lambda expr, least: formatter._expression(expr), "const x: f32 = (a + b) * c"),
    ("_base", lambda expr: formatter._expression(expr), "const x: f32 = (a + b)[0]"),
    ("_block", lambda block: "{ " + "a" + " }", "const x: f32 = if a { b } else { c }"),
    ("_doc", lambda doc: [], "/// Kept.\nconst x: f32 = 1.0"),
]


@pytest.mark.parametrize(("name", "fault", "text"), _FAULTS)
def test_a_fault_is_noticed(monkeypatch, name, fault, text):
    tree = parsed(text)
    _check_law(tree)
    monkeypatch.setattr(formatter, name, fault)
    with pytest.raises(AssertionError):
        _check_law(tree)
