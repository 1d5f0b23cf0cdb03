"""Whole tokens in text, against the definition run the slow way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from bittern.front.splitter import Splitter

# Whole tokens


def slow_split(text: str, rows: list[tuple[str, int]]) -> list[str | int]:
    """The definition: for each token, longest first, cut it out of every stretch of text, from the left."""
    parts: list[str | int] = [text]
    for token, number in sorted(rows, key=lambda row: (-len(row[0].encode()), row[1])):
        cut: list[str | int] = []
        for part in parts:
            pieces = part.split(token) if isinstance(part, str) else [part]
            for at, piece in enumerate(pieces):
                cut += ([number] if at else []) + ([piece] if piece != "" else [])
        parts = cut
    return parts


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("ab\né<", min_size=1, max_size=5), min_size=1, max_size=12, unique=True),
    st.text("ab\né<", max_size=40),
)
def test_splitter_cuts_the_longest_token_first(tokens: list[str], text: str) -> None:
    rows = [(token, 100 + at) for at, token in enumerate(tokens)]
    assert Splitter(rows).split(text) == slow_split(text, rows)


def test_splitter_is_not_leftmost_first() -> None:
    rows = [("ab", 1), ("bcd", 2)]
    assert Splitter(rows).split("abcd") == ["a", 2]
