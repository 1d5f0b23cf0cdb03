"""Rows: mask registers, and what goes between them and vectors."""

ROWS = """
kmovb           | K N1   | vex.l0.66.0f.w0 90   | avx512dq | mask  | d = s
kmovw           | K N2   | vex.l0.0f.w0 90      | avx512f  | mask  | d = s
kmovd           | K N4   | vex.l0.66.0f.w1 90   | avx512bw | mask  | d = s
kmovq           | K N8   | vex.l0.0f.w1 90      | avx512bw | mask  | d = s
kmovb           | M1 K   | vex.l0.66.0f.w0 91   | avx512dq | store | d = s
kmovw           | M2 K   | vex.l0.0f.w0 91      | avx512f  | store | d = s
kmovd           | M4 K   | vex.l0.66.0f.w1 91   | avx512bw | store | d = s
kmovq           | M8 K   | vex.l0.0f.w1 91      | avx512bw | store | d = s
kmovb           | K R4   | vex.l0.66.0f.w0 92   | avx512dq | cross | d = s
kmovw           | K R4   | vex.l0.0f.w0 92      | avx512f  | cross | d = s
kmovd           | K R4   | vex.l0.f2.0f.w0 92   | avx512bw | cross | d = s
kmovq           | K R8   | vex.l0.f2.0f.w1 92   | avx512bw | cross | d = s
kmovb           | G4 Q   | vex.l0.66.0f.w0 93   | avx512dq | cross | d = s, zero extended
kmovw           | G4 Q   | vex.l0.0f.w0 93      | avx512f  | cross | d = s, zero extended
kmovd           | G4 Q   | vex.l0.f2.0f.w0 93   | avx512bw | cross | d = s
kmovq           | G8 Q   | vex.l0.f2.0f.w1 93   | avx512bw | cross | d = s
kandb           | K J Q  | vex.l1.66.0f.w0 41   | avx512dq | mask  | d = a & b
kandw           | K J Q  | vex.l1.0f.w0 41      | avx512f  | mask  | d = a & b
kandd           | K J Q  | vex.l1.66.0f.w1 41   | avx512bw | mask  | d = a & b
kandq           | K J Q  | vex.l1.0f.w1 41      | avx512bw | mask  | d = a & b
kandnb          | K J Q  | vex.l1.66.0f.w0 42   | avx512dq | mask  | d = ~a & b
kandnw          | K J Q  | vex.l1.0f.w0 42      | avx512f  | mask  | d = ~a & b
kandnd          | K J Q  | vex.l1.66.0f.w1 42   | avx512bw | mask  | d = ~a & b
kandnq          | K J Q  | vex.l1.0f.w1 42      | avx512bw | mask  | d = ~a & b
korb            | K J Q  | vex.l1.66.0f.w0 45   | avx512dq | mask  | d = a or b
korw            | K J Q  | vex.l1.0f.w0 45      | avx512f  | mask  | d = a or b
kord            | K J Q  | vex.l1.66.0f.w1 45   | avx512bw | mask  | d = a or b
korq            | K J Q  | vex.l1.0f.w1 45      | avx512bw | mask  | d = a or b
kxnorb          | K J Q  | vex.l1.66.0f.w0 46   | avx512dq | mask  | d = ~(a ^ b)
kxnorw          | K J Q  | vex.l1.0f.w0 46      | avx512f  | mask  | d = ~(a ^ b)
kxnord          | K J Q  | vex.l1.66.0f.w1 46   | avx512bw | mask  | d = ~(a ^ b)
kxnorq          | K J Q  | vex.l1.0f.w1 46      | avx512bw | mask  | d = ~(a ^ b)
kxorb           | K J Q  | vex.l1.66.0f.w0 47   | avx512dq | mask  | d = a ^ b
kxorw           | K J Q  | vex.l1.0f.w0 47      | avx512f  | mask  | d = a ^ b
kxord           | K J Q  | vex.l1.66.0f.w1 47   | avx512bw | mask  | d = a ^ b
kxorq           | K J Q  | vex.l1.0f.w1 47      | avx512bw | mask  | d = a ^ b
kaddb           | K J Q  | vex.l1.66.0f.w0 4a   | avx512dq | cross | d = a + b
kaddw           | K J Q  | vex.l1.0f.w0 4a      | avx512dq | cross | d = a + b
kaddd           | K J Q  | vex.l1.66.0f.w1 4a   | avx512bw | cross | d = a + b
kaddq           | K J Q  | vex.l1.0f.w1 4a      | avx512bw | cross | d = a + b
kunpckbw        | K J Q  | vex.l1.66.0f.w0 4b   | avx512f  | cross | d = a's low 8 bits above b's
kunpckwd        | K J Q  | vex.l1.0f.w0 4b      | avx512bw | cross | d = a's low 16 bits above b's
kunpckdq        | K J Q  | vex.l1.0f.w1 4b      | avx512bw | cross | d = a's low 32 bits above b's
knotb           | K Q    | vex.l0.66.0f.w0 44   | avx512dq | mask  | d = ~s
knotw           | K Q    | vex.l0.0f.w0 44      | avx512f  | mask  | d = ~s
knotd           | K Q    | vex.l0.66.0f.w1 44   | avx512bw | mask  | d = ~s
knotq           | K Q    | vex.l0.0f.w1 44      | avx512bw | mask  | d = ~s
kortestb        | K Q    | vex.l0.66.0f.w0 98   | avx512dq | mask  | zero: (a or b) is none; carry: it is all
kortestw        | K Q    | vex.l0.0f.w0 98      | avx512f  | mask  | zero: (a or b) is none; carry: it is all
kortestd        | K Q    | vex.l0.66.0f.w1 98   | avx512bw | mask  | zero: (a or b) is none; carry: it is all
kortestq        | K Q    | vex.l0.0f.w1 98      | avx512bw | mask  | zero: (a or b) is none; carry: it is all
ktestb          | K Q    | vex.l0.66.0f.w0 99   | avx512dq | mask  | zero: (a & b) is none; carry: (~a & b) is none
ktestw          | K Q    | vex.l0.0f.w0 99      | avx512dq | mask  | zero: (a & b) is none; carry: (~a & b) is none
ktestd          | K Q    | vex.l0.66.0f.w1 99   | avx512bw | mask  | zero: (a & b) is none; carry: (~a & b) is none
ktestq          | K Q    | vex.l0.0f.w1 99      | avx512bw | mask  | zero: (a & b) is none; carry: (~a & b) is none
kshiftlb        | K Q I1 | vex.l0.66.0f3a.w0 32 | avx512dq | cross | d = s << i
kshiftlw        | K Q I1 | vex.l0.66.0f3a.w1 32 | avx512f  | cross | d = s << i
kshiftld        | K Q I1 | vex.l0.66.0f3a.w0 33 | avx512bw | cross | d = s << i
kshiftlq        | K Q I1 | vex.l0.66.0f3a.w1 33 | avx512bw | cross | d = s << i
kshiftrb        | K Q I1 | vex.l0.66.0f3a.w0 30 | avx512dq | cross | d = s >> i
kshiftrw        | K Q I1 | vex.l0.66.0f3a.w1 30 | avx512f  | cross | d = s >> i
kshiftrd        | K Q I1 | vex.l0.66.0f3a.w0 31 | avx512bw | cross | d = s >> i
kshiftrq        | K Q I1 | vex.l0.66.0f3a.w1 31 | avx512bw | cross | d = s >> i
vpmovm2b        | Vx Q   | evex.f3.0f38.w0 28   | avx512bw | cross | each lane all ones where the mask has a 1, else 0
vpmovm2w        | Vx Q   | evex.f3.0f38.w1 28   | avx512bw | cross | each lane all ones where the mask has a 1, else 0
vpmovm2d        | Vx Q   | evex.f3.0f38.w0 38   | avx512dq | cross | each lane all ones where the mask has a 1, else 0
vpmovm2q        | Vx Q   | evex.f3.0f38.w1 38   | avx512dq | cross | each lane all ones where the mask has a 1, else 0
vpmovb2m        | K Ux   | evex.f3.0f38.w0 29   | avx512bw | cross | mask of the lanes' top bits
vpmovw2m        | K Ux   | evex.f3.0f38.w1 29   | avx512bw | cross | mask of the lanes' top bits
vpmovd2m        | K Ux   | evex.f3.0f38.w0 39   | avx512dq | cross | mask of the lanes' top bits
vpmovq2m        | K Ux   | evex.f3.0f38.w1 39   | avx512dq | cross | mask of the lanes' top bits
vpbroadcastmb2q | Vx Q   | evex.f3.0f38.w1 2a   | avx512cd | cross | each lane the mask's low 8 bits as a number
vpbroadcastmw2d | Vx Q   | evex.f3.0f38.w0 3a   | avx512cd | cross | each lane the mask's low 16 bits as a number
"""
