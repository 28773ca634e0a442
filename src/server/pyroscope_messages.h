#pragma once

#include "base/vec.h"
#include "server/call.h"
#include "wire/proto_json.h"

/*
 * The messages of Pyroscope's services: what their questions hold, and the tables by which they are
 * read and written, as protobuf or as JSON (querier.proto, types.proto, setting.proto and
 * profile.proto of Pyroscope say the same).
 */
typedef VEC(struct bytes) text_list;

enum pyroscope_aggregation { PYROSCOPE_SUM = 0, PYROSCOPE_AVERAGE = 1 };

enum pyroscope_format {
    PYROSCOPE_FLAMEGRAPH = 1, /* 0 too */
    PYROSCOPE_TREE = 2,
    PYROSCOPE_DOT = 3,
    PYROSCOPE_PPROF = 4,
};

enum pyroscope_exemplars { PYROSCOPE_EXEMPLARS_INDIVIDUAL = 2, PYROSCOPE_EXEMPLARS_SPAN = 3 };

enum pyroscope_heat { PYROSCOPE_HEAT_INDIVIDUAL = 1, PYROSCOPE_HEAT_SPAN = 2 };

/* What any of the questions may hold. Texts borrow from the body, or from `plain`. */
struct pyroscope_request {
    struct budget *budget;
    struct buf plain; /* the message, where it came as JSON */

    struct bytes type_id, selector; /* profile_typeID, label_selector */
    struct bytes name, value;       /* of a label or a setting */
    struct bytes query;
    text_list matchers, label_names, group_by;
    text_list spans, traces, ids; /* samples of these alone */
    text_list call_site;          /* stack_trace_selector: outermost first */
    int64_t pgo_keep;             /* go_pgo: this many innermost frames */
    bool pgo_callees, has_pgo;
    int64_t start_ms, end_ms;
    int64_t max_nodes, limit;
    int64_t aggregation, format, exemplars, heat;
    double step_s;
};

/* Two of them, for Diff. */
struct pyroscope_diff_request {
    struct budget *budget;
    struct buf plain;
    struct pyroscope_request left, right;
};

extern const struct proto_field pyroscope_profile_types_request[];
extern const struct proto_field pyroscope_label_names_request[];
extern const struct proto_field pyroscope_label_values_request[];
extern const struct proto_field pyroscope_series_request[];
extern const struct proto_field pyroscope_stacktraces_request[];
extern const struct proto_field pyroscope_span_profile_request[];
extern const struct proto_field pyroscope_profile_request[];
extern const struct proto_field pyroscope_select_series_request[];
extern const struct proto_field pyroscope_heatmap_request[];
extern const struct proto_field pyroscope_diff_message[];
extern const struct proto_field pyroscope_analyze_request[];
extern const struct proto_field pyroscope_setting_request[];
extern const struct proto_field pyroscope_setting_delete_request[];
extern const struct proto_field pyroscope_empty_message[];

extern const struct proto_field pyroscope_profile_types_reply[];
extern const struct proto_field pyroscope_names_reply[];
extern const struct proto_field pyroscope_series_reply[];
extern const struct proto_field pyroscope_stacktraces_reply[];
extern const struct proto_field pyroscope_profile[]; /* google.v1.Profile */
extern const struct proto_field pyroscope_select_series_reply[];
extern const struct proto_field pyroscope_heatmap_reply[];
extern const struct proto_field pyroscope_diff_reply[];
extern const struct proto_field pyroscope_stats_reply[];
extern const struct proto_field pyroscope_analyze_reply[];
extern const struct proto_field pyroscope_settings_reply[];
extern const struct proto_field pyroscope_setting_reply[];
extern const struct proto_field pyroscope_version_reply[];

/* Reads the call's body. -EBADMSG with the place and the reason. *_done() is due either way. */
int pyroscope_request_read(struct call *c, const struct proto_field *message,
                           struct pyroscope_request *ret, struct error *err);
void pyroscope_request_done(struct pyroscope_request *q);
int pyroscope_diff_read(struct call *c, struct pyroscope_diff_request *ret, struct error *err);
void pyroscope_diff_done(struct pyroscope_diff_request *q);

/* Answers with a message, which is handed over: as it is, or as the JSON that the table makes of
 * it. */
int pyroscope_reply(struct call *c, const struct proto_field *message, struct buf *body,
                    struct error *err);

/* A field that is a double; 0 is left out. */
void pyroscope_put_double(struct buf *out, uint32_t field, double v);

/* types.v1.LabelPair as field `field`. */
void pyroscope_put_label(struct buf *out, uint32_t field, struct bytes name, struct bytes value);
