#pragma once

#include "server/pyroscope_query.h"

/*
 * Profiles one by one, as heat maps count them and exemplars show them: when, how much, which; with
 * query type SPAN a point for each span of a profile instead.
 */
struct pyroscope_point {
    uint32_t group;
    int64_t time_ms;
    int64_t value;
    bool has_id;
    uint8_t id[16], trace_id[16], span_id[8]; /* zero: none */
    struct bytes labels; /* encoded as Exemplar.labels: those that the group does not have */
};

struct pyroscope_points {
    struct budget budget;
    struct arena text;
    VEC(struct pyroscope_point) all; /* by group, then time */
    VEC(struct bytes) groups;        /* labels of each, encoded as field 1 */
};

/* All points that a request selects, with labels when `with_labels`. -ENOBUFS when there are too
 * many of them; pyroscope_points_done() is due either way. */
int pyroscope_points_read(struct call *c, const struct pyroscope_request *q, bool with_labels,
                          struct pyroscope_points *ret, struct error *err);
void pyroscope_points_done(struct pyroscope_points *p);

/* types.v1.Exemplar as field 4. */
void pyroscope_put_exemplar(const struct pyroscope_point *p, struct buf *out);
