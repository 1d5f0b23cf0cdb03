"""What a target can do: a set of kinds and the width of its vectors.

An entry is a kind (`add`), a kind on an element (`mul.i32`) or a conversion (`convert.u8.i32`). `vector` holds for
vectors of at most `width` bits, `scalar` for scalars. The element of an entry is that of the result; of compares,
conversions and stores it is that of what is compared, converted, stored.

More names, of forms that machines have apart: `shl_uniform`, `shr_uniform` (one constant count for all lanes) and
`lookup2` (two tables, each as wide as a vector). `width` 0 is a target of scalars only: then every vector is so many
scalars, and moving lanes costs nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bittern.bitops.lanes import Lanes

_BY_OPERAND = ("eq", "ne", "lt", "le", "convert", "wrap", "sat", "round", "reinterpret", "bits", "mask_word")
FREE = ("lane", "collect", "part", "join", "shuffle", "broadcast")  # on a target of scalars


@dataclass(frozen=True, slots=True)
class Target:
    """See the module. name: for messages."""

    name: str
    width: int
    scalar: frozenset[str]
    vector: frozenset[str] = frozenset()

    def has(self, kind: str, operands: Sequence[Lanes], results: Sequence[Lanes]) -> bool:
        """Whether the target has the kind on these types, vectors of any width taken as split already."""
        types = (*operands, *results)
        single = self.width == 0 or all(t.is_scalar for t in types)
        if self.width == 0 and (kind in FREE or kind == "const"):
            return True
        if self.width == 0 and any(t.count != types[-1].count for t in types if str(t) != "index"):
            return False  # what regroups lanes
        names = self.scalar if single else self.vector
        element = _element(kind, operands, results)
        to = results[0].element.name if results else ""
        return kind in names or f"{kind}.{element}" in names or f"{kind}.{element}.{to}" in names


def _element(kind: str, operands: Sequence[Lanes], results: Sequence[Lanes]) -> str:
    if kind.startswith("store") and operands:
        return operands[-1].element.name
    if kind in _BY_OPERAND and operands:
        return operands[0].element.name
    return results[0].element.name if results else ""


_BASE = "const dim add sub mul div and or shl shr eq lt select sqrt convert wrap reinterpret load store for while if"
_ROUNDING = ("round.f32.i32", "round.f64.i64", "round.f64.f32")
BASE = Target("base", 0, frozenset((*_BASE.split(), *_ROUNDING)))
