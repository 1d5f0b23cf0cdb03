"""Writing networks in other forms: one row a form, a file that appears whole or not at all."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bittern.base.errors import BitternError, code, nearest
from bittern.front.network.network import Network
from bittern.runtime.network import NetworkModel

UNKNOWN_FORM = code("N464", "networks are not exported in this form")
NOT_WRITTEN = code("N465", "an exported file cannot be written")

Wish = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Form:
    """One form. suffix: that names it. what: for people. make: returns the bytes. runs: the file is a program."""

    suffix: str
    what: str
    make: Callable[[Network, Wish], bytes]
    runs: bool = False


def _elf(network: Network, wish: Wish) -> bytes:
    from bittern.chips.x86.chip import X86

    model = NetworkModel(network, "vm")
    return X86(wish.get("tier", "")).load_function(model.program, network.library).standalone()


# fmt: off
FORMS: dict[str, Form] = {
    "elf": Form("", "a static program for Linux on x86-64 that reads samples and writes outputs", _elf, runs=True),
}
# fmt: on


def export(network: Network, path: Path, form: str, wish: Wish | None = None) -> int:
    """Write a network in another form; return the bytes written. wish: options of the form, such as `tier`.

    Raises N464, N465, and what the form refuses.
    """
    if form not in FORMS:
        remedy = nearest(form, list(FORMS)) or f"Known: {', '.join(FORMS)}."
        raise BitternError(UNKNOWN_FORM, f"There is no form `{form}`.", remedy)
    row = FORMS[form]
    data = row.make(network, wish or {})
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(data)
        if row.runs:
            part.chmod(0o755)
        part.replace(path)
    except OSError as fault:
        raise BitternError(NOT_WRITTEN, f"{path} cannot be written: {fault}.", "Choose another place.") from fault
    finally:
        part.unlink(missing_ok=True)
    return len(data)
