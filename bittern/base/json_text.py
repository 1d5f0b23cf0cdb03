"""JSON as we print and write it: always valid, whatever the values are.

A file name that is not UTF-8 reaches Python as lone surrogates, and a logit may be infinite or NaN. JSON has neither: a
text with lone surrogates is escaped, a number that is not finite becomes `null`.
"""

import json
from math import isfinite
from typing import Any


def json_text(value: Any, encoding: str = "utf-8") -> str:
    """Return a value of dicts, lists, tuples, text, numbers and None as JSON over several lines.

    encoding: what the text will be written in; if it cannot hold the characters, all beyond ASCII are escaped.
    """
    plain = _plain(value)
    text = json.dumps(plain, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return json.dumps(plain, indent=2, ensure_ascii=True, allow_nan=False)
    return text


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value
