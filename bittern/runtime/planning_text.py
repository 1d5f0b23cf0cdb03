"""Plans, explanations, ledgers and ablations as text for people, from their records.

Layers of a model are planned alike, so equal rows are told once, with their number.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SAVED = {
    "launches": "launches",
    "barriers": "barriers",
    "allocations": "values with memory",
    "transfers": "transfers",
    "bytes_read": "bytes read",
    "bytes_written": "bytes written",
    "bytes_kept": "bytes of memory",
}


def plan_text(record: Mapping[str, Any], full: bool = False) -> str:
    """Return a plan as lines. full: every region and buffer, nothing folded."""
    lines = [*_head(record), "", *_regions(record["regions"], full), "", *_memory(record), "", *_counts(record)]
    return "\n".join([*lines, *(["", *_buffers(record["buffers"])] if full else [])])


def _head(record: Mapping[str, Any]) -> list[str]:
    target, function = record["target"], record["function"]
    sizes = ", ".join(f"{name} = {size}" for name, size in record["dims"].items())
    launches = sum(len(region["launches"]) for region in record["regions"])
    fused = "" if record["fused"] else ", one application each"
    return [
        f"{record['cut']} of {function['name']}, planned for {target['chip']}:{target['tier']}",
        f"  plan      {record['plan']}",
        f"  graph     {record['graph']}",
        f"  function  {function['id']}",
        f"  target    vectors of {target['vector_bits']} bits, {_number(target['threads'], 'thread')}",
        f"  sizes     {sizes}; the first token at position {record['position']}",
        f"  regions   {len(record['regions'])}{fused}, with {_number(launches, 'launch', 'launches')}",
    ]


def _regions(regions: Sequence[Mapping[str, Any]], full: bool) -> list[str]:
    rows: dict[tuple[str, ...], list[int]] = {}
    for region in regions:
        kernels = " + ".join(_kernel(launch) for launch in region["launches"])
        what = next((each["label"] for each in region["launches"] if each["label"]), "")
        told = (region["rule"], kernels or "-", _modes(region["launches"]))
        key = (str(region["number"]), *told, what) if full else told
        sums = rows.setdefault(key, [0, 0, 0, 0])
        sums[0] += 1
        for k, name in enumerate(("macs", "bytes_read", "bytes_written")):
            sums[k + 1] += sum(each[name] for each in region["launches"])
    names = ("rule", "kernels", "run by")
    heads = ("region", *names, "for") if full else (*names, "times")
    body = [(*key, *map(_thousands, sums[1:] if full else sums)) for key, sums in rows.items()]
    return _table((*heads, "MACs", "read", "written"), body)


def _kernel(launch: Mapping[str, Any]) -> str:
    shown = ", ".join(_argument(each) for each in launch["arguments"])
    return f"{launch['kernel']}({shown})"


def _argument(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "(" + " ".join(_argument(each) for each in value) + ")"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 16 else f"{text[:12]}..."


def _modes(launches: Sequence[Mapping[str, Any]]) -> str:
    who = {"split": "all, shared", "each": "each for itself", "one": "one thread"}
    return " + ".join(f"{who[each['mode']]}{', barrier' if each['barrier'] else ''}" for each in launches) or "nobody"


def _memory(record: Mapping[str, Any]) -> list[str]:
    memory, working = record["memory"], record["working_set"]
    homes = working["homes"]
    levels = ", ".join(f"L{each['level']} {each['bytes'] >> 10} KiB" for each in working["caches"])
    parts = ", ".join(f"{name} {_size(working[name])} ({homes[name]})" for name in ("weights", "cache", "values"))
    return [
        "memory",
        f"  weights   {_size(memory['packed'])} in tiles, {_size(memory['stored'])} as stored",
        f"  inputs    {_size(memory['inputs'])}, caches included",
        f"  values    {_size(memory['shared'])} shared, {_size(memory['own'])} of the threads' own",
        f"  at once   {parts}; the largest launch {_size(working['largest_launch'])} ({homes['largest']})",
        f"  caches    {levels}",
        f"  movement  none: every value lies in `{record['movement']['space']}`",
        "  needs     no capability",
    ]


def _counts(record: Mapping[str, Any]) -> list[str]:
    lines = ["predicted, one run", *_totals(record["predicted"])]
    if "counted" in record:
        same = "equal to the prediction" if record["counted"] == record["predicted"] else "NOT the prediction"
        lines += [f"counted, one run: {same}", *_totals(record["counted"])]
    return lines


def _totals(found: Mapping[str, Any]) -> list[str]:
    launches, barriers = (", ".join(map(str, found[name])) for name in ("launches", "barriers"))
    return [
        f"  MACs      {_thousands(found['macs'])}",
        f"  bytes     {_thousands(found['bytes_read'])} read, {_thousands(found['bytes_written'])} written",
        f"  threads   {launches} launches; {barriers} barriers",
        f"  else      {found['allocations']} allocations, {found['transfers']} transfers",
    ]


def _buffers(buffers: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            each["name"],
            each["label"],
            f"{each['element']}[{', '.join(map(str, each['shape']))}]",
            _thousands(each["bytes"]),
            each["place"] + ("" if each["offset"] is None else f" at {each['offset']}"),
            f"{each['first']} to {'the end' if each['result'] else each['last']}",
        )
        for each in buffers
    ]
    return _table(("buffer", "label", "type", "bytes", "place", "launches"), rows)


def code_text(kernels: Sequence[Mapping[str, Any]]) -> str:
    """Return what the compiler made of each kernel."""
    heads = ("kernel", "bytes", "instructions", "frame", "spills", "reloads", "made again", "copies")
    names = ("bytes", "instructions", "frame_bytes", "stores", "loads", "remade", "copies")
    rows = [(_kernel(each), *(_thousands(each[name]) for name in names)) for each in kernels]
    return "\n".join(["machine code", *_table(heads, rows)])


def explained_text(decisions: Sequence[Mapping[str, Any]]) -> str:
    """Return why the regions are as they are, equal decisions once."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for each in decisions:
        prices = [(price["rule"], round(price["modelled_seconds"] * 1e9)) for price in each["candidates"]]
        groups.setdefault((each["operation"], each["won"], tuple(prices)), []).append(each)
    lines = ["decisions, costs modelled"]
    for same in groups.values():
        first = same[0]
        shown = " ".join(filter(None, (first["operation"], f"`{first['label']}`" if first["label"] else "")))
        times = f", {len(same)} times" if len(same) > 1 else ""
        lines += [f"  {shown}{times}: {first['won']}; {first['reason']}"]
        lines += [f"    {row}" for row in _candidates(first["candidates"])] if len(first["candidates"]) > 1 else []
    return "\n".join(lines)


