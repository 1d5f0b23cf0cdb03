"""Bittern as a peer: a process that loads a model once and times it on request, as `peer_llama.py` does.

    python peer_bittern.py MODEL THREADS CHIP

Besides `pp COUNT DEPTH` and `tg COUNT DEPTH` it answers `read 0 0`: bytes a second that all threads read from memory.
`pp` ends with the choice of the first token, and `tg` chooses every token.
"""

import json
import sys
from pathlib import Path
from statistics import median

from bittern import __version__
from bittern.cli.frame import open_store
from bittern.runtime.bench import open_bench, read_speed, use_threads, weights_of


def main(path: str, threads: int, chip: str) -> None:
    """Answer requests until stdin ends."""
    use_threads(threads)
    with open_bench(Path(path), chip=chip, store=open_store()) as bench:
        name = f"bittern {bench.chip.name}:{bench.chip.tier}"
        about = {"name": name, "version": __version__, "weights": weights_of(bench.bound)}
        print(json.dumps(about), flush=True)
        for line in sys.stdin:
            kind, count, depth = line.split()
            if kind == "read":
                print(median(read_speed(threads).values), flush=True)
            elif kind == "pp":
                print(bench.prompt(int(count)), flush=True)
            else:
                print(bench.tokens(int(count), int(depth)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
