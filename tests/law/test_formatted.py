"""Law: every program that ships, and every sample of the documents, is as `bittern fmt` writes it."""

from pathlib import Path

import pytest
from source_tree import PACKAGE, shown
from test_docs import DOCUMENTS, blocks

from bittern.lang.reformat import reformat
from bittern.lang.source import Source

PROGRAMS = sorted(PACKAGE.rglob("*.btn"))


@pytest.mark.parametrize("path", PROGRAMS, ids=shown)
def test_shipped_programs_are_formatted(path: Path) -> None:
    text = path.read_text("utf-8")
    assert reformat(Source(path.name, text)) == (text, []), f"run `bittern fmt {shown(path)}`"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_samples_of_the_documents_are_formatted(path: Path) -> None:
    for text in blocks(path, "btn"):
        assert reformat(Source(path.name, text)) == (text, [])


def test_another_layout_is_noticed() -> None:
    text = PROGRAMS[0].read_text("utf-8")
    for other in (text.replace("let ", "let  "), text + "\n", text.replace("\n  ", "\n   ")):
        assert other != text and reformat(Source("case.btn", other)) == (text, [])
