"""Small `.keg` files for tests: made, taken apart, forged, and checked to be refused."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import cbor2
import hypothesis.strategies as st
import pytest

from bittern.base.errors import BitternError
from bittern.graph import keg_format as form
from bittern.graph.keg import read_keg
from bittern.graph.node import Function, Labels, Parameter, call, const, node, param
from bittern.types.elements import F32, U8
from bittern.types.values import Tuple, tensor

seeds = st.integers(0, 2**32)
Edit = Callable[[dict[str, Any]], None]


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header as plain values, and the bytes of the blobs."""
    data = path.read_bytes()
    length = form.PREAMBLE.unpack_from(data)[2]
    return cbor2.loads(data[64 : 64 + length]), data[form.aligned(64 + length) :]


def forge(path: Path, header: dict[str, Any] | bytes, blobs: bytes) -> None:
    """Write a file whose frame is right, whatever its header says."""
    encoded = header if isinstance(header, bytes) else cbor2.dumps(header, canonical=True)
    start = form.aligned(64 + len(encoded))
    frame = form.PREAMBLE.pack(form.MAGIC, 1, len(encoded), start + len(blobs), hashlib.sha256(encoded).digest())
    path.write_bytes((frame + encoded).ljust(start, b"\0") + blobs)


def refused(path: Path, code: str, *words: str) -> None:
    """Check that the file is refused by this code, with these words, and soon (in time of the processor)."""
    start = process_time()
    with pytest.raises(BitternError) as caught:
        read_keg(path)
    assert process_time() - start < 5, "bounded; bench/check has the figure"
    assert caught.value.code == code, caught.value
    assert str(path) in caught.value.what
    for word in words:
        assert word in caught.value.what, caught.value


def small() -> Function:
    """Return a function with a callee, a constant of three bytes, and labels."""
    x = param(0, tensor(F32, 3))
    inner = Function(0, (Parameter(x.type),), node("neg", [x], {}, x.type), labels=Labels("inner"))
    three = const([1, 2, 3], U8)
    total = node("add", [call(inner, [x]), x], {}, x.type)
    last = node("tuple", [total, three], {}, Tuple((total.type, three.type)))
    labels = Labels("small", (), ("x",), {total.id: "total"}, {total.id: ("small.btn", 3)})
    return Function(0, (Parameter(x.type, "&"),), last, labels=labels)
