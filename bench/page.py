"""How long the page of `bittern inspect` takes to open: 10,000 nodes in headless Chromium, from the file to drawn.

The page notes itself when its outline, drawing and details stand: milliseconds since its navigation began, reading and
parsing included, the start of the browser not. One function without layers is the worst case: nothing is folded.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

from figures import CannotMeasureError, Figure

from bittern.graph.node import Function, Labels, Parameter, const, node, param
from bittern.runtime.inspect import Inspection
from bittern.runtime.page import page_text
from bittern.types.elements import F32
from bittern.types.values import tensor

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_NODES = 10_000


def browser() -> str | None:
    """Return the path of a Chromium, or None."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def large(count: int, layers: int = 0) -> Inspection:
    """Return a graph of about `count` nodes; layers: of how many layers its labels tell."""
    x = param(0, tensor(F32, 64))
    labels = {}
    value = last = x
    for place in range(count):
        layer = place * layers // count
        if layers and layer != (place - 1) * layers // count:
            gain = const([float(layer)] * 64, F32)
            labels[gain.id] = f"layer.{layer}.gain"
            value = node("mul", [value, gain], {}, value.type)
        kind = ("add", "mul", "max", "min", "sub")[place % 5]
        last, value = value, node(kind, [value, x if place % 3 else last], {}, value.type)
    function = Function(0, (Parameter(x.type),), value, labels=Labels("large.forward", params=("x",), nodes=labels))
    return Inspection("large.keg", "keg", {"size": 0}, {"forward": function})


def dumped(page: Path, fragment: str = "", width: int = 1680) -> str:
    """Return the document of a page after it was opened at a fragment (`layer.3.q`). Raises CannotMeasureError."""
    found = browser()
    if found is None:
        raise CannotMeasureError("there is no Chromium here: apt install chromium")
    flags = ["--headless=new", "--disable-gpu", "--hide-scrollbars", f"--window-size={width},1000"]
    flags += ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []  # it refuses root otherwise
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [found, *flags, f"--user-data-dir={profile}", "--dump-dom", f"{page.as_uri()}#{fragment}"]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    if done.returncode:
        raise CannotMeasureError(f"Chromium ended with status {done.returncode}: {done.stderr[-200:]}")
    return done.stdout


def ready(document: str) -> float:
    """Return after how many milliseconds a page stood. Raises CannotMeasureError where it never did."""
    found = re.search(r'<body[^>]* data-ready="(\d+)"', document)
    if found is None:
        raise CannotMeasureError("the page did not say that it is ready")
    return float(found.group(1))


def _opened() -> float:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "large.html"
        page.write_text(page_text(large(_NODES)), "utf-8")
        return ready(dumped(page))


def _written() -> float:
    inspection = large(_NODES)
    start = perf_counter()
    page_text(inspection)
    return 1000 * (perf_counter() - start)


FIGURES = (
    Figure("page of 10,000 nodes opens", "ms", _opened, at_most=2000),
    Figure("page of 10,000 nodes written", "ms", _written),
)
