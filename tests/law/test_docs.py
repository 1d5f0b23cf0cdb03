"""Law: the documents are true: generated pages are fresh, commands exist, programs parse, links lead somewhere."""

import re
import shlex
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest
from source_tree import ROOT

from bittern.cli import COMMANDS

DOCUMENTS = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))


def script(name: str) -> ModuleType:
    """Return a module of scripts/."""
    spec = util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(path: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def test_generated_pages_are_fresh() -> None:
    for path, text in script("docs").pages().items():
        assert path.is_file(), f"{path.name} is missing: run `make docs`"
        assert path.read_text("utf-8") == text, f"{path.name} is stale: run `make docs`"


def test_commands_in_the_documents_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in DOCUMENTS:
        lines = "\n".join(
            [*blocks(path, "sh"), *re.findall(r"`(bittern [a-z][^`]*|make [a-z][^`]*)`", path.read_text())]
        )
        if path.name == "requirements.md":
            continue  # its last column only illustrates
        for name in re.findall(r"(?:^|[\s/])bittern ([a-z]+)\b", lines):
            assert name in COMMANDS, (path.name, name)
        for names in re.findall(r"^make ((?:[a-z-]+ ?)+)", lines, re.MULTILINE):
            assert set(names.split()) <= targets, (path.name, names)


def test_readme_has_the_two_commands() -> None:
    (first, *_) = blocks(ROOT / "README.md", "sh")
    assert re.findall(r"^make \w+", first, re.MULTILINE) == ["make demo", "make test"]


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert not [name for name in COMMANDS if name not in text]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)#]+)", prose):
        if "://" not in target:
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_programs_in_the_documents_parse(path: Path) -> None:
    from bittern.lang.parser import parse
    from bittern.lang.source import Source

    for text in blocks(path, "btn"):
        _, faults = parse(Source(path.name, text))
        assert not faults, [(fault.code, fault.message) for fault in faults]


def test_the_samples_of_the_language_page_are_right() -> None:
    from bittern.lang.check import check_text
    from bittern.lang.render import as_text

    samples = blocks(ROOT / "docs" / "language.md", "btn")
    assert len(samples) >= 5
    for text in samples:
        assert not [as_text(fault) for fault in check_text(text, "sample.btn")]
    assert (ROOT / "bittern" / "models" / "llama.btn").read_text("utf-8") in samples


def test_the_python_of_the_readme_runs(smollm2: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = blocks(ROOT / "README.md", "python")
    exec(text.replace("smollm2.gguf", str(smollm2)), {})
    assert "Paris" in capsys.readouterr().out


def test_the_readme_names_what_there_is() -> None:
    """The table of what runs has every format, family and chip, so that a new one cannot be forgotten there."""
    from bittern.chips.chip import chip_names
    from bittern.models.family import names
    from bittern.types.elements import FORMATS

    text = (ROOT / "README.md").read_text("utf-8")
    table = text[text.index("## What runs") : text.index("## Models")]
    products = {path.stem for path in (ROOT / "bittern" / "std" / "products").glob("*.btn")}
    wanted = {name.upper() for name in products & {*FORMATS, "f32", "f16", "bf16"}}
    wanted |= {f"`{name}`" for name in chip_names()}
    assert not sorted(word for word in wanted if not re.search(rf"(?<!\w){word}(?!\w)", table))
    spoken = re.sub(r"[^a-z0-9]", "", table.lower())
    assert not [name for name in names() if name not in spoken]


def test_the_commands_of_the_readme_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that use a model run on a tiny one in its place; `pull` needs a network and is only read."""
    import tiny_models

    from bittern.cli import main

    shape = tiny_models.Shape(vocab=259)
    model = tiny_models.save(tmp_path, tiny_models.llama(shape=shape, keys=tiny_models.tokenizer()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path / "home"))
    lines = "\n".join(blocks(ROOT / "README.md", "sh"))
    commands = [shlex.split(line) for line in re.findall(r"^\.venv/bin/bittern (.*)$", lines, re.MULTILINE)]
    assert [command[0] for command in commands] == ["pull", "bringup", "generate"]
    for command in commands[1:]:
        assert main([str(model) if word == "smollm2" else word for word in command]) == 0, command
    assert main([commands[0][0], "--help"]) == 0
    assert (tmp_path / "out" / "tiny" / "llama.keg").exists()
    assert "agree with the reference" in capsys.readouterr().out


def test_requirements_are_listed_once() -> None:
    requirements = script("requirements")
    known = requirements.requirements()
    assert len(known) > 150
    rows = re.findall(r"^\| ([KCL]\d+) \|", (ROOT / "docs" / "requirements.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows)) == len(known)


def test_tests_name_known_requirements_only() -> None:
    requirements = script("requirements")
    known = requirements.requirements()
    named = list(requirements.marks())
    assert ("K071", "tests/law/test_imports.py::test_the_suite_runs_offline") in named
    assert not [(identity, test) for identity, test in named if identity not in known]


def test_marks_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_x.py").write_text(
        "pytestmark = pytest.mark.req('K001')\n"
        "@pytest.mark.req('K002', 'K003')\ndef test_a(): pass\n"
        "@pytest.mark.req('K004')\nclass TestB:\n    @pytest.mark.req('K005')\n    def test_c(self): pass\n"
    )
    name = "tests/test_x.py"
    assert sorted(script("requirements").marks(tmp_path)) == [
        ("K001", name),
        ("K002", f"{name}::test_a"),
        ("K003", f"{name}::test_a"),
        ("K004", f"{name}::TestB"),
        ("K005", f"{name}::TestB::test_c"),
    ]


def test_the_licence_is_the_whole_text() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text and len(text) > 11_000
