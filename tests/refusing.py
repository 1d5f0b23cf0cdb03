"""Measure each row of `hostile.ROWS` in this process: `python tests/refusing.py` prints a JSON list.

Items: reader, kind, what, expected code, found code, seconds of processor time (the second of two readings: a started
process), bytes of memory above the start, bytes of the input. Memory is null where the system does not tell it.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parent.parent)]

import hostile

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def _memory(key: str) -> int | None:
    """Return a line of the process's status, in bytes."""
    if not _STATUS.exists():
        return None
    (line,) = [line for line in _STATUS.read_text().splitlines() if line.startswith(key)]
    return int(line.split()[1]) * 1024


def measured(row: hostile.Hostile, folder: Path) -> dict[str, object]:
    """Write a row's input, let it be refused twice, and return what that took."""
    row.write(folder)
    size = sum(path.stat().st_size for path in folder.rglob("*"))
    hostile.refused(row, folder)
    start, peak = _memory("VmRSS"), None
    try:
        _CLEAR.write_text("5")  # forgets the peak so far
    except OSError:
        start = None
    begun = time.process_time()
    code = hostile.refused(row, folder)
    spent = time.process_time() - begun
    if start is not None:
        peak = (_memory("VmHWM") or 0) - start
    about = {"reader": row.reader, "kind": row.kind, "what": row.what, "expected": row.code, "code": code}
    return about | {"seconds": spent, "memory": peak, "size": size}


def main() -> None:
    """Measure all rows and print them."""
    found = []
    for row in hostile.ROWS:
        with tempfile.TemporaryDirectory() as folder:
            found.append(measured(row, Path(folder)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
