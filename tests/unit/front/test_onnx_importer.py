"""What an import makes of a whole file: any batch, folded shapes, integers where the file has codes, all refusals."""

from typing import Any

import numpy as np
import pytest
from onnx_files import LIBRARY, imported, model, node, reference, run

from bittern.base.errors import BitternError
from bittern.front.onnx.importer import import_graph
from bittern.front.onnx.reading import graph_of
from bittern.front.onnx.table import rows
from bittern.graph.node import Function, Node, functions_of, walk
from bittern.passes.network import integer_only

Array = np.ndarray[Any, Any]
GENERAL = "qonnx.custom_op.general"
CHANCE = np.random.default_rng(7)


def refusal(data: bytes) -> BitternError:
    """Return the error with which a file is refused."""
    with pytest.raises(BitternError) as raised:
        imported(data)
    return raised.value


def called(result: Node) -> set[str]:
    """Return the names of the library functions that a node depends on."""
    found: set[str] = set()
    for each in walk(result):
        for function in functions_of(each):
            if each.kind == "call":
                found.add(function.name.partition("[")[0])
            else:
                found |= called(function.result)
    return found


def quant(x: str, y: str, signed: int = 1, mode: str = "ROUND", bits: str = "bits") -> Any:
    """Return a quantiser of scale 1."""
    attributes = {"signed": signed, "narrow": 0, "rounding_mode": mode, "domain": GENERAL}
    return node("Quant", [x, "one", "zero", bits], [y], **attributes)


SCALARS = {"one": np.float32(1), "zero": np.float32(0), "bits": np.float32(4)}


# --- the batch


@pytest.mark.parametrize("batch", [1, "n", None, 3])
def test_a_file_for_any_batch_is_the_program_of_one_sample(batch: Any) -> None:
    w = CHANCE.normal(size=(6, 2)).astype(np.float32)
    nodes = [node("Flatten", ["x"], ["f"]), node("MatMul", ["f", "w"], ["y"])]
    network = imported(model(nodes, {"x": ("f32", (batch, 2, 3))}, {"y": "f32"}, {"w": w}))
    assert (network.inputs[0].shape, network.outputs[0].shape) == ((2, 3), (2,))
    x = CHANCE.normal(size=(5, 2, 3)).astype(np.float32)
    whole = run(network, x)[0]
    assert np.array_equal(whole, np.concatenate([run(network, each[None])[0] for each in x]))


def test_shapes_that_are_computed_are_folded() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Gather", ["s", "first"], ["n"]),
        node("Unsqueeze", ["n", "axes"], ["m"]),
        node("Concat", ["m", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"first": np.int64(0), "axes": np.array([0]), "rest": np.array([-1])}
    network = imported(model(nodes, {"x": ("f32", (1, 2, 3))}, {"y": "f32"}, constants))
    assert network.outputs[0].shape == (6,)
    assert {each.kind for each in walk(network.function.result)} == {"param", "reshape"}


def test_the_batch_size_is_not_computed_with() -> None:
    nodes = [
        node("Shape", ["x"], ["s"]),
        node("Cast", ["s"], ["c"], to=1),
        node("Gather", ["c", "first"], ["n"]),
        node("Mul", ["x", "n"], ["y"]),
    ]
    error = refusal(model(nodes, {"x": ("f32", (1, 3))}, {"y": "f32"}, {"first": np.int64(0)}))
    assert (error.code, "depends on the batch size" in error.what) == ("N220", True)


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([node("Transpose", ["x"], ["y"], perm=[1, 0])], "moves the batch axis"),
        ([node("Reshape", ["x", "shape"], ["y"])], "moves the batch axis"),
        ([node("Concat", ["x", "x"], ["y"], axis=0)], "along the batch axis"),
        ([node("ReduceMean", ["x"], ["y"])], "reduces the batch axis"),
        ([node("Softmax", ["x"], ["y"], axis=0)], "along the batch axis"),
        ([node("Slice", ["x", "two", "three"], ["y"])], "cuts the batch axis"),
        ([node("MatMul", ["c", "x"], ["y"])], "meets the batch axis"),
        ([node("Add", ["x", "each"], ["y"])], "differs from sample to sample"),
        ([node("Gather", ["x", "two"], ["y"])], "along the batch axis"),
        ([node("Pad", ["x", "pads"], ["y"])], "adds samples"),
    ],
    ids=lambda value: value[0].op_type if isinstance(value, list) else "",
)
def test_what_mixes_samples_is_refused(nodes: list[Any], words: str) -> None:
    constants = {"shape": [4, 3], "two": [2], "three": [3], "c": np.ones((2, 4), np.float32), "pads": [1, 0, 0, 0]}
    constants["each"] = np.arange(4, dtype=np.float32)[:, None]
    constants["shape"] = [12]
    error = refusal(model(nodes, {"x": ("f32", (4, 3))}, {"y": "f32"}, constants))
    assert (error.code, words in error.what) == ("N220", True), error


