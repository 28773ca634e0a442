#include "cli/store_files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/selection.h"
#include "cli/terminal.h"
#include "formats/format.h"
#include "query/time_range.h"
#include "store_local/local.h"
#include "wire/input.h"

#define LABELS_MAX 64

/* The labels of what is imported: the file's resource, then what --label says. */
struct labelled {
    struct label all[LABELS_MAX];
    size_t n;
};

static bool add_label(struct labelled *l, struct bytes name, struct bytes value)
{
    if (l->n == LABELS_MAX)
        return false;
    l->all[l->n++] = (struct label){name, value};
    return true;
}

static bool add_resource(struct labelled *l, const struct profile *p)
{
    const struct dict *d = p->dict;
    struct attrs set = d->attr_sets.data[p->resource_attrs];
    for (uint32_t i = 0; i < set.n; i++) {
        const struct attribute *a = &d->attributes.data[d->attr_ids.data[set.first + i]];
        struct bytes name = dict_text(d, a->key), value = dict_text(d, a->text);
        if (a->kind != ATTRIBUTE_STRING || (value.len == 0 && bytes_are(name, LABEL_SERVICE)))
            continue;
        if (!add_label(l, name, value))
            return false;
    }
    return true;
}

static int make_labels(const struct options *o, const struct profile *p, struct labelled *ret,
                       struct error *err)
{
    *ret = (struct labelled){0};
    bool ok =
        add_label(ret, BYTES(LABEL_SERVICE), BYTES("unknown_service")) && add_resource(ret, p);
    for (size_t i = 0; ok && i < o->labels.n; i++) {
        const char *text = o->labels.items[i], *equals = strchr(text, '=');
        if (!equals || equals == text)
            return error_set(err, -EINVAL, "--label takes NAME=VALUE, not \"%s\"", text);
        ok = add_label(ret, (struct bytes){(const uint8_t *)text, (size_t)(equals - text)},
                       bytes_of(equals + 1));
    }
    if (!ok)
        return error_set(err, -EINVAL, "more than %d labels", LABELS_MAX);
    ret->n = labels_normalize(ret->all, ret->n);
    return 0;
}

struct import {
    struct options *o;
    struct store *store;
    struct store_source *source;
    struct bytes tenant;
    const struct format *forced; /* NULL: told by content */
    int64_t keep_ns;   /* what --max-age asks for and the store does not know yet; 0: nothing */
    int64_t oldest_ns; /* of what was rejected */
    size_t stored, duplicates, rejected, unread;
};

static int64_t kept_ns(struct store *store, struct bytes tenant, struct store_policy *ret)
{
    store_get_policy(store, tenant, ret);
    return ret->max_age_ns > 0 ? ret->max_age_ns : LOCAL_MAX_AGE_NS;
}

/* Keeps the tenant's profiles for at least as long as --max-age says: importing shortens nothing.
 */
static int keep_longer(struct import *im, struct error *err)
{
    struct store_policy policy;
    int r = 0;
    if (kept_ns(im->store, im->tenant, &policy) < im->keep_ns) {
        policy.max_age_ns = im->keep_ns;
        r = store_set_policy(im->store, im->tenant, &policy, err);
    }
    if (r == 0)
        im->keep_ns = 0;
    return r;
}

static void reject(struct import *im, const struct profile *p, const char *path,
                   const struct error *why)
{
    CLEANUP(buf_done) struct buf text = {0};
    im->rejected++;
    if (im->oldest_ns == 0 || p->time_unix_ns < im->oldest_ns)
        im->oldest_ns = p->time_unix_ns;
    buf_addf(&text, "%s: %s\n", path, why->text);
    terminal_say(buf_bytes(&text));
}

