"""Whole tokens in raw text: which stretches are one token by their spelling, before anything is merged.

Control tokens (`<|im_start|>`) and user-defined tokens (runs of blanks, HTML tags) are taken out of the text first;
what lies between them goes through the merges. Where several could match, the longest (in bytes) is placed first,
everywhere in the text from left to right, then the next longest in what is left. That order, not "the first match from
the left", is the rule that GGUF files are made for.

Every position is looked at once along a tree of the tokens' letters, so time is linear in the text.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any


class Splitter:
    """A set of tokens that stand for themselves in text.

    rows: spelling and id of each; spellings are not empty and differ.
    """

    __slots__ = ("_first", "_ids", "_lengths", "_longest_inside", "_runs", "_sizes", "_spans", "_tree")

    def __init__(self, rows: Iterable[tuple[str, int]]) -> None:
        ordered = sorted(
            ((len(text.encode()), text, number) for text, number in rows), key=lambda row: (-row[0], row[2])
        )
        self._ids = [number for _, _, number in ordered]
        self._sizes = [size for size, _, _ in ordered]
        self._spans = [len(text) for _, text, _ in ordered]
        self._lengths = sorted(set(self._sizes), reverse=True)
        self._tree: dict[str, Any] = {}
        for rank, (_, text, _) in enumerate(ordered):
            node = self._tree
            for letter in text:
                node = node.setdefault(letter, {})
            node[""] = rank
        self._longest_inside = [self._inside(text) for _, text, _ in ordered]
        mixed = {letter for _, text, _ in ordered if len(set(text)) > 1 for letter in text}
        self._runs = set(self._tree) - mixed
        self._first = re.compile("[" + re.escape("".join(self._tree)) + "]") if ordered else None

    def split(self, text: str) -> list[str | int]:
        """Return the text as a list of token ids and of the non-empty stretches of text between them."""
        if self._first is None or not text:
            return [text] if text else []
        placed = self._place(text)
        parts: list[str | int] = []
        done = 0
        for start, end, number in placed:
            if start > done:
                parts.append(text[done:start])
            parts.append(number)
            done = end
        if done < len(text):
            parts.append(text[done:])
        return parts

    def _place(self, text: str) -> list[tuple[int, int, int]]:
        """Return (start, end, id) of the tokens that win their stretch of the text, in order."""
        waiting = self._candidates(text)
        taken = bytearray(len(text))
        placed: list[tuple[int, int, int]] = []
        for length in self._lengths:
            for rank, start in sorted(waiting.pop(length, ())):
                if taken[start]:
                    continue
                end = start + self._spans[rank]
                if taken.find(1, start, end) < 0:
                    taken[start:end] = b"\1" * (end - start)
                    placed.append((start, end, self._ids[rank]))
                    continue
                shorter = self._longest_inside[rank]
                if shorter is not None:
                    waiting[self._sizes[shorter]].append((shorter, start))
        return sorted(placed)

    def _candidates(self, text: str) -> dict[int, list[tuple[int, int]]]:
        """Return the longest token at each position where one starts: length in bytes -> (rank, position)."""
        waiting: dict[int, list[tuple[int, int]]] = defaultdict(list)
        assert self._first is not None
        search, tree, runs, end = self._first.search, self._tree, self._runs, len(text)
        match = search(text)
        while match is not None:
            start = at = match.start()
            node, rank = tree, -1
            while at < end and (below := node.get(text[at])) is not None:
                node, at = below, at + 1
                rank = node.get("", rank)
            step = 1
            if rank >= 0:
                waiting[self._sizes[rank]].append((rank, start))
                if text[start] in runs:  # tokens of this letter are runs of it alone: no other can begin or end inside
                    step = self._spans[rank]
            match = search(text, start + step)
        return waiting

    def _inside(self, text: str) -> int | None:
        """Return the rank of the longest token that `text` begins with and that is shorter than it."""
        node, found = self._tree, None
        for letter in text[:-1]:
            node = node[letter]
            found = node.get("", found)
        return found