# --- refusals


@pytest.mark.req("K069")
def test_every_unsupported_operation_is_listed_at_once() -> None:
    nodes = [
        node("LSTM", ["x", "w", "w"], ["a"], name="first"),
        node("Relu", ["x"], ["b"]),
        node("Einsum", ["b"], ["c"], name="second", equation="ij->ij"),
        node("Sigmoyd", ["b"], ["d"], name="third"),
        node("Relu", ["d"], ["e"], name="depends"),
        node("Conv", ["b", "w"], ["f"], name="fourth", colour=3),
        node("Frob", ["b"], ["g"], name="fifth", domain="my.own"),
        node("Softmax", ["b"], ["y"], axis=7, name="sixth"),
    ]
    error = refusal(model(nodes, {"x": ("f32", (1, 3))}, {"y": "f32"}, {"w": np.ones((3, 3), np.float32)}, 13))
    assert error.code == "N220"
    lines = error.what.splitlines()
    assert lines[0] == "6 operations of `test` cannot be imported:"
    listed = [line.split(":")[0].strip() for line in lines[1:]]
    assert sorted(listed) == ["fifth", "first", "fourth", "second", "sixth", "third"]
    assert "first: LSTM, version 13" in error.what
    assert "MatMul and Transpose" in error.what
    assert "Did you mean `Sigmoid`" in error.what
    assert "unknown attribute `colour`" in error.what
    assert "my.own.Frob" in error.what


def test_names_of_a_file_do_nothing_to_the_terminal() -> None:
    nodes = [node("Frob\x1b[31m", ["x"], ["y"], name="a\x1b[2Jb\n", domain="my\tdomain")]
    error = refusal(model(nodes, {"x": ("f32", (1, 3))}, {"y": "f32"}))
    assert "\x1b" not in error.what and "\t" not in error.what and error.what.count("\n") == 2
    assert "a\\x1b[2Jb\\n" in error.what


@pytest.mark.parametrize("opset", [6, 40])
def test_versions_that_are_not_read_are_refused(opset: int) -> None:
    assert refusal(model([node("Relu", ["x"], ["y"])], {"x": ("f32", (1, 3))}, {"y": "f32"}, {}, opset)).code == "N223"


@pytest.mark.parametrize(
    ("shape", "words"),
    [((1, "h", 3), "size of axis 1 open"), ((), "no shape"), ((1, 3, 1 << 40), "the shape"), ((1, 3, 0), "open")],
)
def test_an_input_without_a_shape_is_refused(shape: Any, words: str) -> None:
    data = model([node("Relu", ["x"], ["y"])], {"x": ("f32", shape)}, {"y": "f32"})
    error = refusal(data)
    assert (error.code, words in error.what) == ("N221", True), error


def test_a_shape_can_be_given() -> None:
    data = model([node("Relu", ["x"], ["y"])], {"x": ("f32", (1, "h", 3))}, {"y": "f32"})
    network = import_graph(graph_of(data, "test"), LIBRARY, {"x": (1, 5, 3)})
    assert network.inputs[0].shape == (5, 3)


def test_an_output_that_is_a_constant_is_refused() -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Add", ["c", "c"], ["z"])]
    data = model(nodes, {"x": ("f32", (1, 3))}, {"y": "f32", "z": "f32"}, {"c": np.ones(3, np.float32)})
    assert refusal(data).code == "N222"


def test_two_inputs_have_one_batch() -> None:
    data = model([node("Add", ["x", "z"], ["y"])], {"x": ("f32", (1, 3)), "z": ("f32", (2, 3))}, {"y": "f32"})
    assert refusal(data).code == "N221"


def test_the_table_is_whole() -> None:
    for (domain, name), forms in rows().items():
        for form in forms:
            assert (form.domain, form.name) == (domain, name)
            assert 0 <= form.least <= form.most
            assert form.doc and not form.doc.endswith(".")


# --- integers


