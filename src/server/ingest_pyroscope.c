/*
 * /ingest of Pyroscope: what its agents have sent since its first days. The query string says whose
 * profile it is and when it was taken; the body is a profile, or a form with one.
 */
#include <errno.h>

#include "base/clock.h"
#include "formats/formats.h"
#include "formats/jfr.h"
#include "net/multipart.h"
#include "profile/subtract.h"
#include "query/time_range.h"
#include "server/pyroscope_batch.h"
#include "server/pyroscope_name.h"
#include "server/routes.h"
#include "server/server_internal.h"

#define DEFAULT_RATE 100

struct request {
    struct call *c;
    struct batch batch;
    struct pyroscope_name name;
    struct label labels[PYROSCOPE_LABELS_MAX + 4];
    struct bytes spy, units;
    uint32_t rate;
    int64_t from_ns, until_ns;
    bool is_average;
    const struct format *format; /* NULL: by content */

    /* The parts of a form; a body that is none is `profile`. */
    struct bytes profile, before, config, jfr_labels;
    struct sample_configs configs;
};

/* ---- The query string */

static int read_time(struct call *c, const char *name, int64_t now_ns, int64_t *ret,
                     struct error *err)
{
    struct bytes text;

    if (!call_param(c, name, &text) || text.len == 0)
        return 0;
    int r = time_parse(text, now_ns, ret, err);
    return r < 0 ? error_prefix(err, r, "%s", name) : 0;
}

static int read_format(struct request *q, struct error *err)
{
    static const struct {
        const char *name;
        const struct format *format;
    } names[] = {
        {"pprof", &format_pprof},
        {"jfr", &format_jfr},
        {"speedscope", &format_speedscope},
        {"trie", &format_pyroscope_trie},
        {"tree", &format_pyroscope_tree},
        {"lines", &format_pyroscope_lines},
        {"groups", &format_pyroscope_groups},
        {"folded", &format_pyroscope_groups},
        {"collapsed", &format_pyroscope_groups},
    };
    struct bytes type = http_media_type(call_header(q->c, "content-type")), text = {0};

    if (call_param(q->c, "format", &text) && text.len > 0) {
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
            if (bytes_are(text, names[i].name)) {
                q->format = names[i].format;
                return 0;
            }
        }
        return error_set(err, -EINVAL,
                         "format \"%.*s\" is none of pprof, jfr, speedscope, trie, tree, lines and "
                         "groups",
                         text.len > 40 ? 40 : (int)text.len, (const char *)text.data);
    }
    if (bytes_are(type, "binary/octet-stream+trie"))
        q->format = &format_pyroscope_trie;
    else if (bytes_are(type, "binary/octet-stream+tree"))
        q->format = &format_pyroscope_tree;
    return 0;
}

static int read_query(struct request *q, struct error *err)
{
    int64_t now_ns = clock_wall_ns(clock_real());
    struct bytes name = {0}, rate, aggregation = {0};
    uint64_t number;

    if (!call_param(q->c, "name", &name))
        return error_set(err, -EINVAL, "the parameter name is missing: name=app{key=value,...}");
    int r = pyroscope_name_parse(name, &q->name, err);
    if (r == 0)
        r = read_time(q->c, "from", now_ns, &q->from_ns, err);
    if (r == 0)
        r = read_time(q->c, "until", now_ns, &q->until_ns, err);
    if (r == 0)
        r = read_format(q, err);
    if (r < 0)
        return r;
    q->rate = DEFAULT_RATE;
    if (call_param(q->c, "sampleRate", &rate) && rate.len > 0) {
        if (!bytes_to_u64(rate, &number) || number > 1000000000)
            return error_set(err, -EINVAL, "sampleRate is not a number of samples a second");
        q->rate = (uint32_t)number;
    }
    (void)call_param(q->c, "spyName", &q->spy);
    (void)call_param(q->c, "units", &q->units);
    (void)call_param(q->c, "aggregationType", &aggregation);
    q->is_average = bytes_start_with(aggregation, BYTES("av"));
    return 0;
}

/* ---- The body */