def _candidates(found: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            each["rule"],
            f"{each['modelled_seconds'] * 1e6:.2f} us",
            str(each["launches"]),
            str(each["barriers"]),
            _thousands(each["bytes"]),
        )
        for each in found
    ]
    return _table(("rule", "cost", "launches", "barriers", "bytes"), rows)


def savings_text(saved: Mapping[str, Mapping[str, int]], counted: Mapping[str, Any] | None) -> str:
    """Return the ledger of fusing, and whether the counters of both runs agree with it."""
    rows = [
        (_SAVED[name], *(_thousands(row[column]) for column in ("single", "fused", "removed")))
        for name, row in saved.items()
    ]
    lines = ["saved by fusing, one run", *_table(("what", "one by one", "fused", "removed"), rows)]
    if counted is not None:
        agree = "say the same" if counted["ledger"] == saved else f"say otherwise: {counted['ledger']}"
        bits = "equal in every bit" if counted["same_bits"] else "NOT equal"
        lines.append(f"  both plans ran: their counters {agree}, their results are {bits}")
    return "\n".join(lines)


def ablation_text(found: Sequence[Mapping[str, Any]]) -> str:
    """Return what facts are worth: a table of all, or what changes without the only one."""
    rows = []
    for each in found:
        before, after = each["before"], each["after"]
        outcome = [f"{before[name]} -> {after[name]}" for name in ("launches", "barriers")]
        refused = str(after["refused"]) if after["refused"] else "-"
        rows.append((each["fact"], str(each["changed"]), *outcome, refused, _factor(before, after)))
    heads = ("without", "decisions changed", "launches", "barriers", "without kernel", "modelled time")
    lines = _table(heads, rows)
    for each in found if len(found) == 1 else ():
        lines = [f"{each['fact']}: {each['tells']}", "", *lines, ""]
        lines += [
            f"  {change['count']} x {change['what']}\n      {change['before']}\n   -> {change['after']}"
            for change in each["changes"]
        ]
        lines += [] if each["changes"] else ["  no decision changes"]
    return "\n".join(lines)


def _factor(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if after["refused"] or not before["modelled_seconds"]:
        return "-"
    return f"x {after['modelled_seconds'] / before['modelled_seconds']:.3g}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return lines with aligned columns: words to the left, numbers to the right."""
    body = [tuple(row) for row in rows]
    widths = [max(len(row[k]) for row in (heads, *body)) for k in range(len(heads))]
    right = [all(row[k][:1].isdigit() or row[k][:1] in "-" for row in body) for k in range(len(heads))]
    lines = []
    for row in (tuple(heads), *body):
        cells = [
            f"{cell:>{width}}" if is_right else f"{cell:<{width}}"
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def _thousands(number: int) -> str:
    return f"{number:,}"


def _number(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _size(size: int) -> str:
    """Return a number of bytes with a unit."""
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size} B"
