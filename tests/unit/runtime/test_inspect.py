"""Inspection: every kind of file, what is told of it, and what broken files are refused with."""

import json
from dataclasses import replace
from pathlib import Path

import family_files
import pytest
import tiny_models

from bittern.base.errors import BitternError
from bittern.base.json_text import json_text
from bittern.graph.difference import nodes_of
from bittern.graph.facts import TEN, facts_of
from bittern.graph.keg import write_keg
from bittern.graph.lookup import find_node
from bittern.graph.node import Function, Labels, functions_of, walk
from bittern.lang.check import check_paths
from bittern.runtime.artifacts import write_program
from bittern.runtime.inspect import Inspection, inspect_path
from bittern.runtime.inspect_difference import difference_record, difference_text
from bittern.runtime.inspect_text import inspection_text
from bittern.runtime.model import load

PROGRAM = """
/// The mean of the squares.
fn mean_square[n](x: f32[n]) -> f32 {
  let squares = x * x
  sum(squares) / f32(n)
}

fn both[n](x: f32[n], codes: i8[n], y: i8[n]) -> (f32, i32) {
  (mean_square(x), dot(codes, y))
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A small program."""
    path = tmp_path / "small.btn"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny Llama of three layers."""
    return tiny_models.save(tmp_path, tiny_models.llama(shape=tiny_models.Shape(layers=3)))


def test_a_program(program: Path) -> None:
    found = inspect_path(program)
    assert found.kind == "program" and list(found.roots) == ["mean_square", "both"]
    record = found.as_json()
    assert json.loads(json_text(record)) == record
    function = record["functions"][record["roots"]["both"]]
    assert function["dims"] == ["n"] and function["type"] == "(f32, i32)"
    assert function["cost"]["macs"] == "n", "one dot of n values"
    (dot,) = [node for node in function["nodes"] if node["op"] == "dot"]
    assert dot["cost"] == {"macs": "n", "operations": "0", "read": "2 * n", "written": "4"}
    assert (dot["line"], dot["bits"], dot["family"]) == ("", "32", "reduce")
    inner = record["functions"][record["roots"]["mean_square"]]
    (squares,) = [node for node in inner["nodes"] if node["label"] == "squares"]
    assert squares["line"].endswith("small.btn:4") and squares["op"] == "mul"
    assert squares["cost"]["operations"] == "n" and squares["cost"]["read"] == "8 * n"
    text = inspection_text(record, full=True)
    assert "squares = mul(0, 0)  f32[n]" in text and "call small.mean_square" in text


def test_a_keg_tells_the_same_graph(program: Path, tmp_path: Path) -> None:
    found = inspect_path(program)
    path = tmp_path / "small.keg"
    write_keg(path, found.roots)
    again = inspect_path(path)
    assert again.kind == "keg" and again.about["size"] == path.stat().st_size
    assert {name: f.id for name, f in again.roots.items()} == {name: f.id for name, f in found.roots.items()}
    assert again.as_json()["functions"] == found.as_json()["functions"]
    path.rename(tmp_path / "no_suffix")
    assert inspect_path(tmp_path / "no_suffix").kind == "keg"


def test_what_a_bring_up_wrote(model: Path, tmp_path: Path) -> None:
    with load(model) as loaded:
        write_program(loaded.bound, tmp_path)
        ids = [loaded.bound.forward.id, loaded.bound.head.id]
    for name in ("llama.keg", "llama.btn"):
        roots = inspect_path(tmp_path / name).roots
        assert [roots["forward"].id, roots["head"].id] == ids, name
    (tmp_path / "llama.keg").unlink()
    roots = inspect_path(tmp_path / "llama.btn").roots
    assert [roots["forward"].id, roots["head"].id] == ids, "the text alone has the identity"
    assert check_paths([str(tmp_path / "llama.btn")]) == []


def test_a_checkpoint_is_folded_by_layer(model: Path) -> None:
    found = inspect_path(model)
    assert found.kind == "gguf" and found.refusal is None and list(found.roots) == ["forward", "head"]
    record = found.as_json()
    forward = record["functions"][record["roots"]["forward"]]
    layers = {node["layer"] for node in forward["nodes"]}
    assert layers == {"", "layer.0", "layer.1", "layer.2"}
    calls = [node for node in forward["nodes"] if node["op"] == "call" and node["layer"]]
    assert [node["layer"] for node in calls] == ["layer.0", "layer.1", "layer.2"]
    weights = [node for node in forward["nodes"] if node["label"] == "layer.2.q"]
    assert [(node["layer"], node["element"], node["bits"]) for node in weights] == [("layer.2", "q4_1", "5")]
    text = inspection_text(record)
    assert "layer.0..1  (2 x 16 nodes)" in text and "3 x blk.N.attn_q.weight" in text
    assert "layer.2.q" in inspection_text(record, full=True)
    assert sum(row.size for row in found.tensors) < found.about["size"]


def test_the_macs_of_a_model_are_those_of_its_products(model: Path) -> None:
    shape = tiny_models.Shape()
    head = inspect_path(model).as_json()
    cost = head["functions"][head["roots"]["head"]]["cost"]
    assert cost["macs"] == f"{shape.vocab * shape.d} * t", "a row of the vocabulary is a dot of d values"


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(BitternError, match=r"R120.*none of the kinds"):
        inspect_path(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(BitternError, match="F1"):
        inspect_path(tmp_path)


@pytest.mark.parametrize("name", ["qwen3moe", "gpt2", "bert"])
def test_a_folder_of_a_family(name: str) -> None:
    found = inspect_path(family_files.GOLDEN / name)
    assert found.kind == "huggingface" and found.refusal is None
    assert set(found.roots) >= ({"encode", "mean"} if name == "bert" else {"forward", "head"})
    assert any(row.steps for row in found.tensors) or name == "bert", "what is derived says how"
    record = found.as_json()
    (first, *_) = record["functions"].values()
    assert len({node["layer"] for node in first["nodes"]}) > 2
    assert "a Hugging Face folder" in inspection_text(record)


def test_a_checkpoint_of_an_unknown_family_has_tensors_and_a_reason(tmp_path: Path) -> None:
    path = tiny_models.save(tmp_path, tiny_models.llama(keys={"general.architecture": "lama"}))
    found = inspect_path(path)
    assert not found.roots and found.tensors and found.refusal is not None
    assert f"no graph: error[{found.refusal.code}]" in inspection_text(found.as_json())


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("x.txt", b"hello", "R120"),
        ("x.keg", b"hello, this is no keg", "F202"),
        ("x.gguf", b"hello, this is no GGUF", "F110"),
        ("x.btn", b"fn f( -> f32 { 1.0 }\n", "E212"),
        ("missing.btn", None, "R121"),
        ("missing.gguf", None, "F101"),
        ("missing", None, "R120"),
    ],
)
def test_what_is_broken_is_refused(tmp_path: Path, name: str, content: bytes | None, error: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BitternError) as raised:
        inspect_path(tmp_path / name)
    assert raised.value.code == error and raised.value.remedy


def test_a_broken_keg(program: Path, tmp_path: Path) -> None:
    path = tmp_path / "small.keg"
    write_keg(path, inspect_path(program).roots)
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    with pytest.raises(BitternError, match="F206"):
        inspect_path(path)


@pytest.mark.req("K011")
def test_every_node_has_ten_facts(model: Path, program: Path) -> None:
    for found in (inspect_path(model), inspect_path(program)):
        for root in found.roots.values():
            for node in nodes_of(root):
                told = facts_of(node)
                assert tuple(told) == TEN and len(told) == 10
                assert all(told.values()), (node, told)


def test_the_facts_of_a_weight_and_of_a_call(model: Path) -> None:
    roots = inspect_path(model).roots
    function, node = find_node(roots, "layer.1.down")
    told = facts_of(node, function.labels.dims)
    assert told["output types"] == "q4_1" and told["shapes"] == "none -> [64, 96]"
    assert told["packing and layout"] == "q4_1: blocks of 32 values in 20 bytes, row-major"
    (call, *_) = [n for n in walk(function.result) if n.kind == "call" and "block" in str(n["function"])]
    told = facts_of(call, function.labels.dims)
    assert told["operation"].startswith("call llama.block") and told["algorithm family"] == "llama"
    assert "owned" in told["ownership"], "the cache is used up"


def test_nodes_are_found_by_label_function_and_id(model: Path) -> None:
    roots = inspect_path(model).roots
    function, node = find_node(roots, "layer.0.q")
    assert find_node(roots, node.id.hex()[:16]) == (function, node)
    assert find_node(roots, "forward/layer.0.q")[1] is node
    assert find_node(roots, "norms.rms_norm/scale")[0].labels.name == "norms.rms_norm"
    with pytest.raises(BitternError, match=r"R122.*Did you mean `layer\.0\.q`"):
        find_node(roots, "layr.0.q")
    with pytest.raises(BitternError, match="R123.*means .* nodes"):
        find_node(roots, "q")
    with pytest.raises(BitternError, match="R122"):
        find_node({}, "layer.0.q")


def test_two_files_and_where_they_part(program: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "small.btn"
    other.parent.mkdir()
    other.write_text(PROGRAM.replace("x * x", "x + x"))
    left, right = inspect_path(program), inspect_path(other)
    same = difference_record(left, inspect_path(program))
    assert all(found["equal"] for found in same["roots"].values())
    record = difference_record(left, right)
    found = record["roots"]["mean_square"]
    assert not found["equal"] and found["what"] == "mul of 2 inputs and add of 2 inputs"
    assert [row["op"] for row in found["only_left"]] == ["mul", "sum", "div"]
    text = difference_text(record)
    assert "squares = mul  f32[n]" in text and "squares = add  f32[n]" in text
    alone = difference_record(left, replace(right, roots={"new": right.roots["both"]}))
    assert alone["only_left"] == ["mean_square", "both"] and alone["only_right"] == ["new"]


def test_tensors_that_differ_are_named(tmp_path: Path) -> None:
    left = inspect_path(tiny_models.save(tmp_path, tiny_models.llama("q4_1"), "a.gguf"))
    right = inspect_path(tiny_models.save(tmp_path, tiny_models.llama("q8_0"), "b.gguf"))
    record = difference_record(left, right)
    assert record["tensors"]["blk.0.attn_q.weight"] == ["q4_1[128, 64]", "q8_0[128, 64]"]
    assert "blk.0.attn_norm.weight" not in record["tensors"]
    assert "tensors: " in difference_text(record)


def test_no_label_steers_the_terminal(program: Path) -> None:
    found = inspect_path(program)
    root = found.roots["mean_square"]
    labels = Labels("\x1b[31mred", params=("\x1b]0;x\x07",), nodes={root.result.id: "a\nb"})
    evil = Inspection("x\x1b[2J", "keg", {"note \x1b[1m": "\x1b[1m"}, {"\x1b[5m": replace(root, labels=labels)})
    for full in (False, True):
        assert "\x1b" not in inspection_text(evil.as_json(), full)


def test_functions_are_all_there_once(model: Path) -> None:
    found = inspect_path(model)
    ids: set[bytes] = set()

    def visit(function: Function) -> None:
        if function.id not in ids:
            ids.add(function.id)
            for node in walk(function.result):
                for inner in functions_of(node):
                    visit(inner)
            if function.ideal is not None:
                visit(function.ideal)

    for root in found.roots.values():
        visit(root)
    assert {key.hex() for key in ids} == set(found.as_json()["functions"])


def test_notebooks_show_functions_models_and_tensors(model: Path) -> None:
    found = inspect_path(model)
    head = found.roots["head"]._repr_html_()
    assert head.startswith("<table>") and "function llama.head" in head and found.roots["head"].id.hex() in head
    assert "&lt;b&gt;" in replace(found.roots["head"], labels=Labels("<b>"))._repr_html_()
    with load(model) as loaded:
        shown = loaded._repr_html_()
        assert "family" in shown and "llama" in shown and str(model) in shown
        tensor = loaded.bound.checkpoint.info("blk.0.attn_q.weight")._repr_html_()
    assert "tensor blk.0.attn_q.weight" in tensor and "q4_1" in tensor and "[128, 64]" in tensor
