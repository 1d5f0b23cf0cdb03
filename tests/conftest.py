"""Fixtures that find real models and recorded goldens, and skip with the reason where they are missing."""

import hashlib
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from bittern.runtime.pinned import PinnedModel

ROOT = Path(__file__).resolve().parent.parent
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does; two workers share two cores


# A runner in the background ignores interrupts, and so would every process that a test starts to interrupt it.
with suppress(ValueError):  # not the main thread
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("free", deadline=None)
# The same cases in every run, and a slow machine is no fault.
settings.register_profile(
    "fixed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
# Where CI is set, pytest prints whole differences: minutes for a planted fault in long arrays. So it does not see it.
settings.load_profile("fixed" if os.environ.pop("CI", "") else "free")


def _offline(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse every connection that leaves this machine: the suite must pass without a network."""
    if event == "socket.connect":
        address = arguments[1]
        host = address[0] if isinstance(address, tuple) else "localhost"
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if host not in (None, "", "localhost", "127.0.0.1", "::1"):
        raise PermissionError(f"the tests run offline: no connection to {host!r}")


sys.addaudithook(_offline)


def _data() -> Path:
    given = Path(os.environ.get("BITTERN_TEST_DATA", "../shared/data"))
    return given if given.is_absolute() else ROOT / given


def _is(path: Path, size: int, sha256: str) -> bool:
    """Whether a file has this size and digest."""
    if not path.is_file() or path.stat().st_size != size:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def _in_folder(folder: Path, wanted: PinnedModel) -> Path | None:
    """Return the model in the folder, whatever its name is: a file, or a folder with all of its files."""
    if wanted.files:
        homes = sorted(path.parent for path in folder.glob(f"*/{wanted.files[0].name}"))
        rows = [(home, [_is(home / row.name, row.size, row.sha256) for row in wanted.files]) for home in homes]
        return next((home for home, found in rows if all(found)), None)
    return next((path for path in sorted(folder.glob("*.gguf")) if _is(path, wanted.size, wanted.sha256)), None)


def _model(name: str, remedy: str) -> Path:
    """Return the path of a model of the table, or skip with the reason and the remedy."""
    from bittern.cli.frame import home
    from bittern.runtime.pinned import PINNED
    from bittern.runtime.store import Store

    wanted = PINNED[name]
    folder = os.environ.get("BITTERN_TEST_MODELS")
    if folder:
        path = _in_folder(Path(folder), wanted)
        if path is None:
            pytest.skip(f"no {name} (sha256 {wanted.sha256[:12]}...) in BITTERN_TEST_MODELS={folder}")
        return path
    store = Store(home(os.environ))
    entry = store.model(name)
    if entry is None:
        pytest.skip(f"{name} is not in the store at {store.root}: {remedy}")
    return entry.path


@pytest.fixture(scope="session", autouse=True)
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let all tests, those of other workers too, share compiled code; `Routines._compile` still compiles."""
    from bittern.chips.machine.code_cache import CodeCache
    from bittern.chips.x86.routines import Routines

    base = tmp_path_factory.getbasetemp()
    shared = CodeCache((base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "code")
    with pytest.MonkeyPatch.context() as patch:
        make = Routines.__init__
        patch.setattr(Routines, "__init__", lambda self, tier, cache=None: make(self, tier, shared))
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real models and goldens, named by BITTERN_TEST_DATA."""
    path = _data()
    if not path.is_dir():
        pytest.skip(f"no test data at {path}: set BITTERN_TEST_DATA to the folder that holds goldens/ and models/")
    return path


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The GGUF file of SmolLM2-135M (Q4_1), from the store or from the folder BITTERN_TEST_MODELS."""
    return _model("smollm2", "run `make pull`, or name a folder that holds the file in BITTERN_TEST_MODELS")


@pytest.fixture(scope="session")
def gemma3() -> Path:
    """The GGUF file of Gemma 3 270M (Q4_K_M): optional, its licence must be accepted."""
    return _model("gemma3-270m", "run `bittern pull gemma3-270m --accept-licence gemma`, or use BITTERN_TEST_MODELS")


@pytest.fixture(scope="session")
def minilm() -> Path:
    """The folder of all-MiniLM-L6-v2, an encoder: optional."""
    return _model(
        "minilm", "run `bittern pull minilm`, or name the folder that holds its folder in BITTERN_TEST_MODELS"
    )
