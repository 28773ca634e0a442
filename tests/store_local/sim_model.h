#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/random.h"
#include "lib/set_clock.h"
#include "lib/sim_fs.h"
#include "store/store.h"
#include "store_local/local.h"

/*
 * What a store must answer: every profile that was acknowledged, once; of those that were not, none
 * or one, and the same ever after; none that was erased. Runs the real store on a simulated disk
 * and clock, and keeps beside it a plain list of what was put in.
 *
 *     sim_store.c   draws what happens next
 *     test_faults.c makes every operation of a scripted life fail in turn
 *     sim_ask.c     asks the store and compares
 */
#define SIM_TENANTS  3
#define SIM_SERVICES 3
#define SIM_PODS     4
#define SIM_HOUR     ((int64_t)3600 * 1000000000)
#define SIM_DAY      (24 * SIM_HOUR)
#define SIM_NOW      ((int64_t)1700000000 * 1000000000)

enum sim_kind { SIM_CPU, SIM_CPU_AND_COUNT, SIM_HEAP, SIM_KINDS };

enum sim_state {
    SIM_ABSENT, /* was never taken: must not be there */
    SIM_DOUBT,  /* the append failed: not there now; once or not at all when opened again */
    SIM_ACKED,
    SIM_ERASED,
    SIM_LOST, /* by damage, and the store said so */
};

/* A profile that somebody tried to store. */
struct sim_entry {
    uint8_t tenant, service, pod;
    enum sim_kind kind;
    enum sim_state state;
    bool has_id;
    bool is_erase_in_doubt;
    bool may_be_double; /* a file that could not be read kept a retry from being known */
    bool may_expire;    /* it was old enough at some time */
    uint32_t shape;     /* what is in it follows from this */
    int64_t start_ns;
    uint8_t id[16];
    int64_t totals[2];
    uint64_t content, linked; /* sums over the samples, and those with a link */
    unsigned n_found;
};

struct sim_span {
    uint8_t tenant, service;
    enum sim_state state;
    bool may_expire;
    int64_t start_ns;
    uint64_t id;
    unsigned n_found;
};

struct sim_world {
    uint64_t seed, step;
    struct random random;
    struct sim_fs *sim;
    struct set_clock clock;
    struct local_options options;
    struct store *store;
    struct store_source *source;
    struct error err;

    struct sim_entry *entries;
    size_t n_entries;
    struct sim_span *spans;
    size_t n_spans;
    bool has_no_spans, has_no_policies;

    int64_t max_now_ns;                  /* the latest time that retention may have believed */
    int64_t min_age_ns, min_span_age_ns; /* the shortest that things had to be kept */
    int64_t jump_ns;                     /* how far the wall clock is off */
    unsigned jump_passes;
    unsigned n_made; /* makes starts and ids unique */

    bool is_lossy;    /* the disk lost something that it said it had */
    bool is_reported; /* and the store has told */
    uint64_t struck;  /* faults, before this step */

    bool is_failed;
    char failure[1024];
    FILE *trace;
};

#define SIM_ENTRIES_MAX 4096

void sim_world_init(struct sim_world *w, uint64_t seed);
void sim_world_done(struct sim_world *w);

void sim_fail(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_say(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Whether a fault struck since the step began, or the disk is down: errors are fine then. */
bool sim_is_excused(struct sim_world *w);
bool sim_is_dead(struct sim_world *w);

/* 0, or what local_open() said. */
int sim_open(struct sim_world *w);
void sim_close(struct sim_world *w);

/* A new entry like nothing before, in the state ABSENT; NULL when there are enough. */
struct sim_entry *sim_draw(struct sim_world *w, int64_t start_ns);
/* Appends entries and notes what became of them. */
int sim_append(struct sim_world *w, struct sim_entry *const *entries, size_t n);
int sim_append_spans(struct sim_world *w, unsigned n);
int sim_erase(struct sim_world *w, unsigned tenant, const char *selector, int64_t from_ns,
              int64_t to_ns);

const char *sim_tenant(unsigned i);
const char *sim_service(unsigned i);
const char *sim_pod(unsigned i);
const char *sim_version(unsigned pod);

/* Whether an entry belongs in answers now: 1, 0, or -1 when both would be right. */
int sim_is_there(const struct sim_world *w, const struct sim_entry *e);

/* ---- sim_ask.c */

/* The sum over samples of value times a hash of the stack's names, as of a found profile. */
uint64_t sim_content(const struct profile *p, uint32_t column);

/* Compares every single profile and span. Just opened, doubts are resolved by what is there. */
void sim_check_all(struct sim_world *w, bool is_fresh);
/* Draws a question and compares the answer. */
void sim_check_sums(struct sim_world *w);
