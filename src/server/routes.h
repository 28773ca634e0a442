#pragma once

#include "server/call.h"

/* The n-th route of all tables, or NULL past the end. */
const struct route *route_at(size_t n);

/*
 * The route for a request. -ENOENT when no route has the path; -EBADRQC when one has, but for other
 * methods: *ret_methods says which ("GET|POST").
 */
int route_find(struct bytes method, struct bytes path, const struct route **ret,
               const char **ret_methods);

/* Tables end with a row of zeros. */
extern const struct route status_routes[];  /* health.c */
extern const struct route control_routes[]; /* control.c */
extern const struct route otlp_routes[];    /* ingest_otlp.c */
extern const struct route traces_routes[];  /* ingest_traces.c */
extern const struct route deployments_routes[];