/* What does not say when it was taken was so before its file was last changed. */
static int64_t time_of_file(const char *path)
{
    struct stat st;
    if (strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return clock_wall_ns(clock_real());
}

static int append_one(struct import *im, struct profile *p, const char *path, struct error *err)
{
    static const uint8_t none[16];
    struct labelled labels;
    struct store_outcome outcome = {0};
    int r = make_labels(im->o, p, &labels, err);
    if (r < 0)
        return r;
    if (p->time_unix_ns == 0)
        p->time_unix_ns = time_of_file(path);
    struct store_incoming in = {
        .profile = p,
        .labels = labels.all,
        .n_labels = labels.n,
        .is_instant = im->o->is_instant_profile || profile_is_instant(p),
        .has_id = memcmp(p->profile_id, none, 16) != 0,
    };
    memcpy(in.id, p->profile_id, 16);
    r = store_append(im->source, im->tenant, &in, 1, &outcome, err);
    if (r == 0 && outcome.verdict != STORE_REJECTED)
        r = keep_longer(im, err);
    if (r < 0)
        return r;
    im->stored += outcome.verdict == STORE_STORED;
    im->duplicates += outcome.verdict == STORE_DUPLICATE;
    if (outcome.verdict == STORE_REJECTED)
        reject(im, p, path, &outcome.why);
    return 0;
}

static int import_file(struct import *im, const char *path, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    const struct format *format = NULL;
    struct error why = {""};
    store_source_reset(im->source);
    int r = input_open(path, &im->source->budget, &in, &why);
    if (r == 0)
        r = format_read(in, im->forced, im->source->set, &format, &why);
    if (r < 0) { /* one bad file does not keep the others out */
        im->unread++;
        command_fail(r, &why);
        return 0;
    }
    for (size_t i = 0; r == 0 && i < im->source->set->profiles.len; i++)
        r = append_one(im, im->source->set->profiles.data[i], path, err);
    return r;
}

static void import_summary(const struct import *im)
{
    struct store_policy policy;
    int64_t age = clock_wall_ns(clock_real()) - im->oldest_ns, day = 86400 * (int64_t)1000000000;

    if (im->o->quiet)
        return;
    fprintf(stderr, "%s%zu stored, %zu there already, %zu rejected",
            im->o->n_args >= 100 ? "\r" : "", im->stored, im->duplicates, im->rejected);
    if (im->unread > 0)
        fprintf(stderr, ", %zu file%s not read", im->unread, im->unread == 1 ? "" : "s");
    fputc('\n', stderr);
    if (im->rejected > 0 && im->oldest_ns > 0 && age > kept_ns(im->store, im->tenant, &policy))
        fprintf(stderr, "--max-age %lldd would keep what is that old\n",
                (long long)(age / day + 2));
}

int store_import(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(store_source_freep) struct store_source *source = NULL;
    struct error err = {""};
    struct import im = {.o = o,
                        .tenant = bytes_of(o->tenant ? o->tenant : STORE_DEFAULT_TENANT),
                        .forced = o->input_format ? format_by_name(o->input_format) : NULL};
    if (o->n_args == 0)
        return command_usage(self, "store import needs files");
    if (o->input_format && (!im.forced || !im.forced->decode))
        return command_usage(self, "no format \"%s\" can be read; see \"vesta help formats\"",
                             o->input_format);
    int r = data_open(o, DATA_CREATE, &store, &err);
    if (r == 0 && o->max_age)
        r = duration_parse(bytes_of(o->max_age), &im.keep_ns, &err);
    if (r == 0)
        r = store_source_new(store, o->max_memory, &source, &err);
    im.store = store;
    im.source = source;
    if (r == 0 && keep_longer(&im, &err) < 0)
        err = (struct error){""}; /* a tenant without profiles has no policy: after the first */
    for (size_t i = 0; r == 0 && i < o->n_args; i++) {
        r = import_file(&im, o->args[i], &err);
        if (!o->quiet && r == 0 && (i + 1) % 100 == 0)
            fprintf(stderr, "\r%zu of %zu files ", i + 1, o->n_args);
    }
    if (store)
        import_summary(&im);
    if (r < 0)
        return command_fail(r, &err);
    return im.rejected + im.unread > 0 ? VESTA_EXIT_ERROR : VESTA_EXIT_OK;
}

/* ---- Export: a file for each profile, so that importing them makes the same store again */

struct export
{
    struct options *o;
    const struct format *format;
    size_t n;
    struct error *err;
};

/* DIR/2026-03-01T12:00:00Z-checkout-000001.otlp */
static void file_name(const struct export *e, const struct store_found *f, struct buf *out)
{
    char time[TIME_TEXT_MAX];
    struct bytes service =
        label_value(f->series->labels, f->series->n_labels, BYTES(LABEL_SERVICE));
    buf_addf(out, "%s/%s-", e->o->output, time_text(f->start_ns, time));
    for (size_t i = 0; i < service.len && i < 64; i++) {
        uint8_t c = service.data[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '-' || c == '_';
        buf_add_byte(out, is_plain ? c : '_');
    }
    buf_addf(out, "-%06zu%s", e->n, e->format->extension ? e->format->extension : "");
}

static int on_found(void *ctx, const struct store_found *f)
{
    struct export *e = ctx;
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(buf_done) struct buf losses = {0};
    CLEANUP(buf_done) struct buf path = {0};
    struct profile *only[] = {(struct profile *)f->profile};
    struct profile_set set = {
        .budget = f->profile->dict->budget, .dict = f->profile->dict, .profiles = {only, 1, 1}};

    e->n++;
    file_name(e, f, &path);
    int r = e->format->encode(&set, &out, &losses, e->err);
    if (r < 0)
        return r;
    CLEANUP(fclosep) FILE *file = fopen(buf_cstr(&path), "we");
    if (!file || fwrite(out.data, 1, out.len, file) != out.len || fflush(file) != 0) {
        r = -errno;
        return error_set(e->err, r, "could not write \"%s\": %m", buf_cstr(&path));
    }
    return 0;
}

int store_export(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(selection_done) struct selection s = {0};
    struct error err = {""};
    struct export e = {.o = o, .err = &err};
    if (o->n_args > 1 || !o->output)
        return command_usage(self, "store export needs at most one selection, and -o DIR");
    e.format = format_by_name(o->to ? o->to : "otlp");
    if (!e.format || !e.format->encode)
        return command_usage(self, "no format \"%s\" can be written", o->to);
    if (mkdir(o->output, 0777) < 0 && errno != EEXIST) {
        int r = -errno;
        return command_fail(r, (error_set(&err, r, "could not make \"%s\": %m", o->output), &err));
    }
    if (!o->from)
        o->from = "0"; /* who exports wants all of it */
    if (!o->until)
        o->until = "now+1d";
    int r = data_open(o, DATA_READ, &store, &err);
    if (r == 0)
        r = selection_parse(o, store, o->n_args > 0 ? o->args[0] : "", &s, &err);
    struct store_find find = {.tenant = s.query.tenant,
                              .selector = s.selector,
                              .from_ns = s.query.from_ns,
                              .to_ns = s.query.to_ns,
                              .with_samples = true,
                              .limit = o->limit > 0 ? (size_t)o->limit : 0};
    if (r == 0)
        r = store_profiles(store, &find, on_found, &e, &err);
    if (r < 0)
        return command_fail(r, &err);
    if (!o->quiet)
        fprintf(stderr, "%zu profiles written to %s\n", e.n, o->output);
    return VESTA_EXIT_OK;
}
