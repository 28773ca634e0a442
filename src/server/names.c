#include "server/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "debuginfo/debug_files.h"
#include "debuginfo/debuginfod.h"
#include "query/time_range.h"
#include "server/admin.h"
#include "server/routes.h"
#include "server/server_internal.h"
#include "symbols/symbolizer.h"
#include "wire/json.h"
#include "wire/protobuf.h"

/* Debug files may take this much in all, and one file upload_limit. */
#define FILES_MAX ((uint64_t)20 << 30)

struct names {
    struct debug_files *files;
    struct debuginfod *fetcher;
    char *cache_dir;
};

static void says(void *ctx, int level, const char *text)
{
    server_log(ctx, level, "%s", text);
}

static int start_fetcher(struct server *s, struct names *n, struct error *err)
{
    const struct server_config *c = s->config;
    struct debuginfod_options o = {.urls = c->debuginfod.items,
                                   .n_urls = c->debuginfod.n,
                                   .allow_private = c->allow_private_urls,
                                   .file_max = c->upload_limit,
                                   .files = n->files,
                                   .log = says,
                                   .log_ctx = s};
    return o.n_urls > 0 ? debuginfod_start(&o, &n->fetcher, err) : 0;
}

int names_open(struct server *s, const char *data_dir, struct names **ret, struct error *err)
{
    CLEANUP(buf_done) struct buf path = {0};
    struct names *n = must_calloc(1, sizeof(*n));
    int r = 0;

    if (data_dir) {
        buf_addf(&path, "%s/symbols", data_dir);
        n->cache_dir = must_copy(buf_bytes(&path));
        buf_clear(&path);
        buf_addf(&path, "%s/debuginfo", data_dir);
        r = debug_files_open(buf_cstr(&path), FILES_MAX, &n->files, err);
        if (r == 0)
            r = start_fetcher(s, n, err);
    }
    if (r < 0)
        names_close(n);
    else
        *ret = n;
    return r;
}

void names_close(struct names *n)
{
    if (!n)
        return;
    debuginfod_stop(n->fetcher);
    debug_files_close(n->files);
    free(n->cache_dir);
    free(n);
}

/* ---- Looking up */

static bool is_nameless(const struct dict *d, const struct location *l)
{
    return l->n_lines == 0 && l->address != 0 && l->mapping != 0 &&
           d->mappings.data[l->mapping].build_id != 0;
}

static bool has_nameless(const struct dict *d)
{
    for (size_t i = 1; i < d->locations.len; i++) {
        if (is_nameless(d, &d->locations.data[i]))
            return true;
    }
    return false;
}

/* What would still help is asked for; the next question has it. */
static void want_missing(struct names *n, const struct dict *d)
{
    uint32_t last = 0;

    for (size_t i = 1; n->fetcher && i < d->locations.len; i++) {
        const struct location *l = &d->locations.data[i];
        if (l->mapping == last || !is_nameless(d, l))
            continue;
        last = l->mapping;
        debuginfod_want(n->fetcher, dict_text(d, d->mappings.data[l->mapping].build_id));
    }
}

static int resolve(void *ctx, struct profile_set *set, struct error *err)
{
    struct call *c = ctx;
    struct names *n = c->server->names;
    CLEANUP(buf_done) struct buf path = {0};
    struct symbolize_stats stats;

    if (!n->files || !has_nameless(set->dict))
        return 0;
    debug_files_search_path(n->files, c->tenant, &path);
    for (size_t i = 0; i < c->server->config->debug_dirs.n; i++)
        buf_addf(&path, ":%s", c->server->config->debug_dirs.items[i]);
    struct symbolizer_options o = {.search_path = buf_cstr(&path),
                                   .cache_dir = n->cache_dir,
                                   .only_by_build_id = true,
                                   .max_memory = c->server->config->query_memory_limit};
    int r = symbolize(set, &o, &stats, err);
    if (r < 0)
        return r;
    metrics_add(c->server->metrics, METRIC_SYMBOLS, "named", stats.named);
    metrics_add(c->server->metrics, METRIC_SYMBOLS, "nameless", stats.locations - stats.named);
    if (stats.named < stats.locations)
        want_missing(n, set->dict);
    return 0;
}

void names_for_query(struct call *c, struct query *q)
{
    q->resolve = resolve;
    q->resolve_ctx = c;
}

uint64_t names_changes(const struct server *s)
{
    return s->names->files ? debug_files_changes(s->names->files) : 0;
}

/* ---- Uploads */

static int need_files(struct call *c, struct error *err)
{
    if (c->server->names->files)
        return 0;
    return error_set(err, -EOPNOTSUPP, "this server keeps no debug files");
}

static int put(struct call *c, struct bytes build_id, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    int r = need_files(c, err);
    if (r == 0)
        r = call_input(c, "the debug file", &in, err);
    if (r == 0)
        r = debug_files_put(c->server->names->files, c->tenant, build_id, in,
                            c->server->config->upload_limit, err);
    if (r == 0)
        server_log(c->server, 1, "%s sent the debug file of %.*s", c->actor, (int)build_id.len,
                   (const char *)build_id.data);
    return r;
}

static int handle_put(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    int r = put(c, c->rest, err);

    if (r < 0 && r != -EEXIST)
        return r;
    buf_addf(&out, "{\"stored\":%s}\n", r == 0 ? "true" : "false");
    call_reply(c, "application/json", &out);
    return 0;
}

static int handle_delete(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(buf_done) struct buf what = {0};
    int r = need_files(c, err);

    buf_add_bytes(&what, c->rest);
    if (r == 0)
        r = admin_note(c, "debuginfo.delete", c->tenant, &what, err);
    if (r == 0)
        r = debug_files_delete(c->server->names->files, c->tenant, c->rest, err);
    if (r < 0)
        return r;
    buf_add_str(&out, "{}\n");
    call_reply(c, "application/json", &out);
    return 0;
}

