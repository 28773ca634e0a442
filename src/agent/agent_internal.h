#pragma once

#include "agent/agent.h"
#include "agent/code_files.h"
#include "agent/from_inside.h"
#include "agent/gate.h"
#include "agent/governor.h"
#include "agent/meter.h"
#include "agent/naming.h"
#include "agent/node_attach.h"
#include "agent/process_table.h"
#include "agent/waits.h"
#include "agent/window.h"
#include "host/name_cache.h"
#include "probe/probe.h"
#include "relay/relay.h"

/* The agent's parts, for the files that agent.c is divided into. */
struct agent {
    struct agent_options o;
    const struct agent_config *config;
    struct loop *loop;
    struct probe *probe;
    struct worker *inspector, *parser;
    struct worker *attacher; /* NULL unless Node processes are attached to */
    struct name_cache *cache;
    struct code_files *files;
    struct identity_rules *rules;
    struct identity *host;
    struct process_table *processes;
    struct mask_matcher *mask;
    struct naming *naming;
    struct waits *waits;
    struct node_attach *nodes; /* NULL unless there is an attacher */
    struct inside *inside;     /* NULL unless it is wanted */
    struct relay *relay;       /* NULL while recording */
    struct governor *governor;
    struct gate *gate;
    struct meter *meter;

    struct governor_ruling ruling;
    uint32_t types; /* that are collected: bits of enum agent_type */
    uint32_t rate;  /* of the CPU sampler now */
    uint64_t period_ns;
    uint32_t pids[64]; /* only these and their children; none: all */
    size_t n_pids;
    uint32_t attributes; /* AGENT_ATTRIBUTE_... */

    struct window *window;  /* being filled */
    struct window *closing; /* waiting for names; at most one */
    struct lines *lines;    /* being asked for, for `closing` */
    int64_t closed_ns;      /* when it was closed */
    int64_t window_end_ns, next_second_ns, next_walk_ns, next_status_ns, next_list_ns;

    struct loop_timers tick_timers;
    struct loop_timer tick;
    struct loop_io ring;
    bool is_held; /* not sampling yet */
    int64_t held_until_ns;
    bool is_finishing;
    void (*finished)(void *arg);
    void *finished_arg;

    bool is_flushing, is_flushed;
    int64_t flush_until_ns, detach_until_ns;

    struct agent_counts counts;
    uint64_t left_out;               /* samples that did not fit their window */
    struct governor_reading reading; /* the last */
    uint32_t round;                  /* of the governor */
    uint32_t hottest_samples;        /* CPU samples of the busiest process in it */
    struct buf relay_counts;         /* JSON, as the relay told them last */
};

enum {
    AGENT_ATTRIBUTE_THREAD = 1,
    AGENT_ATTRIBUTE_TID = 2,
    AGENT_ATTRIBUTE_CPU = 4,
    AGENT_ATTRIBUTE_TIME = 8
};

void agent_log(const struct agent *a, int level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* intake.c: events of the ring. */
void agent_drain(struct agent *a);
void agent_count_wait(void *arg, enum waits_type type, const struct event_sample *sample,
                      uint64_t value_ns);

void agent_count_threads(void *arg, uint32_t tgid, const uint64_t ns[THREAD_STATES]);

/* output.c: windows. */
void agent_close_window(struct agent *a);
/* Publishes the closing window once what it waits for is there. True when there is none left. */
bool agent_try_publish(struct agent *a, int64_t now_ns);

/* agent_status.c */
struct json_writer;
void agent_add_attributes(const struct process *p, struct json_writer *w); /* "attributes": {} */
void agent_metrics(struct agent *a, struct buf *text);
void agent_targets(struct agent *a, struct buf *json); /* Go programs that listen */
