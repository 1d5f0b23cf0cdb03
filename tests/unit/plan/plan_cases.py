"""Tiny models and programs to plan: bound once, planned as sessions plan them."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import tiny_models as tiny

from bittern.front.bind import bind_checkpoint
from bittern.front.bound import Bound
from bittern.front.gguf import open_gguf
from bittern.graph.node import Function
from bittern.lang.check import check_module
from bittern.lang.elaborate import instance_for
from bittern.lang.library import Library
from bittern.lang.source import Source
from bittern.plan.counts import Run
from bittern.plan.plan import Launch, Plan, Region
from bittern.plan.planner import plan_of
from bittern.plan.rules import KNOWN, RULES
from bittern.plan.step import greedy, step_function

LIBRARY = Library.standard()
CONTEXT = 64
SMALL = tiny.Shape(layers=2, d=64, ff=64, heads=2, g=2)
_FOLDER = tempfile.TemporaryDirectory()


@cache
def bound(family: str = "llama", element: str = "q4_1", kept: str = "f16") -> Bound:
    """Return a tiny model. kept: the element of its cache."""
    path = Path(_FOLDER.name) / f"{family}-{element}.gguf"
    if not path.exists():
        path.write_bytes(getattr(tiny, family)(element, SMALL))
    return bind_checkpoint(open_gguf(path), LIBRARY, kept)


@cache
def planned(
    family: str = "llama", tokens: int | None = 1, fuse: bool = True, element: str = "q4_1", kept: str = "f16"
) -> Plan:
    """Return the plan of a step; of one token with the choice of the next one behind it."""
    model = bound(family, element, kept)
    sizes = {1: 1, 2: CONTEXT} | ({} if tokens is None else {0: tokens})
    plan = plan_of(step_function(model.forward, model.head), RULES, KNOWN, LIBRARY, sizes, fuse=fuse)
    return greedy(plan).plan if tokens == 1 else plan


def run_of(tokens: int = 1, position: int = 0, threads: int = 2) -> Run:
    """Return a run of these plans."""
    return Run((tokens, 1, CONTEXT), position, threads)


def function(text: str, name: str = "f") -> Function:
    """Return a function of a program that may use the library."""
    library = Library.standard()
    module = library.add("program", [Source("program.btn", text)])
    check_module(module)
    library.raise_errors()
    return instance_for(module, module.functions[name][0], {})


def plan(text: str, dims: Mapping[int, int] | None = None) -> Plan:
    """Return the plan of a program's function `f`."""
    return plan_of(function(text), RULES, KNOWN, LIBRARY, dims)


def rules(plan: Plan) -> list[str]:
    """Return the rules of the regions in order."""
    return [region.rule for region in plan.regions]


def spots(plan: Plan) -> Iterator[tuple[int, int, Launch]]:
    """Yield region number, number in the region, launch."""
    for k, region in enumerate(plan.regions):
        for j, launch in enumerate(region.launches):
            yield k, j, launch


def changed(plan: Plan, region: int, number: int, launch: Launch) -> Plan:
    """Return a plan with another launch at a place."""
    launches = plan.regions[region].launches
    made = replace(plan.regions[region], launches=(*launches[:number], launch, *launches[number + 1 :]))
    return with_regions(plan, [*plan.regions[:region], made, *plan.regions[region + 1 :]])


def with_regions(plan: Plan, regions: Sequence[Region]) -> Plan:
    """Return a plan with other regions."""
    return replace(plan, regions=tuple(regions))
