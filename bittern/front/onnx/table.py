"""The table of operations that files may use, and what a row's rule is given.

A row is one operation of one domain: its name, since which version of the domain it has this form, how many inputs it
takes, the attributes it understands, and a rule that writes it with an `Emitter`. Anything else a node says is refused:
nothing is passed over in silence. Rows are declared in the files beside this one with `@row(...)`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from bittern.front.onnx.emitter import Emitter
from bittern.front.onnx.values import Array, Coding, FileNode, Known, Refusal, Wire, coding_of

STANDARD, QONNX, MICROSOFT, LAST = "ai.onnx", "qonnx", "com.microsoft", "qonnx.channels_last"

DOMAINS: dict[str, str] = {  # what a file writes: the domain that it means
    "": STANDARD,
    "ai.onnx": STANDARD,
    "qonnx": QONNX,
    "qonnx.custom_op": QONNX,
    "qonnx.custom_op.general": QONNX,
    "onnx.brevitas": QONNX,
    "brevitas": QONNX,
    "finn": QONNX,
    "finn.custom_op.general": QONNX,
    "qonnx.custom_op.channels_last": LAST,
    "qonnx.custom_op.ChannelsLast": LAST,
    "finn.custom_op.channels_last": LAST,
    "com.microsoft": MICROSOFT,
}


@dataclass(frozen=True, slots=True)
class Site:
    """Where an operation stands. inputs: None where one is left out. version: of its domain. batch: the file's own."""

    node: FileNode
    inputs: tuple[Known | Wire | None, ...]
    version: int
    emitter: Emitter
    annotation: str = ""
    batch: int = 1

    def refuse(self, what: str, instead: str) -> NoReturn:
        """Refuse the operation."""
        raise Refusal(what, instead)

    def given(self, place: int) -> Known | Wire | None:
        """Return an input, or None where it is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def wire(self, place: int) -> Wire:
        """Return an input that must be computed."""
        found = self.given(place)
        if not isinstance(found, Wire):
            self.refuse(f"its input {place} is a constant", "compute it from an input of the network")
        return found

    def known(self, place: int, what: str) -> Array | None:
        """Return an input that must be a constant, or None where it is left out. what: people's word for it."""
        found = self.given(place)
        if found is None:
            return None
        if not isinstance(found, Known):
            self.refuse(f"its {what} is computed", f"a constant {what}")
        return found.array

    def constant(self, place: int, what: str) -> Array:
        """Return an input that must be there and a constant."""
        found = self.known(place, what)
        if found is None:
            self.refuse(f"it has no {what}", f"a constant {what}")
        return found

    def sizes(self, place: int, what: str) -> tuple[int, ...] | None:
        """Return an input that is a short list of whole numbers, or None where it is left out."""
        found = self.known(place, what)
        return None if found is None else whole_list(self, found, what)

    def data(self, place: int, what: str) -> Array:
        """Return a constant that is computed with, so it may not depend on the batch size."""
        found = self.given(place)
        if isinstance(found, Known) and found.of_batch:
            self.refuse(f"its {what} depends on the batch size", "compute with the sizes of one sample")
        return self.constant(place, what)

    def whole(self, name: str, default: int = 0) -> int:
        """Return an attribute that is a whole number."""
        value: int = self._attribute(name, default, int)
        return value

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is an f32 number."""
        value: float = self._attribute(name, default, float)
        return value

    def text(self, name: str, default: str) -> str:
        """Return an attribute that is text."""
        value: str = self._attribute(name, default, str)
        return value

    def wholes(self, name: str) -> tuple[int, ...] | None:
        """Return an attribute that is a list of whole numbers, or None."""
        value = self.node.attributes.get(name)
        if value is None or (isinstance(value, tuple) and all(type(each) is int for each in value)):
            return value
        self.refuse(f"its attribute `{name}` is no list of whole numbers", "what the standard says of it")

    def numbers(self, name: str) -> Array:
        """Return an attribute that is a list of numbers as f32; none where it is left out."""
        value = self.node.attributes.get(name, ())
        if not isinstance(value, tuple) or not all(type(each) is float for each in value):
            self.refuse(f"its attribute `{name}` is no list of numbers", "what the standard says of it")
        return np.array(value, np.float32)

    def _attribute(self, name: str, default: Any, wanted: type) -> Any:
        value = self.node.attributes.get(name, default)
        if type(value) is not wanted:
            self.refuse(f"its attribute `{name}` is no {_WORDS[wanted]}", "what the standard says of it")
        return value

    def axis(self, x: Wire, axis: int, extra: int = 0) -> int:
        """Return the place of a file's axis in a sample; the batch axis and axes that do not exist are refused."""
        rank = x.rank + extra
        if not -rank <= axis < rank:
            self.refuse(f"its axis {axis} is outside a tensor of {x.rank} axes", f"an axis below {rank}")
        place = axis % rank - x.is_batched
        if place < 0:
            self.refuse("it works along the batch axis", "one sample at a time: only axes behind the first one")
        return place

    def operand(self, array: Array, x: Wire, what: str) -> Array:
        """Return a constant as it meets one sample of x: without the batch axis, which it may not tell apart."""
        if array.ndim > x.rank or not array.size:
            self.refuse(f"its {what} has more axes than the computed tensor", "operands of equal rank")
        if x.is_batched and array.ndim == x.rank:
            if array.shape[0] not in (1, self.batch) or not (array == array[:1]).all():
                self.refuse(f"its {what} differs from sample to sample", "the same numbers for every sample")
            array = array[0]
        shape = (1,) * (len(x.shape) - array.ndim) + array.shape
        if any(size not in (1, own) for size, own in zip(shape, x.shape, strict=True)):
            sizes = f"{list(array.shape)} does not fit {list(x.shape)}"
            self.refuse(f"its {what} of shape {sizes}", "shapes that fit by broadcasting")
        return array

    def coding(self, x: Wire, scale: Array, zero: Array, axis: int | None = None) -> Coding:
        """Return the coding of a wire. axis: in a sample, along which a row of scales runs."""
        return coding_of(self._along(x, scale, axis, "scale"), self._along(x, zero, axis, "zero point"))

    def _along(self, x: Wire, array: Array, axis: int | None, what: str) -> Array:
        if array.size == 1:
            return array.reshape(())
        if axis is not None and array.ndim == 1:
            if len(array) != x.shape[axis]:
                self.refuse(f"its {what} has {len(array)} values for {x.shape[axis]} channels", "one for each channel")
            return array.reshape([-1 if place == axis else 1 for place in range(len(x.shape))])
        own = self.operand(array, x, what)
        return own.reshape((1,) * (len(x.shape) - own.ndim) + own.shape)


