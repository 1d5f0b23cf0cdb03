"""Rows: comparisons of vectors: into lanes, into masks, into flags; choices by lane."""

ROWS = """
vpcmpeqb     | Vx Hx Wx             | sse/vex.66.0f 74               | sse2 avx2        | vadd   | i8 all ones where a == b
vpcmpeqw     | Vx Hx Wx             | sse/vex.66.0f 75               | sse2 avx2        | vadd   | i16 all ones where a == b
vpcmpeqd     | Vx Hx Wx             | sse/vex.66.0f 76               | sse2 avx2        | vadd   | i32 all ones where a == b
vpcmpeqq     | Vx Hx Wx             | sse/vex.66.0f38 29             | sse4_1 avx2      | vadd   | i64 all ones where a == b
vpcmpgtb     | Vx Hx Wx             | sse/vex.66.0f 64               | sse2 avx2        | vadd   | i8 all ones where a > b
vpcmpgtw     | Vx Hx Wx             | sse/vex.66.0f 65               | sse2 avx2        | vadd   | i16 all ones where a > b
vpcmpgtd     | Vx Hx Wx             | sse/vex.66.0f 66               | sse2 avx2        | vadd   | i32 all ones where a > b
vpcmpgtq     | Vx Hx Wx             | sse/vex.66.0f38 37             | sse4_2 avx2      | vadd   | i64 all ones where a > b
vpcmpeqb     | K{k} Hx Wx           | evex.66.0f.wig 74              | avx512bw         | tomask | i8 mask of a == b
vpcmpeqw     | K{k} Hx Wx           | evex.66.0f.wig 75              | avx512bw         | tomask | i16 mask of a == b
vpcmpeqd     | K{k} Hx Wx*4         | evex.66.0f.w0 76               | avx512f          | tomask | i32 mask of a == b
vpcmpeqq     | K{k} Hx Wx*8         | evex.66.0f38.w1 29             | avx512f          | tomask | i64 mask of a == b
vpcmpgtb     | K{k} Hx Wx           | evex.66.0f.wig 64              | avx512bw         | tomask | i8 mask of a > b
vpcmpgtw     | K{k} Hx Wx           | evex.66.0f.wig 65              | avx512bw         | tomask | i16 mask of a > b
vpcmpgtd     | K{k} Hx Wx*4         | evex.66.0f.w0 66               | avx512f          | tomask | i32 mask of a > b
vpcmpgtq     | K{k} Hx Wx*8         | evex.66.0f38.w1 37             | avx512f          | tomask | i64 mask of a > b
vpcmpb       | K{k} Hx Wx I1        | evex.66.0f3a.w0 3f             | avx512bw         | tomask | i8 mask of a i b: == < <= none != >= > all
vpcmpub      | K{k} Hx Wx I1        | evex.66.0f3a.w0 3e             | avx512bw         | tomask | u8 mask of a i b
vpcmpw       | K{k} Hx Wx I1        | evex.66.0f3a.w1 3f             | avx512bw         | tomask | i16 mask of a i b
vpcmpuw      | K{k} Hx Wx I1        | evex.66.0f3a.w1 3e             | avx512bw         | tomask | u16 mask of a i b
vpcmpd       | K{k} Hx Wx*4 I1      | evex.66.0f3a.w0 1f             | avx512f          | tomask | i32 mask of a i b
vpcmpud      | K{k} Hx Wx*4 I1      | evex.66.0f3a.w0 1e             | avx512f          | tomask | u32 mask of a i b
vpcmpq       | K{k} Hx Wx*8 I1      | evex.66.0f3a.w1 1f             | avx512f          | tomask | i64 mask of a i b
vpcmpuq      | K{k} Hx Wx*8 I1      | evex.66.0f3a.w1 1e             | avx512f          | tomask | u64 mask of a i b
vptestmb     | K{k} Hx Wx           | evex.66.0f38.w0 26             | avx512bw         | tomask | i8 mask of (a & b) != 0
vptestmw     | K{k} Hx Wx           | evex.66.0f38.w1 26             | avx512bw         | tomask | i16 mask of (a & b) != 0
vptestmd     | K{k} Hx Wx*4         | evex.66.0f38.w0 27             | avx512f          | tomask | i32 mask of (a & b) != 0
vptestmq     | K{k} Hx Wx*8         | evex.66.0f38.w1 27             | avx512f          | tomask | i64 mask of (a & b) != 0
vptestnmb    | K{k} Hx Wx           | evex.f3.0f38.w0 26             | avx512bw         | tomask | i8 mask of (a & b) == 0
vptestnmw    | K{k} Hx Wx           | evex.f3.0f38.w1 26             | avx512bw         | tomask | i16 mask of (a & b) == 0
vptestnmd    | K{k} Hx Wx*4         | evex.f3.0f38.w0 27             | avx512f          | tomask | i32 mask of (a & b) == 0
vptestnmq    | K{k} Hx Wx*8         | evex.f3.0f38.w1 27             | avx512f          | tomask | i64 mask of (a & b) == 0
vpshufbitqmb | K{k} Hx Wx           | evex.66.0f38.w0 8f             | avx512_bitalg    | tomask | mask of the bits of a that the bytes of b name
vptest       | Vx Wx                | sse/vex.66.0f38 17             | sse4_1 avx       | cross  | zero: (a & b) is none; carry: (~a & b) is none
vtestps      | Vx Wx                | vex.66.0f38.w0 0e              | avx              | cross  | the same of the signs of f32
vtestpd      | Vx Wx                | vex.66.0f38.w0 0f              | avx              | cross  | the same of the signs of f64
vcmpps       | Vx Hx Wx I1          | sse/vex.0f c2                  | sse avx          | vadd   | f32 all ones where a i b
vcmppd       | Vx Hx Wx I1          | sse/vex.66.0f c2               | sse2 avx         | vadd   | f64 all ones where a i b
vcmpss       | V4 H4 W4 I1          | sse/vex.lig.f3.0f c2           | sse avx          | vadd   | f32 lane 0: all ones where a i b
vcmpsd       | V8 H8 W8 I1          | sse/vex.lig.f2.0f c2           | sse2 avx         | vadd   | f64 lane 0: all ones where a i b
vcmpps       | K{k} Hx Wx*4{sae} I1 | evex.0f.w0 c2                  | avx512f          | tomask | f32 mask of a i b
vcmppd       | K{k} Hx Wx*8{sae} I1 | evex.66.0f.w1 c2               | avx512f          | tomask | f64 mask of a i b
vcmpss       | K{k} H4 W4{sae} I1   | evex.lig.f3.0f.w0 c2           | avx512f          | tomask | f32 mask of a i b, lane 0
vcmpsd       | K{k} H8 W8{sae} I1   | evex.lig.f2.0f.w1 c2           | avx512f          | tomask | f64 mask of a i b, lane 0
vucomiss     | V4 W4{sae}           | sse/vex/evex.lig.0f.w0 2e      | sse avx avx512f  | cross  | flags of f32 a and b
vcomiss      | V4 W4{sae}           | sse/vex/evex.lig.0f.w0 2f      | sse avx avx512f  | cross  | the same; a quiet NaN is invalid too
vucomisd     | V8 W8{sae}           | sse/vex/evex.lig.66.0f.wig1 2e | sse2 avx avx512f | cross  | flags of f64 a and b
vcomisd      | V8 W8{sae}           | sse/vex/evex.lig.66.0f.wig1 2f | sse2 avx avx512f | cross  | the same; a quiet NaN is invalid too
vfpclassps   | K{k} Wx*4 I1         | evex.66.0f3a.w0 66             | avx512dq         | tomask | f32 mask of the kinds i: NaN, zero, infinite and so on
vfpclasspd   | K{k} Wx*8 I1         | evex.66.0f3a.w1 66             | avx512dq         | tomask | f64 mask of the kinds i
vpblendvb    | Vx Wx                | sse.66.0f38 10                 | sse4_1           | vadd   | u8 b where xmm0 is negative, else d
vblendvps    | Vx Wx                | sse.66.0f38 14                 | sse4_1           | vadd   | f32 b where xmm0 is negative, else d
vblendvpd    | Vx Wx                | sse.66.0f38 15                 | sse4_1           | vadd   | f64 b where xmm0 is negative, else d
vpblendvb    | Vx Hx Wx Lx          | vex.66.0f3a.w0 4c              | avx2             | vadd   | u8 b where c is negative, else a
vblendvps    | Vx Hx Wx Lx          | vex.66.0f3a.w0 4a              | avx              | vadd   | f32 b where c is negative, else a
vblendvpd    | Vx Hx Wx Lx          | vex.66.0f3a.w0 4b              | avx              | vadd   | f64 b where c is negative, else a
vpblendw     | Vx Hx Wx I1          | sse/vex.66.0f3a 0e             | sse4_1 avx2      | logic  | i16 b where i has a 1, else a
vpblendd     | Vx Hx Wx I1          | vex.66.0f3a.w0 02              | avx2             | logic  | i32 b where i has a 1, else a
vblendps     | Vx Hx Wx I1          | sse/vex.66.0f3a 0c             | sse4_1 avx       | logic  | f32 b where i has a 1, else a
vblendpd     | Vx Hx Wx I1          | sse/vex.66.0f3a 0d             | sse4_1 avx       | logic  | f64 b where i has a 1, else a
vpblendmb    | Vx{kz} Hx Wx         | evex.66.0f38.w0 66             | avx512bw         | logic  | i8 b where the mask has a 1, else a
vpblendmw    | Vx{kz} Hx Wx         | evex.66.0f38.w1 66             | avx512bw         | logic  | i16 b where the mask has a 1, else a
vpblendmd    | Vx{kz} Hx Wx*4       | evex.66.0f38.w0 64             | avx512f          | logic  | i32 b where the mask has a 1, else a
vpblendmq    | Vx{kz} Hx Wx*8       | evex.66.0f38.w1 64             | avx512f          | logic  | i64 b where the mask has a 1, else a
vblendmps    | Vx{kz} Hx Wx*4       | evex.66.0f38.w0 65             | avx512f          | logic  | f32 b where the mask has a 1, else a
vblendmpd    | Vx{kz} Hx Wx*8       | evex.66.0f38.w1 65             | avx512f          | logic  | f64 b where the mask has a 1, else a
"""  # noqa: E501
