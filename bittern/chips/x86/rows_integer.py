"""Rows: arithmetic and logic on integer lanes, sums of products, counts, GF(2)."""

ROWS = """
vpaddb            | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig fc    | sse2 avx2 avx512bw         | logic  | i8 a + b
vpaddw            | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig fd    | sse2 avx2 avx512bw         | logic  | i16 a + b
vpaddd            | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f.w0 fe     | sse2 avx2 avx512f          | logic  | i32 a + b
vpaddq            | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f.wig1 d4   | sse2 avx2 avx512f          | logic  | i64 a + b
vpsubb            | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig f8    | sse2 avx2 avx512bw         | logic  | i8 a - b
vpsubw            | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig f9    | sse2 avx2 avx512bw         | logic  | i16 a - b
vpsubd            | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f.w0 fa     | sse2 avx2 avx512f          | logic  | i32 a - b
vpsubq            | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f.wig1 fb   | sse2 avx2 avx512f          | logic  | i64 a - b
vpaddsb           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig ec    | sse2 avx2 avx512bw         | vadd   | i8 a + b, saturated
vpaddsw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig ed    | sse2 avx2 avx512bw         | vadd   | i16 a + b, saturated
vpaddusb          | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig dc    | sse2 avx2 avx512bw         | vadd   | u8 a + b, saturated
vpaddusw          | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig dd    | sse2 avx2 avx512bw         | vadd   | u16 a + b, saturated
vpsubsb           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig e8    | sse2 avx2 avx512bw         | vadd   | i8 a - b, saturated
vpsubsw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig e9    | sse2 avx2 avx512bw         | vadd   | i16 a - b, saturated
vpsubusb          | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig d8    | sse2 avx2 avx512bw         | vadd   | u8 a - b, saturated
vpsubusw          | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig d9    | sse2 avx2 avx512bw         | vadd   | u16 a - b, saturated
vpavgb            | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig e0    | sse2 avx2 avx512bw         | vadd   | u8 (a + b + 1) >> 1
vpavgw            | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig e3    | sse2 avx2 avx512bw         | vadd   | u16 (a + b + 1) >> 1
vpabsb            | Vx{kz} Wx         | sse/vex/evex.66.0f38.wig 1c  | ssse3 avx2 avx512bw        | vadd   | i8 abs(s)
vpabsw            | Vx{kz} Wx         | sse/vex/evex.66.0f38.wig 1d  | ssse3 avx2 avx512bw        | vadd   | i16 abs(s)
vpabsd            | Vx{kz} Wx*4       | sse/vex/evex.66.0f38.w0 1e   | ssse3 avx2 avx512f         | vadd   | i32 abs(s)
vpabsq            | Vx{kz} Wx*8       | evex.66.0f38.w1 1f           | avx512f                    | vadd   | i64 abs(s)
vpsignb           | Vx Hx Wx          | sse/vex.66.0f38 08           | ssse3 avx2                 | vadd   | i8 a * sign of b
vpsignw           | Vx Hx Wx          | sse/vex.66.0f38 09           | ssse3 avx2                 | vadd   | i16 a * sign of b
vpsignd           | Vx Hx Wx          | sse/vex.66.0f38 0a           | ssse3 avx2                 | vadd   | i32 a * sign of b
vphaddw           | Vx Hx Wx          | sse/vex.66.0f38 01           | ssse3 avx2                 | across | i16 sums of neighbours
vphaddd           | Vx Hx Wx          | sse/vex.66.0f38 02           | ssse3 avx2                 | across | i32 sums of neighbours
vphaddsw          | Vx Hx Wx          | sse/vex.66.0f38 03           | ssse3 avx2                 | across | i16 sums of neighbours, saturated
vphsubw           | Vx Hx Wx          | sse/vex.66.0f38 05           | ssse3 avx2                 | across | i16 differences of neighbours
vphsubd           | Vx Hx Wx          | sse/vex.66.0f38 06           | ssse3 avx2                 | across | i32 differences of neighbours
vphsubsw          | Vx Hx Wx          | sse/vex.66.0f38 07           | ssse3 avx2                 | across | i16 differences, saturated
vpminub           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig da    | sse2 avx2 avx512bw         | vadd   | u8 min(a, b)
vpminsb           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.wig 38  | sse4_1 avx2 avx512bw       | vadd   | i8 min(a, b)
vpminuw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.wig 3a  | sse4_1 avx2 avx512bw       | vadd   | u16 min(a, b)
vpminsw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig ea    | sse2 avx2 avx512bw         | vadd   | i16 min(a, b)
vpminud           | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f38.w0 3b   | sse4_1 avx2 avx512f        | vadd   | u32 min(a, b)
vpminsd           | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f38.w0 39   | sse4_1 avx2 avx512f        | vadd   | i32 min(a, b)
vpminuq           | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 3b           | avx512f                    | vadd   | u64 min(a, b)
vpminsq           | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 39           | avx512f                    | vadd   | i64 min(a, b)
vpmaxub           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig de    | sse2 avx2 avx512bw         | vadd   | u8 max(a, b)
vpmaxsb           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.wig 3c  | sse4_1 avx2 avx512bw       | vadd   | i8 max(a, b)
vpmaxuw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.wig 3e  | sse4_1 avx2 avx512bw       | vadd   | u16 max(a, b)
vpmaxsw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig ee    | sse2 avx2 avx512bw         | vadd   | i16 max(a, b)
vpmaxud           | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f38.w0 3f   | sse4_1 avx2 avx512f        | vadd   | u32 max(a, b)
vpmaxsd           | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f38.w0 3d   | sse4_1 avx2 avx512f        | vadd   | i32 max(a, b)
vpmaxuq           | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 3f           | avx512f                    | vadd   | u64 max(a, b)
vpmaxsq           | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 3d           | avx512f                    | vadd   | i64 max(a, b)
vpmullw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig d5    | sse2 avx2 avx512bw         | vmul   | i16 a * b, the low half
vpmulhw           | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig e5    | sse2 avx2 avx512bw         | vmul   | i16 a * b, the high half
vpmulhuw          | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig e4    | sse2 avx2 avx512bw         | vmul   | u16 a * b, the high half
vpmulhrsw         | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.wig 0b  | ssse3 avx2 avx512bw        | vmul   | i16 (a * b + 2^14) >> 15
vpmulld           | Vx{kz} Hx Wx*4    | sse/vex/evex.66.0f38.w0 40   | sse4_1 avx2 avx512f        | vmul   | i32 a * b, the low half
vpmullq           | Vx{kz} Hx Wx*8    | evex.66.0f38.w1 40           | avx512dq                   | vmul   | i64 a * b, the low half
vpmuludq          | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f.wig1 f4   | sse2 avx2 avx512f          | vmul   | u64 product of the low halves, u32
vpmuldq           | Vx{kz} Hx Wx*8    | sse/vex/evex.66.0f38.wig1 28 | sse4_1 avx2 avx512f        | vmul   | i64 product of the low halves, i32
vpmaddwd          | Vx{kz} Hx Wx      | sse/vex/evex.66.0f.wig f5    | sse2 avx2 avx512bw         | vmul   | i32 sum of two products i16 * i16
vpmaddubsw        | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.wig 04  | ssse3 avx2 avx512bw        | vmul   | i16 sum of two products u8 * i8, saturated
vpsadbw           | Vx Hx Wx          | sse/vex/evex.66.0f.wig f6    | sse2 avx2 avx512bw         | vmul   | u64 sum of eight u8 abs(a - b)
vpdpbusd          | Vx Hx Wx          | vex.66.0f38.w0 50            | avx_vnni                   | dot    | i32 d + four products u8 * i8
vpdpbusds         | Vx Hx Wx          | vex.66.0f38.w0 51            | avx_vnni                   | dot    | the same, saturated
vpdpwssd          | Vx Hx Wx          | vex.66.0f38.w0 52            | avx_vnni                   | dot    | i32 d + two products i16 * i16
vpdpwssds         | Vx Hx Wx          | vex.66.0f38.w0 53            | avx_vnni                   | dot    | the same, saturated
vpdpbusd          | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 50           | avx512_vnni                | dot    | i32 d + four products u8 * i8
vpdpbusds         | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 51           | avx512_vnni                | dot    | the same, saturated
vpdpwssd          | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 52           | avx512_vnni                | dot    | i32 d + two products i16 * i16
vpdpwssds         | Vx{kz} Hx Wx*4    | evex.66.0f38.w0 53           | avx512_vnni                | dot    | the same, saturated
vpand             | Vx Hx Wx          | sse/vex.66.0f db             | sse2 avx2                  | logic  | a & b
vpandn            | Vx Hx Wx          | sse/vex.66.0f df             | sse2 avx2                  | logic  | ~a & b
vpor              | Vx Hx Wx          | sse/vex.66.0f eb             | sse2 avx2                  | logic  | a or b
vpxor             | Vx Hx Wx          | sse/vex.66.0f ef             | sse2 avx2                  | logic  | a ^ b
vpandd            | Vx{kz} Hx Wx*4    | evex.66.0f.w0 db             | avx512f                    | logic  | a & b
vpandq            | Vx{kz} Hx Wx*8    | evex.66.0f.w1 db             | avx512f                    | logic  | a & b
vpandnd           | Vx{kz} Hx Wx*4    | evex.66.0f.w0 df             | avx512f                    | logic  | ~a & b
vpandnq           | Vx{kz} Hx Wx*8    | evex.66.0f.w1 df             | avx512f                    | logic  | ~a & b
vpord             | Vx{kz} Hx Wx*4    | evex.66.0f.w0 eb             | avx512f                    | logic  | a or b
vporq             | Vx{kz} Hx Wx*8    | evex.66.0f.w1 eb             | avx512f                    | logic  | a or b
vpxord            | Vx{kz} Hx Wx*4    | evex.66.0f.w0 ef             | avx512f                    | logic  | a ^ b
vpxorq            | Vx{kz} Hx Wx*8    | evex.66.0f.w1 ef             | avx512f                    | logic  | a ^ b
vpternlogd        | Vx{kz} Hx Wx*4 I1 | evex.66.0f3a.w0 25           | avx512f                    | logic  | bit d:a:b of i, any function of three bits
vpternlogq        | Vx{kz} Hx Wx*8 I1 | evex.66.0f3a.w1 25           | avx512f                    | logic  | bit d:a:b of i, any function of three bits
vpopcntb          | Vx{kz} Wx         | evex.66.0f38.w0 54           | avx512_bitalg              | count  | ones of each i8
vpopcntw          | Vx{kz} Wx         | evex.66.0f38.w1 54           | avx512_bitalg              | count  | ones of each i16
vpopcntd          | Vx{kz} Wx*4       | evex.66.0f38.w0 55           | avx512_vpopcntdq           | count  | ones of each i32
vpopcntq          | Vx{kz} Wx*8       | evex.66.0f38.w1 55           | avx512_vpopcntdq           | count  | ones of each i64
vplzcntd          | Vx{kz} Wx*4       | evex.66.0f38.w0 44           | avx512cd                   | count  | zeros above the highest 1 of each i32
vplzcntq          | Vx{kz} Wx*8       | evex.66.0f38.w1 44           | avx512cd                   | count  | zeros above the highest 1 of each i64
vpconflictd       | Vx{kz} Wx*4       | evex.66.0f38.w0 c4           | avx512cd                   | across | which earlier i32 lanes are equal
vpconflictq       | Vx{kz} Wx*8       | evex.66.0f38.w1 c4           | avx512cd                   | across | which earlier i64 lanes are equal
vgf2p8mulb        | Vx{kz} Hx Wx      | sse/vex/evex.66.0f38.w0 cf   | gfni gfni+avx gfni+avx512f | gf     | a * b in GF(2^8)
vgf2p8affineqb    | Vx{kz} Hx Wx*8 I1 | sse/vex/evex.66.0f3a.w1 ce   | gfni gfni+avx gfni+avx512f | gf     | 8x8 bits b times each byte, ^ i
vgf2p8affineinvqb | Vx{kz} Hx Wx*8 I1 | sse/vex/evex.66.0f3a.w1 cf   | gfni gfni+avx gfni+avx512f | gf     | the same of the inverse
"""  # noqa: E501
