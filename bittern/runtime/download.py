"""Stream one file of known size and digest into a part that survives a kill.

HTTP ranges (RFC 9110, section 14) continue a part; `If-Range` with the entity tag makes the server start again by
itself if its file changed. A server that refuses ranges is read from the start. A connection that breaks is taken up
again as long as it moves forward. The part counts as complete only when its size and its SHA-256 are the pinned ones.
"""

import base64
import json
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from netrc import NetrcParseError, netrc
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress, Task, amount
from bittern.runtime.pip import Connection, bundled_certificates
from bittern.runtime.store import hash_file, storage, sync

REFUSED = code("S115", "the server refuses to give the file")
BROKEN = code("S116", "the transfer broke off")
DIFFERENT = code("S117", "the bytes are not the pinned ones")

_BLOCK = 1 << 18  # bytes a read
_SILENCE = 60.0  # seconds without a byte before a connection counts as broken
_ATTEMPTS = 4  # in a row without a single new byte
_PASSING = (408, 425, 429, 500, 502, 503, 504)  # statuses that another attempt may mend


@dataclass(frozen=True, slots=True)
class Wanted:
    """The file that is wanted: size in bytes, SHA-256 in hexadecimal, what people call it, and how to find its address.

    locate: gives the address; asked only if bytes are missing.
    """

    locate: Callable[[], str]
    size: int
    sha256: str
    title: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """An open stream whose first byte is byte `start` of the file.

    total: the size of the whole file in bytes, or None where the server does not say. tag: names this version of it.
    """

    stream: IO[bytes]
    start: int
    total: int | None
    tag: str


Opener = Callable[[urllib.request.Request], Any]


def opener(ask: Callable[[], Connection]) -> Opener:
    """Return what opens addresses with the user's certificates, proxy and credentials.

    ask: tells how the network is reached; asked once, when the first address is opened.
    """

    @cache
    def prepared() -> tuple[Connection, ssl.SSLContext]:
        connection = ask()
        return connection, _context(connection)

    def open_(request: urllib.request.Request) -> Any:
        connection, context = prepared()
        address = urlsplit(request.full_url)
        if address.hostname in connection.trusted or address.netloc in connection.trusted:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        login = _login(connection, address.hostname or "")
        if login is not None:
            token = base64.b64encode(":".join(login).encode()).decode("ascii")
            request.add_unredirected_header("Authorization", f"Basic {token}")
        proxies = {"http": connection.proxy, "https": connection.proxy} if connection.proxy else None
        handlers = (urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=context))
        return urllib.request.build_opener(*handlers).open(request, timeout=_SILENCE)

    return open_


