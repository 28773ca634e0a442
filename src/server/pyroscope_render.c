#include <errno.h>

#include "base/clock.h"
#include "query/time_range.h"
#include "server/pyroscope_query.h"
#include "wire/json.h"

/* /pyroscope/render and its kin: questions in the query string, answers in the JSON of a
 * "flamebearer". */
#define SECOND_NS     ((int64_t)1000000000)
#define TIMELINE_STEP (15 * SECOND_NS)
#define TIMELINE_WANT 1500
#define TIMELINE_MAX  100000 /* points */

/* ---- Parameters */

struct param_names {
    const char *query, *from, *until;
};

static int take_time(struct call *c, const char *name, int64_t *ret_ms, struct error *err)
{
    struct bytes text;
    int64_t now = clock_wall_ns(clock_real()), ns = now;
    if (call_param(c, name, &text) && text.len > 0) {
        int r = time_parse(text, now, &ns, err);
        if (r < 0)
            return error_prefix(err, r, "%s", name);
    }
    *ret_ms = ns / 1000000;
    return 0;
}

static int take_number(struct call *c, const char *name, int64_t *ret, struct error *err)
{
    struct bytes text;
    if (!call_param(c, name, &text) || text.len == 0)
        return 0;
    if (!bytes_to_i64(text, ret))
        return error_set(err, -EINVAL, "%s is \"%.*s\": expected a number", name,
                         (int)(text.len < 40 ? text.len : 40), (const char *)text.data);
    return 0;
}

static int take_params(struct call *c, const struct param_names *names,
                       struct pyroscope_request *ret, struct error *err)
{
    struct bytes query = {0};
    struct pyroscope_type type;
    *ret = (struct pyroscope_request){.budget = &c->budget};
    if (!call_param(c, names->query, &query) || query.len == 0)
        return error_set(err, -EINVAL, "%s is missing: NAME:TYPE:UNIT:PERIOD_TYPE:PERIOD_UNIT{...}",
                         names->query);
    pyroscope_query_split(query, &ret->type_id, &ret->selector);
    int r = pyroscope_id_parse(ret->type_id, &type, err);
    if (r < 0)
        return error_prefix(err, r, "%s", names->query);
    r = take_time(c, names->from, &ret->start_ms, err);
    if (r == 0)
        r = take_time(c, names->until, &ret->end_ms, err);
    if (r == 0)
        r = take_number(c, "max-nodes", &ret->max_nodes, err);
    if (r == 0)
        r = take_number(c, "maxNodes", &ret->max_nodes, err);
    return r;
}

/* ---- The parts of a flamebearer */

static bool is_counted(struct bytes type)
{
    static const char *const counted[] = {"inuse_objects", "alloc_objects", "goroutine", "samples"};
    for (size_t i = 0; i < ARRAY_SIZE(counted); i++)
        if (bytes_are(type, counted[i]))
            return true;
    return false;
}

/* Pyroscope calls CPU time samples, of which there are 1e9 in a second. */
static void add_metadata(struct json_writer *w, const struct pyroscope_request *q,
                         const char *format)
{
    struct pyroscope_type t = {0};
    (void)pyroscope_id_parse(q->type_id, &t, NULL);
    bool is_cpu = bytes_are(t.type, "cpu");

    json_key(w, "metadata");
    json_begin_object(w);
    json_key(w, "format");
    json_cstring(w, format);
    json_key(w, "spyName");
    json_cstring(w, "");
    json_key(w, "sampleRate");
    json_u64(w, is_cpu ? 1000000000 : 100);
    json_key(w, "units");
    json_string(w, is_cpu ? BYTES("samples") : is_counted(t.type) ? BYTES("objects") : t.unit);
    json_key(w, "name");
    json_string(w, t.type);
    json_end_object(w);
}

