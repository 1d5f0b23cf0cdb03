"""A look at the bytes of an ONNX file before its objects are made: well formed, not too deep, not too many.

A protobuf message is a list of fields: a tag (field number and wire type, a varint), then a varint, 4 or 8 bytes, or a
length and so many bytes (the encoding page of Protocol Buffers). Two bytes of a file can become an object of hundreds,
so the fields of all messages that ONNX nests are counted first, against a bound that follows the file's size.
"""

from bittern.base.errors import BitternError, code

MALFORMED = code("N202", "the ONNX file is no protobuf message of a model")
TOO_MANY = code("N203", "the ONNX file holds more objects than a file of its size may")

MOST_FIELDS, FIELDS_PER_BYTE, ALWAYS = 2_000_000, 0.35, 10_000
DEEPEST = 60
_MENDED = "Export the model again, or download the file again."

# message: {field number: message that it holds}
_NESTED: dict[str, dict[int, str]] = {
    "model": {7: "graph", 8: "leaf", 14: "leaf", 20: "leaf", 25: "function", 26: "leaf"},
    "graph": {
        1: "node",
        5: "tensor",
        11: "value",
        12: "value",
        13: "value",
        14: "annotation",
        15: "sparse",
        16: "leaf",
    },
    "node": {5: "attribute", 9: "leaf", 10: "leaf"},
    "attribute": {
        5: "tensor",
        6: "graph",
        10: "tensor",
        11: "graph",
        14: "type",
        15: "type",
        22: "sparse",
        23: "sparse",
    },
    "function": {7: "node", 9: "leaf", 11: "attribute", 12: "value", 14: "leaf"},
    "tensor": {3: "leaf", 13: "leaf", 16: "leaf"},
    "sparse": {1: "tensor", 2: "tensor"},
    "value": {2: "type", 4: "leaf"},
    "type": {1: "typed", 4: "type", 5: "type", 8: "typed", 9: "type"},
    "typed": {1: "type", 2: "shape"},
    "shape": {1: "leaf"},
    "annotation": {2: "leaf"},
    "leaf": {},
}

_TEXTS: dict[str, tuple[int, ...]] = {  # fields that are text: names are used as keys, so they are UTF-8
    "model": (2, 3, 4, 6),
    "graph": (2, 10),
    "node": (1, 2, 3, 4, 6, 7, 8),
    "attribute": (1, 13, 21),
    "function": (1, 4, 5, 6, 8, 10, 13),
    "tensor": (8, 12),
    "value": (1, 3),
    "type": (6,),
    "annotation": (1,),
    "leaf": (1, 2, 3),
}


def check_bytes(data: bytes, name: str) -> None:
    """Refuse bytes that are no message of a model. name: of the file, for messages. Errors: N202, N203."""
    most = min(MOST_FIELDS, ALWAYS + int(len(data) * FIELDS_PER_BYTE))
    count = 0
    stack = [(0, len(data), "model", 0)]
    while stack:
        at, end, message, depth = stack.pop()
        if depth > DEEPEST:
            raise BitternError(TOO_MANY, f"{name} nests more than {DEEPEST} messages.", _MENDED)
        nested = _NESTED[message]
        while at < end:
            count += 1
            if count > most:
                raise BitternError(
                    TOO_MANY, f"{name}, of {len(data)} bytes, holds more than {most} fields.", "Check its origin."
                )
            tag, at = _varint(data, at, end, name)
            size, at = _extent(data, at, end, tag & 7, name)
            if tag & 7 == 2 and tag >> 3 in nested:
                stack.append((at, at + size, nested[tag >> 3], depth + 1))
            elif tag & 7 == 2 and tag >> 3 in _TEXTS.get(message, ()):
                _check_text(data[at : at + size], name)
            at += size


def _check_text(text: bytes, name: str) -> None:
    try:
        text.decode()
    except UnicodeDecodeError as fault:
        raise BitternError(MALFORMED, f"{name} has a name that is no UTF-8.", _MENDED) from fault


def _extent(data: bytes, at: int, end: int, kind: int, name: str) -> tuple[int, int]:
    """Return how many bytes a field's value has, and where it begins."""
    if kind == 0:
        return 0, _varint(data, at, end, name)[1]
    if kind == 2:
        size, at = _varint(data, at, end, name)
    else:
        size = {1: 8, 5: 4}.get(kind, -1)
    if size < 0 or size > end - at:
        what = f"has a field of wire type {kind}" if size < 0 else f"ends inside a field of {size} bytes"
        raise BitternError(MALFORMED, f"{name} {what} at byte {at}.", _MENDED)
    return size, at


def _varint(data: bytes, at: int, end: int, name: str) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise BitternError(MALFORMED, f"{name} ends inside a number at byte {at}.", _MENDED)
