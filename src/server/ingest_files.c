/*
 * Files as they are: a profile in any format, told by its content, with labels from the query
 * string. Of a heap snapshot only the summary is stored.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/clock.h"
#include "formats/formats.h"
#include "profile/span_links.h"
#include "query/json_answers.h"
#include "query/time_range.h"
#include "server/heap_keep.h"
#include "server/ingest.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "wire/json.h"

#define LABELS_MAX 256

struct upload {
    struct call *c;
    const struct format *format; /* NULL until it is known, unless it was named */
    struct label labels[LABELS_MAX];
    struct ingest_options options;
    bool is_retimed; /* its times are moved: an old file is kept from now on */
    struct ingest_result result;
};

/* ---- The query string */

static bool is_true(struct bytes value)
{
    return value.len == 0 || bytes_are(value, "1") || bytes_are(value, "true");
}

static int name_format(struct upload *u, struct bytes name, struct error *err)
{
    const char *text = arena_strdup(call_arena(u->c), name);

    if (!text)
        return budget_error(&u->c->budget, err);
    u->format = format_by_name(text);
    if (!u->format || !u->format->decode)
        return error_set(err, -EINVAL, "no format \"%.40s\" can be read", text);
    return 0;
}

/* Parameters of our own; everything else is a label. */
static int read_param(struct upload *u, struct bytes name, struct bytes value, bool *ret_is_ours,
                      struct error *err)
{
    int64_t now_ns = clock_wall_ns(clock_real());
    int r = 0;

    *ret_is_ours = true;
    if (bytes_are(name, "from"))
        r = time_parse(value, now_ns, &u->options.from_ns, err);
    else if (bytes_are(name, "until"))
        r = time_parse(value, now_ns, &u->options.until_ns, err);
    else if (bytes_are(name, "format"))
        return name_format(u, value, err);
    else if (bytes_are(name, "instant"))
        u->options.is_instant = is_true(value);
    else if (bytes_are(name, "retime"))
        u->is_retimed = is_true(value);
    else
        *ret_is_ours = false;
    return r < 0 ? error_prefix(err, r, "%.*s", (int)name.len, (const char *)name.data) : 0;
}

static int add_label(struct upload *u, struct bytes name, struct bytes value, struct error *err)
{
    struct arena *arena = call_arena(u->c);

    if (bytes_start_with(name, BYTES("label.")))
        name = bytes_from(name, 6);
    if (name.len == 0)
        return error_set(err, -EINVAL, "a label without a name");
    if (u->options.n_labels == LABELS_MAX)
        return error_set(err, -EINVAL, "more than %d labels", LABELS_MAX);
    const char *name_copy = arena_strdup(arena, name), *value_copy = arena_strdup(arena, value);
    if (!name_copy || !value_copy)
        return budget_error(&u->c->budget, err);
    u->labels[u->options.n_labels++] = (struct label){{(const uint8_t *)name_copy, name.len},
                                                      {(const uint8_t *)value_copy, value.len}};
    return 0;
}

static int read_query(struct upload *u, struct error *err)
{
    CLEANUP(buf_done) struct buf scratch = {.budget = &u->c->budget};
    struct bytes rest = u->c->request->query, name, value;
    int r = 0;

    while (r == 0 && http_query_next(&rest, &scratch, &name, &value)) {
        bool is_ours;
        r = read_param(u, name, value, &is_ours, err);
        if (r == 0 && !is_ours)
            r = add_label(u, name, value, err);
        buf_clear(&scratch);
    }
    return r;
}

/* ---- The body */

/* Only snapshots may be as large as uploads are; nothing else is read bit by bit. */
static int check_size(const struct upload *u, struct error *err)
{
    uint64_t limit = u->c->server->config->body_limit, len = u->c->request->body_len;

    if (u->format == &format_heapsnapshot || len <= limit)
        return 0;
    return error_set(err, -EFBIG,
                     "the body of %" PRIu64 " bytes is larger than limits.body, %" PRIu64
                     ": only heap snapshots may be",
                     len, limit);
}

static int read_body(struct upload *u, struct error *err)
{
    struct profile_set *set = u->c->worker->source->set;
    CLEANUP(input_closep) struct input *in = NULL;
    struct bytes head = {0};

    int r = call_input(u->c, "the body", &in, err);
    if (r == 0)
        r = input_peek(in, &head, err);
    if (r < 0)
        return r;
    const struct format *found = u->format ? u->format : format_detect(head);
    if (found) {
        u->format = found;
        r = check_size(u, err);
    }
    if (r == 0)
        r = format_read(in, u->format, set, &u->format, err);
    return r == 0 ? span_links_make(set, 0, err) : r;
}

