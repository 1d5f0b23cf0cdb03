"""The levels of a program below its graph: after the passes, as bitops kernels, as machine code.

In goes an inspection, out come plain values, the same operations under the same names at every level. Level 2 is the
graph after all passes; calls of functions that the plan has kernels for stay. Level 3 is the text of each kernel, with
the launches that run it and the nodes of the graph that it covers; level 4 is where its machine code lies in the
program, stretch by stretch. A checkpoint is planned for a number of tokens; a function of a program becomes one kernel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bittern.base.errors import BitternError, code, nearest
from bittern.bitops.kernel import Kernel
from bittern.bitops.text import text
from bittern.graph.facts import operation_of
from bittern.graph.node import STRUCTURAL, Function, walk
from bittern.graph.rewrite import substitute_dims
from bittern.lang.library import Library
from bittern.passes.run import Passed, passed
from bittern.passes.table import Context
from bittern.plan.flow import plain_name
from bittern.plan.rules import KNOWN, RULES
from bittern.runtime.inspect import Inspection
from bittern.types.dims import dim, symbol

if TYPE_CHECKING:
    from bittern.chips.machine.assembler import Code

NO_FUNCTION = code("R127", "the file has no function of this name")
NO_SIZE = code("R128", "a size is needed to make kernels, or is none of the function")

LEVELS = {1: "the graph", 2: "the graph after the passes", 3: "kernels in bitops", 4: "machine code"}
_MODEL_SIZES = {"t": 1, "s": 1, "c": 512}  # one token, one sequence, so many positions


@dataclass(frozen=True, slots=True)
class View:
    """What is asked for. level: 1 to 4. sizes: of dimensions, by name. without: passes to leave out.

    tier: of the machine code; "" for the best that this processor has. folders: of the library, before Bittern's own.
    """

    level: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    tier: str = ""
    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A kernel and what it is for: one (label, names of the operations, ids of the nodes) for each launch."""

    name: str
    kernel: Kernel
    launches: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]


def only_function(found: Inspection, name: str) -> Inspection:
    """Return an inspection of one of its functions. Errors: R127."""
    if name not in found.roots:
        remedy = nearest(name, list(found.roots)) or "`bittern inspect` lists the functions."
        raise BitternError(NO_FUNCTION, f"{found.path} has no function `{name}`.", remedy)
    return replace(found, roots={name: found.roots[name]})


def at_level_two(found: Inspection, view: View) -> tuple[Inspection, dict[str, Passed]]:
    """Return the inspection with its functions after the passes, and what the passes did. Errors: R128, R140, R141."""
    context = Context(has_kernel=lambda function: plain_name(function) in KNOWN)
    _need_known_sizes(found, view)
    done = {}
    for label, root in found.roots.items():
        done[label] = passed(_sized(root, view.sizes), context, without=view.without)
    return replace(found, roots={label: each.function for label, each in done.items()}), done


def level_record(found: Inspection, view: View) -> dict[str, Any]:
    """Return a level as plain values. Errors: those of the passes, of planning, lowering and compiling; R128."""
    head: dict[str, Any] = {"path": found.path, "kind": found.kind, "level": view.level}
    if view.level == 2:
        after, done = at_level_two(found, view)
        steps = {
            label: [{"pass": s.name, "round": s.round, "nodes": s.nodes} for s in each.steps]
            for label, each in done.items()
        }
        about = {"level": f"2: {LEVELS[2]}", "without": ", ".join(view.without) or "nothing left out"}
        return {**after.as_json(), **head, "about": about, "passes": steps, "metadata": {}, "tensors": []}
    if found.refusal is not None:
        raise found.refusal
    roots = {}
    for label, root in found.roots.items():
        sizes = sizes_of(found, root, view)
        made = kernels_of(found, root, sizes, view)
        roots[label] = {"sizes": sizes, **(_texts(made) if view.level == 3 else _machine(made, view.tier))}
    return {**head, "roots": roots}


def sizes_of(found: Inspection, root: Function, view: View) -> dict[str, int]:
    """Return a size for every dimension of a function, those of a checkpoint from what is usual. Errors: R128."""
    _need_known_sizes(found, view)
    usual = _MODEL_SIZES if _is_planned(found, root) else {}
    sizes = {**usual, **view.sizes}
    names = [name_of(root, place) for place in range(root.dims)]
    missing = [name for name in names if name not in sizes]
    if missing:
        what = f"The kernels of `{root.name}` need sizes for {', '.join(missing)}."
        given = ",".join(f"{name}=64" for name in missing)
        raise BitternError(NO_SIZE, what, f"Give them, as in --dims {given}.")
    return {name: sizes[name] for name in names}


def name_of(function: Function, place: int) -> str:
    """Return the name of a dimension parameter."""
    names = function.labels.dims
    return names[place] if place < len(names) else f"d{place}"


def _need_known_sizes(found: Inspection, view: View) -> None:
    known = {name_of(root, place) for root in found.roots.values() for place in range(root.dims)}
    for name in view.sizes:
        if name not in known:
            remedy = nearest(name, sorted(known)) or "The functions have no dimensions."
            raise BitternError(NO_SIZE, f"No function of {found.path} has a dimension `{name}`.", remedy)