def naive(x: Array, w: Array, pads: tuple[int, ...], strides: tuple[int, int], group: int) -> Array:
    """Return a convolution of whole numbers by six loops. x: [b, c, h, w], w: [m, c / group, p, q]."""
    wide = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    m, c, p, q = w.shape
    rows, columns = (wide.shape[2] - p) // strides[0] + 1, (wide.shape[3] - q) // strides[1] + 1
    made = np.zeros((len(x), m, rows, columns), np.int64)
    for k in range(m):
        first = k // (m // group) * c
        for i in range(rows):
            for j in range(columns):
                top, left = i * strides[0], j * strides[1]
                patch = wide[:, first : first + c, top : top + p, left : left + q]
                made[:, k, i, j] = (patch * w[k]).sum((1, 2, 3))
    return made


@pytest.mark.parametrize("channels", [1, 31, 33, 65])
@pytest.mark.parametrize("kind", ["b1", "u4", "i3"])
@pytest.mark.parametrize(("pads", "strides"), [((0, 0, 0, 0), (1, 1)), ((1, 0, 2, 1), (2, 1))])
def test_convolutions_of_codes_are_exact(channels: int, kind: str, pads: Any, strides: Any) -> None:
    x = CHANCE.integers(0 if kind == "u4" else -4, 16 if kind == "u4" else 4, (2, channels, 5, 4))
    x = np.where(x >= 0, 1, -1) if kind == "b1" else x
    w = np.where(CHANCE.integers(0, 2, (3, channels, 3, 2)) > 0, 1, -1)
    first = {
        "b1": node("BipolarQuant", ["x", "one"], ["q"], domain=GENERAL),
        "u4": quant("x", "q", 0),
        "i3": quant("x", "q", 1, bits="three"),
    }[kind]
    nodes = [first, node("Conv", ["q", "w"], ["y"], pads=list(pads), strides=list(strides))]
    constants = {**SCALARS, "three": np.float32(3), "w": w.astype(np.float32)}
    network = imported(model(nodes, {"x": ("f32", x.shape)}, {"y": "f32"}, constants, 11, {GENERAL: 1}))
    assert "convolution.conv2d" in called(network.function.result)
    (found,) = run(network, x.astype(np.float32))
    assert np.array_equal(found, naive(x, w, pads, strides, 1))


