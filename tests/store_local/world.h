#pragma once

#include <errno.h>

#include "lib/set_clock.h"
#include "lib/sim_fs.h"
#include "lib/test.h"
#include "store_local/local.h"

/*
 * A random world of profiles, kept twice: in a store, and as plain arrays from which every answer
 * can be computed the slow way. For tests of reading.
 */
#define WORLD_SERIES   12
#define WORLD_STACKS   60
#define WORLD_NAMES    14
#define WORLD_DEPTH    6
#define WORLD_PROFILES 4096
#define WORLD_SAMPLES  10
#define WORLD_TRACES   3

#define SECOND      ((int64_t)1000000000)
#define MINUTE      (60 * SECOND)
#define HOUR        (60 * MINUTE)
#define DAY         (24 * HOUR)
#define WORLD_START (20000 * DAY) /* the first profile's day */

struct world_series {
    bool is_instant;
    char pod[16], service[16], env[16];
    int order; /* in which series were first appended to; -1: not yet */
};

struct world_sample {
    int stack;
    int thread;      /* 0: none, else the value of thread.name */
    int odd;         /* 0: none, else the value of an attribute that rollups do not keep */
    int trace;       /* 0: none */
    int64_t time_ns; /* 0: none */
    int64_t values[2];
};

struct world_profile {
    int series;
    int64_t start_ns, duration_ns;
    int n_samples;
    struct world_sample samples[WORLD_SAMPLES];
    bool has_id, is_erased;
    uint8_t id[16];
};

struct world {
    struct sim_fs *sim;
    struct set_clock clock;
    struct store *store;
    struct store_source *source;
    uint64_t random;

    struct world_series series[WORLD_SERIES];
    int n_met;
    int stacks[WORLD_STACKS][WORLD_DEPTH]; /* names from the root on; -1 ends it */
    int depth[WORLD_STACKS];
    struct world_profile profiles[WORLD_PROFILES];
    int n_profiles;
};

static inline uint64_t world_random(struct world *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % below;
}

static inline void world_make_stacks(struct world *w)
{
    for (int i = 0; i < WORLD_STACKS; i++) {
        w->depth[i] = 1 + (int)world_random(w, WORLD_DEPTH);
        for (int d = 0; d < WORLD_DEPTH; d++)
            w->stacks[i][d] = d < w->depth[i] ? (int)world_random(w, WORLD_NAMES) : -1;
        for (int j = 0; j < i; j++) {
            if (memcmp(w->stacks[i], w->stacks[j], sizeof(w->stacks[i])) == 0)
                i--, j = i; /* the same again: another one */
        }
    }
}

static inline void world_make_series(struct world *w)
{
    for (int i = 0; i < WORLD_SERIES; i++) {
        struct world_series *s = &w->series[i];
        s->is_instant = i % 4 == 3;
        s->order = -1;
        snprintf(s->pod, sizeof(s->pod), "pod-%d", i / 2);
        snprintf(s->service, sizeof(s->service), "svc-%d", i % 2);
        snprintf(s->env, sizeof(s->env), "%s", i % 3 ? "prod" : "stage");
    }
}

static inline void world_options(struct world *w, struct local_options *ret)
{
    *ret = (struct local_options){.fs = sim_fs_fs(w->sim),
                                  .clock = &w->clock.clock,
                                  .seed = 7,
                                  .threads = 2,
                                  .memory_limit = (size_t)64 << 20,
                                  .max_age_ns = 30 * DAY};
}

static inline struct world *world_new(struct test *t, uint64_t seed)
{
    struct world *w = calloc(1, sizeof(*w));
    struct local_options options;
    struct error err = {{0}};

    if (!w)
        abort();
    w->random = seed * 2654435761u + 88172645463325252u;
    w->sim = sim_fs_new(seed);
    set_clock_init(&w->clock, WORLD_START + 2 * DAY);
    world_make_stacks(w);
    world_make_series(w);
    world_options(w, &options);
    if (local_open(&options, &w->store, &err) < 0 ||
        store_source_new(w->store, 0, &w->source, &err) < 0) {
        printf("# %s\n", err.text);
        t->failures++;
        exit(1);
    }
    return w;
}

