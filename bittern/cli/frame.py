"""What all commands share: where the store is, how failures end, how typer reads the arguments of one command.

The environment is read here and nowhere below: BITTERN_HOME, else the user's cache folder, is the root of the store.
"""

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
INTERNAL = code("U199", "Bittern itself failed")

INTERRUPTED = 130  # 128 + SIGINT
_TERMINATED = 143  # 128 + SIGTERM
_NO_READER = 141  # 128 + SIGPIPE


class UsageError(BitternError):
    """A mistake in the command line itself; it ends with status 2."""


def home(environment: Mapping[str, str]) -> Path:
    """Return the root of the store: BITTERN_HOME, else `bittern` in the user's cache folder."""
    if given := environment.get("BITTERN_HOME"):
        return Path(given).expanduser()
    cache = environment.get("XDG_CACHE_HOME") or environment.get("LOCALAPPDATA")
    return Path(cache).expanduser() / "bittern" if cache else Path("~/.cache/bittern").expanduser()


def open_store() -> "Store":
    """Return the user's store."""
    from bittern.runtime.store import Store

    return Store(home(os.environ))


def progress(quiet: bool) -> "Progress":
    """Return what reports progress on stderr: bars, lines, or nothing if quiet."""
    from bittern.base.progress import reporter

    return reporter(sys.stderr, quiet)


def model_path(given: str, store: "Store") -> Path:
    """Return the path that a MODEL argument means: a file or folder, or the name of a pulled model. Errors: U112."""
    path = Path(given)
    if path.exists():
        return path
    entry = store.model(given)
    if entry is not None:
        return entry.path
    from bittern.runtime.pinned import PINNED

    if given in PINNED:
        raise BitternError(NO_MODEL, f"The model `{given}` is not in the store.", f"Run `bittern pull {given}` first.")
    names = sorted({*PINNED, *(entry.name for entry in store.models())})
    near = nearest(given, names) if os.sep not in given else ""
    remedy = f"{near} Give the path of a file, or a name that `bittern models` lists.".lstrip()
    raise BitternError(NO_MODEL, f"There is no file, folder or pulled model `{given}`.", remedy)


def choice(option: str, given: str, allowed: tuple[str, ...]) -> str:
    """Return the value of an option that has a few allowed words. Errors: U111."""
    if given in allowed:
        return given
    raise UsageError(BAD_ARGUMENTS, f"{option} does not know `{given}`.", nearest(given, list(allowed)))


def words(given: str) -> tuple[str, ...]:
    """Return the words of a comma-separated option, without blanks and empty ones."""
    return tuple(word.strip() for word in given.split(",") if word.strip())


def print_json(value: Any) -> None:
    """Print one JSON object on stdout."""
    import json

    print(json.dumps(value, indent=2, ensure_ascii=False))


def run(name: str, arguments: list[str]) -> int:
    """Call the command of this name with its arguments read by typer; return the exit status."""
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
        raise UsageError(BAD_ARGUMENTS, message, f"`bittern {name} --help` shows its arguments.") from error
    return status if isinstance(status, int) else 0


def guarded(work: Callable[[], int], as_json: bool) -> int:
    """Do the work and turn every ending into an exit status, with no traceback where the user can mend it.

    as_json: failures are one JSON object on stdout as well as text on stderr.
    """
    previous = _on_terminate()
    try:
        status = work()
        sys.stdout.flush()
        return status
    except BitternError as error:
        _report(error, as_json)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 (open until the process ends: nothing may write to the pipe)
        return _NO_READER
    except Exception as error:
        import traceback

        traceback.print_exc()
        remedy = "Please report it with the traceback."
        _report(BitternError(INTERNAL, f"Bittern itself failed: {type(error).__name__}: {error}.", remedy), as_json)
        return 1
    finally:
        _restore(previous)


def _report(error: BitternError, as_json: bool) -> None:
    print(f"error[{error.code}]: {error.what}", file=sys.stderr)
    if error.remedy:
        print(f"  {error.remedy}", file=sys.stderr)
    if as_json:
        print_json({"error": error.as_json()})
        sys.stdout.flush()


def _on_terminate() -> Any:
    """Make SIGTERM unwind like an error, so that temporary files go; return what was there before."""
    import signal

    def end(*_: object) -> None:
        raise SystemExit(_TERMINATED)

    try:
        return signal.signal(signal.SIGTERM, end)
    except ValueError:  # not the main thread: the caller's own handling stays
        return None


def _restore(previous: Any) -> None:
    import signal

    if previous is not None:
        signal.signal(signal.SIGTERM, previous)
