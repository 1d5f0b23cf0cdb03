"""Whatever a `.keg` file does not prove is refused by its own code."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cbor2
import hypothesis.strategies as st
import numpy as np
import pytest
from keg_files import forge, parts, refused, small

from bittern.base.errors import BitternError
from bittern.base.hashing import digest
from bittern.graph import keg_format as form
from bittern.graph.keg import read_keg, write_keg
from bittern.graph.keg_tables import Tables
from bittern.graph.node import Function, Node, Parameter, blob, const_blob, node, param
from bittern.types.dims import dim, symbol
from bittern.types.elements import ELEMENTS, F32, I32, U8
from bittern.types.values import Tuple, tensor

seeds = st.integers(0, 2**32)
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture
def keg(tmp_path: Path) -> Path:
    path = tmp_path / "a.keg"
    write_keg(path, {"main": small()}, notes={"made by": "a test"})
    return path


# --- what is refused


@pytest.mark.req("K005")
def test_every_truncation_is_refused(keg: Path) -> None:
    data = keg.read_bytes()
    for length in range(len(data)):
        keg.write_bytes(data[:length])
        refused(keg, "F204")


@pytest.mark.req("K005")
def test_every_flipped_byte_is_refused(keg: Path) -> None:
    data = bytearray(keg.read_bytes())
    found = set()
    for place in range(len(data)):
        for mask in (1 << place % 8,):
            data[place] ^= mask
            keg.write_bytes(data)
            with pytest.raises(BitternError) as caught:
                read_keg(keg)
            found.add(caught.value.code)
            data[place] ^= mask
    assert found == {"F202", "F203", "F204", "F205", "F206", "F215", "F216"}


def test_a_reader_that_skips_the_frame_is_caught(keg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: without the digest of the header, some flips would pass."""
    data = keg.read_bytes()
    place = data.index(b"a test")
    flipped = data[:place] + b"A" + data[place + 1 :]
    keg.write_bytes(flipped)
    refused(keg, "F206")
    monkeypatch.setattr("bittern.graph.keg_read.hashlib", SimpleNamespace(sha256=lambda _: _Any()))
    assert read_keg(keg).notes == {"made by": "A test"}


class _Any:
    """A digest that equals everything."""

    def digest(self) -> "_Any":
        return self

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


def test_frame_codes(keg: Path) -> None:
    data = keg.read_bytes()
    cases = [
        (b"", "F204", "0 bytes"),
        (b"GGUF" + data[4:], "F202", "GGUF"),
        (data.replace(b"\r\n", b"\n", 1), "F202", "not with"),
        (data[:8] + (2).to_bytes(8, "little") + data[16:], "F203", "version 2"),
        (data[:16] + (2**63).to_bytes(8, "little") + data[24:], "F204", "header"),
        (data[:24] + (2**63).to_bytes(8, "little") + data[32:], "F204", str(2**63)),
        (data + b"\0", "F205", "1 bytes follow"),
        (data + bytes(64), "F205", "64 bytes follow"),
    ]
    for content, code, words in cases:
        keg.write_bytes(content)
        refused(keg, code, words)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "missing.keg", "F201")
    refused(tmp_path, "F201")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        refused(tmp_path / "pipe", "F201", "regular")


def entry(header: dict[str, Any], kind: str) -> list[Any]:
    """Return the record of the first node of a kind, or of the first function."""
    return next(row for row in header["entries"] if row[0] == kind or row[2] == kind)


def rekeyed(header: dict[str, Any], row: list[Any], type_: object, attributes: tuple[Any, ...]) -> None:
    """Give a record the id of its meaning, computed here."""
    inputs = tuple(header["entries"][i][1] for i in row[3])
    row[1] = digest(("node", row[2], inputs, attributes, type_))


