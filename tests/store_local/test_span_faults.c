#include <errno.h>

#include "lib/sim_fs.h"
#include "lib/test.h"
#include "store_local/local.h"
#include "store_local/local_internal.h"
#include "store_local/span_maker.h"
#include "store_local/spans.h"

/*
 * A short life of a store with spans (appending, a retry, flushing, merging), in which each
 * operation on the disk fails in turn, or power is lost there. Then it is opened again: what was
 * acknowledged is there exactly once.
 */
#define NOW_NS    ((int64_t)1700000000 * 1000000000)
#define SEC_NS    ((int64_t)1000000000)
#define N_BATCHES 6
#define N_SPANS   40 /* of a batch */

static int64_t wall(const struct clock *c)
{
    (void)c;
    return NOW_NS;
}

static int64_t monotonic(const struct clock *c)
{
    (void)c;
    return SEC_NS;
}

static const struct clock still = {wall, monotonic};

struct life {
    struct test *t;
    struct sim_fs *sim;
    struct store *store;
    struct span_maker made;
    bool is_acknowledged[N_BATCHES];
    uint8_t n_found[N_BATCHES * N_SPANS];
    struct error err;
};

static int open_store(struct life *x)
{
    struct local_options options = {
        .fs = sim_fs_fs(x->sim), .clock = &still, .seed = 1, .threads = 1, .disk_reserve = 1};

    x->store = NULL;
    return local_open(&options, &x->store, &x->err);
}

static void append(struct life *x, size_t batch)
{
    const struct store_span *spans = x->made.spans.data + batch * N_SPANS;

    if (store_append_spans(x->store, BYTES("default"), spans, N_SPANS, &x->err) == 0)
        x->is_acknowledged[batch] = true;
}

static void live(struct life *x)
{
    if (open_store(x) < 0)
        return;
    append(x, 0);
    append(x, 1);
    store_upkeep(x->store, UPKEEP_FLUSH, &x->err);
    append(x, 2);
    append(x, 1);
    store_upkeep(x->store, UPKEEP_FLUSH, &x->err);
    append(x, 3);
    store_upkeep(x->store, UPKEEP_SETTLE, &x->err);
    append(x, 4);
    append(x, 0);
    store_close(x->store);
    if (open_store(x) < 0)
        return;
    append(x, 5);
    store_upkeep(x->store, UPKEEP_SETTLE, &x->err);
    store_close(x->store);
}

static int count(void *ctx, const struct store_span *span)
{
    struct life *x = ctx;

    for (size_t i = 0; i < N_BATCHES * N_SPANS; i++)
        x->n_found[i] += span_equal(&x->made.spans.data[i], span);
    return 0;
}

static void look(struct life *x)
{
    struct store_span_find all = {.tenant = BYTES("default"), .to_ns = INT64_MAX};

    memset(x->n_found, 0, sizeof(x->n_found));
    CHECK_INT(x->t, store_spans(x->store, &all, count, x, &x->err), 0);
}

/* How many are not as often there as they should be. */
static size_t count_wrong(const struct life *x, bool must_all)
{
    size_t n = 0;

    for (size_t i = 0; i < N_BATCHES * N_SPANS; i++) {
        bool must = must_all || x->is_acknowledged[i / N_SPANS];
        n += x->n_found[i] > 1 || (must && x->n_found[i] == 0);
    }
    return n;
}

/* One life with one fault; false when it was over before the fault struck. */
static bool try_fault(struct test *t, struct sim_fault fault)
{
    CLEANUP(sim_fs_freep) struct sim_fs *sim = sim_fs_new(fault.nth);
    struct life x = {.t = t, .sim = sim};
    int failures = t->failures;

    span_maker_init(&x.made, 9, NOW_NS - 100 * SEC_NS);
    span_maker_add(&x.made, N_BATCHES * N_SPANS);
    sim_fs_fault(sim, fault);
    live(&x);
    bool struck = sim_fs_struck(sim) > 0;
    sim_fs_clear_faults(sim);
    sim_fs_restart(sim);

    int r = open_store(&x);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", x.err.text);
    if (r == 0) {
        look(&x);
        CHECK_INT(t, count_wrong(&x, false), 0);
        for (size_t i = 0; i < N_BATCHES; i++)
            append(&x, i); /* clients try again */
        CHECK(t, store_upkeep(x.store, UPKEEP_SETTLE, &x.err) >= 0);
        look(&x);
        CHECK_INT(t, count_wrong(&x, true), 0);
        store_close(x.store);
    }
    span_maker_done(&x.made);
    if (t->failures > failures)
        printf("# %s %s number %d\n", fault.what == SIM_CRASH ? "crash at" : "failed",
               sim_op_name(fault.op), (int)fault.nth);
    return struck;
}

static void sweep(struct test *t, struct sim_fault fault)
{
    for (fault.nth = 1; try_fault(t, fault) && t->failures < 5; fault.nth++)
        ;
    CHECK(t, fault.nth > 2);
}

static void every_change_may_fail(struct test *t)
{
    sweep(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_FAIL, .error = EIO});
}

static void every_write_may_find_the_disk_full(struct test *t)
{
    sweep(t, (struct sim_fault){.op = SIM_WRITE, .what = SIM_SHORT, .error = ENOSPC});
    sweep(t, (struct sim_fault){
                 .op = SIM_WRITE, .what = SIM_SHORT, .error = ENOSPC, .is_lasting = true});
}

static void every_write_may_be_torn(struct test *t)
{
    sweep(t, (struct sim_fault){.op = SIM_WRITE, .what = SIM_TORN, .error = EIO});
}

static void power_may_go_at_any_change(struct test *t)
{
    sweep(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_CRASH});
}

static void the_process_may_be_killed_at_any_change(struct test *t)
{
    sweep(t, (struct sim_fault){.op = SIM_CHANGE, .what = SIM_KILL});
}

static void every_read_may_fail(struct test *t)
{
    sweep(t, (struct sim_fault){.op = SIM_READ, .what = SIM_FAIL, .error = EIO});
}

static const struct test_case cases[] = {
    TEST(every_change_may_fail),
    TEST(every_write_may_find_the_disk_full),
    TEST(every_write_may_be_torn),
    TEST(power_may_go_at_any_change),
    TEST(the_process_may_be_killed_at_any_change),
    TEST(every_read_may_fail),
};
TEST_MAIN(cases)
