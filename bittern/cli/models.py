"""`bittern models`: what can be pulled, and what is in the store."""

from typing import Annotated

import typer

from bittern.base.progress import amount
from bittern.cli.frame import open_store, print_json
from bittern.runtime.pinned import PINNED


def command(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """List the models that can be pulled or are in the store."""
    store = open_store()
    rows = []
    for model in PINNED.values():
        entry = store.model(model.name)
        rows.append(
            {
                "name": model.name,
                "title": model.title,
                "size": model.size,
                "sha256": model.sha256,
                "licence": model.licence,
                "path": str(entry.path) if entry else None,
            }
        )
    if as_json:
        print_json({"store": str(store.root), "models": rows})
        return 0
    print(f"Store: {store.root}")
    for model, row in zip(PINNED.values(), rows, strict=True):
        state = row["path"] or "not pulled"
        print(f"{model.name}  {model.title}  {amount(model.size, 'B')}  {model.licence}\n  {state}")
    return 0
