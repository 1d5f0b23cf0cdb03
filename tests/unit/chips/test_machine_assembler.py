"""The buffer of an assembler: labels, references, alignment, constants, marks."""

import pytest

from bittern.chips.machine.assembler import Assembler


def word(code: bytearray, position: int, place: int) -> None:
    """Patch a byte with the distance to a place."""
    code[position] = place - position & 0xFF


def test_references_are_patched_in_both_directions() -> None:
    a = Assembler()
    back, ahead = a.here("back"), a.label("ahead")
    for label in (ahead, back):
        a.refer(len(a.code), label, word)
        a.code += b"\0"
    assert a.position(back) == 0 and a.position(ahead) is None
    a.place(ahead)
    code = a.finish()
    assert code.data == b"\x02\xff" and dict(code.places) == {"back": 0, "ahead": 2}


def test_a_label_has_one_place() -> None:
    a = Assembler()
    label = a.here("twice")
    with pytest.raises(AssertionError, match="placed twice"):
        a.place(label)
    a.refer(0, a.label("lost"), word)
    with pytest.raises(AssertionError, match="without a place.*lost"):
        a.finish()


def test_constants_are_shared_and_aligned() -> None:
    a = Assembler()
    a.code += b"\x90" * 3
    small, large = a.constant(b"\1\2\3\4"), a.constant(bytes(range(64)))
    assert a.constant(b"\1\2\3\4") is small and a.constant(b"\1\2\3\4", 16) is not small
    a.refer(0, large, word)
    code = a.finish()
    assert code.size == 3 and code.alignment == 64 and code.data[0] == 64
    assert code.data[64:128] == bytes(range(64)) and code.data.count(b"\1\2\3\4") == 3  # one inside the large one
    assert len(code.data) % 4 == 0


def test_alignment_and_marks() -> None:
    a = Assembler()
    a.mark("first")
    a.code += b"\x90" * 5
    a.align(16)
    a.mark("second")
    code = a.finish()
    assert code.size == 16 and code.alignment == 16 and code.marks == ((0, "first"), (16, "second"))
    with pytest.raises(AssertionError, match="not a power of two"):
        a.align(12)


def test_finishing_twice_gives_the_same() -> None:
    a = Assembler()
    a.refer(0, a.constant(b"abc"), word)
    a.code += b"\0\0"
    assert a.finish() == a.finish()
