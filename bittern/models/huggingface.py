"""How Hugging Face folders are read: a configuration and tensor names become those of the neutral form, that of GGUF.

A family's binding file that can read such folders has `MODEL_TYPES`, the values of `model_type` it knows, and a
function `translate(config) -> Neutral`. The configuration is read through `Config`, which remembers what was read: a
key that a family neither reads nor lists as free of meaning may change the mathematics, so the folder is refused by it.
A `Recipe` says from which stored tensors one neutral tensor is made; what it does besides naming is recorded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import isfinite, pi
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from bittern.base.errors import BitternError, code
from bittern.types.elements import Element

MISSING_KEY = code("F180", "the configuration lacks a key that the family needs")
BAD_KEY = code("F181", "the configuration has an impossible or unsupported value")
UNREAD_KEY = code("F182", "the configuration has a key that may change the mathematics and is not read by the family")

Array: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = tuple[int, ...]

_LIMIT = 1 << 24  # no number of layers, heads or values is larger
_REMEDY = "Use another checkpoint, or mend its config.json."

# Keys without a part in the mathematics of inference, whatever the family.
_FREE = (
    *("_name_or_path", "architectures", "auto_map", "model_type", "transformers_version", "dtype", "torch_dtype"),
    *("bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "cls_token_id"),
    *("initializer_range", "use_cache", "pretraining_tp", "attention_dropout", "hidden_dropout", "attn_implementation"),
    *("_attn_implementation", "_attn_implementation_autoset", "task_specific_params", "keys_to_ignore_at_inference"),
    *("id2label", "label2id", "problem_type", "output_attentions", "output_hidden_states", "return_dict", "max_length"),
    *("gradient_checkpointing", "decoder_start_token_id", "cache_implementation", "unsloth_fixed", "unsloth_version"),
)


@dataclass(slots=True)
class Config:
    """The configuration of one folder; each method refuses a value of another kind by the name of its key."""

    values: Mapping[str, Any]
    read: set[str] = field(default_factory=set)

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value; a key that is not there, or null, is the default."""
        self.read.add(key)
        found = self.values.get(key)
        return default if found is None else found

    def whole(self, key: str, default: int | None = None, high: int = _LIMIT) -> int:
        """Return a whole number, at least 1. Raises F180, F181."""
        value = self._need(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            self.refuse(key, value, f"a whole number from 1 to {high}")
        return int(value)

    def real(self, key: str, default: float | None = None) -> float:
        """Return a finite number above 0. Raises F180, F181."""
        value = self._need(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or not value > 0:
            self.refuse(key, value, "a finite number above 0")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false. Raises F181."""
        value = self._need(key, default)
        if not isinstance(value, bool):
            self.refuse(key, value, "true or false")
        return bool(value)

    def table(self, key: str) -> Mapping[str, Any]:
        """Return an object; one that is not there is empty. Raises F181."""
        value = self.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, value, "an object")
        return value

    def must_be(self, key: str, *allowed: Any) -> None:
        """Refuse the folder if a key has none of these values, all that the family computes. Raises F181."""
        value = self.get(key, allowed[0])
        if not any(type(value) is type(one) and value == one for one in allowed):
            words = " or ".join(repr(one) for one in allowed)
            self.refuse(key, value, f"{words} (all that this family computes)")

    def ignore(self, *keys: str) -> None:
        """State that these keys do not change what is computed."""
        self.read.update(keys)

    def finish(self) -> None:
        """Refuse keys that nobody read. Raises F182."""
        unread = sorted(key for key in self.values if key not in self.read and key not in _FREE)
        if unread:
            names = ", ".join(f"`{key}`" for key in unread)
            raise BitternError(
                UNREAD_KEY,
                f"The config.json has {names}, which may change what is computed and is not read by its family.",
                "Use a checkpoint without it, or teach the family's binding file what it means.",
            )

    def refuse(self, key: str, value: object, expected: str) -> NoReturn:
        """Raise F181 for a key."""
        raise BitternError(BAD_KEY, f"The config.json has `{key}` = {str(value)[:200]}.", f"Expected: {expected}.")

    def _need(self, key: str, default: Any) -> Any:
        value = self.get(key, default)
        if value is None:
            raise BitternError(MISSING_KEY, f"The config.json has no `{key}`.", _REMEDY)
        return value


def _same(shape: Shape) -> Shape:
    return shape


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a neutral tensor is made. sources: stored tensors. step: what is done besides naming, in words.

    make: the result's values from those of the sources; None takes the one source as it is. shape: the result's shape
    from that of the first source. as_f32: sources are widened to f32 first. element: of the result, if it is another.
    """

    sources: tuple[str, ...]
    step: str = ""
    make: Callable[..., Array] | None = None
    shape: Callable[[Shape], Shape] = _same
    as_f32: bool = False
    element: Element | None = None


@dataclass(frozen=True, slots=True)
class Neutral:
    """What a folder is in the neutral form. metadata: keys below the architecture's. tensors: recipes by neutral name.

    skipped: regular expressions of stored tensors that hold no weights. prefix: stored names may lack it.
    """

    architecture: str
    metadata: Mapping[str, Any]
    tensors: Mapping[str, Recipe]
    skipped: tuple[str, ...] = ()
    prefix: str = ""


def plain(name: str) -> Recipe:
    """Take a stored tensor as it is."""
    return Recipe((name,))


def transposed(name: str) -> Recipe:
    """Exchange rows and columns."""
    return Recipe((name,), "transposed", np.transpose, lambda shape: shape[::-1])


def plus_one(name: str) -> Recipe:
    """Add one to each value, in f32: gains that are stored as their distance from one."""
    return Recipe((name,), "plus one", lambda x: x + np.float32(1), as_f32=True)


def stacked(names: tuple[str, ...]) -> Recipe:
    """Stack tensors of one shape along a new first axis."""
    return Recipe(names, f"{len(names)} tensors stacked", lambda *x: np.stack(x), lambda shape: (len(names), *shape))


def pairs(name: str, heads: int) -> Recipe:
    """Reorder the rows of each head so that rotary pairs, stored half a head apart, become neighbours."""

    def make(x: Array) -> Array:
        return x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)

    def shape(found: Shape) -> Shape:
        if found[0] % (2 * heads):
            raise ValueError(f"{found[0]} rows are not {heads} heads of rotary pairs")
        return found

    return Recipe((name,), "rows of each head reordered: rotary pairs become neighbours", make, shape)


def numbers(values: list[float], step: str) -> Recipe:
    """Give values that the configuration states, in f32."""
    return Recipe((), step, lambda: np.array(values, np.float32), lambda _: (len(values),), as_f32=True)


def sizes(config: Config) -> dict[str, Any]:
    """Return the sizes that nearly all decoders name alike."""
    config.ignore("vocab_size")  # the embedding says it
    heads = config.whole("num_attention_heads", high=65536)
    found: dict[str, Any] = {
        "block_count": config.whole("num_hidden_layers", high=4096),
        "embedding_length": config.whole("hidden_size"),
        "feed_forward_length": config.whole("intermediate_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": config.whole("num_key_value_heads", heads, high=65536),
        "context_length": config.whole("max_position_embeddings", 2048, high=1 << 31),
    }
    if config.get("head_dim") is not None:
        found["attention.key_length"] = found["attention.value_length"] = config.whole("head_dim", high=65536)
    return found


def width(metadata: Mapping[str, Any]) -> int:
    """Return the values of a head."""
    stated = metadata.get("attention.key_length")
    return int(stated or max(1, metadata["embedding_length"] // metadata["attention.head_count"]))


def rope(config: Config, h: int, base: float = 10000.0) -> tuple[dict[str, Any], dict[str, Recipe]]:
    """Return metadata and tensors of the rotary positions. h: values of a head. base: if none is stated.

    Known are the plain form, linear scaling, and that of Llama 3, which becomes a factor for each frequency.
    """
    outer = config.real("rope_theta", base)
    stated = config.get("rope_parameters") or config.get("rope_scaling") or {}
    config.ignore("rope_parameters", "rope_scaling")
    if not isinstance(stated, Mapping):
        config.refuse("rope_parameters", stated, "an object")
    return rope_of(config, Config(stated), h, outer)


def rope_of(config: Config, stated: Config, h: int, base: float) -> tuple[dict[str, Any], dict[str, Recipe]]:
    """The same from one object of parameters."""
    kind = stated.get("rope_type", stated.get("type", "default"))
    stated.ignore("type")
    stated.must_be("partial_rotary_factor", 1.0)
    found: dict[str, Any] = {"rope.freq_base": stated.real("rope_theta", base), "rope.dimension_count": h}
    tensors: dict[str, Recipe] = {}
    if kind == "linear":
        found |= {"rope.scaling.type": "linear", "rope.scaling.factor": stated.real("factor")}
    elif kind == "llama3":
        values = _llama3_factors(stated, found["rope.freq_base"], h)
        tensors["rope_freqs.weight"] = numbers(values, "rotary factors of Llama 3, from the configuration")
    elif kind != "default":
        config.refuse("rope_type", kind, "'default', 'linear' or 'llama3' (all that this family computes)")
    stated.finish()
    return found, tensors


def _llama3_factors(stated: Config, base: float, h: int) -> list[float]:
    """Return by how much each frequency is divided: long waves by the factor, short ones not, and a slope between."""
    factor, low, high = (stated.real(key) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    context = stated.whole("original_max_position_embeddings", high=1 << 31)
    if not low < high:
        stated.refuse("low_freq_factor", low, f"a number below `high_freq_factor`, {high}")
    found = []
    for pair in range(h // 2):
        wave = 2 * pi * base ** (2 * pair / h)
        slope = min(1.0, max(0.0, (context / wave - low) / (high - low)))
        found.append(1 / ((1 - slope) / factor + slope))
    return found


_FEED_FORWARD = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_ATTENTION = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
BEFORE = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
LINEARS = _ATTENTION | _FEED_FORWARD


def decoder(config: Config, layers: int, rows: Mapping[str, str], *, is_tied: bool) -> dict[str, Recipe]:
    """Return the tensors of a decoder: embedding, last norm, output matrix, and those of each layer.

    rows: of a layer, neutral name and stored name. is_tied: whether the output matrix is the embedding unless the
    configuration says otherwise.
    """
    found = {"token_embd.weight": plain("model.embed_tokens.weight"), "output_norm.weight": plain("model.norm.weight")}
    if not config.flag("tie_word_embeddings", is_tied):
        found["output.weight"] = plain("lm_head.weight")
    for layer in range(layers):
        for name, stored in rows.items():
            found[f"blk.{layer}.{name}.weight"] = plain(f"model.layers.{layer}.{stored}.weight")
    return found


def as_pairs(found: dict[str, Recipe], metadata: Mapping[str, Any]) -> None:
    """Have queries and keys of every layer stored with rotary pairs as neighbours."""
    heads = {"attn_q": "attention.head_count", "attn_k": "attention.head_count_kv"}
    for layer in range(metadata["block_count"]):
        for name, key in heads.items():
            full = f"blk.{layer}.{name}.weight"
            found[full] = pairs(found[full].sources[0], metadata[key])