/* One group of a series, or none, as a number for every step of the range. */
static void add_timeline(struct json_writer *w, const struct pyroscope_request *q,
                         const struct pyroscope_series *s, const struct series_group *g)
{
    int64_t step_ms = s->step_ns >= 1000000 ? s->step_ns / 1000000 : 1;
    int64_t start_ms = q->start_ms - (q->start_ms % step_ms + step_ms) % step_ms;
    size_t i = g ? g->first : 0, end = g ? g->first + g->n : 0;

    json_begin_object(w);
    json_key(w, "startTime");
    json_i64(w, start_ms / 1000);
    json_key(w, "samples");
    json_begin_array(w);
    for (int64_t at = start_ms; at < q->end_ms; at += step_ms) {
        double value = 0;
        for (; i < end && s->answer->cells.data[i].start_ns / 1000000 < at + step_ms; i++)
            value += s->values.data[i];
        json_u64(w, value > 0 && value < 0x1p63 ? (uint64_t)value : 0);
    }
    json_end_array(w);
    json_key(w, "durationDelta");
    json_i64(w, step_ms / 1000);
    json_key(w, "watermarks");
    json_null(w);
    json_end_object(w);
}

static void add_groups(struct json_writer *w, const struct pyroscope_request *q,
                       const struct pyroscope_series *s)
{
    if (q->group_by.len == 0) {
        json_null(w);
        return;
    }
    json_begin_object(w);
    for (size_t i = 0; i < s->groups.len; i++) {
        const struct series_group *g = &s->groups.data[i];
        struct bytes value = s->answer->groups.data[s->answer->cells.data[g->first].group]->value;
        json_key_bytes(w, value.len > 0 ? value : BYTES("*"));
        add_timeline(w, q, s, g);
    }
    json_end_object(w);
}

/* ---- /pyroscope/render */

static int render_dot(struct call *c, const struct pyroscope_request *q, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_memory_done) struct pyroscope_memory m;
    struct profile *p = NULL;

    pyroscope_memory_init(&m, c);
    int r = pyroscope_stacks(c, q, m.set, &p, err);
    if (r == 0 && p)
        r = pyroscope_dot(p, q->max_nodes, &out, err);
    if (r == 0)
        call_reply(c, "text/plain; charset=utf-8", &out);
    return r;
}

static int read_timeline(struct call *c, struct pyroscope_request *q, struct pyroscope_series *ret,
                         struct error *err)
{
    struct bytes text;
    if (call_param(c, "groupBy", &text) && text.len > 0 &&
        !vec_push(&c->budget, &q->group_by, text))
        return budget_error(&c->budget, err);
    if (call_param(c, "aggregation", &text) && bytes_are(text, "avg"))
        q->aggregation = PYROSCOPE_AVERAGE;
    int64_t step = time_step_for(q->start_ms * 1000000, q->end_ms * 1000000, TIMELINE_WANT);
    step = step < TIMELINE_STEP ? TIMELINE_STEP : step;
    if ((q->end_ms - q->start_ms) / (step / 1000000) > TIMELINE_MAX)
        return error_set(err, -EINVAL, "the range is too long for a timeline");
    q->step_s = (double)step / (double)SECOND_NS;
    return pyroscope_series_read(c, q, ret, err);
}

static int render_json(struct call *c, struct pyroscope_request *q, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_memory_done) struct pyroscope_memory m;
    CLEANUP(flame_bars_done) struct flame_bars f = {0};
    CLEANUP(pyroscope_series_done) struct pyroscope_series s = {0};
    struct json_writer w = {.out = &out};
    struct profile *p = NULL;
    size_t max_nodes = 0;

    pyroscope_memory_init(&m, c);
    int r = pyroscope_max_nodes(q->max_nodes, &max_nodes, err);
    if (r == 0)
        r = pyroscope_stacks(c, q, m.set, &p, err);
    if (r == 0 && p)
        r = flame_bars_build(p, max_nodes, &f, err);
    if (r == 0)
        r = read_timeline(c, q, &s, err);
    if (r < 0)
        return r;
    json_begin_object(&w);
    json_key(&w, "version");
    json_u64(&w, 1);
    json_key(&w, "flamebearer");
    flame_bars_json(p ? &f : NULL, &w);
    add_metadata(&w, q, "single");
    json_key(&w, "timeline");
    add_timeline(&w, q, &s, s.groups.len == 1 ? &s.groups.data[0] : NULL);
    json_key(&w, "groups");
    add_groups(&w, q, &s);
    json_key(&w, "heatmap");
    json_null(&w);
    json_end_object(&w);
    if (buf_full(&out))
        return buf_error(&out, err);
    call_reply(c, "application/json", &out);
    return 0;
}