EDITS: dict[str, tuple[str, str, Edit]] = {
    "not a map": ("F209", "no map", lambda h: h.pop("notes")),
    "unknown key": ("F209", "no map", lambda h: h.update(more=1)),
    "forward input": ("F211", "later", lambda h: entry(h, "add")[3].__setitem__(0, len(h["entries"]) - 1)),
    "input is itself": (
        "F211", "own", lambda h: entry(h, "add")[3].__setitem__(0, h["entries"].index(entry(h, "add")))
    ),
    "cycle of functions": (
        "F211", "later", lambda h: entry(h, "call")[5].update(function={"function": len(h["entries"]) - 1})
    ),
    "no such input": ("F210", "no row 999", lambda h: entry(h, "add")[3].__setitem__(0, 999)),
    "negative input": ("F209", "-1", lambda h: entry(h, "add")[3].__setitem__(0, -1)),
    "input is true": ("F209", "True", lambda h: entry(h, "add")[3].__setitem__(0, True)),
    "function as input": ("F209", "function as input", lambda h: entry(h, "add")[3].__setitem__(0, _function_at(h))),
    "wrong id": ("F212", "add", lambda h: entry(h, "add").__setitem__(1, bytes(32))),
    "short id": ("F212", "add", lambda h: entry(h, "add").__setitem__(1, b"")),
    "id is text": ("F212", "neg", lambda h: entry(h, "neg").__setitem__(1, "x")),
    "changed kind": ("F212", "sub", lambda h: entry(h, "add").__setitem__(2, "sub")),
    "changed attribute": ("F212", "param", lambda h: entry(h, "param")[5].update(index=7)),
    "changed input order": ("F212", "add", lambda h: entry(h, "add")[3].reverse()),
    "changed mode": ("F212", "function", lambda h: entry(h, "function")[3][0].__setitem__(1, "own")),
    "unknown mode": ("F209", "mine", lambda h: entry(h, "function")[3][0].__setitem__(1, "mine")),
    "stated effect": ("F224", "clock", lambda h: entry(h, "add").__setitem__(6, ["clock"])),
    "stated ownership": ("F224", "own", lambda h: entry(h, "add").__setitem__(7, ["own", ""])),
    "stated policy": ("F224", "creative", lambda h: entry(h, "add").__setitem__(8, "creative")),
    "short record": ("F209", "neither", lambda h: entry(h, "neg").pop()),
    "strange record": ("F209", "neither", lambda h: h["entries"].__setitem__(0, {"node": 1})),
    "unknown element": ("F209", "no type", lambda h: h["types"][0].__setitem__(1, "f33")),
    "unknown space": ("F209", "no type", lambda h: h["types"][0].__setitem__(3, "moon")),
    "forward type": ("F211", "`types`", lambda h: h["types"].insert(0, ["tuple", [1]])),
    "forward dim": ("F211", "`dims`", lambda h: h["dims"].insert(0, [[1, [["/", 1, 1]]]])),
    "dim not normal": ("F209", "normal form", lambda h: h["dims"].__setitem__(0, [[1, []], [2, []]])),
    "dim of zero": ("F209", "normal form", lambda h: h["dims"].__setitem__(0, [[0, []]])),
    "same dim twice": ("F217", "`dims`", lambda h: h["dims"].append(h["dims"][0])),
    "same type twice": ("F217", "`types`", lambda h: h["types"].append(h["types"][0])),
    "same entry twice": ("F217", "again", lambda h: h["entries"].append(h["entries"][0])),
    "unused dim": ("F218", "`dims`", lambda h: h["dims"].append([[77, []]])),
    "unused type": ("F218", "`types`", lambda h: h["types"].append(["token", "net"])),
    "unused entry": ("F218", "`entries`", lambda h: h["roots"].clear()),
    "root is a node": ("F209", "no function", lambda h: h["roots"].update(main=0)),
    "root is missing": ("F210", "root", lambda h: h["roots"].update(main=999)),
    "attribute of two keys": ("F209", "cannot be", lambda h: entry(h, "param")[5].update(index={"dim": 0, "type": 0})),
    "attribute of null": ("F209", "cannot be", lambda h: entry(h, "param")[5].update(index=None)),
    "no such blob": ("F210", "blobs", lambda h: entry(h, "const")[5].update(data={"blob": 5})),
    "blob elsewhere": ("F214", "not at 0", lambda h: h["blobs"][0].__setitem__(2, 64)),
    "blob too long": ("F214", "past the end", lambda h: h["blobs"][0].__setitem__(1, 65)),
    "blob left out": ("F214", "end at", lambda h: h["blobs"].clear()),
    "blob shorter": ("F216", "not zero", lambda h: h["blobs"][0].__setitem__(1, 2)),
    "blob of other bytes": ("F215", "other bytes", lambda h: h["blobs"][0].__setitem__(0, bytes(32))),
    "blob twice": ("F217", "order", lambda h: h["blobs"].append(h["blobs"][0])),
    "negative blob": ("F209", "cannot be", lambda h: h["blobs"][0].__setitem__(1, -1)),
    "labels of nothing": ("F209", "belong", lambda h: h["labels"][-1].__setitem__(0, 999)),
    "labels twice": ("F209", "order", lambda h: h["labels"].append(h["labels"][-1])),
    "label of no node": ("F210", "999", lambda h: h["labels"][-1][4].append([999, "x"])),
    "label of a number": ("F209", "no text", lambda h: h["labels"][-1][4].append([0, 1])),
    "line of no file": ("F209", "line", lambda h: h["labels"][-1][5].append([0, 9, 1])),
    "unused file name": ("F218", "lines", lambda h: h["lines"].append("z.btn")),
    "notes of numbers": ("F209", "notes", lambda h: h["notes"].update(x=1)),
}  # fmt: skip


