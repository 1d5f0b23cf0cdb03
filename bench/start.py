"""How long Bittern takes to start: wall time of a whole process."""

import subprocess
import sys
from time import perf_counter

from figures import Figure


def _seconds(*arguments: str) -> float:
    start = perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    return 1000 * (perf_counter() - start)


FIGURES = (
    Figure("python itself", "ms", lambda: _seconds("-c", "pass"), repeats=11),
    Figure("import bittern", "ms", lambda: _seconds("-c", "import bittern"), at_most=150, repeats=11),
    Figure("bittern --help", "ms", lambda: _seconds("-m", "bittern", "--help"), at_most=150, repeats=11),
    Figure("bittern pull --help", "ms", lambda: _seconds("-m", "bittern", "pull", "--help"), repeats=11),
)
