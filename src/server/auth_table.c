#include "server/auth_table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/must.h"
#include "catalog/catalog.h"

#define ADMIN_TOKEN_MIN 20
#define TOKEN_FILE_MAX  4096

/* ---- The admin token of the config */

static int set_admin(struct auth_table *t, struct bytes text, struct error *err)
{
    text = bytes_trim(text);
    if (text.len < ADMIN_TOKEN_MIN)
        return error_set(err, -EINVAL,
                         "the admin token has %zu characters, fewer than the %d that make it hard "
                         "to guess",
                         text.len, ADMIN_TOKEN_MIN);
    sha256(text, t->admin_hash);
    t->has_admin = true;
    return 0;
}

static int read_admin_file(struct auth_table *t, const char *path, struct error *err)
{
    char text[TOKEN_FILE_MAX];
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (n < 0) {
        int r = -errno;
        return error_set(err, r, "could not read admin_token_file \"%s\": %m", path);
    }
    struct bytes rest = {(const uint8_t *)text, (size_t)n}, line = {0};
    bytes_next_line(&rest, &line);
    int r = set_admin(t, line, err);
    explicit_bzero(text, sizeof(text));
    return r < 0 ? error_prefix(err, r, "admin_token_file \"%s\"", path) : 0;
}

/* ---- Tokens of the catalog */

struct reading {
    struct auth_table *t;
    size_t cap;
    bool is_full;
};

static void copy_text(char *to, size_t size, struct bytes from)
{
    snprintf(to, size, "%.*s", (int)(from.len < size ? from.len : size - 1),
             (const char *)from.data);
}

static int take_token(void *ctx, const struct catalog_token *row)
{
    struct reading *reading = ctx;
    struct auth_table *t = reading->t;

    /* Not made by us: nothing that could be sent would match. */
    if (row->id.len > TOKEN_ID_MAX || row->tenant.len > TENANT_NAME_MAX ||
        row->hash.len != SHA256_BYTES)
        return 0;
    if (t->n_tokens == AUTH_TOKENS_MAX) {
        reading->is_full = true;
        return 0;
    }
    if (t->n_tokens == reading->cap) {
        reading->cap = reading->cap ? 2 * reading->cap : 16;
        t->tokens = must_realloc(t->tokens, reading->cap * sizeof(*t->tokens));
    }
    struct auth_token *token = &t->tokens[t->n_tokens++];
    *token = (struct auth_token){
        .roles = row->roles, .expires_ns = row->expires_ns, .revoked_ns = row->revoked_ns};
    copy_text(token->id, sizeof(token->id), row->id);
    copy_text(token->tenant, sizeof(token->tenant), row->tenant);
    copy_text(token->name, sizeof(token->name), row->name.len ? row->name : row->id);
    memcpy(token->hash, row->hash.data, SHA256_BYTES);
    return 0;
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct auth_token *)a)->id, ((const struct auth_token *)b)->id);
}

static int read_tokens(struct auth_table *t, struct catalog *catalog, struct error *err)
{
    struct reading reading = {.t = t};
    int r = catalog_list_tokens(catalog, (struct bytes){0}, take_token, &reading, err);

    if (r < 0)
        return r;
    if (reading.is_full)
        return error_set(err, -E2BIG, "the catalog has more than %d tokens", AUTH_TOKENS_MAX);
    if (t->n_tokens > 0)
        qsort(t->tokens, t->n_tokens, sizeof(*t->tokens), by_id);
    return 0;
}

const struct auth_token *auth_table_find(const struct auth_table *t, struct bytes text,
                                         const uint8_t hash[SHA256_BYTES])
{
    struct auth_token key = {.id = ""};
    struct bytes id;

    if (!token_id(text, &id) || t->n_tokens == 0)
        return NULL;
    copy_text(key.id, sizeof(key.id), id);
    const struct auth_token *found =
        bsearch(&key, t->tokens, t->n_tokens, sizeof(*t->tokens), by_id);
    return found && sha256_equal(found->hash, hash) ? found : NULL;
}

/* ---- The whole */

static int read_config(struct auth_table *t, const struct server_config *config, struct error *err)
{
    CLEANUP(buf_done) struct buf roles = {0};
    int r = 0;

    t->mode = strcmp(config->auth, "on") == 0    ? AUTH_ON
              : strcmp(config->auth, "off") == 0 ? AUTH_OFF
                                                 : AUTH_AUTO;
    t->trusts_header = config->trust_tenant_header;
    struct bytes tenant = bytes_of(config->default_tenant);
    if (!auth_tenant_is_sound(tenant))
        return error_set(err, -EINVAL, "tenant.default is no name that a tenant can have");
    copy_text(t->default_tenant, sizeof(t->default_tenant), tenant);
    for (size_t i = 0; i < config->tls_client_roles.n; i++)
        buf_addf(&roles, "%s%s", i ? "," : "", config->tls_client_roles.items[i]);
    if (roles.len > 0)
        r = token_roles_parse(buf_bytes(&roles), &t->client_roles, err);
    if (r == 0 && config->admin_token[0])
        r = set_admin(t, bytes_of(config->admin_token), err);
    if (r == 0 && config->admin_token_file[0])
        r = read_admin_file(t, config->admin_token_file, err);
    return r;
}

int auth_table_new(const struct server_config *config, struct catalog *catalog,
                   struct auth_table **ret, struct error *err)
{
    CLEANUP(auth_table_freep) struct auth_table *t = must_calloc(1, sizeof(*t));
    int r = read_config(t, config, err);

    if (r < 0)
        return r;
    if (!catalog && t->mode != AUTH_OFF && !t->has_admin)
        return error_set(err, -EIO,
                         "tokens cannot be checked without the catalog; mend it, or say \"auth: "
                         "off\" to let everyone in");
    if (catalog && t->mode != AUTH_OFF)
        r = read_tokens(t, catalog, err);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(t);
    return 0;
}

void auth_table_free(struct auth_table *t)
{
    if (!t)
        return;
    free(t->tokens);
    free(t);
}

/* ---- Failures */

/* The address without its port; of IPv6 the network, of which one machine has a whole one. */
static uint64_t address_hash(const char *peer)
{
    char text[64];
    uint8_t v6[16];
    bool has_bracket = peer[0] == '[';
    const char *end = has_bracket ? strchr(peer, ']') : strrchr(peer, ':');
    size_t n = end ? (size_t)(end - peer) - has_bracket : strlen(peer);

    snprintf(text, sizeof(text), "%.*s", (int)n, peer + has_bracket);
    if (has_bracket && inet_pton(AF_INET6, text, v6) == 1)
        return hash_bytes(v6, 8);
    return hash_bytes(text, strlen(text));
}

int64_t auth_failures_add(struct auth_failures *f, const char *peer, int64_t now_ns)
{
    size_t at = address_hash(peer) % AUTH_FAILURE_PLACES;

    if (f->places[at].n == 0 || now_ns - f->places[at].since_ns >= AUTH_FAILURE_NS) {
        f->places[at].since_ns = now_ns;
        f->places[at].n = 0;
    }
    if (f->places[at].n < AUTH_FAILURES_MAX) {
        f->places[at].n++;
        return 0;
    }
    return f->places[at].since_ns + AUTH_FAILURE_NS - now_ns;
}
