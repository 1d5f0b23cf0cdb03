"""Record the golden families: tiny random checkpoints and their logits in float64, made with `transformers`.

Run in an environment of its own, from this folder (`pip install torch==2.13.0 transformers==5.24.0`):

    python record.py [NAME ...]

Each case becomes a folder as `save_pretrained` writes it, with float32 weights, and `oracle.safetensors`: the tokens
and what the model answers in float64. Some modules of `transformers` compute in float32 whatever the model's type is;
`InDouble` turns all of that into float64. Sizes are such that constants which a model holds in float32 are exact.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.numpy import save_file
from torch.overrides import TorchFunctionMode

HERE = Path(__file__).parent
TOKENS = 11
VOCAB = 64


class InDouble(TorchFunctionMode):
    """Whatever asks for float32 gets float64."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        swapped = tuple(torch.float64 if value is torch.float32 else value for value in args)
        named = {k: torch.float64 if v is torch.float32 else v for k, v in (kwargs or {}).items()}
        return (torch.Tensor.double if func is torch.Tensor.float else func)(*swapped, **named)


@dataclass(frozen=True)
class Case:
    """One checkpoint. kind: name in `transformers` before `Config`. model: what comes after it in the model's class."""

    kind: str
    config: Mapping[str, Any]
    model: str = "ForCausalLM"
    change: Callable[[Any, Path], None] = lambda model, folder: None
    after: Callable[[Path], None] = lambda folder: None
    shard: str = field(default="1GB")


def given(**values: Any) -> dict[str, Any]:
    """Return keys of a configuration."""
    return values


LLAMA = given(
    vocab_size=VOCAB,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    max_position_embeddings=256,
    pad_token_id=None,
    bos_token_id=1,
    eos_token_id=2,
)
SQUARE = LLAMA | given(num_attention_heads=2, num_key_value_heads=1, head_dim=None)
TINY = LLAMA | given(hidden_size=16, intermediate_size=32, num_attention_heads=2, num_key_value_heads=1)
NO_HEAD_DIM = {key: value for key, value in SQUARE.items() if key != "head_dim"}


def rounded_factors(model: Any, folder: Path) -> None:
    """Round the factors of rotary frequencies to float32, as checkpoints in GGUF form hold them."""
    rotary = model.model.rotary_emb
    h = rotary.inv_freq.shape[0]
    plain = 500000.0 ** (-torch.arange(h, dtype=torch.float64) / h)
    factor = torch.tensor((plain / rotary.inv_freq).numpy().astype(np.float32).astype(np.float64))
    rotary.inv_freq.copy_(plain / factor)


def ternary(model: Any, folder: Path) -> None:
    """Make the weights of linear layers ternary with one scale a matrix, exact in bfloat16."""
    rng = np.random.default_rng(5)
    for name, parameter in model.named_parameters():
        if name.endswith("_proj.weight"):
            codes = rng.integers(-1, 2, tuple(parameter.shape)).astype(np.float64)
            scale = float(rng.integers(24, 48)) / 128
            parameter.data = torch.tensor(codes * scale)


