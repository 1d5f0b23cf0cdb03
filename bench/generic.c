// The peers of bench/generic.py: the same algorithms as plain C, written from the specifications that std names.

#include <stdint.h>
#include <string.h>

static uint32_t rotl32(uint32_t x, int k) { return x << k | x >> (32 - k); }
static uint32_t rotr32(uint32_t x, int k) { return x >> k | x << (32 - k); }
static uint64_t rotl64(uint64_t x, int k) { return x << k | x >> (64 - k); }

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static void sha256_block(uint32_t *state, const uint8_t *block) {
    uint32_t w[64];
    for (int t = 0; t < 16; t++) {
        w[t] = (uint32_t)block[4 * t] << 24 | block[4 * t + 1] << 16 | block[4 * t + 2] << 8 | block[4 * t + 3];
    }
    for (int t = 16; t < 64; t++) {
        uint32_t a = rotr32(w[t - 15], 7) ^ rotr32(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t b = rotr32(w[t - 2], 17) ^ rotr32(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + a + w[t - 7] + b;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t one = h + (rotr32(e, 6) ^ rotr32(e, 11) ^ rotr32(e, 25)) + ((e & f) ^ (~e & g)) + K[t] + w[t];
        uint32_t two = (rotr32(a, 2) ^ rotr32(a, 13) ^ rotr32(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + one, d = c, c = b, b = a, a = one + two;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256(const uint8_t *message, uint64_t n, uint8_t *digest) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    uint8_t last[128] = {0};
    uint64_t whole = n / 64 * 64, rest = n - whole, size = rest < 56 ? 64 : 128;
    for (uint64_t k = 0; k < whole; k += 64) sha256_block(state, message + k);
    memcpy(last, message + whole, rest);
    last[rest] = 0x80;
    for (int k = 0; k < 8; k++) last[size - 1 - k] = (uint8_t)(8 * n >> 8 * k);
    for (uint64_t k = 0; k < size; k += 64) sha256_block(state, last + k);
    for (int k = 0; k < 32; k++) digest[k] = (uint8_t)(state[k / 4] >> 8 * (3 - k % 4));
}

static const uint64_t P1 = 0x9e3779b185ebca87, P2 = 0xc2b2ae3d27d4eb4f, P3 = 0x165667b19e3779f9,
                      P4 = 0x85ebca77c2b2ae63, P5 = 0x27d4eb2f165667c5;

static uint64_t taken_in(uint64_t lane, uint64_t word) { return rotl64(lane + word * P2, 31) * P1; }

static uint64_t word64(const uint8_t *p) {
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

uint64_t xxhash64(const uint8_t *message, uint64_t n, uint64_t seed) {
    uint64_t h = seed + P5, k = 0;
    if (n >= 32) {
        uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
        for (; k + 32 <= n; k += 32) {
            a = taken_in(a, word64(message + k));
            b = taken_in(b, word64(message + k + 8));
            c = taken_in(c, word64(message + k + 16));
            d = taken_in(d, word64(message + k + 24));
        }
        h = rotl64(a, 1) + rotl64(b, 7) + rotl64(c, 12) + rotl64(d, 18);
        h = (h ^ taken_in(0, a)) * P1 + P4;
        h = (h ^ taken_in(0, b)) * P1 + P4;
        h = (h ^ taken_in(0, c)) * P1 + P4;
        h = (h ^ taken_in(0, d)) * P1 + P4;
    }
    h += n;
    for (; k + 8 <= n; k += 8) h = rotl64(h ^ taken_in(0, word64(message + k)), 27) * P1 + P4;
    for (; k + 4 <= n; k += 4) {
        uint32_t x;
        memcpy(&x, message + k, 4);
        h = rotl64(h ^ x * P1, 23) * P2 + P3;
    }
    for (; k < n; k++) h = rotl64(h ^ message[k] * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

#define QUARTER(a, b, c, d)                                                                                            \
    x[a] += x[b], x[d] = rotl32(x[d] ^ x[a], 16), x[c] += x[d], x[b] = rotl32(x[b] ^ x[c], 12), x[a] += x[b],          \
        x[d] = rotl32(x[d] ^ x[a], 8), x[c] += x[d], x[b] = rotl32(x[b] ^ x[c], 7)

void chacha20(const uint8_t *message, uint64_t n, const uint8_t *key, uint32_t counter, const uint8_t *nonce,
              uint8_t *out) {
    uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, x[16];
    memcpy(start + 4, key, 32);
    memcpy(start + 13, nonce, 12);
    for (uint64_t low = 0; low < n; low += 64, counter++) {
        uint8_t stream[64];
        start[12] = counter;
        memcpy(x, start, sizeof x);
        for (int round = 0; round < 10; round++) {
            QUARTER(0, 4, 8, 12), QUARTER(1, 5, 9, 13), QUARTER(2, 6, 10, 14), QUARTER(3, 7, 11, 15);
            QUARTER(0, 5, 10, 15), QUARTER(1, 6, 11, 12), QUARTER(2, 7, 8, 13), QUARTER(3, 4, 9, 14);
        }
        for (int k = 0; k < 16; k++) x[k] += start[k];
        memcpy(stream, x, 64);
        for (uint64_t k = 0; k < 64 && low + k < n; k++) out[low + k] = message[low + k] ^ stream[k];
    }
}

static uint64_t spread(uint64_t x) {
    x = (x | x << 16) & 0x0000ffff0000ffff;
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0f;
    x = (x | x << 2) & 0x3333333333333333;
    return (x | x << 1) & 0x5555555555555555;
}

void morton(const uint32_t *x, const uint32_t *y, uint64_t n, uint64_t *code) {
    for (uint64_t k = 0; k < n; k++) code[k] = spread(x[k]) | spread(y[k]) << 1;
}
