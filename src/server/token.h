#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/sha256.h"

/*
 * Tokens: "vst_ID_SECRET". The id finds the row, the secret has 256 bits of the kernel's
 * randomness; only the SHA-256 of the whole is kept anywhere, so that it is shown once, when it is
 * made.
 */
#define TOKEN_PREFIX   "vst_"
#define TOKEN_ID_MAX   16 /* hex digits */
#define TOKEN_TEXT_MAX 96

struct token_made {
    char text[TOKEN_TEXT_MAX]; /* the secret: for whoever asked for it, and nobody else */
    char id[TOKEN_ID_MAX + 1];
    uint8_t hash[SHA256_BYTES];
};

/* -EIO when the kernel has no randomness to give. */
int token_make(struct token_made *ret, struct error *err);

/* The id within a token's text; false when it has not the form of one. */
bool token_id(struct bytes text, struct bytes *ret);

/* "ingest,read" as enum role; -EINVAL naming what is none. */
int token_roles_parse(struct bytes text, unsigned *ret, struct error *err);

/* "ingest,read,admin". */
void token_roles_text(unsigned roles, struct buf *out);
