"""Every command of these tests has a store of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_store(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that BITTERN_HOME names."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("BITTERN_HOME", str(folder))
    return folder
