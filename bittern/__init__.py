"""Bittern: one graph per model, every chip, the same bits.

Importing this package does no work: names below load their module on first use.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bittern.base.errors import BitternError as BitternError
    from bittern.runtime.encoder import Encoder as Encoder
    from bittern.runtime.encoder import load_encoder as load_encoder
    from bittern.runtime.model import Model as Model
    from bittern.runtime.model import load as load
    from bittern.runtime.network import NetworkModel as NetworkModel
    from bittern.runtime.networks import load_network as load_network

_PUBLIC = {
    "BitternError": "bittern.base.errors",
    "Encoder": "bittern.runtime.encoder",
    "Model": "bittern.runtime.model",
    "NetworkModel": "bittern.runtime.network",
    "load": "bittern.runtime.model",
    "load_encoder": "bittern.runtime.encoder",
    "load_network": "bittern.runtime.networks",
}


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        from importlib import import_module

        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'bittern' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_PUBLIC, "__version__"])
