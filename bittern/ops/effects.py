"""Movement between spaces, and effects: ops that take the token of their effect and give the next one.

A failure is a result, not a trap: `read` and `receive` give `u8[4 + length]`, the number of bytes that came as four
little-endian bytes in front (0xffffffff where it failed), `write` and `send` give that number. The meanings here refuse:
an effect needs a capability, which only a chip that runs a plan can be granted.
"""

from typing import NoReturn

from bittern.base.errors import BitternError, code
from bittern.ops.rules import need, need_tensors
from bittern.ops.table import Array, Attributes, Site, TypeRule, op
from bittern.types.dims import dim
from bittern.types.elements import U8, U32, U64, Element
from bittern.types.faults import ATTRIBUTE_UNFIT, RANK_UNFIT, TypeFault
from bittern.types.values import Tensor, Token, Tuple, Type, text

NO_CAPABILITY = code("R131", "an effect without its capability")


def _move_rule(types: tuple[Type, ...], attributes: Attributes) -> Tensor:
    (x,) = need_tensors(types, 1)
    return Tensor(x.element, x.shape, attributes["space"])


@op("move", "the equal value in another memory space", _move_rule)
def move(site: Site, x: Array) -> Array:
    """x: any shape."""
    return x


def _rule(effect: str, texts: int, element: Element, has_length: bool, front: int = 0) -> TypeRule:
    """Return the rule of an effect. texts: how many u8 arrays it takes. front: extra bytes of the result."""

    def rule(types: tuple[Type, ...], attributes: Attributes) -> Type:
        *operands, token = types
        if token != Token(effect) or len(operands) != texts:
            raise TypeFault(ATTRIBUTE_UNFIT, f"{len(types)} operands", f"{texts} and the token of `{effect}`")
        for operand in operands:
            bytes_ = need(operand, lambda e: e == U8, "bytes (`u8`)")
            if len(bytes_.shape) != 1:
                raise TypeFault(RANK_UNFIT, text(bytes_), "`u8[n]`")
        shape = (dim(attributes["length"]) + front,) if has_length else ()
        return Tuple((Tensor(element, shape), Token(effect)))

    return rule


def _refuse(name: str, effect: str) -> NoReturn:
    raise BitternError(
        NO_CAPABILITY, f"`{name}` needs the capability `{effect}`, which nobody granted.", f"Grant `{effect}` to the run."
    )


@op("read", "bytes of a file", _rule("fs", 1, U8, True, 4), effect="fs")
def read(site: Site, path: Array, token: Array) -> Array:
    """path: u8[n] -> u8[4 + length]."""
    _refuse("read", "fs")


@op("write", "bytes to a file", _rule("fs", 2, U32, False), effect="fs")
def write(site: Site, path: Array, data: Array, token: Array) -> Array:
    """path: u8[n], data: u8[m] -> u32."""
    _refuse("write", "fs")


@op("send", "bytes to an address", _rule("net", 2, U32, False), effect="net")
def send(site: Site, address: Array, data: Array, token: Array) -> Array:
    """address: u8[n], data: u8[m] -> u32."""
    _refuse("send", "net")


@op("receive", "bytes from an address", _rule("net", 1, U8, True, 4), effect="net")
def receive(site: Site, address: Array, token: Array) -> Array:
    """address: u8[n] -> u8[4 + length]."""
    _refuse("receive", "net")


@op("now", "nanoseconds since 1970-01-01 UTC", _rule("clock", 0, U64, False), effect="clock")
def now(site: Site, token: Array) -> Array:
    """-> u64."""
    _refuse("now", "clock")


@op("entropy", "random bytes that no seed repeats", _rule("random", 0, U8, True), effect="random")
def entropy(site: Site, token: Array) -> Array:
    """-> u8[length]."""
    _refuse("entropy", "random")
