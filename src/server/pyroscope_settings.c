#include <errno.h>

#include "base/clock.h"
#include "server/admin.h"
#include "server/pyroscope_query.h"
#include "server/server_internal.h"
#include "wire/json.h"
#include "wire/protobuf.h"

/*
 * settings.v1: texts that a client keeps for itself, such as the plug-in settings of Profiles
 * Drilldown. They lie in the catalog, each as a JSON string.
 */
#define SETTING_NAME_MAX 256

static void put_setting(struct buf *out, struct bytes name, struct bytes value, int64_t when_ns)
{
    size_t at = pb_begin(out, 1);
    proto_put_text(out, 1, name);
    proto_put_text(out, 2, value);
    pb_put_u64_opt(out, 3, (uint64_t)(when_ns / 1000000));
    pb_end(out, at);
}

struct listing {
    struct buf *out;
    struct budget *budget;
};

static int on_document(void *ctx, const struct catalog_document *d)
{
    struct listing *l = ctx;
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, l->budget);
    json_reader_set_text(r, d->json, 0);
    put_setting(l->out, d->name, json_get_string_or_empty(r), d->updated_ns);
    return 0;
}

int pyroscope_settings_get(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    struct listing l = {.out = &out, .budget = &c->budget};
    int r = 0;
    if (c->server->catalog)
        r = catalog_list_documents(c->server->catalog, CATALOG_SETTING, c->tenant, on_document, &l,
                                   err);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_settings_reply, &out, err);
}

static int check(struct call *c, const struct pyroscope_request *q, struct error *err)
{
    if (!c->server->catalog)
        return error_set(err, -EROFS, "settings cannot be kept: the catalog is not open");
    if (q->name.len == 0 || q->name.len > SETTING_NAME_MAX)
        return error_set(err, -EINVAL, "the name of a setting has 1 to %d bytes, not %zu",
                         SETTING_NAME_MAX, q->name.len);
    return 0;
}

static int write_down(struct call *c, const char *action, struct bytes name, struct error *err)
{
    CLEANUP(buf_done) struct buf what = {0};

    buf_add_bytes(&what, name);
    return admin_note(c, action, c->tenant, &what, err);
}

int pyroscope_settings_set(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget}, text = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int r = pyroscope_request_read(c, pyroscope_setting_request, &q, err);
    if (r == 0)
        r = check(c, &q, err);
    if (r == 0)
        r = write_down(c, "settings.put", q.name, err);
    if (r < 0)
        return r;
    struct json_writer w = {.out = &text};
    json_string(&w, q.value);
    struct catalog_document d = {.kind = CATALOG_SETTING,
                                 .tenant = c->tenant,
                                 .name = q.name,
                                 .json = buf_bytes(&text),
                                 .updated_ns = clock_wall_ns(clock_real())};
    r = catalog_put_document(c->server->catalog, &d, err);
    if (r < 0)
        return r;
    put_setting(&out, q.name, q.value, d.updated_ns);
    return pyroscope_reply(c, pyroscope_setting_reply, &out, err);
}

int pyroscope_settings_delete(struct call *c, struct error *err)
{
    CLEANUP(buf_done) struct buf out = {.budget = &c->budget};
    CLEANUP(pyroscope_request_done) struct pyroscope_request q;
    int r = pyroscope_request_read(c, pyroscope_setting_delete_request, &q, err);
    if (r == 0)
        r = check(c, &q, err);
    if (r == 0)
        r = write_down(c, "settings.delete", q.name, err);
    if (r < 0)
        return r;
    struct catalog_document key = {.kind = CATALOG_SETTING, .tenant = c->tenant, .name = q.name};
    r = catalog_delete_document(c->server->catalog, &key, err);
    return r < 0 ? r : pyroscope_reply(c, pyroscope_empty_message, &out, err);
}
