"""Printed programs elaborate to the functions that they were printed from, id for id."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pytest
from graph_builder import random_function, random_program
from hypothesis import given, settings

import bittern.lang.stored  # noqa: F401  (declares `stored` and `blob`)
from bittern.base.errors import BitternError
from bittern.graph.difference import difference, nodes_of
from bittern.graph.node import (
    Blob,
    Function,
    Labels,
    Node,
    Parameter,
    call,
    const,
    fold,
    make_tuple,
    map_over,
    node,
    param,
)
from bittern.lang.elaborate import instance_for
from bittern.lang.format import format_file
from bittern.lang.library import Library, mark
from bittern.lang.parser import parse
from bittern.lang.print_graph import print_function, print_functions
from bittern.lang.source import Source
from bittern.types.dims import dim, symbol
from bittern.types.elements import BIT, ELEMENTS, F32, F64, I32, U32, Element
from bittern.types.values import Tensor, Tuple, tensor

STD = Path(__file__).resolve().parents[3] / "bittern" / "std"
N, M = symbol(0), symbol(1)


@dataclass(slots=True, eq=False)
class Stocked(Library):
    """A library that has the bytes of constants at hand."""

    blobs: Mapping[bytes, Blob] = field(default_factory=dict)


def blobs_of(functions: Mapping[str, Function]) -> dict[bytes, Blob]:
    found = [v for f in functions.values() for n in nodes_of(f) for _, v in n.attributes]
    return {v.digest: v for v in found if isinstance(v, Blob)}


def read_back(text: str, names: list[str], blobs: Mapping[bytes, Blob]) -> dict[str, Function]:
    """Elaborate a text; return its functions of these names."""
    library = Stocked((), blobs=blobs)
    module = library.add("printed", [Source("printed.btn", text)])
    library.raise_errors()
    return {name: instance_for(module, module.functions[name][0], {}) for name in names}


def check(functions: Mapping[str, Function]) -> str:
    """Print functions, read the text back and compare; return the text."""
    text = print_functions(functions)
    read = read_back(text, list(functions), blobs_of(functions))
    for name, function in functions.items():
        assert read[name].id == function.id, difference(function, read[name])
    file, problems = parse(Source("printed.btn", text))
    assert not problems and format_file(file) == text, "the text is in canonical form"
    return text


# --- all that the elaborator makes


@pytest.mark.parametrize("module_name", sorted({"products"} | {p.stem for p in STD.glob("*.btn")}))
def test_the_library_prints_and_reads_back(module_name: str) -> None:
    library = Library.standard()
    module = library.module(module_name)
    assert module is not None
    whole = "u32" if module_name == "bitwise" else "i32"
    samples = {"float": "f32", "format": "q4_1"}
    functions = {}
    for name, members in module.functions.items():
        for place, declaration in enumerate(members):
            overload = mark(declaration) if len(members) > 1 else None
            for any_, int_ in (("f32", whole), ("i8", whole), ("i8", "i8")):  # dots of codes take no others
                kinds = {**samples, "type": any_, "int": int_}
                elements = {g.name.name: kinds[g.kind] for g in declaration.generics if g.kind in kinds}
                with suppress(BitternError):
                    made = library.function(f"{module_name}.{name}", elements=elements, overload=overload)
                    functions[f"{name}_{place}_"] = made
                    break
            else:
                pytest.fail(f"no instance of {name}")
    assert functions
    check(functions)


@pytest.mark.parametrize(("left", "right"), [("b1", "i8"), ("i8", "u8"), ("t", "bit"), ("u2", "i4")])
def test_a_dot_of_two_elements_reads_back(left: str, right: str) -> None:
    made = Library.standard().function("dense.dense", elements={"a": left, "e": right})
    assert f"w: &{left}[m, n], x: &{right}[n]) -> i32[m]" in check({"dense": made})


@pytest.mark.parametrize("cache", ["f16", "int8"])
def test_a_bound_model_prints_and_reads_back(smollm2: Path, cache: str) -> None:
    from bittern.front.bind import bind_checkpoint
    from bittern.front.gguf import open_gguf

    with open_gguf(smollm2) as checkpoint:
        bound = bind_checkpoint(checkpoint, Library.standard(), cache)
        text = check({"forward": bound.forward, "head": bound.head})
    assert "layer_29_down: q4_1[576, 1536] = blob[q4_1](" in text
    assert text.count("quantise[576](") == 4, "one for q, k and v, one for o, one for gate and up, one in the head"
    assert len(text) < 100_000


@pytest.mark.req("K007")
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.integers(0, 5))
def test_random_programs_print_and_read_back(seed: int, names: int) -> None:
    check({"main": random_program(seed, 14, names=names)})


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32))
def test_names_do_not_matter_for_what_is_read(seed: int) -> None:
    texts = {names: print_functions({"main": random_program(seed, 10, names=names)}) for names in (0, 1, 2)}
    ids = {read_back(text, ["main"], {})["main"].id for text in texts.values()}
    assert len(ids) == 1


# --- single forms


def function(result: Node, *types: Tensor, dims: int = 2, **other: object) -> Function:
    return Function(dims, tuple(Parameter(t) for t in types), result, **other)  # type: ignore[arg-type]


S, V, W = tensor(F32), tensor(F32, N), tensor(F32, N, 32)
s, v, w, i, u, b, q = (
    param(k, t) for k, t in enumerate((S, V, W, tensor(U32), tensor(U32, N), tensor(BIT, N), tensor(I32, N)))
)
TYPES = (S, V, W, tensor(U32), tensor(U32, N), tensor(BIT, N), tensor(I32, N))


def spread(x: Node) -> Node:
    assert isinstance(x.type, Tensor)
    return node("broadcast", [x], {"shape": (N,)}, Tensor(x.type.element, (N,)))


def f32(value: float) -> Node:
    return const(value, F32)


def size(value: object) -> Node:
    return node("size", [], {"value": value}, tensor(U32))  # type: ignore[dict-item]


FORMS: dict[str, tuple[Node, str]] = {
    "spread right": (node("mul", [v, spread(f32(2.0))], {}, V), "p1 * 2.0"),
    "spread left": (node("sub", [spread(s), v], {}, V), "p0 - p1"),
    "spread both": (node("sub", [spread(s), spread(f32(1.0))], {}, V), "broadcast(p0, [n0]) - broadcast(1.0f32, [n0])"),
    "negative literal": (node("sub", [v, spread(f32(-2.0))], {}, V), "p1 - -2.0"),
    "minus zero": (node("add", [s, f32(-0.0)], {}, S), "p0 + -0.0"),
    "small number": (node("lt", [s, f32(2.0**-100)], {}, tensor(BIT)), "p0 < 0x1p-100"),
    "shortest number": (node("add", [s, f32(0.1)], {}, S), "p0 + 0.1"),
    "double": (node("add", [const(0.1, F64), const(1e300, F64)], {}, tensor(F64)), "0.1f64 + 1e+300f64"),
    "sign of a literal": (node("neg", [f32(1.0)], {}, S), "let v = 1.0f32\n  -v"),
    "sign of a sign": (node("neg", [node("neg", [s], {}, S)], {}, S), "--p0"),
    "shift": (node("shr", [q, spread(const(3, U32))], {}, tensor(I32, N)), "p6 >> 3"),
    "rotation": (node("rotr", [u, spread(const(7, U32))], {}, tensor(U32, N)), "rotr(p4, 7u32)"),
    "bits joined": (node("and", [b, node("not", [b], {}, b.type)], {}, b.type), "p5 and ~p5"),
    "words joined": (node("and", [q, node("not", [q], {}, q.type)], {}, q.type), "p6 & ~p6"),
    "nested": (node("sub", [s, node("sub", [s, s], {}, S)], {}, S), "p0 - (p0 - p0)"),
    "chained": (node("sub", [node("sub", [s, s], {}, S), s], {}, S), "p0 - p0 - p0"),
    "choice": (node("select", [b, v, spread(f32(0.0))], {}, V), "select(p5, p1, 0.0f32)"),
    "choice of numbers": (
        node("select", [spread(const(1, BIT)), spread(f32(1.0)), v], {}, V),
        "select(broadcast(bit(1), [n0]), broadcast(1.0f32, [n0]), p1)",
    ),
    "size": (node("add", [i, size(N)], {}, tensor(U32)), "p3 + n0"),
    "sizes": (node("add", [size(N), size(M)], {}, tensor(U32)), "size_of[n0]() + size_of[n1]()"),
    "sum of sizes": (size(N + M * 2), "n0 + 2 * n1"),
    "size and number": (node("mul", [size(N), const(2, U32)], {}, tensor(U32)), "size_of[n0]() * 2u32"),
    "known size": (size(dim(5)), "size_of[5]()"),
    "difference of sizes": (size(M - N), "n1 - n0"),
    "conversion": (node("convert", [i], {"to": F32}, S), "f32(p3)"),
    "conversion of a number": (node("convert", [const(3, U32)], {"to": F32}, S), "f32(3u32)"),
    "index": (node("take", [v, i], {}, S), "p1[p3]"),
    "index by number": (node("take", [w, const(2, U32)], {}, tensor(F32, 32)), "p2[2]"),
    "two indices": (node("take", [w, i, const(31, U32)], {}, S), "p2[p3, 31]"),
    "index of an expression": (node("take", [node("neg", [v], {}, V), i], {}, S), "take(-p1, p3)"),
    "slice": (node("slice", [v], {"axis": 0, "low": dim(1), "high": N, "stride": 1}, tensor(F32, N - 1)), "p1[1..n0]"),
    "slice of columns": (
        node("slice", [w], {"axis": 1, "low": dim(0), "high": dim(32), "stride": 2}, tensor(F32, N, 16)),
        "slice(p2, 0, 32, stride: 2, axis: 1)",
    ),
    "stack": (node("stack", [s, s], {"axis": 0}, tensor(F32, 2)), "[p0, p0]"),
    "stack of columns": (node("stack", [v, v], {"axis": 1}, tensor(F32, N, 2)), "stack(p1, p1, axis: 1)"),
    "pad": (
        node("pad", [v, f32(0.0)], {"axis": 0, "before": dim(1), "after": M}, tensor(F32, N + M + 1)),
        "pad(p1, 1, n1, 0.0f32)",
    ),
    "dot": (node("dot", [v, v], {"to": F32}, S), "dot(p1, p1)"),
    "permute": (node("permute", [w], {"axes": (1, 0)}, tensor(F32, 32, N)), "permute(p2, [1, 0])"),
    "update": (node("update", [v, i, s], {}, V), "update(p1, p3, p0)"),
    "move": (node("move", [v], {"space": "device"}, Tensor(F32, (N,), "device")), "move(p1, device)"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_has_its_text(name: str) -> None:
    made, words = FORMS[name]
    assert words in check({"main": function(made, *TYPES)})


def test_an_index_outside_gets_a_name() -> None:
    x = param(0, tensor(F32, 4))
    made = node("take", [x, const(9, U32)], {}, S)
    assert "let v = 9u32\n  p0[v]" in check({"main": function(made, tensor(F32, 4))})


def test_facts_give_dimensions_their_short_names() -> None:
    long = N // 32 * 32
    x = param(0, tensor(F32, long, M))
    made = node("reshape", [x], {"shape": (N // 32, dim(32), M)}, tensor(F32, N // 32, 32, M))
    labels = Labels("m.f", ("width", "count"), ("x",))
    text = check({"main": function(made, tensor(F32, long, M), facts=((N, dim(32)),), labels=labels)})
    assert "fn main[width, count](x: f32[width, count])" in text
    assert "where width % 32 == 0" in text and "reshape(x, [width / 32, 32, count])" in text


def test_modes_spaces_and_names_are_kept() -> None:
    x = param(0, Tensor(F32, (N,), "device"))
    parameters = (Parameter(x.type, "own"), Parameter(tensor(F32, M), "&"))
    made = Function(2, parameters, x, labels=Labels("", ("sum", "let"), ("cache.k", "9 x")))
    text = check({"main": made})
    assert "fn main[sum2, let2](cache_k: own f32[sum2] @device, v9_x: &f32[let2])" in text


@pytest.mark.parametrize(
    ("value", "element", "words"),
    [
        ([1, 2, 3], ELEMENTS["u8"], "u8[3] = [1, 2, 3]"),
        ([-1, 2], I32, "i32[2] = [-1, 2]"),
        ([[1], [2]], I32, "stored[i32](0x0100000002000000, [2, 1])"),
        ([1.0, np.nan], F32, "stored[f32](0x0000803f0000c07f, [2])"),
        (np.inf, F32, "stored[f32](0x0000807f, [])"),
        (1.5, ELEMENTS["f16"], "stored[f16](0x003e, [])"),
        ([1, 0], BIT, "stored[bit](0x0100, [2])"),
        (-1, ELEMENTS["b1"], "b1(-1)"),
        (0, ELEMENTS["t"], "t(0)"),
        (np.zeros((2, 1, 18), np.uint8), ELEMENTS["q4_0"], f"stored[q4_0](0x{'00' * 36}, [2, 32])"),
        (np.zeros((0, 3)), F32, "stored[f32](0, [0, 3])"),
        (np.arange(99.0), F32, "blob[f32](0x"),
        (0xFF800000, U32, "0xff800000u32"),
        (-128, ELEMENTS["i8"], "-128i8"),
    ],
)
def test_constants_are_written_by_value_bytes_or_digest(value: object, element: Element, words: str) -> None:
    text = check({"main": function(const(value, element))})  # type: ignore[arg-type]
    assert words in re.sub(r",?\n\)", ")", re.sub(r"(\(|,)\n  ", lambda m: m[1] + " " * (m[1] == ","), text))


def test_effects_are_written_in_their_order() -> None:
    library = Library(())
    text = """
