"""Run functions of the standard library on arrays, and edited copies of the library."""

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import bittern
from bittern.graph.evaluate import evaluate
from bittern.lang import syntax
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library
from bittern.lang.source import Source

STD = Path(bittern.__file__).parent / "std"


class Runner:
    """Evaluates functions of one library by name."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self._known: dict[object, Any] = {}

    def __call__(
        self,
        name: str,
        *arguments: npt.ArrayLike,
        dims: Sequence[int] = (),
        elements: Mapping[str, str] | None = None,
        overload: str | None = None,
        ideal: bool = False,
    ) -> Any:
        """Return what `module.function` gives. dims: values of its dimension parameters, in order."""
        key = (name, tuple(sorted((elements or {}).items())), overload)
        if key not in self._known:
            self._known[key] = self.library.function(name, elements=elements, overload=overload)
        return evaluate(self._known[key], list(arguments), dims=tuple(dims), ideal=ideal)

    def over(self, name: str, *arguments: npt.ArrayLike, ideal: bool = False) -> Any:
        """Return what a function without dimension parameters gives for each row of the arguments."""
        module, function = name.split(".")
        loaded = self.library.module(module)
        assert loaded is not None, module
        declaration = loaded.functions[function][0]
        types = [_rows(p.type) for p in declaration.parameters]
        fields = ", ".join(f"x{i}: {t}" for i, t in enumerate(types))
        names = ", ".join(f"a{i}" for i in range(len(types)))
        arrays = ", ".join(f"x{i}" for i in range(len(types)))
        text = f"use {name}\nfn over[n]({fields}) -> {_rows(declaration.result)} {{\n"
        text += f"  [{function}({names}) for {names} in {arrays}]\n}}\n"
        return self.text(text, "over", *arguments, dims=(len(np.asarray(arguments[0])),), ideal=ideal)

    def text(
        self, text: str, name: str, *arguments: npt.ArrayLike, dims: Sequence[int] = (), ideal: bool = False
    ) -> Any:
        """Return what a function of a program given as text gives."""
        if text not in self._known:
            module = self.library.add(f"text_{len(self._known)}", [Source("test.btn", text)])
            self._known[text] = instance_for(module, module.functions[name][0], {})
            self.library.raise_errors()
        return evaluate(self._known[text], list(arguments), dims=tuple(dims), ideal=ideal)


def _rows(type_: syntax.TypeExpr) -> str:
    """The text of a type with n in front of every shape."""
    written = type_.span.source.text[type_.span.start : type_.span.end]
    return re.sub(r"\b([uif]\d+|bit)\b(\[)?", lambda m: f"{m[1]}[n, " if m[2] else f"{m[1]}[n]", written)


@pytest.fixture(scope="session")
def run() -> Runner:
    """The library as it ships."""
    return Runner(Library.standard())


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[str, str, str], Runner]:
    """A copy of the library in which one text of one file is another: planted faults that tests must see."""

    def edit(file: str, old: str, new: str) -> Runner:
        copy = tmp_path / "std"
        shutil.copytree(STD, copy)
        text = (copy / file).read_text()
        assert text.count(old) == 1, (file, old, text.count(old))
        (copy / file).write_text(text.replace(old, new))
        return Runner(Library.standard(copy))

    return edit
