#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/*
 * SHA-256 (FIPS 180-4), for tokens and signatures: short texts. Checksums of stored data are
 * base/checksum.h's business.
 */
#define SHA256_BYTES 32

void sha256(struct bytes data, uint8_t ret[SHA256_BYTES]);

/* HMAC-SHA-256 (RFC 2104). */
void hmac_sha256(struct bytes key, struct bytes data, uint8_t ret[SHA256_BYTES]);

/* Whether two digests are the same, in a time that does not tell where they differ. */
bool sha256_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

/* Over several pieces. */
struct sha256 {
    uint32_t state[8];
    uint64_t len; /* bytes so far */
    uint8_t block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, struct bytes data);
void sha256_end(struct sha256 *s, uint8_t ret[SHA256_BYTES]);