fn later(x: u64) -> (u64, u64) ! clock {
  let first = now()
  let last = for i in 0..3 with t = first { t + now() * x }
  (last, if x == 0 { now() } else { x })
}

fn main(x: u64) -> u64 ! clock {
  let (a, _) = later(x)
  a + now()
}
"""
    module = library.add("m", [Source("m.btn", text)])
    library.raise_errors()
    made = instance_for(module, module.functions["main"][0], {})
    assert "! clock" in check({"main": made})


def test_bodies_that_need_a_let_become_inline_functions() -> None:
    a = param(0, S)
    twice = node("add", [a, a], {}, S)
    body = function(node("mul", [twice, twice], {}, S), S)
    text = check({"main": function(map_over(body, N, [param(0, V)], []), V)})
    assert "inline fn row_of(p0: f32) -> f32 {\n  let v = p0 + p0\n  v * v\n}" in text
    assert "[row_of(x) for x in p0]" in text


def test_loops_with_computed_bounds() -> None:
    count, start = param(0, tensor(U32)), param(1, S)
    step = function(node("add", [param(1, S), param(1, S)], {}, S), tensor(U32), S)
    looped = [fold(step, low, high, [start], []) for low, high in (
        (const(0, U32), count), (size(dim(0)), size(N)), (size(dim(0)), count), (size(N), const(9, U32)),
    )]  # fmt: skip
    text = check({"main": function(make_tuple(looped), tensor(U32), S)})
    for words in ("0u32..p0", "0..n0", "size_of[0]()..p0", "size_of[n0]()..9u32"):
        assert f" in {words} with " in text


def test_equal_functions_share_their_text_and_names_do_not_collide() -> None:
    x = param(0, S)
    inner = [function(node(k, [x], {}, S), S, dims=0, labels=Labels("m.f[f32]")) for k in ("neg", "abs", "neg")]
    calls = [call(f, [x]) for f in inner]
    text = check({"f": function(make_tuple(calls), S, dims=0), "g": function(calls[0], S, dims=0)})
    assert text.count("\nfn ") + text.startswith("fn ") == 4
    assert "/// m.f[f32]\nfn f2(" in text


def test_a_function_alone_is_named_by_its_label() -> None:
    made = function(param(0, S), S, dims=0, labels=Labels("module.thing"))
    assert "fn thing(" in print_function(made)
    assert "fn main(" in print_function(function(param(0, S), S, dims=0))


# --- what the language cannot say, and faults that must be caught


def unprintable() -> dict[str, Node]:
    x, y = param(0, V), param(1, V)
    unused = Function(2, (Parameter(S), Parameter(V)), param(0, S))
    swapped = Function(2, (Parameter(V), Parameter(V)), node("sub", [param(1, V), param(0, V)], {}, V))
    closed = Function(2, (Parameter(S), Parameter(S)), node("add", [param(0, S), param(1, S)], {}, S))
    pair = make_tuple([x, y])
    return {
        "an unused capture": map_over(unused, N, [x], [y]),
        "captures in another order": node("if", [const(1, BIT), x, y], {"then": swapped, "otherwise": swapped}, V),
        "a constant as capture": map_over(closed, N, [x], [f32(1.0)]),
        "a tuple in the middle": node("item", [node("tuple", [pair, x], {}, Tuple((pair.type, V)))], {"index": 1}, V),
        "a tuple in a tuple": make_tuple([pair, x]),
        "a tuple of one": make_tuple([x]),
        "a missing parameter": param(7, V),
        "a missing dimension": node("fill", [f32(0.0)], {"shape": (symbol(5),)}, tensor(F32, symbol(5))),
    }


@pytest.mark.parametrize("name", unprintable())
def test_what_no_program_says_is_refused(name: str) -> None:
    with pytest.raises(BitternError) as caught:
        print_functions({"main": function(unprintable()[name], V, V)})
    assert caught.value.code == "E120" and ".keg" in caught.value.remedy


def test_a_graph_of_another_form_is_refused_or_read_back() -> None:
    outcomes = set()
    for seed in range(40):
        try:
            text = print_functions({"main": random_function(seed, 8, 1)})
        except BitternError as fault:
            assert fault.code == "E120"
            outcomes.add("refused")
        else:
            outcomes.add("printed" if "fn main" in text else "")
    assert "refused" in outcomes


@pytest.mark.parametrize(("old", "new"), [("p0 - p1", "p1 - p0"), ("127.0", "128.0"), ("max(", "min(")])
def test_a_wrong_text_is_caught(old: str, new: str) -> None:
    """Planted faults: swapped operands, another number, another op."""
    x, y = param(0, S), param(1, S)
    made = node("max", [node("sub", [x, y], {}, S), node("div", [x, f32(127.0)], {}, S)], {}, S)
    text = check({"main": function(made, S, S)})
    assert old in text
    read = read_back(text.replace(old, new), ["main"], {})["main"]
    assert read.id != function(made, S, S).id


# --- stored constants


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("stored[f32](0x0000803f, [2])", "E330"),
        ("stored[f32](0x0000803, [1])", "E330"),
        ("stored[f32](7, [1])", "E330"),
        ("stored[u4](0x10, [1])", "E330"),
        ("stored[q4_0](0x00, [1, 1])", "E330"),
        ("stored(0x00, [1])", "E318"),
        ("blob[f32](0x00, [1])", "E330"),
    ],
)
def test_stored_constants_fit_their_types(expression: str, code: str) -> None:
    library = Library(())
    module = library.add("m", [Source("m.btn", f"fn f() -> f32 {{\n  let x = {expression}\n  1.0\n}}\n")])
    with pytest.raises(BitternError, match=code):
        instance_for(module, module.functions["f"][0], {})


def test_bytes_that_are_not_at_hand() -> None:
    """A program that names bytes by their SHA-256 has its identity without them; only running it needs them."""
    from bittern.graph.evaluate import evaluate
    from bittern.graph.node import blob

    data = np.array([7.0, 2.5], np.float32).tobytes()
    text = f"fn f() -> f32 {{\n  sum(blob[f32](0x{blob(data).digest.hex()}, [2]))\n}}\n"
    without, having = Library(()), Library((), blobs={blob(data).digest: blob(data)})
    absent, present = (
        instance_for(module, module.functions["f"][0], {})
        for module in (library.add("m", [Source("m.btn", text)]) for library in (without, having))
    )
    assert absent.id == present.id
    assert evaluate(present, []) == 9.5
    lone = text.replace(blob(data).digest.hex(), "ab" * 32)
    module = without.add("lone", [Source("lone.btn", lone)])
    with pytest.raises(BitternError) as caught:
        evaluate(instance_for(module, module.functions["f"][0], {}), [])
    assert caught.value.code == "R134" and "abab" in caught.value.what
