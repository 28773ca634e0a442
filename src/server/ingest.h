#pragma once

#include "server/call.h"
#include "store/selector.h"

/*
 * What every way in has in common: profiles that were decoded into the worker's source get their
 * labels, are masked, checked against the tenant's limits, and appended, durable when this returns.
 *
 *     ingest_begin(worker)                      whoever runs the handler, before it
 *     decode into c->worker->source->set
 *     ingest_set(c, &options, &result, err)
 */

/* Makes the worker's source empty: the last request's profiles go. */
void ingest_begin(struct worker *w);

/* What one profile of a set has of its own. */
struct ingest_profile {
    const struct label *labels; /* win over those of the request */
    size_t n_labels;
    bool is_instant; /* found at a moment, whatever its types say */
    bool has_id;
    uint8_t id[16];
};

struct ingest_options {
    const char *format; /* static, for metrics: "otlp", "pprof", "jfr"... */

    /* Labels that the request gives for all of its profiles; they win over those of a resource.
     * Names are as they came: aliases (service_name, env, commit...) are mapped. */
    const struct label *labels;
    size_t n_labels;

    const struct ingest_profile *each; /* NULL, or one for each profile of the set */

    /* The window, for profiles that do not say theirs; 0: now. */
    int64_t from_ns, until_ns;

    bool is_instant; /* found at a moment, whatever the types say */
    bool has_id;     /* of a request with one profile */
    uint8_t id[16];
};

struct ingest_result {
    size_t profiles, stored, duplicates, rejected;
    struct error why; /* of the first rejection */

    /* Where what was stored (or was there) is found again: from the first start to behind the last
     * end, and the labels of the first, which live as long as the call. */
    int64_t from_ns, until_ns;
    const struct label *labels;
    size_t n_labels;
};

/*
 * 0 also when every profile was rejected. -EAGAIN (over a rate, or the store is behind), -ENOSPC,
 * -EROFS, -ENOBUFS, -E2BIG (limits.profile_nodes): then nothing was stored.
 *
 * Profiles of OTLP that count samples of a known time also get the time they stand for, as "cpu"
 * (or "wall") in nanoseconds.
 */
int ingest_set(struct call *c, const struct ingest_options *o, struct ingest_result *ret,
               struct error *err);

/* The label name that is kept for `name`: service_name is service.name, env is
 * deployment.environment.name... Others are themselves. */
struct bytes ingest_label_name(struct bytes name);
