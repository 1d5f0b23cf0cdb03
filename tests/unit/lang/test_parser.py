"""The parser: declarations, statements, documentation, recovery; no text makes it raise or hang."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syntax_trees import SAMPLES, parsed, shape

from bittern.lang import syntax
from bittern.lang.parser import parse
from bittern.lang.source import Source


def _errors(text):
    return parse(Source("case.btn", text))[1]


def _found(text):
    """Return code and text at the place of each error."""
    return [(error.code, text[error.span.start : error.span.end]) for error in _errors(text)]


def _body(*lines):
    return parsed("fn f() -> f32 {\n" + "\n".join(lines) + "\n}\n").declarations[0].body


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_parse(name):
    assert parsed(SAMPLES[name]).declarations


def test_every_part_of_a_function():
    use, path, const, store = parsed(SAMPLES["everything"]).declarations
    assert [name.name for name in use.path] == ["norms"]
    assert [name.name for name in path.path] == ["products", "linear"]
    assert [item.text for item in const.value.items] == ["1", "2000", "0x1f"]
    assert store.doc == "First line.\n\n  indented line"
    assert store.inline
    assert [(each.name.name, each.kind) for each in store.generics][:2] == [("e", "float"), ("k", "int")]
    assert [each.kind for each in store.generics][2:] == ["type", "format", ""]
    assert [each.name.name for each in store.parameters] == ["x", "y"]
    assert (store.parameters[0].type.mode, store.parameters[0].type.space.name) == ("&", "device")
    assert store.parameters[1].type.items[0].mode == "own"
    assert [name.name for name in store.effects] == ["fs", "net"]
    assert len(store.where) == 2
    assert store.ideal is None
    let, assign, choose = store.body.statements
    assert shape(let.pattern)[0] == "TuplePattern"
    assert let.type.items[2].arguments[0].text == "2"
    assert let.value.arguments[1].label.name == "axis"
    assert shape(assign.place) == ("Field", ("Name", "a"), ("Name", "b"))
    assert (assign.value.text, assign.value.suffix) == ("1.0", "f64")
    assert isinstance(choose.value.otherwise, syntax.If)
    loop = store.body.result
    assert (loop.limit.text, loop.carries[0].start, len(loop.carries[1].start.items)) == ("10", None, 2)


def test_type_arguments_are_expressions():
    struct = parsed("struct Model[d] { layer: list[Layer[d, 2 * d], layers], acts: many[Act[d], t] }").declarations[0]
    layer = struct.fields[0].type
    assert (layer.name.name, type(layer.arguments[0]).__name__) == ("list", "Index")
    assert shape(layer.arguments[1]) == ("Name", "layers")


def test_one_item_in_parentheses_is_grouping():
    body = _body("let (a): (f32) = (b)", "let [c]: own (f32) = [d]", "c")
    assert shape(body.statements[0]) == (
        "Let",
        ("NamePattern", ("Name", "a")),
        ("NamedType", "", ("Name", "f32"), (), None),
        ("Name", "b"),
    )
    assert shape(body.statements[1])[2][1] == "own"
    assert _found("fn f(x: own (&f32)) -> f32 { x }") == [("E105", "own (&f32)")]


def test_labels_need_a_bare_name():
    assert _found("const x: f32 = f((a): 1)") == [("E105", ":")]


def test_empty_lists_and_trailing_commas():
    assert parsed("fn f[a,](b: f32[1, 2,], c: (f32, u8,),) -> () { let (d, e,) = g(b, c,)\n [d, e,] }")
    assert parsed("struct S { }\nfn f() -> () { () }")


def test_heads_may_be_broken_and_braces_may_follow_a_line_break():
    text = "fn f[n](\n  x: f32[n],\n)\n  -> f32[n]\n  ! fs\n  where n > 0,\n    n < 4\n{\n  x\n}\nideal {\n  x\n}\n"
    assert parsed(text).declarations[0].ideal is not None


def test_docs_go_to_the_declaration_below():
    text = "/// One.\n///   two\n\n/// three  \nconst a: u8 = 1\nconst b: u8 = 2\n/// S.\ninline fn c() -> u8 { 1 }"
    assert [each.doc for each in parsed(text).declarations] == ["One.\n  two\nthree", "", "S."]


@pytest.mark.parametrize("text", ["/// no\nuse a", "const a: u8 = 1\n/// no", "fn f() -> u8 {\n/// no\n1 }", "/// no"])
def test_stray_docs(text):
    assert _found(text) == [("E112", "/// no")]


@pytest.mark.parametrize(
    ("line", "code", "at"),
    [
        ("let x = 1 let y = 2", "E105", "let"),
        ("let x 1", "E105", "1"),
        ("let x = g(a b)", "E105", "b"),
        ("let x = [a b]", "E105", "b"),
        ("let x = a +\n  let y = 2", "E105", "let"),
        ("let limit = 1", "E110", "limit"),
        ("let x = a.for", "E110", "for"),
        ("let x = a < b < c", "E109", "<"),
        ("let x = a == b + 1 != c", "E109", "!="),
        ("let x = if a b else { c }", "E105", "b"),
        ("let x = if a { b }", "E115", "\n"),
        ("let x = if a { b } else c", "E106", "c"),
        ("let x = for i in 0..3 { i }", "E105", "{"),
        ("let x = while a with b { b }", "E105", "with"),
        ("a + b", "E114", "a + b"),
        ("f(x) = 1", "E117", "f(x)"),
        ("x[0].y = 1", "E117", "x[0].y"),
        ("x += 1", "E105", "="),
        ("let x = Point { a: 1 }", "E105", "{"),
        ("let x = 1; ", "E102", ";"),
        ("let x = own a", "E105", "own"),
        ("let x = f(!a)", "E105", "!"),
        ("return x", "E105", "x"),
    ],
)
def test_errors_in_a_line_do_not_spread(line, code, at):
    text = f"fn f() -> u8 {{\n  {line}\n  let z = 1 ? 2\n  z\n}}\nfn g() -> u8 {{ 1 +* 2 }}"
    assert _found(text) == [(code, at), ("E102", "?"), ("E105", "*")]


@pytest.mark.parametrize(
    ("head", "code", "at"),
    [
        ("fn f(x f32, y f32) -> u8", "E105", "f32"),
        ("fn f(x: f32) u8", "E105", "u8"),
        ("fn f(x: f32 y: f32) -> u8", "E105", "y"),
        ("fn f[n: dim](x: f32) -> u8", "E116", "dim"),
        ("fn f[n(x: f32) -> u8", "E107", "["),
        ("fn f(x: f32 -> u8", "E107", "("),
        ("fn while() -> u8", "E110", "while"),
        ("fn f -> u8", "E105", "->"),
        ("fn f() -> u8 ! 3", "E105", "3"),
        ("fn f() -> u8 where", "E105", "{"),
    ],
)
def test_errors_in_a_head_do_not_hide_those_in_the_body(head, code, at):
    found = _found(f"{head} {{\n  let a = 1 +* 2\n  a\n}}\nconst b: u8 = 1 +* 2")
    assert found[0] == (code, at)
    assert found[-1] == ("E105", "*")
    assert len(found) == 3 or (code == "E107" and len(found) == 2) or head.endswith("where")


def test_errors_in_a_loop_head_do_not_hide_those_in_its_block():
    text = "fn f() -> u8 {\n  for i in with a = 1 {\n    let b = 1 +* 2\n    b\n  }\n}\n"
    assert _found(text) == [("E105", "with"), ("E105", "*")]


def test_else_on_its_own_line_is_one_error():
    text = "fn f() -> u8 {\n  if a {\n    b\n  }\n  else {\n    1 +* 2\n  }\n}\n"
    assert [code for code, _ in _found(text)] == ["E115", "E105"]


def test_brace_on_its_own_line_is_one_error():
    assert [code for code, _ in _found("fn f() -> u8 {\n  if a\n  {\n    b\n  } else { c }\n}\n")] == ["E106"]


def test_blocks_need_a_value():
    assert _found("fn f() -> u8 { }") == [("E113", "}")]
    assert _found("fn f() -> u8 {\n  let a = 1\n}") == [("E113", "}")]
    assert _found("fn f() -> u8 {\n  let a = for i in 0..3 with b = 1 { b = 2 }\n  a\n}") == [("E113", "}")]


def test_missing_commas_between_fields_are_one_error():
    text = "struct S {\n  a: f32\n  b: f32\n  c: f32,\n  d f32,\n  e: f32\n}\n"
    assert _found(text) == [("E105", "\n"), ("E105", "f32")]


@pytest.mark.parametrize("word", ["let x = 1", "def f(x):", "import numpy", "x", "}", "pub fn g() -> u8 { 1 }"])
def test_what_is_no_declaration(word):
    found = _found(f"{word}\nfn f() -> u8 {{ 1 +* 2 }}")
    assert len(found) == 2
    assert found[0][0] in ("E105", "E108")


def test_missing_brace_is_one_error():
    assert _found("fn f() -> u8 {\n  for i in 0..3 with a = 1 {\n    a\n  }\nfn g() -> u8 { 1 }\n") == [("E107", "{")]


def test_stray_brace_is_one_error():
    assert [code for code, _ in _found("fn f() -> u8 {\n  a\n}\n}\nfn g() -> u8 { 1 }\n")] == ["E108"]


def test_tree_holds_the_sound_declarations():
    tree, errors = parse(Source("case.btn", "const a: u8 = 1\nconst b: u8 = +\nconst c: u8 = 3 $\nconst d: u8 = 4\n"))
    assert [each.name.name for each in tree.declarations] == ["a", "d"]
    assert [error.code for error in errors] == ["E105", "E102"]


def test_errors_come_in_order_of_their_places():
    errors = _errors("const b: u8 = +\nconst c: u8 = $\nconst d: u8 = 1 2\n")
    assert [error.span.start for error in errors] == sorted(error.span.start for error in errors)


_SOUP = (
    "fn let use const struct if else for each while limit in with own & ( ) [ ] { } , : = -> .. . + - * a b 1 1.0 $ @ !"
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*_SOUP.split(" "), "\n", "/// x\n"]), max_size=80).map(" ".join))
def test_token_soup(text):
    tree, errors = parse(Source("case.btn", text))
    assert errors or text.strip() == "" or tree.declarations


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=100))
def test_any_text(text):
    parse(Source("case.btn", text))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_broken_samples_give_few_errors(name, data):
    """One character less or more: nothing raises, and one slip does not become a list."""
    text = SAMPLES[name]
    at = data.draw(st.integers(0, len(text) - 1))
    put = data.draw(st.sampled_from(["", *"()[]{},:=.+-\n a1"]))
    assert len(_errors(text[:at] + put + text[at + (not put) :])) <= 6


_DEEP = {
    "open": "fn f() -> u8 { " + "(" * 10_000,
    "balanced": "fn f() -> u8 { " + "(" * 10_000 + ")" * 10_000 + " }",
    "braces": "fn f() -> u8 { " + "if a { " * 5_000,
    "ifs": "fn f() -> u8 { " + "if " * 10_000,
    "elses": "fn f() -> u8 { " + "if a { b } else " * 5_000 + "{ c } }",
    "prefixes": "const x: u8 = " + "-" * 20_000 + "1",
    "sum": "const x: u8 = " + "1 + " * 20_000 + "1",
    "fields": "const x: u8 = a" + ".a" * 20_000,
    "types": "const x: " + "(" * 5_000,
    "patterns": "fn f() -> u8 { let " + "[" * 5_000,
    "fors": "fn f() -> u8 { " + "for x in " * 5_000,
    "maps": "fn f() -> u8 { " + "[x for x in " * 5_000,
}
_LONG = {
    "unclosed": "fn f() -> u8 { " + "a[b(c{d(\nlet x = " * 3_000,
    "lets": "fn f() -> u8 {(" + "let " * 20_000,
    "docs": "/// x\n" * 20_000,
    "numbers": "1." * 20_000,
    "digits": "1" * 200_000,
    "breaks": "\n" * 200_000,
    "quotes": 'x "' * 10_000,
    "commas": "fn f(" + "a b, " * 10_000,
    "closers": "({" * 30 + ")" * 50_000,
    "good": SAMPLES["block"] * 20,
}


@pytest.mark.parametrize("name", [*_DEEP, *_LONG])
def test_hard_texts_take_bounded_time(name):
    text = {**_DEEP, **_LONG}[name]
    begin = time.perf_counter()
    errors = _errors(text)
    assert time.perf_counter() - begin < 5
    assert len(errors) <= 101
    if name in _DEEP:
        assert "E111" in [error.code for error in errors]


def test_deepest_texts_leave_room_on_the_stack():
    """The worst mixture of brackets and control expressions within the bounds does not reach Python's own."""
    seed = 7
    pick = random.Random(seed)
    openers = ["if ", "(", "[", "f(", "a[", "for x in ", "while ", "if a { ", "(a, (", "-(", "a or b and c == d | ("]
    for _ in range(300):
        kinds = pick.sample(openers, pick.randrange(1, 4))
        _errors("fn f() -> u8 { " + "".join(pick.choice(kinds) for _ in range(400)))
