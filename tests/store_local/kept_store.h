#pragma once

#include "lib/sim_fs.h"
#include "store_local/store_fixture.h"

/*
 * A small store on a simulated disk that has some of everything: segments with and without sums,
 * two tenants, links and times, spans, a tombstone, and records that are only in the WAL.
 */
struct findings {
    unsigned n_bad, n_notes;
    char text[4096]; /* one a line */
};

static inline void note_finding(void *ctx, bool is_bad, const char *text)
{
    struct findings *f = ctx;
    size_t n = strlen(f->text);

    if (is_bad)
        f->n_bad++;
    else
        f->n_notes++;
    snprintf(f->text + n, sizeof(f->text) - n, "%s%s\n", is_bad ? "bad: " : "", text);
}

static inline int kept_open(struct fixture *f, struct sim_fs *sim, bool read_only)
{
    f->log[0] = '\0';
    f->store = NULL;
    f->source = NULL;
    f->options.fs = sim_fs_fs(sim);
    f->options.read_only = read_only;
    int r = local_open(&f->options, &f->store, &f->err);
    if (r == 0 && !read_only)
        r = store_source_new(f->store, 0, &f->source, &f->err);
    return r;
}

static inline void kept_init(struct fixture *f)
{
    *f = (struct fixture){.clock = {.clock = {test_clock_wall, test_clock_monotonic},
                                    .wall_ns = NOW_NS,
                                    .monotonic_ns = SEC_NS}};
    f->options = (struct local_options){.clock = &f->clock.clock,
                                        .threads = 1,
                                        .seed = 1,
                                        .disk_reserve = 1,
                                        .disk_limit = 1 << 30,
                                        .log = fixture_log,
                                        .log_ctx = f};
}

/* n profiles of a pod, ten seconds apart, the first sample of each with a link and a time. */
static inline void kept_fill(struct test *t, struct fixture *f, const char *tenant, const char *pod,
                             int64_t start_ns, unsigned n)
{
    struct label labels[] = {test_label("pod", pod), test_label(LABEL_SERVICE, "checkout")};
    struct store_outcome outcome = {0};

    for (unsigned i = 0; i < n; i++) {
        int64_t start = start_ns + (int64_t)i * 10 * SEC_NS;
        struct profile *p = make_profile(f->source, start, i % 3, 4);
        uint32_t node = dict_frame(
            p->dict, 0, (struct function){.name = dict_cstring(p->dict, "linked")}, 1, 0, 0);
        profile_add(p, &(struct sample){.node = node,
                                        .link = dict_link(p->dict, (struct link){{7}, {8}}),
                                        .time_ns = (uint64_t)start + 5,
                                        .values = (int64_t[]){3}});
        struct store_incoming in = {.profile = p, .labels = labels, .n_labels = 2};
        int r = store_append(f->source, bytes_of(tenant), &in, 1, &outcome, &f->err);
        CHECK_INT(t, r, 0);
        CHECK_INT(t, outcome.verdict, STORE_STORED);
    }
    store_source_reset(f->source);
}

static inline void kept_spans(struct test *t, struct fixture *f, int64_t start_ns, unsigned n)
{
    struct label route = test_label("http.route", "/pay");

    for (unsigned i = 0; i < n; i++) {
        struct store_span s = {.service = bytes_of("checkout"),
                               .name = bytes_of("pay"),
                               .trace_id = {7, (uint8_t)i},
                               .span_id = {8},
                               .start_ns = start_ns + (int64_t)i * SEC_NS,
                               .duration_ns = 100,
                               .attributes = &route,
                               .n_attributes = 1};
        CHECK_INT(t, store_append_spans(f->store, bytes_of("default"), &s, 1, &f->err), 0);
    }
}

static inline void kept_upkeep(struct test *t, struct fixture *f, enum store_upkeep what)
{
    int r = 1;
    while (r > 0)
        r = store_upkeep(f->store, what, &f->err);
    CHECK_INT(t, r, 0);
    if (r < 0)
        printf("# %s\n", f->err.text);
}

/* Fills an open store and ends as a killed process does. */
static inline void kept_make(struct test *t, struct fixture *f)
{
    int64_t hour = NOW_NS - NOW_NS % HOUR_NS;

    kept_fill(t, f, "default", "a", hour - 3 * HOUR_NS, 40);
    kept_fill(t, f, "default", "b", hour - 3 * HOUR_NS, 40);
    kept_spans(t, f, hour - 3 * HOUR_NS, 3);
    kept_upkeep(t, f, UPKEEP_SETTLE);
    kept_fill(t, f, "other", "a", hour, 2);
    kept_fill(t, f, "default", "c", hour - HOUR_NS, 2);
    kept_upkeep(t, f, UPKEEP_FLUSH);
    kept_fill(t, f, "default", "d", hour, 2);
    kept_spans(t, f, hour, 2);
    fixture_crash(f);
}

static inline int kept_verify(struct fixture *f, struct findings *found)
{
    *found = (struct findings){0};
    return store_verify(f->store, note_finding, found, &f->err);
}
