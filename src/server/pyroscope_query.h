#pragma once

#include "server/pyroscope_flame.h"
#include "server/pyroscope_labels.h"

/* What the files of the Pyroscope query API share. */

/* What a request asks about: its range, selection and, where it names one, its profile type. */
struct pyroscope_scope {
    struct query all;   /* everything the tenant has in the range */
    struct query query; /* what was selected of it */
    struct pyroscope_names names;
    struct pyroscope_type type;
    struct pyroscope_selection selection;
    bool is_empty;        /* nothing can be selected */
    struct error trouble; /* why the answer is incomplete, if it is */
};

/* The selection of a request that lists: `texts` are its matchers. Without a start or an end all
 * there is is meant. pyroscope_scope_done() is due either way, as with the next. */
int pyroscope_scope_list(struct call *c, const struct pyroscope_request *q,
                         const struct bytes *texts, size_t n, struct pyroscope_scope *ret,
                         struct error *err);

/* The selection of a request that names a type and a range; both are needed. */
int pyroscope_scope_select(struct call *c, const struct pyroscope_request *q,
                           struct pyroscope_scope *ret, struct error *err);
void pyroscope_scope_done(struct pyroscope_scope *s);

/* Says that an answer is incomplete in a header: the messages have no place for it. */
void pyroscope_tell_trouble(struct call *c, const struct error *trouble);

/*
 * The stacks that a request asks for, merged into one profile of `set`, which owns it: of spans,
 * traces or profiles where it names them, below a call site where it names one. *ret is NULL when
 * there is nothing.
 */
int pyroscope_stacks(struct call *c, const struct pyroscope_request *q, struct profile_set *set,
                     struct profile **ret, struct error *err);

struct series_group {
    size_t first, n; /* cells */
    double total;
};

/* Values over time: cells of an answer, grouped. */
struct pyroscope_series {
    struct store_answer *answer;
    int64_t step_ns;
    VEC(struct series_group) groups; /* largest first, as many as the limit allows */
    VEC(double) values;              /* of the cells */
    struct budget budget;
};

/* The labels to group by, as they are kept. -EINVAL past PYROSCOPE_GROUP_MAX. */
#define PYROSCOPE_GROUP_MAX 16
int pyroscope_group_names(struct pyroscope_scope *scope, const text_list *names,
                          struct bytes to[PYROSCOPE_GROUP_MAX], struct error *err);

/* The step of a request, at least a millisecond; -EINVAL. */
int pyroscope_step(const struct pyroscope_request *q, int64_t *ret, struct error *err);

int pyroscope_series_read(struct call *c, const struct pyroscope_request *q,
                          struct pyroscope_series *ret, struct error *err);
void pyroscope_series_done(struct pyroscope_series *s);

/* Only the stacks that begin with the request's call site, if it has one. */
int pyroscope_filter_call_site(const struct pyroscope_request *q, struct profile *p,
                               struct error *err);

/* Both sides of a comparison; `set` outlives the bars. */
int pyroscope_compare(struct call *c, const struct pyroscope_diff_request *q,
                      struct profile_set *set, struct flame_bars *ret, struct error *err);

/* How many nodes a flame graph may have: Pyroscope's default where a request does not say, 0 for
 * all (it says a negative number). -EINVAL past PYROSCOPE_NODES_MAX. */
#define PYROSCOPE_NODES     8192
#define PYROSCOPE_NODES_MAX (1 << 20)
int pyroscope_max_nodes(int64_t asked, size_t *ret, struct error *err);

/* A profile as a call graph for Graphviz, of at most max_nodes functions. */
int pyroscope_dot(const struct profile *p, int64_t max_nodes, struct buf *out, struct error *err);

/* A set for an answer, with the memory that a query may use. */
struct pyroscope_memory {
    struct budget budget;
    struct profile_set *set;
};
void pyroscope_memory_init(struct pyroscope_memory *m, const struct call *c);
void pyroscope_memory_done(struct pyroscope_memory *m);

/* Handlers of SelectMerge..., SelectSeries and Diff (pyroscope_select.c) and of SelectHeatmap
 * (pyroscope_heatmap.c). */
int pyroscope_select_stacktraces(struct call *c, struct error *err);
int pyroscope_select_span_profile(struct call *c, struct error *err);
int pyroscope_select_profile(struct call *c, struct error *err);
int pyroscope_select_series(struct call *c, struct error *err);
int pyroscope_diff(struct call *c, struct error *err);
int pyroscope_select_heatmap(struct call *c, struct error *err);

/* /pyroscope/... (pyroscope_render.c) and settings.v1 (pyroscope_settings.c). */
int pyroscope_render(struct call *c, struct error *err);
int pyroscope_render_diff(struct call *c, struct error *err);
int pyroscope_label_values(struct call *c, struct error *err);
int pyroscope_settings_get(struct call *c, struct error *err);
int pyroscope_settings_set(struct call *c, struct error *err);
int pyroscope_settings_delete(struct call *c, struct error *err);

/* Lists, for /pyroscope/label-values too. `sink` gets each name once, sorted. */
typedef void (*pyroscope_name_fn)(void *ctx, struct bytes name);
int pyroscope_label_values_of(struct call *c, const struct pyroscope_request *q,
                              pyroscope_name_fn sink, void *ctx, struct error *err);
