#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/mask_rules.h"
#include "scrape/tags.h"

/* What V8's profilers answered: the results of Profiler.stop and HeapProfiler.stopSampling, as
 * JSON. Either may be empty. */
struct v8_turn_input {
    struct bytes cpu, heap;
    int64_t sampling_ns;           /* between CPU samples */
    uint64_t heap_bytes;           /* between heap samples, on average */
    const struct tags *attributes; /* of the process */
    struct mask_matcher *mask;     /* of what may not be sent; NULL: none */
    int64_t start_ns, end_ns;      /* of the window, UTC */
    uint64_t memory_max;
};

/*
 * Turns them into an OTLP request, appended to `otlp`; nothing when there is nothing to tell. Equal
 * stacks are added up. Time in which the program was idle is left out of CPU profiles; V8 counts
 * it. CPU profiles have the attribute profile.kind "v8": the agent's own samples of the process are
 * CPU profiles, too.
 *
 * -EBADMSG: no such profile; -ENOBUFS: larger than memory_max.
 */
int v8_turn(const struct v8_turn_input *in, struct buf *otlp, size_t *ret_samples,
            struct error *err);
