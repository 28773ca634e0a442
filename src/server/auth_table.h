#pragma once

#include "base/clock.h"
#include "server/auth.h"
#include "server/token.h"

/*
 * What auth.c looks things up in: tokens and rules as they were when it was made. It never changes;
 * a new one takes its place.
 */
enum auth_mode { AUTH_AUTO, AUTH_ON, AUTH_OFF };

struct auth_token {
    char id[TOKEN_ID_MAX + 1];
    uint8_t hash[SHA256_BYTES];
    char tenant[TENANT_NAME_MAX + 1];
    char name[64];
    unsigned roles;
    int64_t expires_ns, revoked_ns; /* 0: never */
};

struct auth_table {
    enum auth_mode mode;
    bool trusts_header;
    char default_tenant[TENANT_NAME_MAX + 1];
    unsigned client_roles; /* of client certificates */
    bool has_admin;        /* the token of the config */
    uint8_t admin_hash[SHA256_BYTES];
    struct auth_token *tokens; /* by id */
    size_t n_tokens;           /* of all time: revoked and expired ones count */
};

#define AUTH_TOKENS_MAX 100000

/* `catalog` may be NULL when auth.h says so. */
int auth_table_new(const struct server_config *config, struct catalog *catalog,
                   struct auth_table **ret, struct error *err);
void auth_table_free(struct auth_table *t); /* NULL is fine */
DEFINE_CLEANUP(struct auth_table *, auth_table_free)

/* The token with this text, or NULL; whether it still holds is another question. */
const struct auth_token *auth_table_find(const struct auth_table *t, struct bytes text,
                                         const uint8_t hash[SHA256_BYTES]);

/*
 * Wrong tokens by address, in a table of fixed size. Addresses that share a place share its count.
 * Right tokens are never held up: behind a proxy all clients have one address, and 256 bits are not
 * guessed. What the count ends is the noise.
 */
#define AUTH_FAILURE_PLACES 1024
#define AUTH_FAILURES_MAX   20
#define AUTH_FAILURE_NS     ((int64_t)AUTH_RETRY_MS * 1000000)

struct auth_failures {
    struct {
        int64_t since_ns; /* monotonic */
        uint32_t n;
    } places[AUTH_FAILURE_PLACES];
};

/* Counts a failure of "ADDRESS:PORT"; how long the address has to wait, 0 when it does not. Not
 * thread-safe. */
int64_t auth_failures_add(struct auth_failures *f, const char *peer, int64_t now_ns);
