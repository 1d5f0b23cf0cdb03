"""A server on the loopback interface that gives one file in good and bad manners, and small wheels for it to give."""

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random

from bittern.runtime.pinned import PinnedModel, Wheel


@dataclass
class Manners:
    """How the server behaves, and what it was asked.

    ranges: whether it continues a file. breaks: after how many bytes of the body each of the next answers stops.
    statuses: what each of the next requests is refused with. delay: seconds between two blocks.
    """

    body: bytes
    ranges: bool = True
    tag: str = '"1"'
    breaks: list[int] = field(default_factory=list)
    always_break: int | None = None
    statuses: list[int] = field(default_factory=list)
    delay: float = 0.0
    wrong_start: bool = False
    asked: list[str | None] = field(default_factory=list)
    authorised: list[str | None] = field(default_factory=list)


@contextmanager
def serving(manners: Manners) -> Iterator[str]:
    """Serve for the time of the block; give the address of the file."""
    stopped = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        """Answers GET with the body of `manners`."""

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            """Give the file, or the part of it that was asked for."""
            asked = self.headers.get("Range")
            manners.asked.append(asked)
            manners.authorised.append(self.headers.get("Authorization"))
            if manners.statuses:
                self.send_error(manners.statuses.pop(0))
                return
            start = int(asked.removeprefix("bytes=").partition("-")[0]) if asked else 0
            changed = self.headers.get("If-Range") not in (None, manners.tag)
            if start >= len(manners.body) and manners.ranges:
                self.send_error(416)
                return
            partial = bool(asked) and manners.ranges and not changed
            start = start if partial else 0
            self.send_response(206 if partial else 200)
            self.send_header("ETag", manners.tag)
            self.send_header("Content-Length", str(len(manners.body) - start))
            if partial:
                first = start + manners.wrong_start
                self.send_header("Content-Range", f"bytes {first}-{len(manners.body) - 1}/{len(manners.body)}")
            self.end_headers()
            self.give(manners.body[start:])

        def give(self, body: bytes) -> None:
            """Send the body in blocks, or less of it if the manners say so."""
            limit = manners.breaks.pop(0) if manners.breaks else manners.always_break
            body = body if limit is None else body[:limit]
            try:
                for at in range(0, len(body), 4096):
                    self.wfile.write(body[at : at + 4096])
                    if manners.delay and stopped.wait(manners.delay):
                        return
            except OSError:
                return  # the client is gone

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/tiny-1.0-py3-none-any.whl"
    finally:
        stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()


def content(size: int, seed: int = 1) -> bytes:
    """Return bytes that do not compress."""
    return Random(seed).randbytes(size)


def sha256(data: bytes) -> str:
    """Return the SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def wheel(data: bytes, name: str = "tiny", member: str = "tiny/model.gguf") -> tuple[bytes, Wheel]:
    """Return an installable wheel that holds the data as one member, and its row."""
    return wheel_of({member: data}, name)


def wheel_of(members: dict[str, bytes], name: str = "tiny") -> tuple[bytes, Wheel]:
    """Return an installable wheel with several members, and its row, which names the first of them."""
    info = f"{name.replace('-', '_')}-1.0.dist-info"
    files = {
        **members,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    raw = packed.getvalue()
    return raw, Wheel(name, "1.0", len(raw), sha256(raw), next(iter(members)))


def model(data: bytes, *wheels: Wheel, accept: str = "") -> PinnedModel:
    """Return the row of a model made of these wheels."""
    return PinnedModel("tiny", "A tiny model", "Free", accept, len(data), sha256(data), wheels)