/* Closes the store and opens it again: nothing is cached then. */
static inline void world_reopen(struct test *t, struct world *w)
{
    struct local_options options;
    struct error err = {{0}};

    store_source_free(w->source);
    store_close(w->store);
    world_options(w, &options);
    if (local_open(&options, &w->store, &err) < 0 ||
        store_source_new(w->store, 0, &w->source, &err) < 0) {
        printf("# could not open it again: %s\n", err.text);
        t->failures++;
        exit(1);
    }
}

static inline void world_free(struct world *w)
{
    store_source_free(w->source);
    store_close(w->store);
    sim_fs_free(w->sim);
    free(w);
}

/* The number in names like "f12". */
static inline int world_number(const char *name)
{
    return (int)strtol(name + 1, NULL, 10);
}

/* ---- Appending */

static inline uint32_t world_stack_node(struct world *w, int stack)
{
    struct dict *d = w->source->set->dict;
    uint32_t node = 0;

    for (int i = 0; i < w->depth[stack]; i++) {
        char name[16];
        snprintf(name, sizeof(name), "f%d", w->stacks[stack][i]);
        struct function f = {.name = dict_cstring(d, name), .file = dict_cstring(d, "w.c")};
        node = dict_frame(d, node, f, 1, 0, 0);
    }
    return node;
}

static inline uint32_t world_attrs(struct dict *d, const struct world_sample *s)
{
    uint32_t ids[2] = {0};
    char text[16];

    if (s->thread) {
        snprintf(text, sizeof(text), "t%d", s->thread);
        ids[0] = dict_string_attribute(d, dict_cstring(d, "thread.name"), dict_cstring(d, text));
    }
    if (s->odd) {
        snprintf(text, sizeof(text), "o%d", s->odd);
        ids[1] = dict_string_attribute(d, dict_cstring(d, "odd"), dict_cstring(d, text));
    }
    return dict_attrs(d, ids, 2);
}

static inline struct link world_link(int trace)
{
    struct link l = {{0}, {0}};
    if (trace) {
        memset(l.trace_id, trace, sizeof(l.trace_id));
        memset(l.span_id, 16 + trace, sizeof(l.span_id));
    }
    return l;
}

static inline void world_types(bool is_instant, const char *ret[2][2])
{
    ret[0][0] = is_instant ? "inuse_objects" : "samples";
    ret[0][1] = "count";
    ret[1][0] = is_instant ? "inuse_space" : "cpu";
    ret[1][1] = is_instant ? "bytes" : "nanoseconds";
}

/* Hands a profile to the store and, when it was taken, keeps it here too. */
static inline enum store_verdict world_append(struct test *t, struct world *w,
                                              const struct world_profile *p)
{
    struct world_series *s = &w->series[p->series];
    struct profile *out = profile_set_add(w->source->set);
    struct dict *d = w->source->set->dict;
    const char *types[2][2];
    struct label labels[] = {{BYTES("deployment.environment.name"), bytes_of(s->env)},
                             {BYTES("pod"), bytes_of(s->pod)},
                             {BYTES("service.name"), bytes_of(s->service)}};
    struct store_incoming in = {.profile = out,
                                .labels = labels,
                                .n_labels = 3,
                                .is_instant = s->is_instant,
                                .has_id = p->has_id};
    struct store_outcome outcome = {0};
    struct error err = {{0}};

    memcpy(in.id, p->id, sizeof(in.id));
    world_types(s->is_instant, types);
    profile_add_ctype(out, types[0][0], types[0][1]);
    profile_add_ctype(out, types[1][0], types[1][1]);
    out->time_unix_ns = p->start_ns;
    out->duration_ns = p->duration_ns;
    out->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    out->period = 10000000;
    for (int i = 0; i < p->n_samples; i++) {
        const struct world_sample *x = &p->samples[i];
        struct sample sample = {.node = world_stack_node(w, x->stack),
                                .attrs = world_attrs(d, x),
                                .link = x->trace ? dict_link(d, world_link(x->trace)) : 0,
                                .time_ns = (uint64_t)x->time_ns,
                                .values = x->values};
        profile_add(out, &sample);
    }
    int r = store_append(w->source, BYTES("default"), &in, 1, &outcome, &err);
    store_source_reset(w->source);
    if (r < 0 || outcome.verdict == STORE_REJECTED) {
        printf("# %s\n", r < 0 ? err.text : outcome.why.text);
        t->failures++;
        return STORE_REJECTED;
    }
    if (outcome.verdict == STORE_STORED) {
        w->profiles[w->n_profiles++] = *p;
        if (s->order < 0)
            s->order = w->n_met++;
    }
    return outcome.verdict;
}

