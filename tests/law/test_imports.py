"""Law: importing does no work, and nothing reaches outside."""

import socket
import subprocess
import sys

import pytest

PROGRAM = """
import sys
before = set(sys.modules)
import bittern
new = set(sys.modules) - before
heavy = {"numpy", "tokenizers", "jinja2", "cbor2", "rich", "typer", "safetensors", "torch", "ctypes", "subprocess"}
print(len(new), sorted(heavy & set(sys.modules)), sorted(name for name in sys.modules if name.startswith("bittern")))
"""


def test_import_bittern_is_light() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    count, _, rest = done.stdout.partition(" ")
    assert rest.strip() == "[] ['bittern']"
    assert int(count) < 30  # typing and what it needs


@pytest.mark.req("K071")
def test_the_suite_runs_offline() -> None:
    with pytest.raises(PermissionError, match="offline"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    with pytest.raises(PermissionError, match="offline"):
        socket.getaddrinfo("example.org", 80)
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
