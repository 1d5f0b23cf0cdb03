"""Rows: float arithmetic, rounded once.

Left out on purpose: fused multiply-add in all its forms (`vdpbf16ps` is one), which strict numerics forbids, and the
approximations (rcp, rsqrt), whose bits differ between makers.
"""

ROWS = """
vaddps      | Vx{kz} Hx Wx*4{er}     | sse/vex/evex.0f.w0 58          | sse avx avx512f  | fadd   | f32 a + b
vaddpd      | Vx{kz} Hx Wx*8{er}     | sse/vex/evex.66.0f.wig1 58     | sse2 avx avx512f | fadd   | f64 a + b
vaddss      | V4{kz} H4 W4{er}       | sse/vex/evex.lig.f3.0f.w0 58   | sse avx avx512f  | fadd   | f32 a + b, lane 0; the others from a
vaddsd      | V8{kz} H8 W8{er}       | sse/vex/evex.lig.f2.0f.wig1 58 | sse2 avx avx512f | fadd   | f64 a + b, lane 0; the other from a
vsubps      | Vx{kz} Hx Wx*4{er}     | sse/vex/evex.0f.w0 5c          | sse avx avx512f  | fadd   | f32 a - b
vsubpd      | Vx{kz} Hx Wx*8{er}     | sse/vex/evex.66.0f.wig1 5c     | sse2 avx avx512f | fadd   | f64 a - b
vsubss      | V4{kz} H4 W4{er}       | sse/vex/evex.lig.f3.0f.w0 5c   | sse avx avx512f  | fadd   | f32 a - b, lane 0; the others from a
vsubsd      | V8{kz} H8 W8{er}       | sse/vex/evex.lig.f2.0f.wig1 5c | sse2 avx avx512f | fadd   | f64 a - b, lane 0; the other from a
vmulps      | Vx{kz} Hx Wx*4{er}     | sse/vex/evex.0f.w0 59          | sse avx avx512f  | fmul   | f32 a * b
vmulpd      | Vx{kz} Hx Wx*8{er}     | sse/vex/evex.66.0f.wig1 59     | sse2 avx avx512f | fmul   | f64 a * b
vmulss      | V4{kz} H4 W4{er}       | sse/vex/evex.lig.f3.0f.w0 59   | sse avx avx512f  | fmul   | f32 a * b, lane 0; the others from a
vmulsd      | V8{kz} H8 W8{er}       | sse/vex/evex.lig.f2.0f.wig1 59 | sse2 avx avx512f | fmul   | f64 a * b, lane 0; the other from a
vdivps      | Vx{kz} Hx Wx*4{er}     | sse/vex/evex.0f.w0 5e          | sse avx avx512f  | fdiv   | f32 a / b
vdivpd      | Vx{kz} Hx Wx*8{er}     | sse/vex/evex.66.0f.wig1 5e     | sse2 avx avx512f | fdiv   | f64 a / b
vdivss      | V4{kz} H4 W4{er}       | sse/vex/evex.lig.f3.0f.w0 5e   | sse avx avx512f  | fdiv   | f32 a / b, lane 0; the others from a
vdivsd      | V8{kz} H8 W8{er}       | sse/vex/evex.lig.f2.0f.wig1 5e | sse2 avx avx512f | fdiv   | f64 a / b, lane 0; the other from a
vsqrtps     | Vx{kz} Wx*4{er}        | sse/vex/evex.0f.w0 51          | sse avx avx512f  | fdiv   | f32 root of s
vsqrtpd     | Vx{kz} Wx*8{er}        | sse/vex/evex.66.0f.wig1 51     | sse2 avx avx512f | fdiv   | f64 root of s
vsqrtss     | V4{kz} H4 W4{er}       | sse/vex/evex.lig.f3.0f.w0 51   | sse avx avx512f  | fdiv   | f32 root of b, lane 0; the others from a
vsqrtsd     | V8{kz} H8 W8{er}       | sse/vex/evex.lig.f2.0f.wig1 51 | sse2 avx avx512f | fdiv   | f64 root of b, lane 0; the other from a
vminps      | Vx{kz} Hx Wx*4{sae}    | sse/vex/evex.0f.w0 5d          | sse avx avx512f  | fmin   | f32 a if a < b else b
vminpd      | Vx{kz} Hx Wx*8{sae}    | sse/vex/evex.66.0f.wig1 5d     | sse2 avx avx512f | fmin   | f64 a if a < b else b
vminss      | V4{kz} H4 W4{sae}      | sse/vex/evex.lig.f3.0f.w0 5d   | sse avx avx512f  | fmin   | f32 a if a < b else b, lane 0
vminsd      | V8{kz} H8 W8{sae}      | sse/vex/evex.lig.f2.0f.wig1 5d | sse2 avx avx512f | fmin   | f64 a if a < b else b, lane 0
vmaxps      | Vx{kz} Hx Wx*4{sae}    | sse/vex/evex.0f.w0 5f          | sse avx avx512f  | fmin   | f32 a if a > b else b
vmaxpd      | Vx{kz} Hx Wx*8{sae}    | sse/vex/evex.66.0f.wig1 5f     | sse2 avx avx512f | fmin   | f64 a if a > b else b
vmaxss      | V4{kz} H4 W4{sae}      | sse/vex/evex.lig.f3.0f.w0 5f   | sse avx avx512f  | fmin   | f32 a if a > b else b, lane 0
vmaxsd      | V8{kz} H8 W8{sae}      | sse/vex/evex.lig.f2.0f.wig1 5f | sse2 avx avx512f | fmin   | f64 a if a > b else b, lane 0
vandps      | Vx Hx Wx               | sse/vex.0f 54                  | sse avx          | logic  | a & b
vandpd      | Vx Hx Wx               | sse/vex.66.0f 54               | sse2 avx         | logic  | a & b
vandnps     | Vx Hx Wx               | sse/vex.0f 55                  | sse avx          | logic  | ~a & b
vandnpd     | Vx Hx Wx               | sse/vex.66.0f 55               | sse2 avx         | logic  | ~a & b
vorps       | Vx Hx Wx               | sse/vex.0f 56                  | sse avx          | logic  | a or b
vorpd       | Vx Hx Wx               | sse/vex.66.0f 56               | sse2 avx         | logic  | a or b
vxorps      | Vx Hx Wx               | sse/vex.0f 57                  | sse avx          | logic  | a ^ b
vxorpd      | Vx Hx Wx               | sse/vex.66.0f 57               | sse2 avx         | logic  | a ^ b
vandps      | Vx{kz} Hx Wx*4         | evex.0f.w0 54                  | avx512dq         | logic  | a & b
vandpd      | Vx{kz} Hx Wx*8         | evex.66.0f.w1 54               | avx512dq         | logic  | a & b
vandnps     | Vx{kz} Hx Wx*4         | evex.0f.w0 55                  | avx512dq         | logic  | ~a & b
vandnpd     | Vx{kz} Hx Wx*8         | evex.66.0f.w1 55               | avx512dq         | logic  | ~a & b
vorps       | Vx{kz} Hx Wx*4         | evex.0f.w0 56                  | avx512dq         | logic  | a or b
vorpd       | Vx{kz} Hx Wx*8         | evex.66.0f.w1 56               | avx512dq         | logic  | a or b
vxorps      | Vx{kz} Hx Wx*4         | evex.0f.w0 57                  | avx512dq         | logic  | a ^ b
vxorpd      | Vx{kz} Hx Wx*8         | evex.66.0f.w1 57               | avx512dq         | logic  | a ^ b
vhaddps     | Vx Hx Wx               | sse/vex.f2.0f 7c               | sse3 avx         | across | f32 sums of neighbours
vhaddpd     | Vx Hx Wx               | sse/vex.66.0f 7c               | sse3 avx         | across | f64 sums of neighbours
vaddsubps   | Vx Hx Wx               | sse/vex.f2.0f d0               | sse3 avx         | fadd   | f32 a - b in even lanes, a + b in odd ones
vaddsubpd   | Vx Hx Wx               | sse/vex.66.0f d0               | sse3 avx         | fadd   | f64 a - b in even lanes, a + b in odd ones
vroundps    | Vx Wx I1               | sse/vex.66.0f3a 08             | sse4_1 avx       | fadd   | f32 s as an integer; i: how to round
vroundpd    | Vx Wx I1               | sse/vex.66.0f3a 09             | sse4_1 avx       | fadd   | f64 s as an integer; i: how to round
vroundss    | V4 H4 W4 I1            | sse/vex.lig.66.0f3a 0a         | sse4_1 avx       | fadd   | f32 b as an integer, lane 0
vroundsd    | V8 H8 W8 I1            | sse/vex.lig.66.0f3a 0b         | sse4_1 avx       | fadd   | f64 b as an integer, lane 0
vrndscaleps | Vx{kz} Wx*4{sae} I1    | evex.66.0f3a.w0 08             | avx512f          | fadd   | f32 s with i[7:4] bits behind the point
vrndscalepd | Vx{kz} Wx*8{sae} I1    | evex.66.0f3a.w1 09             | avx512f          | fadd   | f64 s with i[7:4] bits behind the point
vrndscaless | V4{kz} H4 W4{sae} I1   | evex.lig.66.0f3a.w0 0a         | avx512f          | fadd   | f32 b with i[7:4] bits behind it, lane 0
vrndscalesd | V8{kz} H8 W8{sae} I1   | evex.lig.66.0f3a.w1 0b         | avx512f          | fadd   | f64 b with i[7:4] bits behind it, lane 0
vreduceps   | Vx{kz} Wx*4{sae} I1    | evex.66.0f3a.w0 56             | avx512dq         | fadd   | f32 s - (s with i[7:4] bits behind the point)
vreducepd   | Vx{kz} Wx*8{sae} I1    | evex.66.0f3a.w1 56             | avx512dq         | fadd   | f64 s - (s with i[7:4] bits behind the point)
vscalefps   | Vx{kz} Hx Wx*4{er}     | evex.66.0f38.w0 2c             | avx512f          | fadd   | f32 a * 2^floor(b)
vscalefpd   | Vx{kz} Hx Wx*8{er}     | evex.66.0f38.w1 2c             | avx512f          | fadd   | f64 a * 2^floor(b)
vscalefss   | V4{kz} H4 W4{er}       | evex.lig.66.0f38.w0 2d         | avx512f          | fadd   | f32 a * 2^floor(b), lane 0
vscalefsd   | V8{kz} H8 W8{er}       | evex.lig.66.0f38.w1 2d         | avx512f          | fadd   | f64 a * 2^floor(b), lane 0
vgetexpps   | Vx{kz} Wx*4{sae}       | evex.66.0f38.w0 42             | avx512f          | fadd   | f32 exponent of s
vgetexppd   | Vx{kz} Wx*8{sae}       | evex.66.0f38.w1 42             | avx512f          | fadd   | f64 exponent of s
vgetmantps  | Vx{kz} Wx*4{sae} I1    | evex.66.0f3a.w0 26             | avx512f          | fadd   | f32 mantissa of s, in the range i
vgetmantpd  | Vx{kz} Wx*8{sae} I1    | evex.66.0f3a.w1 26             | avx512f          | fadd   | f64 mantissa of s, in the range i
vrangeps    | Vx{kz} Hx Wx*4{sae} I1 | evex.66.0f3a.w0 50             | avx512dq         | fmin   | f32 min or max of a and b, by i
vrangepd    | Vx{kz} Hx Wx*8{sae} I1 | evex.66.0f3a.w1 50             | avx512dq         | fmin   | f64 min or max of a and b, by i
"""  # noqa: E501
