"""Rows: bits of general registers: tests, counts, BMI1, BMI2, long additions, checksums."""

ROWS = """
{bit}  | Ev Gv    | int.0f a3+8n      | -      | bit   | carry = bit s of d; then {bit}: s sets, r clears, c flips it
{bit}  | Ev I1    | int.0f ba /4+n    | -      | bit   | carry = bit i of d; then {bit}: s sets, r clears, c flips it
bsf    | Gv Ev    | int.0f bc         | -      | bit   | d = place of the lowest 1 of s; undefined for 0
bsr    | Gv Ev    | int.0f bd         | -      | bit   | d = place of the highest 1 of s; undefined for 0
bswap  | Oy       | int.0f c8         | -      | bit   | d = d, bytes reversed
popcnt | Gv Ev    | int.f3.0f b8      | popcnt | bit   | d = number of ones of s
lzcnt  | Gv Ev    | int.f3.0f bd      | lzcnt  | bit   | d = number of zeros above the highest 1 of s
tzcnt  | Gv Ev    | int.f3.0f bc      | bmi1   | bit   | d = number of zeros below the lowest 1 of s
andn   | Gy By Ey | vex.l0.0f38 f2    | bmi1   | alu   | d = ~a & b
bextr  | Gy Ey By | vex.l0.0f38 f7    | bmi1   | bit   | d = bits of a from b[7:0] on, b[15:8] many
blsr   | By Ey    | vex.l0.0f38 f3 /1 | bmi1   | bit   | d = s without its lowest 1
blsmsk | By Ey    | vex.l0.0f38 f3 /2 | bmi1   | bit   | d = ones up to the lowest 1 of s
blsi   | By Ey    | vex.l0.0f38 f3 /3 | bmi1   | bit   | d = the lowest 1 of s alone
bzhi   | Gy Ey By | vex.l0.0f38 f5    | bmi2   | bit   | d = the lowest b[7:0] bits of a
pdep   | Gy By Ey | vex.l0.f2.0f38 f5 | bmi2   | mul   | d = bits of a put where b has ones
pext   | Gy By Ey | vex.l0.f3.0f38 f5 | bmi2   | mul   | d = bits of a where b has ones, put together
mulx   | Gy By Ey | vex.l0.f2.0f38 f6 | bmi2   | mul   | high, low = rdx * s, unsigned; no flags
rorx   | Gy Ey I1 | vex.l0.f2.0f3a f0 | bmi2   | shift | d = s rotated right by i; no flags
sarx   | Gy Ey By | vex.l0.f3.0f38 f7 | bmi2   | shift | d = a >> b, signed; no flags
shlx   | Gy Ey By | vex.l0.66.0f38 f7 | bmi2   | shift | d = a << b; no flags
shrx   | Gy Ey By | vex.l0.f2.0f38 f7 | bmi2   | shift | d = a >> b; no flags
adcx   | Gy Ey    | int.66.0f38 f6    | adx    | alu   | d = d + s + carry, into the carry flag alone
adox   | Gy Ey    | int.f3.0f38 f6    | adx    | alu   | d = d + s + overflow, into the overflow flag alone
crc32  | Gy E1    | int.f2.0f38 f0    | sse4_2 | mul   | d = CRC-32C of d, one byte on
crc32  | G4 E4    | int.f2.0f38 f1    | sse4_2 | mul   | d = CRC-32C of d, four bytes on
crc32  | G8 E8    | int.f2.0f38 f1    | sse4_2 | mul   | d = CRC-32C of d, eight bytes on
"""
