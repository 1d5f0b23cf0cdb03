"""The chip to run on, chosen by name or as the best one that is here."""

from pathlib import Path

from bittern.base.errors import BitternError, code
from bittern.base.progress import Progress
from bittern.chips.chip import Chip, Loaded, NativeChip, chip, chip_names
from bittern.chips.machine.memory import EXECUTABLE_MEMORY_REFUSED
from bittern.front.bound import Bound

NOT_TUNED = code("R115", "the chip has no tiers or threads to choose")

AUTO = "auto"
ANYWHERE = "vm"  # runs wherever Python does, with the bits of every native chip
_EVALUATED = ("reference", ANYWHERE)  # native nowhere: they need not be imported to be asked


def chosen(name: str = AUTO, threads: int = 0, tier: str = "") -> Chip:
    """Return a chip by name; `auto`: the native one of this machine, else `vm`.

    threads: 0 takes all cores. tier: name of a feature level, "" for the best. Raises R101, R115.
    """
    if name == AUTO:
        name = next((each for each in chip_names() if each not in _EVALUATED and is_here(each)), ANYWHERE)
    made = chip(name)
    if isinstance(made, NativeChip):
        return made.at(tier, threads)
    if tier or threads > 1:
        what = f"a tier `{tier}`" if tier else f"{threads} threads"
        raise BitternError(NOT_TUNED, f"The chip `{name}` does not run on {what}.", "Leave the option out.")
    return made


def is_here(name: str) -> bool:
    """Say whether a chip is a native one of this machine."""
    made = chip(name)
    return isinstance(made, NativeChip) and made.is_here()


def prepared(
    model: Bound,
    name: str = AUTO,
    threads: int = 0,
    tier: str = "",
    cache: Path | None = None,
    progress: Progress | None = None,
) -> tuple[Chip, Loaded]:
    """Return the chip and the model prepared for it.

    Where the chip was not named and the system gives no executable memory, that is `vm`, which a line of progress says.
    Raises R101, R115, and what the chip raises.
    """
    made = chosen(name, threads, tier)
    try:
        return made, made.load(model, cache)
    except BitternError as refusal:
        if refusal.code != EXECUTABLE_MEMORY_REFUSED or name != AUTO or tier:
            raise
        (progress or Progress()).warn(f"{refusal.what} The chip `{ANYWHERE}` runs the model, slowly, with equal bits.")
        other = chip(ANYWHERE)
        return other, other.load(model, cache)
