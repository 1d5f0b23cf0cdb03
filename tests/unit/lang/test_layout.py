"""The layout of text in a width."""

from bittern.lang.layout import LINE_END, NOTHING, SPACE, bracketed, group, is_forced, lay_out, nest


def test_what_fits_stays_on_its_line():
    list_ = bracketed("f(", ["aa", "bb"], ")")
    assert lay_out(list_, 9) == "f(aa, bb)"
    assert lay_out(list_, 8) == "f(\n  aa,\n  bb,\n)"
    assert lay_out(bracketed("f(", [], ")"), 1) == "f()"


def test_what_follows_counts_up_to_the_next_break():
    list_ = bracketed("f(", ["aa"], ")")
    assert lay_out([list_, ";"], 7) == "f(aa);"
    assert lay_out([list_, "; "], 5).startswith("f(\n")
    assert lay_out([list_, LINE_END, "long text"], 5) == "f(aa)\nlong text"
    assert lay_out([list_, bracketed("[", ["bbbb"], "]")], 7) == "f(aa)[\n  bbbb,\n]"


def test_a_forced_break_breaks_the_groups_around_it():
    block = ["{", nest(LINE_END, "a"), LINE_END, "}"]
    assert is_forced(block)
    assert not is_forced(group("a", SPACE))
    assert lay_out(bracketed("f(", [block, "b"], ")"), 80) == "f(\n  {\n    a\n  },\n  b,\n)"


def test_groups_break_one_by_one():
    inner = group("[", nest(NOTHING, "a,", SPACE, "b"), NOTHING, "]")
    assert lay_out(group("(", nest(NOTHING, inner, ",", SPACE, inner), NOTHING, ")"), 10) == "(\n  [a, b],\n  [a, b]\n)"
