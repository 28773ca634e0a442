#pragma once

#include "formats/v8_tree.h"

/*
 * A V8 CPU profile being read, whole (.cpuprofile) or in chunks (traces).
 *
 * Which time belongs to which sample: timeDeltas[i] is the time from sample i - 1 to sample i, and
 * timeDeltas[0] the time from startTime to the first sample. A sample stands for what ran until the
 * next one, so sample i is worth timeDeltas[i + 1] and the last one nothing; the time before the
 * first is no sample's. Thus
 *
 *     sum of cpu = sum of timeDeltas - timeDeltas[0],   duration = endTime - startTime
 *
 * which is what speedscope shows per function. V8 sometimes records samples out of order, with a
 * negative delta: such a sample cuts the one before it short, and time never runs backwards.
 *
 * Lines: a profile in a trace tells the line of each sample. A .cpuprofile has only the number of
 * ticks per line of each node; the samples of a node are spread over its lines in that proportion.
 */
struct v8_chunk {
    int64_t ts; /* chunks count in this order, not in that of the document */
    size_t samples_end, times_end;
    size_t index;
};

struct v8_cpu {
    struct v8_tree tree;
    VEC(int64_t) samples; /* node ids */
    VEC(int64_t) times;   /* nanoseconds: deltas, or times when has_timestamps */
    VEC(int64_t) lines;   /* of samples, 0 when not known; may be shorter */
    VEC(struct v8_chunk) chunks;
    uint64_t samples_at, times_at; /* offsets */
    uint32_t attrs;                /* for every sample and the profile */
    int64_t start_ns, end_ns;
    bool is_old;         /* "head", a tree of nodes: then start and end are in seconds */
    bool has_timestamps; /* as the old form has, rather than deltas */
    bool has_start, has_end;
};

void v8_cpu_init(struct v8_cpu *c, struct dict *d);
void v8_cpu_done(struct v8_cpu *c);

/* Reads the value of a key of a profile object. False when the key is none of its; the value is
 * then still to be read. May be called again for each chunk: arrays are appended to. */
bool v8_cpu_read_field(struct v8_cpu *c, struct json_reader *r, struct bytes key);

/* After each chunk. Its samples without a line have line 0. */
void v8_cpu_end_chunk(struct v8_cpu *c, int64_t ts);

/* A time as the start of a profile: 0, with a note, when it is none of the calendar's but of a
 * clock that began with the process or the machine. */
int64_t v8_calendar_time(int64_t time_ns, struct profile_set *out);

/* Adds what was read to `out` as a profile, which is returned. Contradictions fail the reader:
 * then, and when the budget is spent, NULL. */
struct profile *v8_cpu_finish(struct v8_cpu *c, struct json_reader *r, struct profile_set *out);