def quantised_input(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Round what a linear layer is given to 8 bits, one scale a token."""
    (x,) = inputs
    scale = 127 / x.abs().amax(dim=-1, keepdim=True)
    return ((x * scale).round().clamp(-128, 127) / scale,)


def packed(folder: Path) -> None:
    """Write ternary weights as their files hold them: four codes to a byte, and the scale beside them."""
    from safetensors.numpy import load_file

    path = folder / "model.safetensors"
    rows: dict[str, np.ndarray[Any, Any]] = {}
    for name, value in load_file(path).items():
        if not name.endswith("_proj.weight"):
            rows[name] = value
            continue
        scale = np.abs(value).max()
        parts = (np.rint(value / scale).astype(np.int8) + 1).astype(np.uint8).reshape(4, -1, value.shape[1])
        rows[name] = parts[0] | parts[1] << 2 | parts[2] << 4 | parts[3] << 6
        rows[name.replace("weight", "weight_scale")] = np.array([scale], np.float32)
    save_file(rows, path, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "bitnet",
        "linear_class": "autobitlinear",
        "quantization_mode": "offline",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")


CASES = {
    "llama": Case("Llama", LLAMA),
    "llama3": Case(
        "Llama",
        LLAMA
        | given(
            tie_word_embeddings=True,
            rope_parameters=given(
                rope_type="llama3",
                rope_theta=500000.0,
                factor=8.0,
                low_freq_factor=1.0,
                high_freq_factor=4.0,
                original_max_position_embeddings=64,
            ),
        ),
        change=rounded_factors,
        shard="30KB",
    ),
    "mistral": Case("Mistral", LLAMA | given(sliding_window=5)),
    "qwen2": Case("Qwen2", NO_HEAD_DIM),
    "qwen3": Case("Qwen3", LLAMA | given(tie_word_embeddings=True)),
    "gemma2": Case(
        "Gemma2",
        TINY
        | given(query_pre_attn_scalar=16, sliding_window=4, attn_logit_softcapping=2.0, final_logit_softcapping=4.0),
    ),
    "gemma3": Case(
        "Gemma3",
        TINY | given(num_hidden_layers=6, query_pre_attn_scalar=16, sliding_window=4, intermediate_size=16),
    ),
    "phi3": Case("Phi3", NO_HEAD_DIM | given(sliding_window=None)),
    "olmo2": Case("Olmo2", NO_HEAD_DIM),
    "smollm3": Case("SmolLM3", TINY | given(num_hidden_layers=4)),
    "granite": Case(
        "Granite",
        NO_HEAD_DIM
        | given(embedding_multiplier=12.0, logits_scaling=8.0, residual_multiplier=0.25, attention_multiplier=0.0625),
    ),
    "gpt2": Case(
        "GPT2",
        given(vocab_size=VOCAB, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2),
        "LMHeadModel",
    ),
    "bitnet": Case("BitNet", NO_HEAD_DIM | given(hidden_act="relu2"), change=ternary, after=packed),
    "qwen3moe": Case(
        "Qwen3Moe", TINY | given(moe_intermediate_size=16, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True)
    ),
    "bert": Case(
        "Bert",
        given(
            vocab_size=VOCAB,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=48,
            max_position_embeddings=64,
        ),
        "Model",
    ),
}


def randomise(model: Any, seed: int) -> None:
    """Give every parameter values of about unit gain, exact in float32, so that no bias is zero and no norm one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        if parameter.ndim > 1:
            value = noise * (1.0 if "emb" in name or "wte" in name else parameter.shape[-1] ** -0.5)
        elif name.endswith("bias"):
            value = noise * 0.1
        else:
            value = torch.round((parameter.detach() + 0.3 * noise) * 65536) / 65536  # one may be added exactly
        parameter.data = torch.tensor(value.numpy().astype(np.float32).astype(np.float64))


def record(name: str, case: Case) -> None:
    """Write one folder."""
    folder = HERE / name
    shutil.rmtree(folder, ignore_errors=True)
    text = "TextConfig" if case.kind == "Gemma3" else "Config"
    torch.set_default_dtype(torch.float64)
    with InDouble(), torch.no_grad():
        config = getattr(transformers, case.kind + text)(**case.config)
        config._attn_implementation = config._experts_implementation = "eager"
        model = getattr(transformers, case.kind + case.model)(config).eval().double()
        randomise(model, sorted(CASES).index(name) + 1)
        case.change(model, folder)
        tokens = torch.tensor(np.random.default_rng(3).integers(3, VOCAB, TOKENS))[None]
        answer = model(tokens)
    if case.model == "Model":
        found = {"hidden": answer.last_hidden_state[0], "pooled": answer.pooler_output}
    else:
        found = {"logits": answer.logits[0]}
    if case.change is ternary:
        hooks = [m.register_forward_pre_hook(quantised_input) for n, m in model.named_modules() if n.endswith("_proj")]
        with InDouble(), torch.no_grad():
            found["quantised"] = model(tokens).logits[0]
        for hook in hooks:
            hook.remove()
    model.config.dtype = "float32"
    model.float().save_pretrained(folder, max_shard_size=case.shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    case.after(folder)
    rows = {key: np.ascontiguousarray(value.numpy()) for key, value in found.items()}
    save_file(rows | {"tokens": tokens[0].numpy().astype(np.uint32)}, folder / "oracle.safetensors")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        record(chosen, CASES[chosen])
        size = sum(path.stat().st_size for path in (HERE / chosen).iterdir())
        print(f"{chosen}: {size} bytes")
