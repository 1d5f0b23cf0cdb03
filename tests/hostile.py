"""The smallest hostile input of each kind for each thing that Bittern reads, with the code that refuses it.

A row writes its input into an empty folder and reads it as a user's command would. `APART` says for each cell of the
matrix without a row why there is none. `scripts/untrusted.py` prints the matrix, `bench/refusals.py` measures the rows,
tests/unit/front/test_untrusted.py runs them.
"""

import hashlib
import json
import os
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import gguf_files as g
import hostile_onnx
import hostile_tflite
import tiny_models
from gguf_broken import BROKEN

from bittern.base.errors import BitternError
from bittern.front.bind import bind_checkpoint
from bittern.front.checkpoint import MappedFile
from bittern.front.gguf import open_gguf
from bittern.front.huggingface import open_folder
from bittern.front.onnx.reading import read_onnx
from bittern.front.safetensors_file import read_safetensors
from bittern.front.template import ChatTemplate
from bittern.front.tflite.importer import open_tflite
from bittern.front.tokenizer import Tokenizer
from bittern.front.tokenizer_json import folder_tokenizer
from bittern.graph import keg_format as form
from bittern.graph.keg import read_keg, write_keg
from bittern.graph.node import Function, Parameter, const, node, param
from bittern.lang.check import check_paths
from bittern.lang.library import Library
from bittern.types.elements import F32, U8
from bittern.types.values import Tuple, tensor

READERS = {
    "gguf": "GGUF",
    "safetensors": "safetensors",
    "folder": "Hugging Face folder",
    "keg": "`.keg`",
    "btn": "`.btn`",
    "tokenizer": "tokenizer: GGUF metadata, `tokenizer.json`",
    "template": "chat template",
    "tflite": "TFLite",
    "onnx": "ONNX, QONNX",
}
KINDS = {
    "length": "lengths",
    "product": "wrapping products",
    "type": "lies about types",
    "offset": "offsets",
    "structure": "structure",
    "index": "semantic indices",
    "active": "active content",
    "resource": "resource use",
}
APART = {
    ("gguf", "active"): "holds numbers and texts only; its chat template is a row of its own",
    ("safetensors", "active"): "holds JSON and numbers only; a pickle under its name is refused as a header (F151)",
    ("tokenizer", "offset"): "refers by id, never by a place in the file",
    ("tokenizer", "active"): "both forms are data; what the library may be asked for is under resource use",
    ("template", "length"): "has no lengths of its own",
}
LIBRARY = Library.standard()  # a started process has read it
_GOLDEN = Path(__file__).parent / "golden" / "families"


@dataclass(frozen=True)
class Hostile:
    """One input. reader, kind: its cell. what: it, in words. code: of the refusal. write: makes it in a folder."""

    reader: str
    kind: str
    what: str
    code: str
    write: Callable[[Path], None]

    def read(self, folder: Path) -> None:
        """Read what `write` left in the folder. Errors: whatever the reader raises."""
        _READ[self.reader](folder)


def refused(row: Hostile, folder: Path) -> str | None:
    """Return the code by which a written input is refused, or None."""
    try:
        row.read(folder)
    except BitternError as error:
        assert error.what, error
        return error.code
    return None


def _read_gguf(folder: Path) -> None:
    with open_gguf(folder / "x.gguf") as checkpoint:
        bind_checkpoint(checkpoint, LIBRARY)


def _read_safetensors(folder: Path) -> None:
    file = MappedFile(folder / "model.safetensors")
    try:
        read_safetensors(file)
    finally:
        file.close()


def _read_folder(folder: Path) -> None:
    with open_folder(folder) as checkpoint:
        bind_checkpoint(checkpoint, LIBRARY)


def _read_btn(folder: Path) -> None:
    for found in check_paths([str(folder / "x.btn")])[:1]:
        raise BitternError(found.code, found.message, found.hint or found.expected or "-")


