"""The caches of this machine, as Linux tells them, and what of a plan fits where."""

from dataclasses import dataclass
from pathlib import Path

CPU = Path("/sys/devices/system/cpu")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class CpuCache:
    """level: 1 to 4. bytes: in all. cores: that share it."""

    level: int
    bytes: int
    cores: int

    @property
    def name(self) -> str:
        """What people call it."""
        return f"L{self.level}"


NOMINAL = (CpuCache(1, 32 << 10, 1), CpuCache(2, 1 << 20, 1), CpuCache(3, 32 << 20, 8))  # where the system does not say


def caches(root: Path = CPU) -> tuple[CpuCache, ...]:
    """Return the data caches of the first core, the smallest first; () where the system does not say."""
    found = []
    for folder in sorted(root.glob("cpu0/cache/index*")):
        kind, level, size, shared = (_read(folder / name) for name in ("type", "level", "size", "shared_cpu_list"))
        amount, unit = (size[:-1], size[-1:]) if size[-1:].isalpha() else (size, "")
        if kind in ("Data", "Unified") and level.isdecimal() and amount.isdecimal() and unit in _UNITS:
            found.append(CpuCache(int(level), int(amount) * _UNITS[unit], _count(shared)))
    return tuple(sorted(found, key=lambda cache: cache.level))


def home(size: int, known: tuple[CpuCache, ...]) -> str:
    """Return the smallest cache that holds so many bytes, or `memory`."""
    return next((cache.name for cache in known if size <= cache.bytes), "memory")


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""


def _count(cores: str) -> int:
    """Return how many numbers a list such as `0-3,8` has; at least 1."""
    total = 0
    for part in cores.split(","):
        low, mark, high = part.partition("-")
        if low.isdecimal() and (not mark or high.isdecimal()):
            total += int(high) - int(low) + 1 if mark else 1
    return max(1, total)