@pytest.mark.parametrize(("group", "m"), [(2, 4), (4, 4), (4, 8)])
def test_grouped_convolutions_of_codes_are_exact(group: int, m: int) -> None:
    x, w = CHANCE.integers(-8, 8, (2, 4, 5, 4)), CHANCE.integers(-3, 4, (m, 4 // group, 3, 3))
    nodes = [quant("x", "q"), node("Conv", ["q", "w"], ["y"], pads=[1, 1, 1, 1], group=group)]
    constants = {**SCALARS, "w": w.astype(np.float32)}
    network = imported(model(nodes, {"x": ("f32", x.shape)}, {"y": "f32"}, constants, 11, {GENERAL: 1}))
    name = "convolution.depthwise2d" if group == m else "convolution.conv2d_grouped"
    assert name in called(network.function.result)
    (found,) = run(network, x.astype(np.float32))
    assert np.array_equal(found, naive(x, w, (1, 1, 1, 1), (1, 1), group))


def test_padding_of_signs_is_exact_zero_and_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from bittern.front.onnx import convolving

    x, w = np.ones((1, 3, 4, 4), np.int64), np.ones((2, 3, 3, 3), np.int64)
    nodes = [node("BipolarQuant", ["x", "one"], ["q"], domain=GENERAL), node("Conv", ["q", "w"], ["y"], pads=[1] * 4)]
    constants = {**SCALARS, "w": w.astype(np.float32)}
    data = model(nodes, {"x": ("f32", x.shape)}, {"y": "f32"}, constants, 11, {GENERAL: 1})
    expected = naive(x, w, (1, 1, 1, 1), (1, 1), 1)
    assert np.array_equal(run(imported(data), x.astype(np.float32))[0], expected)
    monkeypatch.setattr(convolving, "padding_sums", lambda kernel, windows: np.zeros((*windows.counts, len(kernel))))
    assert not np.array_equal(run(imported(data), x.astype(np.float32))[0], expected)


def test_a_zero_point_that_is_no_code_of_eight_bits_is_split_off_the_weights() -> None:
    x, w = CHANCE.integers(0, 256, (2, 5)).astype(np.uint8), CHANCE.integers(0, 256, (5, 3)).astype(np.uint8)
    w[0, 0], w[1, 0] = 0, 255
    nodes = [node("MatMulInteger", ["x", "w", "a", "b"], ["y"])]
    constants = {"w": w, "a": np.uint8(7), "b": np.uint8(3)}
    network = imported(model(nodes, {"x": ("u8", x.shape)}, {"y": "i32"}, constants))
    assert np.array_equal(run(network, x)[0], (x.astype(int) - 7) @ (w.astype(int) - 3))


def test_a_network_of_codes_becomes_one_of_integers() -> None:
    """Conv, norm, quantiser, pool, flatten, dense: nothing but integers is left between input and scores."""
    constants = {
        **SCALARS,
        "eighth": np.float32(0.125),
        "w": CHANCE.integers(-3, 4, (5, 2, 3, 3)).astype(np.float32),
        "v": CHANCE.integers(-1, 2, (20, 3)).astype(np.float32),
        **{name: CHANCE.normal(size=5).astype(np.float32) for name in ("gain", "shift", "mean")},
        "variance": abs(CHANCE.normal(size=5)).astype(np.float32),
    }
    attributes = {"signed": 0, "narrow": 0, "rounding_mode": "ROUND", "domain": GENERAL}
    nodes = [
        node("Quant", ["x", "eighth", "zero", "bits"], ["q"], **attributes),
        node("Conv", ["q", "w"], ["c"]),
        node("BatchNormalization", ["c", "gain", "shift", "mean", "variance"], ["n"]),
        node("Relu", ["n"], ["r"]),
        node("Quant", ["r", "one", "zero", "bits"], ["d"], **attributes),
        node("MaxPool", ["d"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["p"], ["f"]),
        node("MatMul", ["f", "v"], ["y"]),
    ]
    data = model(nodes, {"x": ("f32", (1, 2, 6, 6))}, {"y": "f32"}, constants, 11, {GENERAL: 1})
    network = imported(data)
    made, report = integer_only(network.function, network.library)
    assert report.is_integer, report.lines()
    assert sum(each.kind == "permute" for each in walk(made.result)) == 1  # of the input: flattening moves nothing
    x = abs(CHANCE.normal(size=(4, 2, 6, 6))).astype(np.float32)
    assert np.array_equal(run(network, x)[0], run(_with(network, made), x)[0])


def _with(network: Any, function: Function) -> Any:
    from dataclasses import replace

    return replace(network, function=function)


def test_axes_of_length_one_move_nothing() -> None:
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("GlobalAveragePool", ["c"], ["g"]),
        node("Squeeze", ["g"], ["s"], axes=[2, 3]),
        node("Unsqueeze", ["s"], ["u"], axes=[2]),
        node("Mul", ["u", "k"], ["y"]),
    ]
    constants = {"w": CHANCE.normal(size=(3, 2, 2, 2)).astype(np.float32), "k": np.ones((3, 1), np.float32) * 2}
    data = model(nodes, {"x": ("f32", (1, 2, 4, 4))}, {"y": "f32"}, constants, 11)
    x = CHANCE.normal(size=(1, 2, 4, 4)).astype(np.float32)
    assert np.allclose(run(imported(data), x)[0], reference(data, {"x": x})[0], atol=1e-6)


def test_channels_last_operations_are_the_standard_ones() -> None:
    domain = "qonnx.custom_op.channels_last"
    kernel = CHANCE.normal(size=(4, 3, 2, 2)).astype(np.float32)
    row = CHANCE.normal(size=4).astype(np.float32)
    norm = ["c", "row", "row", "row", "one4"]
    plain = [
        node("Conv", ["x", "w"], ["c"], strides=[2, 1]),
        node("BatchNormalization", norm, ["n"]),
        node("MaxPool", ["n"], ["y"], kernel_shape=[2, 2]),
    ]
    last = [
        node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        node("Conv", ["t", "v"], ["c"], strides=[2, 1], domain=domain),
        node("BatchNormalization", norm, ["n"], domain=domain),
        node("MaxPool", ["n"], ["p"], kernel_shape=[2, 2], domain=domain),
        node("Transpose", ["p"], ["y"], perm=[0, 3, 1, 2]),
    ]
    constants = {"w": kernel, "v": kernel.transpose(0, 2, 3, 1), "row": row, "one4": np.ones(4, np.float32)}
    inputs: Any = {"x": ("f32", (1, 3, 6, 5))}
    made = [imported(model(each, inputs, {"y": "f32"}, constants, 11, {domain: 1})) for each in (plain, last)]
    assert made[0].function == made[1].function
