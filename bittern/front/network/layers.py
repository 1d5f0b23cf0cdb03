"""The table of layers: the word by which a builder calls each."""

from collections.abc import Mapping

from bittern.front.network.activation import Activation
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
from bittern.front.network.layer import Layer
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

_ALL: tuple[type[Layer], ...] = (
    *(Dense, Conv1d, Conv2d, Conv3d, DepthwiseConv1d, DepthwiseConv2d, LocalConv1d, LocalConv2d),
    *(TransposedConv1d, TransposedConv2d, SeparableConv1d, SeparableConv2d),
    *(BatchNorm, LayerNorm, GroupNorm, InstanceNorm, Activation, LookUp),
    *(MaxPool1d, MaxPool2d, AveragePool1d, AveragePool2d, StochasticPool2d, GlobalAveragePool, GlobalMaxPool),
    *(LSTM, GRU, Attention, MultiHeadAttention, Embedding),
    *(Add, Concat, Residual, Branches, Flatten, Reshape, Permute, Pad, Upsample, Custom),
    *(Dropout, SpatialDropout, DropPath, BitFlipNoise),
)

LAYERS: Mapping[str, type[Layer]] = {each.KIND: each for each in _ALL}
