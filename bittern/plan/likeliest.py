"""The likeliest token after each of several tokens, which may be of one sequence or of many.

It serves the verification of drafted tokens and batches of sequences: a model's step, and behind it the greatest of
each row of logits.
"""

from dataclasses import dataclass, replace

from bittern.plan.flow import Value
from bittern.plan.plan import Launch, Plan, Recipe, Region
from bittern.plan.step import PARTS, followed_by
from bittern.types.dims import dim
from bittern.types.elements import ELEMENTS
from bittern.types.values import Tensor


@dataclass(frozen=True, slots=True)
class Likeliest:
    """A plan that ends with the choice of a token for each row. chosen: u32[t]."""

    plan: Plan
    chosen: Value


def likeliest(plan: Plan) -> Likeliest:
    """Return the plan of a step with the choice behind it. plan: of `step_function`, for any number of tokens."""
    logits = plan.results[0]
    tokens, vocab = logits.type.shape[0], logits.type.shape[-1].constant
    assert vocab is not None, logits.type
    best, index = (Value(Tensor(ELEMENTS[of], (tokens, dim(PARTS))), "made", label="argmax") for of in ("f32", "u32"))
    chosen = Value(Tensor(ELEMENTS["u32"], (tokens,)), "made", label="argmax")
    parts, sizes = {"best": best, "index": index}, {"t": tokens}
    launches = (
        Launch(Recipe("argmax_parts", (vocab, PARTS)), {"x": logits}, parts, sizes, label="argmax", barrier=True),
        Launch(Recipe("argmax_join", (PARTS,)), parts, {"y": chosen}, sizes, mode="one", label="argmax"),
    )
    regions = followed_by(plan, Region("likeliest", (), launches))
    root = {**plan.root, **{value: value for value in (best, index, chosen)}}
    return Likeliest(replace(plan, regions=regions, root=root, results=(chosen, *plan.results[1:])), chosen)
