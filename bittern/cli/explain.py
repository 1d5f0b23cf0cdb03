"""`bittern explain`: what an error code means, and a program that shows it.

The codes and titles are those of the modules. Codes of the language have a paragraph in `explanations.txt`, and most
of them a bad program with its diagnostic in `examples.json`, which `make docs` takes from the golden cases. All other
codes have a row in `failures.txt`: cause, example and remedy, with ` | ` between them.
"""

import ast
import json
import re
from dataclasses import asdict, dataclass
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
    "B2": "kernels from functions",
    "E1": "syntax",
    "E2": "names",
    "E3": "types",
    "E4": "dimensions",
    "E5": "ownership",
    "E6": "effects and spaces",
    "F1": "checkpoint files",
    "F2": "keg files",
    "F3": "tokenizers",
    "F4": "chat templates",
    "M1": "families and binding",
    "N1": "declared networks",
    "N2": "ONNX files",
    "N3": "TFLite models",
    "N4": "networks that run, data, quantising",
    "P1": "plans",
    "R1": "running",
    "S1": "pull and store",
    "U1": "usage",
}


@dataclass(frozen=True, slots=True)
class Failure:
    """What stands behind a code that is no error of a program: why it happens, one such case, and what to do."""

    cause: str
    example: str
    remedy: str


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


def failures() -> dict[str, Failure]:
    """Return cause, example and remedy of every code that has them."""
    lines = (Path(__file__).parent / "failures.txt").read_text("utf-8").splitlines()
    return {line[:4]: Failure(*line[5:].split(" | ")) for line in lines}


def examples() -> dict[str, dict[str, str]]:
    """Return a bad program and its diagnostic for every code that has one: keys `program` and `diagnostic`."""
    found: dict[str, dict[str, str]] = json.loads((Path(__file__).parent / "examples.json").read_text("utf-8"))
    return found


def command(
    name: Annotated[str, typer.Argument(metavar="CODE", help="The code in the brackets of an error, such as S111.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Say what an error code means.

    Errors of programs come with a paragraph, and a bad program with what `bittern check` says about it; others with
    their cause, an example and the remedy.
    """
    known = codes()
    wanted = name.upper()
    if wanted not in known:
        raise BitternError(
            UNKNOWN_CODE, f"No error has the code `{name}`.", nearest(wanted, list(known)) or "See docs/errors.md."
        )
    area = AREAS.get(wanted[:2], "")
    paragraph, example = explanations().get(wanted, ""), examples().get(wanted)
    failure = failures().get(wanted)
    if as_json:
        told = {"code": wanted, "area": area, "title": known[wanted], "explanation": paragraph, "example": example}
        print_json(told | {"failure": failure and asdict(failure)})
        return 0
    print(f"{wanted} ({area}): {known[wanted]}")
    parts = [paragraph] if paragraph else []
    if failure:
        parts += [failure.cause, f"For example: {failure.example}", f"What to do: {failure.remedy}"]
    for part in parts:
        print("\n" + fill(part, width=100, break_long_words=False, break_on_hyphens=False))
    if example:
        print("\nAn example:\n\n" + indent(example["program"], "    "))
        print("It says:\n\n" + indent(example["diagnostic"], "    "), end="")
    return 0