def _read_tokenizer(folder: Path) -> None:
    if (folder / "tokenizer.json").exists():
        tokenizer = folder_tokenizer(folder)
        assert tokenizer is not None
    else:
        with open_gguf(folder / "x.gguf") as checkpoint:
            tokenizer = Tokenizer.from_gguf(checkpoint.metadata)
    tokenizer.encode("ab q")


def _read_template(folder: Path) -> None:
    source = (folder / "chat_template.jinja").read_text("utf-8")
    ChatTemplate(source).render([{"role": "user", "content": "Hi"}], add_generation_prompt=True)


def _read_tflite(folder: Path) -> None:
    open_tflite(folder / "x.tflite", LIBRARY)


def _read_onnx(folder: Path) -> None:
    read_onnx(folder / "x.onnx", LIBRARY)


_READ: dict[str, Callable[[Path], None]] = {
    "gguf": _read_gguf,
    "safetensors": _read_safetensors,
    "folder": _read_folder,
    "keg": lambda folder: void(read_keg(folder / "x.keg")),
    "btn": _read_btn,
    "tokenizer": _read_tokenizer,
    "template": _read_template,
    "tflite": _read_tflite,
    "onnx": _read_onnx,
}


def void(_: object) -> None:
    """Drop a value."""


def _put(name: str, data: bytes | str) -> Callable[[Path], None]:
    return lambda folder: void((folder / name).write_bytes(data.encode() if isinstance(data, str) else data))


# --- TFLite


def _tflite(kind: str, what: str, code: str, made: Callable[[], bytes]) -> Hostile:
    return Hostile("tflite", kind, what, code, lambda folder: _put("x.tflite", made())(folder))


def _onnx(kind: str, what: str, code: str, made: Callable[[], bytes]) -> Hostile:
    return Hostile("onnx", kind, what, code, lambda folder: _put("x.onnx", made())(folder))


# --- GGUF


def _gguf(kind: str, what: str, name: str) -> Hostile:
    return Hostile("gguf", kind, what, BROKEN[name].code, lambda folder: _put("x.gguf", BROKEN[name].data())(folder))


def _llama(kind: str, what: str, code: str, **changes: object) -> Hostile:
    keys = {f"llama.{key.replace('__', '.')}": value for key, value in changes.items()}
    return Hostile("gguf", kind, what, code, lambda folder: _put("x.gguf", tiny_models.llama("f32", keys=keys))(folder))


def _nan_scale(folder: Path) -> None:
    data = bytearray(tiny_models.llama("q8_0"))
    data[-34:-32] = struct.pack("<H", 0x7E00)
    _put("x.gguf", bytes(data))(folder)


# --- safetensors

_GOOD: dict[str, Any] = {
    "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
    "b": {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]},
}


def _safe(kind: str, what: str, code: str, header: Any, data: bytes = bytes(24), length: int | None = None) -> Hostile:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    raw = struct.pack("<Q", len(text) if length is None else length) + text + data
    return Hostile("safetensors", kind, what, code, _put("model.safetensors", raw))


def _row(**changes: Any) -> dict[str, Any]:
    return {"a": _GOOD["a"] | changes, "b": _GOOD["b"]}


def _twice_at_the_end(count: int) -> bytes:
    names = ",".join(f'"{number:x}":1' for number in range(count))
    return b"{" + names.encode() + b',"z":1,"z":1}'


# --- Hugging Face folders


def _folder(kind: str, what: str, code: str, change: Callable[[Path], None], golden: str = "llama") -> Hostile:
    def write(folder: Path) -> None:
        shutil.copytree(_GOLDEN / golden, folder, dirs_exist_ok=True)
        change(folder)

    return Hostile("folder", kind, what, code, write)


def _edit(name: str, **changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(found | changes))

    return change


_INDEX = "model.safetensors.index.json"


def _point(target: str) -> Callable[[Path], None]:
    return _edit(_INDEX, weight_map={"model.norm.weight": target})


