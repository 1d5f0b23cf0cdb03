"""The formats that GGUF tensors are quantised to: one row each, with what is taken where rows do not fit.

In: rows of f32 values, perhaps an importance for each column. Out: the stored bytes of the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code, nearest
from bittern.front.quantise.gguf import blocks, super_blocks
from bittern.front.quantise.gguf.search import Floats
from bittern.types.elements import ELEMENTS, Element

NO_FORMAT = code("N421", "there is no such format to quantise to")

Bytes: TypeAlias = npt.NDArray[np.uint8]
Encoder: TypeAlias = Callable[[Floats, Floats | None, str], Bytes]


@dataclass(frozen=True, slots=True)
class Format:
    """One format. narrow: what a tensor gets whose rows are no whole blocks; with "" it stays.

    head: what the embedding and the output matrix get.
    file_type: the number that `general.file_type` has for files made mainly of it; -1 where there is none.
    searched: the format always searches its scales, whatever the method.
    """

    name: str
    encode: Encoder
    narrow: str
    head: str
    file_type: int
    searched: bool = False

    @property
    def element(self) -> Element:
        """Its element, with the sizes of a block."""
        return ELEMENTS[self.name]


_scaled, _shifted = blocks.encode_scaled, blocks.encode_shifted
FORMATS: dict[str, Format] = {
    row.name: row
    for row in (
        Format("q1_0", blocks.encode_q1_0, "q2_0", "q6_k", -1, searched=True),
        Format("q2_0", blocks.encode_q2_0, "q4_0", "q6_k", -1, searched=True),
        Format("tq1_0", blocks.encode_tq1_0, "q4_0", "q6_k", 36),
        Format("tq2_0", blocks.encode_tq2_0, "q4_0", "q6_k", 37),
        Format("q2_k", super_blocks.encode_q2_k, "q4_0", "q6_k", 10, searched=True),
        Format("q3_k", super_blocks.encode_q3_k, "q4_0", "q6_k", 11, searched=True),
        Format("q4_0", partial(_scaled, bits=4), "", "q4_0", 2),
        Format("q4_1", partial(_shifted, bits=4), "", "q4_1", 3),
        Format("q4_k", super_blocks.encode_q4_k, "q5_0", "q6_k", 14, searched=True),
        Format("q5_0", partial(_scaled, bits=5), "", "q5_0", 8),
        Format("q5_1", partial(_shifted, bits=5), "", "q5_1", 9),
        Format("q5_k", super_blocks.encode_q5_k, "q5_1", "q6_k", 16, searched=True),
        Format("q6_k", super_blocks.encode_q6_k, "q8_0", "q6_k", 18, searched=True),
        Format("q8_0", blocks.encode_q8_0, "", "q8_0", 7),
    )
}
OF_WIDTH = {"b1": "q1_0", "t": "tq2_0", "2": "q2_k", "3": "q3_k", "4": "q4_k", "8": "q8_0"}


def format_named(name: str) -> Format:
    """Return a format by its name or by a width, in any case. Errors: N421."""
    found = FORMATS.get(OF_WIDTH.get(name.lower(), name.lower()))
    if found is None:
        known = [*OF_WIDTH, *FORMATS]
        remedy = nearest(name.lower(), known) or f"Give one of {', '.join(known)}."
        raise BitternError(NO_FORMAT, f"`{name}` is no format that GGUF tensors are quantised to.", remedy)
    return found


def encode(rows: Floats, format: Format, importance: Floats | None = None, method: str = "max") -> Bytes:
    """Return the bytes of rows, [rows, blocks, size]. rows: [rows, columns] f32, finite; whole blocks.

    importance: [columns], not negative: how much an error in that column counts; it implies the method `mse`.
    method: `max` or `mse`. Errors: N420.
    """
    count, columns = format.element.columns, rows.shape[1]
    assert columns % count == 0, (format.name, rows.shape)
    weight = None if importance is None else np.broadcast_to(importance.astype(np.float32), rows.shape)
    parts: list[Any] = [None if x is None else x.reshape(-1, count) for x in (rows, weight)]
    made = format.encode(parts[0], parts[1], "mse" if importance is not None else method)
    return np.ascontiguousarray(made, np.uint8).reshape(len(rows), columns // count, format.element.bytes)