def download(
    wanted: Wanted,
    part: Path,
    open_: Opener,
    progress: Progress,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Bring the part to its full size and check its digest; do nothing if it is there already.

    part: where the bytes go; a file of the same name with `.json` after it keeps the entity tag.
    pause: waits a number of seconds before another attempt. Errors: S101, S102, S115, S116, S117.
    """
    was_there = _size(part) > 0
    _complete(wanted, part, open_, progress, pause)
    if _is_right(wanted, part, progress):
        return
    discard(part)
    if was_there:
        progress.note(f"{wanted.title}: the earlier part does not fit; starting again.")
        _complete(wanted, part, open_, progress, pause)
        if _is_right(wanted, part, progress):
            return
        discard(part)
    raise BitternError(
        DIFFERENT,
        f"{wanted.title}: the bytes received do not have the pinned SHA-256 {wanted.sha256}.",
        "The index, a proxy or a mirror changes the file: use another index, then run it again.",
    )


def discard(part: Path) -> None:
    """Remove a part and its state."""
    part.unlink(missing_ok=True)
    _state(part).unlink(missing_ok=True)


def missing(wanted_size: int, part: Path) -> int:
    """Return how many bytes of a part are still to come."""
    return max(0, wanted_size - _size(part))


def _complete(wanted: Wanted, part: Path, open_: Opener, progress: Progress, pause: Callable[[float], None]) -> None:
    """Receive until the part has its full size, over as many connections as it takes."""
    if _size(part) == wanted.size:
        return
    url = wanted.locate()
    failures = 0
    with progress.task(f"download {wanted.title}", wanted.size, "B") as task:
        while (have := _size(part)) != wanted.size:
            if have > wanted.size:
                discard(part)
                have = 0
            task.set(have)
            try:
                with _connect(url, have, part, open_) as answer:
                    _receive(answer, wanted, part, have, task, progress)
                reason = "the server closed the connection"
            except (OSError, HTTPException) as error:
                reason = _judge(error, wanted, url)
            now = _size(part)
            failures = 0 if now > have else failures + 1
            if failures >= _ATTEMPTS:
                raise BitternError(
                    BROKEN,
                    f"{wanted.title}: the transfer broke off after {amount(now, 'B')} of "
                    f"{amount(wanted.size, 'B')}: {reason}.",
                    "Check the network and run it again: it continues from there.",
                )
            if now != wanted.size:
                pause(0.5 * 2**failures)


def _receive(answer: _Answer, wanted: Wanted, part: Path, have: int, task: Task, progress: Progress) -> None:
    """Append to the part what one connection gives, but never more than the wanted size."""
    if answer.total not in (None, wanted.size):
        raise BitternError(
            DIFFERENT,
            f"{wanted.title}: the server's file has {answer.total} bytes; pinned are {wanted.size}.",
            "The index, a proxy or a mirror changes the file: use another index, then run it again.",
        )
    if have and answer.start != have:
        progress.note(f"{wanted.title}: the server does not continue a part; starting again.")
    with storage(part):
        file = part.open("r+b" if part.exists() else "wb")
    with file:
        file.seek(answer.start)
        file.truncate()
        _state(part).write_text(json.dumps({"tag": answer.tag}))
        task.set(answer.start)
        left = wanted.size - answer.start
        try:
            while left and (block := answer.stream.read(min(_BLOCK, left))):
                with storage(part):
                    file.write(block)
                left -= len(block)
                task.advance(len(block))
        finally:
            with storage(part):
                sync(file)


@contextmanager
def _connect(url: str, have: int, part: Path, open_: Opener) -> Iterator[_Answer]:
    """Open the address at byte `have` if that is possible, else at its start."""
    if urlsplit(url).scheme == "file":
        with open(urllib.request.url2pathname(urlsplit(url).path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(have)
            yield _Answer(file, have, size, "")
        return
    try:
        response = open_(_request(url, have, _tag(part)))
    except urllib.error.HTTPError as error:
        if error.code != 416 or not have:
            raise
        error.close()
        response = open_(_request(url, 0, ""))
    with response:
        yield _answer(response, have)


def _request(url: str, have: int, tag: str) -> urllib.request.Request:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", "User-Agent": "bittern"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if tag:
            request.add_header("If-Range", tag)
    return request


def _answer(response: Any, have: int) -> _Answer:
    """Read from the headers which bytes come (RFC 9110, 14.4). A tag must promise equal bytes (8.8.1)."""
    tag = response.headers.get("ETag", "")
    tag = tag if tag.startswith('"') else ""
    if response.status != 206:
        length = response.headers.get("Content-Length", "")
        return _Answer(response, 0, int(length) if length.isdecimal() else None, tag)
    unit, _, rest = response.headers.get("Content-Range", "").partition(" ")
    span, _, total = rest.partition("/")
    start = span.partition("-")[0].strip()
    if unit != "bytes" or start != str(have):
        raise OSError(f"the server was asked for byte {have} and answered `{unit} {rest}`")
    return _Answer(response, have, int(total) if total.isdecimal() else None, tag)


def _judge(error: OSError | HTTPException, wanted: Wanted, url: str) -> str:
    """Return why an attempt failed if another may succeed; raise S115 if it cannot."""
    if isinstance(error, urllib.error.HTTPError):
        error.close()
        if error.code in _PASSING:
            return f"the server answered {error.code} {error.reason}"
        asks = error.code in (401, 403, 407)
        raise BitternError(
            REFUSED,
            f"{wanted.title}: {url} answered {error.code} {error.reason}.",
            "Give pip the user and password of the index (index-url or ~/.netrc)."
            if asks
            else "Run it again to ask the index anew; if it lasts, use another index.",
        ) from error
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, ssl.SSLCertVerificationError):
        raise BitternError(
            REFUSED,
            f"{wanted.title}: the certificate of {urlsplit(url).hostname} is not trusted: {cause.verify_message}.",
            "Name the certificates of your network to pip: `pip config set global.cert FILE`.",
        ) from error
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        raise BitternError(
            REFUSED, f"{wanted.title}: {url} cannot be read: {error.strerror}.", "Mend the index or find-links."
        ) from error
    return str(cause) or type(cause).__name__


def _is_right(wanted: Wanted, part: Path, progress: Progress) -> bool:
    with storage(part):
        return hash_file(part, progress, f"check {wanted.title}") == wanted.sha256


def _state(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0


def _tag(part: Path) -> str:
    try:
        return str(json.loads(_state(part).read_bytes())["tag"])
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _context(connection: Connection) -> ssl.SSLContext:
    given = connection.certificates
    if given:
        is_folder = os.path.isdir(given)
        context = ssl.create_default_context(cafile=None if is_folder else given, capath=given if is_folder else None)
    else:
        context = ssl.create_default_context()
        own = ssl.get_default_verify_paths()
        if not context.cert_store_stats()["x509_ca"] and not own.cafile and not own.capath:
            bundle = bundled_certificates()
            if bundle:
                context.load_verify_locations(bundle)
    if connection.client_certificate:
        context.load_cert_chain(connection.client_certificate)
    return context


def _login(connection: Connection, host: str) -> tuple[str, str] | None:
    for known, user, password in connection.credentials:
        if known == host:
            return user, password
    try:
        found = netrc().authenticators(host)
    except (OSError, NetrcParseError):
        return None
    return (found[0], found[2] or "") if found else None


def free_space(folder: Path) -> int:
    """Return how many bytes the disk of a folder can still take."""
    with storage(folder):
        return shutil.disk_usage(folder).free
