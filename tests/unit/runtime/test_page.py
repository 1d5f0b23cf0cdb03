"""The page: one file that loads nothing, keeps what files say as data, and opens in a real browser."""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import tiny_models

from bittern.base.errors import BitternError
from bittern.graph.node import Labels
from bittern.runtime.inspect import Inspection, inspect_path
from bittern.runtime.page import embedded, page_text, write_page

BENCH = Path(__file__).resolve().parents[3] / "bench"
EVIL = "</script><script>document.title='owned'</script><!-- {{script}} {{data}} \u2028"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module bench/page.py, which opens pages."""
    monkeypatch.syspath_prepend(str(BENCH))
    import page

    yield page
    for name in ("page", "figures", "quiet"):
        sys.modules.pop(name, None)


@pytest.fixture
def browser(bench: ModuleType) -> ModuleType:
    """The same, where there is a browser."""
    if bench.browser() is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    return bench


@pytest.fixture
def model(tmp_path: Path) -> Inspection:
    """A tiny Llama of three layers."""
    return inspect_path(tiny_models.save(tmp_path, tiny_models.llama(shape=tiny_models.Shape(layers=3))))


def data_of(page: str) -> Any:
    """Return the data of a page."""
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_the_page_holds_all_and_loads_nothing(model: Inspection) -> None:
    page = page_text(model)
    assert data_of(page) == {"sides": [json.loads(json.dumps(model.as_json()))], "difference": None}
    assert "default-src 'none'" in page
    own = page.replace(embedded({"sides": [model.as_json()], "difference": None}), "")
    assert not re.findall(r"https?:|url\(|@import|\bsrc=|\bhref=|fetch\(|XMLHttp|innerHTML|eval\(|document\.write", own)
    assert "{{" not in own and page.count("</script>") == 2


def evil(found: Inspection) -> Inspection:
    """Return the inspection with labels, names and metadata that try to leave the data."""
    root = found.roots["head"]
    labels = Labels(EVIL, params=(EVIL,), nodes={root.result.id: EVIL})
    roots = {EVIL: replace(root, labels=labels)}
    return replace(found, path=f"x{EVIL}", roots=roots, metadata={EVIL: EVIL})


def test_what_a_file_says_stays_data(model: Inspection) -> None:
    page = page_text(evil(model))
    assert page.count("</script>") == 2 and "owned" in page
    assert EVIL in data_of(page)["sides"][0]["roots"]


def test_a_page_is_written_at_once_or_not_at_all(model: Inspection, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    write_page(target, model)
    first = target.read_bytes()
    write_page(target, model)
    assert target.read_bytes() == first and not list(tmp_path.glob(".part-*"))
    with pytest.raises(BitternError, match="R124"):
        write_page(tmp_path / "missing" / "page.html", model)
    with pytest.raises(BitternError, match="R124"):
        write_page(tmp_path, model)
    assert not list(tmp_path.glob(".part-*")) and not list(tmp_path.parent.glob(".part-*"))


def test_two_graphs_have_their_difference(model: Inspection) -> None:
    other = replace(model, roots={"forward": model.roots["forward"], "head": model.roots["forward"]})
    found = data_of(page_text(model, other))["difference"]["roots"]
    assert found["forward"]["equal"] and not found["head"]["equal"] and found["head"]["only_right"]


def opened(browser: ModuleType, folder: Path, found: Inspection, fragment: str = "", *more: Inspection) -> str:
    """Return the document of a page after it was opened; it must have come to its end."""
    path = folder / "opened.html"
    write_page(path, found, *more)
    document: str = browser.dumped(path, fragment)
    assert browser.ready(document) > 0
    return document


def test_the_page_opens_at_a_node(browser: ModuleType, model: Inspection, tmp_path: Path) -> None:
    document = opened(browser, tmp_path, model, "layer.1.q")
    assert "<h2>layer.1.q</h2>" in document and "q4_1: blocks of 32 values in 20 bytes, row-major" in document
    for fact in ("operation", "family", "shapes", "effects", "ownership", "space", "policy", "source", "mul-adds"):
        assert f"<dt>{fact}</dt>" in document, fact
    assert re.search(r'class="row[^"]* chosen"[^>]*title="layer.1.q', document), "its row in the outline is chosen"


def test_the_page_of_two_shows_the_difference(browser: ModuleType, model: Inspection, tmp_path: Path) -> None:
    other = replace(model, roots={"forward": model.roots["forward"], "head": model.roots["forward"]})
    document = opened(browser, tmp_path, replace(model, roots=dict(reversed(model.roots.items()))), "", other)
    assert "<b>forward</b> is equal" in document and "<b>head</b> parts at" in document
    assert document.count('class="outline"') == 2 and re.search(r'class="row +head( chosen)? left"', document)


def test_a_file_cannot_run_its_own_script(browser: ModuleType, model: Inspection, tmp_path: Path) -> None:
    document = opened(browser, tmp_path, evil(model))
    assert not re.search(r"<title>owned</title>", document) and "&lt;/script&gt;" in document


def test_ten_thousand_nodes_are_not_ten_thousand_elements(browser: ModuleType, tmp_path: Path) -> None:
    document = opened(browser, tmp_path, browser.large(10_000, 40))
    assert document.count('class="row') < 100
    assert re.search(r"10,0\d\d nodes", document)


def test_a_page_that_fails_is_noticed(browser: ModuleType, model: Inspection, tmp_path: Path) -> None:
    path = tmp_path / "broken.html"
    path.write_text(page_text(model).replace("start();", "throw new Error();"), "utf-8")
    with pytest.raises(Exception, match="did not say that it is ready"):
        browser.ready(browser.dumped(path))


KEYS = """
start();
addEventListener("error", (event) => { document.body.dataset.fault = event.message; });
const press = (key, at = document.activeElement) => {
  at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
};
const all = (keys) => keys.split(" ").forEach((key) => press(key));
const search = document.getElementById("search");
all("ArrowDown End PageUp Home ArrowRight ArrowLeft ArrowRight u u c c f + - n");
press("/");
document.body.dataset.focused = document.activeElement.id;
search.value = "block call"; search.dispatchEvent(new Event("input"));
document.body.dataset.found = document.getElementById("count").textContent;
press("Enter", search); press("ArrowDown"); press("Enter");
document.body.dataset.inside = document.querySelector(".path [aria-current]").textContent;
document.querySelector("canvas").focus();
all("ArrowDown ArrowDown ArrowRight ArrowLeft ArrowUp Enter Backspace Backspace Backspace");
document.body.dataset.back = document.querySelector(".path [aria-current]").textContent;
document.body.dataset.end = "reached";
"""


def test_keys_and_search(browser: ModuleType, model: Inspection, tmp_path: Path) -> None:
    path = tmp_path / "keys.html"
    path.write_text(page_text(model, model).replace("start();", KEYS), "utf-8")
    document = browser.dumped(path)
    (body,) = re.findall(r"<body[^>]*>", document)
    facts = dict(re.findall(r'data-(\w+)="([^"]*)"', body))
    assert "fault" not in facts and facts["end"] == "reached", body
    assert facts["focused"] == "search" and facts["found"] == "6 found", "three calls of the block on both sides"
    assert facts["inside"].startswith("llama.block") and facts["back"].startswith("llama.forward")
