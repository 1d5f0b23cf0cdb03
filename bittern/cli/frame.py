"""What all commands share: where the store is, how failures end, how typer reads the arguments of one command.

The environment is read here and nowhere below: BITTERN_HOME, else the user's cache folder, is the root of the store.
Every ending of a command has one exit status: 0 success, 1 a failure with a code, 130 an interrupt, 143 a termination,
141 a reader of stdout that went away. With `--json` stdout is one object whatever happens.
"""

import errno
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bittern.base.errors import BitternError, code, nearest

if TYPE_CHECKING:
    from bittern.base.progress import Progress
    from bittern.runtime.store import Store

BAD_ARGUMENTS = code("U111", "the arguments of the command are wrong")
NO_MODEL = code("U112", "there is no such file or pulled model")
NO_HOME = code("U114", "the folder of the store cannot be told")
NO_OUTPUT = code("U115", "the output cannot be written")
MEMORY = code("U116", "the memory does not suffice")
STOPPED = code("U117", "the command was stopped before its end")
INTERNAL = code("U199", "Bittern itself failed")

FAILED = 1
INTERRUPTED = 130  # 128 + SIGINT
TERMINATED = 143  # 128 + SIGTERM
NO_READER = 141  # 128 + SIGPIPE

_OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)


def home(environment: Mapping[str, str]) -> Path:
    """Return the root of the store: BITTERN_HOME, else `bittern` in the user's cache folder. Errors: U114."""
    given = environment.get("BITTERN_HOME")
    cache = environment.get("XDG_CACHE_HOME") or environment.get("LOCALAPPDATA") or "~/.cache"
    try:
        return Path(given).expanduser() if given else Path(cache).expanduser() / "bittern"
    except RuntimeError as error:
        raise BitternError(
            NO_HOME, f"The home folder in `{given or cache}` is unknown.", "Name a folder in BITTERN_HOME."
        ) from error


def open_store() -> "Store":
    """Return the user's store. Errors: U114."""
    from bittern.runtime.store import Store

    return Store(home(os.environ))


def progress(quiet: bool) -> "Progress":
    """Return what reports progress on stderr: bars, lines, or only warnings if quiet."""
    from bittern.base.progress import reporter

    return reporter(sys.stderr, quiet)


def model_path(given: str, store: "Store") -> Path:
    """Return the path that a MODEL argument means: a file or folder, or the name of a pulled model. Errors: U112."""
    path = Path(given)
    if given and path.exists():
        return path
    entry = store.model(given) if given and os.sep not in given else None
    if entry is not None:
        return entry.path
    from bittern.runtime.pinned import PINNED

    if given in PINNED:
        raise BitternError(NO_MODEL, f"The model `{given}` is not in the store.", f"Run `bittern pull {given}` first.")
    names = sorted({*PINNED, *(entry.name for entry in store.models())})
    near = nearest(given, names) if os.sep not in given else ""
    remedy = f"{near} Give the path of a file, or a name that `bittern models` lists.".lstrip()
    raise BitternError(NO_MODEL, f"There is no file, folder or pulled model `{given}`.", remedy)


def print_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    from bittern.base.json_text import json_text

    print(json_text(value, sys.stdout.encoding or "utf-8"))


def run(name: str, arguments: list[str]) -> int:
    """Call the command of this name with its arguments read by typer; return the exit status. Errors: U111."""
    from importlib import import_module

    import typer

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings = {"help_option_names": ["-h", "--help"]}
    app.command(name, context_settings=settings)(import_module(f"bittern.cli.{name}").command)
    usage_error: type[Exception] = typer.BadParameter.__mro__[1]  # click's, which newer versions of typer carry inside
    read = typer.main.get_command(app)
    try:
        with read.make_context(f"bittern {name}", arguments) as context:
            status = read.invoke(context)
    except typer.Exit as ended:  # after --help
        return ended.exit_code
    except usage_error as error:
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        message = message if message.endswith((".", "?")) else f"{message}."
        raise BitternError(BAD_ARGUMENTS, message, f"`bittern {name} --help` shows its arguments.") from error
    return status if isinstance(status, int) else 0


def guarded(work: Callable[[], int], as_json: bool) -> int:
    """Do the work and turn every ending into an exit status, with no traceback where the user can mend it.

    as_json: failures are one JSON object on stdout as well as text on stderr.
    """
    previous = _on_terminate()
    _write_any_text()
    try:
        status = work()
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        _drop_output()
        return NO_READER
    except KeyboardInterrupt:
        _report(BitternError(STOPPED, "It was interrupted.", "Run it again: nothing half-done is left."), as_json)
        return INTERRUPTED
    except _Terminated:
        _report(BitternError(STOPPED, "It was terminated.", "Run it again: nothing half-done is left."), as_json)
        return TERMINATED
    except Exception as error:
        _report(_coded(error), as_json)
        return FAILED
    finally:
        _restore(previous)


class _Terminated(BaseException):
    """SIGTERM arrived."""


def _coded(error: Exception) -> BitternError:
    """Return a failure with its code; one that is our own fault is shown with its traceback."""
    if isinstance(error, BitternError):
        return error
    if isinstance(error, MemoryError):
        return BitternError(MEMORY, f"The memory does not suffice: {error}.", "Give less to do, or free memory.")
    if isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT_FAULTS:
        return BitternError(NO_OUTPUT, f"stdout cannot be written: {error.strerror}.", "Send it elsewhere.")
    import traceback

    traceback.print_exc()
    what = f"Bittern itself failed: {type(error).__name__}: {error}."
    return BitternError(INTERNAL, what, "Please report it with the traceback.")


def _report(error: BitternError, as_json: bool) -> None:
    """Tell a failure on stderr, and on stdout as an object if that is asked for."""
    try:
        print(f"error[{error.code}]: {error.what}", file=sys.stderr)
        if error.remedy:
            print(f"  {error.remedy}", file=sys.stderr)
        if as_json:
            print_json({"error": error.as_json()})
        sys.stdout.flush()
    except OSError:  # nobody listens any more
        _drop_output()


def _drop_output() -> None:
    """Let what is still written to stdout go nowhere, so that the end of the process does not fail on it again."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends)


def _write_any_text() -> None:
    """Escape what the encoding of the streams cannot hold, instead of failing in the middle of a text."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _on_terminate() -> Any:
    """Make SIGTERM unwind like an error, so that temporary files go; return what was there before."""
    import signal

    def end(*_: object) -> None:
        raise _Terminated

    try:
        return signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread: the caller's own handling stays
        return None


def _restore(previous: Any) -> None:
    import signal

    if previous is not None:
        signal.signal(signal.SIGTERM, previous)
