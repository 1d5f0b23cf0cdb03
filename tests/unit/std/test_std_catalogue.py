"""The catalogue: its record is what the marks of the tests say, its families hold every module, its numbers add up."""

import json
from importlib import util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bittern.cli import main
from bittern.std.catalogue import FAMILIES, OTHER, RECORD, entries, module_names, record

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The program that writes the record."""
    spec = util.spec_from_file_location("catalogue_script", ROOT / "scripts" / "catalogue.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_record_is_fresh(script: ModuleType) -> None:
    assert not script.faults(record(), script.marks()), "run scripts/catalogue.py"
    assert RECORD.read_text("utf-8") == script.as_text(record())


def test_a_stale_record_is_found(script: ModuleType) -> None:
    claims = [("a.b", "test_x.py::test_y"), ("a.c_*", "test_x.py::test_z")]
    right = {"a.b": {"vm": ["test_x.py::test_y"]}, "a.c_1": {"vm": ["test_x.py::test_z"]}}
    assert not script.faults(right, claims)
    assert len(script.faults({"a.b": right["a.b"]}, claims)) == 1
    assert len(script.faults({**right, "a.d": {"vm": ["test_x.py::test_y"]}}, claims)) == 1
    assert len(script.faults({**right, "a.b": {"vm": ["test_x.py::test_other"]}}, claims)) == 2


def test_marks_are_found(script: ModuleType, tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "unit" / "std"
    folder.mkdir(parents=True)
    (folder / "test_x.py").write_text(
        '@pytest.mark.covers("a.b", "a.c")\n@pytest.mark.covers("d.*")\ndef test_y(run): pass\n'
        '@pytest.mark.parametrize("n", [1])\ndef test_z(run, n): pass\n'
    )
    assert sorted(script.marks(tmp_path)) == [(name, "test_x.py::test_y") for name in ("a.b", "a.c", "d.*")]


def test_a_record_is_written_from_what_ran(script: ModuleType, run: object) -> None:
    """A test that covers a function which it does not evaluate adds nothing."""

    class Item:
        def __init__(self) -> None:
            self.nodeid, self.funcargs = "tests/unit/std/test_x.py::test_y[1]", {"run": run}

        def iter_markers(self, name: str) -> list[pytest.Mark]:
            return [pytest.mark.covers("bitwise.parity", "bitwise.gray").mark]

    recorder = script.Recorder()
    steps = recorder.pytest_runtest_call(Item())
    next(steps)
    run("bitwise.parity", np.uint8(3), elements={"e": "u8"})  # type: ignore[operator]
    run("bitwise.lowest_set", np.uint8(3), elements={"e": "u8"})  # type: ignore[operator]
    with pytest.raises(StopIteration):
        next(steps)
    assert recorder.record == {"bitwise.parity": {"vm": ["test_x.py::test_y"]}}


def test_every_recorded_function_exists() -> None:
    known = {f"{entry.module}.{entry.name}" for entry in entries()}
    assert set(record()) <= known
    named = [module for modules in FAMILIES.values() for module in modules]
    assert len(named) == len(set(named)) and set(named) <= set(module_names())


def test_entries_are_documented_and_numerous() -> None:
    found = entries()
    assert all(entry.summary for entry in found)
    assert len({(entry.module, entry.name) for entry in found}) == len(found)
    assert sum(bool(entry.tested) for entry in found) >= 200
    assert not [entry.module for entry in found if entry.family not in (*FAMILIES, OTHER)]


def test_the_command_prints_the_numbers_of_the_record(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalogue", "--count", "--json"]) == 0
    totals = json.loads(capsys.readouterr().out)
    found = entries()
    assert totals["functions"] == len(found) and totals["tested"] == len(record())
    assert totals["tested_on"] == {
        chip: sum(chip in chips for chips in record().values()) for chip in totals["tested_on"]
    }
    assert main(["catalogue", "--matrix", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["families"]
    assert sum(row["functions"] for row in rows) == len(found)
    assert sum(row["tested"] for row in rows) == len(record())
    assert main(["catalogue", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["functions_of"]
    assert {row["name"]: row["tested"] for row in whole if row["tested"]} == record()


def test_the_command_prints_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["catalogue"]) == 0
    text = capsys.readouterr().out
    assert "  bitwise.parity [vm]\n      Whether the number of set bits is odd.\n" in text
    assert main(["catalogue", "--matrix"]) == 0
    matrix = capsys.readouterr().out
    assert all(f"\n{family}" in matrix for family in FAMILIES) and "reference" in matrix
    assert main(["catalogue", "--count"]) == 0
    assert f"{len(record())} compared with an oracle" in capsys.readouterr().out
