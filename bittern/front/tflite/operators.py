"""The table of TFLite's builtin operators: those that Bittern imports, one row each, and the names of all others."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from bittern.front.tflite import elementwise, layers, pooling, recurrent, shaping, taking
from bittern.front.tflite.site import Site


class Operator(NamedTuple):
    """One operator. version: the newest whose meaning Bittern knows. build: puts it into the network."""

    number: int
    name: str
    version: int
    build: Callable[[Site], None]


# fmt: off
ROWS = (
    Operator(0,   "ADD",                            4, elementwise.add),
    Operator(1,   "AVERAGE_POOL_2D",                3, pooling.average_pool_2d),
    Operator(2,   "CONCATENATION",                  3, shaping.concatenation),
    Operator(3,   "CONV_2D",                        8, layers.conv_2d),
    Operator(4,   "DEPTHWISE_CONV_2D",              7, layers.depthwise_conv_2d),
    Operator(5,   "DEPTH_TO_SPACE",                 2, taking.depth_to_space),
    Operator(6,   "DEQUANTIZE",                     4, elementwise.dequantize),
    Operator(9,   "FULLY_CONNECTED",               12, layers.fully_connected),
    Operator(14,  "LOGISTIC",                       3, elementwise.logistic),
    Operator(17,  "MAX_POOL_2D",                    3, pooling.max_pool_2d),
    Operator(18,  "MUL",                            4, elementwise.mul),
    Operator(19,  "RELU",                           2, elementwise.relu),
    Operator(20,  "RELU_N1_TO_1",                   1, elementwise.relu_n1_to_1),
    Operator(21,  "RELU6",                          2, elementwise.relu6),
    Operator(22,  "RESHAPE",                        1, shaping.reshape),
    Operator(25,  "SOFTMAX",                        3, elementwise.softmax),
    Operator(26,  "SPACE_TO_DEPTH",                 2, taking.space_to_depth),
    Operator(27,  "SVDF",                           4, recurrent.svdf),
    Operator(28,  "TANH",                           3, elementwise.tanh),
    Operator(34,  "PAD",                            4, shaping.pad),
    Operator(39,  "TRANSPOSE",                      4, shaping.transpose),
    Operator(40,  "MEAN",                           3, pooling.mean),
    Operator(41,  "SUB",                            3, elementwise.sub),
    Operator(43,  "SQUEEZE",                        2, shaping.reshape),
    Operator(44,  "UNIDIRECTIONAL_SEQUENCE_LSTM",   4, recurrent.unidirectional_sequence_lstm),
    Operator(45,  "STRIDED_SLICE",                  5, shaping.strided_slice),
    Operator(49,  "SPLIT",                          4, taking.split),
    Operator(54,  "PRELU",                          1, elementwise.prelu),
    Operator(55,  "MAXIMUM",                        4, elementwise.maximum),
    Operator(57,  "MINIMUM",                        4, elementwise.minimum),
    Operator(60,  "PADV2",                          4, shaping.pad),
    Operator(65,  "SLICE",                          3, taking.slice_),
    Operator(67,  "TRANSPOSE_CONV",                 4, layers.transpose_conv),
    Operator(70,  "EXPAND_DIMS",                    1, shaping.reshape),
    Operator(82,  "REDUCE_MAX",                     3, pooling.reduce_max),
    Operator(83,  "PACK",                           3, taking.pack),
    Operator(88,  "UNPACK",                         3, taking.unpack),
    Operator(89,  "REDUCE_MIN",                     3, pooling.reduce_min),
    Operator(97,  "RESIZE_NEAREST_NEIGHBOR",        4, taking.resize_nearest_neighbor),
    Operator(98,  "LEAKY_RELU",                     2, elementwise.leaky_relu),
    Operator(102, "SPLIT_V",                        2, taking.split_v),
    Operator(111, "ELU",                            1, elementwise.elu),
    Operator(114, "QUANTIZE",                       2, elementwise.quantize),
    Operator(117, "HARD_SWISH",                     1, elementwise.hard_swish),
)
# fmt: on

SUPPORTED: Mapping[int, Operator] = {row.number: row for row in ROWS}

_OTHERS = """
7 EMBEDDING_LOOKUP, 8 FLOOR, 10 HASHTABLE_LOOKUP, 11 L2_NORMALIZATION, 12 L2_POOL_2D,
13 LOCAL_RESPONSE_NORMALIZATION, 15 LSH_PROJECTION, 16 LSTM, 23 RESIZE_BILINEAR, 24 RNN, 
29 CONCAT_EMBEDDINGS, 30 SKIP_GRAM, 31 CALL, 32 CUSTOM, 33 EMBEDDING_LOOKUP_SPARSE, 35 UNIDIRECTIONAL_SEQUENCE_RNN,
36 GATHER, 37 BATCH_TO_SPACE_ND, 38 SPACE_TO_BATCH_ND, 42 DIV, 46 BIDIRECTIONAL_SEQUENCE_RNN, 47 EXP, 48 TOPK_V2,
50 LOG_SOFTMAX, 51 DELEGATE, 52 BIDIRECTIONAL_SEQUENCE_LSTM, 53 CAST, 56 ARG_MAX,
58 LESS, 59 NEG, 61 GREATER, 62 GREATER_EQUAL, 63 LESS_EQUAL, 64 SELECT, 66 SIN,
68 SPARSE_TO_DENSE, 69 TILE, 71 EQUAL, 72 NOT_EQUAL, 73 LOG, 74 SUM, 75 SQRT, 76 RSQRT, 77 SHAPE,
78 POW, 79 ARG_MIN, 80 FAKE_QUANT, 81 REDUCE_PROD, 84 LOGICAL_OR, 85 ONE_HOT, 86 LOGICAL_AND,
87 LOGICAL_NOT, 90 FLOOR_DIV, 91 REDUCE_ANY, 92 SQUARE, 93 ZEROS_LIKE, 94 FILL,
95 FLOOR_MOD, 96 RANGE, 99 SQUARED_DIFFERENCE, 100 MIRROR_PAD, 101 ABS, 
103 UNIQUE, 104 CEIL, 105 REVERSE_V2, 106 ADD_N, 107 GATHER_ND, 108 COS, 109 WHERE, 110 RANK, 
112 REVERSE_SEQUENCE, 113 MATRIX_DIAG, 115 MATRIX_SET_DIAG, 116 ROUND, 118 IF, 119 WHILE, 120 NON_MAX_SUPPRESSION_V4,
121 NON_MAX_SUPPRESSION_V5, 122 SCATTER_ND, 123 SELECT_V2, 124 DENSIFY, 125 SEGMENT_SUM, 126 BATCH_MATMUL,
127 PLACEHOLDER_FOR_GREATER_OP_CODES, 128 CUMSUM, 129 CALL_ONCE, 130 BROADCAST_TO, 131 RFFT2D, 132 CONV_3D, 133 IMAG,
134 REAL, 135 COMPLEX_ABS, 136 HASHTABLE, 137 HASHTABLE_FIND, 138 HASHTABLE_IMPORT, 139 HASHTABLE_SIZE,
140 REDUCE_ALL, 141 CONV_3D_TRANSPOSE, 142 VAR_HANDLE, 143 READ_VARIABLE, 144 ASSIGN_VARIABLE, 145 BROADCAST_ARGS,
146 RANDOM_STANDARD_NORMAL, 147 BUCKETIZE, 148 RANDOM_UNIFORM, 149 MULTINOMIAL, 150 GELU, 151 DYNAMIC_UPDATE_SLICE,
152 RELU_0_TO_1, 153 UNSORTED_SEGMENT_PROD, 154 UNSORTED_SEGMENT_MAX, 155 UNSORTED_SEGMENT_SUM, 156 ATAN2,
157 UNSORTED_SEGMENT_MIN, 158 SIGN, 159 BITCAST, 160 BITWISE_XOR, 161 RIGHT_SHIFT
"""
NAMES: Mapping[int, str] = {
    **{int(number): name for number, name in (each.split() for each in _OTHERS.split(","))},
    **{row.number: row.name for row in ROWS},
}
CUSTOM = 32

# For operators that are not imported: the form nearest to them that is.
NEAREST: Mapping[str, str] = {
    "BATCH_MATMUL": "FULLY_CONNECTED, with constant weights",
    "BIDIRECTIONAL_SEQUENCE_LSTM": "two UNIDIRECTIONAL_SEQUENCE_LSTM",
    "CAST": "QUANTIZE or DEQUANTIZE",
    "CONV_3D": "CONV_2D",
    "DIV": "MUL, by a constant's inverse",
    "GATHER": "SLICE or STRIDED_SLICE",
    "GELU": "HARD_SWISH",
    "L2_POOL_2D": "AVERAGE_POOL_2D",
    "LOG_SOFTMAX": "SOFTMAX",
    "LSTM": "UNIDIRECTIONAL_SEQUENCE_LSTM",
    "MIRROR_PAD": "PAD",
    "RESIZE_BILINEAR": "RESIZE_NEAREST_NEIGHBOR",
    "SHAPE": "RESHAPE, with a constant shape",
    "SPACE_TO_BATCH_ND": "CONV_2D, with a dilation",
    "BATCH_TO_SPACE_ND": "CONV_2D, with a dilation",
    "SUM": "MEAN",
}
