#pragma once

#include "probe/probe.h"

/*
 * What stands in for our programs in the kernel where they may not be loaded: perf events of own
 * processes and their children, whose samples carry registers and a copy of the stack. They are
 * walked here, over the same tables, by the same source.
 */
struct perf_backend;

/* The arrays, the rings and p->perf. -EPERM with what is missing and how to get it. */
int perf_backend_open(struct probe *p, const struct probe_options *o, struct error *err);
void perf_backend_close(struct probe *p);

/* Whether own processes could be sampled so; nothing stays open. */
void perf_backend_try(struct probe_feature_state *ret);

int perf_backend_set_rate(struct probe *p, uint32_t hz, struct error *err);
int perf_backend_attach(struct probe *p, uint32_t pid, struct error *err);
int perf_backend_fd(const struct probe *p);
size_t perf_backend_drain(struct probe *p);
void perf_backend_stats(const struct probe *p, struct probe_stats *ret);

/* A file has got its table: walks that ended for want of it may go on. */
void perf_backend_changed(struct probe *p);

/* What the map of processes is to BPF. */
bool perf_backend_process(const struct probe *p, uint32_t tgid, struct unwind_process *ret);
int perf_backend_put_process(struct probe *p, uint32_t tgid, const struct unwind_process *value);
bool perf_backend_drop_process(struct probe *p, uint32_t tgid);
