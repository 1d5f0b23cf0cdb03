#!/usr/bin/env python3
"""Write the pages of docs/ that are lists of what the tables in the code hold.

    scripts/docs.py

A test compares the pages with the tables, so a stale page fails the suite; `make docs` mends it.
"""

import inspect
import json
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

from bittern.cli import COMMANDS
from bittern.cli.explain import AREAS, codes, explanations
from bittern.models.tested import GROUPS, TESTED, marks
from bittern.ops.table import ops

ROOT = Path(__file__).resolve().parent.parent
_BEGIN, _END = "<!-- families: written by `make docs` -->", "<!-- families: end -->"
MAX_LINES, MAX_COLUMNS = 30, 120  # of an example
_NOTE = "<!-- Written by scripts/docs.py (`make docs`) from the tables in the code: edit those. -->\n"


def errors() -> str:
    """Return the page of all error codes."""
    lines = [
        "# Error codes\n",
        _NOTE,
        "Every failure that a user can cause has a stable code. `bittern explain CODE` prints its part of this page;",
        "the failure itself says what was given, where, and what to do.",
    ]
    known = codes()
    for area, title in AREAS.items():
        rows = [(name, text) for name, text in known.items() if name.startswith(area)]
        if rows:
            lines += [f"\n## {area}: {title}\n", "| code | what is wrong |", "|---|---|"]
            lines += [f"| {name} | {_cell(text)} |" for name, text in rows]
            lines += [part for name, _ in rows for part in _shown(name)]
    return "\n".join(lines) + "\n"


def _shown(name: str) -> list[str]:
    """Return the paragraph and the example of a code, if it has them."""
    paragraph, example = explanations().get(name), _examples().get(name)
    if paragraph is None:
        return []
    lines = [f"\n### {name}\n", paragraph]
    if example is not None:
        lines += ["\n```text", example["program"].rstrip("\n"), "```", "```text", example["diagnostic"] + "```"]
    return lines


def examples_json() -> str:
    """Return the examples of `bittern explain`: for every code the golden case named after it, if short."""
    return json.dumps(_examples(), indent=0, ensure_ascii=False) + "\n"


@cache
def _examples() -> dict[str, dict[str, str]]:
    found = {}
    for path in sorted((ROOT / "tests" / "golden" / "check").glob("E*.btn")):
        name, program = path.stem[:4], path.read_text("utf-8", errors="replace")
        said = re.split(r"^(?=\S+:\d+:\d+: error)", path.with_suffix(".txt").read_text("utf-8"), flags=re.MULTILINE)
        said = [text for text in said if f"error[{name}]" in text]
        if said and program.count("\n") <= MAX_LINES and max(map(len, program.split("\n"))) <= MAX_COLUMNS:
            found.setdefault(name, {"program": program, "diagnostic": said[0]})
    return found


def operations() -> str:
    """Return the page of all primitive ops."""
    lines = [
        "# Primitive operations\n",
        _NOTE,
        "Each is total: no trap, no undefined result. `docs/language.md`, section 5, has the rules they share.",
        "Ops marked *ideal* are real-valued and exist only in `ideal` bodies, which the f64 reference evaluates.",
    ]
    families: dict[str, list[str]] = {}
    for row in ops().values():
        mark = " *ideal*" if row.ideal_only else ""
        effect = f" Effect: {row.effect}." if row.effect else ""
        family = row.meaning.__module__.rpartition(".")[2]
        families.setdefault(family, []).append(f"| `{row.name}`{mark} | {_cell(row.doc)}{effect} |")
    for family, rows in families.items():
        lines += [f"\n## {family}\n", "| op | meaning |", "|---|---|", *rows]
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Return the page of all commands."""
    lines = [
        "# Commands\n",
        _NOTE,
        "`bittern COMMAND --help` lists the arguments. Results go to stdout, progress and warnings to stderr. With",
        '`--json` stdout is one object; a failure is `{"error": {"code", "what", "remedy"}}`. The exit status is 0 for',
        "success, 1 for a failure with a code, 130 for an interrupt, 143 for a termination, 141 where the reader of",
        "stdout went away. Whatever the end is, nothing half-done is left.",
    ]
    for name in sorted(COMMANDS):
        text = inspect.getdoc(import_module(f"bittern.cli.{name}").command)
        lines += [f"\n## bittern {name}\n", text or ""]
    return "\n".join(lines) + "\n"


def readme() -> str:
    """Return the README with the table of families between its marks."""
    text = (ROOT / "README.md").read_text("utf-8")
    head, begin, rest = text.partition(_BEGIN)
    _, end, tail = rest.partition(_END)
    assert begin and end, "the README lost the marks of its table of families"
    rows = [f"| family | {' | '.join(GROUPS)} |", f"|---|{'---|' * len(GROUPS)}"]
    rows += [f"| {name} | {' | '.join(marks(name))} |" for name in TESTED]
    legend = "; ".join(f"*{group}*: {' '.join(members)}" for group, members in GROUPS.items() if group != "folder")
    return "\n".join([f"{head}{begin}\n", *rows, f"\n*folder*: a Hugging Face folder; {legend}.\n", f"{end}{tail}"])


def pages() -> dict[Path, str]:
    """Return every generated page with its text."""
    docs = ROOT / "docs"
    lists = {docs / "errors.md": errors(), docs / "ops.md": operations(), docs / "commands.md": commands()}
    shipped = {ROOT / "bittern" / "cli" / "examples.json": examples_json()}
    return lists | shipped | {ROOT / "README.md": readme()}


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the pages that changed; return the exit status."""
    for path, text in pages().items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
