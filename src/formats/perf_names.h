#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"

/* What perf's binary file and its text have in common: names of things and the attributes they
 * become. */

/* True for code that a runtime wrote at run time: perf maps, jitdump objects. */
bool perf_dso_is_jit(struct bytes dso);

/* The frame type, or "" when there is no telling. */
const char *perf_frame_type(struct bytes symbol, struct bytes dso, uint64_t address);

/* Who was sampled; -1 and empty when not known. */
struct perf_sampler {
    struct bytes comm;
    int64_t pid, tid, cpu;
};

/* thread.name, process.pid, thread.id and cpu.logical_number as an attribute set. */
uint32_t perf_sampler_attrs(struct dict *d, const struct perf_sampler *s);

/* Keeps "hostname", "os release" and "arch", as perf calls them, as resource attributes; ignores
 * other keys. */
void perf_add_host_attribute(struct profile *p, struct bytes key, struct bytes value);
