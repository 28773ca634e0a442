#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "catalog/catalog.h"
#include "server/admin.h"
#include "server/auth.h"

#define TOKEN_NAME_MAX 63

static bool is_name(struct bytes name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < ' ' || name.data[i] == 0x7f)
            return false;
    }
    return name.len <= TOKEN_NAME_MAX;
}

int admin_create_token(struct catalog *catalog, const struct token_wish *wish,
                       struct token_made *ret, struct error *err)
{
    struct token_made made;
    int64_t now_ns = clock_wall_ns(clock_real()), expires_ns = 0;

    if (!is_name(wish->name))
        return error_set(err, -EINVAL,
                         "a token's name has at most %d bytes, and no control characters",
                         TOKEN_NAME_MAX);
    if (!bytes_are(wish->tenant, TENANT_ANY) && !auth_tenant_is_sound(wish->tenant))
        return error_set(err, -EINVAL,
                         "the tenant is none: 1 to 64 letters, digits, '.', '_' or '-' are "
                         "expected, or \"*\" for any");
    if (wish->roles == 0)
        return error_set(err, -EINVAL, "a token without roles is of no use");
    if (wish->lifetime_ns < 0 ||
        (wish->lifetime_ns > 0 && __builtin_add_overflow(now_ns, wish->lifetime_ns, &expires_ns)))
        return error_set(err, -EINVAL, "a token cannot live that long");
    int r = token_make(&made, err);
    if (r < 0)
        return r;
    const struct catalog_token row = {
        .id = bytes_of(made.id),
        .tenant = wish->tenant,
        .name = wish->name,
        .hash = {made.hash, SHA256_BYTES},
        .created_ns = now_ns,
        .expires_ns = expires_ns,
        .roles = wish->roles,
    };
    r = catalog_add_token(catalog, &row, err);
    if (r == 0)
        *ret = made;
    explicit_bzero(&made, sizeof(made));
    return r;
}
