#include "store_local/tombstone.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "store_local/commit.h"
#include "store_local/flush.h"
#include "store_local/link.h"
#include "store_local/version.h"

struct hidden_by {
    uint64_t seq;
    struct cover_range range;
    struct selector *selector;
};

struct hidden {
    struct hidden_by *by;
    struct cover_range *ranges;
    size_t n;
};

void hidden_free(struct hidden *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n; i++)
        selector_free(h->by[i].selector);
    free(h->by);
    free(h->ranges);
    free(h);
}

int hidden_new(const struct version *v, uint32_t tenant, struct hidden **ret, struct error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < v->tombstones.len; i++)
        n += v->tombstones.data[i].tenant == tenant;
    if (n == 0) {
        *ret = NULL;
        return 0;
    }
    CLEANUP(hidden_freep) struct hidden *h = calloc(1, sizeof(*h));
    if (!h || !(h->by = calloc(n, sizeof(*h->by))) || !(h->ranges = calloc(n, sizeof(*h->ranges))))
        return error_set(err, -ENOMEM, "could not read the tombstones: no memory");
    for (size_t i = 0; i < v->tombstones.len; i++) {
        const struct tombstone *t = &v->tombstones.data[i];
        if (t->tenant != tenant)
            continue;
        struct hidden_by *by = &h->by[h->n];
        int r = selector_parse(bytes_of(t->selector), &by->selector, err);
        if (r < 0)
            return error_prefix(err, r, "tombstone %" PRIu64, t->seq);
        by->seq = t->seq;
        by->range = (struct cover_range){t->from_ns, t->to_ns};
        h->n++;
    }
    *ret = TAKE_PTR(h);
    return 0;
}

static bool selects(const struct selector *s, const struct series *series)
{
    if (!selector_matches(s, series->labels, series->n_labels))
        return false;
    for (uint32_t i = 0; i < series->n_types; i++) {
        if (selector_takes(s, series->types[i].name, series->types[i].unit))
            return true;
    }
    return false;
}

size_t hidden_ranges(struct hidden *h, const struct series *series, uint64_t tombstone_seq,
                     const struct cover_range **ret)
{
    size_t n = 0;

    for (size_t i = 0; h && i < h->n; i++) {
        if (h->by[i].seq > tombstone_seq && selects(h->by[i].selector, series))
            h->ranges[n++] = h->by[i].range;
    }
    *ret = n ? h->ranges : NULL;
    return n;
}

bool hidden_has(struct hidden *h, const struct series *series, uint64_t tombstone_seq,
                int64_t start_ns)
{
    const struct cover_range *ranges;
    size_t n = hidden_ranges(h, series, tombstone_seq, &ranges);

    for (size_t i = 0; i < n; i++) {
        if (start_ns >= ranges[i].from_ns && start_ns < ranges[i].to_ns)
            return true;
    }
    return false;
}

/* ---- Erasing */

/* Once for what an earlier flush could not write, once for what came since. */
static int flush_all(struct local *l, struct error *err)
{
    int r;

    do {
        r = local_flush(l, err);
    } while (r > 0);
    return r;
}

static int erase_locked(struct local *l, uint32_t tenant, const struct selector *selector,
                        struct cover_range range, struct error *err)
{
    CLEANUP(freep) char *text = must_copy(selector->text);
    struct tombstone t = {
        .tenant = tenant, .from_ns = range.from_ns, .to_ns = range.to_ns, .selector = text};

    /* Most of it while appends go on, the rest while they wait. Then nothing is in memory or in a
     * WAL, where it would come back or be seen as younger than the tombstone. */
    int r = flush_all(l, err);
    pthread_mutex_lock(&l->lock);
    commit_pause(l);
    pthread_mutex_unlock(&l->lock);
    if (r == 0)
        r = flush_all(l, err);
    if (r == 0)
        r = version_publish(l, &(struct version_edit){.tombstone = &t, .prunes_tombstones = true},
                            err);
    pthread_mutex_lock(&l->lock);
    commit_resume(l);
    pthread_mutex_unlock(&l->lock);
    return r < 0 ? error_prefix(err, r, "could not erase") : 0;
}

int local_erase(struct store *s, const struct store_scope *scope, struct error *err)
{
    struct local *l = local_of(s);
    int r = 0;

    if (l->options.read_only)
        return error_set(err, -EROFS, "could not erase: the store is open for reading only");
    struct bytes text = scope->selector->text;
    if (text.len > 0 && memchr(text.data, '\0', text.len)) /* it is kept as text */
        return error_set(err, -EINVAL, "could not erase: the selector has a NUL byte in it");
    pthread_mutex_lock(&l->upkeep_lock);
    pthread_mutex_lock(&l->lock);
    struct tenant *t = local_find_tenant(l, scope->tenant);
    uint32_t id = t ? t->id : 0;
    pthread_mutex_unlock(&l->lock);
    if (id != 0 && scope->from_ns < scope->to_ns)
        r = erase_locked(l, id, scope->selector, (struct cover_range){scope->from_ns, scope->to_ns},
                         err);
    pthread_mutex_unlock(&l->upkeep_lock);
    return r;
}