static int read_form(struct request *q, struct error *err)
{
    struct multipart m;
    struct multipart_part p;
    struct bytes jfr = {0};
    int r = multipart_begin(call_header(q->c, "content-type"), q->c->body, &m, err);

    while (r == 0 && (r = multipart_next(&m, &p, err)) > 0) {
        const struct {
            const char *name;
            struct bytes *to;
        } fields[] = {
            {"profile", &q->profile},           {"prev_profile", &q->before},
            {"sample_type_config", &q->config}, {"jfr", &jfr},
            {"labels", &q->jfr_labels},
        };
        r = 0;
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
            if (bytes_are(p.name, fields[i].name))
                *fields[i].to = p.content;
        }
    }
    if (r < 0)
        return r;
    if (jfr.data) {
        q->profile = jfr;
        q->format = &format_jfr;
    } else if (!q->profile.data) {
        return error_set(err, -EBADMSG, "the form has no part \"profile\" and none \"jfr\"");
    }
    if (!q->format)
        q->format = &format_pprof;
    return 0;
}

static bool is_form(const struct call *c)
{
    return bytes_are(http_media_type(call_header(c, "content-type")), "multipart/form-data");
}

static int read_body(struct request *q, struct error *err)
{
    if (is_form(q->c))
        return read_form(q, err);
    q->profile = q->c->body;
    return 0;
}

/* ---- Profiles */

/* Whoever names no format sends stacks and counts, unless the content says otherwise. */
static const struct format *guess(struct bytes content)
{
    const struct format *f = format_detect(bytes_head(content, INPUT_PEEK_BYTES));
    bool is_known = f == &format_pprof || f == &format_pprof_legacy || f == &format_jfr ||
                    f == &format_speedscope;
    return is_known ? f : &format_pyroscope_groups;
}

static int decode(struct request *q, struct bytes content, const char *what, struct error *err)
{
    CLEANUP(input_closep) struct input *in = input_from_bytes(content, what, &q->c->budget);
    struct bytes head;

    if (!q->format) {
        int r = input_peek(in, &head, err);
        if (r < 0)
            return error_prefix(err, r, "%s", what);
        q->format = guess(head);
    }
    return format_read(in, q->format, q->batch.set, NULL, err);
}

/* Takes the profile before off what counts since the process began. */
static int subtract(struct request *q, struct error *err)
{
    struct profile_set *set = q->batch.set;
    bool is_cumulative[PROFILE_TYPES_MAX] = {false};
    int r = decode(q, q->before, "prev_profile", err);
    if (r < 0)
        return r;
    struct profile *p = set->profiles.data[0];
    for (uint32_t i = 0; i < p->n_types; i++) {
        const struct sample_config *c =
            sample_config_of(&q->configs, dict_text(p->dict, p->types[i].type));
        is_cumulative[i] = c && c->is_cumulative;
    }
    r = profile_subtract(p, set->profiles.data[1], is_cumulative, err);
    profile_set_truncate(set, 1);
    return r;
}

static int apply_labels(struct request *q, struct error *err)
{
    struct bytes snapshot = {0};

    if (q->jfr_labels.len == 0) /* numbers that nothing explains mean nothing */
        return jfr_apply_labels(q->batch.set, 0, snapshot, err);
    CLEANUP(input_closep)
    struct input *in = input_from_bytes(q->jfr_labels, "labels", &q->c->budget);
    int r = input_all(in, &snapshot, err);
    return r < 0 ? error_prefix(err, r, "labels")
                 : jfr_apply_labels(q->batch.set, 0, snapshot, err);
}

/* .NET's agent wrote inuse-space and the like. */
static void fix_type_names(struct request *q)
{
    struct profile_set *set = q->batch.set;

    for (size_t i = 0; i < set->profiles.len; i++) {
        struct profile *p = set->profiles.data[i];
        for (uint32_t t = 0; t < p->n_types; t++) {
            CLEANUP(buf_done) struct buf name = {0};
            buf_add_bytes(&name, dict_text(p->dict, p->types[t].type));
            for (size_t k = 0; k < name.len; k++)
                name.data[k] = name.data[k] == '-' ? '_' : name.data[k];
            p->types[t].type = dict_string(p->dict, buf_bytes(&name));
        }
    }
}

/* Go's block profiles have the types of its mutex profiles; what they are shown as tells them
 * apart. */
