#include "store_local/changes.h"

#include "base/hash.h"
#include "store_local/link.h"
#include "store_local/retention.h"

static uint64_t hour_of(int64_t ns)
{
    return ns > 0 ? (uint64_t)ns / (uint64_t)HOUR_NS : 0;
}

void local_changed(struct local *l, int64_t start_ns)
{
    l->hour_changes[hour_of(start_ns) % CHANGE_HOURS] = ++l->n_changes;
}

/* The last change to any hour of the range. */
static uint64_t last_change(const struct local *l, int64_t from_ns, int64_t to_ns)
{
    uint64_t first = hour_of(from_ns), last = hour_of(to_ns), newest = 0;

    if (last - first >= CHANGE_HOURS)
        return l->n_changes;
    for (uint64_t h = first; h <= last; h++)
        if (l->hour_changes[h % CHANGE_HOURS] > newest)
            newest = l->hour_changes[h % CHANGE_HOURS];
    return newest;
}

uint64_t local_changes(struct store *s, const struct store_scope *scope)
{
    struct local *l = local_of(s);

    if (scope->from_ns >= scope->to_ns)
        return 0;
    pthread_mutex_lock(&l->lock);
    const struct tenant *t = local_find_tenant(l, scope->tenant);
    uint64_t n = last_change(l, scope->from_ns, scope->to_ns);
    n = hash_mix(n, l->version->tombstone_seq);
    /* At the edge of what is kept, every moment takes something away. */
    int64_t cutoff = retention_cutoff_ns(l, t);
    if (scope->from_ns < cutoff)
        n = hash_mix(n, (uint64_t)cutoff);
    pthread_mutex_unlock(&l->lock);
    return n;
}