def _function_at(header: dict[str, Any]) -> int:
    return int(header["entries"].index(entry(header, "function")))


@pytest.mark.req("K005")
@pytest.mark.parametrize("name", EDITS)
def test_a_forged_header_is_refused(keg: Path, name: str) -> None:
    code, words, edit = EDITS[name]
    header, blobs = parts(keg)
    edit(header)
    forge(keg, header, blobs)
    refused(keg, code, words)


def test_forging_itself_changes_nothing(keg: Path) -> None:
    before = keg.read_bytes()
    forge(keg, *parts(keg))
    assert keg.read_bytes() == before


@pytest.mark.req("K005")
def test_a_reader_that_skips_the_id_check_is_caught(keg: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: without the check a changed program is accepted; so the cases above can fail."""
    header, blobs = parts(keg)
    entry(header, "add")[2] = "sub"
    forge(keg, header, blobs)
    monkeypatch.setattr(Tables, "_expect_id", lambda *_: None)
    assert read_keg(keg).functions["main"].id != small().id


def test_a_wrong_type_is_refused_although_its_id_is_right(keg: Path) -> None:
    x = param(0, tensor(F32, 3))
    wrong: list[tuple[Node, str, str]] = [
        (node("neg", [x], {}, tensor(F32, 4)), "F213", "f32[4]"),
        (node("tuple", [x], {}, tensor(F32, 3)), "F213", "tuple"),
        (node("item", [x], {"index": 0}, x.type), "F213", "a tuple"),
        (node("item", [node("tuple", [x], {}, Tuple((x.type,)))], {"index": 1}, x.type), "F213", "from 0 to 0"),
        (node("param", [], {"index": 1}, x.type), "F213", "from 0 to 0"),
        (param(0, tensor(F32, 4)), "F213", "parameter 0"),
        (param(0, tensor(F32, symbol(0))), "F213", "dimension parameter 0"),
        (node("polish", [x], {}, x.type), "F219", "polish"),
        (node("if", [x], {"then": small(), "otherwise": small()}, x.type), "F213", "the condition"),
        (node("call", [x], {"function": small(), "dims": (dim(1),)}, small().result.type), "F213", "dimension arg"),
        (node("call", [], {"function": small(), "dims": ()}, small().result.type), "F213", "0 arguments"),
        (node("map", [x], {"body": small(), "count": dim(3), "mapped": 2}, x.type), "F213", "mapped"),
        (node("map", [x], {"body": small(), "count": dim(4), "mapped": 1}, x.type), "F213", "items"),
        (node("for", [x, x], {"body": small(), "carries": 1}, x.type), "F213", "low bound"),
        (node("while", [x], {"body": small(), "carries": 1}, x.type), "F213", "attributes"),
        (const_blob(blob(b"abc"), tensor(U8, 4)), "F213", "3 bytes"),
        (const_blob(blob(b"abc"), tensor(U8, symbol(0))), "F213", "dimension parameter"),
        (const_blob(blob(bytes(20)), tensor(ELEMENTS["q4_1"], 33)), "F213", "blocks"),
        (const_blob(blob(b"\x02"), tensor(ELEMENTS["bit"], 1)), "F220", "no bit"),
        (const_blob(blob(b"\x00"), tensor(ELEMENTS["b1"], 1)), "F220", "no b1"),
        (const_blob(blob(b"\x10"), tensor(ELEMENTS["u4"], 1)), "F220", "no u4"),
        (const_blob(blob(b"\xf7"), tensor(ELEMENTS["i4"], 1)), "F220", "no i4"),
    ]
    for bad, code, words in wrong:
        whole = node("tuple", [bad, x], {}, Tuple((bad.type, x.type)))
        write_keg(keg, {"main": Function(0, (Parameter(x.type),), whole)})
        refused(keg, code, words)


def test_ops_of_ideal_bodies_stand_there_alone(keg: Path) -> None:
    pytest.importorskip("bittern.ops.real")
    x = param(0, tensor(F32, 3))
    real = Function(0, (Parameter(x.type),), node("exp", [x], {}, x.type))
    write_keg(keg, {"main": Function(0, real.params, x, ideal=real)})
    assert read_keg(keg).functions["main"].ideal is not None
    write_keg(keg, {"main": real})
    refused(keg, "F219", "exp", "ordinary body")


def test_an_op_of_wrong_operands_is_refused(keg: Path) -> None:
    pytest.importorskip("bittern.ops.shape")
    x, y = param(0, tensor(F32, 3)), param(1, tensor(I32, 3))
    for bad in (
        node("add", [x, y], {}, x.type),
        node("add", [x], {}, x.type),
        node("reshape", [x], {"shape": (dim(4),)}, tensor(F32, 4)),
        node("reshape", [x], {}, x.type),
        node("reshape", [x], {"shape": 3}, x.type),
        node("concat", [x, x], {"axis": "first"}, tensor(F32, 6)),
    ):
        write_keg(keg, {"main": Function(0, (Parameter(x.type), Parameter(y.type)), bad)})
        refused(keg, "F213", bad.kind)


# --- CBOR


@pytest.mark.parametrize(
    ("header", "code", "words"),
    [
        (b"", "F207", "ends inside"),
        (b"\xa0\x00", "F207", "follow"),
        (b"\xa0", "F209", "no map"),
        (b"\x80", "F209", "no map"),
        (b"\x18\x17", "F207", "longer than"),
        (b"\x19\x00\xff", "F207", "longer than"),
        (b"\x1b" + bytes(3) + b"\x01" + bytes(4), "F207", "no map")
        if False
        else (b"\x1a\x00\x00\xff\xff", "F207", "longer"),
        (b"\x9f\xff", "F207", "no definite"),
        (b"\xbf\xff", "F207", "no definite"),
        (b"\x7f\x60\xff", "F207", "no definite"),
        (b"\x1c", "F207", "no definite"),
        (b"\xfb" + bytes(8), "F207", "longer"),
        (b"\xfb\x3f\xf0" + bytes(6), "F207", "kind that a header has not"),
        (b"\xc2\x41\x01", "F207", "kind that a header has not"),
        (b"\xd8\x23\x63(a)", "F207", "kind that a header has not"),
        (b"\xf7", "F207", "kind that a header has not"),
        (b"\xe0", "F207", "kind that a header has not"),
        (b"\x9b" + b"\xff" * 8, "F207", "no room"),
        (b"\xbb\x7f" + b"\xff" * 7, "F207", "no room"),
        (b"\x5b\x7f" + b"\xff" * 7, "F207", "past the end"),
        (b"\x62\xff\xfe", "F207", "decoded"),
        (b"\xa2\x61a\x01\x61a\x02", "F207", "repeated"),
        (b"\xa2\x61b\x01\x61a\x02", "F207", "out of order"),
        (b"\xa1\x80\x01", "F2", ""),
        (b"\x81" * 30 + b"\x80", "F208", "nested"),
    ],
)
def test_a_header_that_is_not_canonical_is_refused(tmp_path: Path, header: bytes, code: str, words: str) -> None:
    path = tmp_path / "a.keg"
    forge(path, header, b"")
    with pytest.raises(BitternError) as caught:
        read_keg(path)
    assert caught.value.code.startswith(code), caught.value
    assert words in caught.value.what, caught.value


def test_the_scan_accepts_what_canonical_cbor_writes() -> None:
    rng = np.random.default_rng(1)
    for value in (0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1, -1, -25, -(2**63)):
        form.scan(cbor2.dumps({"a": [value, str(value), None, True, b"x" * (value % 999)]}, canonical=True), 1 << 20)
    for _ in range(200):
        tree = [int(v) for v in rng.integers(-(2**62), 2**62, 5) >> rng.integers(0, 62, 5)]
        form.scan(cbor2.dumps(tree, canonical=True), 1 << 20)


def test_a_small_file_never_takes_much_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.keg"
    with pytest.raises(BitternError, match="F208"):
        form.scan(b"\x9a" + (200_000).to_bytes(4, "big") + b"\x80" * 200_000, 10 << 20)
    for count, row in ((40_000, b"\x80"), (40_000, b"\xa0"), (40_000, b"\x41a"), (40_000, b"\xa1\x60\x00")):
        forge(path, b"\x9a" + count.to_bytes(4, "big") + row * count, b"")
        tracemalloc.start()
        with pytest.raises(BitternError):
            read_keg(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= 4 * path.stat().st_size + (64 << 20), peak
        assert peak < 320 * count


def test_rows_that_double_are_refused_before_they_grow(keg: Path) -> None:
    header, blobs = parts(keg)
    first = len(header["types"]) - 1
    header["types"] += [["tuple", [first + i, first + i]] for i in range(40)]
    forge(keg, header, blobs)
    refused(keg, "F208", "too many parts")
    header, blobs = parts(keg)
    first = len(header["dims"])
    header["dims"] += [[[1, [["/", first - 1 + i, 0], ["%", first - 1 + i, 0]]]] for i in range(20)]
    forge(keg, header, blobs)
    with pytest.raises(BitternError, match=r"F20[89]"):
        read_keg(keg)
