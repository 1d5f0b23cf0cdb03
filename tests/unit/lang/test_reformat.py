"""The formatter of source text: the tree, the function ids and the comments stay; formatting again changes nothing."""

import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syntax_trees import SAMPLES, files, parsed, shape

import bittern
from bittern.lang import breaking, lines, reformat, spacing
from bittern.lang.format import format_file
from bittern.lang.library import Library
from bittern.lang.pieces import OPENERS, comments_of, pieces_of
from bittern.lang.source import Source

SHIPPED = sorted(Path(bittern.__file__).parent.rglob("*.btn"))
NAMES = ("attention", "quantisers", "sha256", "experts", "elementary", "sort")
_RANDOM = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))


def formatted(text):
    """Return the formatted text of a program without syntax errors, after checking the laws."""
    source = Source("case.btn", text)
    made, faults = reformat.reformat(source)
    assert not faults, faults[0].message
    assert shape(parsed(made).declarations) == shape(parsed(text).declarations)
    assert comments_of(pieces_of(Source("case.btn", made))) == comments_of(pieces_of(source))
    assert reformat.reformat(Source("case.btn", made)) == (made, [])
    return made


def mangled(text, seed):
    """Return a program with other blanks, line breaks and more comments, but of the same tree."""
    chance = random.Random(seed)
    parts, inside = [], []
    for count, piece in enumerate(pieces_of(Source("case.btn", text))):
        gaps = ["\n", "\n\n\n", "\n   \t", " // a\n", "\n//b\n\n\n// c\n"] if piece.begins else [" ", "  ", "\t"]
        if not piece.begins and inside and inside[-1] != "{":
            gaps += ["\n", "\n\n", f" //{count}\n", f"\n// own {count} \n\n"]
        is_fresh = not parts or piece.above
        parts += [f"\n{line}" for line in piece.above] + ["\n" if is_fresh else ""]
        parts += ["" if is_fresh else chance.choice(gaps), piece.text]
        parts.append(f" {piece.after}\n" if piece.after else "")
        if piece.kind in OPENERS:
            inside.append(piece.kind)
        elif piece.partner >= 0:
            inside.pop()
    return "".join(parts)


@_RANDOM
@given(st.sampled_from(NAMES), st.integers(0, 1 << 30))
def test_mangled_programs_keep_tree_and_comments(name, seed):
    path = next(path for path in SHIPPED if path.stem == name)
    text = path.read_text("utf-8")
    wild = mangled(text, seed)
    assert shape(parsed(wild).declarations) == shape(parsed(text).declarations), "the test itself keeps the tree"
    formatted(wild)


@_RANDOM
@given(files())
def test_random_programs_keep_their_tree(tree):
    formatted(format_file(tree))


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_keep_their_tree_and_the_width(name):
    squeezed = re.sub(r"(?<=[(\[,])\s*\n\s*", "", re.sub(r" +//[^\n]*", "", SAMPLES[name]))
    made = formatted(squeezed)
    assert max(map(len, made.split("\n"))) <= breaking.WIDTH


def test_function_ids_stay():
    text = next(path for path in SHIPPED if path.stem == "sha256").read_text("utf-8")
    ids = []
    for each in (text, mangled(text, 3), formatted(mangled(text, 3))):
        library = Library.standard()
        library.add("digest", [Source("digest.btn", each)])
        ids.append(library.function("digest.sha256").id)
    assert len(set(ids)) == 1


def body(text):
    """Return the formatted body of a function with this text as body, without its indent."""
    made = formatted(f"fn f(x: f32) -> f32 {{\n{text}\n}}\n").split("\n")
    assert made[0] == "fn f(x: f32) -> f32 {" and made[-2:] == ["}", ""]
    return "\n".join(line[2:] for line in made[1:-2])


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a+b*-c", "a + b * -c"),
        ("(((a)))", "(((a)))"),
        ("1_000u32", "1_000u32"),
        ("- a\n", "-a"),
        ("let y=x\n-y", "let y = x\n-y"),
        ("& (&a)", "&(&a)"),
        ("& & a", "& &a"),
        ("not ( a==~b )", "not (a == ~b)"),
        ("a [ 0 .. n/2 , i ] . b", "a[0..n / 2, i].b"),
        ("x[-1..-y]", "x[-1..-y]"),
        ("f( x:1,y : 2, )", "f(x: 1, y: 2)"),
        ("[ f (x) for x , _ in xs , 0 .. n ]", "[f(x) for x, _ in xs, 0..n]"),
        ("let [a,(b,c)]=v\na", "let [a, (b, c)] = v\na"),
        ("if a{b}else{c}", "if a { b } else { c }"),
        ("if a{\nb}else{c}", "if a {\n  b\n} else { c }"),
        ("for i in 0..n with y{\n\n\nlet a = y\n\n\na\n\n}", "for i in 0..n with y {\n  let a = y\n\n  a\n}"),
        ("while a limit 9 with b,c=1{(b,c)}", "while a limit 9 with b, c = 1 { (b, c) }"),
        ("f(\na,\nb)", "f(\n  a,\n  b)"),
        ("f(a,\nb\n)", "f(a,\n  b)"),
        ("f(\na,\nb\n)", "f(\n  a,\n  b,\n)"),
        ("f(\na +\nb,\nc\n)", "f(\n  a +\n    b,\n  c,\n)"),
        ("(\na\n)", "(\n  a\n)"),
        ("[f(x)\nfor x in xs]", "[f(x)\n  for x in xs]"),
        ("[\nf(x)\nfor x in xs\n]", "[\n  f(x)\n  for x in xs\n]"),
        ("a +\nb", "a +\n  b"),
        ("for i in xs,\nys with z{\nz + i\n}", "for i in xs,\n    ys with z {\n  z + i\n}"),
        ("x.k[ 0 ]=y\nx", "x.k[0] = y\nx"),
        ("let p: own f32[n]@device=x\np", "let p: own f32[n] @device = x\np"),
    ],
)
def test_statements(text, wanted):
    assert body(text) == wanted


