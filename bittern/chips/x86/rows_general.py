"""Rows: general registers: moves, arithmetic, shifts, jumps, the stack, locks, fences, the system."""

ROWS = """
mov             | E1 G1    | int 88               | -          | move   | d = s
mov             | Ev Gv    | int 89               | -          | move   | d = s
mov             | G1 M1    | int 8a               | -          | load   | d = s
mov             | Gv Mv    | int 8b               | -          | load   | d = s
mov             | O1 I1    | int b0               | -          | move   | d = i
mov             | O4 I4    | int b8               | -          | move   | d = i; the upper half of the register is zero
mov             | E1 I1    | int c6 /0            | -          | store  | d = i
mov             | Ev Iz    | int c7 /0            | -          | store  | d = i, sign extended
mov             | O8 I8    | int b8               | -          | move   | d = i, all 64 bits
movzx           | Gv E1    | int.0f b6            | -          | move   | d = s, zero extended
movzx           | Gy E2    | int.0f b7            | -          | move   | d = s, zero extended
movsx           | Gv E1    | int.0f be            | -          | alu    | d = s, sign extended
movsx           | Gy E2    | int.0f bf            | -          | alu    | d = s, sign extended
movsxd          | G8 E4    | int 63               | -          | alu    | d = s, sign extended
movbe           | Gv Mv    | int.0f38 f0          | movbe      | load   | d = s, bytes reversed
movbe           | Mv Gv    | int.0f38 f1          | movbe      | store  | d = s, bytes reversed
movnti          | My Gy    | int.0f c3            | sse2       | store  | d = s, past the caches
lea             | Gy M     | int 8d               | -          | alu    | d = address of s
xchg            | E1 G1    | int 86               | -          | atomic | swap; locked where d is memory
xchg            | Ev Gv    | int 87               | -          | atomic | swap; locked where d is memory
cmpxchg         | E1 G1    | int.0f b0            | -          | atomic | if a == d then d = s else a = d; a is al
cmpxchg         | Ev Gv    | int.0f b1            | -          | atomic | if a == d then d = s else a = d; a is rax
xadd            | E1 G1    | int.0f c0            | -          | atomic | d, s = d + s, d
xadd            | Ev Gv    | int.0f c1            | -          | atomic | d, s = d + s, d
lock_cmpxchg    | M1 G1    | int.0f.lock b0       | -          | atomic | as cmpxchg, at once for all threads
lock_cmpxchg    | Mv Gv    | int.0f.lock b1       | -          | atomic | as cmpxchg, at once for all threads
lock_cmpxchg16b | M16      | int.0f.w1.lock c7 /1 | cx16       | atomic | the same for rdx:rax and rcx:rbx
lock_xadd       | M1 G1    | int.0f.lock c0       | -          | atomic | as xadd, at once for all threads
lock_xadd       | Mv Gv    | int.0f.lock c1       | -          | atomic | as xadd, at once for all threads
lock_inc        | Mv       | int.lock ff /0       | -          | atomic | d = d + 1, at once for all threads
lock_dec        | Mv       | int.lock ff /1       | -          | atomic | d = d - 1, at once for all threads
lock_{atomic}   | Mv Gv    | int.lock 01+8n       | -          | atomic | d = d {atomic} s, at once for all threads
lock_{atomic}   | Mv Is    | int.lock 83 /n       | -          | atomic | d = d {atomic} i, at once for all threads
lock_{atomic}   | Mv Iz    | int.lock 81 /n       | -          | atomic | d = d {atomic} i, at once for all threads
{alu}           | E1 G1    | int 00+8n            | -          | alu    | d = d {alu} s, and flags (cmp: flags alone)
{alu}           | Ev Gv    | int 01+8n            | -          | alu    | d = d {alu} s, and flags (cmp: flags alone)
{alu}           | G1 M1    | int 02+8n            | -          | alu    | d = d {alu} s, and flags (cmp: flags alone)
{alu}           | Gv Mv    | int 03+8n            | -          | alu    | d = d {alu} s, and flags (cmp: flags alone)
{alu}           | E1 I1    | int 80 /n            | -          | alu    | d = d {alu} i, and flags (cmp: flags alone)
{alu}           | Ev Is    | int 83 /n            | -          | alu    | d = d {alu} i, and flags (cmp: flags alone)
{alu}           | Ev Iz    | int 81 /n            | -          | alu    | d = d {alu} i, and flags (cmp: flags alone)
test            | E1 G1    | int 84               | -          | alu    | flags of d & s
test            | Ev Gv    | int 85               | -          | alu    | flags of d & s
test            | E1 I1    | int f6 /0            | -          | alu    | flags of d & i
test            | Ev Iz    | int f7 /0            | -          | alu    | flags of d & i
inc             | E1       | int fe /0            | -          | alu    | d = d + 1; the carry flag stays
inc             | Ev       | int ff /0            | -          | alu    | d = d + 1; the carry flag stays
dec             | E1       | int fe /1            | -          | alu    | d = d - 1; the carry flag stays
dec             | Ev       | int ff /1            | -          | alu    | d = d - 1; the carry flag stays
not             | E1       | int f6 /2            | -          | alu    | d = ~d
not             | Ev       | int f7 /2            | -          | alu    | d = ~d
neg             | E1       | int f6 /3            | -          | alu    | d = -d
neg             | Ev       | int f7 /3            | -          | alu    | d = -d
mul             | E1       | int f6 /4            | -          | mul    | ax = al * s, unsigned
mul             | Ev       | int f7 /4            | -          | mul    | rdx:rax = rax * s, unsigned
imul            | E1       | int f6 /5            | -          | mul    | ax = al * s, signed
imul            | Ev       | int f7 /5            | -          | mul    | rdx:rax = rax * s, signed
imul            | Gv Ev    | int.0f af            | -          | mul    | d = d * s, the low half
imul            | Gv Ev Is | int 6b               | -          | mul    | d = s * i, the low half
imul            | Gv Ev Iz | int 69               | -          | mul    | d = s * i, the low half
div             | E1       | int f6 /6            | -          | divide | al, ah = quotient and rest of ax / s
div             | Ev       | int f7 /6            | -          | divide | rax, rdx = quotient and rest of rdx:rax / s
idiv            | E1       | int f6 /7            | -          | divide | the same, signed, towards zero
idiv            | Ev       | int f7 /7            | -          | divide | the same, signed, towards zero
cbw             |          | int.66 98            | -          | alu    | ax = al, sign extended
cwde            |          | int 98               | -          | alu    | eax = ax, sign extended
cdqe            |          | int.w1 98            | -          | alu    | rax = eax, sign extended
cwd             |          | int.66 99            | -          | alu    | dx = sign of ax
cdq             |          | int 99               | -          | alu    | edx = sign of eax
cqo             |          | int.w1 99            | -          | alu    | rdx = sign of rax
{shift}         | E1 one   | int d0 /n            | -          | shift  | d = d {shift} 1
{shift}         | Ev one   | int d1 /n            | -          | shift  | d = d {shift} 1
{shift}         | E1 cl    | int d2 /n            | -          | shift  | d = d {shift} cl
{shift}         | Ev cl    | int d3 /n            | -          | shift  | d = d {shift} cl
{shift}         | E1 I1    | int c0 /n            | -          | shift  | d = d {shift} i
{shift}         | Ev I1    | int c1 /n            | -          | shift  | d = d {shift} i
shld            | Ev Gv I1 | int.0f a4            | -          | shift  | d:s shifted left by i, the upper half
shld            | Ev Gv cl | int.0f a5            | -          | shift  | d:s shifted left by cl, the upper half
shrd            | Ev Gv I1 | int.0f ac            | -          | shift  | s:d shifted right by i, the lower half
shrd            | Ev Gv cl | int.0f ad            | -          | shift  | s:d shifted right by cl, the lower half
set{cc}         | E1       | int.0f 90+n          | -          | alu    | d = 1 if {cc} else 0
cmov{cc}        | Gv Ev    | int.0f 40+n          | -          | alu    | d = s if {cc}
j{cc}           | D1       | int 70+n             | -          | branch | go to d if {cc}
j{cc}           | D4       | int.0f 80+n          | -          | branch | go to d if {cc}
jmp             | D1       | int eb               | -          | branch | go to d
jmp             | D4       | int e9               | -          | branch | go to d
jmp             | E8       | int.d64 ff /4        | -          | branch | go to the address d
call            | D4       | int e8               | -          | branch | push the next address, go to d
call            | E8       | int.d64 ff /2        | -          | branch | push the next address, go to the address d
ret             |          | int c3               | -          | branch | go to the popped address
ret             | I2       | int c2               | -          | branch | the same, and drop i bytes of the stack
push            | O8       | int.d64 50           | -          | store  | put s on the stack
push            | M8       | int.d64 ff /6        | -          | store  | put s on the stack
push            | Is       | int.d64 6a           | -          | store  | put i on the stack, sign extended
push            | Iz       | int.d64 68           | -          | store  | put i on the stack, sign extended
pop             | O8       | int.d64 58           | -          | load   | take d from the stack
pop             | M8       | int.d64 8f /0        | -          | load   | take d from the stack
leave           |          | int.d64 c9           | -          | load   | rsp = rbp, then pop rbp
clc             |          | int f8               | -          | alu    | carry = 0
stc             |          | int f9               | -          | alu    | carry = 1
cmc             |          | int f5               | -          | alu    | carry = not carry
nop             |          | int 90               | -          | none   | nothing
ud2             |          | int 0f 0b            | -          | system | an invalid instruction, on purpose
int3            |          | int cc               | -          | system | stop for a debugger
endbr64         |          | int f3 0f 1e fa      | -          | none   | may be the target of an indirect jump
cpuid           |          | int 0f a2            | -          | system | eax to edx = facts eax, ecx of the processor
xgetbv          |          | int 0f 01 d0         | xsave      | system | edx:eax = which registers the system saves
rdtsc           |          | int 0f 31            | -          | system | edx:eax = time stamp
rdtscp          |          | int 0f 01 f9         | rdtscp     | system | the same after all earlier instructions; ecx = core
syscall         |          | int 0f 05            | -          | system | ask the system; rcx and r11 are lost
pause           |          | int f3 90            | -          | wait   | tell the processor that a loop waits
mfence          |          | int 0f ae f0         | sse2       | fence  | all loads and stores before, then those after
lfence          |          | int 0f ae e8         | sse2       | fence  | all loads before, then those after
sfence          |          | int 0f ae f8         | sse        | fence  | all stores before, then those after
ldmxcsr         | M4       | int.0f ae /2         | sse        | system | mode of float arithmetic = s
stmxcsr         | M4       | int.0f ae /3         | sse        | system | d = mode of float arithmetic
prefetchnta     | M1       | int.0f 18 /0         | sse        | load   | bring the line near, to be used once
prefetcht0      | M1       | int.0f 18 /1         | sse        | load   | bring the line into all caches
prefetcht1      | M1       | int.0f 18 /2         | sse        | load   | bring the line into the second cache
prefetcht2      | M1       | int.0f 18 /3         | sse        | load   | bring the line into the third cache
prefetchw       | M1       | int.0f 0d /1         | prefetchw  | load   | bring the line near, to be written
clflush         | M1       | int.0f ae /7         | clflush    | store  | write the line back and drop it
clflushopt      | M1       | int.66.0f ae /7      | clflushopt | store  | the same, in any order
"""  # noqa: E501
