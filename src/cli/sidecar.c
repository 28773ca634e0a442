#include "cli/sidecar.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/remote.h"
#include "query/time_range.h"
#include "wire/json.h"

/* Strings only: numbers would be written in a way of ours. */
static struct bytes read_text(struct json_reader *r, struct bytes name)
{
    if (json_peek(r) == JSON_STRING)
        return json_get_string(r);
    json_fail(r, "\"%.*s\" is not a string", (int)(name.len < 40 ? name.len : 40),
              (const char *)name.data);
    return (struct bytes){0};
}

static void read_labels(struct json_reader *r, struct sidecar *s)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        CLEANUP(buf_done) struct buf name = {0};
        buf_add_bytes(&name, key); /* the key lives no longer than to the next call */
        remote_label(&s->params, buf_bytes(&name), read_text(r, buf_bytes(&name)));
    }
}

/* A time as a string or a number; sent in nanoseconds, so that "now" is ours. */
static void read_time(struct json_reader *r, struct sidecar *s, const char *name, int64_t now_ns)
{
    int64_t ns = 0;
    struct error why = {""};
    enum json_kind kind = json_peek(r);
    struct bytes value = kind == JSON_STRING   ? json_get_string(r)
                         : kind == JSON_NUMBER ? json_get_raw(r)
                                               : (struct bytes){0};

    if (time_parse(value, now_ns, &ns, &why) < 0) {
        json_fail(r, "\"%s\": %s", name, why.text);
        return;
    }
    remote_param_i64(&s->params, name, ns);
}

static void read_key(struct json_reader *r, struct bytes key, int64_t now_ns, struct sidecar *s)
{
    if (bytes_are(key, "labels")) {
        read_labels(r, s);
    } else if (bytes_are(key, "service")) {
        remote_label(&s->params, BYTES("service.name"), read_text(r, BYTES("service")));
    } else if (bytes_are(key, "format")) {
        remote_param(&s->params, BYTES("format"), read_text(r, BYTES("format")));
    } else if (bytes_are(key, "from")) {
        s->has_from = true;
        read_time(r, s, "from", now_ns);
    } else if (bytes_are(key, "until")) {
        read_time(r, s, "until", now_ns);
    } else if (bytes_are(key, "moment")) {
        if (json_get_bool(r))
            remote_param(&s->params, BYTES("instant"), BYTES("true"));
    } else if (bytes_are(key, "types") || bytes_are(key, "period")) {
        json_skip(r); /* as the agent writes them: the profile says so itself */
    } else {
        json_fail(r, "\"%.*s\" is nothing that a sidecar says", (int)(key.len < 40 ? key.len : 40),
                  (const char *)key.data);
    }
}

int sidecar_parse(struct bytes json, int64_t now_ns, struct sidecar *ret, struct error *err)
{
    struct budget budget;
    budget_init(&budget, (size_t)4 << 20);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(NULL, &budget);

    *ret = (struct sidecar){0};
    json_reader_set_text(r, json, 0);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);)
        read_key(r, key, now_ns, ret);
    return json_finish(r, "sidecar", err);
}

int sidecar_read(int folder, const char *file, int64_t now_ns, struct sidecar *ret,
                 struct error *err)
{
    CLEANUP(buf_done) struct buf name = {0};
    CLEANUP(buf_done) struct buf text = {0};

    *ret = (struct sidecar){0};
    buf_addf(&name, "%s.json", file);
    CLEANUP(closep) int fd = openat(folder, buf_cstr(&name), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT
                   ? 0
                   : error_set(err, -errno, "could not open \"%s\": %m", buf_cstr(&name));
    while (text.len <= SIDECAR_MAX) {
        ssize_t n = read(fd, buf_reserve(&text, SIDECAR_MAX), SIDECAR_MAX);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_set(err, -errno, "could not read \"%s\": %m", buf_cstr(&name));
        if (n == 0)
            break;
        text.len += (size_t)n;
    }
    int r = text.len > SIDECAR_MAX ? error_set(err, -EBADMSG, "larger than %zu bytes", SIDECAR_MAX)
                                   : sidecar_parse(buf_bytes(&text), now_ns, ret, err);
    return r < 0 ? error_prefix(err, r, "\"%s\"", buf_cstr(&name)) : 0;
}

void sidecar_done(struct sidecar *s)
{
    buf_done(&s->params);
}
