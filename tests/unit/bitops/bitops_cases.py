"""Every lane-wise kind on every element it fits, edge values, and scalar kernels evaluated over many inputs at once."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from bittern.bitops.builder import Builder
from bittern.bitops.handle import Handle
from bittern.bitops.kernel import Block, Kernel, Step, Value
from bittern.bitops.kinds import KINDS, Misfit, Site, kinds
from bittern.bitops.lanes import ELEMENTS, Lanes, array_of_bits, lanes

Array = npt.NDArray[Any]
INTEGERS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64")
NUMBERS = (*INTEGERS, "f32", "f64")
ALL = ("bit", *NUMBERS, "f16", "bf16")
Case = tuple[str, tuple[str, ...], dict[str, Any]]  # kind, elements of the operands, attributes


def cases() -> Iterator[Case]:
    """Yield every lane-wise kind of equal lanes with all elements that its rule takes."""
    for name, row in kinds().items():
        if row.form != "lane" or name in ("const", "dim", "broadcast", "dot2", "dot4", "mul_wide"):
            continue
        for elements, attributes in product(_operands(name), _attributes(name)):
            types = tuple(lanes(e) for e in elements)
            try:
                row.rule(types, attributes)
            except Misfit:
                continue
            if name != "reinterpret" or lanes(attributes["to"]).bits == types[0].bits:
                yield name, elements, attributes


def _operands(name: str) -> list[tuple[str, ...]]:
    if name == "select":
        return [("bit", e, e) for e in ALL]
    if name in ("shl", "shr", "rotl", "rotr"):
        return [(e, f"u{ELEMENTS[e].bits}") for e in INTEGERS]
    return [(e,) for e in ALL] + [(e, e) for e in ALL]


def _attributes(name: str) -> list[dict[str, Any]]:
    if name in ("convert", "wrap", "sat", "round", "reinterpret"):
        return [{"to": e} for e in ALL]
    return [{}]


def case_name(case: Case) -> str:
    """Name a case for the test's output."""
    kind, elements, attributes = case
    return "-".join([kind, *elements, *attributes.values()])


