"""Two hands for large work: pieces that touch nothing of each other's are computed by all processors at once.

A piece is the same computation whoever does it, so bits do not depend on the number of threads. Small work stays in the
calling thread, because waking another one costs more than it saves.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache
from typing import Any

LARGE = 1 << 23  # multiplications from which on sharing pays

Piece = tuple[Any, ...]


def share(work: Callable[..., None], pieces: Sequence[Piece], size: int) -> None:
    """Call `work` on every piece, in any order and in any thread. size: multiplications of all pieces together."""
    hands = 1 if size < LARGE else min(_processors(), len(pieces))
    if hands == 1:
        for piece in pieces:
            work(*piece)
        return
    waiting = iter(pieces)  # the next piece goes to whoever is free: `next` of a list's iterator is atomic

    def take() -> None:
        for piece in waiting:
            work(*piece)

    others = [_pool().submit(copy_context().run, take) for _ in range(hands - 1)]  # with numpy's error state
    try:
        take()
    finally:
        wait(others)
    for other in others:
        other.result()


@cache
def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has no threads
    return ThreadPoolExecutor(max(1, _processors() - 1), "bittern-vm")
