"""Rows: vector moves: loads, stores, between lanes and general registers, broadcasts, gathers, scatters."""

ROWS = """
vmovaps         | Vx Wx         | sse/vex.0f 28                    | sse avx                   | move    | d = s; memory aligned
vmovaps         | Wx Vx         | sse/vex.0f 29                    | sse avx                   | store   | d = s; memory aligned
vmovups         | Vx Wx         | sse/vex.0f 10                    | sse avx                   | move    | d = s
vmovups         | Wx Vx         | sse/vex.0f 11                    | sse avx                   | store   | d = s
vmovapd         | Vx Wx         | sse/vex.66.0f 28                 | sse2 avx                  | move    | d = s; memory aligned
vmovapd         | Wx Vx         | sse/vex.66.0f 29                 | sse2 avx                  | store   | d = s; memory aligned
vmovupd         | Vx Wx         | sse/vex.66.0f 10                 | sse2 avx                  | move    | d = s
vmovupd         | Wx Vx         | sse/vex.66.0f 11                 | sse2 avx                  | store   | d = s
vmovdqa         | Vx Wx         | sse/vex.66.0f 6f                 | sse2 avx                  | move    | d = s; memory aligned
vmovdqa         | Wx Vx         | sse/vex.66.0f 7f                 | sse2 avx                  | store   | d = s; memory aligned
vmovdqu         | Vx Wx         | sse/vex.f3.0f 6f                 | sse2 avx                  | move    | d = s
vmovdqu         | Wx Vx         | sse/vex.f3.0f 7f                 | sse2 avx                  | store   | d = s
vmovaps         | Vx{kz} Wx     | evex.0f.w0 28                    | avx512f                   | move    | d = s; memory aligned
vmovaps         | Wx{kz} Vx     | evex.0f.w0 29                    | avx512f                   | store   | d = s; memory aligned
vmovups         | Vx{kz} Wx     | evex.0f.w0 10                    | avx512f                   | move    | d = s
vmovups         | Wx{kz} Vx     | evex.0f.w0 11                    | avx512f                   | store   | d = s
vmovapd         | Vx{kz} Wx     | evex.66.0f.w1 28                 | avx512f                   | move    | d = s; memory aligned
vmovapd         | Wx{kz} Vx     | evex.66.0f.w1 29                 | avx512f                   | store   | d = s; memory aligned
vmovupd         | Vx{kz} Wx     | evex.66.0f.w1 10                 | avx512f                   | move    | d = s
vmovupd         | Wx{kz} Vx     | evex.66.0f.w1 11                 | avx512f                   | store   | d = s
vmovdqa32       | Vx{kz} Wx     | evex.66.0f.w0 6f                 | avx512f                   | move    | d = s; memory aligned
vmovdqa32       | Wx{kz} Vx     | evex.66.0f.w0 7f                 | avx512f                   | store   | d = s; memory aligned
vmovdqa64       | Vx{kz} Wx     | evex.66.0f.w1 6f                 | avx512f                   | move    | d = s; memory aligned
vmovdqa64       | Wx{kz} Vx     | evex.66.0f.w1 7f                 | avx512f                   | store   | d = s; memory aligned
vmovdqu8        | Vx{kz} Wx     | evex.f2.0f.w0 6f                 | avx512bw                  | move    | d = s
vmovdqu8        | Wx{kz} Vx     | evex.f2.0f.w0 7f                 | avx512bw                  | store   | d = s
vmovdqu16       | Vx{kz} Wx     | evex.f2.0f.w1 6f                 | avx512bw                  | move    | d = s
vmovdqu16       | Wx{kz} Vx     | evex.f2.0f.w1 7f                 | avx512bw                  | store   | d = s
vmovdqu32       | Vx{kz} Wx     | evex.f3.0f.w0 6f                 | avx512f                   | move    | d = s
vmovdqu32       | Wx{kz} Vx     | evex.f3.0f.w0 7f                 | avx512f                   | store   | d = s
vmovdqu64       | Vx{kz} Wx     | evex.f3.0f.w1 6f                 | avx512f                   | move    | d = s
vmovdqu64       | Wx{kz} Vx     | evex.f3.0f.w1 7f                 | avx512f                   | store   | d = s
vlddqu          | Vx Mx         | sse/vex.f2.0f f0                 | sse3 avx                  | load    | d = s
vmovntdqa       | Vx Mx         | sse/vex/evex.66.0f38.w0 2a       | sse4_1 avx2 avx512f       | load    | d = s, past the caches; aligned
vmovntdq        | Mx Vx         | sse/vex/evex.66.0f.w0 e7         | sse2 avx avx512f          | store   | d = s, past the caches; aligned
vmovntps        | Mx Vx         | sse/vex/evex.0f.w0 2b            | sse avx avx512f           | store   | d = s, past the caches; aligned
vmovss          | V4 M4         | sse/vex/evex.lig.f3.0f.w0 10     | sse avx avx512f           | load    | lane 0 = s, the others 0
vmovss          | M4 V4         | sse/vex/evex.lig.f3.0f.w0 11     | sse avx avx512f           | store   | d = lane 0
vmovss          | V4 H4 U4      | sse/vex/evex.lig.f3.0f.w0 10     | sse avx avx512f           | move    | lane 0 from b, the others from a
vmovsd          | V8 M8         | sse/vex/evex.lig.f2.0f.wig1 10   | sse2 avx avx512f          | load    | lane 0 = s, the other 0
vmovsd          | M8 V8         | sse/vex/evex.lig.f2.0f.wig1 11   | sse2 avx avx512f          | store   | d = lane 0
vmovsd          | V8 H8 U8      | sse/vex/evex.lig.f2.0f.wig1 10   | sse2 avx avx512f          | move    | lane 0 from b, the other from a
vmovd           | V4 E4         | sse/vex/evex.128.66.0f.w0 6e     | sse2 avx avx512f          | cross   | lane 0 = s, the others 0
vmovd           | E4 V4         | sse/vex/evex.128.66.0f.w0 7e     | sse2 avx avx512f          | cross   | d = lane 0
vmovq           | V8 W8         | sse/vex/evex.128.f3.0f.wig1 7e   | sse2 avx avx512f          | move    | lane 0 = s, the other 0
vmovq           | W8 V8         | sse/vex/evex.128.66.0f.wig1 d6   | sse2 avx avx512f          | store   | d = lane 0
vmovq           | V8 R8         | sse/vex/evex.128.66.0f.w1 6e     | sse2 avx avx512f          | cross   | lane 0 = s, the other 0
vmovq           | R8 V8         | sse/vex/evex.128.66.0f.w1 7e     | sse2 avx avx512f          | cross   | d = lane 0
vmovlps         | V8 H8 M8      | sse/vex/evex.128.0f.w0 12        | sse avx avx512f           | load    | low half from b, high half from a
vmovlps         | M8 V8         | sse/vex/evex.128.0f.w0 13        | sse avx avx512f           | store   | d = low half
vmovhps         | V8 H8 M8      | sse/vex/evex.128.0f.w0 16        | sse avx avx512f           | load    | low half from a, high half from b
vmovhps         | M8 V8         | sse/vex/evex.128.0f.w0 17        | sse avx avx512f           | store   | d = high half
vmovlpd         | V8 H8 M8      | sse/vex/evex.128.66.0f.wig1 12   | sse2 avx avx512f          | load    | low half from b, high half from a
vmovlpd         | M8 V8         | sse/vex/evex.128.66.0f.wig1 13   | sse2 avx avx512f          | store   | d = low half
vmovhpd         | V8 H8 M8      | sse/vex/evex.128.66.0f.wig1 16   | sse2 avx avx512f          | load    | low half from a, high half from b
vmovhpd         | M8 V8         | sse/vex/evex.128.66.0f.wig1 17   | sse2 avx avx512f          | store   | d = high half
vmovhlps        | V16 H16 U16   | sse/vex/evex.128.0f.w0 12        | sse avx avx512f           | shuffle | low half = b's high half, high half = a's
vmovlhps        | V16 H16 U16   | sse/vex/evex.128.0f.w0 16        | sse avx avx512f           | shuffle | low half = a's, high half = b's low half
vmovddup        | V8{kz} W8     | sse/vex/evex.128.f2.0f.wig1 12   | sse3 avx avx512f+avx512vl | shuffle | both lanes = s
vmovddup        | Vx{kz} Wx     | vex/evex.256.512.f2.0f.wig1 12   | avx avx512f               | shuffle | each even lane twice
vmovshdup       | Vx{kz} Wx     | sse/vex/evex.f3.0f.w0 16         | sse3 avx avx512f          | shuffle | each odd lane twice
vmovsldup       | Vx{kz} Wx     | sse/vex/evex.f3.0f.w0 12         | sse3 avx avx512f          | shuffle | each even lane twice
vmovmskps       | G4 Ux         | sse/vex.0f 50                    | sse avx                   | cross   | d = signs of the lanes
vmovmskpd       | G4 Ux         | sse/vex.66.0f 50                 | sse2 avx                  | cross   | d = signs of the lanes
vpmovmskb       | G4 Ux         | sse/vex.66.0f d7                 | sse2 avx2                 | cross   | d = top bits of the lanes
vmaskmovps      | Vx Hx Mx      | vex.66.0f38.w0 2c                | avx                       | load    | lanes where a is negative, the others 0
vmaskmovps      | Mx Hx Vx      | vex.66.0f38.w0 2e                | avx                       | store   | lanes where a is negative
vmaskmovpd      | Vx Hx Mx      | vex.66.0f38.w0 2d                | avx                       | load    | lanes where a is negative, the others 0
vmaskmovpd      | Mx Hx Vx      | vex.66.0f38.w0 2f                | avx                       | store   | lanes where a is negative
vpmaskmovd      | Vx Hx Mx      | vex.66.0f38.w0 8c                | avx2                      | load    | lanes where a is negative, the others 0
vpmaskmovd      | Mx Hx Vx      | vex.66.0f38.w0 8e                | avx2                      | store   | lanes where a is negative
vpmaskmovq      | Vx Hx Mx      | vex.66.0f38.w1 8c                | avx2                      | load    | lanes where a is negative, the others 0
vpmaskmovq      | Mx Hx Vx      | vex.66.0f38.w1 8e                | avx2                      | store   | lanes where a is negative
vpinsrb         | V16 H16 F1 I1 | sse/vex/evex.128.66.0f3a 20      | sse4_1 avx avx512bw       | cross   | a with lane i = b
vpinsrw         | V16 H16 F2 I1 | sse/vex/evex.128.66.0f c4        | sse2 avx avx512bw         | cross   | a with lane i = b
vpinsrd         | V16 H16 E4 I1 | sse/vex/evex.128.66.0f3a.w0 22   | sse4_1 avx avx512dq       | cross   | a with lane i = b
vpinsrq         | V16 H16 E8 I1 | sse/vex/evex.128.66.0f3a.w1 22   | sse4_1 avx avx512dq       | cross   | a with lane i = b
vpextrb         | F1 V16 I1     | sse/vex/evex.128.66.0f3a 14      | sse4_1 avx avx512bw       | cross   | d = lane i, zero extended
vpextrw         | G4 U16 I1     | sse/vex/evex.128.66.0f c5        | sse2 avx avx512bw         | cross   | d = lane i, zero extended
vpextrw         | M2 V16 I1     | sse/vex/evex.128.66.0f3a 15      | sse4_1 avx avx512bw       | cross   | d = lane i
vpextrd         | E4 V16 I1     | sse/vex/evex.128.66.0f3a.w0 16   | sse4_1 avx avx512dq       | cross   | d = lane i
vpextrq         | E8 V16 I1     | sse/vex/evex.128.66.0f3a.w1 16   | sse4_1 avx avx512dq       | cross   | d = lane i
vinsertps       | V4 H4 W4 I1   | sse/vex/evex.128.66.0f3a.w0 21   | sse4_1 avx avx512f        | shuffle | a with a lane of b, some lanes 0
vextractps      | E4 V16 I1     | sse/vex/evex.128.66.0f3a 17      | sse4_1 avx avx512f        | cross   | d = lane i
vbroadcastss    | Vx{kz} W4     | vex/evex.66.0f38.w0 18           | avx2 avx512f              | shuffle | each lane = s
vbroadcastsd    | Vx{kz} W8     | vex/evex.256.512.66.0f38.wig1 19 | avx2 avx512f              | shuffle | each lane = s
vpbroadcastb    | Vx{kz} W1     | vex/evex.66.0f38.w0 78           | avx2 avx512bw             | shuffle | each lane = s
vpbroadcastw    | Vx{kz} W2     | vex/evex.66.0f38.w0 79           | avx2 avx512bw             | shuffle | each lane = s
vpbroadcastd    | Vx{kz} W4     | vex/evex.66.0f38.w0 58           | avx2 avx512f              | shuffle | each lane = s
vpbroadcastq    | Vx{kz} W8     | vex/evex.66.0f38.wig1 59         | avx2 avx512f              | shuffle | each lane = s
vpbroadcastb    | Vx{kz} R4     | evex.66.0f38.w0 7a               | avx512bw                  | cross   | each lane = the low byte of s
vpbroadcastw    | Vx{kz} R4     | evex.66.0f38.w0 7b               | avx512bw                  | cross   | each lane = the low 16 bits of s
vpbroadcastd    | Vx{kz} R4     | evex.66.0f38.w0 7c               | avx512f                   | cross   | each lane = s
vpbroadcastq    | Vx{kz} R8     | evex.66.0f38.w1 7c               | avx512f                   | cross   | each lane = s
vbroadcastf128  | V32 M16       | vex.256.66.0f38.w0 1a            | avx                       | load    | s twice
vbroadcasti128  | V32 M16       | vex.256.66.0f38.w0 5a            | avx2                      | load    | s twice
vbroadcastf32x2 | Vx{kz} W8     | evex.256.512.66.0f38.w0 19       | avx512dq                  | shuffle | s in all pairs of lanes
vbroadcasti32x2 | Vx{kz} W8     | evex.66.0f38.w0 59               | avx512dq                  | shuffle | s in all pairs of lanes
vbroadcastf32x4 | Vx{kz} M16    | evex.256.512.66.0f38.w0 1a       | avx512f                   | load    | s in all quarters
vbroadcasti32x4 | Vx{kz} M16    | evex.256.512.66.0f38.w0 5a       | avx512f                   | load    | s in all quarters
vbroadcastf64x2 | Vx{kz} M16    | evex.256.512.66.0f38.w1 1a       | avx512dq                  | load    | s in all quarters
vbroadcasti64x2 | Vx{kz} M16    | evex.256.512.66.0f38.w1 5a       | avx512dq                  | load    | s in all quarters
vbroadcastf32x8 | Vx{kz} M32    | evex.512.66.0f38.w0 1b           | avx512dq                  | load    | s in both halves
vbroadcasti32x8 | Vx{kz} M32    | evex.512.66.0f38.w0 5b           | avx512dq                  | load    | s in both halves
vbroadcastf64x4 | Vx{kz} M32    | evex.512.66.0f38.w1 1b           | avx512f                   | load    | s in both halves
vbroadcasti64x4 | Vx{kz} M32    | evex.512.66.0f38.w1 5b           | avx512f                   | load    | s in both halves
vpgatherdd      | Vx Xx Hx      | vex.n4.66.0f38.w0 90             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vpgatherdq      | Vx Xx/2 Hx    | vex.n8.66.0f38.w1 90             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vpgatherqd      | Vx/2 Xx Hx/2  | vex.n4.66.0f38.w0 91             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vpgatherqq      | Vx Xx Hx      | vex.n8.66.0f38.w1 91             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vgatherdps      | Vx Xx Hx      | vex.n4.66.0f38.w0 92             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vgatherdpd      | Vx Xx/2 Hx    | vex.n8.66.0f38.w1 92             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vgatherqps      | Vx/2 Xx Hx/2  | vex.n4.66.0f38.w0 93             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vgatherqpd      | Vx Xx Hx      | vex.n8.66.0f38.w1 93             | avx2                      | gather  | lanes whose b is negative from memory; b becomes 0
vpgatherdd      | Vx{k!} Xx     | evex.n4.66.0f38.w0 90            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vpgatherdq      | Vx{k!} Xx/2   | evex.n8.66.0f38.w1 90            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vpgatherqd      | Vx/2{k!} Xx   | evex.n4.66.0f38.w0 91            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vpgatherqq      | Vx{k!} Xx     | evex.n8.66.0f38.w1 91            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vgatherdps      | Vx{k!} Xx     | evex.n4.66.0f38.w0 92            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vgatherdpd      | Vx{k!} Xx/2   | evex.n8.66.0f38.w1 92            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vgatherqps      | Vx/2{k!} Xx   | evex.n4.66.0f38.w0 93            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vgatherqpd      | Vx{k!} Xx     | evex.n8.66.0f38.w1 93            | avx512f                   | gather  | lanes of the mask from memory; the mask becomes 0
vpscatterdd     | Xx{k!} Vx     | evex.n4.66.0f38.w0 a0            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vpscatterdq     | Xx/2{k!} Vx   | evex.n8.66.0f38.w1 a0            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vpscatterqd     | Xx{k!} Vx/2   | evex.n4.66.0f38.w0 a1            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vpscatterqq     | Xx{k!} Vx     | evex.n8.66.0f38.w1 a1            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vscatterdps     | Xx{k!} Vx     | evex.n4.66.0f38.w0 a2            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vscatterdpd     | Xx/2{k!} Vx   | evex.n8.66.0f38.w1 a2            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vscatterqps     | Xx{k!} Vx/2   | evex.n4.66.0f38.w0 a3            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vscatterqpd     | Xx{k!} Vx     | evex.n8.66.0f38.w1 a3            | avx512f                   | gather  | lanes of the mask to memory; the mask becomes 0
vzeroupper      |               | vex.l0.0f 77                     | avx                       | none    | zero above bit 127 of all vector registers
vzeroall        |               | vex.l1.0f 77                     | avx                       | system  | all vector registers = 0
"""  # noqa: E501
