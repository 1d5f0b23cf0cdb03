r"""How byte-level BPE tokenizers cut text into words before they merge: one row per rule, one name per file kind.

A GGUF file names its rule in `tokenizer.ggml.pre`. A rule is a sequence of regular expressions; each one cuts every
piece that the one before it left into matches and the text between them, and all of these are kept. The expressions
are those of the models' own published tokenizers, in the syntax of Oniguruma, which the `tokenizers` library runs.
An unknown name is refused: a wrong rule still gives tokens, only not the ones the model was trained on.
"""

from dataclasses import dataclass

from bittern.base.errors import BitternError, code, nearest

UNKNOWN_PRE = code("F302", "the pre-tokenizer that the file names is not known")

_ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_FIRST = r"[^\r\n\p{L}\p{N}]?"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"

_DIGIT = r"\p{N}"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_LLAMA3 = _ENDINGS + "|" + _FIRST + r"\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES
_QWEN2 = _ENDINGS + "|" + _FIRST + r"\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES
_QWEN35 = _ENDINGS + "|" + _FIRST + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + _SPACES
_TEKKEN = f"{_FIRST}{_UPPER}*{_LOWER}+|{_FIRST}{_UPPER}+{_LOWER}*" + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _SPACES
_GPT4O = (
    f"{_FIRST}{_UPPER}*{_LOWER}+{_ENDINGS}?|{_FIRST}{_UPPER}+{_LOWER}*{_ENDINGS}?"
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*"
    + _SPACES
)
_DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    + r"| ?[\p{P}\p{S}]+[\r\n]*"
    + _SPACES
)
_SIGNS = r"[\p{P}\$\+<=>\^~\|]+"
_SIGNS_AND_GRAVE = r"[\p{P}\$\+<=>\^~\|`]+"
_THREE_DIGITS = "[0-9][0-9][0-9]"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"


@dataclass(frozen=True, slots=True)
class Pretokenizer:
    """One rule: its expressions in the order of use, and what else its name settles.

    whole_words: a word that is itself a token is taken as it stands, without merging.
    add_bos: whether BOS is put in front where the file has no `tokenizer.ggml.add_bos_token`.
    """

    expressions: tuple[str, ...]
    whole_words: bool = False
    add_bos: bool = False


def _row(names: str, *expressions: str, whole_words: bool = False, add_bos: bool = False) -> dict[str, Pretokenizer]:
    return dict.fromkeys(names.split(), Pretokenizer(expressions, whole_words, add_bos))


PRETOKENIZERS: dict[str, Pretokenizer] = {
    **_row("default", _SIGNS, _GPT2, r"\p{N}+", _THREE_DIGITS),
    **_row("gpt-2 phi-2 mpt olmo jais trillion gigachat mellum exaone4 granite-docling", _GPT2),
    **_row("smollm starcoder refact command-r codeshell exaone minerva-7b", _DIGIT, _GPT2),
    **_row("falcon", _SIGNS_AND_GRAVE, _GPT2, _THREE_DIGITS),
    **_row("llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral lfm2", _LLAMA3, whole_words=True, add_bos=True),
    **_row("dbrx smaug-bpe glm4 chatglm-bpe", _LLAMA3),
    **_row("qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan solar-open grok-2", _QWEN2),
    **_row("qwen35", _QWEN35),
    **_row("tekken", _TEKKEN, whole_words=True, add_bos=True),
    **_row("gpt-4o llama4", _GPT4O),
    **_row("deepseek-v3 hunyuan-dense", r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _DEEPSEEK3),
    **_row("bloom poro-chat gpt3-finnish", _BLOOM),
    **_row("viking", _BLOOM, _DIGIT),
}


def find_pretokenizer(name: str) -> Pretokenizer:
    """Return the rule that `tokenizer.ggml.pre` names.

    Errors: F302 for a name that is not in the table.
    """
    found = PRETOKENIZERS.get(name)
    if found is None:
        raise BitternError(
            UNKNOWN_PRE,
            f"`tokenizer.ggml.pre` is `{name}`, and how that cuts text into words is not known.",
            f"{nearest(name, sorted(PRETOKENIZERS))} Another rule would give other tokens, so none is guessed.".strip(),
        )
    return found