static const char *const quality_names[] = {
    [DEBUG_NONE] = "none",
    [DEBUG_SEGMENTS] = "none",
    [DEBUG_NAMES] = "names",
    [DEBUG_LINES] = "lines",
};

static int add_row(void *ctx, const struct debug_file_row *row)
{
    struct json_writer *w = ctx;
    char time[TIME_TEXT_MAX];

    json_begin_object(w);
    json_key(w, "build_id");
    json_cstring(w, row->build_id);
    json_key(w, "bytes");
    json_u64(w, row->bytes);
    json_key(w, "time");
    json_cstring(w, time_text(row->time_ns, time));
    json_key(w, "holds");
    json_cstring(w, quality_names[row->quality]);
    json_end_object(w);
    return buf_full(w->out) ? -ENOBUFS : 0;
}

static int handle_list(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    struct json_writer w = {.out = &out};
    int r = need_files(c, err);

    json_begin_object(&w);
    json_key(&w, "files");
    json_begin_array(&w);
    if (r == 0)
        r = debug_files_list(c->server->names->files, c->tenant, add_row, &w, err);
    json_end_array(&w);
    json_end_object(&w);
    if (r == -ENOBUFS || buf_full(&out))
        return buf_error(&out, err);
    if (r == 0)
        call_reply(c, "application/json", &out);
    return r;
}

/* ---- As Pyroscope's clients upload */

/* FileMetadata.GNU of a ShouldInitiateUploadRequest: {file: {gnu}}. */
static struct bytes read_init(struct bytes message, struct pb_reader *ret)
{
    struct bytes id = {0};

    *ret = pb_reader(message);
    while (pb_next(ret)) {
        if (ret->field != 1 || ret->wire != PB_BYTES)
            continue;
        struct pb_reader file = pb_reader(ret->data);
        while (pb_next(&file)) {
            if (file.field == 1 && file.wire == PB_BYTES)
                id = file.data;
        }
        if (file.failure)
            pb_fail(ret, file.failure);
    }
    return id;
}

static void read_init_json(struct json_reader *r, struct buf *ret)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!bytes_are(key, "file")) {
            json_skip(r);
            continue;
        }
        json_enter_object(r);
        for (struct bytes inner; json_next_key(r, &inner);) {
            if (bytes_are(inner, "GNU") || bytes_are(inner, "gnu")) {
                buf_clear(ret);
                buf_add_bytes(ret, json_get_string(r));
            } else {
                json_skip(r);
            }
        }
    }
}

static int read_build_id(struct call *c, struct buf *ret, struct error *err)
{
    if (c->is_json) {
        CLEANUP(input_closep) struct input *in = input_from_bytes(c->body, "request", &c->budget);
        CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, &c->budget);
        read_init_json(r, ret);
        int done = json_finish(r, "request", err);
        if (done < 0)
            return done;
    } else {
        struct pb_reader r;
        struct bytes id = read_init(c->body, &r);
        if (r.failure)
            return error_set(err, -EBADMSG, "request at byte %zu: %s", pb_offset(&r, c->body.data),
                             r.failure);
        buf_add_bytes(ret, id);
    }
    if (!build_id_is_sound(buf_bytes(ret)))
        return error_set(err, -EINVAL, "file.GNU must be a build id: lower-case hex digits");
    return 0;
}

static int handle_should_upload(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf id = {.budget = &c->budget};
    CLEANUP(buf_done) struct buf out = {0};
    int r = need_files(c, err);
    if (r == 0)
        r = read_build_id(c, &id, err);
    if (r < 0)
        return r;
    bool wanted =
        debug_files_quality(c->server->names->files, c->tenant, buf_bytes(&id)) < DEBUG_LINES;
    const char *reason = wanted ? "it is not here yet, or without lines" : "it is here";
    if (c->is_json) {
        buf_addf(&out, "{\"shouldInitiateUpload\":%s,\"reason\":\"%s\"}", wanted ? "true" : "false",
                 reason);
    } else {
        if (wanted)
            pb_put_u64(&out, 1, 1);
        pb_put_bytes(&out, 2, bytes_of(reason));
    }
    call_reply_message(c, &out);
    return 0;
}

static int handle_finished(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    (void)err;
    call_reply_message(c, &out);
    return 0;
}

#define PYROSCOPE "/debuginfo.v1alpha1.DebuginfoService/"

const struct route names_routes[] = {
    {"POST|PUT", "/api/v1/debuginfo/*", ROLE_INGEST, LANE_QUERY, .body_limit = ROUTE_UPLOAD,
     .handle = handle_put, .summary = "Uploads the debug file of a build id"},
    {"DELETE", "/api/v1/debuginfo/*", ROLE_ADMIN, LANE_QUERY, .handle = handle_delete,
     .summary = "Removes a debug file"},
    {"GET", "/api/v1/debuginfo", ROLE_READ, LANE_QUERY, .handle = handle_list,
     .summary = "Debug files that were uploaded"},
    {"POST", PYROSCOPE "ShouldInitiateUpload", ROLE_INGEST, LANE_QUERY, DIALECT_RPC,
     .handle = handle_should_upload},
    {"POST", PYROSCOPE "UploadFinished", ROLE_INGEST, LANE_QUERY, DIALECT_RPC,
     .handle = handle_finished},
    {"POST", PYROSCOPE "Upload/*", ROLE_INGEST, LANE_QUERY, .body_limit = ROUTE_UPLOAD,
     .handle = handle_put},
    {0},
};
