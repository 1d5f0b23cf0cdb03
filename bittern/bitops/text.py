"""Print a kernel in its own readable form: a step a line, blocks indented.

kernel scale(n) where n % 16 == 0
  read  x: f32[n] align 64
  write y: f32[n] align 64
  for %3 in %0..%1 by %2
    %4: f32x16 = load x[%3]
    ...
"""

from collections.abc import Iterator, Sequence
from typing import Any

from bittern.bitops.kernel import Block, Kernel, Step, Value
from bittern.bitops.lanes import Lanes, array_of_bits
from bittern.types.dims import Dim


def text(kernel: Kernel) -> str:
    """Return the kernel as text that ends with a line break."""
    return "\n".join(_lines(kernel)) + "\n"


def step_text(step: Step, kernel: Kernel) -> str:
    """Return a step without its blocks as one line."""
    return _head(step, kernel.symbols)


def _lines(kernel: Kernel) -> Iterator[str]:
    facts = [f"{top.text(kernel.symbols)} % {bottom.text(kernel.symbols)} == 0" for top, bottom in kernel.divides]
    facts += [f"{least.text(kernel.symbols)} >= 0" for least in kernel.at_least]
    yield f"kernel {kernel.name}({', '.join(kernel.symbols)})" + (" where " + ", ".join(facts) if facts else "")
    for b in kernel.buffers:
        yield f"  {b.access} {b.name}: {b.element.name}[{b.size.text(kernel.symbols)}] align {b.align}"
    for p in kernel.parameters:
        low, high = ("" if d is None else d.text(kernel.symbols) for d in (p.low, p.high))
        yield f"  given {p.value} = {p.name}: {p.value.type}" + (f" in {low}..={high}" if low or high else "")
    yield from _block(kernel.body, kernel.symbols, "  ")


def _block(block: Block, symbols: Sequence[str], indent: str) -> Iterator[str]:
    for step in block.steps:
        yield indent + _head(step, symbols)
        for k, inner in enumerate(step.blocks):
            if k:
                yield indent + ("else" if step.kind == "if" else "do")
            yield from _block(inner, symbols, indent + "  ")
    if block.yields:
        yield f"{indent}yield {_values(block.yields)}"


def _values(values: Sequence[Value]) -> str:
    return ", ".join(map(str, values))


def _head(step: Step, symbols: Sequence[str]) -> str:
    made = ", ".join(f"{v}: {v.type}" for v in step.results)
    body = _body(step, symbols)
    label = f"  # {step.label}" if step.label else ""
    return (f"{made} = {body}" if made else body) + label


def _body(step: Step, symbols: Sequence[str]) -> str:
    operands, attributes = step.operands, step.attributes
    if step.kind in ("for", "parallel"):
        low, high, stride = operands[:3]
        index, *carries = step.blocks[0].parameters if step.blocks else (low,)
        carried = ", ".join(f"{c} = {o}" for c, o in zip(carries, operands[3:], strict=False))
        return f"{step.kind} {index} in {low}..{high} by {stride}" + (f" with {carried}" if carried else "")
    if step.kind == "while":
        starts = [f"({_values(b.parameters)})" for b in step.blocks]
        return f"while {' '.join(starts)} limit {operands[0]} from ({_values(operands[1:])})"
    if step.kind == "const":
        return f"const {constant_text(step.results[0].type, attributes['bits'])}"
    if step.kind == "dim":
        return f"dim {attributes['size'].text(symbols)}"
    if "buffer" in attributes:
        offset = attributes.get("offset", 0)
        at = f"{attributes['buffer']}[{operands[0]}{f' + {offset} bytes' if offset else ''}]"
        bits = f" bits {attributes['bits']}" if "bits" in attributes else ""
        rest = f", {_values(operands[1:])}" if len(operands) > 1 else ""
        return f"{step.kind} {at}{bits}{rest}"
    named = [f"{k} {_attribute(v, symbols)}" for k, v in attributes.items() if k != "types"]
    return " ".join([step.kind, *([_values(operands)] if operands else []), *named])


def _attribute(value: Any, symbols: Sequence[str]) -> str:
    if isinstance(value, Dim):
        return value.text(symbols)
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value)


def constant_text(of: Lanes, bits: tuple[int, ...]) -> str:
    """Return the lanes of a constant as numbers (of f16 and bf16: as their bits)."""
    numbers = [_number(of, b) for b in bits]
    return numbers[0] if len(numbers) == 1 else f"[{', '.join(numbers)}]"


def _number(of: Lanes, bits: int) -> str:
    if of.element.is_float and not of.is_float:
        return f"{bits:#x}"
    value = array_of_bits(of.of(1), (bits,))[0].item()
    return repr(value).lower() if isinstance(value, bool) else repr(value)