def _link_out(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    os.symlink(_GOLDEN / "gpt2" / "model.safetensors", folder / "model.safetensors")


def _pickle(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")


# --- .keg


def _keg(kind: str, what: str, code: str, change: Callable[[dict[str, Any]], object]) -> Hostile:
    return Hostile("keg", kind, what, code, partial(_forge, change))


def _forge(change: Callable[[dict[str, Any]], object], folder: Path) -> None:
    """Write a small file whose header was changed and whose frame is right."""
    import cbor2

    x, three = param(0, tensor(F32, 3)), const([1, 2, 3], U8)
    twice = node("add", [x, x], {}, x.type)
    result = node("tuple", [twice, three], {}, Tuple((twice.type, three.type)))
    write_keg(folder / "x.keg", {"main": Function(0, (Parameter(x.type),), result)})
    data = (folder / "x.keg").read_bytes()
    length = form.PREAMBLE.unpack_from(data)[2]
    header = cbor2.loads(data[64 : 64 + length])
    blobs = data[form.aligned(64 + length) :]
    made = change(header)
    encoded = made if isinstance(made, bytes) else cbor2.dumps(header, canonical=True)
    start = form.aligned(64 + len(encoded))
    frame = form.PREAMBLE.pack(form.MAGIC, 1, len(encoded), start + len(blobs), hashlib.sha256(encoded).digest())
    (folder / "x.keg").write_bytes((frame + encoded).ljust(start, b"\0") + blobs)


def _set(*path: Any) -> Callable[[dict[str, Any]], object]:
    """Return a change that puts the last item of `path` where the others lead."""

    def change(header: dict[str, Any]) -> None:
        holder: Any = header
        for step in path[:-2]:
            holder = holder[step]
        holder[path[-2]] = path[-1]

    return change


# --- .btn


def _btn(kind: str, what: str, code: str, text: str) -> Hostile:
    return Hostile("btn", kind, what, code, _put("x.btn", text))


_DOUBLING = "fn f(x: u32) -> u32 {\n  let a0 = (x, x)\n" + "".join(
    f"  let a{place} = (a{place - 1}, a{place - 1})\n" for place in range(1, 40)
)


# --- tokenizers


def _metadata(kind: str, what: str, code: str, **changes: Any) -> Hostile:
    def write(folder: Path) -> None:
        keys = tiny_models.tokenizer() | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}
        pairs = [(name, value) for name, value in keys.items() if value is not None]
        file = g.File(tuple(tiny_models.as_key(name, value) for name, value in pairs))
        _put("x.gguf", g.build(file)[0])(folder)

    return Hostile("tokenizer", kind, what, code, write)


def _strings(name: str, values: list[str]) -> g.Key:
    return g.strings(f"tokenizer.ggml.{name}", values)


TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": None,
    "post_processor": None,
    "decoder": None,
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, " ": 3, "q": 4}, "merges": ["a b"]},
}


def _json(kind: str, what: str, code: str, **changes: Any) -> Hostile:
    return Hostile("tokenizer", kind, what, code, _put("tokenizer.json", json.dumps(TOKENIZER | changes)))


def _model(**changes: Any) -> dict[str, Any]:
    return dict(TOKENIZER["model"]) | changes


_DOUBLE: Mapping[str, Any] = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
_ADDED = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}


def _template(kind: str, what: str, code: str, source: str) -> Hostile:
    return Hostile("template", kind, what, code, _put("chat_template.jinja", source))


