#include "server/api_answer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "query/time_range.h"
#include "server/names.h"
#include "server/server_internal.h"

/* ---- Tags */

static int by_name(const void *a, const void *b)
{
    const struct api_param *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static bool is_time(const char *name)
{
    static const char *const names[] = {"from",         "until",      "before_from",
                                        "before_until", "after_from", "after_until"};
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* What the answer depends on, times resolved and parameters in one order. False when something is
 * wrong with them: then there is an error to come, and no tag. */
static bool write_key(const struct api_query *q, struct store_scope *scope, struct buf *key)
{
    buf_add_str(key, q->call->route->path);
    buf_add_byte(key, 0);
    buf_add_bytes(key, q->query.tenant);
    buf_addf(key, "%c%d %lld %lld %lld", 0, (int)q->format, (long long)q->query.from_ns,
             (long long)q->query.to_ns, (long long)q->call->server->start_ns);
    for (size_t i = 0; i < q->n_params; i++) {
        const struct api_param *p = &q->params[i];
        struct bytes value = {(const uint8_t *)p->value, p->value_len};
        buf_addf(key, "%c%s=", 0, p->name);
        if (!is_time(p->name) || value.len == 0) {
            buf_add_bytes(key, value);
            continue;
        }
        int64_t ns;
        if (time_parse(value, q->now_ns, &ns, NULL) < 0)
            return false;
        buf_add_i64(key, ns);
        if (ns < scope->from_ns)
            scope->from_ns = ns;
        if (ns > scope->to_ns)
            scope->to_ns = ns;
    }
    return true;
}

#define TAG_MAX 40

static bool make_tag(struct api_query *q, char tag[TAG_MAX])
{
    CLEANUP(buf_done) struct buf key = {0};
    struct store_scope scope = {
        .tenant = q->query.tenant, .from_ns = q->query.from_ns, .to_ns = q->query.to_ns};

    qsort(q->params, q->n_params, sizeof(*q->params), by_name);
    if (!write_key(q, &scope, &key))
        return false;
    uint64_t changes[] = {store_changes(q->query.store, &scope), names_changes(q->call->server)};
    buf_add(&key, changes, sizeof(changes));
    /* Weak: packed and plain replies have the same. */
    snprintf(tag, TAG_MAX, "W/\"%016llx%016llx\"",
             (unsigned long long)checksum64_seeded(key.data, key.len, 1),
             (unsigned long long)checksum64_seeded(key.data, key.len, 2));
    return true;
}

/* Whether the client's list of tags has this one. */
static bool has_tag(struct bytes list, const char *tag)
{
    return bytes_are(bytes_trim(list), "*") || bytes_find(list, bytes_of(tag + 2)) != NULL;
}

int api_answer(struct call *c, api_run run, struct error *err)
{
    CLEANUP(api_query_done) struct api_query q = {0};
    char tag[TAG_MAX];

    int r = api_query_read(c, &q, err);
    if (r < 0)
        return r;
    if (!c->file && make_tag(&q, tag)) {
        bool is_known = has_tag(call_header(c, "if-none-match"), tag);
        q.tag = tag;
        if (is_known) {
            c->reply.status = 304;
            http_reply_header(&c->reply, "etag", bytes_of(tag));
            http_reply_header(&c->reply, "cache-control", BYTES("private, no-cache"));
            return 0;
        }
    }
    return run(&q, err);
}

int api_answer_untagged(struct call *c, api_run run, struct error *err)
{
    CLEANUP(api_query_done) struct api_query q = {0};
    int r = api_query_read(c, &q, err);
    return r < 0 ? r : run(&q, err);
}

/* ---- Replies */

static void write_headers(struct api_query *q)
{
    struct http_reply *reply = &q->call->reply;
    if (q->tag)
        http_reply_header(reply, "etag", bytes_of(q->tag));
    http_reply_header(reply, "cache-control", BYTES("private, no-cache"));
    http_reply_header(reply, "vary", BYTES("accept"));
}

void api_reply(struct api_query *q, const char *content_type, struct buf *body)
{
    write_headers(q);
    call_reply(q->call, content_type, body);
}

void api_reply_file(struct api_query *q, const char *name, const char *content_type,
                    struct buf *body)
{
    struct http_reply *reply = &q->call->reply;

    http_reply_headerf(reply, "content-disposition", "attachment; filename=\"%s\"", name);
    http_reply_header(reply, "content-security-policy",
                      BYTES("default-src 'none'; style-src 'unsafe-inline'; sandbox"));
    api_reply(q, content_type, body);
}

int api_reply_sheet(struct api_query *q, struct sheet *s, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = s->budget};
    bool is_binary = q->format == API_COLUMNS;
    int r = sheet_write(s, is_binary, &out, err);
    if (r == 0)
        api_reply(q, is_binary ? SHEET_MEDIA_TYPE : "application/json", &out);
    return r;
}

void api_head(const struct api_query *q, struct json_writer *w)
{
    json_key(w, "from_ns");
    json_i64_string(w, q->query.from_ns);
    json_key(w, "until_ns");
    json_i64_string(w, q->query.to_ns);
    if (q->trouble.text[0]) {
        json_key(w, "incomplete");
        json_cstring(w, q->trouble.text);
    }
}

/* ---- Lists */

#define PART_BYTES ((size_t)64 << 10)

void api_list_begin(struct api_list *l, struct api_query *q, const char *key, size_t limit)
{
    *l = (struct api_list){.q = q,
                           .limit = limit,
                           .is_lines = q->format == API_NDJSON,
                           .out = {.budget = &q->call->budget}};
    l->w.out = &l->out;
    if (l->is_lines)
        return;
    json_begin_object(&l->w);
    api_head(q, &l->w);
    json_key(&l->w, key);
    json_begin_array(&l->w);
}

bool api_list_wants(struct api_list *l)
{
    l->is_cut = l->limit > 0 && l->n >= l->limit;
    return !l->is_cut;
}

void api_item_begin(struct api_list *l)
{
    if (l->is_lines)
        l->w.needs_comma = false;
}

static int send_part(struct api_list *l, struct error *err)
{
    if (!l->has_begun) {
        write_headers(l->q);
        call_stream(l->q->call, "application/x-ndjson");
    }
    /* What is on its way is the connection's, and no longer counts here. */
    CLEANUP(buf_done) struct buf part = l->out;
    l->out = (struct buf){.budget = part.budget};
    budget_give(part.budget, part.cap);
    part.budget = NULL;
    int r = call_stream_part(l->q->call, &part);
    if (r == -EBUSY)
        return error_set(err, r,
                         "as many long answers are being read as may be at once "
                         "(half of limits.query_workers)");
    l->has_begun = true;
    return r < 0 ? error_set(err, r, "the client has left") : 0;
}

int api_item_end(struct api_list *l, struct error *err)
{
    l->n++;
    if (l->is_lines)
        buf_add_byte(&l->out, '\n');
    if (buf_full(&l->out))
        return buf_error(&l->out, err);
    return l->is_lines && l->out.len >= PART_BYTES ? send_part(l, err) : 0;
}

/* A client that has left hears no reason. */
static int end_lines(struct api_list *l, int r, struct error *err)
{
    if (r < 0 && (!l->has_begun || r == -ECANCELED))
        return r;
    if (r < 0) {
        l->w.needs_comma = false;
        json_begin_object(&l->w);
        json_key(&l->w, "error");
        json_cstring(&l->w, err ? err->text : "");
        json_end_object(&l->w);
        buf_add_byte(&l->out, '\n');
    }
    if (l->has_begun)
        return send_part(l, err);
    if (buf_full(&l->out))
        return buf_error(&l->out, err);
    api_reply(l->q, "application/x-ndjson", &l->out);
    return 0;
}

int api_list_end(struct api_list *l, int r, struct error *err)
{
    if (l->is_lines)
        return end_lines(l, r, err);
    if (r < 0)
        return r;
    json_end_array(&l->w);
    json_key(&l->w, "is_cut");
    json_bool(&l->w, l->is_cut);
    json_end_object(&l->w);
    buf_add_byte(&l->out, '\n');
    if (buf_full(&l->out))
        return buf_error(&l->out, err);
    api_reply(l->q, "application/json", &l->out);
    return 0;
}

void api_list_done(struct api_list *l)
{
    buf_done(&l->out);
}
