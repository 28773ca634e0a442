#pragma once

#include "agent/naming.h"
#include "agent/window.h"
#include "profile/profile.h"

/*
 * A window becomes profiles: one for each kind and each distinct identity, with names as far as
 * they are known. Stacks whose outer part is missing say so in an outermost frame; waits say for
 * what in an innermost one.
 */
struct publish_options {
    struct naming *naming;
    uint64_t period_ns;      /* of CPU samples, while the window lasted (the last one) */
    const char *mode;        /* what the agent was told; on every profile */
    const char *rate_reason; /* why the rate is not the usual one, or "" */
    uint32_t rate;
    bool kernel_frames;
    bool with_pid;  /* process.pid in the resource */
    uint32_t kinds; /* that may be published: lock and off-CPU share their samples */
    /* Attributes of every profile's resource, as an identity has them. */
    const struct identity *host;
};

/* Who a process is, as resource attributes. */
uint32_t publish_resource(const struct publish_options *o, struct process *p);

/* Adds profiles to the set, which is over the naming's dictionary. */
void publish_window(const struct window *w, const struct publish_options *o,
                    struct profile_set *set);
