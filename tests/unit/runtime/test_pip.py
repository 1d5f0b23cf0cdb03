"""What pip is asked, and what becomes of its answers: a missing pip, an old one, a silent one, and the real one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from wheel_server import content, wheel

from bittern.base.errors import BitternError
from bittern.runtime import pip

RAW, ROW = wheel(content(1000))


def fake(tmp_path: Path, body: str) -> str:
    """Return a program that stands in for the interpreter whose pip is asked."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_the_real_pip_finds_a_wheel_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tiny-1.0-py3-none-any.whl"
    path.write_bytes(RAW)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    found = pip.resolve("tiny==1.0")
    assert found.url == path.as_uri()
    assert found.sha256 in ("", ROW.sha256)
    with pytest.raises(BitternError, match=r"S113.*tiny==2\.0: No matching distribution") as caught:
        pip.resolve("tiny==2.0")
    assert "index settings" in caught.value.remedy


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ("echo '/usr/bin/python3: No module named pip' >&2; exit 1", "has no pip"),
        ("echo 'no such option: --report' >&2; exit 2", "older than 22.2"),
        ("echo 'not json'", "cannot be read"),
        ("""echo '{"install": []}'""", "cannot be read"),
    ],
)
def test_a_pip_that_cannot_serve(tmp_path: Path, body: str, what: str) -> None:
    with pytest.raises(BitternError, match=f"S112.*{what}") as caught:
        pip.resolve("tiny==1.0", fake(tmp_path, body))
    assert "pip" in caught.value.remedy


def test_no_interpreter_at_all(tmp_path: Path) -> None:
    with pytest.raises(BitternError, match="S112.*does not answer"):
        pip.resolve("tiny==1.0", str(tmp_path / "missing"))


def test_a_pip_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip, "_PATIENCE", 0.1)
    with pytest.raises(BitternError, match="S112.*does not answer"):
        pip.resolve("tiny==1.0", fake(tmp_path, "exec sleep 5"))


def test_an_unreachable_index_is_called_so(tmp_path: Path) -> None:
    body = "echo 'WARNING: NewConnectionError' >&2; echo 'ERROR: No matching distribution found' >&2; exit 1"
    with pytest.raises(BitternError, match="S113.*could not be reached"):
        pip.resolve("tiny==1.0", fake(tmp_path, body))


def test_the_report_is_asked_for_without_installing(tmp_path: Path) -> None:
    report = {"install": [{"download_info": {"url": "https://h/t.whl", "archive_info": {"hashes": {"sha256": "ab"}}}}]}
    body = f"echo \"$@\" > {tmp_path}/asked; echo '{json.dumps(report)}'"
    assert pip.resolve("tiny==1.0", fake(tmp_path, body)) == pip.Location("https://h/t.whl", "ab")
    asked = (tmp_path / "asked").read_text().split()
    assert {"--dry-run", "--no-deps", "--ignore-installed", "--report", "--no-input"} <= set(asked)


def test_settings_are_read_as_pip_prints_them(tmp_path: Path) -> None:
    lines = [
        "global.cert='/etc/certs.pem'",
        "global.index-url='https://reader:p%40ss@mirror.example/simple'",
        "global.extra-index-url='https://other.example/simple'",
        "install.proxy='http://proxy.example:3128'",
        "install.trusted-host='mirror.example localhost:8080'",
        "download.proxy='http://unused.example'",
        ":env:.cert='/home/me/own.pem'",
    ]
    text = "\n".join(lines)
    found = pip.connection(fake(tmp_path, f"cat <<'END'\n{text}\nEND"))
    assert found == pip.Connection(
        certificates="/home/me/own.pem",
        proxy="http://proxy.example:3128",
        trusted=("mirror.example", "localhost:8080"),
        credentials=(("mirror.example", "reader", "p@ss"),),
    )


def test_certificates_of_pip_are_found_or_nothing() -> None:
    found = pip.bundled_certificates()
    assert found == "" or Path(found).is_file()
    known = subprocess.run([sys.executable, "-c", "import pip._vendor.certifi"], capture_output=True)
    assert bool(found) == (known.returncode == 0)
