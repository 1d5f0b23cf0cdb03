"""`bittern models`: what can be pulled, and what is in the store."""

from typing import Annotated, Any

import typer

from bittern.base.progress import amount
from bittern.cli.frame import open_store, print_json
from bittern.runtime.pinned import PINNED
from bittern.runtime.store import Store


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """List the models that can be pulled or are in the store."""
    store = open_store()
    rows = _rows(store)
    if as_json:
        print_json({"store": str(store.root), "models": rows})
        return 0
    print(f"Store: {store.root}")
    for row in rows:
        print(f"{row['name']}  {row['title']}  {amount(row['size'], 'B')}  {row['licence']}")
        print(f"  {row['path'] or 'not pulled: `bittern pull ' + row['pull'] + '`'}")
    return 0


def _rows(store: Store) -> list[dict[str, Any]]:
    """Return a row for each pinned model, then for what else the store holds. pull: arguments of `bittern pull`."""
    held = {entry.name: entry for entry in store.models()}
    rows: list[dict[str, Any]] = [
        {
            "name": model.name,
            "title": model.title,
            "size": model.size,
            "sha256": model.sha256,
            "licence": model.licence,
            "path": str(held[model.name].path) if model.name in held else None,
            "pull": f"{model.name} --accept-licence {model.accept}" if model.accept else model.name,
        }
        for model in PINNED.values()
    ]
    others = [entry for entry in held.values() if entry.name not in PINNED]
    rows += [
        {key: value for key, value in entry.as_json().items() if key != "accepted"} | {"title": "", "pull": None}
        for entry in others
    ]
    return rows
