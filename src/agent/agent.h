#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "config/agent_config.h"
#include "net/loop.h"
#include "profile/profile.h"

/*
 * The agent: samples come out of the ring, are added up in windows, and leave as profiles. One
 * thread, one loop; whatever could wait for somebody else is done by another process.
 */
struct agent;

/* Capabilities beyond the usual ones that this configuration needs: rights_drop(). */
uint64_t agent_also_needs(const struct agent_config *c);

struct agent_options {
    const struct agent_config *config; /* lives as long as the agent */
    struct loop *loop;
    /* Where windows go instead of the relay: `vesta-agent record`. The set is borrowed. */
    void (*window)(void *arg, const struct profile_set *set);
    void *arg;
    bool is_picky;     /* only processes that agent_pick() names, beside those configured */
    bool is_recording; /* no relay, no governor; CPU rate as configured */
};

int agent_start(const struct agent_options *o, struct agent **ret, struct error *err);

/* What it has to do without, for whoever watches; NULL: nothing. */
const char *agent_lacks(const struct agent *a);

/* This process, and its children, are profiled too. */
int agent_pick(struct agent *a, uint32_t pid, struct error *err);

/* Learns what this process is, without waiting for a sample of it. */
void agent_look(struct agent *a, uint32_t pid);

/* A recording of what runs already begins a little later: when that is known. */
bool agent_is_sampling(const struct agent *a);

/* Ends sampling, and calls `done` when the last window has been handed over. */
void agent_finish(struct agent *a, void (*done)(void *arg), void *arg);
void agent_free(struct agent *a); /* NULL is fine */
DEFINE_CLEANUP(struct agent *, agent_free)

/* From signals: SIGUSR1 switches off and on again, SIGUSR2 starts a burst. */
void agent_signal(struct agent *a, int signo);

/* What it does and costs, as docs/agent-status.md says. */
void agent_status(struct agent *a, struct buf *json);

struct agent_counts {
    uint64_t samples, lost, windows, processes;
};
void agent_counts(struct agent *a, struct agent_counts *ret);
