"""What is asked of the quantisation of an ONNX model."""

from dataclasses import dataclass

from bittern.front.quantise.codes import Scheme
from bittern.front.quantise.onnx.layers import Layer
from bittern.front.quantise.widths import Width, width


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked for.

    width: of weights. activations: of computed tensors, or `none`. method, percentile: how scales are found.
    granularity: of the scales of weights. rounding: `rtn`, `gptq`, `adaround`. asymmetric: weights get zero points.
    signed: tensors get none. dynamic: the scales of tensors are found as the network runs. form: `qdq`, `qonnx`, or
    "" for qdq where it can hold the widths. samples: how many are used for calibration. pixels: what u8 data become.
    keep: names, or parts of names, of layers that stay float.
    """

    width: str = "8"
    activations: str = "8"
    method: str = "max"
    percentile: float = 99.99
    granularity: str = "channel"
    rounding: str = "rtn"
    asymmetric: bool = False
    signed: bool = False
    dynamic: bool = False
    form: str = ""
    samples: int = 256
    pixels: str = "auto"
    keep: tuple[str, ...] = ()

    @property
    def tensors(self) -> Width | None:
        """The width of computed tensors; None if they stay float. Errors: N411."""
        return None if self.activations == "none" else width(self.activations)

    @property
    def chosen_form(self) -> str:
        """The form of the file."""
        plain = self.activations in ("none", "4", "8") and self.width in ("4", "8")
        return self.form or ("qdq" if plain else "qonnx")

    def weights(self, layer: Layer) -> Scheme:
        """Return how the weights of a layer are quantised: a convolution has no scales by group of columns."""
        own = "channel" if layer.node.op == "Conv" and self.is_grouped else self.granularity
        return Scheme(width(self.width), not self.asymmetric, own, self.method, self.percentile)

    @property
    def is_grouped(self) -> bool:
        """Whether groups of columns share a scale. Errors: N415."""
        return Scheme(width(self.width), granularity=self.granularity).group > 0

    @property
    def activation_scheme(self) -> Scheme:
        """How computed tensors are quantised."""
        wide = width(self.activations)
        return Scheme(wide, self.signed or not wide.unsigned, "tensor", self.method, self.percentile)