static inline struct world_profile world_random_profile(struct world *w, int64_t from, int64_t to)
{
    struct world_profile p = {.series = (int)world_random(w, WORLD_SERIES),
                              .duration_ns = 10 * SECOND,
                              .n_samples = 1 + (int)world_random(w, WORLD_SAMPLES),
                              .has_id = world_random(w, 2) == 0};

    p.start_ns = from + (int64_t)world_random(w, (uint64_t)(to - from) / SECOND) * SECOND +
                 w->n_profiles; /* no two of a series are at one moment */
    for (int i = 0; i < 16; i++)
        p.id[i] = (uint8_t)world_random(w, 256);
    for (int i = 0; i < p.n_samples; i++) {
        struct world_sample *s = &p.samples[i];
        s->stack = (int)world_random(w, WORLD_STACKS);
        s->thread = (int)world_random(w, 3);
        s->odd = world_random(w, 4) ? 0 : 1 + (int)world_random(w, 2);
        s->values[0] = 1 + (int64_t)world_random(w, 5);
        s->values[1] = s->values[0] * 10000000;
        if (world_random(w, 6) == 0)
            s->trace = 1 + (int)world_random(w, WORLD_TRACES);
        if (world_random(w, 6) == 0)
            s->time_ns = p.start_ns + (int64_t)world_random(w, 10) * SECOND;
    }
    return p;
}

static inline void world_append_random(struct test *t, struct world *w, int n, int64_t from,
                                       int64_t to)
{
    for (int i = 0; i < n && w->n_profiles < WORLD_PROFILES; i++) {
        struct world_profile p = world_random_profile(w, from, to);
        world_append(t, w, &p);
    }
}

static inline void world_upkeep(struct test *t, struct world *w, enum store_upkeep what)
{
    struct error err = {{0}};
    int r = 1;

    for (int i = 0; r == 1 && i < 1000; i++)
        r = store_upkeep(w->store, what, &err);
    if (r < 0)
        printf("# upkeep: %s\n", err.text);
    CHECK(t, r >= 0);
}

/* ---- Files */

struct world_files {
    char names[64][64];
    int n;
    const char *dir;
};

static inline int world_add_file_(void *arg, const char *name, bool is_dir)
{
    struct world_files *f = arg;

    if (!is_dir && f->n < 64)
        snprintf(f->names[f->n++], 64, "%s/%s", f->dir, name);
    return 0;
}

/* The segments and dictionaries there are. */
static inline struct world_files world_list_files(struct world *w)
{
    struct world_files f = {.dir = "seg"};

    (void)fs_list(sim_fs_fs(w->sim), "seg", world_add_file_, &f, NULL);
    f.dir = "dict";
    (void)fs_list(sim_fs_fs(w->sim), "dict", world_add_file_, &f, NULL);
    return f;
}

/*
 * Damages every file in turn, in about `per_file` places, and makes it unreadable once; calls
 * check() each time with a store that has just been opened, and mends it again.
 */
static inline void
world_damage(struct test *t, struct world *w, uint64_t per_file,
             void (*check)(struct test *t, struct world *w, const char *path, void *arg), void *arg)
{
    struct world_files files = world_list_files(w);

    CHECK(t, files.n >= 3);
    for (int i = 0; i < files.n; i++) {
        uint64_t size = 0;
        CHECK_INT(t, fs_path_size(sim_fs_fs(w->sim), files.names[i], &size, NULL), 0);
        for (uint64_t bit = (uint64_t)i; bit < size * 8; bit += 1 + size * 8 / per_file) {
            CHECK(t, sim_fs_flip(w->sim, files.names[i], bit));
            world_reopen(t, w);
            check(t, w, files.names[i], arg);
            CHECK(t, sim_fs_flip(w->sim, files.names[i], bit));
        }
        world_reopen(t, w);
        CHECK(t, sim_fs_break(w->sim, files.names[i], EIO));
        check(t, w, files.names[i], arg);
        CHECK(t, sim_fs_break(w->sim, files.names[i], 0));
    }
    world_reopen(t, w);
}
