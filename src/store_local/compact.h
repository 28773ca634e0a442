#pragma once

#include "store_local/local_internal.h"

/*
 * Merging segments. Files of one tenant and window become one of a higher tier, with rollups of
 * exactly its rows; payloads are copied as they are. The output is written and synced, then one
 * manifest swaps the inputs for it: a crash before leaves an unnamed file, a crash after leaves
 * inputs that nobody names. Memory is bounded by a block per open strip and ROLLUP_BYTES_MAX.
 *
 * Tombstones are applied on the way. An input that turns out to be damaged is left as it is and out
 * of later merges; what can be read of it still answers.
 */

/* Waits until late data may have come: a window is due when it is over by this much. */
#define COMPACT_DELAY_NS  (10 * MINUTE_NS)
/* So many files of a window that is not over are merged, to keep reading cheap. */
#define COMPACT_YOUNG_MAX 8
/* Late files are merged into the big one when there are so many, or they have 1/4 of its bytes. */
#define COMPACT_LATE_MAX  4

struct compact_job {
    uint32_t tenant;
    uint8_t tier; /* of the output: 0 without rollups, 1 an hour, 2 a day */
    int64_t window_start_ns, window_len_ns;
    VEC(struct segment *) inputs;
    struct budget budget; /* of the vec */
};

void compact_job_done(struct compact_job *job);

/*
 * The next job that is due at `now`, the oldest window first; with `all` any that would leave fewer
 * or better files, due or not. With upkeep_lock held. True when there is one.
 */
bool compact_pick(struct local *l, int64_t now_ns, bool all, struct compact_job *ret);

/*
 * Does a job. With upkeep_lock held and the lock not. -ENOSPC when it would not fit, naming both
 * numbers; -ECANCELED when the store is closing; -EBADMSG when an input is damaged, which later
 * jobs leave out. After a failure nothing has changed.
 */
int compact_run(struct local *l, const struct compact_job *job, struct error *err);
