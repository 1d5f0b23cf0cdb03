"""A comparison of two runs as text."""

from bittern.runtime.diff import Comparison, Divergence, Row
from bittern.runtime.inspect_text import printable

_SHOWN = 40


def comparison_text(made: Comparison) -> str:
    """Return the comparison as text: what differs first, then all that was compared."""
    lines = [f"left   {printable(made.left)}", f"right  {printable(made.right)}", f"on     {made.samples} samples", ""]
    lines += [f"output {printable(row.name)}: {_row(row)}" for row in made.outputs]
    inside = [row for row in made.rows if row.differing]
    lines.append(f"inside: {len(made.rows)} values compared, {len(inside)} differ")
    lines += ["", *([_equal(made.passed)] if made.first is None else _first(made.first))]
    if inside:
        width = min(max(len(printable(row.name)) for row in inside[:_SHOWN]), 60)
        lines += ["", "all values that differ, in the order of the graph:"]
        lines += [f"  {_short(row.name, width):{width}}  {_row(row)}" for row in inside[:_SHOWN]]
        lines += [f"  ... {len(inside) - _SHOWN} more"] * (len(inside) > _SHOWN)
    return "\n".join([*lines, *(f"note: {note}" for note in made.notes)])


def _first(first: Divergence) -> list[str]:
    where = f" at {list(first.at)}" if first.at else ""
    within = f", on the way to `{printable(first.layer)}`" if first.layer != first.node else ""
    lines = [
        f"first difference: `{printable(first.node)}`{within}",
        f"  computed by  {first.kind}, {first.element} {list(first.shape)}",
        f"  element     {where or ' unknown'}: left {first.left}, right {first.right}",
        f"  in all       {_count(first.differing, first.count)}",
        f"  likely       {first.classes[0].name}: {first.classes[0].evidence}",
    ]
    lines += [f"  or           {each.name}: {each.evidence}" for each in first.classes[1:3]]
    return [*lines, *(f"  because      {printable(cause)}" for cause in first.causes)]


def _equal(passed: int) -> str:
    return f"equal, but for {passed} values whose differences are passed over" if passed else "equal"


def _row(row: Row) -> str:
    return f"{_count(row.differing, row.count)}" + (f", by {row.largest:.6g} at most" if row.differing > 0 else "")


def _count(differing: int, count: int) -> str:
    if differing < 0:
        return "differ"
    return f"{differing} of {count} differ" if differing else f"all {count} equal"


def _short(name: str, width: int) -> str:
    text = printable(name)
    return text if len(text) <= width else f"{text[: width - 3]}..."
