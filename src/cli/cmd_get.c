#include <string.h>

#include "base/cleanup.h"
#include "cli/bucket.h"
#include "cli/command.h"
#include "cli/flame.h"
#include "cli/remote.h"
#include "cli/selection.h"
#include "net/s3.h"
#include "query/time_range.h"
#include "wire/json.h"

/* `vesta get SELECTION -o FILE`: a selection as a file, in the format that its name says. */

/* What push needs to bring it back: the labels that the selection names, and the range. */
static void write_sidecar(const struct selection *s, struct buf *out)
{
    struct json_writer w = {.out = out};
    char time[TIME_TEXT_MAX];

    json_begin_object(&w);
    json_key(&w, "labels");
    json_begin_object(&w);
    for (size_t i = 0; i < s->selector->n_matchers; i++) {
        const struct matcher *m = &s->selector->matchers[i];
        if (m->op != MATCH_EQUAL)
            continue;
        json_key_bytes(&w, m->name);
        json_string(&w, m->value);
    }
    json_end_object(&w);
    json_key(&w, "from");
    json_cstring(&w, time_text(s->query.from_ns, time));
    json_key(&w, "until");
    json_cstring(&w, time_text(s->query.to_ns, time));
    json_end_object(&w);
    buf_add_byte(out, '\n');
}

/* An object in a bucket has its sidecar beside it. */
static int put_sidecar(const struct options *o)
{
    CLEANUP(selection_done) struct selection s = {0};
    CLEANUP(buf_done) struct buf url = {0};
    CLEANUP(buf_done) struct buf json = {0};
    struct error err = {""};

    int r = selection_parse(o, NULL, o->args[0], &s, &err);
    if (r == 0) {
        write_sidecar(&s, &json);
        buf_addf(&url, "%s.json", o->output);
        r = bucket_put(o, buf_cstr(&url), buf_bytes(&json), "application/json", &err);
    }
    return r < 0 ? command_fail(r, &err) : VESTA_EXIT_OK;
}

int cmd_get(const struct command *self, struct options *o)
{
    size_t n = o->output ? strlen(o->output) : 0;
    bool is_picture = !o->to && flame_is_picture(o->output);

    if (o->n_args == 0)
        return command_usage(self, "get needs a selection; {} is everything");
    if (!o->url && !o->data)
        o->url = REMOTE_DEFAULT_URL;
    o->is_query = true;
    if (!o->to && !o->output)
        o->to = "pprof";
    int code = is_picture ? cmd_flame(self, o) : cmd_merge(self, o);
    if (code != VESTA_EXIT_OK || is_picture || n == 0 || !s3_is_url(o->output))
        return code;
    return put_sidecar(o);
}
