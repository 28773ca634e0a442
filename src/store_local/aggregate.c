#include "store_local/aggregate.h"

#include "store_local/assemble.h"
#include "store_local/gather.h"

#define QUERY_MEMORY_DEFAULT ((size_t)128 << 20)

static size_t memory_limit(const struct local *l, const struct store_plan *plan)
{
    if (plan->memory_limit > 0)
        return plan->memory_limit;
    return l->options.query_memory_limit > 0 ? l->options.query_memory_limit : QUERY_MEMORY_DEFAULT;
}

int local_aggregate(struct store *s, const struct store_plan *plan, struct store_answer *ret,
                    struct error *err)
{
    struct local *l = local_of(s);
    struct budget budget;
    struct snapshot snap = {0};
    struct ask ask = {0};
    struct scan scan = {0};

    budget_init(&budget, memory_limit(l, plan));
    int r = snapshot_take(l, plan->tenant, plan->selector, &budget, &snap, err);
    if (r == 0)
        r = ask_init(&ask, plan, &snap, &budget, err);
    if (r == 0)
        r = gather(&ask, ret, err);
    if (r == 0)
        r = scan_run(&scan, &ask, ret, err);
    if (r == 0)
        r = assemble(&ask, &scan, ret, err);
    scan_done(&scan);
    ask_done(&ask);
    snapshot_done(&snap);
    return r;
}
