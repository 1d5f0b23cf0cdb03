"""JSON that any reader takes, whatever is in it."""

import json
from math import inf, nan

import pytest

from bittern.base.json_text import json_text


def test_plain_values_stay() -> None:
    value = {"a": [1, 2.5, "ä🦤", None, True], "b": {}}
    assert json.loads(json_text(value)) == value
    assert "ä🦤" in json_text(value)


@pytest.mark.parametrize("number", [nan, inf, -inf])
def test_numbers_that_are_none(number: float) -> None:
    assert json.loads(json_text({"x": (number, 1.0)}), parse_constant=pytest.fail) == {"x": [None, 1.0]}


def test_lone_surrogates_are_escaped() -> None:
    text = json_text({"path": "odd\udcff"})
    text.encode("utf-8")
    assert json.loads(text) == {"path": "odd\udcff"}


def test_narrow_encodings() -> None:
    text = json_text("日本", "ascii")
    assert text.isascii() and json.loads(text) == "日本"
