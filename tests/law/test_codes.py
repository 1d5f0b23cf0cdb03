"""Law: every error code that is declared is shown by a test or a golden case."""

import json
import re
import subprocess
import sys
from pathlib import Path

from source_tree import ROOT

from bittern.cli.explain import AREAS, codes

# Loads every module, which declares its codes.
LOADED = """
import bittern, json
from importlib import import_module
from pkgutil import walk_packages
from bittern.base.errors import CODES
for module in walk_packages(bittern.__path__, "bittern."):
    if not module.name.startswith(("bittern.train", "bittern.__main__")):
        import_module(module.name)
print(json.dumps(CODES))
"""


def shown_codes() -> set[str]:
    """Return the codes that the tests name; the law tests themselves do not count."""
    law = Path(__file__).parent
    text = [
        path.read_text("utf-8", errors="replace")
        for path in (ROOT / "tests").rglob("*")
        if path.is_file() and path.suffix in (".py", ".btn", ".txt", ".json", ".golden") and law not in path.parents
    ]
    return set(re.findall(r"\b[A-Z]\d{3}\b", "\n".join(text)))


def test_every_code_is_shown() -> None:
    missing = {name: title for name, title in codes().items() if name not in shown_codes()}
    assert not missing, "\n".join(f"{name}: {title}" for name, title in missing.items())


def test_no_code_is_overlooked() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == codes()


def test_every_code_has_an_area_and_a_title() -> None:
    for name, title in codes().items():
        assert re.fullmatch(r"[A-Z]\d{3}", name), name
        assert name[:2] in AREAS, name
        assert title and title[-1] not in ".!:" and title == title.strip(), (name, title)
