#include "server/auth.h"

#include "base/must.h"
#include "server/call.h"

struct auth {
    const struct server_config *config;
};

int auth_new(const struct server_config *config, struct catalog *catalog, struct auth **ret,
             struct error *err)
{
    struct auth *a = must_calloc(1, sizeof(*a));

    (void)catalog;
    (void)err;
    a->config = config;
    *ret = a;
    return 0;
}

void auth_free(struct auth *a)
{
    free(a);
}

int auth_watch(struct auth *a, void (*changed)(void *ctx), void *ctx, struct error *err)
{
    (void)a;
    (void)changed;
    (void)ctx;
    (void)err;
    return 0;
}

int auth_reload(struct auth *a, const struct server_config *config, struct error *err)
{
    (void)err;
    a->config = config;
    return 0;
}

bool auth_is_required(struct auth *a)
{
    (void)a;
    return false;
}

int auth_check(struct auth *a, const struct http_request *r, unsigned role,
               struct auth_identity *ret, struct error *err)
{
    (void)r;
    (void)role;
    (void)err;
    *ret =
        (struct auth_identity){.roles = ROLE_INGEST | ROLE_READ | ROLE_ADMIN, .actor = "anonymous"};
    const char *tenant = a->config->default_tenant;
    snprintf(ret->tenant, sizeof(ret->tenant), "%s", tenant && *tenant ? tenant : "default");
    return 0;
}

bool auth_tenant_is_sound(struct bytes tenant)
{
    if (tenant.len == 0 || tenant.len > TENANT_NAME_MAX || bytes_are(tenant, ".") ||
        bytes_are(tenant, ".."))
        return false;
    for (size_t i = 0; i < tenant.len; i++) {
        uint8_t c = tenant.data[i], letter = c | 0x20;
        if (!(letter >= 'a' && letter <= 'z') && !(c >= '0' && c <= '9') && c != '.' && c != '_' &&
            c != '-')
            return false;
    }
    return true;
}
