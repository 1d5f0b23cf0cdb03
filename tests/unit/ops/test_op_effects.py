"""Movement between spaces; effects take and give their token, and are refused without a capability."""

from typing import Any

import numpy as np
import pytest
from row_cases import call, refuses

from bittern.base.errors import BitternError
from bittern.ops.table import OPS, Op, Site
from bittern.types.dims import dim, symbol
from bittern.types.elements import F32, FORMATS, U8, U32, U64, open_element
from bittern.types.values import EFFECTS, SPACES, Tensor, Token, Tuple, tensor

N, M = symbol(0), symbol(1)
TEXT, ANY = Tensor(U8, (N,)), open_element("e", "type")

# name: effect, operands, attributes, result
ROWS: dict[str, tuple[str, tuple[Tensor, ...], dict[str, Any], Tensor]] = {
    "read": ("fs", (TEXT,), {"length": M}, Tensor(U8, (M + 4,))),
    "write": ("fs", (TEXT, TEXT), {}, Tensor(U32)),
    "send": ("net", (TEXT, TEXT), {}, Tensor(U32)),
    "receive": ("net", (TEXT,), {"length": dim(9)}, Tensor(U8, (dim(13),))),
    "now": ("clock", (), {}, Tensor(U64)),
    "entropy": ("random", (), {"length": M}, Tensor(U8, (M,))),
}


def test_move_gives_the_equal_value() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for space in SPACES:
        assert call("move", [F32], x, space=space).tolist() == x.tolist()
        for element in (F32, FORMATS["q4_0"], ANY):
            assert OPS["move"].rule((Tensor(element, (N,), "host"),), {"space": space}) == Tensor(element, (N,), space)
    refuses("E303", "the space `moon` / one of `host`", "move", [tensor(F32, 2)], space="moon")
    refuses("E302", "a number or an array", "move", [Token("fs")], space="host")


def test_these_are_the_effects() -> None:
    assert {row.name for row in OPS.values() if row.effect} == set(ROWS)
    assert {row.effect for row in OPS.values() if row.effect} <= set(EFFECTS)


@pytest.mark.parametrize("name", ROWS)
def test_an_effect_takes_and_gives_its_token(name: str) -> None:
    effect, operands, attributes, result = ROWS[name]
    row: Op = OPS[name]
    assert row.effect == effect
    assert row.rule((*operands, Token(effect)), attributes) == Tuple((result, Token(effect)))
    refuses("E303", f"the token of `{effect}`", name, operands, **attributes)
    refuses("E303", f"the token of `{effect}`", name, [*operands, Token("device")], **attributes)
    refuses("E303", f"the token of `{effect}`", name, [TEXT, *operands, Token(effect)], **attributes)
    if operands:
        refuses("E302", "bytes (`u8`)", name, [tensor(U32, 3), *operands[1:], Token(effect)], **attributes)
        refuses("E402", "`u8[n]`", name, [Tensor(U8), *operands[1:], Token(effect)], **attributes)
    if attributes:
        refuses("E303", "a size of -1", name, [*operands, Token(effect)], length=-1)


@pytest.mark.parametrize("name", ROWS)
def test_nobody_granted_it(name: str) -> None:
    """R131: the meaning of an effect refuses and names the capability."""
    effect, operands, attributes, result = ROWS[name]
    given = [np.zeros(3, np.uint8) for _ in operands]
    with pytest.raises(BitternError) as caught:
        OPS[name].meaning(Site(0, operands, result, attributes), *given, None)
    assert caught.value.code == "R131"
    assert f"`{name}` needs the capability `{effect}`" in caught.value.what
    assert caught.value.remedy == f"Grant `{effect}` to the run."
