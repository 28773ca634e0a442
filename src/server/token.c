#include "server/token.h"

#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/hex.h"
#include "server/call.h"

#define SECRET_BYTES 32

int token_make(struct token_made *ret, struct error *err)
{
    uint8_t random[TOKEN_ID_MAX / 2 + SECRET_BYTES];
    char secret[2 * SECRET_BYTES + 1];
    ssize_t n;

    do
        n = getrandom(random, sizeof(random), 0);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof(random))
        return error_set(err, -EIO, "could not make a token: the system has no randomness");
    hex_encode(random, TOKEN_ID_MAX / 2, ret->id);
    hex_encode(random + TOKEN_ID_MAX / 2, SECRET_BYTES, secret);
    snprintf(ret->text, sizeof(ret->text), TOKEN_PREFIX "%s_%s", ret->id, secret);
    sha256(bytes_of(ret->text), ret->hash);
    explicit_bzero(random, sizeof(random));
    explicit_bzero(secret, sizeof(secret));
    return 0;
}

bool token_id(struct bytes text, struct bytes *ret)
{
    if (!bytes_start_with(text, BYTES(TOKEN_PREFIX)))
        return false;
    struct bytes rest = bytes_from(text, sizeof(TOKEN_PREFIX) - 1);
    const uint8_t *end = bytes_find_byte(rest, '_');
    if (!end || end == rest.data)
        return false;
    *ret = bytes_head(rest, (size_t)(end - rest.data));
    return ret->len <= TOKEN_ID_MAX;
}

static const struct {
    const char *name;
    unsigned role;
} known[] = {{"ingest", ROLE_INGEST}, {"read", ROLE_READ}, {"admin", ROLE_ADMIN}};

static unsigned role_of(struct bytes name)
{
    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (bytes_are(name, known[i].name))
            return known[i].role;
    }
    return 0;
}

int token_roles_parse(struct bytes text, unsigned *ret, struct error *err)
{
    unsigned found = 0;

    while (text.len > 0) {
        const uint8_t *comma = bytes_find_byte(text, ',');
        size_t n = comma ? (size_t)(comma - text.data) : text.len;
        struct bytes name = bytes_trim(bytes_head(text, n));
        unsigned role = role_of(name);
        if (role == 0)
            return error_set(err, -EINVAL, "\"%.*s\" is no role: they are ingest, read and admin",
                             (int)(name.len < 40 ? name.len : 40), (const char *)name.data);
        found |= role;
        text = bytes_from(text, comma ? n + 1 : n);
    }
    if (found == 0)
        return error_set(err, -EINVAL, "a token without roles is of no use");
    *ret = found;
    return 0;
}

void token_roles_text(unsigned roles, struct buf *out)
{
    const char *comma = "";

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (roles & known[i].role) {
            buf_addf(out, "%s%s", comma, known[i].name);
            comma = ",";
        }
    }
}
