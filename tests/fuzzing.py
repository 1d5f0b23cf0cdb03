"""What the fuzzers of tests/fuzz/ share: mutations of bytes, texts and JSON, and the loop that judges cases.

A fuzzer is a function from (seed, number) to a case, and one from a case to its outcome: the code of a refusal, or
`accepted`. Any other end is an AssertionError that names seed and number, so the case can be made again.
"""

import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, TypeVar

from bittern.base.errors import CODES, BitternError

Case = TypeVar("Case")

NUMBERS = (0, 1, -1, 2, 7, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**62, 2**63, 2**64 - 1, 2**64)
VALUES: tuple[Any, ...] = (
    *NUMBERS,
    True,
    False,
    None,
    "",
    "a",
    "../x",
    "\0",
    0.5,
    -1.5,
    1e308,
    [],
    {},
    [[]],
    [0],
    {"a": 1},
)


def mutated_bytes(chance: random.Random, data: bytes) -> bytes:
    """Return bytes of which some were changed, dropped, repeated or cut off."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place = chance.randrange(len(made) + 1)
        match chance.randrange(6):
            case 0 | 1 if place < len(made):
                made[place] = chance.choice((0, 255, chance.randrange(256), made[place] ^ 1 << chance.randrange(8)))
            case 2:
                del made[place : place + chance.choice((1, 2, 8, 100))]
            case 3:
                source = chance.randrange(len(made) + 1)
                made[place:place] = made[source : source + chance.choice((1, 4, 16, 100))]
            case 4:
                made[place : place + 8] = chance.choice(NUMBERS[4:]).to_bytes(9, "little")[:8]
            case _:
                del made[place:]
    return bytes(made)


def mutated_json(chance: random.Random, data: Any, spare: Sequence[Any] = ()) -> Any:
    """Return a copy of JSON data with some places replaced, dropped, repeated or exchanged. spare: more values."""
    made = deepcopy(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = _places(made)
        if not places:
            return made
        holder, key = chance.choice(places)
        other, other_key = chance.choice(places)
        match chance.randrange(6):
            case 0:
                del holder[key]
            case 1:
                holder[key] = deepcopy(other[other_key])
            case 2 if isinstance(holder, list):
                holder.insert(key, deepcopy(holder[key]))
            case 3 if isinstance(holder[key], int):
                holder[key] = holder[key] + chance.choice((-1, 1, 8))
            case 4 if isinstance(holder, dict):
                holder[chance.choice(("x", "type", str(other_key)))] = holder.pop(key)
            case _:
                holder[key] = deepcopy(chance.choice((*VALUES, *spare)))
    return made


def _places(data: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    rest = [data]
    while rest:
        holder = rest.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder)) if isinstance(holder, list) else ()
        found += [(holder, key) for key in keys]
        rest += [holder[key] for key in keys]
    return found


def mutated_words(chance: random.Random, words: Sequence[str], spare: Sequence[str]) -> list[str]:
    """Return the words of a text, some replaced, dropped, repeated, exchanged or moved. spare: words to put in."""
    made = list(words)
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        place, other = chance.randrange(len(made) + 1), chance.randrange(len(made) + 1)
        match chance.randrange(6):
            case 0:
                del made[place : place + chance.choice((1, 1, 2, 10))]
            case 1:
                made[place:place] = made[other : other + chance.choice((1, 2, 5, 20))]
            case 2 if made:
                made[place % len(made)] = made[other % len(made)]
            case _:
                made[place : place + chance.randrange(2)] = [chance.choice(spare)]
    return made


def outcome_of(read: Callable[[], object], seconds: float) -> str:
    """Return `accepted` or the code of the refusal. Errors: AssertionError for any other end, or one that is late."""
    for _ in range(3):  # a slow one gets another chance: the collector of a large process may have run in it
        start = time.thread_time()
        try:
            read()
            outcome = "accepted"
        except BitternError as error:
            assert error.code in CODES and error.what, error
            assert error.code != "M110", f"a binding file stumbles: {error}"
            outcome = error.code
        except BaseException as fault:
            if isinstance(fault, KeyboardInterrupt):
                raise
            raise AssertionError(f"{type(fault).__name__} instead of a refusal: {fault}") from fault
        spent = time.thread_time() - start
        if spent < seconds:
            return outcome
    raise AssertionError(f"{outcome} after {spent:.2f} s of processor time")


def run(
    seconds: float, seed: int, case: Callable[[int, int], Case], judge: Callable[[Case], str], first: int = 0
) -> Counter[str]:
    """Judge cases for some seconds; return how often each outcome came. Errors: AssertionError that names the case."""
    outcomes: Counter[str] = Counter()
    until = time.monotonic() + seconds
    number = first
    while time.monotonic() < until:
        try:
            outcomes[judge(case(seed, number))] += 1
        except AssertionError as fault:
            raise AssertionError(f"case {number} of seed {seed}: {fault}") from fault
        number += 1
    return outcomes


def fresh_seed() -> int:
    """Return a seed and print it, so that a failing run can be made again."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    return seed


def main(arguments: list[str], case: Callable[[int, int], Case], judge: Callable[[Case], str]) -> None:
    """Run a fuzzer by hand: SECONDS [SEED], or `--case SEED NUMBER` for one case again."""
    if arguments[:1] == ["--case"]:
        made = case(int(arguments[1]), int(arguments[2]))
        print(repr(made))
        print(judge(made))
        return
    seed = int(arguments[1]) if len(arguments) > 1 else fresh_seed()
    outcomes = run(float(arguments[0]) if arguments else 10.0, seed, case, judge)
    for outcome, count in sorted(outcomes.items()):
        print(f"{count:9} {outcome:9} {CODES.get(outcome, '')}")
    print(f"{outcomes.total():9} cases of seed {seed}, nothing else happened")
    sys.stdout.flush()
