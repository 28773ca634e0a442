#pragma once

#include "profile/profile.h"

/*
 * The sample types of a profile made by Linux perf. Every event has a column that counts its
 * samples and, where periods are known, one that adds them up:
 *
 *     one event:       samples/count   cycles/count
 *     several events:  cycles_samples/count   cycles/count   page-faults_samples/count ...
 *
 * Periods of clock events are nanoseconds. The first event's last column is the default.
 */
#define PERF_EVENTS_MAX (PROFILE_TYPES_MAX / 2)

struct perf_columns {
    struct profile *profile;
    size_t n_events;
    struct perf_event_columns {
        uint32_t name; /* string */
        uint32_t samples;
        uint32_t period;
        bool has_period;
    } events[PERF_EVENTS_MAX];
    int64_t values[PROFILE_TYPES_MAX]; /* all 0 between samples */
};

void perf_columns_init(struct perf_columns *c, struct profile *p);

/* The index of the event of this name, new or known; -1 when there are more than
 * PERF_EVENTS_MAX. */
int perf_columns_event(struct perf_columns *c, struct bytes name);

/* Adds one sample of an event; s->values is ignored. `period` may be NULL when not known. */
void perf_columns_add(struct perf_columns *c, int event, const int64_t *period, struct sample *s);

/* Names the columns for good and sets the default. */
void perf_columns_finish(struct perf_columns *c);
