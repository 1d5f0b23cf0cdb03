"""llama.cpp as a peer: a process that loads a model once and times it on request. Needs `llama-cpp-python` only.

    python peer_llama.py MODEL THREADS POSITIONS

It prints one line about itself, then reads lines `pp COUNT DEPTH` and `tg COUNT DEPTH` from stdin and answers each with
seconds, as `llama-bench` counts them: `pp` decodes COUNT tokens in batches of 512; `tg` decodes COUNT tokens one by one
behind DEPTH others, whose tokens are given, so that no time goes into choosing them.
"""

import ctypes
import json
import os
import sys
from time import perf_counter
from typing import Any

import llama_cpp as ll

_BATCH = 512


class Peer:
    """A loaded model. positions: of its cache."""

    def __init__(self, path: str, threads: int, positions: int) -> None:
        quiet = ll.llama_log_callback(lambda level, text, data: None)
        self._quiet = quiet  # it must live as long as the library calls it
        ll.llama_log_set(quiet, ctypes.c_void_p(0))
        ll.llama_backend_init()
        settings = ll.llama_model_default_params()
        self._model = ll.llama_model_load_from_file(path.encode(), settings)
        if not self._model:
            raise SystemExit(f"llama.cpp does not load {path}")
        context = ll.llama_context_default_params()
        context.n_ctx, context.n_batch, context.n_ubatch = positions, _BATCH, _BATCH
        context.n_threads = context.n_threads_batch = threads
        self._context = ll.llama_init_from_model(self._model, context)
        self._memory = ll.llama_get_memory(self._context)
        self._vocab = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(self._model))
        self._held = 0

    def ids(self, count: int) -> Any:
        """Return token ids that are spread over the vocabulary, those that Bittern is given too."""
        return (ctypes.c_int32 * count)(*(place * 7919 % self._vocab for place in range(1, count + 1)))

    def keep(self, depth: int) -> None:
        """Drop what the cache holds behind so many tokens, and fill it up to them."""
        if self._held < depth:
            ll.llama_memory_clear(self._memory, True)
            self._run(self.ids(depth))
        ll.llama_memory_seq_rm(self._memory, 0, depth, -1)
        self._held = depth

    def time(self, kind: str, count: int, depth: int) -> float:
        """Return the seconds for so many tokens at once (`pp`) or one by one (`tg`)."""
        self.keep(depth)
        ids = self.ids(depth + count)[depth:]
        parts = [ids] if kind == "pp" else [[token] for token in ids]
        ll.llama_synchronize(self._context)
        started = perf_counter()
        for part in parts:
            self._run((ctypes.c_int32 * len(part))(*part))
        ll.llama_synchronize(self._context)
        return perf_counter() - started

    def _run(self, ids: Any) -> None:
        for low in range(0, len(ids), _BATCH):
            part = (ctypes.c_int32 * len(ids[low : low + _BATCH]))(*ids[low : low + _BATCH])
            if ll.llama_decode(self._context, ll.llama_batch_get_one(part, len(part))):
                raise SystemExit("llama_decode failed")
        ll.llama_synchronize(self._context)


def main(path: str, threads: int, positions: int) -> None:
    """Answer requests until stdin ends."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    peer = Peer(path, threads, positions)
    system = ll.llama_print_system_info().decode()
    print(
        json.dumps({"name": "llama.cpp", "version": f"llama-cpp-python {ll.__version__}", "system": system}), flush=True
    )
    for line in sys.stdin:
        kind, count, depth = line.split()
        print(peer.time(kind, int(count), int(depth)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
