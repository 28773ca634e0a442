#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "config/agent_config.h"
#include "net/loop.h"
#include "relay/otlp_env.h"
#include "relay/relay.h"

/*
 * Inside the relay's process. It is made of parts: exporters, uploads, control, status, scraping.
 * Each has threads of its own where it has to wait for others; the main thread runs the loop, reads
 * what the agent sends and hands it to every part.
 */
struct relay_child {
    const struct agent_config *config;
    struct export_settings settings; /* servers, headers, TLS: for every part that connects */
    struct loop *loop;               /* the main thread's */
    struct exporters *exporters;
    struct relay_link *link; /* to the agent */
};

/*
 * A part. The table is in relay_child.c; they start in its order and stop in the reverse. A part
 * that cannot start is logged and left out: the others go on.
 */
struct relay_part {
    const char *name;
    /* On the main thread. 0 with *ret NULL: there is nothing to do for it here. */
    int (*start)(struct relay_child *c, void **ret, struct error *err);
    /* A message of the agent, on the main thread, must be quick; `fd` is -1 or closed behind the
     * call. May be NULL. */
    void (*message)(void *part, enum relay_kind kind, struct bytes data, int fd);
    /* Ends its threads and waits for them; within a second, whatever the network does. */
    void (*stop)(void *part);
    /* Its counters, from any thread: lines of the text format of /metrics, and members of a JSON
     * object without the braces ("\"a\":1,\"b\":{...}"), no comma at either end. May be NULL. */
    void (*metrics)(void *part, struct buf *text);
    void (*status)(void *part, struct buf *json);
};

/* ---- For parts, from any thread ---- */

/* Takes a whole OTLP ExportProfilesServiceRequest on its way to every exporter. Packs it on the
 * caller's thread and never waits for a network or a disk. */
void relay_export(struct relay_child *c, struct bytes otlp);

/* A message to the agent, of at most RELAY_UP_MAX bytes: one that does not fit is dropped, as are
 * all while the agent does not read. */
#define RELAY_UP_MAX ((size_t)64 << 10)
void relay_tell(struct relay_child *c, enum relay_kind kind, struct bytes data);

/* A line of the log, on standard error: as log_level and log_format say. */
enum relay_level { RELAY_DEBUG, RELAY_INFO, RELAY_WARNING, RELAY_ERROR };
void relay_log(const struct relay_child *c, enum relay_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Metrics and status of all parts. */
void relay_add_metrics(struct relay_child *c, struct buf *text);
void relay_add_status(struct relay_child *c, struct buf *json); /* a whole object */

/*
 * The value of an authorization header that the token file asks for; the file is read every time,
 * so that it may change. 1, or 0 where there is none, or what is wrong with it: then nothing should
 * be sent, for it would only be refused. The caller frees *ret with buf_done().
 */
int relay_authorization(const struct relay_child *c, struct buf *ret, struct error *err);
