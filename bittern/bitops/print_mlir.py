"""Print a kernel in the generic form of MLIR, dialect `bitops`, so that tools for MLIR read it.

A kind is an operation of its name, a block a region, what a block ends with `bitops.yield`. A buffer is a memref of
unknown extent; its size, a polynomial, is a string, as is every dimension. Constants of floats are written as their
bits. Labels become locations. (`mlir-opt --allow-unregistered-dialect` accepts it; MLIR language reference, "Generic
operation format".)
"""

from collections.abc import Iterator, Sequence
from typing import Any

from bittern.bitops.kernel import Block, Kernel, Step
from bittern.bitops.lanes import Lanes, array_of_bits
from bittern.types.dims import Dim
from bittern.types.elements import Element, Kind


def mlir(kernel: Kernel) -> str:
    """Return the kernel as a module with one operation `bitops.kernel`, which ends with a line break."""
    return "\n".join(_module(kernel)) + "\n"


def _module(kernel: Kernel) -> Iterator[str]:
    arguments = [f"%{b.name}: memref<?x{_element(b.element)}>" for b in kernel.buffers]
    arguments += [f"{p.value}: {_type(p.value.type)}" for p in kernel.parameters]
    names = kernel.symbols
    attributes = {
        "sym_name": _text(kernel.name),
        "symbols": _texts(names),
        "sizes": _texts([b.size.text(names) for b in kernel.buffers]),
        "access": _texts([b.access for b in kernel.buffers]),
        "align": f"array<i64{':' if kernel.buffers else ''} {', '.join(str(b.align) for b in kernel.buffers)}>",
        "divides": _texts([f"{top.text(names)} % {bottom.text(names)}" for top, bottom in kernel.divides]),
        "at_least": _texts([least.text(names) for least in kernel.at_least]),
    }
    yield '"builtin.module"() ({'
    yield '  "bitops.kernel"() ({'
    yield f"  ^bb0({', '.join(arguments)}):" if arguments else "  ^bb0:"
    yield from _body(kernel.body, kernel, "    ")
    yield "  }) {" + ", ".join(f"{k} = {v}" for k, v in attributes.items()) + "} : () -> ()"
    yield "}) : () -> ()"


def _body(block: Block, kernel: Kernel, indent: str) -> Iterator[str]:
    for step in block.steps:
        yield from _step(step, kernel, indent)
    values = ", ".join(map(str, block.yields))
    yield f'{indent}"bitops.yield"({values}) : ({_types([v.type for v in block.yields])}) -> ()'


def _step(step: Step, kernel: Kernel, indent: str) -> Iterator[str]:
    made = ", ".join(map(str, step.results))
    operands, types = [str(v) for v in step.operands], [_type(v.type) for v in step.operands]
    name = step.attributes.get("buffer")
    if name is not None:
        operands.insert(0, f"%{name}")
        types.insert(0, f"memref<?x{_element(kernel.buffer(name).element)}>")
    head = f'{indent}{made + " = " if made else ""}"bitops.{step.kind}"({", ".join(operands)})'
    given = [f"{k} = {v}" for k, v in _attributes(step, kernel.symbols)]
    results = _types([v.type for v in step.results])
    tail = f"{' {' + ', '.join(given) + '}' if given else ''} : ({', '.join(types)}) -> ({results})"
    tail += f" loc({_text(step.label)})" if step.label else ""
    if not step.blocks:
        yield head + tail
        return
    yield head + " ({"
    for k, block in enumerate(step.blocks):
        if k:
            yield indent + "}, {"
        parameters = ", ".join(f"{p}: {_type(p.type)}" for p in block.parameters)
        yield f"{indent}^bb0({parameters}):" if parameters else f"{indent}^bb0:"
        yield from _body(block, kernel, indent + "  ")
    yield indent + "})" + tail


def _attributes(step: Step, symbols: Sequence[str]) -> Iterator[tuple[str, str]]:
    if step.kind == "const":
        yield "value", _constant(step.result.type, step.attributes["bits"])
        return
    for name, value in step.attributes.items():
        if name not in ("buffer", "type", "types"):
            yield name, _attribute(value, symbols)


def _attribute(value: Any, symbols: Sequence[str]) -> str:
    if isinstance(value, Dim):
        return _text(value.text(symbols))
    if isinstance(value, tuple):
        return f"array<i64: {', '.join(map(str, value))}>"
    return f"{value} : i64" if isinstance(value, int) else _text(str(value))


def _constant(of: Lanes, bits: tuple[int, ...]) -> str:
    if of.is_scalar:
        number = _number(of, bits[0])
        return number if of.is_mask else f"{number} : {_type(of)}"
    numbers = [_number(of, b) for b in bits]
    return f"dense<{numbers[0] if len(numbers) == 1 else '[' + ', '.join(numbers) + ']'}> : {_type(of)}"


def _number(of: Lanes, bits: int) -> str:
    if of.element.is_float:
        return f"0x{bits:0{of.element.bits // 4}X}"
    value = array_of_bits(of.of(1), (bits,))[0].item()
    return str(value).lower()


def _type(of: Lanes) -> str:
    element = _element(of.element)
    return element if of.is_scalar else f"vector<{of.count}x{element}>"


def _types(types: Sequence[Lanes]) -> str:
    return ", ".join(_type(t) for t in types)


def _element(element: Element) -> str:
    if element.kind is Kind.BIT:
        return "i1"
    if element.name == "index" or element.is_float:
        return element.name
    return f"{'s' if element.kind is Kind.SIGNED else 'u'}i{element.bits}"


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _texts(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"
