#pragma once

#include "base/cleanup.h"
#include "base/error.h"
#include "config/server_config.h"
#include "net/http.h"

/*
 * Who is asking, and what they may do. Tokens live in the catalog as SHA-256 only; auth keeps a
 * table of them in memory, so that a check never waits for a disk: loops call auth_check().
 *
 * A token comes as "authorization: Bearer TOKEN", as the password of "authorization: Basic" (any
 * user), or as "x-api-key". `auth: auto` asks for one as soon as there was one (revoking the last
 * opens nothing), "on" always, "off" never. While nobody is asked, everyone may ingest and read;
 * administration is for callers on this machine.
 *
 * The tenant is the token's. A token of the tenant "*" may name one in x-scope-orgid; so may a
 * request without a token when trust_tenant_header is set.
 *
 * Any thread may call anything.
 */
struct auth;
struct catalog;

#define TENANT_NAME_MAX 64
#define TENANT_ANY      "*"   /* of tokens that may name any tenant */
#define AUTH_RETRY_MS   60000 /* how long wrong tokens are held against an address */

struct auth_identity {
    char tenant[TENANT_NAME_MAX + 1];
    unsigned roles; /* enum role, ORed */
    char actor[64]; /* for the audit log: the token's name, a certificate's subject, "anonymous" */
};

/*
 * `config` and `catalog` are borrowed. Reads the tokens. Fails when a check that is configured
 * could not be made: without a catalog (NULL) unless auth is "off" or there is an admin token, with
 * an admin token file that cannot be read.
 */
int auth_new(const struct server_config *config, struct catalog *catalog, struct auth **ret,
             struct error *err);
void auth_free(struct auth *a); /* NULL is fine */
DEFINE_CLEANUP(struct auth *, auth_free)

/* A thread that looks every second whether the catalog has changed, until auth_free(). `changed`
 * (may be NULL) is called on it after tokens were read again. */
int auth_watch(struct auth *a, void (*changed)(void *ctx), void *ctx, struct error *err);

/* Reads config (NULL: the same as before), admin token file and tokens again, at once. On failure
 * the old ones stay. */
int auth_reload(struct auth *a, const struct server_config *config, struct error *err);

/* Time as a test has it. */
struct clock;
void auth_set_clock(struct auth *a, const struct clock *clock);

/* Whether a token is asked for now. */
bool auth_is_required(struct auth *a);

/*
 * -EACCES: who it is could not be told (401). -EPERM: known, but not allowed (403). -EAGAIN: too
 * many wrong tokens from this address (429). -EINVAL: a tenant name that is none (400). A role of
 * ROLE_ANYONE always passes; the identity then says what is known.
 */
int auth_check(struct auth *a, const struct http_request *r, unsigned role,
               struct auth_identity *ret, struct error *err);

/* Letters, digits, '.', '_' and '-', at most 64, not "." or "..". */
bool auth_tenant_is_sound(struct bytes tenant);
