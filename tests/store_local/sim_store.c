/*
 * The seeded simulator: the real store over a simulated disk and clock, and a list of what must be
 * in it.
 *
 *     sim_store              fifty seeds, as TAP
 *     sim_store SEEDS [N]    that many seeds from N (or 1) on
 *     sim_store --seed N     one seed, telling each step
 *     sim_store --seed N -v  and each operation on the disk
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "store_local/local_internal.h"
#include "store_local/sim_model.h"

#define STEPS 250

static bool has_odds(struct sim_world *w, unsigned one_in)
{
    return random_below(&w->random, one_in) == 0;
}

/* ---- Faults */

static const int errors[] = {EIO, ENOSPC, EDQUOT};

static void draw_fault(struct sim_world *w, uint64_t within)
{
    static const enum sim_op ops[] = {SIM_CHANGE, SIM_CHANGE, SIM_WRITE,  SIM_SYNC, SIM_ANY,
                                      SIM_RENAME, SIM_UNLINK, SIM_CREATE, SIM_READ, SIM_SYNC_DIR};
    static const enum sim_fault_what whats[] = {SIM_FAIL,  SIM_FAIL,  SIM_SHORT, SIM_TORN,
                                                SIM_CRASH, SIM_CRASH, SIM_CRASH, SIM_KILL};
    struct sim_fault f = {.op = ops[random_below(&w->random, 10)],
                          .nth = 1 + random_below(&w->random, within),
                          .what = whats[random_below(&w->random, 8)],
                          .error = errors[random_below(&w->random, 3)]};

    if (f.what == SIM_CRASH || f.what == SIM_KILL)
        f.op = SIM_CHANGE;
    sim_say(w, "fault: %s number %llu, kind %d, error %d", sim_op_name(f.op),
            (unsigned long long)f.nth, (int)f.what, f.error);
    sim_fs_clear_faults(w->sim);
    sim_fs_fault(w->sim, f);
}

/* A sync that says it was done and was not: what is lost by it is nobody's fault but the disk's. */
static void draw_lie(struct sim_world *w)
{
    sim_say(w, "the next sync lies");
    sim_fs_fault(w->sim, (struct sim_fault){.op = SIM_SYNC, .nth = 1, .what = SIM_LIE});
    w->is_lossy = w->is_reported = true;
}

static void rot(struct sim_world *w)
{
    char path[128];
    uint64_t bit;

    if (!sim_fs_rot(w->sim, path, sizeof(path), &bit))
        return;
    sim_say(w, "bit %llu of %s flips", (unsigned long long)bit, path);
    w->is_lossy = true;
}

/* ---- Opening again, with faults on the way */

static void reopen(struct sim_world *w, bool is_up)
{
    for (unsigned tries = 0; tries < 8 && !w->is_failed; tries++) {
        w->struck = sim_fs_struck(w->sim);
        if (tries < 3 && has_odds(w, 6))
            draw_fault(w, 30);
        int r = sim_open(w);
        if (r == 0 && !sim_fs_is_down(w->sim))
            return;
        if (r < 0 && !sim_is_excused(w)) {
            sim_fail(w, "could not open again: %s", w->err.text);
            return;
        }
        sim_close(w);
        sim_fs_clear_faults(w->sim);
        if (sim_fs_is_down(w->sim) || !is_up)
            sim_fs_restart(w->sim);
        is_up = true;
    }
    if (!w->store)
        sim_fail(w, "could not be opened at all: %s", w->err.text);
}

static void open_and_check(struct sim_world *w)
{
    sim_fs_clear_faults(w->sim);
    reopen(w, true);
    sim_fs_clear_faults(w->sim);
    if (w->is_failed)
        return;
    w->struck = sim_fs_struck(w->sim);
    if (sim_is_dead(w)) { /* of a fault while it was opened; nothing is known yet */
        sim_close(w);
        if (sim_open(w) < 0)
            sim_fail(w, "could not open again: %s", w->err.text);
    }
    /* What was recovered is not promised to anybody before it was written again. */
    if (!w->is_failed && local_of(w->store)->is_unsettled) {
        struct sim_entry *e = sim_draw(w, w->clock.wall_ns - w->jump_ns);
        if (e && sim_append(w, &e, 1) == 0 && e->state == SIM_ACKED)
            sim_fail(w, "a profile was taken before what was recovered is safe");
        if (store_upkeep(w->store, UPKEEP_FLUSH, &w->err) < 0)
            sim_fail(w, "could not write what was recovered: %s", w->err.text);
    }
    if (!w->is_failed)
        sim_check_all(w, true);
}

