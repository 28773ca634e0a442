#include "base/sha256.h"

#include <endian.h>
#include <string.h>

#define BLOCK ((size_t)64)

/* The first 32 bits of the fractions of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t be32_get(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return be32toh(v);
}

/* The 64 words that a block becomes. */
static void expand(const uint8_t block[BLOCK], uint32_t w[64])
{
    for (size_t i = 0; i < 16; i++)
        w[i] = be32_get(block + 4 * i);
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
}

static void compress(uint32_t state[8], const uint8_t block[BLOCK])
{
    uint32_t w[64], v[8];

    expand(block, w);
    memcpy(v, state, sizeof(v));
    for (size_t i = 0; i < 64; i++) {
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        uint32_t t1 =
            v[7] + (rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25)) + choice + k[i] + w[i];
        uint32_t t2 = (rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22)) + majority;
        memmove(v + 1, v, 7 * sizeof(*v));
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (size_t i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_init(struct sha256 *s)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    *s = (struct sha256){0};
    memcpy(s->state, start, sizeof(start));
}

void sha256_add(struct sha256 *s, struct bytes data)
{
    size_t have = s->len % BLOCK;

    s->len += data.len;
    while (data.len > 0) {
        size_t n = data.len < BLOCK - have ? data.len : BLOCK - have;
        memcpy(s->block + have, data.data, n);
        data = bytes_from(data, n);
        have += n;
        if (have == BLOCK) {
            compress(s->state, s->block);
            have = 0;
        }
    }
}

void sha256_end(struct sha256 *s, uint8_t ret[SHA256_BYTES])
{
    static const uint8_t padding[BLOCK] = {0x80};
    uint64_t bits = htobe64(s->len * 8);
    size_t have = s->len % BLOCK;

    sha256_add(s, (struct bytes){padding, (have < BLOCK - 8 ? BLOCK : 2 * BLOCK) - 8 - have});
    sha256_add(s, (struct bytes){(const uint8_t *)&bits, sizeof(bits)});
    for (size_t i = 0; i < 8; i++) {
        uint32_t v = htobe32(s->state[i]);
        memcpy(ret + 4 * i, &v, sizeof(v));
    }
}

void sha256(struct bytes data, uint8_t ret[SHA256_BYTES])
{
    struct sha256 s;

    sha256_init(&s);
    sha256_add(&s, data);
    sha256_end(&s, ret);
}

void hmac_sha256(struct bytes key, struct bytes data, uint8_t ret[SHA256_BYTES])
{
    uint8_t inner[BLOCK] = {0}, outer[BLOCK], digest[SHA256_BYTES];
    struct sha256 s;

    if (key.len > BLOCK)
        sha256(key, inner);
    else if (key.len > 0)
        memcpy(inner, key.data, key.len);
    for (size_t i = 0; i < BLOCK; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    sha256_init(&s);
    sha256_add(&s, (struct bytes){inner, BLOCK});
    sha256_add(&s, data);
    sha256_end(&s, digest);
    sha256_init(&s);
    sha256_add(&s, (struct bytes){outer, BLOCK});
    sha256_add(&s, (struct bytes){digest, SHA256_BYTES});
    sha256_end(&s, ret);
}

bool sha256_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    volatile uint8_t difference = 0;

    for (size_t i = 0; i < SHA256_BYTES; i++)
        difference = (uint8_t)(difference | (a[i] ^ b[i]));
    return difference == 0;
}
