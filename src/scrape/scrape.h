#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "config/config.h"
#include "config/config_node.h"

/*
 * Scraping pprof endpoints: who, what and how often, as `scrape_configs` says (docs/scrape.md), in
 * threads of the relay's process. Each profile that was read comes out as an OTLP request, with
 * cumulative ones (heap allocations, mutex, block) as what was added since the last.
 */
struct scrape;

/* What is pointed to lives longer than the scrape. */
struct scrape_options {
    const struct config_node *configs; /* may be NULL */
    bool finds_local_go;
    const struct config_list *resource; /* "key=value": attributes of every profile; or NULL */
    /* From any of its threads: an OTLP ExportProfilesServiceRequest. */
    void (*profiles)(void *arg, struct bytes otlp);
    void (*log)(void *arg, int level, const char *text);
    void *arg;
    uint64_t memory_max; /* of one profile being turned around: 64 MiB */
};

/* -EINVAL naming line and key. */
int scrape_check(const struct config_node *configs, struct error *err);
int scrape_start(const struct scrape_options *o, struct scrape **ret, struct error *err);
void scrape_stop(struct scrape *s); /* NULL is fine; waits for its threads */

/* Go processes of this host that listen: JSON of RELAY_TARGETS. Replaces the last. */
void scrape_set_local(struct scrape *s, struct bytes json);

/* Targets with their health, as JSON; and counters in the text format of /metrics. */
void scrape_status(struct scrape *s, struct buf *json);
void scrape_metrics(struct scrape *s, struct buf *text);