static void stop(struct sim_world *w, bool is_crash)
{
    if (!sim_fs_is_down(w->sim)) {
        if (is_crash)
            sim_fs_crash(w->sim);
        else
            sim_fs_kill(w->sim);
    }
    sim_close(w);
    sim_fs_restart(w->sim);
    open_and_check(w);
}

/* ---- What may happen */

static int64_t draw_start(struct sim_world *w)
{
    struct random *r = &w->random;
    int64_t now = w->clock.wall_ns - w->jump_ns;

    switch (random_below(r, 12)) {
    case 0: /* late */
        return now - (int64_t)random_below(r, (uint64_t)(3 * SIM_DAY));
    case 1:
        return now - (int64_t)random_below(r, (uint64_t)(6 * SIM_HOUR));
    case 2: /* of a clock that is ahead, or far ahead */
        return now + (int64_t)random_below(r, (uint64_t)(SIM_HOUR + SIM_HOUR / 4));
    default:
        return now - (int64_t)random_below(r, (uint64_t)(SIM_HOUR / 30));
    }
}

static void expect(struct sim_world *w, int r, const char *what)
{
    if (r < 0 && r != -EAGAIN && r != -ENOSPC && !sim_is_excused(w) && !w->is_lossy)
        sim_fail(w, "could not %s: %s", what, w->err.text);
}

static void do_append(struct sim_world *w)
{
    struct sim_entry *entries[4];
    size_t n = 0, wanted = 1 + random_below(&w->random, 4);

    while (n < wanted) {
        struct sim_entry *e = sim_draw(w, draw_start(w));
        if (!e)
            return;
        if (n > 0)
            e->tenant = entries[0]->tenant;
        entries[n++] = e;
    }
    expect(w, sim_append(w, entries, n), "append");
}

static void do_retry(struct sim_world *w)
{
    if (w->n_entries == 0)
        return;
    size_t back = random_below(&w->random, random_below(&w->random, 3) ? 12 : w->n_entries);
    if (back >= w->n_entries)
        back = 0;
    struct sim_entry *e = &w->entries[w->n_entries - 1 - back];
    expect(w, sim_append(w, &e, 1), "append again");
}

static void do_spans(struct sim_world *w)
{
    expect(w, sim_append_spans(w, 1 + (unsigned)random_below(&w->random, 5)), "append spans");
}

/* A jump of up to an hour is believed at once. */
static void note_time(struct sim_world *w)
{
    if (w->jump_ns <= SIM_HOUR && w->clock.wall_ns > w->max_now_ns)
        w->max_now_ns = w->clock.wall_ns;
}

static void do_advance(struct sim_world *w)
{
    static const int64_t units[] = {SIM_HOUR / 3600, SIM_HOUR / 60, SIM_HOUR / 60, SIM_HOUR,
                                    SIM_DAY};
    struct random *r = &w->random;
    uint64_t unit = random_below(r, random_below(r, 8) ? 4 : 5);
    int64_t ns = units[unit] * (int64_t)(1 + random_below(r, unit == 4 ? 4 : 20));

    set_clock_advance(&w->clock, ns);
    w->max_now_ns += ns;
    sim_say(w, "%lld s pass", (long long)(ns / 1000000000));
    note_time(w);
}

