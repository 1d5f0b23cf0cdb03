"""`bittern embed`: texts -> their vectors, and how alike the texts are."""

from typing import Annotated, Any

import typer

from bittern.cli.frame import model_path, open_store, print_json
from bittern.cli.options import AsJson, Folders, option, word

POOLINGS = ("mean", "pool", "first")
_SHOWN = 8  # values of a single vector
_WIDTH = 60  # letters of a text


def command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file or folder, or the name of a pulled model.")],
    texts: Annotated[list[str], typer.Argument(metavar="TEXT...", help="One or several texts.")],
    pooling: Annotated[
        str,
        option(
            "--pooling",
            metavar="WAY",
            parser=word("--pooling", POOLINGS),
            help="How tokens become one vector: mean of all, the model's own pool, or the first one's.",
        ),
    ] = "mean",
    chip: Annotated[str, option(metavar="NAME", help="The chip to run on.")] = "vm",
    library: Folders = None,
    as_json: AsJson = False,
) -> int:
    """Make the vectors of texts with an encoder, and show how alike the texts are.

    Several texts are compared: the cosine of each pair of vectors, 1 for the same direction. --json has the vectors.
    """
    store = open_store()
    path = model_path(model, store)
    from bittern.runtime.encoder import load_encoder
    from bittern.runtime.encoder_bringup import cosine
    from bittern.runtime.origin import source_of

    with load_encoder(path, chip=chip, store=store, library=library or ()) as encoder:
        vectors = [encoder.embed(text, pooling) for text in texts]
        source = source_of(encoder.bound.checkpoint)
    alike = [[cosine(x, y) for y in vectors] for x in vectors]
    if as_json:
        del source["sha256_origin"]  # the only thing here that a second run would tell otherwise
        rows = [vector.tolist() for vector in vectors]
        told: dict[str, Any] = {"source": source, "chip": chip, "pooling": pooling, "texts": texts}
        print_json({**told, "vectors": rows, "cosine": alike})
    elif len(texts) == 1:
        (vector,) = vectors
        more = f" ... ({len(vector)} values; --json prints all)" if len(vector) > _SHOWN else ""
        print(" ".join(f"{value:.6f}" for value in vector[:_SHOWN]) + more)
    else:
        for number, (text, row) in enumerate(zip(texts, alike, strict=True), 1):
            shown = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
            print(f"{number:3}  " + " ".join(f"{value:7.4f}" for value in row) + f"  {shown}")
    return 0
