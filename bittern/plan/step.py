"""The greedy step: a model's `forward` and `head` as one function, and the launches that choose the next token.

In a step every thread works on one token; its state (token, position, what was made) lies in small buffers that the
last launch moves on, so that many steps run without anybody from outside.
"""

from dataclasses import dataclass, replace

from bittern.graph.node import Function, Labels, Node, call, item, make_tuple, param
from bittern.plan.flow import Value
from bittern.plan.plan import Launch, Plan, Recipe, Region
from bittern.types.dims import dim, symbol
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor, Tuple

PARTS = 64  # stretches of the logits whose greatest are found apart
STOPS = 16  # tokens that may end a generation
MOST = 4096  # tokens that one run of the loop makes at most


@dataclass(frozen=True, slots=True)
class Greedy:
    """A plan whose loop makes tokens. The other values are those that it moves on; see kernels/advance.py."""

    plan: Plan
    token: Value
    pos: Value
    stop: Value
    out: Value
    made: Value
    flag: Value


def step_function(forward: Function, head: Function) -> Function:
    """Return what gives logits and caches: `head` of the hidden states of `forward`. Both have dims t, ..."""
    assert isinstance(forward.result.type, Tuple), forward.name
    sizes = [symbol(k) for k in range(forward.dims)]
    params = [param(k, each.type) for k, each in enumerate(forward.params)]
    done = call(forward, params, sizes)
    logits = call(head, [item(done, 0)], sizes[: head.dims])
    rest: list[Node] = [item(done, k) for k in range(1, len(forward.result.type.items))]
    labels = Labels(f"{forward.name}.step", forward.labels.dims, forward.labels.params)
    return Function(forward.dims, forward.params, make_tuple([logits, *rest]), forward.facts, labels=labels)


def greedy(plan: Plan) -> Greedy:
    """Return the plan of a step for one token, with the choice of the next token behind it."""
    logits, token, pos = plan.results[0], plan.inputs[0], plan.inputs[2]
    vocab = logits.type.shape[-1].constant
    assert vocab is not None, logits.type
    best, index, chosen = _made("f32", PARTS, "best"), _made("u32", PARTS, "index"), _made("u32", 1, "next")
    stop, out = _given(plan, 0, STOPS, "stop"), _given(plan, 1, MOST, "out")
    made, flag = _given(plan, 2, 1, "made"), _given(plan, 3, 1, "flag")
    one, parts = {"t": dim(1)}, {"best": best, "index": index}
    launches = (
        Launch(Recipe("argmax_parts", (vocab, PARTS)), {"x": logits}, parts, one, label="argmax", barrier=True),
        Launch(Recipe("argmax_join", (PARTS,)), parts, {"y": chosen}, one, mode="one", label="argmax"),
        Launch(
            Recipe("advance", (STOPS, MOST)),
            {"next": chosen, "stop": stop, "pos": pos, "made": made},
            {"token": token, "pos": pos, "out": out, "made": made, "flag": flag},
            mode="one",
            label="advance",
        ),
    )
    regions = followed_by(plan, Region("greedy", (), launches))
    root = {**plan.root, **{value: value for value in (best, index, chosen, stop, out, made, flag)}}
    whole = replace(plan, regions=regions, root=root, inputs=(*plan.inputs, stop, out, made, flag))
    return Greedy(whole, token, pos, stop, out, made, flag)


def followed_by(plan: Plan, region: Region) -> tuple[Region, ...]:
    """Return the regions of a plan, a barrier, and one more region."""
    last = plan.regions[-1]
    ended = replace(last, launches=(*last.launches[:-1], replace(last.launches[-1], barrier=True)))
    return (*plan.regions[:-1], ended, region)


def _given(plan: Plan, number: int, count: int, label: str) -> Value:
    type_ = Tensor(ELEMENTS["u32"], (dim(count),))
    return Value(type_, "input", number=len(plan.inputs) + number, label=label)


def _made(element: str, count: int, label: str) -> Value:
    return Value(Tensor(ELEMENTS[element], (dim(count),)), "made", label=label)
