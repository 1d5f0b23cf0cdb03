#!/usr/bin/env python3
"""Write the pages of docs/ that are lists of what the tables in the code hold.

    scripts/docs.py

A test compares the pages with the tables, so a stale page fails the suite; `make docs` mends it.
"""

import inspect
import json
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from bittern.cli import COMMANDS
from bittern.cli.explain import AREAS, codes, explanations, failures
from bittern.front.onnx.importer import NEWEST, OLDEST
from bittern.front.onnx.table import DOMAINS
from bittern.front.onnx.table import rows as onnx_rows
from bittern.models.tested import GROUPS, TESTED, marks
from bittern.ops.table import ops

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
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
    """Return the paragraph and the example of a code, or its cause, example and remedy."""
    paragraph, example, failure = explanations().get(name), _examples().get(name), failures().get(name)
    if failure is not None:
        parts = (failure.cause, f"*Example:* {failure.example}", f"*What to do:* {failure.remedy}")
        return [f"\n### {name}", *(f"\n{part}" for part in parts)]
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


def onnx() -> str:
    """Return the page of the operations of ONNX files that are read."""
    lines = [
        "# Operations of ONNX and QONNX files\n",
        _NOTE,
        f"Versions {OLDEST} to {NEWEST} of the standard operations are read; a number behind an operation says since",
        "which version it has the form that is meant. Attributes that are not listed are refused, never passed over.\n",
        "| a file's domain | is |",
        "|---|---|",
        *[f"| `{name}` | {meaning} |" for name, meaning in DOMAINS.items() if name],
    ]
    domains: dict[str, list[str]] = {}
    for (domain, name), forms in sorted(onnx_rows().items()):
        for form in forms:
            since = f" {form.since}" if form.since > 1 else ""
            known = ", ".join(f"`{each}`" for each in sorted(form.attributes))
            domains.setdefault(domain, []).append(f"| `{name}`{since} | {_cell(form.doc)} | {known} |")
    for domain, listed in domains.items():
        lines += [f"\n## {domain}\n", "| operation | meaning | attributes |", "|---|---|---|", *listed]
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
    """Return the README with what is written between its marks; a table whose results are missing stays as it is."""
    text = (ROOT / "README.md").read_text("utf-8")
    for name, write in {"families": families, "figures": figures, "peers": peers, "networks": networks}.items():
        head, begin, rest = re.split(rf"(<!-- {name}: written by [^>]* -->)", text)
        middle, end, tail = rest.partition(f"<!-- {name}: end -->")
        assert end, f"the README lost the marks of its part `{name}`"
        written = write()
        text = (
            f"{head}{begin}{middle if written is None else f'{chr(10)}{chr(10)}{written}{chr(10)}{chr(10)}'}{end}{tail}"
        )
    return text


def families() -> str:
    """Return the table of families and groups of formats."""
    rows = [f"| family | {' | '.join(GROUPS)} |", f"|---|{'---|' * len(GROUPS)}"]
    rows += [f"| {name} | {' | '.join(marks(name))} |" for name in TESTED]
    legend = "; ".join(f"*{group}*: {' '.join(members)}" for group, members in GROUPS.items() if group != "folder")
    return "\n".join([*rows, f"\n*folder*: a Hugging Face folder; {legend}."])


def figures() -> str | None:
    """Return the table of what `bench/check --json` measured, or None where that is missing."""
    found = _results("check")
    if found is None:
        return None
    rows = ["| figure | promise | measured |", "|---|---|---|"]
    for row in found["figures"]:
        low, high, unit = row["at_least"], row["at_most"], row["unit"]
        promise = (
            f"at least {low:g} {unit}" if low is not None else f"at most {high:g} {unit}" if high is not None else ""
        )
        values = row["values"]
        spread = (
            f"{row['median']:.3g} {unit} ({min(values):.3g} to {max(values):.3g}, of {len(values)})" if values else ""
        )
        rows.append(f"| {row['figure']} | {promise} | {spread or row['reason'] or 'no quiet moment was had'} |")
    return "\n".join([_scope(found["scope"], "median and spread"), "", *rows])


def peers() -> str | None:
    """Return the table of what `bench/peers.py --json` measured, a file for each model, or None where none is there."""
    found = [json.loads(path.read_text("utf-8")) for path in sorted(RESULTS.glob("peers*.json"))]
    if not found:
        return None
    rows = [
        "| model | case | threads | Bittern | llama.cpp | ratio | of the memory's read speed |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in found:
        rows += [_peer_row(each["model"]["name"].removesuffix(".gguf"), row) for row in each["cases"]]
    ours, theirs = found[0]["peers"]
    about = f"{ours['name']} beside {theirs['version']}. Tokens a second, median and spread of quiet rounds, A B A B"
    sizes = ", ".join(f"{each['model']['name']} {each['model']['size'] / 1e6:.1f} MB" for each in found)
    commands = "; ".join(f"`{each['command']}`" for each in found)
    return "\n".join([_scope(found[0]["scope"], about), "", *rows, "", f"{sizes}. By {commands}."])


def _peer_row(model: str, row: Mapping[str, Any]) -> str:
    if row["ratio"] is None:
        return f"| {model} | {row['name']} | {row['threads']} | no quiet round was had | | | |"
    speeds = [
        f"{median(row[name]):.4g} ({min(row[name]):.4g} to {max(row[name]):.4g})" for name in ("bittern", "llama")
    ]
    share = "" if row["fraction_of_read_speed"] is None else f"{row['fraction_of_read_speed']:.0%}"
    ratio = f"{row['ratio']:.2f} (of {len(row['ratios'])} rounds)"
    return f"| {' | '.join((model, row['name'], str(row['threads']), *speeds, ratio, share))} |"


def networks() -> str | None:
    """Return the table of what `bench/networks.py --json` measured, or None where that is missing."""
    found = _results("networks")
    if found is None:
        return None
    rows = ["| case | threads | beside | Bittern, us | peer, us | ratio | bar |", "|---|---|---|---|---|---|---|"]
    for row in found["cases"]:
        head = f"| {row['case']} | {row['threads']} | {row['peer']} |"
        if row["ratio"] is None:
            why = "the peer was not there" if row["missing"] else "no quiet round was had"
            rows.append(f"{head} {why} | | | {row['bar']:g} |")
            continue
        times = [[1e6 * value for value in row[name]] for name in ("bittern", "peer_seconds")]
        shown = " | ".join(f"{median(each):.4g} ({min(each):.4g} to {max(each):.4g})" for each in times)
        rows.append(f"{head} {shown} | {row['ratio']:.2f} (of {len(row['bittern'])} rounds) | {row['bar']:g} |")
    head = _scope(found["scope"], "a call, inputs in memory; median and spread of quiet rounds, A B A B")
    return "\n".join([head, "", *rows, "", f"By `{found['command']}`."])


def _results(name: str) -> dict[str, Any] | None:
    path = RESULTS / f"{name}.json"
    found: dict[str, Any] | None = json.loads(path.read_text("utf-8")) if path.exists() else None
    return found


def _scope(about: Mapping[str, Any], what: str) -> str:
    machine = f"{about['cores']} cores of {about['cpu']}, {about['system']}, Python {about['python']}"
    return f"On {machine}, numpy {about['numpy']}, commit {about['commit']}; {what}:"


def pages() -> dict[Path, str]:
    """Return every generated page with its text."""
    docs = ROOT / "docs"
    lists = {docs / "errors.md": errors(), docs / "ops.md": operations(), docs / "commands.md": commands()}
    lists[docs / "onnx.md"] = onnx()
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