def _sized(root: Function, sizes: Mapping[str, int]) -> Function:
    """Return a function with the sizes that are given put in; the other dimensions stay."""
    names = [name_of(root, place) for place in range(root.dims)]
    if not any(name in sizes for name in names):
        return root
    dims = [dim(sizes[name]) if name in sizes else symbol(place) for place, name in enumerate(names)]
    made = substitute_dims(root, dims, root.dims)
    return replace(made, labels=replace(made.labels, dims=root.labels.dims))


# --- kernels


def kernels_of(found: Inspection, root: Function, sizes: Mapping[str, int], view: View) -> list[Made]:
    """Return the kernels of a function for these sizes, each once, in the order in which they run first."""
    return _planned(root, sizes, view) if _is_planned(found, root) else [_lowered(root, sizes, view)]


def _is_planned(found: Inspection, root: Function) -> bool:
    """Whether a function is one of a model's, which are planned for tokens."""
    return found.kind in ("gguf", "huggingface") or (found.kind == "keg" and root.labels.dims[:1] == ("t",))


def _lowered(root: Function, sizes: Mapping[str, int], view: View) -> Made:
    from bittern.kernels.generic.lower import lower

    function = passed(_sized(root, sizes), without=view.without).function
    work = [n for n in walk(function.result) if n.kind not in STRUCTURAL or n.kind in ("map", "for", "while", "if")]
    names = tuple(function.labels.nodes.get(n.id, "") or operation_of(n) for n in work)
    made = lower(function, [sizes[name_of(root, place)] for place in range(root.dims)], name=root.name, shared=False)
    return Made(root.name, made.kernel, ((root.name, names, tuple(n.id.hex() for n in work)),))


def _planned(root: Function, sizes: Mapping[str, int], view: View) -> list[Made]:
    from bittern.kernels.recipes import build
    from bittern.plan.plan import Recipe
    from bittern.plan.planner import plan_of

    known = {place: sizes[name_of(root, place)] for place in range(root.dims)}
    plan = plan_of(root, RULES, KNOWN, Library.standard(*view.folders), known)
    found: dict[Recipe, Made] = {}
    for region in plan.regions:
        names = tuple(apply.label or apply.name for apply in region.covers)
        nodes = tuple(apply.node.id.hex() for apply in region.covers)
        for launch in region.launches:
            recipe = launch.recipe
            here = (launch.label or recipe.name, names, nodes)
            if recipe in found:
                found[recipe] = replace(found[recipe], launches=(*found[recipe].launches, here))
            else:
                found[recipe] = Made(str(recipe), recipe.kernel or build(recipe.name, recipe.arguments), (here,))
    return list(found.values())


def _launches(made: Made) -> list[dict[str, Any]]:
    return [
        {"label": label, "operations": list(operations), "nodes": list(nodes)}
        for label, operations, nodes in made.launches
    ]


def _texts(made: Sequence[Made]) -> dict[str, Any]:
    return {"kernels": [{"name": m.name, "launches": _launches(m), "text": text(m.kernel)} for m in made]}


# --- machine code


def _machine(made: Sequence[Made], wanted: str) -> dict[str, Any]:
    """Return where the code of each kernel lies in a program of all of them."""
    from bittern.chips.machine.program import Launch, Section
    from bittern.chips.x86.compile import compile_kernel
    from bittern.chips.x86.features import TIERS, read, tier
    from bittern.chips.x86.program import assemble

    chosen = next((t for t in TIERS if t.name == wanted), None) or tier(read(), wanted)
    codes = [compile_kernel(m.kernel, chosen).code for m in made]
    order = [Launch(number, 0, label=label) for number, m in enumerate(made) for label, _, _ in m.launches]
    whole, spans = assemble(codes, {"run": Section(tuple(order))})
    kernels = []
    for m, routine, span in zip(made, codes, spans, strict=True):
        stretches = _stretches(routine, span.offset)
        kernels.append({"name": m.name, "launches": _launches(m), **_range(span.offset, span.size), "code": stretches})
    return {"tier": chosen.name, "bytes": len(whole.data), "kernels": kernels}


def _range(start: int, size: int) -> dict[str, int]:
    return {"start": start, "end": start + size}


def _stretches(routine: "Code", start: int) -> list[dict[str, Any]]:
    """Return the stretches of a routine: what each was made for, where it lies, its instructions."""
    marks = [*((0, "") for _ in range(not routine.marks or routine.marks[0][0] > 0)), *routine.marks]
    ends = [*(offset for offset, _ in marks[1:]), routine.size]
    found = []
    for (offset, label), end in zip(marks, ends, strict=True):
        if end > offset:
            lines = instructions(routine.data[offset:end], start + offset)
            found.append({"operation": label, **_range(start + offset, end - offset), "instructions": lines})
    if len(routine.data) > routine.size:
        rest = _range(start + routine.size, len(routine.data) - routine.size)
        found.append({"operation": "constants", **rest, "instructions": []})
    return found


def instructions(code: bytes, start: int) -> list[str]:
    """Return machine code as lines `address bytes`, with the instruction where a disassembler is installed."""
    try:
        from iced_x86 import Decoder, Formatter, FormatterSyntax
    except ImportError:
        return [f"{start + k:#08x}  {code[k : k + 16].hex(' ')}" for k in range(0, len(code), 16)]
    formatter = Formatter(FormatterSyntax.INTEL)
    return [
        f"{each.ip:#08x}  {code[each.ip - start : each.next_ip - start].hex():30}  {formatter.format(each)}"
        for each in Decoder(64, code, ip=start)
    ]
