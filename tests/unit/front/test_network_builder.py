"""Declaring networks: both styles, names, parameters, files, own layers, and what is told about faults."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bittern.base.errors import BitternError
from bittern.front.network.draft import Numbers
from bittern.front.network.layer import Layer
from bittern.graph.evaluate import prepare
from bittern.lang.library import Library
from bittern.nn import (
    Activation,
    Add,
    Attention,
    BatchNorm,
    BinaryActivation,
    BinaryTensor,
    Composed,
    Composite,
    Concat,
    Conv2d,
    Custom,
    Dense,
    Dropout,
    Flatten,
    Input,
    IntActivation,
    IntTensor,
    Model,
    MultiHeadAttention,
    NetworkBuilder,
    Residual,
    TernaryActivation,
    TernaryTensor,
    Value,
    build,
    load,
)

LIBRARY = Library.standard()
Array = np.ndarray[Any, Any]


def signs(*shape: int, seed: int = 0) -> Array:
    return np.where(np.random.default_rng(seed).random(shape) < 0.5, 1, -1).astype(np.int8)


def evaluated(model: Model, *inputs: Array) -> Any:
    return prepare(model.network.function, (len(inputs[0]),))(*inputs)


# --- the two styles


@pytest.mark.req("C069")
def test_the_example_of_the_requirements_works_as_written() -> None:
    model = (
        NetworkBuilder()
        .input(BinaryTensor([1024, 784]))
        .dense(784, 512, activation=BinaryActivation.SIGN)
        .dense(512, 256, activation=BinaryActivation.SIGN)
        .output(256, 10)
        .build()
    )
    x = signs(3, 784)
    w = {path: array.astype(np.int64) for path, array in model.parameters.items()}
    a = np.where(x @ w["dense_1.weight"].T >= 0, 1, -1)  # sign(0) is +1
    b = np.where(a @ w["dense_2.weight"].T >= 0, 1, -1)
    expected = b @ w["output.weight"].T
    np.testing.assert_array_equal(evaluated(model, x), expected)
    np.testing.assert_array_equal(model.run(x), expected)
    np.testing.assert_array_equal(model.run(x[0]), expected[0])
    assert model.network.facts["batch"] == "1024" and model.network.outputs[0].name == "scores"


@pytest.mark.req("K069")
def test_a_model_runs_without_a_plan_and_explains_itself() -> None:
    model = NetworkBuilder().input(IntTensor(8, [1, 6])).dense(6, 4, weights=4, activation="relu").output(4, 2).build()
    assert model.run(np.arange(6)).shape == (2,)
    told = model.explain()
    for words in ("Level 1", "dense_1", "24 i4 x i8", "Level 2", "sums of", "Level 3", "regions", "kernels"):
        assert words in told, words


@pytest.mark.req("C070")
def test_a_declaration_names_no_chip() -> None:
    """No layer, no builder method has a field or an argument for a chip, a plan, threads or a tier."""
    from dataclasses import fields
    from inspect import signature

    from bittern.front.network.layers import LAYERS

    words = {field.name for kind in LAYERS.values() for field in fields(kind)}
    words |= {
        *signature(NetworkBuilder.build).parameters,
        *signature(build).parameters,
        *signature(Model.run).parameters,
    }
    assert not words & {"chip", "device", "target", "plan", "tier", "threads", "backend", "kernel"}


def test_both_styles_give_the_same_graph() -> None:
    x = Input(BinaryTensor([8, 6]))
    y = Dense(4, 3, name="output")(Dense(6, 4, activation="sign")(x))
    sequence = NetworkBuilder().input(BinaryTensor([8, 6])).dense(6, 4, activation="sign").output(4, 3)
    assert build(y).network.function.id == sequence.build().network.function.id


def test_a_start_may_be_shared() -> None:
    start = NetworkBuilder().input(BinaryTensor([1, 6])).dense(6, 4, activation="sign")
    one, other = start.output(4, 3).build(), start.output(4, 2).build()
    assert one.network.outputs[0].shape == (3,) and other.network.outputs[0].shape == (2,)
    np.testing.assert_array_equal(one.parameters["dense_1.weight"], other.parameters["dense_1.weight"])


def test_residuals_branches_and_several_ends() -> None:
    x, y = Input(IntTensor(4, [1, 5]), "left"), Input(IntTensor(4, [1, 5]), "right")
    a = Dense(5, 5, weights=4)(x)
    total = a + x + y
    codes = Activation("linear", 4)(total)
    model = build({"sum": total, "both": Concat()(codes, y)}, library=LIBRARY)
    assert [port.name for port in model.network.inputs] == ["left", "right"]
    p, q = np.arange(5)[None] - 2, np.ones((1, 5), np.int64)
    found = evaluated(model, p.astype(np.int8), q.astype(np.int8))
    np.testing.assert_array_equal(found[0], p @ model.parameters["dense_1.weight"].T.astype(np.int64) + p + q)
    assert found[1].shape == (1, 10)
    named = model.run(p, q)
    assert sorted(named) == ["both", "sum"] and np.array_equal(named["sum"], found[0])


def test_inputs_stand_in_the_order_that_is_asked_for() -> None:
    x, y, z = (Input(IntTensor(4, [1, 5]), name) for name in "xyz")
    total = x + y + z
    assert [port.name for port in build(total, library=LIBRARY).network.inputs] == ["x", "y", "z"]
    assert [port.name for port in build(total, inputs=[z, y], library=LIBRARY).network.inputs] == ["z", "y", "x"]


def test_a_layer_called_twice_shares_its_parameters() -> None:
    x, layer = Input(BinaryTensor([1, 4])), Dense(4, 4, activation="sign")
    model = build(layer(layer(x)), library=LIBRARY)
    assert [*model.parameters] == ["dense_1.weight", "dense_1.threshold", "dense_1.falling"]


def test_a_deep_network_is_no_deep_recursion() -> None:
    builder = NetworkBuilder().input(BinaryTensor([1, 4]))
    for _ in range(600):
        builder = builder.dense(4, 4, activation="sign")
    assert builder.declared(library=LIBRARY).network.outputs[0].shape == (4,)


def test_cross_attention_takes_two_values() -> None:
    x, memory = Input(BinaryTensor([1, 3, 4])), Input(BinaryTensor([1, 5, 4]))
    model = build(MultiHeadAttention(4, 2)(x, memory), library=LIBRARY)
    assert model.network.outputs[0].shape == (3, 4)
    raw = build(Attention(2)(x, memory, memory), library=LIBRARY)
    assert raw.network.outputs[0].shape == (3, 4)


def test_enumerations_and_words_say_the_same() -> None:
    def of(activation: Any, bits: Any = None) -> bytes:
        network = NetworkBuilder().input(BinaryTensor([1, 6])).dense(6, 4, activation=activation, bits=bits)
        return network.network(library=LIBRARY).function.id

    assert of(BinaryActivation.SIGN) == of("sign") == of(Activation("sign"))
    assert of(TernaryActivation.SIGN) == of("ternary")
    assert of(IntActivation.RELU, 4) == of("relu", 4) == of(Activation("relu", 4)) == of("relu", "u4")
    assert len({of("relu", 4), of("relu", 3), of("linear", 4), of("sign")}) == 4


# --- own layers


@pytest.mark.req("C077")
def test_a_function_of_the_language_is_a_layer_in_one_declaration(tmp_path: Path) -> None:
    program = "/// Twice as much.\nfn doubled[n](x: i32[n]) -> i32[n] {\n  x + x\n}\n"
    model = NetworkBuilder().input(BinaryTensor([1, 6])).dense(6, 4).custom(program).build()
    once = NetworkBuilder().input(BinaryTensor([1, 6])).dense(6, 4).build()
    x = signs(2, 6)
    np.testing.assert_array_equal(evaluated(model, x), 2 * evaluated(once, x))
    path = tmp_path / "mine.btn"
    path.write_text(program)
    from_file = NetworkBuilder().input(BinaryTensor([1, 6])).dense(6, 4).then(Custom(path)).network(library=LIBRARY)
    assert from_file.function.id == model.network.function.id


GATED = """/// A dense layer whose sums pass where a second one is not negative.
fn gated[a: type, e: type, m, n](w: &a[m, n], gate: &a[m, n], at: i32[m], x: &e[n]) -> i32[m] {
  let sums = [dot[i32](row, x) for row in w]
  let open = [dot[i32](row, x) for row in gate]
  select(open >= at, sums, 0)
}
"""


@pytest.mark.req("C077")
def test_an_own_layer_has_weights_of_any_width() -> None:
    for width in ("b1", "t", 2, 3, 4, 8):
        weights = {"w": width, "gate": width, "at": "i32"}
        gated = Custom(GATED, weights=weights, sizes={"m": 3}, name="gated", positions=True)
        model = build(gated(Input(IntTensor(4, [1, 2, 5]))), library=Library.standard())
        x = np.random.default_rng(1).integers(-8, 8, (2, 2, 5)).astype(np.int8)
        w, gate = (model.parameters[f"gated.{name}"].astype(np.int64) for name in ("w", "gate"))
        np.testing.assert_array_equal(evaluated(model, x), np.where(x @ gate.T >= 0, x @ w.T, 0))
        assert np.array_equal(model.run(x), evaluated(model, x))


def test_a_python_function_is_a_layer() -> None:
    def block(x: Value) -> Value:
        return Residual([Dense(4, 4, activation="sign"), Dense(4, 4)], activation="sign")(x)

    sequence = NetworkBuilder().input(BinaryTensor([1, 4])).then(block).then(Composed(block, name="second"))
    assert [path for path in sequence.build().parameters if path.endswith("weight")] == [
        "composed_1.residual_1.dense_1.weight",
        "composed_1.residual_1.dense_2.weight",
        "second.residual_1.dense_1.weight",
        "second.residual_1.dense_2.weight",
    ]


def test_an_own_class_of_layers() -> None:
    from dataclasses import dataclass
    from typing import ClassVar

    @dataclass(frozen=True, slots=True, eq=False)
    class Mixer(Composite):
        KIND: ClassVar[str] = "mixer"
        channels: int

        def compose(self, x: Value) -> Value:  # type: ignore[override]
            return Dense(self.channels, self.channels, name="mix", activation="sign")(x)

    model = build(Mixer(4)(Input(BinaryTensor([1, 3, 4]))), library=LIBRARY)
    assert "mixer_1.mix.weight" in model.parameters


# --- parameters


def test_initial_parameters_depend_on_seed_and_path_alone() -> None:
    start = NetworkBuilder().input(BinaryTensor([1, 6]))
    one = start.dense(6, 4).declared(seed=1, library=LIBRARY)
    assert one.network.facts["parameters"] == "1 initial (seed 1)"
    again = start.dropout(0.1).dense(6, 4).declared(seed=1, library=LIBRARY)
    other = start.dense(6, 4).declared(seed=2, library=LIBRARY)
    weight = one.parameters["dense_1.weight"]
    np.testing.assert_array_equal(weight, again.parameters["dense_1.weight"])
    assert one.network.function.id == again.network.function.id, "dropout vanishes"
    assert not np.array_equal(weight, other.parameters["dense_1.weight"])


def test_initial_numbers_are_those_of_split_mix() -> None:
    function = LIBRARY.function("random.split_mix")
    numbers = Numbers(5, "a.b")
    seed = np.uint64(numbers._start)
    split_mix = prepare(function, ())
    expected = [int(split_mix(seed, np.uint64(i))) >> 32 for i in range(5)]
    assert [int(v) for v in numbers.below(1 << 31, (5,))] == [each >> 1 for each in expected]


@pytest.mark.parametrize("kind", ["mapping", "npz", "safetensors"])
def test_arrays_come_from_mappings_and_files(kind: str, tmp_path: Path) -> None:
    network = NetworkBuilder().input(BinaryTensor([1, 6])).dense(6, 4, activation="relu", bits=4).output(4, 2)
    first = network.build(seed=1)
    arrays: Any = dict(first.parameters)
    if kind == "npz":
        np.savez(tmp_path / "a.npz", **arrays)
        arrays = tmp_path / "a.npz"
    if kind == "safetensors":
        from safetensors.numpy import save_file

        save_file(arrays, tmp_path / "a.safetensors")
        arrays = str(tmp_path / "a.safetensors")
    again = network.build(seed=2, arrays=arrays)
    assert again.network.function.id == first.network.function.id and "parameters" not in again.network.facts


def test_arrays_may_be_given_to_a_layer_or_for_some_parameters() -> None:
    weight = np.ones((4, 6))
    given = Dense(6, 4, values={"weight": weight})
    model = build(given(Input(BinaryTensor([1, 6]))), library=LIBRARY)
    np.testing.assert_array_equal(evaluated(model, np.ones((1, 6), np.int8)), [[6, 6, 6, 6]])
    network = NetworkBuilder().input(BinaryTensor([1, 6])).dense(6, 4, activation="sign").output(4, 2)
    with pytest.raises(BitternError, match="N101") as caught:
        network.build(arrays={"dense_1.weight": weight})
    assert "`output.weight`" in caught.value.what and "falling" not in caught.value.what
    partial = network.build(arrays={"dense_1.weight": weight}, partial=True)
    assert partial.network.facts["parameters"] == "3 initial (seed 0)"  # threshold, falling, the output's weight


# --- files and summaries


@pytest.mark.req("C081", "K067")
def test_a_saved_network_is_the_same_and_its_size_is_told(tmp_path: Path) -> None:
    model = (
        NetworkBuilder()
        .input(IntTensor(8, [1, 12, 12, 3], signed=False))
        .conv2d(3, 64, 3, weights="t", activation="sign")
        .conv2d(64, 40, 3, padding="same", weights="b1", activation="relu", bits=3)
        .max_pool2d(2)
        .flatten()
        .output(1000, 10, weights=4)
        .build(name="small")
    )
    size = model.save(tmp_path / "small.keg")
    told = model.summary()
    assert size == os.path.getsize(tmp_path / "small.keg") == told.bytes
    again = load(tmp_path / "small.keg")
    assert again.network.function.id == model.network.function.id and again.network.name == "small"
    assert again.network.inputs == model.network.inputs and again.network.outputs == model.network.outputs
    rows = {row.name: row for row in told.rows}
    assert rows["conv2d_2"].bytes >= 64 * 9 * 40 // 8 and rows["conv2d_2"].bytes < 64 * 9 * 40 // 8 + 2000
    assert rows["conv2d_1"].macs == {"t x u8": 10 * 10 * 27 * 64}
    assert rows["conv2d_2"].macs == {"b1 x b1": 10 * 10 * 64 * 9 * 40}
    assert rows["output"].macs == {"i4 x u3": 10000} and rows["output"].shape == (10,)
    assert rows["conv2d_1"].weights == ("t",) and rows["conv2d_2"].element == "u3"
    w = model.parameters["conv2d_1.weight"].reshape(64, 27).astype(np.int64)
    most = 255 * int(max(np.maximum(w, 0).sum(1).max(), np.maximum(-w, 0).sum(1).max() - 1))
    assert rows["conv2d_1"].sums == most.bit_length() + 1 and rows["conv2d_2"].sums == 11, "576 products of signs"
    assert told.as_json()["bytes"] == size and told.parameters == sum(row.parameters for row in told.rows)


def test_a_summary_is_a_table() -> None:
    from io import StringIO

    from rich.console import Console

    told = (
        NetworkBuilder().input(BinaryTensor([1, 64])).dense(64, 64, activation="sign").output(64, 5).build().summary()
    )
    text = told.text()
    assert text.splitlines()[1].split()[:3] == ["layer", "computes", "shape"]
    for words in ("input b1[64]", "dense.dense, thresholds.sign_at", "4,096 b1 x b1", "total", f"{told.bytes:,}"):
        assert words in text
    page = StringIO()
    Console(file=page, width=160).print(told)
    assert "dense_1" in page.getvalue() and "4,416 b1 x b1" in page.getvalue()


def test_a_summary_counts_loops_and_shared_bytes_once() -> None:
    told = NetworkBuilder().input(BinaryTensor([1, 5, 8])).lstm(8, 6).build().summary()
    assert told.macs == {"b1 x b1": 5 * 4 * 6 * (8 + 6)}
    layer = Dense(64, 64, activation="sign")
    twice = build(layer(layer(Input(BinaryTensor([1, 64])))), library=LIBRARY).summary()
    assert sum(row.bytes for row in twice.rows) < 2 * 64 * 64 // 8


def test_a_file_that_is_no_network_is_refused(tmp_path: Path) -> None:
    from bittern.graph.keg import write_keg

    model = NetworkBuilder().input(BinaryTensor([1, 4])).dense(4, 2).build()
    write_keg(tmp_path / "a.keg", {"main": model.network.function})
    with pytest.raises(BitternError, match="N120.*`network`"):
        load(tmp_path / "a.keg")
    write_keg(tmp_path / "b.keg", {"network": model.network.function}, notes={"ports": "{}"})
    with pytest.raises(BitternError, match="N120"):
        load(tmp_path / "b.keg")
    model.save(tmp_path / "c.keg")
    notes = {"ports": '{"facts": {}, "inputs": [["x", "u8", [4], null, 0]], "name": "", "outputs": [], "source": ""}'}
    write_keg(tmp_path / "d.keg", {"network": model.network.function}, notes=notes)
    with pytest.raises(BitternError, match="N120"):
        load(tmp_path / "d.keg")


# --- faults


def refused(make: Callable[[], object], code: str, *words: str) -> BitternError:
    with pytest.raises(BitternError) as caught:
        make()
    assert caught.value.code == code, caught.value
    for word in words:
        assert word in str(caught.value), (word, str(caught.value))
    assert caught.value.remedy
    return caught.value


def start(*shape: int) -> NetworkBuilder:
    return NetworkBuilder().input(BinaryTensor([1, *(shape or (6,))]))


def of(builder: NetworkBuilder, **named: Any) -> Callable[[], object]:
    return lambda: builder.declared(library=LIBRARY, **named)


def test_all_faults_are_told_at_once() -> None:
    wrong = start().dense(7, 4, activation="sgin").dense(4, 3, weights=9).dense(3, 2, activation="sign").dense(5, 2)
    fault = refused(of(wrong), "N101", "5 faults")
    for words in (
        "N102: `dense_1`: it takes 7 values of shape [7] and gets [6].",
        "N103: `dense_1`: there is no activation `sgin`. Did you mean `sign`?",
        "N105: `dense_2`: there is no width `9`.",
        "N106: `dense_3`: it gets sums (i32).",
        "N102: `dense_4`: it takes 5 values of shape [5] and gets [2].",
    ):
        assert words in fault.what, fault.what


def _shared() -> object:
    x, y = Input(IntTensor(4, [1, 4])), Input(IntTensor(4, [1, 5]))
    layer = Activation("sign")
    return build({"a": layer(x), "b": layer(y)}, library=LIBRARY)


FAULTS: dict[str, tuple[Callable[[], object], str, tuple[str, ...]]] = {
    "shape": (of(start().dense(7, 4)), "N102", ("`dense_1`", "[7]", "[6]")),
    "axes": (of(start().conv2d(3, 4, 3)), "N102", ("`conv2d_1`", "2 axes")),
    "activation": (of(start().dense(6, 4, activation="relus")), "N103", ("`relus`", "`relu`")),
    "layer": (lambda: start().dens(6, 4), "N104", ("`dens`", "`dense`")),
    "width": (of(start().dense(6, 4, weights="b2")), "N105", ("`b2`", "Widths are")),
    "element": (of(start().dense(6, 4).dense(4, 2)), "N106", ("`dense_2`", "sums (i32)", "activation")),
    "concat": (
        lambda: build(Concat()(Input(BinaryTensor([1, 4])), Input(TernaryTensor([1, 4]))), library=LIBRARY),
        "N106", ("b1 and t",),
    ),
    "number": (of(start().dense(6, 0)), "N107", ("`outputs` is 0",)),
    "window": (of(start(4, 4, 3).conv2d(3, 4, 5)), "N107", ("[5, 5]", "[4, 4]")),
    "groups": (of(start(4, 4, 3).conv2d(3, 4, 3, groups=2)), "N107", ("2 groups",)),
    "groups of three axes": (of(start(4, 4, 4, 4).conv3d(4, 4, 2, groups=2)), "N107", ("groups",)),
    "sum": (
        of(NetworkBuilder().input(IntTensor("u8", [1, 70000])).dense(70000, 1, weights=8, values={
            "weight": np.full((1, 70000), -128)})),
        "N108", ("33 bits", "-2284800000"),
    ),
    "input": (lambda: BinaryTensor([784]), "N109", ("[784]", "batch")),
    "batch": (lambda: BinaryTensor([0, 784]), "N109", ("batch of 0",)),
    "name": (of(start().dense(6, 6, name="a", activation="sign").dense(6, 4, name="a")), "N110", ("`a`",)),
    "missing": (of(start().dense(6, 4, activation="sign"), arrays={"dense_1.threshold": np.zeros(4)}), "N111",
                ("`dense_1.weight`",)),
    "unknown path": (of(start().dense(6, 4), arrays={"dense_1.weight": np.ones((4, 6)), "dense_1.wieght": 1}), "N112",
                     ("`dense_1.weight`",)),
    "unknown value": (of(start().dense(6, 4, values={"wight": 1})), "N112", ("`wight`", "`weight`")),
    "array": (of(start().dense(6, 4, values={"weight": np.ones((6, 4))})), "N113", ("[6, 4]", "[4, 6]")),
    "values": (of(start().dense(6, 4, values={"weight": np.zeros((4, 6))})), "N114", ("b1", "from 0 to 0")),
    "no number": (of(start().dense(6, 4).batch_norm(values={"mean": np.full(4, np.nan)})), "N114", ("NaN",)),
    "negative variance": (of(start().dense(6, 4).batch_norm(values={"variance": -np.ones(4)})), "N114", ("-1 to -1",)),
    "shift": (of(start().dense(6, 4, activation="relu", values={"shift": np.full(4, 63)})), "N114", ("0 to 62",)),
    "too many": (of(start(1 << 20).dense(1 << 20, 1 << 12)), "N107", ("[4096, 1048576]",)),
    "shared": (lambda: _shared(), "N102", ("second layer",)),
    "lstm": (of(start(3, 6).lstm(6, 4, bits=8, most=1 << 20)), "N108", ("`most`",)),
    "gru": (
        of(start(3, 6).gru(6, 4, bits=8, gate_levels=255, values={"bias": np.full((3, 4), 1 << 24)})),
        "N108", ("a sum needs 33 bits",),
    ),
    "no output": (lambda: NetworkBuilder().build(), "N115", ("no output",)),
    "no input": (lambda: NetworkBuilder().dense(6, 4), "N115", ("no input",)),
    "second input": (lambda: start().input(BinaryTensor([1, 2])), "N115", ("one input",)),
    "count": (lambda: build(Dense(6, 4)(*[Input(BinaryTensor([1, 6]))] * 2), library=LIBRARY), "N116", ("2 values",)),
    "padding": (of(start(4, 4, 3).conv2d(3, 4, 3, padding="sam")), "N117", ("'sam'",)),
    "pad value": (of(start(4, 4, 3).pad(1, 0)), "N117", ("b1 has no 0",)),
    "own function": (of(start().custom("fn f[n](x: i32[n]) -> i32[n] {\n  x\n}\n")), "N119", ("i32", "b1")),
    "own parameters": (of(start().custom(GATED, weights={"v": "b1"})), "N119", ("`v`",)),
    "own sizes": (of(start().custom(GATED, weights={"w": 4, "gate": 4, "at": "i32"})), "N119", ("`sizes`",)),
    "own program": (of(start().custom("fn f[n](x: b1[n]) -> b1[n] {\n  y\n}\n")), "E212", ("E205",)),
    "own file": (of(start().custom(Path("nothing.btn"))), "N119", ("cannot be read",)),
    "residual": (of(start(6, 6, 3).residual(Conv2d(3, 3, 3))), "N102", ("[4, 4, 3]", "[6, 6, 3]")),
    "sum of shapes": (
        lambda: build(Add()(Input(BinaryTensor([1, 4])), Input(BinaryTensor([1, 5]))), library=LIBRARY),
        "N102", ("[4] and [5]",),
    ),
    "join": (of(start().branches([Dense(6, 4)], join="cat")), "N107", ("`concat`",)),
    "rate": (of(start().dropout(1.5)), "N107", ("1.5",)),
    "reshape": (of(start().reshape([4])), "N102", ("[4] of [6]",)),
    "embedding": (of(start().embedding(4, 4)), "N106", ("IndexTensor",)),
    "heads": (of(start(3, 6).attention(4)), "N116", ("It takes 3",)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_told_with_its_remedy(name: str) -> None:
    make, code, words = FAULTS[name]
    refused(make, code, *words)


def test_unreadable_arrays_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"nothing")
    for path in (tmp_path / "a.npz", tmp_path / "none.npz"):
        refused(of(start().dense(6, 4), arrays=path), "N118", str(path))
    np.savez(tmp_path / "b.npz", x=np.array([{}], dtype=object))
    refused(of(start().dense(6, 4), arrays=tmp_path / "b.npz"), "N118", "b.npz")


def test_sequences_take_all_layers_of_the_table() -> None:
    model = start(4, 4, 3).conv2d(3, 8, 3).batch_norm().activation("hard_tanh", 2).dropout(0.2).flatten()
    layers: list[Layer] = [Conv2d(3, 8, 3), BatchNorm(), Activation("hard_tanh", 2), Dropout(0.2), Flatten()]
    value = Input(BinaryTensor([1, 4, 4, 3]))
    for layer in layers:
        value = layer(value)
    assert build(value, library=LIBRARY).network.function.id == model.network(library=LIBRARY).function.id
