#include "probe/range_pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bisect.h"
#include "base/must.h"

void range_pool_init(struct range_pool *p, uint32_t first, uint32_t n)
{
    *p = (struct range_pool){.cap_free = 16};
    p->free = must_calloc(p->cap_free, sizeof(*p->free));
    if (n > 0)
        p->free[p->n_free++] = (struct range){first, n};
}

void range_pool_done(struct range_pool *p)
{
    free(p->free);
    free(p->returned);
    *p = (struct range_pool){0};
}

static void remove_free(struct range_pool *p, size_t i)
{
    memmove(&p->free[i], &p->free[i + 1], (p->n_free - i - 1) * sizeof(*p->free));
    p->n_free--;
}

static void add_free(struct range_pool *p, struct range r)
{
    size_t i = BISECT(p->n_free, k, p->free[k].first < r.first);
    bool joins_before = i > 0 && p->free[i - 1].first + p->free[i - 1].n == r.first;
    bool joins_after = i < p->n_free && r.first + r.n == p->free[i].first;
    if (joins_before) {
        p->free[i - 1].n += r.n;
        if (joins_after) {
            p->free[i - 1].n += p->free[i].n;
            remove_free(p, i);
        }
    } else if (joins_after) {
        p->free[i].first = r.first;
        p->free[i].n += r.n;
    } else {
        if (p->n_free == p->cap_free) {
            p->cap_free *= 2;
            p->free = must_realloc(p->free, p->cap_free * sizeof(*p->free));
        }
        memmove(&p->free[i + 1], &p->free[i], (p->n_free - i) * sizeof(*p->free));
        p->free[i] = r;
        p->n_free++;
    }
}

/* What came back long enough ago is free. */
static void settle(struct range_pool *p, int64_t now_ns)
{
    size_t n = 0;
    while (n < p->n_returned && now_ns - p->returned[n].time_ns >= RANGE_POOL_GRACE_NS)
        add_free(p, p->returned[n++].range);
    if (n == 0)
        return;
    p->n_returned -= n;
    memmove(p->returned, p->returned + n, p->n_returned * sizeof(*p->returned));
}

bool range_pool_take(struct range_pool *p, uint32_t n, int64_t now_ns, struct range *ret)
{
    if (n == 0) {
        *ret = (struct range){0};
        return true;
    }
    settle(p, now_ns);
    size_t best = p->n_free;
    for (size_t i = 0; i < p->n_free; i++)
        if (p->free[i].n >= n && (best == p->n_free || p->free[i].n < p->free[best].n))
            best = i;
    if (best == p->n_free)
        return false;
    *ret = (struct range){p->free[best].first, n};
    p->free[best].first += n;
    p->free[best].n -= n;
    if (p->free[best].n == 0)
        remove_free(p, best);
    p->used += n;
    return true;
}

void range_pool_give(struct range_pool *p, struct range r, int64_t now_ns)
{
    if (r.n == 0)
        return;
    assert(p->used >= r.n);
    p->used -= r.n;
    if (p->n_returned == p->cap_returned) {
        p->cap_returned = p->cap_returned ? 2 * p->cap_returned : 16;
        p->returned = must_realloc(p->returned, p->cap_returned * sizeof(*p->returned));
    }
    p->returned[p->n_returned++] = (struct returned_range){r, now_ns};
}

void range_pool_undo(struct range_pool *p, struct range r)
{
    if (r.n == 0)
        return;
    assert(p->used >= r.n);
    p->used -= r.n;
    add_free(p, r);
}
