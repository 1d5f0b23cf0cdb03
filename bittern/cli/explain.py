"""`bittern explain`: what an error code means, and a program that shows it.

The codes and titles are those of the modules. Codes of the language have a paragraph in `explanations.txt`, and most
of them a bad program with its diagnostic in `examples.json`, which `make docs` takes from the golden cases.
"""

import ast
import json
import re
from pathlib import Path
from textwrap import fill, indent
from typing import Annotated

import typer

import bittern
from bittern.base.errors import BitternError, code, nearest
from bittern.cli.frame import print_json

UNKNOWN_CODE = code("U113", "there is no such error code")

_DECLARATION = re.compile(
    r"""^[A-Z][A-Z0-9_]* = code\(\s*"([A-Z]\d{3})",\s*((?:"[^"\n]*"\s*|'[^'\n]*'\s*)+),?\s*\)""", re.MULTILINE
)

AREAS: dict[str, str] = {
    "B1": "bitops",
    "E1": "syntax",
    "E2": "names",
    "E3": "types",
    "E4": "dimensions",
    "E5": "ownership",
    "E6": "effects and spaces",
    "F1": "GGUF files",
    "F2": "keg files",
    "F3": "tokenizers",
    "F4": "chat templates",
    "M1": "families and binding",
    "R1": "running",
    "S1": "pull and store",
    "U1": "usage",
}


def codes() -> dict[str, str]:
    """Return every code of the package with its title.

    Codes are declared where they are raised. They are read from the text of the modules, so that no module has to be
    loaded, with all that it needs, only to be asked for its codes.
    """
    found: dict[str, str] = {}
    for path in sorted(Path(bittern.__file__).parent.rglob("*.py")):
        for name, title in _DECLARATION.findall(path.read_text("utf-8")):
            found[name] = str(ast.literal_eval(f"({title})"))
    return dict(sorted(found.items()))


def explanations() -> dict[str, str]:
    """Return the paragraph of every code that has one."""
    lines = (Path(__file__).parent / "explanations.txt").read_text("utf-8").splitlines()
    return {line[:4]: line[5:] for line in lines}


def examples() -> dict[str, dict[str, str]]:
    """Return a bad program and its diagnostic for every code that has one: keys `program` and `diagnostic`."""
    found: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "examples.json").read_text("utf-8"))
    return found


def command(
    name: Annotated[str, typer.Argument(metavar="CODE", help="The code in the brackets of an error, such as S111.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Say what an error code means.

    Errors of programs come with a paragraph, and a bad program with what `bittern check` says about it.
    """
    known = codes()
    wanted = name.upper()
    if wanted not in known:
        raise BitternError(
            UNKNOWN_CODE, f"No error has the code `{name}`.", nearest(wanted, list(known)) or "See docs/errors.md."
        )
    area = AREAS.get(wanted[:2], "")
    paragraph, example = explanations().get(wanted, ""), examples().get(wanted)
    if as_json:
        told = {"code": wanted, "area": area, "title": known[wanted], "explanation": paragraph, "example": example}
        print_json(told)
        return 0
    print(f"{wanted} ({area}): {known[wanted]}")
    if paragraph:
        print("\n" + fill(paragraph, width=100, break_long_words=False, break_on_hyphens=False))
    if example:
        print("\nAn example:\n\n" + indent(example["program"], "    "))
        print("It says:\n\n" + indent(example["diagnostic"], "    "), end="")
    return 0
