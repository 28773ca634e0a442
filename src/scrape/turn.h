#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "scrape/scrape_config.h"
#include "scrape/tags.h"

/* What a target answered, and what it answered before. */
struct turn_input {
    const struct scrape_kind *kind;
    const struct tags *tags; /* of the target: they become attributes of its profiles */
    const char *url;         /* for messages */
    struct bytes body;
    struct bytes before; /* the last body of a cumulative kind; empty: this is the first */
    int64_t before_ns;   /* when that came */
    int64_t start_ns, end_ns;
    uint64_t memory_max;
};

struct turn_result {
    size_t n_samples; /* sent */
    bool is_reset;    /* the process is another than before: its counts begin anew */
};

/*
 * Turns a pprof profile into an OTLP request, appended to `otlp`; nothing when there is nothing to
 * tell. What counts since the process began becomes what was added since `before`, and is left out
 * without one; what is live is apart from it, for the one adds up over time and the other does not.
 *
 * -EBADMSG: no pprof profile; -ENOBUFS: larger than memory_max.
 */
int turn_profile(const struct turn_input *in, struct buf *otlp, struct turn_result *ret,
                 struct error *err);
