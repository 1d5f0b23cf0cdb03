"""Kinds that hold blocks, and the barrier. Their meaning is the interpreter's.

`for`: operands low, high, step, then the carries; its block has the index and the carries as parameters and yields the
next carries; it runs for low, low + step, ... below high, with a step of at least 1.
`parallel`: low, high, step; the rounds are independent of each other but for barriers, and run in any order or at once.
`while`: limit, then the carries; a test block and a body block, both with the round and the carries as parameters; the
test yields a truth, the body the next carries; it ends when the test fails or after `limit` rounds.
`if`: a truth; the first block runs if it is set, else the second; both yield results of the types `types`.
`barrier`: in a parallel body: no round passes it before all have reached it; what was written before is seen after.
"""

from bittern.bitops.kernel import Attributes
from bittern.bitops.kinds import Types, interpreted
from bittern.bitops.rules import need, need_count, place


def _for(types: Types, _: Attributes) -> Types:
    need(len(types) >= 3, f"{len(types)} operands", "low, high, step")
    for type_ in types[:3]:
        place(type_)
    return types[3:]


def _parallel(types: Types, attributes: Attributes) -> Types:
    need_count(types, 3)
    return _for(types, attributes)


def _while(types: Types, _: Attributes) -> Types:
    need(len(types) >= 1, "no operands", "a limit")
    place(types[0])
    return types[1:]


def _if(types: Types, attributes: Attributes) -> Types:
    need_count(types, 1)
    need(str(types[0]) == "bit", types[0], "a truth")
    return tuple(attributes["types"])


def _barrier(types: Types, _: Attributes) -> Types:
    need_count(types, 0)
    return ()


interpreted("for", "a loop with carried values", _for, "control")
interpreted("parallel", "a loop whose rounds are independent", _parallel, "control")
interpreted("while", "a loop until a test fails, at most so many rounds", _while, "control")
interpreted("if", "one of two blocks", _if, "control")
interpreted("barrier", "all rounds of the parallel loop meet", _barrier, "control", "barrier")