_LONGEST = 1024


def whole_list(site: Site, array: Array, what: str) -> tuple[int, ...]:
    """Return a constant as a list of whole numbers."""
    if array.dtype.kind not in "iu" or array.ndim > 1 or array.size > _LONGEST:
        site.refuse(f"its {what} is no list of whole numbers", f"at most {_LONGEST} i64 numbers")
    return tuple(int(value) for value in array.reshape(-1))


_WORDS: Mapping[type, str] = {int: "whole number", float: "number", str: "text"}

NUMBERS = "f32 i8 u8 i32 i64"
ANY = f"{NUMBERS} bit"

Rule = Callable[[Site], "Known | Wire | Sequence[Known | Wire]"]


@dataclass(frozen=True, slots=True)
class Row:
    """One operation. least, most: how many inputs. outputs: how many at most. attributes: those that it understands.

    since: the first version of its domain that has this form. doc: one line, for people. constants: whether the rule
    also takes operands that are all constants; otherwise `folding` does, or nothing. elements: of computed operands.
    """

    name: str
    domain: str
    since: int
    least: int
    most: int
    outputs: int
    attributes: frozenset[str]
    rule: Rule
    doc: str
    constants: bool
    elements: frozenset[str]


_ROWS: dict[tuple[str, str], list[Row]] = {}
_FAMILIES = (
    "elementwise",
    "normalising",
    "linear",
    "convolving",
    "pooling",
    "shaping",
    "resizing",
    "reducing",
    "quantising",
    "thresholding",
    "integer",
    "channels_last",
)


def row(
    names: str,
    doc: str,
    *,
    inputs: tuple[int, int] = (1, 1),
    attributes: str = "",
    outputs: int = 1,
    since: int = 1,
    domain: str = STANDARD,
    constants: bool = False,
    elements: str = "f32",
) -> Callable[[Rule], Rule]:
    """Declare the decorated function as the rule of operations of these names."""

    understood, taken = frozenset(attributes.split()), frozenset(elements.split())

    def declare(rule: Rule) -> Rule:
        for name in names.split():
            forms = _ROWS.setdefault((domain, name), [])
            forms.append(Row(name, domain, since, *inputs, outputs, understood, rule, doc, constants, taken))
            forms.sort(key=lambda each: each.since)
        return rule

    return declare


@cache
def rows() -> Mapping[tuple[str, str], list[Row]]:
    """Return the table: for each (domain, name) its forms, the oldest first. Families are loaded on first use."""
    for family in _FAMILIES:
        import_module(f"bittern.front.onnx.{family}")
    return _ROWS


def row_for(domain: str, name: str, version: int) -> Row | None:
    """Return the form of an operation in a version of its domain."""
    fitting = [each for each in rows().get((domain, name), ()) if each.since <= version]
    return fitting[-1] if fitting else None
