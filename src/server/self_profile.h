#pragma once

#include "base/error.h"

/*
 * The server's own CPU profile, pushed to itself every ten seconds the way anybody would: as pprof
 * to /v1/pprof. One for each process: it takes SIGPROF.
 */
struct self_profiler;
struct server;

int self_profiler_start(struct server *s, struct self_profiler **ret, struct error *err);
void self_profiler_stop(struct self_profiler *p); /* NULL is fine */