def edges(element: str) -> Array:
    """Return values of an element where things go wrong."""
    of = lanes(element)
    if of.is_mask:
        return np.array([False, True])
    if of.is_integer:
        low, high, bits = of.element.low, of.element.high, of.element.bits
        values = {0, 1, 2, 3, 5, bits - 1, bits, bits + 1, 100, high, high - 1, high // 2, high // 2 + 1, high // 3}
        if of.is_signed:
            values |= {-1, -2, -7, -100, low, low + 1, low // 2}
        return np.array(sorted(values), of.dtype)
    return _float_edges(element)


def _float_edges(element: str) -> Array:
    if element == "bf16":
        wide = _float_edges("f32").view(np.uint32)
        return np.unique((wide >> 16).astype(np.uint16))
    values = [0.0, 0.3, 0.5, 0.7, 1.0, 1.5, 2.5, 3.5, 127.5, 128.5, 255.5, 256.0, 1e-8, 6e-8, 6.1e-5, 2.0**-150]
    values += [65504.0, 65519.9, 65520.0, 65536.0, 32767.5, 32768.0, 2147483520.0, 2147483648.0, 4294967040.0]
    values += [4294967296.0, 2.0**23 - 0.5, 2.0**23, 2.0**24 + 2, 2.0**52 - 0.5, 2.0**53, 2.0**62, 2.0**63, 2.0**64]
    values += [1e-45, 1.2e-38, 3.4e38, 3.3961e38, 1e300, 5e-324, 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8]
    values += [1 + 2.0**-24 + 2.0**-50, 2.0**-25 + 2.0**-60, np.inf, np.nan]
    with np.errstate(all="ignore"):
        one_sign = np.array(values).astype(lanes(element).dtype)
    return np.concatenate([one_sign, -one_sign])


def inputs(elements: Sequence[str], rng: np.random.Generator, most: int = 70000) -> list[Array]:
    """Return operands: all pairs of 8-bit values, all 16-bit values, or the edges with one another and random bits."""
    whole = [_all(e) if ELEMENTS[e].bits <= (8 if len(elements) > 1 else 16) else None for e in elements]
    columns = [edges(e) if w is None else w for e, w in zip(elements, whole, strict=True)]
    grid = [column.reshape(-1).copy() for column in np.meshgrid(*columns, indexing="ij")]
    if any(w is None for w in whole):
        grid = [np.concatenate([g, random(e, 3000, rng)]) for g, e in zip(grid, elements, strict=True)]
    return [column[:most] for column in grid]


def _all(element: str) -> "Array | None":
    of = lanes(element)
    if of.is_mask:
        return np.array([False, True])
    bits = of.element.bits
    return np.arange(1 << bits).astype(f"u{bits // 8}").view(of.dtype) if bits <= 16 else None


def random(element: str, count: int, rng: np.random.Generator) -> Array:
    """Return values with random bits, floats of all magnitudes."""
    of = lanes(element)
    if of.is_mask:
        return rng.integers(0, 2, count).astype(bool)
    return np.frombuffer(rng.bytes(count * of.bytes), of.dtype).copy()


def same_bits(of: Lanes, x: Array, y: Array, exact_nan: bool) -> bool:
    """Whether two arrays are equal; a NaN that arithmetic made equals any."""
    if of.is_float and not exact_nan:
        both = np.isnan(x) & np.isnan(y)
        x, y = np.where(both, 0, x), np.where(both, 0, y)
    return np.ascontiguousarray(x).tobytes() == np.ascontiguousarray(y).tobytes()


def scalar_kernel(case: Case) -> Kernel:
    """Return a kernel whose parameters x0, x1, ... are the operands and that stores the result."""
    kind, elements, attributes = case
    b = Builder(kind)
    x = [b.parameter(f"x{k}", e) for k, e in enumerate(elements)]
    made = b.make(kind, *x, **attributes)
    held = "u8" if made.type.is_mask else made.type.element.name
    b.buffer("y", held, 1, "write").store(0, made.convert("u8") if made.type.is_mask else made)
    return b.build()


def meant(case: Case, operands: Sequence[Array]) -> "tuple[Lanes, Array]":
    """Return type and value of a case by the meaning of its row; truths as u8."""
    kind, elements, attributes = case
    types = tuple(lanes(e) for e in elements)
    results = KINDS[kind].rule(types, attributes)
    meaning = KINDS[kind].meaning
    assert meaning is not None
    with np.errstate(all="ignore"):
        found = meaning(Site(types, results, attributes), *operands)
    return (lanes("u8"), found.astype(np.uint8)) if results[0].is_mask else (results[0], found)


def evaluate(kernel: Kernel, given: Mapping[str, Array]) -> Array:
    """Return what a kernel of scalars stores, for many inputs at once: lane-wise meanings take arrays of any length."""
    values = {p.value: given[p.name] for p in kernel.parameters}
    stored: list[Array] = []
    with np.errstate(all="ignore"):
        _evaluate(kernel.body, values, stored)
    (result,) = stored
    count = max((len(a) for a in given.values()), default=1)
    return np.broadcast_to(result, (count,)) if len(result) == 1 else result


def _evaluate(block: Block, values: dict[Value, Array], stored: list[Array]) -> None:
    for step in block.steps:
        operands = [values[v] for v in step.operands]
        if step.kind == "for":
            _loop(step, operands, values, stored)
        elif step.kind == "store":
            stored.append(operands[1])
        elif step.kind == "const":
            values[step.result] = array_of_bits(step.result.type, step.attributes["bits"])
        else:
            meaning, row = KINDS[step.kind].meaning, KINDS[step.kind]
            assert meaning is not None and row.form == "lane", step.kind
            types = tuple(v.type for v in step.operands), tuple(v.type for v in step.results)
            length = max(len(o) for o in operands)
            operands = [np.broadcast_to(o, (length,)) for o in operands]
            values[step.result] = meaning(Site(*types, step.attributes), *operands)


def _loop(step: Step, operands: list[Array], values: dict[Value, Array], stored: list[Array]) -> None:
    (block,), (low, high, stride), carries = step.blocks, (int(o[0]) for o in operands[:3]), operands[3:]
    for i in range(low, high, stride):
        values.update(zip(block.parameters, [np.array([i]), *carries], strict=True))
        _evaluate(block, values, stored)
        carries = [values[v] for v in block.yields]
    values.update(zip(step.results, carries, strict=True))


def vector_kernel(case: Case, count: int) -> Kernel:
    """Return a kernel that applies a case to vectors of `count` lanes from buffers x0, x1, ... into y."""
    kind, elements, attributes = case
    b = Builder(kind, ("n",))
    (n,) = b.dims
    b.divisible(n, count)
    views = [b.buffer(f"x{k}", "u8" if e == "bit" else e, n, "read") for k, e in enumerate(elements)]
    types = tuple(lanes(e) for e in elements)
    (result,) = kinds()[kind].rule(types, attributes)
    y = b.buffer("y", "u8" if result.is_mask else result.element.name, n, "write")
    with b.loop(0, n, count) as loop:
        (i,) = loop
        x = [
            _loaded(view.load(lanes(view.buffer.element.name).of(count), i), e)
            for view, e in zip(views, elements, strict=True)
        ]
        made = b.make(kind, *x, **attributes)
        y.store(i, made.convert("u8") if made.type.is_mask else made)
    return b.build()


def _loaded(x: Handle, element: str) -> Handle:
    return x.ne(0) if element == "bit" else x


def _by_result() -> dict[str, list[Case]]:
    """Return the cases by the element of their result; floats as integers only through `bits`, which has one NaN."""
    found: dict[str, list[Case]] = {}
    for case in cases():
        kind, elements, attributes = case
        (result,) = KINDS[kind].rule(tuple(lanes(e) for e in elements), attributes)
        if kind != "reinterpret":
            found.setdefault(result.element.name, []).append(case)
    return found


CASES_BY_RESULT = _by_result()
