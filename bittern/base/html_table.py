"""Small static HTML for notebooks: a caption and rows of names and values, all escaped, with no style of its own."""

from collections.abc import Iterable
from html import escape


def html_table(caption: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a table of two columns; rows whose value is empty are left out."""
    cells = [
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows
        if value not in ("", None)
    ]
    return f'<table><caption style="text-align:left">{escape(caption)}</caption>{"".join(cells)}</table>'
