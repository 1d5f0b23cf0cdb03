"""Law: every row of sections B and E of the edge cases is shown by a test, or listed with the reason why not yet."""

from pathlib import Path

import pytest
from test_docs import script


def test_rows_of_formats_and_files_are_complete() -> None:
    cases = script("edge_cases")
    known, why = cases.rows(), cases.reasons()
    shown = {row for row, _ in cases.named()}
    assert len(known) > 50 and set(why) <= set(known) and all(why.values())
    assert [row for row in known if row[0] in "BE" and row not in shown and row not in why] == []


def test_no_list_is_stale(capsys: pytest.CaptureFixture[str]) -> None:
    assert script("edge_cases").main([]) == 0, capsys.readouterr().err


def test_names_are_found_in_docstrings_only(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        '"""All of it. EDGE_CASES E1, E2."""\n'
        'def test_a():\n    """Edge cases B1 (groups) and B3: x."""\n'
        'def test_b():\n    """Opcodes A6 and B6."""\n    # EDGE_CASES E9\n'
    )
    name = "tests/test_x.py"
    found = [("E1", name), ("E2", name), ("B1", f"{name}::test_a"), ("B3", f"{name}::test_a")]
    assert list(script("edge_cases").named(tmp_path)) == found


def test_a_wrong_name_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted fault: a test names a row that does not exist, or one that is said to be not applicable."""
    for row in ("E99", "E10"):
        cases = script("edge_cases")
        monkeypatch.setattr(cases, "named", lambda row=row: [(row, "tests/test_x.py")])
        assert cases.main([]) == 1
