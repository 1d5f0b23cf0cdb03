"""Networks of 1 to 8 bits, declared in Python. What is said is what they are, never on which chip they run.

    from bittern.nn import BinaryActivation, BinaryTensor, NetworkBuilder

    model = NetworkBuilder().input(BinaryTensor([1024, 784])).dense(784, 512, activation=BinaryActivation.SIGN) \\
        .dense(512, 256, activation=BinaryActivation.SIGN).output(256, 10).build()
    scores = model.run(x)

All layers, and how to write one's own: docs/networks.md.
"""

from bittern.front.network.activation import Activation, BinaryActivation, IntActivation, TernaryActivation
from bittern.front.network.attention import Attention, MultiHeadAttention
from bittern.front.network.convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    DepthwiseConv1d,
    DepthwiseConv2d,
    LocalConv1d,
    LocalConv2d,
    SeparableConv1d,
    SeparableConv2d,
    TransposedConv1d,
    TransposedConv2d,
)
from bittern.front.network.custom import Custom
from bittern.front.network.dense import Dense
from bittern.front.network.joining import Add, Branches, Concat, Residual
from bittern.front.network.layer import Composed, Composite, Layer
from bittern.front.network.normalisation import BatchNorm, GroupNorm, InstanceNorm, LayerNorm
from bittern.front.network.pooling import (
    AveragePool1d,
    AveragePool2d,
    GlobalAveragePool,
    GlobalMaxPool,
    MaxPool1d,
    MaxPool2d,
    StochasticPool2d,
)
from bittern.front.network.recurrent import GRU, LSTM
from bittern.front.network.shaping import (
    BitFlipNoise,
    Dropout,
    DropPath,
    Embedding,
    Flatten,
    LookUp,
    Pad,
    Permute,
    Reshape,
    SpatialDropout,
    Upsample,
)
from bittern.front.network.value import BinaryTensor, IndexTensor, Input, IntTensor, TernaryTensor, Value
from bittern.runtime.built import Model, NetworkBuilder, build, load

__all__ = [
    "GRU",
    "LSTM",
    "Activation",
    "Add",
    "Attention",
    "AveragePool1d",
    "AveragePool2d",
    "BatchNorm",
    "BinaryActivation",
    "BinaryTensor",
    "BitFlipNoise",
    "Branches",
    "Composed",
    "Composite",
    "Concat",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "Custom",
    "Dense",
    "DepthwiseConv1d",
    "DepthwiseConv2d",
    "DropPath",
    "Dropout",
    "Embedding",
    "Flatten",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "GroupNorm",
    "IndexTensor",
    "Input",
    "InstanceNorm",
    "IntActivation",
    "IntTensor",
    "Layer",
    "LayerNorm",
    "LocalConv1d",
    "LocalConv2d",
    "LookUp",
    "MaxPool1d",
    "MaxPool2d",
    "Model",
    "MultiHeadAttention",
    "NetworkBuilder",
    "Pad",
    "Permute",
    "Reshape",
    "Residual",
    "SeparableConv1d",
    "SeparableConv2d",
    "SpatialDropout",
    "StochasticPool2d",
    "TernaryActivation",
    "TernaryTensor",
    "TransposedConv1d",
    "TransposedConv2d",
    "Upsample",
    "Value",
    "build",
    "load",
]
