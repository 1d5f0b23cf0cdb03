#!/usr/bin/env python3
"""Write docs/untrusted.md: for each thing that Bittern reads and each kind of attack, the inputs that are tested.

    scripts/untrusted.py

The rows are those of tests/hostile.py, which the tests run; a stale page fails them.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "untrusted.md"

_HEAD = """# Untrusted files

<!-- Written by scripts/untrusted.py from tests/hostile.py: edit those. -->

Whatever Bittern reads may come from strangers. It is refused by a code that names the fault, before anything is
allocated, run or written: within 50 ms of processor time in a process that has started and read its library, and
within four times the size of the file and 64 MiB of memory (`bench/check refusals` measures both). Seeded fuzzers in
`tests/fuzz/` look for what this table does not have; each runs for as long as you like:
`python tests/fuzz/test_folder_fuzz.py SECONDS [SEED]`.

Each cell has the codes that its smallest inputs end with; the lists below say what they are.
"""


def page() -> str:
    """Return the page."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    try:
        import hostile
    finally:
        del sys.path[:2]
    lines = [_HEAD, f"| | {' | '.join(hostile.KINDS.values())} |", f"|---|{'---|' * len(hostile.KINDS)}"]
    for reader, title in hostile.READERS.items():
        cells = [
            _codes([row.code for row in hostile.ROWS if (row.reader, row.kind) == (reader, kind)])
            for kind in hostile.KINDS
        ]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    for reader, title in hostile.READERS.items():
        lines += [f"\n## {title[0].upper()}{title[1:]}\n", "| kind | input | code |", "|---|---|---|"]
        for kind, word in hostile.KINDS.items():
            found = [row for row in hostile.ROWS if (row.reader, row.kind) == (reader, kind)]
            lines += [f"| {word} | {row.what} | {row.code} |" for row in found]
            if not found:
                lines.append(f"| {word} | *none: {hostile.APART[reader, kind]}* | |")
    return "\n".join(lines) + "\n"


def _codes(found: list[str]) -> str:
    return " ".join(dict.fromkeys(found)) or "-"


def main() -> int:
    """Write the page if it changed; return the exit status."""
    text = page()
    if not PAGE.exists() or PAGE.read_text("utf-8") != text:
        PAGE.write_text(text, "utf-8")
        print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
