"""The chip that is taken where none is named, and what happens where the system refuses machine code."""

import errno
import io
import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_models

import bittern
from bittern.base.errors import BitternError
from bittern.base.progress import Lines, Quiet
from bittern.chips.machine import memory
from bittern.chips.x86.features import is_here
from bittern.cli import main
from bittern.runtime.choice import chosen

needs_x86 = pytest.mark.skipif(not is_here(), reason="this machine is no x86-64 with Linux or macOS")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    data = tiny_models.llama(shape=tiny_models.Shape(vocab=259), keys=tiny_models.tokenizer(), is_tied=False, seed=6)
    return tiny_models.save(tmp_path, data)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A system that gives no executable memory in any way."""

    def refuse(_: bytes) -> mmap.mmap:
        raise PermissionError(errno.EACCES, "Permission denied")

    ways: dict[str, Callable[[bytes], mmap.mmap]] = {"memory file": refuse, "mprotect": refuse}
    monkeypatch.setattr(memory, "WAYS", ways)


@needs_x86
def test_the_native_chip_is_the_default(path: Path) -> None:
    assert chosen().name == "x86"
    with bittern.load(path) as model:
        assert model.chip.name == "x86"


@pytest.mark.parametrize(("machine", "system"), [("arm64", "darwin"), ("x86_64", "win32")])
def test_elsewhere_it_is_vm(machine: str, system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr("sys.platform", system)
    assert chosen().name == "vm"
    with pytest.raises(BitternError) as caught:
        assert chosen("x86").tier
    assert caught.value.code == "R165" and "`vm`" in caught.value.remedy


@needs_x86
def test_without_executable_memory_it_is_vm(path: Path, refusing: Any) -> None:
    """One line says so, and the bits are the same."""
    told = io.StringIO()
    with bittern.load(path, progress=Lines(told)) as model, bittern.load(path, chip="vm") as vm:
        assert model.chip.name == "vm"
        texts = ["".join(each.generate("ab", 8, ignore_eos=True)) for each in (model, vm)]
        assert texts[0] == texts[1]
    assert told.getvalue().count("executable memory") == 1 and "`vm`" in told.getvalue()
    quiet = io.StringIO()
    bittern.load(path, progress=Quiet(quiet)).close()
    assert quiet.getvalue().count("\n") == 1


@needs_x86
@pytest.mark.parametrize("options", [{"chip": "x86"}, {"tier": "sse2"}])
def test_what_was_named_is_not_replaced(options: dict[str, str], path: Path, refusing: Any) -> None:
    with pytest.raises(BitternError) as caught:
        bittern.load(path, **options)  # type: ignore[arg-type]
    assert caught.value.code == "R161" and "`vm`" in caught.value.remedy


def test_the_command_line_says_so_once(path: Path, refusing: Any, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["generate", "-m", str(path), "-p", "ab", "-n", "4", "--ignore-eos"]
    assert main(call) == 0
    auto = capsys.readouterr()
    assert main([*call, "--chip", "vm"]) == 0
    vm = capsys.readouterr()
    assert auto.out == vm.out and ("executable memory" in auto.err) == is_here()


@needs_x86
def test_tiers_and_threads(path: Path) -> None:
    made = chosen(tier="sse2", threads=1)
    assert (made.name, made.tier) == ("x86", "sse2")
    with bittern.load(path, tier="sse2", threads=1) as model, bittern.load(path, chip="vm") as vm:
        texts = ["".join(each.generate("ab", 8, ignore_eos=True)) for each in (model, vm)]
        assert texts[0] == texts[1]
    for options, code in (({"tier": "sse9"}, "R162"), ({"chip": "x87"}, "R101")):
        with pytest.raises(BitternError) as caught:
            bittern.load(path, **options)  # type: ignore[arg-type]
        assert caught.value.code == code


@pytest.mark.parametrize("options", [{"tier": "avx2"}, {"threads": 2}])
def test_chips_without_tiers(options: dict[str, Any], path: Path) -> None:
    with pytest.raises(BitternError) as caught:
        bittern.load(path, chip="vm", **options)
    assert caught.value.code == "R115"
    bittern.load(path, chip="vm", threads=1).close()