int pyroscope_render(struct call *c, struct error *err)
{
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    struct bytes format = {0};
    int r = take_params(c, &(struct param_names){"query", "from", "until"}, &q, err);
    if (r < 0)
        return r;
    (void)call_param(c, "format", &format);
    return bytes_are(format, "dot") ? render_dot(c, &q, err) : render_json(c, &q, err);
}

/* ---- /pyroscope/render-diff */

static int check_types(const struct pyroscope_diff_request *q, struct error *err)
{
    if (bytes_equal(q->left.type_id, q->right.type_id))
        return 0;
    return error_set(err, -EINVAL, "profile types must match: \"%.*s\" and \"%.*s\"",
                     (int)(q->left.type_id.len < 100 ? q->left.type_id.len : 100),
                     (const char *)q->left.type_id.data,
                     (int)(q->right.type_id.len < 100 ? q->right.type_id.len : 100),
                     (const char *)q->right.type_id.data);
}

int pyroscope_render_diff(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_memory_done) struct pyroscope_memory m;
    CLEANUP(flame_bars_done) struct flame_bars f = {0};
    struct pyroscope_diff_request q = {.budget = &c->budget};
    struct json_writer w = {.out = &out};

    pyroscope_memory_init(&m, c);
    int r =
        take_params(c, &(struct param_names){"leftQuery", "leftFrom", "leftUntil"}, &q.left, err);
    if (r == 0)
        r = take_params(c, &(struct param_names){"rightQuery", "rightFrom", "rightUntil"}, &q.right,
                        err);
    if (r == 0)
        r = check_types(&q, err);
    if (r == 0)
        r = pyroscope_compare(c, &q, m.set, &f, err);
    if (r < 0)
        return r;
    json_begin_object(&w);
    json_key(&w, "version");
    json_u64(&w, 1);
    json_key(&w, "flamebearer");
    flame_bars_json(&f, &w);
    add_metadata(&w, &q.left, "double");
    static const char *const none[] = {"timeline", "groups", "heatmap"};
    for (size_t i = 0; i < ARRAY_SIZE(none); i++) {
        json_key(&w, none[i]);
        json_null(&w);
    }
    json_key(&w, "leftTicks");
    json_i64(&w, f.total[0]);
    json_key(&w, "rightTicks");
    json_i64(&w, f.total[1]);
    json_end_object(&w);
    if (buf_full(&out))
        return buf_error(&out, err);
    call_reply(c, "application/json", &out);
    return 0;
}

/* ---- /pyroscope/label-values */

static void add_value(void *ctx, struct bytes name)
{
    json_string(ctx, name);
}

/* Of __name__ the ids of all profile types, as it always was. */
int pyroscope_label_values(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    struct json_writer w = {.out = &out};
    struct pyroscope_request q = {.budget = &c->budget};

    if (!call_param(c, "label", &q.name) || q.name.len == 0)
        return error_set(err, -EINVAL, "label is missing: the name of a label");
    if (bytes_are(q.name, "__name__"))
        q.name = BYTES("__profile_type__");
    json_begin_array(&w);
    int r = pyroscope_label_values_of(c, &q, add_value, &w, err);
    json_end_array(&w);
    if (r == 0)
        call_reply(c, "application/json", &out);
    return r;
}
