"""The table of kernels: which library function has one, and what builds it.

A kernel belongs to a meaning: it is found by the id of the function, so a program whose library says something else
gets none and is evaluated as it is written. Every row is compared with its definition, bit for bit, by
`tests/conform/test_vm_kernels.py`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from bittern.chips.vm import activations, attention, norms, products, quantise, rotary, store
from bittern.graph.node import Function, functions_of, walk
from bittern.graph.program import Kernel
from bittern.lang.library import Library


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel. function: its library name. overload: element of the first parameter. build: gives the kernel."""

    function: str
    build: Callable[[Library], Kernel]
    overload: str | None = None


def _is(kernel: Kernel) -> Callable[[Library], Kernel]:
    return lambda library: kernel


def _blocks(name: str, group: int) -> Row:
    """The row of a block format's product. group: values that share a scale."""

    def build(library: Library) -> Kernel:
        return products.block_product(library.function(f"products.unpack_{name}"), group)

    return Row(f"products.matvec_{name}", build)


def _floats(name: str) -> Row:
    """The row of a float format's product."""
    return Row(f"products.matvec_{name}", lambda library: products.float_product())


# fmt: off
ROWS = (
    Row("quantise.quantise",           _is(quantise.quantise)),
    Row("norms.rms_norm",              _is(norms.rms_norm)),
    Row("rotary.rotary_pairs",         _is(rotary.rotary_pairs)),
    Row("rotary.rotary_halves",        _is(rotary.rotary_halves)),
    Row("activations.silu_gate",       _is(activations.silu_gate)),
    Row("activations.gelu_tanh_gate",  _is(activations.gelu_tanh_gate)),
    Row("attention.store",             _is(store.store_f16),         "f16"),
    Row("attention.store",             _is(store.store_f32),         "f32"),
    Row("attention.store",             _is(store.store_i8),          "i8"),
    Row("attention.attention",         _is(attention.attention),     "f16"),
    Row("attention.attention",         _is(attention.attention),     "f32"),
    Row("attention.attention",         _is(attention.attention_i8),  "i8"),
    _blocks("q4_0", 32),
    _blocks("q4_1", 32),
    _blocks("q5_0", 32),
    _blocks("q5_1", 32),
    _blocks("q8_0", 32),
    _blocks("q4_k", 32),
    _blocks("q5_k", 32),
    _blocks("q6_k", 16),
    _blocks("q1_0", 32),
    _blocks("q2_0", 32),
    _blocks("q2_k", 16),
    _blocks("q3_k", 16),
    _blocks("iq1_s", 32),
    _blocks("iq1_m", 16),
    _blocks("iq2_xxs", 32),
    _blocks("iq2_xs", 16),
    _blocks("iq2_s", 16),
    _blocks("iq3_xxs", 32),
    _blocks("iq3_s", 32),
    _blocks("iq4_nl", 32),
    _blocks("iq4_xs", 32),
    _blocks("tq1_0", 32),
    _blocks("tq2_0", 32),
    _blocks("mxfp4", 32),
    _blocks("nvfp4", 16),
    _floats("f32"),
    _floats("f16"),
    _floats("bf16"),
)
# fmt: on


def kernels(library: Library, programs: Iterable[Function] | None = None) -> Mapping[bytes, Kernel]:
    """Return the kernels by the id of the function that each one equals.

    library: the one that the programs come from. Where folders of the user's come before the standard library, a kernel
    still belongs to what the standard library says. programs: what will run, so that only functions of these names are
    looked at; None: all rows. Errors: E212 if the library has any.
    """
    standard = Library.standard()
    if library.folders == standard.folders:
        standard = library
    names = None if programs is None else _called(programs)
    rows = [row for row in ROWS if names is None or row.function in names]
    return {standard.function(row.function, overload=row.overload).id: row.build(standard) for row in rows}


def _called(programs: Iterable[Function]) -> set[str]:
    """Return the names of all functions that the programs call, without their element arguments."""
    called: set[str] = set()
    seen: set[bytes] = set()
    stack = list(programs)
    while stack:
        function = stack.pop()
        if function.id in seen:
            continue
        seen.add(function.id)
        called.add(function.labels.name.partition("[")[0])
        for node in walk(function.result):
            stack.extend(functions_of(node))
    return called
