"""The buffer that the assembler of a machine chip fills: bytes, labels, fix-ups, alignment, constants, marks.

A chip's assembler adds one method for each instruction. In goes a sequence of calls; out comes a `Code`: position
independent bytes, the constants behind the code. The same calls always give the same bytes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True, eq=False)
class Label:
    """A place in the code, known or not yet. name: for people; two labels may share it."""

    name: str = ""
    form: str = "label"


Patch: TypeAlias = Callable[[bytearray, int, int], None]  # (code, position of the field, position of the label)


@dataclass(frozen=True, slots=True)
class Code:
    """Finished machine code.

    data: the code, then the constants. size: bytes of code alone. alignment: what the address of the first byte must
    be a multiple of. places: byte offset of every named label. marks: what each stretch of code was made for, as
    (offset of its first byte, text), ascending. arguments: name and alignment of what each argument word holds, for
    code whose caller finds them by name.
    """

    data: bytes
    size: int
    alignment: int
    places: Mapping[str, int]
    marks: tuple[tuple[int, str], ...] = ()
    arguments: tuple[tuple[str, int], ...] = ()


class Assembler:
    """Collects code. A chip's assembler inherits it, fills `code`, and says what fills gaps (`padding`)."""

    def __init__(self) -> None:
        self.code = bytearray()
        self._places: dict[Label, int] = {}
        self._waiting: list[tuple[int, Label, Patch]] = []
        self._constants: dict[tuple[bytes, int], Label] = {}
        self._marks: list[tuple[int, str]] = []
        self._alignment = 1

    def padding(self, count: int) -> bytes:
        """Return `count` bytes that do nothing when run through."""
        return bytes(count)

    def label(self, name: str = "") -> Label:
        """Return a new label that has no place yet."""
        return Label(name)

    def place(self, label: Label) -> Label:
        """Put the label here; return it."""
        assert label not in self._places, ("placed twice", label, self._places[label])
        self._places[label] = len(self.code)
        return label

    def here(self, name: str = "") -> Label:
        """Return a new label placed here."""
        return self.place(Label(name))

    def position(self, label: Label) -> int | None:
        """Return the byte offset of the label, or None where it is not placed yet."""
        return self._places.get(label)

    def align(self, boundary: int) -> None:
        """Fill up with instructions that do nothing. boundary: a power of two, bytes."""
        assert boundary > 0 and boundary & (boundary - 1) == 0, ("not a power of two", boundary)
        self._alignment = max(self._alignment, boundary)
        self.code += self.padding(-len(self.code) % boundary)

    def mark(self, text: str) -> None:
        """Say what the code from here on is for, such as the id of a node."""
        self._marks.append((len(self.code), text))

    def constant(self, data: bytes, alignment: int = 0) -> Label:
        """Return the label of a constant behind the code; equal constants share one.

        alignment: bytes, a power of two; 0 takes the size rounded up to a power of two, at most 64.
        """
        boundary = alignment or min(64, 1 << max(0, len(data) - 1).bit_length())
        assert boundary & (boundary - 1) == 0, ("not a power of two", boundary)
        return self._constants.setdefault((data, boundary), Label("constant"))

    def refer(self, position: int, label: Label, patch: Patch) -> None:
        """Have the field at `position` patched when the label's place is known."""
        self._waiting.append((position, label, patch))

    def finish(self) -> Code:
        """Lay the constants behind the code, patch every reference, and return the result."""
        data = bytearray(self.code)
        places = dict(self._places)
        alignment = self._alignment
        for (constant, boundary), label in sorted(self._constants.items(), key=lambda item: -item[0][1]):
            data += bytes(-len(data) % boundary)
            places[label] = len(data)
            data += constant
            alignment = max(alignment, boundary)
        for position, label, patch in self._waiting:
            assert label in places, ("a label without a place", label.name)
            patch(data, position, places[label])
        named = {label.name: place for label, place in self._places.items() if label.name}
        return Code(bytes(data), len(self.code), alignment, named, tuple(self._marks))
