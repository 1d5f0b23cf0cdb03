"""Writing networks in other forms: one row a form, a file that appears whole or not at all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bittern.base.errors import BitternError, code, nearest
from bittern.base.writing import write_whole
from bittern.front.network.network import Network
from bittern.passes.network import integer_only

UNKNOWN_FORM = code("N464", "networks are not exported in this form")

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

    program, _ = integer_only(network.function, network.library)
    return X86(wish.get("tier", "")).load_function(program, network.library).standalone()


def _onnx(network: Network, wish: Wish) -> bytes:
    from bittern.runtime.onnx_export.table import standard

    return standard(network)


# fmt: off
FORMS: dict[str, Form] = {
    "elf": Form("", "a static program for Linux on x86-64 that reads samples and writes outputs", _elf, runs=True),
    "onnx": Form(".onnx", "standard ONNX whose integers are the same in any runtime", _onnx),
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
    write_whole(path, lambda file: file.write(data), 0o755 if row.runs else None)
    return len(data)
