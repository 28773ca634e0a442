#include <errno.h>

#include "store_local/flush.h"
#include "store_local/link.h"
#include "store_local/local_ops.h"
#include "store_local/version.h"

static int check(const struct store_policy *p, struct error *err)
{
    if (p->max_age_ns < 0 || p->max_span_age_ns < 0)
        return error_set(err, -EINVAL, "an age of less than nothing cannot be kept");
    return 0;
}

/* The manifest must know the tenant before it can hold its policy. */
static int publish(struct local *l, uint32_t id, const struct store_policy *policy,
                   struct error *err)
{
    int r;
    do {
        r = local_flush(l, err);
    } while (r > 0);
    const struct tenant_entry *known = r < 0 ? NULL : version_tenant(l->version, id);
    if (r == 0 && !known)
        r = error_set(err, -EAGAIN, "nothing of this tenant is on disk yet");
    if (r < 0)
        return r;
    struct tenant_entry entry = *known;
    entry.policy = *policy;
    return version_publish(l, &(struct version_edit){.tenants = &entry, .n_tenants = 1}, err);
}

int local_set_policy(struct store *s, struct bytes tenant, const struct store_policy *policy,
                     struct error *err)
{
    struct local *l = local_of(s);
    int r = check(policy, err);

    if (r == 0 && l->options.read_only)
        r = error_set(err, -EROFS, "the store is open for reading only");
    if (r < 0)
        return error_prefix(err, r, "could not set a policy");
    pthread_mutex_lock(&l->upkeep_lock);
    pthread_mutex_lock(&l->lock);
    struct tenant *t = local_find_tenant(l, tenant);
    uint32_t id = t ? t->id : 0;
    pthread_mutex_unlock(&l->lock);
    if (id == 0)
        r = error_set(err, -ENOENT, "there is no tenant \"%.*s\" yet", (int)tenant.len,
                      (const char *)tenant.data);
    else
        r = publish(l, id, policy, err);
    if (r == 0) {
        pthread_mutex_lock(&l->lock);
        local_tenant(l, id)->policy = *policy;
        pthread_mutex_unlock(&l->lock);
    }
    pthread_mutex_unlock(&l->upkeep_lock);
    return r < 0 ? error_prefix(err, r, "could not set a policy") : 0;
}

void local_get_policy(struct store *s, struct bytes tenant, struct store_policy *ret)
{
    struct local *l = local_of(s);

    pthread_mutex_lock(&l->lock);
    const struct tenant *t = local_find_tenant(l, tenant);
    *ret = t ? t->policy : (struct store_policy){0};
    pthread_mutex_unlock(&l->lock);
}
