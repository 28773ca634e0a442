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
extern const struct route pyroscope_query_routes[];
extern const struct route admin_routes[];   /* admin.c */
extern const struct route status_routes[];  /* health.c */
extern const struct route control_routes[]; /* control.c */
extern const struct route names_routes[];   /* names.c */
extern const struct route otlp_routes[];    /* ingest_otlp.c */
extern const struct route traces_routes[];  /* ingest_traces.c */
extern const struct route deployments_routes[];
extern const struct route api_merge_routes[];  /* api_merge.c: flame, top, callers, lines */
extern const struct route api_graph_routes[];  /* api_graph.c: graph, stacks */
extern const struct route api_time_routes[];   /* api_time.c: timeline, function, heatmap */
extern const struct route api_diff_routes[];   /* api_diff.c: diff */
extern const struct route api_search_routes[]; /* api_search.c: search */
extern const struct route api_list_routes[];   /* api_lists.c: types, labels, series, services */
extern const struct route api_found_routes[];  /* api_found.c: profiles, spans, exemplars */
extern const struct route api_export_routes[]; /* api_export.c: profile.pb.gz and others */
extern const struct route api_file_routes[];   /* api_file.c: the same of a file in the body */
extern const struct route api_span_routes[];   /* api_spans.c: span_groups */
extern const struct route api_tag_routes[];    /* api_tags.c: tags */
extern const struct route api_source_routes[]; /* api_source.c: source, sources */
extern const struct route openapi_routes[];    /* openapi.c */
extern const struct route pyroscope_ingest_routes[];
extern const struct route push_routes[];
extern const struct route upload_routes[]; /* ingest_files.c */
extern const struct route web_routes[];    /* web_pages.c */
