"""The texts of the library themselves: they check without an error, and every declaration says what it is."""

from pathlib import Path

import pytest

import bittern
from bittern.lang.check import check_module
from bittern.lang.library import Library
from bittern.lang.parser import parse
from bittern.lang.render import as_text
from bittern.lang.source import Source
from bittern.lang.syntax import ConstDecl, FunctionDecl, StructDecl

STD = Path(bittern.__file__).parent / "std"
FILES = sorted(STD.rglob("*.btn"))
MODULES = sorted({path.relative_to(STD).parts[0].removesuffix(".btn") for path in FILES})


@pytest.mark.parametrize("name", MODULES)
def test_module_checks_for_all_dimensions(name: str) -> None:
    library = Library.standard()
    module = library.module(name)
    assert module is not None
    check_module(module)
    assert not library.errors.found, "\n".join(as_text(found) for found in library.errors.found)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_text_is_documented_and_narrow(path: Path) -> None:
    text = path.read_text()
    file, problems = parse(Source(path.name, text))
    assert not problems
    for declaration in file.declarations:
        if isinstance(declaration, FunctionDecl | StructDecl):
            assert declaration.doc.strip(), declaration.name.name
        assert not isinstance(declaration, ConstDecl) or declaration.name.name.isupper()
    assert max(len(line) for line in text.split("\n")) <= 120
    assert text.endswith("}\n") and "\t" not in text
