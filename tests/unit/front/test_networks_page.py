"""The page about networks: its Python runs, one block after the other, and it names every layer."""

import re
from pathlib import Path

from bittern import nn
from bittern.front.network.activation import ACTIVATIONS
from bittern.front.network.layers import LAYERS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "networks.md"


def test_the_python_of_the_page_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    names: dict[str, object] = {}
    for place, block in enumerate(blocks):
        exec(compile(block, f"block {place} of {PAGE.name}", "exec"), names)


def test_the_page_names_every_layer_and_activation() -> None:
    table = PAGE.read_text("utf-8").split("## Layers")[1].split("## Parameters")[0]
    words = set(re.findall(r"\w+", table)) | {"custom"}
    assert not {*LAYERS, *ACTIVATIONS} - words


def test_the_module_shows_every_layer() -> None:
    shown = {getattr(nn, name) for name in nn.__all__}
    assert not [kind.__name__ for kind in LAYERS.values() if kind not in shown]