/* The wall clock is wrong for a while, then right again. */
static void do_jump(struct sim_world *w)
{
    static const int64_t jumps[] = {-SIM_HOUR, -SIM_HOUR / 2, SIM_HOUR / 2, 30 * SIM_DAY,
                                    3650 * SIM_DAY};

    if (w->jump_ns != 0) {
        w->clock.wall_ns -= w->jump_ns;
        w->jump_ns = 0;
    } else {
        w->jump_ns = jumps[random_below(&w->random, 5)];
        w->clock.wall_ns += w->jump_ns;
        w->jump_passes = 0;
    }
    sim_say(w, "the clock is %lld s off", (long long)(w->jump_ns / 1000000000));
    note_time(w);
}

static void do_upkeep(struct sim_world *w, enum store_upkeep what, const char *name)
{
    if (w->jump_ns && ++w->jump_passes >= 9) /* it may be believed by now */
        w->max_now_ns = w->clock.wall_ns > w->max_now_ns ? w->clock.wall_ns : w->max_now_ns;
    int r = store_upkeep(w->store, what, &w->err);
    sim_say(w, "%s: %d %s", name, r, r < 0 ? w->err.text : "");
    if (r != -EOPNOTSUPP)
        expect(w, r, name);
}

static void do_erase(struct sim_world *w)
{
    static const char *const selectors[] = {"{service.name=\"cart\", pod=\"pod-1\"}",
                                            "{pod=~\"pod-[02]\"}", "{}", "{pod!=\"pod-3\"}"};
    struct random *r = &w->random;
    int64_t to = w->clock.wall_ns - (int64_t)random_below(r, (uint64_t)(2 * SIM_HOUR));
    int64_t from = to - (int64_t)random_below(r, (uint64_t)(4 * SIM_HOUR));

    expect(w,
           sim_erase(w, (unsigned)random_below(r, SIM_TENANTS), selectors[random_below(r, 4)], from,
                     to),
           "erase");
}

static void do_policy(struct sim_world *w)
{
    struct random *r = &w->random;
    struct store_policy policy = {.max_age_ns = SIM_DAY * (int64_t)(5 + random_below(r, 40))};

    if (w->has_no_policies)
        return;
    if (policy.max_age_ns < w->min_age_ns)
        w->min_age_ns = policy.max_age_ns;
    int result = store_set_policy(
        w->store, bytes_of(sim_tenant((unsigned)random_below(r, SIM_TENANTS))), &policy, &w->err);
    sim_say(w, "keep for %lld days: %d", (long long)(policy.max_age_ns / SIM_DAY), result);
    w->has_no_policies = result == -EOPNOTSUPP;
    if (result == -ENOENT) /* of a tenant that has stored nothing */
        result = 0;
    if (!w->has_no_policies)
        expect(w, result, "set a policy");
}

/* The disk fills up for a moment: refused, then taken again. */
static void do_fill(struct sim_world *w)
{
    sim_say(w, "the disk is full");
    sim_fs_set_space(w->sim, 1);
    set_clock_advance(&w->clock, 1000000000);
    w->max_now_ns += 1000000000;
    struct sim_entry *e = sim_draw(w, w->clock.wall_ns - w->jump_ns);
    int r = e ? sim_append(w, &e, 1) : -ENOSPC;
    if (r == 0 && e->state == SIM_ACKED)
        sim_fail(w, "a profile was taken with the disk full");
    do_upkeep(w, UPKEEP_FLUSH, "flush");
    if (!sim_is_dead(w))
        sim_check_all(w, false);
    sim_fs_set_space(w->sim, (uint64_t)1 << 40);
    note_time(w);
}

static void do_close(struct sim_world *w)
{
    sim_say(w, "close");
    sim_close(w);
    if (sim_fs_is_down(w->sim))
        sim_fs_restart(w->sim);
    open_and_check(w);
}

/* ---- One life */

struct action {
    unsigned weight;
    void (*run)(struct sim_world *w);
};

static void act_step(struct sim_world *w)
{
    do_upkeep(w, UPKEEP_STEP, "step");
}

static void act_flush(struct sim_world *w)
{
    do_upkeep(w, UPKEEP_FLUSH, "flush");
}

static void act_settle(struct sim_world *w)
{
    do_upkeep(w, UPKEEP_SETTLE, "settle");
}