/* ---- Times */

static int64_t end_of(const struct profile *p)
{
    int64_t end;
    return __builtin_add_overflow(p->time_unix_ns, p->duration_ns, &end) ? p->time_unix_ns : end;
}

/* Moves all times by the same, so that the last profile ends at `until`, or now. Those without a
 * time get theirs later on. */
static void retime(const struct upload *u, struct profile_set *set)
{
    int64_t until = u->options.until_ns, last = INT64_MIN;
    uint64_t by;

    for (size_t i = 0; i < set->profiles.len; i++) {
        const struct profile *p = set->profiles.data[i];
        if (p->time_unix_ns != 0 && end_of(p) > last)
            last = end_of(p);
    }
    by = (uint64_t)(until > 0 ? until : clock_wall_ns(clock_real())) - (uint64_t)last;
    for (size_t i = 0; i < set->profiles.len; i++) {
        struct profile *p = set->profiles.data[i];
        if (p->time_unix_ns == 0)
            continue;
        p->time_unix_ns = (int64_t)((uint64_t)p->time_unix_ns + by);
        for (size_t k = 0; p->time_ns && k < p->n_samples; k++)
            p->time_ns[k] += p->time_ns[k] != 0 ? by : 0;
    }
}

/* ---- The reply */

static void write_result(const struct upload *u, const char *kept, struct buf *out)
{
    const struct ingest_result *result = &u->result;
    const struct profile_set *set = u->c->worker->source->set;
    struct json_writer w = {.out = out};

    json_begin_object(&w);
    json_key(&w, "format");
    json_cstring(&w, u->format->name);
    json_key(&w, "profiles");
    json_u64(&w, result->profiles);
    json_key(&w, "stored");
    json_u64(&w, result->stored);
    json_key(&w, "duplicates");
    json_u64(&w, result->duplicates);
    json_key(&w, "rejected");
    json_u64(&w, result->rejected);
    if (result->rejected > 0) {
        json_key(&w, "why");
        json_cstring(&w, result->why.text);
    }
    if (result->until_ns > 0) {
        json_key(&w, "from_ns");
        json_i64_string(&w, result->from_ns);
        json_key(&w, "until_ns");
        json_i64_string(&w, result->until_ns);
        json_labels(&w, "labels", result->labels, result->n_labels);
    }
    if (kept[0]) {
        json_key(&w, "kept");
        json_cstring(&w, kept);
    }
    json_key(&w, "notes");
    json_begin_array(&w);
    for (size_t i = 0; i < set->notes.len; i++)
        json_cstring(&w, set->notes.data[i]);
    json_end_array(&w);
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

static int upload(struct upload *u, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    char kept[HEAP_KEEP_NAME_MAX] = "";

    int r = read_query(u, err);
    if (r == 0)
        r = read_body(u, err);
    if (r < 0)
        return r;
    if (u->is_retimed)
        retime(u, u->c->worker->source->set);
    u->options.format = u->format->name;
    u->options.labels = u->labels;
    r = ingest_set(u->c, &u->options, &u->result, err);
    if (r == 0 && u->format == &format_heapsnapshot && u->result.stored > 0 &&
        u->c->server->config->keep_heap_snapshots)
        r = heap_keep(u->c, u->labels, u->options.n_labels, kept, err);
    if (r < 0)
        return r;
    if (u->result.rejected > 0 && u->result.stored + u->result.duplicates == 0)
        u->c->reply.status = 422;
    write_result(u, kept, &out);
    call_reply(u->c, "application/json", &out);
    return 0;
}

static int handle_upload(struct call *c, struct error *err)
{
    struct upload *u = arena_new(call_arena(c), struct upload, 1);

    if (!u)
        return budget_error(&c->budget, err);
    u->c = c;
    return upload(u, err);
}

static const char params[] =
    "service.name: the service; any other name: a label (label.NAME too); from: time, for profiles "
    "that do not say theirs; until: time; format: its name, when content does not tell; instant: "
    "found at a moment; retime: 1 moves the times of the file, so that it ends at until, or now";

const struct route upload_routes[] = {
    {"POST", "/v1/pprof", ROLE_INGEST, LANE_INGEST, DIALECT_PLAIN, 0, handle_upload, 0,
     "a profile in any format", params},
    {"POST", "/api/v1/profiles", ROLE_INGEST, LANE_INGEST, DIALECT_PLAIN, ROUTE_UPLOAD,
     handle_upload, 0, "a profile in any format, or a heap snapshot", params},
    {0},
};
