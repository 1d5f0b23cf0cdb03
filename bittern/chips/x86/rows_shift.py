"""Rows: shifts and rotations of lanes: by a number, by the low 64 bits of a vector, by lanes of their own."""

ROWS = """
vpsllw         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.wig f1  | sse2 avx2 avx512bw | vshift  | i16 a << b
vpslld         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.w0 f2   | sse2 avx2 avx512f  | vshift  | i32 a << b
vpsllq         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.wig1 f3 | sse2 avx2 avx512f  | vshift  | i64 a << b
vpsrlw         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.wig d1  | sse2 avx2 avx512bw | vshift  | u16 a >> b
vpsrld         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.w0 d2   | sse2 avx2 avx512f  | vshift  | u32 a >> b
vpsrlq         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.wig1 d3 | sse2 avx2 avx512f  | vshift  | u64 a >> b
vpsraw         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.wig e1  | sse2 avx2 avx512bw | vshift  | i16 a >> b
vpsrad         | Vx{kz} Hx W16     | sse/vex/evex.66.0f.w0 e2   | sse2 avx2 avx512f  | vshift  | i32 a >> b
vpsraq         | Vx{kz} Hx W16     | evex.66.0f.w1 e2           | avx512f            | vshift  | i64 a >> b
vpsrlw         | Hx Ux I1          | sse/vex.66.0f 71 /2        | sse2 avx2          | vshift  | u16 s >> i
vpsraw         | Hx Ux I1          | sse/vex.66.0f 71 /4        | sse2 avx2          | vshift  | i16 s >> i
vpsllw         | Hx Ux I1          | sse/vex.66.0f 71 /6        | sse2 avx2          | vshift  | i16 s << i
vpsrld         | Hx Ux I1          | sse/vex.66.0f 72 /2        | sse2 avx2          | vshift  | u32 s >> i
vpsrad         | Hx Ux I1          | sse/vex.66.0f 72 /4        | sse2 avx2          | vshift  | i32 s >> i
vpslld         | Hx Ux I1          | sse/vex.66.0f 72 /6        | sse2 avx2          | vshift  | i32 s << i
vpsrlq         | Hx Ux I1          | sse/vex.66.0f 73 /2        | sse2 avx2          | vshift  | u64 s >> i
vpsllq         | Hx Ux I1          | sse/vex.66.0f 73 /6        | sse2 avx2          | vshift  | i64 s << i
vpsrldq        | Hx Ux I1          | sse/vex.66.0f 73 /3        | sse2 avx2          | shuffle | 16 bytes >> i bytes
vpslldq        | Hx Ux I1          | sse/vex.66.0f 73 /7        | sse2 avx2          | shuffle | 16 bytes << i bytes
vpsrlw         | Hx{kz} Wx I1      | evex.66.0f.wig 71 /2       | avx512bw           | vshift  | u16 s >> i
vpsraw         | Hx{kz} Wx I1      | evex.66.0f.wig 71 /4       | avx512bw           | vshift  | i16 s >> i
vpsllw         | Hx{kz} Wx I1      | evex.66.0f.wig 71 /6       | avx512bw           | vshift  | i16 s << i
vprord         | Hx{kz} Wx*4 I1    | evex.66.0f.w0 72 /0        | avx512f            | vshift  | u32 s rotated right by i
vprorq         | Hx{kz} Wx*8 I1    | evex.66.0f.w1 72 /0        | avx512f            | vshift  | u64 s rotated right by i
vprold         | Hx{kz} Wx*4 I1    | evex.66.0f.w0 72 /1        | avx512f            | vshift  | u32 s rotated left by i
vprolq         | Hx{kz} Wx*8 I1    | evex.66.0f.w1 72 /1        | avx512f            | vshift  | u64 s rotated left by i
vpsrld         | Hx{kz} Wx*4 I1    | evex.66.0f.w0 72 /2        | avx512f            | vshift  | u32 s >> i
vpsrad         | Hx{kz} Wx*4 I1    | evex.66.0f.w0 72 /4        | avx512f            | vshift  | i32 s >> i
vpsraq         | Hx{kz} Wx*8 I1    | evex.66.0f.w1 72 /4        | avx512f            | vshift  | i64 s >> i
vpslld         | Hx{kz} Wx*4 I1    | evex.66.0f.w0 72 /6        | avx512f            | vshift  | i32 s << i
vpsrlq         | Hx{kz} Wx*8 I1    | evex.66.0f.w1 73 /2        | avx512f            | vshift  | u64 s >> i
vpsllq         | Hx{kz} Wx*8 I1    | evex.66.0f.w1 73 /6        | avx512f            | vshift  | i64 s << i
vpsrldq        | Hx Wx I1          | evex.66.0f.wig 73 /3       | avx512bw           | shuffle | 16 bytes >> i bytes
vpslldq        | Hx Wx I1          | evex.66.0f.wig 73 /7       | avx512bw           | shuffle | 16 bytes << i bytes
vpsllvd        | Vx{kz} Hx Wx*4    | vex/evex.66.0f38.w0 47     | avx2 avx512f       | vshift  | i32 a << b
vpsllvq        | Vx{kz} Hx Wx*8    | vex/evex.66.0f38.w1 47     | avx2 avx512f       | vshift  | i64 a << b
vpsrlvd        | Vx{kz} Hx Wx*4    | vex/evex.66.0f38.w0 45     | avx2 avx512f       | vshift  | u32 a >> b
vpsrlvq        | Vx{kz} Hx Wx*8    | vex/evex.66.0f38.w1 45     | avx2 avx512f       | vshift  | u64 a >> b
vpsravd        | Vx{kz} Hx Wx*4    | vex/evex.66.0f38.w0 46     | avx2 avx512f       | vshift  | i32 a >> b
vpsravq        | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 46         | avx512f            | vshift  | i64 a >> b
vpsllvw        | Vx{kz} Hx Wx      | evex.66.0f38.w1 12         | avx512bw           | vshift  | i16 a << b
vpsrlvw        | Vx{kz} Hx Wx      | evex.66.0f38.w1 10         | avx512bw           | vshift  | u16 a >> b
vpsravw        | Vx{kz} Hx Wx      | evex.66.0f38.w1 11         | avx512bw           | vshift  | i16 a >> b
vprolvd        | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 15         | avx512f            | vshift  | u32 a rotated left by b
vprolvq        | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 15         | avx512f            | vshift  | u64 a rotated left by b
vprorvd        | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 14         | avx512f            | vshift  | u32 a rotated right by b
vprorvq        | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 14         | avx512f            | vshift  | u64 a rotated right by b
vpshldw        | Vx{kz} Hx Wx I1   | evex.66.0f3a.w1 70         | avx512_vbmi2       | vshift  | a:b << i, the upper 16 bits
vpshldd        | Vx{kz} Hx Wx*4 I1 | evex.66.0f3a.w0 71         | avx512_vbmi2       | vshift  | a:b << i, the upper 32 bits
vpshldq        | Vx{kz} Hx Wx*8 I1 | evex.66.0f3a.w1 71         | avx512_vbmi2       | vshift  | a:b << i, the upper 64 bits
vpshrdw        | Vx{kz} Hx Wx I1   | evex.66.0f3a.w1 72         | avx512_vbmi2       | vshift  | b:a >> i, the lower 16 bits
vpshrdd        | Vx{kz} Hx Wx*4 I1 | evex.66.0f3a.w0 73         | avx512_vbmi2       | vshift  | b:a >> i, the lower 32 bits
vpshrdq        | Vx{kz} Hx Wx*8 I1 | evex.66.0f3a.w1 73         | avx512_vbmi2       | vshift  | b:a >> i, the lower 64 bits
vpshldvw       | Vx{kz} Hx Wx      | evex.66.0f38.w1 70         | avx512_vbmi2       | vshift  | d:a << b, the upper 16 bits
vpshldvd       | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 71         | avx512_vbmi2       | vshift  | d:a << b, the upper 32 bits
vpshldvq       | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 71         | avx512_vbmi2       | vshift  | d:a << b, the upper 64 bits
vpshrdvw       | Vx{kz} Hx Wx      | evex.66.0f38.w1 72         | avx512_vbmi2       | vshift  | a:d >> b, the lower 16 bits
vpshrdvd       | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 73         | avx512_vbmi2       | vshift  | a:d >> b, the lower 32 bits
vpshrdvq       | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 73         | avx512_vbmi2       | vshift  | a:d >> b, the lower 64 bits
vpmultishiftqb | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 83         | avx512vbmi         | vshift  | u8 of each u64 of b from the bit a on
"""  # noqa: E501