static void act_expire(struct sim_world *w)
{
    do_upkeep(w, UPKEEP_EXPIRE, "expire");
}

static void act_check(struct sim_world *w)
{
    sim_check_all(w, false);
}

static void act_fault(struct sim_world *w)
{
    draw_fault(w, 40);
}

static void act_crash(struct sim_world *w)
{
    sim_say(w, "the power fails");
    stop(w, true);
}

static void act_kill(struct sim_world *w)
{
    sim_say(w, "killed");
    stop(w, false);
}

static void act_rot(struct sim_world *w)
{
    if (w->seed % 4 == 3)
        rot(w);
    else if (w->seed % 16 == 2)
        draw_lie(w);
}

static const struct action actions[] = {
    {60, do_append}, {14, do_retry}, {6, do_spans},   {20, do_advance}, {1, do_jump},
    {14, act_step},  {6, act_flush}, {3, act_settle}, {3, act_expire},  {14, sim_check_sums},
    {4, act_check},  {2, do_erase},  {1, do_policy},  {1, do_fill},     {2, do_close},
    {2, act_crash},  {2, act_kill},  {6, act_fault},  {2, act_rot},
};

static void act(struct sim_world *w)
{
    unsigned total = 0;

    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
        total += actions[i].weight;
    uint64_t at = random_below(&w->random, total);
    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++) {
        if (at < actions[i].weight) {
            actions[i].run(w);
            return;
        }
        at -= actions[i].weight;
    }
}

static void step(struct sim_world *w)
{
    w->struck = sim_fs_struck(w->sim);
    act(w);
    if (w->is_failed)
        return;
    if (sim_fs_is_down(w->sim)) {
        sim_say(w, "the disk went down");
        stop(w, true);
    } else if (sim_is_dead(w)) {
        if (!sim_is_excused(w) && !w->is_lossy) {
            sim_fail(w, "writing has stopped for no reason");
            return;
        }
        /* Reading goes on, writing does not. */
        sim_fs_clear_faults(w->sim);
        w->struck = sim_fs_struck(w->sim);
        sim_check_all(w, false);
        struct sim_entry *e = sim_draw(w, w->clock.wall_ns);
        if (!w->is_failed && e && sim_append(w, &e, 1) == 0 && e->state == SIM_ACKED)
            sim_fail(w, "a profile was taken after writing had stopped");
        if (has_odds(w, 2))
            do_close(w);
        else
            stop(w, has_odds(w, 2));
    }
}

/* True when all went well. */
static bool live(uint64_t seed, FILE *trace, bool traces_disk)
{
    struct sim_world w = {.trace = trace};

    sim_world_init(&w, seed);
    if (trace && traces_disk)
        sim_fs_trace(w.sim, trace);
    if (sim_open(&w) < 0)
        sim_fail(&w, "could not open: %s", w.err.text);
    for (w.step = 1; w.step <= STEPS && !w.is_failed; w.step++)
        step(&w);
    if (!w.is_failed)
        act_settle(&w);
    if (!w.is_failed && !sim_fs_is_down(w.sim) && !sim_is_dead(&w))
        sim_check_all(&w, false);
    if (!w.is_failed)
        do_close(&w);
    if (w.is_failed)
        printf("# seed %llu, step %llu: %s\n", (unsigned long long)seed, (unsigned long long)w.step,
               w.failure);
    bool is_fine = !w.is_failed;
    if (!w.store)
        sim_fs_restart(w.sim);
    sim_world_done(&w);
    return is_fine;
}

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--seed") == 0)
        return !live(strtoull(argv[2], NULL, 10), stdout, argc > 3);
    unsigned long long n = argc > 1 ? strtoull(argv[1], NULL, 10) : 50;
    unsigned long long first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, n_failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("1..1\n");
    for (unsigned long long seed = first; seed < first + n; seed++)
        n_failed += !live(seed, NULL, false);
    printf("%s 1 - %llu lives of a store over a simulated disk: %llu went wrong\n",
           n_failed ? "not ok" : "ok", n, n_failed);
    return n_failed > 0;
}