static struct bytes kind_of(const struct request *q)
{
    for (size_t i = 0; i < q->configs.n; i++) {
        struct bytes shown = q->configs.all[i].display_name;
        if (bytes_start_with(shown, BYTES("block_")))
            return BYTES("block");
        if (bytes_start_with(shown, BYTES("mutex_")))
            return BYTES("mutex");
    }
    return (struct bytes){0};
}

static int decode_all(struct request *q, struct batch_about *about, struct error *err)
{
    struct profile_set *set = q->batch.set;
    int r = q->config.len > 0 ? sample_configs_parse(q->c, q->config, &q->configs, err) : 0;
    if (r == 0)
        r = decode(q, q->profile, is_form(q->c) ? "profile" : "the body", err);
    if (r < 0)
        return r;

    if (q->format == &format_pprof) {
        about->configs = &q->configs;
        about->kind = kind_of(q);
        about->splits = true;
        about->has_before = q->before.len > 0;
        if (bytes_are(q->spy, "dotnetspy"))
            fix_type_names(q);
        if (about->has_before)
            r = subtract(q, err);
    } else if (q->format == &format_jfr) {
        r = apply_labels(q, err);
    } else {
        const struct pyroscope_measure *m = pyroscope_measure_of(&q->name.app, q->units);
        if (q->format != &format_speedscope && q->format != &format_pprof_legacy) {
            about->kind = bytes_of(m->kind);
            about->is_instant = m->is_instant;
            r = pyroscope_measure_apply(m, q->rate, set->profiles.data[0], err);
        }
    }
    about->is_instant |= q->is_average;
    return r;
}

/* The application names the service unless a label does. */
static size_t make_labels(struct request *q)
{
    const char *language = pyroscope_language(q->spy);
    size_t n = 0;

    q->labels[n++] = (struct label){BYTES(LABEL_SERVICE), q->name.app};
    if (q->spy.len > 0)
        q->labels[n++] = (struct label){BYTES("pyroscope_spy"), q->spy};
    if (language)
        q->labels[n++] = (struct label){BYTES("telemetry.sdk.language"), bytes_of(language)};
    for (size_t i = 0; i < q->name.n_labels; i++) {
        struct label l = q->name.labels[i];
        if (bytes_start_with(l.name, BYTES("__"))) /* Pyroscope's own */
            continue;
        if (bytes_are(ingest_label_name(l.name), LABEL_SERVICE) && l.value.len > 0)
            q->labels[0].value = l.value;
        else
            q->labels[n++] = l;
    }
    return n;
}

static int store(struct request *q, const struct batch_about *about, struct error *err)
{
    struct ingest_options o = {.format = q->format->name,
                               .labels = q->labels,
                               .n_labels = make_labels(q),
                               .from_ns = q->from_ns,
                               .until_ns = q->until_ns};
    int r = batch_add(&q->batch, 0, about, err);
    return r == 0 ? batch_store(&q->batch, &o, err) : r;
}

static int ingest(struct request *q, struct error *err)
{
    struct batch_about about = {0};
    int r = read_query(q, err);
    if (r == 0)
        r = read_body(q, err);
    if (r < 0)
        return r;
    if (q->profile.len == 0) /* an agent that saw nothing happen */
        return 0;
    r = decode_all(q, &about, err);
    return r == 0 ? store(q, &about, err) : r;
}

static int handle_ingest(struct call *c, struct error *err)
{
    struct request *q = arena_new(call_arena(c), struct request, 1);
    struct buf nothing = {0};

    if (!q)
        return budget_error(&c->budget, err);
    q->c = c;
    batch_init(&q->batch, c);
    int r = ingest(q, err);
    batch_done(&q->batch);
    if (r == 0)
        call_reply(c, "text/plain", &nothing);
    return r;
}

static const char params[] = "name!: app{key=value,...}; from: time; until: time; "
                             "format: pprof, jfr, speedscope, trie, tree, lines or groups; "
                             "sampleRate: samples a second; units: what samples count; "
                             "spyName: the agent; aggregationType: sum or average";

const struct route pyroscope_ingest_routes[] = {
    {"POST", "/ingest", ROLE_INGEST, LANE_INGEST, DIALECT_PLAIN, 0, handle_ingest, 0,
     "a profile as Pyroscope's agents send it", params},
    {"POST", "/pyroscope/ingest", ROLE_INGEST, LANE_INGEST, DIALECT_PLAIN, 0, handle_ingest, 0,
     NULL, NULL},
    {0},
};
