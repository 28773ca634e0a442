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
        if (a->kind == ATTRIBUTE_STRING &&
            !add_label(l, dict_text(d, a->key), dict_text(d, a->text)))
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

/* Live heap and goroutines are found at a moment; everything else is counted over a window. */
static bool is_instant(const struct profile *p)
{
    for (uint32_t i = 0; i < p->n_types; i++) {
        struct bytes type = dict_text(p->dict, p->types[i].type);
        if (bytes_start_with(type, BYTES("inuse_")) || bytes_are(type, "goroutine") ||
            bytes_are(type, "goroutines") || bytes_are(type, "threadcreate"))
            return true;
    }
    return false;
}

struct import {
    struct options *o;
    struct store *store;
    struct store_source *source;
    size_t stored, duplicates, rejected;
};

static int append_one(struct import *im, struct profile *p, const char *path, struct error *err)
{
    static const uint8_t none[16];
    struct labelled labels;
    struct store_outcome outcome = {0};
    int r = make_labels(im->o, p, &labels, err);
    if (r < 0)
        return r;
    if (p->time_unix_ns == 0)
        p->time_unix_ns = clock_wall_ns(clock_real());
    struct store_incoming in = {
        .profile = p,
        .labels = labels.all,
        .n_labels = labels.n,
        .is_instant = im->o->is_instant_profile || is_instant(p),
        .has_id = memcmp(p->profile_id, none, 16) != 0,
    };
    memcpy(in.id, p->profile_id, 16);
    struct bytes tenant = bytes_of(im->o->tenant ? im->o->tenant : STORE_DEFAULT_TENANT);
    r = store_append(im->store, im->source, tenant, &in, 1, &outcome, err);
    if (r < 0)
        return r;
    im->stored += outcome.verdict == STORE_STORED;
    im->duplicates += outcome.verdict == STORE_DUPLICATE;
    if (outcome.verdict == STORE_REJECTED) {
        im->rejected++;
        struct buf text = {0};
        buf_addf(&text, "%s: %s\n", path, outcome.why.text);
        terminal_say(buf_bytes(&text));
        buf_done(&text);
    }
    return 0;
}

static int import_file(struct import *im, const char *path, struct error *err)
{
    CLEANUP(input_closep) struct input *in = NULL;
    const struct format *format = NULL;
    store_source_reset(im->source);
    int r = input_open(path, &im->source->budget, &in, err);
    if (r == 0)
        r = format_read(in, NULL, im->source->set, &format, err);
    for (size_t i = 0; r == 0 && i < im->source->set->profiles.len; i++)
        r = append_one(im, im->source->set->profiles.data[i], path, err);
    return r;
}

int store_import(const struct command *self, struct options *o)
{
    CLEANUP(store_closep) struct store *store = NULL;
    CLEANUP(store_source_freep) struct store_source *source = NULL;
    struct error err = {""};
    if (o->n_args == 0)
        return command_usage(self, "store import needs files");
    int r = data_open(o, DATA_CREATE, &store, &err);
    if (r == 0)
        r = store_source_new(store, o->max_memory, &source, &err);
    struct import im = {.o = o, .store = store, .source = source};
    for (size_t i = 0; r == 0 && i < o->n_args; i++) {
        r = import_file(&im, o->args[i], &err);
        if (!o->quiet && r == 0 && (i + 1) % 100 == 0)
            fprintf(stderr, "\r%zu of %zu files ", i + 1, o->n_args);
    }
    if (!o->quiet && store)
        fprintf(stderr, "%s%zu stored, %zu there already, %zu rejected\n",
                o->n_args >= 100 ? "\r" : "", im.stored, im.duplicates, im.rejected);
    if (r < 0)
        return command_fail(r, &err);
    return im.rejected > 0 ? VESTA_EXIT_ERROR : VESTA_EXIT_OK;
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
