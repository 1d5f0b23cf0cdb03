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
    """Evaluates functions of one library by name.

    ran: what was evaluated so far, as `module.function`, with whether it was over the reals.
    """

    def __init__(self, library: Library) -> None:
        self.library = library
        self.ran: set[tuple[str, bool]] = set()
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
        self.ran.add((name, ideal))
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

    def rows(self, name: str, signature: str, *arguments: npt.ArrayLike, call: str = "") -> Any:
        """Return what a function gives for each row of the arguments, with its signature for one row.

        signature: such as `u8[3], u32 -> (bit, u8)`. call: how it is called with a, b, c, ...; empty: in this order.
        """
        module, function = name.split(".")
        given, _, result = signature.partition("->")
        types = [_row_text(part) for part in re.findall(r"\w+(?:\[[^]]*\])?", given)]
        names = "abcdefgh"[: len(types)]
        fields = ", ".join(f"x{i}: {t}" for i, t in zip(names, types, strict=True))
        text = f"use {module}\nfn rows[n]({fields}) -> {_row_text(result.strip())} {{\n"
        text += f"  [{call or function + '(' + ', '.join(names) + ')'} for {', '.join(names)} in "
        text += ", ".join(f"x{i}" for i in names) + "]\n}\n"
        return self.text(text, "rows", *arguments, dims=(len(np.asarray(arguments[0])),))

    def text(
        self, text: str, name: str, *arguments: npt.ArrayLike, dims: Sequence[int] = (), ideal: bool = False
    ) -> Any:
        """Return what a function of a program given as text gives."""
        for used in re.findall(r"^use (\w+)", text, re.MULTILINE):
            loaded = self.library.module(used)
            assert loaded is not None, used
            called = set(re.findall(r"\b(\w+)[(\[]", text))
            self.ran |= {(f"{used}.{function}", ideal) for function in loaded.functions if function in called}
        if text not in self._known:
            module = self.library.add(f"text_{len(self._known)}", [Source("test.btn", text)])
            self._known[text] = instance_for(module, module.functions[name][0], {})
            self.library.raise_errors()
        return evaluate(self._known[text], list(arguments), dims=tuple(dims), ideal=ideal)


def _rows(type_: syntax.TypeExpr) -> str:
    """The text of a type with n in front of every shape."""
    return _row_text(type_.span.source.text[type_.span.start : type_.span.end])


def _row_text(written: str) -> str:
    """The same for the text of a type."""
    return re.sub(r"\b([uif]\d+|bit|b1|t)\b(\[)?", lambda m: f"{m[1]}[n, " if m[2] else f"{m[1]}[n]", written)


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
