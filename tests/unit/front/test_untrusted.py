"""Untrusted files: each kind of attack on each thing that is read ends in its own code, soon and in little memory.

EDGE_CASES E1, E2, E4, E5, E7: the smallest inputs of `hostile.ROWS`. Exact times are figures of `bench/check`.
"""

import json
import subprocess
import sys
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import Any

import hostile
import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    """What each row took, in a process that began before."""
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "refusing.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.req("K049")
def test_each_input_has_its_code(rows: list[dict[str, Any]]) -> None:
    """EDGE_CASES E1, E2, E4, E5, E7."""
    assert len(rows) == len(hostile.ROWS)
    assert [row for row in rows if row["code"] != row["expected"]] == []


def test_each_refusal_comes_soon(rows: list[dict[str, Any]]) -> None:
    slow = [row for row in rows if row["seconds"] > 2]
    assert not slow, "bounded; bench/check has the figure"


def test_each_refusal_keeps_to_its_memory(rows: list[dict[str, Any]]) -> None:
    """EDGE_CASES E1: at most four times the file and 64 MiB above the start."""
    if all(row["memory"] is None for row in rows):
        pytest.skip("the peak of memory is read from /proc, which this system does not have")
    assert [row for row in rows if row["memory"] > 4 * row["size"] + (64 << 20)] == []


def test_each_cell_has_a_row_or_a_reason() -> None:
    filled = {(row.reader, row.kind) for row in hostile.ROWS}
    cells = {(reader, kind) for reader in hostile.READERS for kind in hostile.KINDS}
    assert filled | set(hostile.APART) == cells
    assert not filled & set(hostile.APART)


def test_the_page_is_fresh() -> None:
    script = _script()
    assert script.PAGE.read_text("utf-8") == script.page(), "run `scripts/untrusted.py`"


def test_an_input_that_is_accepted_is_noticed(tmp_path: Path) -> None:
    """Planted fault: a row whose input is harmless has no code."""
    row = hostile.Hostile("template", "active", "nothing", "F402", lambda folder: None)
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}")
    assert hostile.refused(row, tmp_path) is None


def _script() -> ModuleType:
    spec = util.spec_from_file_location("untrusted", ROOT / "scripts" / "untrusted.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