def test_comments_stand_where_they_belong():
    text = "let a = x//one\nlet bb = x * x    // two\n//own\n\n\n//// line\nf(a,// first\nbb // last\n)\n// end"
    column = " " * (reformat.COMMENT_COLUMN - 4)
    assert body(text).split("\n") == [
        f"{'let a = x':{len(column) + 2}}// one",
        f"{'let bb = x * x':{len(column) + 2}}// two",
        "// own",
        "",
        "//// line",
        f"{'f(a,':{len(column) + 2}}// first",
        f"{'  bb':{len(column) + 2}}// last",
        "  )",
        "// end",
    ]


def test_comments_behind_longer_code_share_a_column():
    long = "let a = " + " + ".join(["x"] * 20)
    made = formatted(f"fn f(x: f32) -> f32 {{\n  {long} // one\n  let b = x // two\n  x // three\n}}\n").split("\n")
    assert len({line.index("//") for line in made if "//" in line}) == 1
    assert made[1] == f"  {long}   // one"


def test_blank_lines_stand_around_functions_and_structs():
    text = "\n\n// about\nuse a\nuse b\nconst c: u8 = 1\nconst d: u8 = 2\n"
    text += "///doc\nfn f() -> u8 {c}\nstruct S {a:u8}\n// end\n\n"
    assert formatted(text) == (
        "// about\nuse a\nuse b\n\nconst c: u8 = 1\nconst d: u8 = 2\n\n/// doc\nfn f() -> u8 {\n  c\n}\n\n"
        "struct S { a: u8 }\n// end\n"
    )
    assert formatted("") == ""
    assert formatted("// only") == "// only\n"
    assert formatted("\ufeffuse a\r\nuse b\r\n") == "use a\nuse b\n"


def test_heads_that_go_on_stand_apart_from_the_body():
    text = "fn f[n](x: f32[n],\ny: f32[n])\n->f32[n]\nwhere n%2==0,\nn < 9{\nx\n}ideal{x}\n"
    assert formatted(text) == (
        "fn f[n](x: f32[n],\n    y: f32[n])\n    -> f32[n]\n    where n % 2 == 0,\n    n < 9 {\n"
        "  x\n} ideal {\n  x\n}\n"
    )
    text = "fn f(\nx: f32,\ny: f32\n) -> f32 { x }\n\nstruct S {\na: f32, b: u8,\nc: u8\n}\n"
    assert formatted(text) == (
        "fn f(\n  x: f32,\n  y: f32,\n) -> f32 {\n  x\n}\n\nstruct S {\n  a: f32, b: u8,\n  c: u8,\n}\n"
    )


def test_long_lines_are_broken():
    names = [f"argument_number_{i}" for i in range(9)]
    assert body(f"f({', '.join(names)})").split("\n") == ["f(", *(f"  {name}," for name in names), ")"]
    sums = body(" + ".join(names)).split("\n")
    assert [line.count("argument") for line in sums] == [5, 4] and sums[0].endswith(" +")
    walk = body(f"let a = [x * {' * '.join(names[:4])} for x in some_long_name_of_rows, {names[5]}, {names[6]}]\na")
    assert [line.split()[0] for line in walk.split("\n")] == ["let", "for", "a"]
    table = formatted(f"const t: u32[40] = [{', '.join(str(9**9 + i) for i in range(40))}]\n").split("\n")
    assert table[0] == "const t: u32[40] = [" and len(table) == 7 and max(map(len, table)) <= breaking.WIDTH
    head = formatted(f"fn f({', '.join(f'{name}: f32' for name in names)}) -> f32 {{ x }}\n").split("\n")
    assert head[:2] == ["fn f(", "  argument_number_0: f32,"]


def test_a_syntax_error_leaves_the_text():
    text = "fn  f( {\n"
    made, faults = reformat.reformat(Source("case.btn", text))
    assert made == text and {fault.code for fault in faults} >= {"E107"}


def test_large_tables_take_bounded_time():
    text = "const x: u32[4_999] = [" + ", ".join(f"-{i} + 1" for i in range(1, 5_000)) + "]\n"
    assert reformat.reformat(Source("case.btn", text))[0].count("\n") == 5_001


_FAULTS = [
    (spacing, "is_prefix", lambda piece, before: False, "let y = x\n-y"),
    (lines, "_needs_comma", lambda pieces, closer: False, "f(\na,\nb\n)"),
    (reformat, "_settle", lambda pieces: None, "f(a, b // c\n)"),
    (reformat, "COMMENT_GAP", -9, "let aaa = " + "x + " * 20 + "x // one\naaa"),
]


@pytest.mark.parametrize(("module", "name", "fault", "text"), _FAULTS)
def test_a_fault_is_noticed(monkeypatch, module, name, fault, text):
    right = body(text)
    monkeypatch.setattr(module, name, fault)
    try:
        assert body(text) != right
    except AssertionError as error:
        assert "keeps" in str(error) or error.args
