"""The x86-64 assembler: one method for each mnemonic of the instruction rows.

    a = Assembler()
    a.vpaddd(zmm[1], zmm[2], at(rdi, 64, rcx, 4))
    a.jne(loop)

Operands are those of `registers.py` and ints, results first. The first row that takes the operands and needs no
feature beyond those allowed is written; VEX comes before EVEX. A method of a word that Python reserves ends with `_`
(`and_`, `or_`, `not_`). Jumps to a label that lies behind take 8 bits where they reach; others 32, unless `Short`.
"""

from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from typing import Any

from bittern.chips.machine import assembler as machine
from bittern.chips.machine.assembler import Label
from bittern.chips.x86.emit import Emit, emitter
from bittern.chips.x86.registers import Short
from bittern.chips.x86.rows import Form, forms, immediate_form, mnemonics

# Instructions of 1 to 9 bytes that do nothing (Intel's manual, volume 2, NOP).
_NOPS = tuple(
    bytes.fromhex(text)
    for text in (
        "90", "6690", "0f1f00", "0f1f4000", "0f1f440000", "660f1f440000", "0f1f8000000000", "0f1f840000000000",
        "660f1f840000000000",
    )
)  # fmt: skip


class Assembler(machine.Assembler):
    """Writes x86-64 code. features: what may be used, as `features.py` names it; None allows all."""

    def __init__(self, features: frozenset[str] | None = None) -> None:
        super().__init__()
        self.features = features
        self._emitters = _emitters(features)

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Make the method of a mnemonic when it is first used."""
        mnemonic = name.rstrip("_")
        known = forms(mnemonic) if not name.startswith("_") else ()
        if not known:
            near = ", ".join(get_close_matches(mnemonic, mnemonics(), n=3))
            raise AttributeError(f"no row has the mnemonic {mnemonic}; near: {near}")
        setattr(Assembler, name, _method(mnemonic, known))
        made: Callable[..., None] = getattr(self, name)
        return made

    def padding(self, count: int) -> bytes:
        """Return `count` bytes of instructions that do nothing, few and long."""
        most = len(_NOPS)
        return _NOPS[-1] * (count // most) + (_NOPS[count % most - 1] if count % most else b"")

    def emitter(self, mnemonic: str, operands: tuple[Any, ...]) -> Emit:
        """Return what writes the mnemonic with operands of these forms, and remember it."""
        given = tuple(_form(operand) for operand in operands)
        emit = self._emitters.get((mnemonic, *given))
        if emit is None:
            emit = emitter(choose(mnemonic, given, self.features), given)
            self._emitters[(mnemonic, *given)] = emit
        return emit


@cache
def _emitters(features: frozenset[str] | None) -> dict[tuple[str, ...], Emit]:
    """Return the emitters that assemblers with these features have made so far: by mnemonic and forms of operands."""
    return {}


def _form(operand: Any) -> str:
    if type(operand) is int:
        return immediate_form(operand)
    form: str = getattr(operand, "form", type(operand).__name__)
    return form


def choose(mnemonic: str, given: tuple[str, ...], features: frozenset[str] | None = None) -> Form:
    """Return the first form of the mnemonic that takes operands of the given forms and needs no other features.

    Wrong operands, memory of unsaid size where several sizes are possible, and missing features are our own faults.
    """
    matching = [form for form in forms(mnemonic) if _takes(form, given)]
    allowed = [form for form in matching if features is None or form.features <= features]
    what = f"{mnemonic} {' '.join(given)}"
    if not matching:
        rows = "; ".join(dict.fromkeys(f"{form} ({form.length} bytes)" for form in forms(mnemonic)))
        raise AssertionError(f"no row takes {what}. Rows: {rows}")
    if not allowed:
        needs = " or ".join(sorted({"+".join(sorted(form.features - (features or set()))) for form in matching}))
        raise AssertionError(f"{what} needs {needs}")
    unsized = [index for index, name in enumerate(given) if name in ("m", "b")]
    if unsized and len({form.operands[unsized[0]].memory for form in allowed}) > 1:
        raise AssertionError(f"say the size of the memory in {what}")
    return allowed[0]


def _takes(form: Form, given: tuple[str, ...]) -> bool:
    return len(form.operands) == len(given) and all(name in form.accepts(index) for index, name in enumerate(given))


def _method(mnemonic: str, known: tuple[Form, ...]) -> Callable[..., None]:
    """Return the method of a mnemonic, with as little work a call as its rows allow."""
    counts = {len(form.operands) for form in known}
    places = {operand.place for form in known for operand in form.operands}
    if places & {"D"}:
        return _jump(mnemonic)
    fixed = {2: _two, 3: _three, 4: _four}.get(next(iter(counts))) if len(counts) == 1 else None
    if fixed is not None:
        return fixed(mnemonic)

    def method(self: Assembler, *operands: Any) -> None:
        try:
            emit = self._emitters[(mnemonic, *[o.form if type(o) is not int else immediate_form(o) for o in operands])]
        except (KeyError, AttributeError):
            emit = self.emitter(mnemonic, operands)
        emit(self, operands)

    return method


def _two(mnemonic: str) -> Callable[..., None]:
    def method(self: Assembler, a: Any, b: Any) -> None:
        try:
            emit = self._emitters[(mnemonic, a.form, b.form if type(b) is not int else immediate_form(b))]
        except (KeyError, AttributeError):
            emit = self.emitter(mnemonic, (a, b))
        emit(self, (a, b))

    return method


def _three(mnemonic: str) -> Callable[..., None]:
    def method(self: Assembler, a: Any, b: Any, c: Any) -> None:
        try:
            emit = self._emitters[(mnemonic, a.form, b.form, c.form if type(c) is not int else immediate_form(c))]
        except (KeyError, AttributeError):
            emit = self.emitter(mnemonic, (a, b, c))
        emit(self, (a, b, c))

    return method


def _four(mnemonic: str) -> Callable[..., None]:
    def method(self: Assembler, a: Any, b: Any, c: Any, d: Any) -> None:
        last = d.form if type(d) is not int else immediate_form(d)
        try:
            emit = self._emitters[(mnemonic, a.form, b.form, c.form, last)]
        except (KeyError, AttributeError):
            emit = self.emitter(mnemonic, (a, b, c, d))
        emit(self, (a, b, c, d))

    return method


def _jump(mnemonic: str) -> Callable[..., None]:
    """Return the method of a jump: to a label behind that 8 bits reach it takes the short form."""
    has_short = any(form.accepts(0) == {"short"} for form in forms(mnemonic))

    def method(self: Assembler, target: Any) -> None:
        if has_short and type(target) is Label:
            place = self.position(target)
            if place is not None and place - len(self.code) - 2 >= -128:  # both parts of a short jump are one byte
                target = Short(target)
        self.emitter(mnemonic, (target,))(self, (target,))

    return method
