"""Movement between spaces, and effects: ops that take the token of their effect and give the next one.

A failure is a result, not a trap: `read` and `receive` give `u8[4 + length]`, the number of bytes that came as four
little-endian bytes in front (0xffffffff where it failed), `write` and `send` give that number. The meanings here
refuse: an effect needs a capability, which only a chip that runs a plan can be granted.
"""

from bittern.base.errors import BitternError, code
from bittern.ops.rules import need, need_tensors
from bittern.ops.shape import need_size
from bittern.ops.table import Array, Attributes, Meaning, Site, TypeRule, op
from bittern.types.elements import U8, U32, U64, Element
from bittern.types.faults import ATTRIBUTE_UNFIT, RANK_UNFIT, TypeFault
from bittern.types.values import SPACES, Tensor, Token, Tuple, Type, text

NO_CAPABILITY = code("R131", "an effect without its capability")


def _move_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,), space = need_tensors(types, 1), attributes["space"]
    if space not in SPACES:
        raise TypeFault(ATTRIBUTE_UNFIT, f"the space `{space}`", "one of " + ", ".join(f"`{s}`" for s in SPACES))
    return Tensor(x.element, x.shape, space)


@op("move", "the equal value in another memory space", _move_rule)
def _move(site: Site, x: Array) -> Array:
    return x


def _rule(effect: str, texts: int, element: Element, length: int | None) -> TypeRule:
    """Return the rule of an effect.

    texts: how many arrays of bytes it takes. length: None if its result is one number; otherwise the result has
    `length` elements and as many again as the attribute of that name says.
    """

    def rule(types: tuple[Type, ...], attributes: Attributes) -> Type:
        if len(types) != texts + 1 or types[-1] != Token(effect):
            raise TypeFault(ATTRIBUTE_UNFIT, f"{len(types)} operands", f"{texts} and the token of `{effect}`")
        for operand in types[:-1]:
            content = need(operand, lambda e: e == U8, "bytes (`u8`)")
            if len(content.shape) != 1:
                raise TypeFault(RANK_UNFIT, text(content), "`u8[n]`")
        shape = () if length is None else (need_size(attributes["length"]) + length,)
        return Tuple((Tensor(element, shape), Token(effect)))

    return rule


def _refusal(name: str, effect: str) -> Meaning:
    def refuse(site: Site, *operands: Array) -> Array:
        raise BitternError(
            NO_CAPABILITY,
            f"`{name}` needs the capability `{effect}`, which nobody granted.",
            f"Grant `{effect}` to the run.",
        )

    return refuse


_ROWS: list[tuple[str, str, int, Element, int | None, str]] = [
    ("read", "fs", 1, U8, 4, "length bytes of a file: how many came, and the bytes"),
    ("write", "fs", 2, U32, None, "bytes to a file: how many went"),
    ("send", "net", 2, U32, None, "bytes to an address: how many went"),
    ("receive", "net", 1, U8, 4, "length bytes from an address: how many came, and the bytes"),
    ("now", "clock", 0, U64, None, "nanoseconds since 1970-01-01 UTC"),
    ("entropy", "random", 0, U8, 0, "length random bytes that no seed repeats"),
]

for _name, _effect, _texts, _element, _length, _doc in _ROWS:
    op(_name, _doc, _rule(_effect, _texts, _element, _length), effect=_effect)(_refusal(_name, _effect))