ROWS: tuple[Hostile, ...] = (
    _gguf("length", "a key of 2^62 bytes", "key length 2^62"),
    _gguf("length", "an array of 2^64 - 1 elements", "array count 2^64-1"),
    _llama("length", "2^32 - 1 layers", "M103", block_count=2**32 - 1),
    _gguf("product", "a tensor of 2^32 x 2^32 values", "product 2^64"),
    _gguf("product", "(2^64 / 33) + 1 tensors", "tensors times 33"),
    _gguf("type", "an array of bytes that says it holds f64", "array type lie"),
    _gguf("type", "an alignment that is a text", "alignment string"),
    _gguf("offset", "an offset of 2^64 - 32", "offset 2^64-32"),
    _gguf("offset", "two tensors in one place", "same place"),
    _gguf("offset", "an alignment of 48", "alignment 48"),
    _gguf("structure", "a key that occurs twice", "key twice"),
    _gguf("structure", "a file that ends in its table", "table cut"),
    _gguf("index", "tensor type 43", "type 43"),
    _llama("index", "no layers", "M103", block_count=0),
    _llama("index", "a negative epsilon", "M103", attention__layer_norm_rms_epsilon=-1.0),
    _llama("index", "an epsilon that is no number", "M103", attention__layer_norm_rms_epsilon=float("nan")),
    _llama("index", "a rope base of 0", "M103", rope__freq_base=0.0),
    Hostile("gguf", "index", "a block whose scale is no number", "F108", _nan_scale),
    _gguf("resource", "2^21 + 1 strings", "strings over limit"),
    _gguf("resource", "a string of 4 MiB and one byte", "string over limit"),
    _safe("length", "a header of 2^64 - 8 bytes", "F151", _GOOD, length=2**64 - 8),
    _safe("product", "a tensor of 2^32 x 2^32 values", "F158", _row(shape=[2**32, 2**32])),
    _safe("type", "a type that does not exist", "F155", _row(dtype="F33")),
    _safe("type", "an offset that is a fraction", "F154", _row(data_offsets=[0.0, 16])),
    _safe("offset", "two tensors in one place", "F160", {"a": _GOOD["a"], "b": _GOOD["a"]}, bytes(16)),
    _safe("offset", "a tensor past the end", "F159", _GOOD, bytes(20)),
    _safe("structure", "a name that occurs twice", "F153", b'{"a": 1, "a": 2}'),
    _safe("structure", "bytes after the last tensor", "F162", _GOOD, bytes(25)),
    _safe("index", "a negative size", "F157", _row(shape=[-2, -2])),
    _safe("resource", "60,000 nested lists", "F152", b'{"a":' + b"[" * 60000 + b"]" * 60000 + b"}"),
    _safe("resource", "10,000 names, the last of them twice", "F153", _twice_at_the_end(10_000)),
    _folder("length", "2^40 layers", "F181", _edit("config.json", num_hidden_layers=1 << 40)),
    _folder("product", "2^24 rows of 2^24 values", "M107", _edit("config.json", intermediate_size=1 << 24)),
    _folder("type", "a width that is true", "F181", _edit("config.json", hidden_size=True)),
    _folder("offset", "an index that leads out of the folder", "F168", _point("../x.safetensors"), "llama3"),
    _folder("offset", "a link that leads out of the folder", "F169", _link_out),
    _folder("structure", "an index without a map", "F167", _edit(_INDEX, weight_map=[1]), "llama3"),
    _folder("index", "one layer more than there is", "F171", _edit("config.json", num_hidden_layers=3)),
    _folder("active", "a pickle instead of weights", "F166", _pickle),
    _folder("resource", "a configuration of 1 MiB and two bytes", "F173", _put("config.json", " " * (1 << 20) + "{}")),
    _keg("length", "a list of 2^62 items", "F207", lambda _: b"\xa1\x65blobs\x9b" + struct.pack(">Q", 1 << 62)),
    _keg("product", "a constant of 2^32 x 2^32 values", "F212", _set("dims", 0, [[1 << 62, []]])),
    _keg("type", "a node of another type", "F212", _set("entries", 1, 4, 1)),
    _keg("offset", "bytes of a constant beyond the file", "F214", _set("blobs", 0, 2, 1 << 40)),
    _keg("structure", "a record without its fields", "F209", _set("entries", 1, ["node"])),
    _keg("index", "a reference to a later record", "F211", _set("entries", 1, 3, [3, 3])),
    _keg("index", "a reference to nothing", "F210", _set("entries", 2, 4, 99)),
    _keg("active", "an operation that does not exist", "F212", _set("entries", 1, 2, "system")),
    _keg("resource", "lists nested 100 deep", "F208", lambda _: b"\xa1\x65blobs" + b"\x81" * 100 + b"\x00"),
    _btn("length", "a number of 1001 digits", "E103", f"fn f() -> u32 {{ {'1' * 1001} }}"),
    _btn(
        "product",
        "a product of 20 sums",
        "E407",
        f"fn f[a, b, c](x: f32[{' * '.join(['(a + b + c + 1)'] * 20)}]) -> f32 {{ 0.0 }}",
    ),
    _btn("type", "256 as a byte", "E308", "fn f(x: u8) -> u8 { x + 256 }"),
    _btn("offset", "an index outside of its array", "E404", "fn f(x: f32[4]) -> f32 { x[7] }"),
    _btn("structure", "a bracket that is not closed", "E107", "fn f(x: f32 -> f32 { x }"),
    _btn("structure", "a function that calls itself", "E210", "fn f(x: u32) -> u32 { f(x) }"),
    _btn("index", "a name that does not exist", "E205", "fn f(x: u32) -> u32 { y }"),
    _btn("active", "a file of the system as a module", "E202", "use etc.passwd\nfn f(x: u32) -> u32 { x }"),
    _btn("resource", "a value that doubles 40 times", "E214", _DOUBLING + "  x\n}"),
    _btn("resource", "1,000 nested brackets", "E111", f"fn f(x: u32) -> u32 {{ {'(' * 1000}x{')' * 1000} }}"),
    _metadata("length", "fewer kinds than tokens", "F305", token_type=g.array("tokenizer.ggml.token_type", g.I32, [1])),
    _metadata(
        "product",
        "a score of 1e39 as f32",
        "F308",
        model="llama",
        pre="default",
        scores=g.array("tokenizer.ggml.scores", g.F64, [1e39] * 259),
    ),
    _metadata("type", "an end of text that is a text", "F304", eos_token_id="</s>"),
    _metadata("structure", "a token that occurs twice", "F307", tokens=_strings("tokens", ["a", "a"]), token_type=None),
    _metadata("index", "an end of text outside of the vocabulary", "F306", eos_token_id=2**32 - 1),
    _json("index", "the id 2^32 - 1", "F313", model=_model(vocab={"a": 0, "b": 2**32 - 1}, merges=[])),
    _json("index", "an id for two tokens", "F313", model=_model(vocab={"a": 0, "b": 0}, merges=[])),
    _json("index", "an added token at 2^32 - 1", "F313", added_tokens=[{"id": 2**32 - 1, "content": "z", **_ADDED}]),
    _json(
        "index",
        "an unknown token that does not exist",
        "F316",
        model={"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "z"},
    ),
    _json(
        "structure",
        "an expression that cannot be parsed",
        "F313",
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False},
    ),
    _json(
        "resource",
        "a table that claims 4 GiB",
        "F313",
        normalizer={"type": "Precompiled", "precompiled_charsmap": "/////wAAAAAA"},
    ),
    _json(
        "resource",
        "a replacement that doubles the text 40 times",
        "F315",
        normalizer={"type": "Sequence", "normalizers": [_DOUBLE] * 40},
    ),
    _json(
        "resource",
        "an expression of exponential time",
        "F315",
        pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False},
    ),
    _json("resource", "merges that are dropped at random", "F315", model=_model(dropout=0.5)),
    _template("product", "a text times 2^40", "F406", "{{ 'a' * 1099511627776 }}"),
    _template("type", "a number plus a text", "F407", "{{ 1 + 'a' }}"),
    _template("offset", "a message that is not there", "F404", "{{ messages[7].content }}"),
    _template("structure", "a loop that is not closed", "F401", "{% for m in messages %}"),
    _template("index", "a filter that does not exist", "F403", "{{ 'a' | system }}"),
    _template("active", "the classes of Python", "F402", "{{ ''.__class__.__mro__[1].__subclasses__() }}"),
    _template("active", "another file", "F402", "{% include '/etc/passwd' %}"),
    _template("resource", "10^12 rounds", "F406", "{% for i in range(1000000000000) %}x{% endfor %}"),
    _template(
        "resource", "10 loops in each other", "F406", "{% for a in range(99) %}" * 10 + "x" + "{% endfor %}" * 10
    ),
    *(_tflite(*row) for row in hostile_tflite.ROWS),
    *(_onnx(*row) for row in hostile_onnx.ROWS),
)
