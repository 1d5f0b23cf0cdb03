"""The MLIR text is accepted by mlir-opt, where it is installed, with every kind of the table in it."""

import shutil
import subprocess

import pytest
from bitops_cases import cases, scalar_kernel, vector_kernel
from bitops_examples import EXAMPLES, SSE
from test_expand_lanes import built, control, moving

from bittern.bitops.builder import Builder
from bittern.bitops.expand import expand
from bittern.bitops.kernel import walk
from bittern.bitops.kinds import kinds
from bittern.bitops.print_mlir import mlir
from bittern.bitops.text import text

TOOL = next((found for name in ("mlir-opt", "mlir-opt-19") if (found := shutil.which(name))), None)


def every_kind() -> list[str]:
    """Return texts in which every kind occurs, and every element as scalars and vectors."""
    kernels = [make().kernel for make in EXAMPLES.values()] + [expand(EXAMPLES["argmax"]().kernel, SSE)]
    kernels += [built(moving(kind, "f16x16")) for kind in ("shuffle", "halves", "lanes", "mask")] + [built(control)]
    for case in cases():
        kernels.append(scalar_kernel(case))
        kernels.append(vector_kernel(case, 8))
    b = Builder("rest", ("n",))
    x, y = b.buffer("x", "u8", b.dims[0] + 64, "read"), b.buffer("y", "u8", 64, "write")
    given = b.parameter("given", "index", 0, b.dims[0])
    with b.parallel(0, 2), b.labelled('a "label"'):
        x.load("i16x8", 0).dot(x.load("i16x8", 0))
        x.load("i32x4", 0).binary("mul_wide", x.load("i32x4", 16))
        y.store_packed(4, 0, x.load_packed(4, 8, 0).lookup(x.load("u8x16", given)))
        x.gather("f32x8", 0, b.const("i32x8", 0))
        b.const("f32x4", [1.0, -0.0, float("nan"), float("inf")])
        b.barrier()
    kernels.append(b.build())
    assert {s.kind for k in kernels for s in walk(k.body)} == set(kinds())
    return [mlir(kernel) for kernel in kernels]


@pytest.mark.req("C074")
def test_mlir_opt_reads_it() -> None:
    if TOOL is None:
        pytest.skip("mlir-opt is not installed (Debian and Ubuntu: mlir-19-tools)")
    done = subprocess.run(
        [TOOL, "--allow-unregistered-dialect", "--split-input-file"],
        input="// -----\n".join(every_kind()),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[:2000]


def test_mlir_opt_refuses_what_is_broken() -> None:
    if TOOL is None:
        pytest.skip("mlir-opt is not installed (Debian and Ubuntu: mlir-19-tools)")
    good = mlir(EXAMPLES["partial_sum"]().kernel)
    broken = good.replace("vector<16xf32>) -> (vector<16xf32>)", "vector<16xf32>) -> (vector<8xf32>)", 1)
    assert broken != good
    command = [TOOL, "--allow-unregistered-dialect"]
    assert subprocess.run(command, input=broken, capture_output=True, text=True).returncode != 0


def test_mlir_is_as_recorded() -> None:
    b = Builder("scale", ("n",))
    (n,) = b.dims
    b.divisible(n, 16)
    x, y = b.buffer("x", "f32", n, "read"), b.buffer("y", "f32", n, "write", align=32)
    with b.loop(0, n, 16) as (i,), b.labelled("layer.0"):
        y.store(i, x.load("f32x16", i, offset=0) * 2.0)
    assert mlir(b.build()) == RECORDED
    assert text(b.build()) == RECORDED_TEXT


RECORDED = """\
"builtin.module"() ({
  "bitops.kernel"() ({
  ^bb0(%x: memref<?xf32>, %y: memref<?xf32>):
    %0 = "bitops.const"() {value = 0 : index} : () -> (index)
    %1 = "bitops.dim"() {size = "n"} : () -> (index)
    %2 = "bitops.const"() {value = 16 : index} : () -> (index)
    "bitops.for"(%0, %1, %2) ({
    ^bb0(%3: index):
      %4 = "bitops.load"(%x, %3) {offset = 0 : i64} : (memref<?xf32>, index) -> (vector<16xf32>) loc("layer.0")
      %5 = "bitops.const"() {value = dense<0x40000000> : vector<16xf32>} : () -> (vector<16xf32>) loc("layer.0")
      %6 = "bitops.mul"(%4, %5) : (vector<16xf32>, vector<16xf32>) -> (vector<16xf32>) loc("layer.0")
      "bitops.store"(%y, %3, %6) {offset = 0 : i64} : (memref<?xf32>, index, vector<16xf32>) -> () loc("layer.0")
      "bitops.yield"() : () -> ()
    }) : (index, index, index) -> ()
    "bitops.yield"() : () -> ()
  }) {sym_name = "scale", symbols = ["n"], sizes = ["n", "n"], access = ["read", "write"], \
align = array<i64: 64, 32>, divides = ["n % 16"], at_least = []} : () -> ()
}) : () -> ()
"""

RECORDED_TEXT = """\
kernel scale(n) where n % 16 == 0
  read x: f32[n] align 64
  write y: f32[n] align 32
  %0: index = const 0
  %1: index = dim n
  %2: index = const 16
  for %3 in %0..%1 by %2
    %4: f32x16 = load x[%3]  # layer.0
    %5: f32x16 = const 2.0  # layer.0
    %6: f32x16 = mul %4, %5  # layer.0
    store y[%3], %6  # layer.0
"""
