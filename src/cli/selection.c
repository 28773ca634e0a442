#include "cli/selection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cli/remote_store.h"
#include "cli/terminal.h"
#include "net/url.h"
#include "query/time_range.h"
#include "store_local/local.h"

static void say(void *ctx, const char *text)
{
    (void)ctx;
    terminal_say(BYTES("vesta: "));
    terminal_say(bytes_of(text));
    fputc('\n', stderr);
}

static int say_where(struct error *err)
{
    return error_set(err, -EINVAL, "where is the data? Say --data DIR (or VESTA_DATA)");
}

int data_open(const struct options *o, enum data_access access, struct store **ret,
              struct error *err)
{
    struct fs *fs;
    int64_t max_age_ns = 0;
    if (!o->data)
        return say_where(err);
    if (access == DATA_CREATE && o->max_age &&
        duration_parse(bytes_of(o->max_age), &max_age_ns, err) < 0)
        return error_prefix(err, -EINVAL, "--max-age");
    if (access == DATA_CREATE && mkdir(o->data, 0700) < 0 && errno != EEXIST) {
        int r = -errno;
        return error_set(err, r, "could not make \"%s\": %m", o->data);
    }
    int r = fs_real_new(o->data, &fs, err);
    if (r < 0)
        return r;
    struct local_options options = {
        .fs = fs,
        .read_only = access == DATA_READ,
        .must_exist = access != DATA_CREATE,
        .memory_limit = o->store_memory,
        .max_age_ns = max_age_ns,
        .log = o->quiet ? NULL : say,
    };
    r = local_open(&options, ret, err);
    if (r == -ENOENT) {
        struct error why = *err;
        return error_set(err, r, "%s: %.300s; \"vesta store import\" makes a new one", o->data,
                         why.text);
    }
    return r < 0 ? error_prefix(err, r, "%s", o->data) : 0;
}

int selection_open(const struct options *o, struct store **ret, struct error *err)
{
    if (!o->url && !o->data)
        return error_set(err, -EINVAL,
                         "where is the data? Say --url URL (or VESTA_URL) for a server, --data DIR "
                         "(or VESTA_DATA) for a directory");
    return o->url ? remote_store_open(o, ret, err) : data_open(o, DATA_READ, ret, err);
}

bool selection_is_source(const struct options *o, const char *source)
{
    size_t name = strcspn(source, "{@");

    if (!o->url || access(source, F_OK) == 0 || url_is_http(source))
        return false;
    return source[name] == '{' || strcspn(source, "./-") >= name;
}

int data_mend(const struct options *o, data_mend_fn mend, store_report_fn report, void *ctx,
              struct error *err)
{
    struct fs *fs;
    if (!o->data)
        return say_where(err);
    int r = fs_real_new(o->data, &fs, err);
    return r < 0 ? r : mend(fs, report, ctx, err);
}

/* FROM..TO behind the last "@" that stands outside of the braces. */
static int parse_range(struct bytes range, int64_t now, struct query *q, struct error *err)
{
    const uint8_t *dots = bytes_find(range, BYTES(".."));
    if (!dots)
        return error_set(err, -EINVAL, "\"@%.*s\" is no range: expected @FROM..TO",
                         (int)(range.len < 60 ? range.len : 60), (const char *)range.data);
    struct bytes from = bytes_head(range, (size_t)(dots - range.data));
    struct bytes to = bytes_from(range, from.len + 2);
    int r = from.len > 0 ? time_parse(from, now, &q->from_ns, err) : 0;
    return r == 0 && to.len > 0 ? time_parse(to, now, &q->to_ns, err) : r;
}

static int parse_default_range(const struct options *o, int64_t now, struct query *q,
                               struct error *err)
{
    int r = time_parse(bytes_of(o->from ? o->from : "now-1h"), now, &q->from_ns, err);
    if (r < 0)
        return error_prefix(err, r, "--from");
    r = time_parse(bytes_of(o->until ? o->until : "now"), now, &q->to_ns, err);
    return r < 0 ? error_prefix(err, r, "--until") : 0;
}

static int parse_instant(const char *text, enum plan_instant *ret, struct error *err)
{
    static const char *const names[] = {
        [INSTANT_AVERAGE] = "average",
        [INSTANT_LAST] = "last",
        [INSTANT_PEAK] = "peak",
        [INSTANT_SUM] = "sum",
    };
    for (size_t i = 0; text && i < ARRAY_SIZE(names); i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum plan_instant)i;
            return 0;
        }
    }
    return text ? error_set(err, -EINVAL, "--instant takes average, last, peak or sum, not \"%s\"",
                            text)
                : 0;
}

int selection_parse(const struct options *o, struct store *store, const char *text,
                    struct selection *ret, struct error *err)
{
    int64_t now = clock_wall_ns(clock_real());
    struct bytes all = bytes_of(text), range = {0};

    *ret = (struct selection){.query = {.store = store, .memory_limit = o->max_memory}};
    ret->query.trouble = &ret->trouble;
    ret->has_range = o->from != NULL;
    ret->query.tenant = bytes_of(o->tenant ? o->tenant : STORE_DEFAULT_TENANT);
    int r = parse_default_range(o, now, &ret->query, err);
    if (r == 0)
        r = parse_instant(o->instant, &ret->query.instant, err);
    const char *at = strrchr(text, '@'), *brace = strrchr(text, '}');
    if (at && (!brace || at > brace)) {
        range = bytes_of(at + 1);
        ret->has_range = true;
        all = bytes_head(all, (size_t)(at - text));
        if (r == 0)
            r = parse_range(range, now, &ret->query, err);
    }
    if (r == 0)
        r = selector_parse(all, &ret->selector, err);
    ret->query.selector = ret->selector;
    return r;
}

void selection_tell(const struct selection *s)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!s->trouble.text[0])
        return;
    buf_addf(&text, "vesta: the answer is incomplete: %s\n", s->trouble.text);
    terminal_say(buf_bytes(&text));
}

void selection_done(struct selection *s)
{
    selector_free(s->selector);
}
