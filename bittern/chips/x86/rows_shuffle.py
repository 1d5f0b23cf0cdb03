"""Rows: lanes moved: shuffles, permutations, tables, packs, unpacks, parts of vectors, compress and expand."""

ROWS = """
vpshufb       | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.wig 00    | ssse3 avx2 avx512bw  | shuffle | bytes of a that b names, in 16 bytes
vpshufd       | Vx{kz} Wx*4 I1    | sse/vex/evex.66.0f.w0 70       | sse2 avx2 avx512f    | shuffle | i32 that i names, in 16 bytes
vpshufhw      | Vx{kz} Wx I1      | sse/vex/evex.f3.0f.wig 70      | sse2 avx2 avx512bw   | shuffle | the upper four i16 that i names
vpshuflw      | Vx{kz} Wx I1      | sse/vex/evex.f2.0f.wig 70      | sse2 avx2 avx512bw   | shuffle | the lower four i16 that i names
vpalignr      | Vx{kz} Hx Wx I1   | sse/vex/evex.66.0f3a.wig 0f    | ssse3 avx2 avx512bw  | shuffle | a:b >> i bytes, in 16 bytes
vshufps       | Vx{kz} Hx Wx*4 I1 | sse/vex/evex.0f.w0 c6          | sse avx avx512f      | shuffle | two f32 of a, two of b, in 16 bytes
vshufpd       | Vx{kz} Hx Wx*8 I1 | sse/vex/evex.66.0f.wig1 c6     | sse2 avx avx512f     | shuffle | one f64 of a, one of b, in 16 bytes
vunpcklps     | Vx{kz} Hx Wx*4    | sse/vex/evex.0f.w0 14          | sse avx avx512f      | shuffle | the lower f32 of a and b in turn
vunpckhps     | Vx{kz} Hx Wx*4    | sse/vex/evex.0f.w0 15          | sse avx avx512f      | shuffle | the upper f32 of a and b in turn
vunpcklpd     | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f.wig1 14     | sse2 avx avx512f     | shuffle | the lower f64 of a and b
vunpckhpd     | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f.wig1 15     | sse2 avx avx512f     | shuffle | the upper f64 of a and b
vpunpcklbw    | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig 60      | sse2 avx2 avx512bw   | shuffle | the lower i8 of a and b in turn
vpunpcklwd    | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig 61      | sse2 avx2 avx512bw   | shuffle | the lower i16 of a and b in turn
vpunpckldq    | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f.w0 62       | sse2 avx2 avx512f    | shuffle | the lower i32 of a and b in turn
vpunpcklqdq   | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f.wig1 6c     | sse2 avx2 avx512f    | shuffle | the lower i64 of a and b
vpunpckhbw    | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig 68      | sse2 avx2 avx512bw   | shuffle | the upper i8 of a and b in turn
vpunpckhwd    | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig 69      | sse2 avx2 avx512bw   | shuffle | the upper i16 of a and b in turn
vpunpckhdq    | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f.w0 6a       | sse2 avx2 avx512f    | shuffle | the upper i32 of a and b in turn
vpunpckhqdq   | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f.wig1 6d     | sse2 avx2 avx512f    | shuffle | the upper i64 of a and b
vpacksswb     | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig 63      | sse2 avx2 avx512bw   | shuffle | i8 of i16 a then b, saturated
vpackuswb     | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig 67      | sse2 avx2 avx512bw   | shuffle | u8 of i16 a then b, saturated
vpackssdw     | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f.w0 6b       | sse2 avx2 avx512bw   | shuffle | i16 of i32 a then b, saturated
vpackusdw     | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f38.w0 2b     | sse4_1 avx2 avx512bw | shuffle | u16 of i32 a then b, saturated
vpermilps     | Vx{kz} Hx Wx*4    | vex/evex.66.0f38.w0 0c         | avx avx512f          | shuffle | f32 of a that b names, in 16 bytes
vpermilps     | Vx{kz} Wx*4 I1    | vex/evex.66.0f3a.w0 04         | avx avx512f          | shuffle | f32 that i names, in 16 bytes
vpermilpd     | Vx{kz} Hx Wx*8    | vex/evex.66.0f38.wig1 0d       | avx avx512f          | shuffle | f64 of a that b names, in 16 bytes
vpermilpd     | Vx{kz} Wx*8 I1    | vex/evex.66.0f3a.wig1 05       | avx avx512f          | shuffle | f64 that i names, in 16 bytes
vpermd        | Vx{kz} Hx Wx*4    | vex/evex.256.512.66.0f38.w0 36 | avx2 avx512f         | across  | i32 of b that a names
vpermps       | Vx{kz} Hx Wx*4    | vex/evex.256.512.66.0f38.w0 16 | avx2 avx512f         | across  | f32 of b that a names
vpermq        | Vx{kz} Wx*8 I1    | vex/evex.256.512.66.0f3a.w1 00 | avx2 avx512f         | across  | i64 that i names, in 32 bytes
vpermpd       | Vx{kz} Wx*8 I1    | vex/evex.256.512.66.0f3a.w1 01 | avx2 avx512f         | across  | f64 that i names, in 32 bytes
vpermq        | Vx{kz} Hx Wx*8    | evex.256.512.66.0f38.w1 36     | avx512f              | across  | i64 of b that a names
vpermpd       | Vx{kz} Hx Wx*8    | evex.256.512.66.0f38.w1 16     | avx512f              | across  | f64 of b that a names
vpermw        | Vx{kz} Hx Wx      | evex.66.0f38.w1 8d             | avx512bw             | across  | i16 of b that a names
vpermb        | Vx{kz} Hx Wx      | evex.66.0f38.w0 8d             | avx512vbmi           | across  | i8 of b that a names
vpermi2b      | Vx{kz} Hx Wx      | evex.66.0f38.w0 75             | avx512vbmi           | across  | i8 of a:b that d names
vpermi2w      | Vx{kz} Hx Wx      | evex.66.0f38.w1 75             | avx512bw             | across  | i16 of a:b that d names
vpermi2d      | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 76             | avx512f              | across  | i32 of a:b that d names
vpermi2q      | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 76             | avx512f              | across  | i64 of a:b that d names
vpermi2ps     | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 77             | avx512f              | across  | f32 of a:b that d names
vpermi2pd     | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 77             | avx512f              | across  | f64 of a:b that d names
vpermt2b      | Vx{kz} Hx Wx      | evex.66.0f38.w0 7d             | avx512vbmi           | across  | i8 of d:b that a names
vpermt2w      | Vx{kz} Hx Wx      | evex.66.0f38.w1 7d             | avx512bw             | across  | i16 of d:b that a names
vpermt2d      | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 7e             | avx512f              | across  | i32 of d:b that a names
vpermt2q      | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 7e             | avx512f              | across  | i64 of d:b that a names
vpermt2ps     | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 7f             | avx512f              | across  | f32 of d:b that a names
vpermt2pd     | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 7f             | avx512f              | across  | f64 of d:b that a names
vperm2f128    | Vx Hx Wx I1       | vex.256.66.0f3a.w0 06          | avx                  | across  | two of the halves of a and b
vperm2i128    | Vx Hx Wx I1       | vex.256.66.0f3a.w0 46          | avx2                 | across  | two of the halves of a and b
vinsertf128   | Vx Hx W16 I1      | vex.256.66.0f3a.w0 18          | avx                  | across  | a with half i = b
vinserti128   | Vx Hx W16 I1      | vex.256.66.0f3a.w0 38          | avx2                 | across  | a with half i = b
vextractf128  | W16 Vx I1         | vex.256.66.0f3a.w0 19          | avx                  | across  | half i
vextracti128  | W16 Vx I1         | vex.256.66.0f3a.w0 39          | avx2                 | across  | half i
vinsertf32x4  | Vx{kz} Hx W16 I1  | evex.256.512.66.0f3a.w0 18     | avx512f              | across  | a with 16 bytes at place i = b
vinserti32x4  | Vx{kz} Hx W16 I1  | evex.256.512.66.0f3a.w0 38     | avx512f              | across  | a with 16 bytes at place i = b
vinsertf64x2  | Vx{kz} Hx W16 I1  | evex.256.512.66.0f3a.w1 18     | avx512dq             | across  | a with 16 bytes at place i = b
vinserti64x2  | Vx{kz} Hx W16 I1  | evex.256.512.66.0f3a.w1 38     | avx512dq             | across  | a with 16 bytes at place i = b
vinsertf32x8  | Vx{kz} Hx W32 I1  | evex.512.66.0f3a.w0 1a         | avx512dq             | across  | a with half i = b
vinserti32x8  | Vx{kz} Hx W32 I1  | evex.512.66.0f3a.w0 3a         | avx512dq             | across  | a with half i = b
vinsertf64x4  | Vx{kz} Hx W32 I1  | evex.512.66.0f3a.w1 1a         | avx512f              | across  | a with half i = b
vinserti64x4  | Vx{kz} Hx W32 I1  | evex.512.66.0f3a.w1 3a         | avx512f              | across  | a with half i = b
vextractf32x4 | W16{kz} Vx I1     | evex.256.512.66.0f3a.w0 19     | avx512f              | across  | 16 bytes at place i
vextracti32x4 | W16{kz} Vx I1     | evex.256.512.66.0f3a.w0 39     | avx512f              | across  | 16 bytes at place i
vextractf64x2 | W16{kz} Vx I1     | evex.256.512.66.0f3a.w1 19     | avx512dq             | across  | 16 bytes at place i
vextracti64x2 | W16{kz} Vx I1     | evex.256.512.66.0f3a.w1 39     | avx512dq             | across  | 16 bytes at place i
vextractf32x8 | W32{kz} Vx I1     | evex.512.66.0f3a.w0 1b         | avx512dq             | across  | half i
vextracti32x8 | W32{kz} Vx I1     | evex.512.66.0f3a.w0 3b         | avx512dq             | across  | half i
vextractf64x4 | W32{kz} Vx I1     | evex.512.66.0f3a.w1 1b         | avx512f              | across  | half i
vextracti64x4 | W32{kz} Vx I1     | evex.512.66.0f3a.w1 3b         | avx512f              | across  | half i
vshuff32x4    | Vx{kz} Hx Wx*4 I1 | evex.256.512.66.0f3a.w0 23     | avx512f              | across  | 16 bytes of a, then of b, that i names
vshuff64x2    | Vx{kz} Hx Wx*8 I1 | evex.256.512.66.0f3a.w1 23     | avx512f              | across  | 16 bytes of a, then of b, that i names
vshufi32x4    | Vx{kz} Hx Wx*4 I1 | evex.256.512.66.0f3a.w0 43     | avx512f              | across  | 16 bytes of a, then of b, that i names
vshufi64x2    | Vx{kz} Hx Wx*8 I1 | evex.256.512.66.0f3a.w1 43     | avx512f              | across  | 16 bytes of a, then of b, that i names
valignd       | Vx{kz} Hx Wx*4 I1 | evex.66.0f3a.w0 03             | avx512f              | across  | a:b >> i lanes of i32
valignq       | Vx{kz} Hx Wx*8 I1 | evex.66.0f3a.w1 03             | avx512f              | across  | a:b >> i lanes of i64
vpcompressb   | Wx{kz} Vx         | evex.n1.66.0f38.w0 63          | avx512_vbmi2         | across  | i8 of the mask, put together
vpcompressw   | Wx{kz} Vx         | evex.n2.66.0f38.w1 63          | avx512_vbmi2         | across  | i16 of the mask, put together
vpcompressd   | Wx{kz} Vx         | evex.n4.66.0f38.w0 8b          | avx512f              | across  | i32 of the mask, put together
vpcompressq   | Wx{kz} Vx         | evex.n8.66.0f38.w1 8b          | avx512f              | across  | i64 of the mask, put together
vcompressps   | Wx{kz} Vx         | evex.n4.66.0f38.w0 8a          | avx512f              | across  | f32 of the mask, put together
vcompresspd   | Wx{kz} Vx         | evex.n8.66.0f38.w1 8a          | avx512f              | across  | f64 of the mask, put together
vpexpandb     | Vx{kz} Wx         | evex.n1.66.0f38.w0 62          | avx512_vbmi2         | across  | i8 in order into the lanes of the mask
vpexpandw     | Vx{kz} Wx         | evex.n2.66.0f38.w1 62          | avx512_vbmi2         | across  | i16 in order into the lanes of the mask
vpexpandd     | Vx{kz} Wx         | evex.n4.66.0f38.w0 89          | avx512f              | across  | i32 in order into the lanes of the mask
vpexpandq     | Vx{kz} Wx         | evex.n8.66.0f38.w1 89          | avx512f              | across  | i64 in order into the lanes of the mask
vexpandps     | Vx{kz} Wx         | evex.n4.66.0f38.w0 88          | avx512f              | across  | f32 in order into the lanes of the mask
vexpandpd     | Vx{kz} Wx         | evex.n8.66.0f38.w1 88          | avx512f              | across  | f64 in order into the lanes of the mask
"""  # noqa: E501
