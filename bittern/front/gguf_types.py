"""The types that tensors and metadata of a GGUF file may have: the format's numbers for them.

Source: `enum ggml_type` of ggml, with the numbers that it no longer writes; `enum gguf_type`.
"""

TENSOR_TYPES = {  # type number: ggml's name, Bittern's element or "" where there is none yet
    0: ("F32", "f32"),
    1: ("F16", "f16"),
    2: ("Q4_0", "q4_0"),
    3: ("Q4_1", "q4_1"),
    4: ("Q4_2", ""),
    5: ("Q4_3", ""),
    6: ("Q5_0", "q5_0"),
    7: ("Q5_1", "q5_1"),
    8: ("Q8_0", "q8_0"),
    9: ("Q8_1", ""),
    10: ("Q2_K", "q2_k"),
    11: ("Q3_K", "q3_k"),
    12: ("Q4_K", "q4_k"),
    13: ("Q5_K", "q5_k"),
    14: ("Q6_K", "q6_k"),
    15: ("Q8_K", ""),
    16: ("IQ2_XXS", "iq2_xxs"),
    17: ("IQ2_XS", "iq2_xs"),
    18: ("IQ3_XXS", "iq3_xxs"),
    19: ("IQ1_S", "iq1_s"),
    20: ("IQ4_NL", "iq4_nl"),
    21: ("IQ3_S", "iq3_s"),
    22: ("IQ2_S", "iq2_s"),
    23: ("IQ4_XS", "iq4_xs"),
    24: ("I8", "i8"),
    25: ("I16", "i16"),
    26: ("I32", "i32"),
    27: ("I64", "i64"),
    28: ("F64", "f64"),
    29: ("IQ1_M", "iq1_m"),
    30: ("BF16", "bf16"),
    31: ("Q4_0_4_4", ""),
    32: ("Q4_0_4_8", ""),
    33: ("Q4_0_8_8", ""),
    34: ("TQ1_0", "tq1_0"),
    35: ("TQ2_0", "tq2_0"),
    36: ("IQ4_NL_4_4", ""),
    37: ("IQ4_NL_4_8", ""),
    38: ("IQ4_NL_8_8", ""),
    39: ("MXFP4", "mxfp4"),
    40: ("NVFP4", "nvfp4"),
    41: ("Q1_0", "q1_0"),
    42: ("Q2_0", "q2_0"),
}

NUMBER_TYPES = {  # type number of a plain value in the metadata: element
    0: "u8",
    1: "i8",
    2: "u16",
    3: "i16",
    4: "u32",
    5: "i32",
    6: "f32",
    7: "bit",
    10: "u64",
    11: "i64",
    12: "f64",
}

CONTESTED = {  # element: what to say if a tensor of it does not fit its place
    name: f"Type number {number} is {known} with blocks of {columns} values. Some programs gave it to other blocks "
    "before that was settled: convert the model again with a current converter."
    for number, known, name, columns in (
        (40, "NVFP4", "nvfp4", 64),
        (41, "Q1_0", "q1_0", 128),
        (42, "Q2_0", "q2_0", 64),
    )
}
