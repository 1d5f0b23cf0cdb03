"""Rows: conversions: wider and narrower integers, integers and floats, halves and bfloat16."""

ROWS = """
vpmovzxbw      | Vx{kz} Wx/2         | sse/vex/evex.66.0f38.wig 30    | sse4_1 avx2 avx512bw | across  | i16 of u8
vpmovzxbd      | Vx{kz} Wx/4         | sse/vex/evex.66.0f38.wig 31    | sse4_1 avx2 avx512f  | across  | i32 of u8
vpmovzxbq      | Vx{kz} Wx/8         | sse/vex/evex.66.0f38.wig 32    | sse4_1 avx2 avx512f  | across  | i64 of u8
vpmovzxwd      | Vx{kz} Wx/2         | sse/vex/evex.66.0f38.wig 33    | sse4_1 avx2 avx512f  | across  | i32 of u16
vpmovzxwq      | Vx{kz} Wx/4         | sse/vex/evex.66.0f38.wig 34    | sse4_1 avx2 avx512f  | across  | i64 of u16
vpmovzxdq      | Vx{kz} Wx/2         | sse/vex/evex.66.0f38.w0 35     | sse4_1 avx2 avx512f  | across  | i64 of u32
vpmovsxbw      | Vx{kz} Wx/2         | sse/vex/evex.66.0f38.wig 20    | sse4_1 avx2 avx512bw | across  | i16 of i8
vpmovsxbd      | Vx{kz} Wx/4         | sse/vex/evex.66.0f38.wig 21    | sse4_1 avx2 avx512f  | across  | i32 of i8
vpmovsxbq      | Vx{kz} Wx/8         | sse/vex/evex.66.0f38.wig 22    | sse4_1 avx2 avx512f  | across  | i64 of i8
vpmovsxwd      | Vx{kz} Wx/2         | sse/vex/evex.66.0f38.wig 23    | sse4_1 avx2 avx512f  | across  | i32 of i16
vpmovsxwq      | Vx{kz} Wx/4         | sse/vex/evex.66.0f38.wig 24    | sse4_1 avx2 avx512f  | across  | i64 of i16
vpmovsxdq      | Vx{kz} Wx/2         | sse/vex/evex.66.0f38.w0 25     | sse4_1 avx2 avx512f  | across  | i64 of i32
vpmovwb        | Wx/2{kz} Vx         | evex.f3.0f38.w0 30             | avx512bw             | across  | the low i8 of i16
vpmovswb       | Wx/2{kz} Vx         | evex.f3.0f38.w0 20             | avx512bw             | across  | i8 of i16, saturated
vpmovuswb      | Wx/2{kz} Vx         | evex.f3.0f38.w0 10             | avx512bw             | across  | u8 of u16, saturated
vpmovdb        | Wx/4{kz} Vx         | evex.f3.0f38.w0 31             | avx512f              | across  | the low i8 of i32
vpmovsdb       | Wx/4{kz} Vx         | evex.f3.0f38.w0 21             | avx512f              | across  | i8 of i32, saturated
vpmovusdb      | Wx/4{kz} Vx         | evex.f3.0f38.w0 11             | avx512f              | across  | u8 of u32, saturated
vpmovqb        | Wx/8{kz} Vx         | evex.f3.0f38.w0 32             | avx512f              | across  | the low i8 of i64
vpmovsqb       | Wx/8{kz} Vx         | evex.f3.0f38.w0 22             | avx512f              | across  | i8 of i64, saturated
vpmovusqb      | Wx/8{kz} Vx         | evex.f3.0f38.w0 12             | avx512f              | across  | u8 of u64, saturated
vpmovdw        | Wx/2{kz} Vx         | evex.f3.0f38.w0 33             | avx512f              | across  | the low i16 of i32
vpmovsdw       | Wx/2{kz} Vx         | evex.f3.0f38.w0 23             | avx512f              | across  | i16 of i32, saturated
vpmovusdw      | Wx/2{kz} Vx         | evex.f3.0f38.w0 13             | avx512f              | across  | u16 of u32, saturated
vpmovqw        | Wx/4{kz} Vx         | evex.f3.0f38.w0 34             | avx512f              | across  | the low i16 of i64
vpmovsqw       | Wx/4{kz} Vx         | evex.f3.0f38.w0 24             | avx512f              | across  | i16 of i64, saturated
vpmovusqw      | Wx/4{kz} Vx         | evex.f3.0f38.w0 14             | avx512f              | across  | u16 of u64, saturated
vpmovqd        | Wx/2{kz} Vx         | evex.f3.0f38.w0 35             | avx512f              | across  | the low i32 of i64
vpmovsqd       | Wx/2{kz} Vx         | evex.f3.0f38.w0 25             | avx512f              | across  | i32 of i64, saturated
vpmovusqd      | Wx/2{kz} Vx         | evex.f3.0f38.w0 15             | avx512f              | across  | u32 of u64, saturated
vcvtdq2ps      | Vx{kz} Wx*4{er}     | sse/vex/evex.0f.w0 5b          | sse2 avx avx512f     | convert | f32 of i32
vcvtps2dq      | Vx{kz} Wx*4{er}     | sse/vex/evex.66.0f.w0 5b       | sse2 avx avx512f     | convert | i32 of f32, rounded
vcvttps2dq     | Vx{kz} Wx*4{sae}    | sse/vex/evex.f3.0f.w0 5b       | sse2 avx avx512f     | convert | i32 of f32, towards zero
vcvtudq2ps     | Vx{kz} Wx*4{er}     | evex.f2.0f.w0 7a               | avx512f              | convert | f32 of u32
vcvtps2udq     | Vx{kz} Wx*4{er}     | evex.0f.w0 79                  | avx512f              | convert | u32 of f32, rounded
vcvttps2udq    | Vx{kz} Wx*4{sae}    | evex.0f.w0 78                  | avx512f              | convert | u32 of f32, towards zero
vcvtdq2pd      | Vx{kz} Wx/2*4       | sse/vex/evex.f3.0f.w0 e6       | sse2 avx avx512f     | convert | f64 of i32
vcvtudq2pd     | Vx{kz} Wx/2*4       | evex.f3.0f.w0 7a               | avx512f              | convert | f64 of u32
vcvtpd2dq      | Vx/2{kz} Wx*8{er}   | sse/vex/evex.f2.0f.wig1 e6     | sse2 avx avx512f     | convert | i32 of f64, rounded
vcvttpd2dq     | Vx/2{kz} Wx*8{sae}  | sse/vex/evex.66.0f.wig1 e6     | sse2 avx avx512f     | convert | i32 of f64, towards zero
vcvtpd2udq     | Vx/2{kz} Wx*8{er}   | evex.0f.w1 79                  | avx512f              | convert | u32 of f64, rounded
vcvttpd2udq    | Vx/2{kz} Wx*8{sae}  | evex.0f.w1 78                  | avx512f              | convert | u32 of f64, towards zero
vcvtps2pd      | Vx{kz} Wx/2*4{sae}  | sse/vex/evex.0f.w0 5a          | sse2 avx avx512f     | convert | f64 of f32
vcvtpd2ps      | Vx/2{kz} Wx*8{er}   | sse/vex/evex.66.0f.wig1 5a     | sse2 avx avx512f     | convert | f32 of f64
vcvtqq2ps      | Vx/2{kz} Wx*8{er}   | evex.0f.w1 5b                  | avx512dq             | convert | f32 of i64
vcvtuqq2ps     | Vx/2{kz} Wx*8{er}   | evex.f2.0f.w1 7a               | avx512dq             | convert | f32 of u64
vcvtqq2pd      | Vx{kz} Wx*8{er}     | evex.f3.0f.w1 e6               | avx512dq             | convert | f64 of i64
vcvtuqq2pd     | Vx{kz} Wx*8{er}     | evex.f3.0f.w1 7a               | avx512dq             | convert | f64 of u64
vcvtps2qq      | Vx{kz} Wx/2*4{er}   | evex.66.0f.w0 7b               | avx512dq             | convert | i64 of f32, rounded
vcvttps2qq     | Vx{kz} Wx/2*4{sae}  | evex.66.0f.w0 7a               | avx512dq             | convert | i64 of f32, towards zero
vcvtps2uqq     | Vx{kz} Wx/2*4{er}   | evex.66.0f.w0 79               | avx512dq             | convert | u64 of f32, rounded
vcvttps2uqq    | Vx{kz} Wx/2*4{sae}  | evex.66.0f.w0 78               | avx512dq             | convert | u64 of f32, towards zero
vcvtpd2qq      | Vx{kz} Wx*8{er}     | evex.66.0f.w1 7b               | avx512dq             | convert | i64 of f64, rounded
vcvttpd2qq     | Vx{kz} Wx*8{sae}    | evex.66.0f.w1 7a               | avx512dq             | convert | i64 of f64, towards zero
vcvtpd2uqq     | Vx{kz} Wx*8{er}     | evex.66.0f.w1 79               | avx512dq             | convert | u64 of f64, rounded
vcvttpd2uqq    | Vx{kz} Wx*8{sae}    | evex.66.0f.w1 78               | avx512dq             | convert | u64 of f64, towards zero
vcvtss2sd      | V8{kz} H8 W4{sae}   | sse/vex/evex.lig.f3.0f.w0 5a   | sse2 avx avx512f     | convert | f64 of f32, lane 0; the other from a
vcvtsd2ss      | V4{kz} H4 W8{er}    | sse/vex/evex.lig.f2.0f.wig1 5a | sse2 avx avx512f     | convert | f32 of f64, lane 0; the others from a
vcvtsi2ss      | V4 H4 Ey            | sse/vex/evex.lig.f3.0f 2a      | sse avx avx512f      | convert | f32 of i32 or i64, lane 0; the others from a
vcvtsi2sd      | V8 H8 Ey            | sse/vex/evex.lig.f2.0f 2a      | sse2 avx avx512f     | convert | f64 of i32 or i64, lane 0; the other from a
vcvtusi2ss     | V4 H4 Ey            | evex.lig.f3.0f 7b              | avx512f              | convert | f32 of u32 or u64, lane 0; the others from a
vcvtusi2sd     | V8 H8 Ey            | evex.lig.f2.0f 7b              | avx512f              | convert | f64 of u32 or u64, lane 0; the other from a
vcvtss2si      | Gy W4{er}           | sse/vex/evex.lig.f3.0f 2d      | sse avx avx512f      | convert | i32 or i64 of f32, rounded
vcvttss2si     | Gy W4{sae}          | sse/vex/evex.lig.f3.0f 2c      | sse avx avx512f      | convert | i32 or i64 of f32, towards zero
vcvtsd2si      | Gy W8{er}           | sse/vex/evex.lig.f2.0f 2d      | sse2 avx avx512f     | convert | i32 or i64 of f64, rounded
vcvttsd2si     | Gy W8{sae}          | sse/vex/evex.lig.f2.0f 2c      | sse2 avx avx512f     | convert | i32 or i64 of f64, towards zero
vcvtss2usi     | Gy W4{er}           | evex.lig.f3.0f 79              | avx512f              | convert | u32 or u64 of f32, rounded
vcvttss2usi    | Gy W4{sae}          | evex.lig.f3.0f 78              | avx512f              | convert | u32 or u64 of f32, towards zero
vcvtsd2usi     | Gy W8{er}           | evex.lig.f2.0f 79              | avx512f              | convert | u32 or u64 of f64, rounded
vcvttsd2usi    | Gy W8{sae}          | evex.lig.f2.0f 78              | avx512f              | convert | u32 or u64 of f64, towards zero
vcvtph2ps      | Vx Wx/2             | vex.66.0f38.w0 13              | f16c                 | convert | f32 of f16
vcvtps2ph      | Wx/2 Vx I1          | vex.66.0f3a.w0 1d              | f16c                 | convert | f16 of f32; i: how to round, 4: by the mode
vcvtph2ps      | Vx{kz} Wx/2{sae}    | evex.66.0f38.w0 13             | avx512f              | convert | f32 of f16
vcvtps2ph      | Wx/2{kz} Vx{sae} I1 | evex.66.0f3a.w0 1d             | avx512f              | convert | f16 of f32; i: how to round, 4: by the mode
vcvtneps2bf16  | Vx/2{kz} Wx*4       | evex.f3.0f38.w0 72             | avx512_bf16          | convert | bf16 of f32; subnormal numbers become 0
vcvtne2ps2bf16 | Vx{kz} Hx Wx*4      | evex.f2.0f38.w0 72             | avx512_bf16          | convert | bf16 of f32 b, then a; subnormals become 0
"""  # noqa: E501
