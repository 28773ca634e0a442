#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"

/*
 * What the agent may do right now: modes asked for by configuration, gate file, signal and server,
 * held against what the agent itself costs and how hot the host is. Pure arithmetic: fed once a
 * second, asked afterwards.
 */
enum agent_mode { MODE_OFF, MODE_LOW, MODE_NORMAL, MODE_BURST };

const char *agent_mode_name(enum agent_mode m);
bool agent_mode_parse(const char *text, enum agent_mode *ret);

/* Types of profiles; sets of them are bits 1 << type. Names as in the configuration. */
enum agent_type {
    AGENT_TYPE_CPU,
    AGENT_TYPE_WALL,
    AGENT_TYPE_OFF_CPU,
    AGENT_TYPE_LOCK,
    AGENT_TYPE_FAULTS,
    AGENT_TYPE_THREADS,
    AGENT_TYPES
};

const char *agent_type_name(enum agent_type t);
bool agent_type_parse(const char *text, enum agent_type *ret);

#define GOVERNOR_RATE_MAX 999 /* of any source: what asks for more gets this */

struct governor_limits {
    uint32_t rate, burst_rate;           /* samples per second */
    double cpu_budget, burst_cpu_budget; /* of one core: 0.01 */
    double host_cpu_high;                /* 0..1; 0: never back off */
    double process_cpu_high;             /* of one core; 0: never */
    int64_t burst_max_ns;
    uint64_t memory_max;
};

/* What somebody asked for. The strongest source that speaks wins: signal, then gate file, then the
 * server's directive, then configuration; `off` of any source wins over all. */
enum governor_source {
    ASKED_BY_CONFIG,
    ASKED_BY_SERVER,
    ASKED_BY_FILE,
    ASKED_BY_SIGNAL,
    GOVERNOR_SOURCES
};

struct governor_ask {
    bool speaks;
    enum agent_mode mode;
    uint32_t rate;    /* 0: that of the mode */
    int64_t until_ns; /* 0: until told otherwise. A burst ends after burst_max_ns at the latest */
    uint32_t types;   /* bits of enum agent_type; 0: those configured */
};

/* What was measured in the last second. */
struct governor_reading {
    int64_t now_ns;         /* monotonic; jumps (suspend) are seen and no reading is made of them */
    double own_cpu;         /* of one core: all our processes and our programs in the kernel */
    double host_cpu;        /* 0..1 of all cores */
    double hottest_process; /* of one core */
    uint64_t memory;        /* ours: sum of PSS or an estimate */
};

/* What to shed, in this order, as memory runs short: each level includes those before it. */
enum governor_shed { SHED_NOTHING, SHED_RATE, SHED_NAMES, SHED_TABLES, SHED_WINDOW };

struct governor_ruling {
    enum agent_mode mode;
    uint32_t rate;  /* samples per second, 0: none */
    uint32_t types; /* as asked; only CPU when the others cost too much */
    enum governor_shed shed;
    bool is_throttled;   /* below what the mode says, because of its own cost */
    bool is_backing_off; /* because of the host or a process */
    char why[128];       /* for log, status and profiles: "host CPU 97 % is over 90 %" */
    uint64_t changes;    /* how often mode or rate have changed */
};

struct governor;
struct governor *governor_new(const struct governor_limits *limits);
void governor_free(struct governor *g); /* NULL is fine */
DEFINE_CLEANUP(struct governor *, governor_free)

void governor_set_limits(struct governor *g, const struct governor_limits *limits);
/* Replaces what the source asked for; the same once more changes nothing, and a burst that has had
 * its time does not come back by it. Holds from the next feed on. */
void governor_ask(struct governor *g, enum governor_source source, const struct governor_ask *ask);
/*
 * True when the ruling changed; *ret is always filled. The first GOVERNOR_WARM_UP_NS of life are
 * not held against the CPU budget: all processes are new once. Feeding within 200 ms of the last
 * reading only looks at what is asked for.
 */
#define GOVERNOR_WARM_UP_NS ((int64_t)30000000000)
bool governor_feed(struct governor *g, const struct governor_reading *r,
                   struct governor_ruling *ret);
