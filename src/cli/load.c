#include "cli/load.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/fetch.h"
#include "cli/labelled.h"
#include "cli/selection.h"
#include "formats/formats.h"
#include "net/url.h"
#include "profile/diff.h"
#include "profile/merge.h"
#include "symbols/symbolizer.h"

bool load_is_source(const char *argument)
{
    return strcmp(argument, "-") == 0 || url_is_http(argument) || access(argument, F_OK) == 0;
}

static int read_url(struct loaded *l, const struct options *o, const struct format *forced,
                    const char *url, const struct format **ret_format, struct error *err)
{
    struct http_body body = {0};
    int r = fetch_url(url, o, &l->budget, &body, err);
    if (r < 0)
        return r;
    struct bytes content = {body.data.data, body.data.len};
    struct input *in = input_from_bytes(content, url, &l->budget);
    r = format_read(in, forced, l->set, ret_format, err);
    input_close(in);
    http_body_done(&l->budget, &body);
    return r;
}

/* A selection of the store, as one profile of the set. */
static int read_selection(struct loaded *l, const struct options *o, const char *text,
                          struct error *err)
{
    CLEANUP(selection_done) struct selection s = {0};
    struct profile *p = NULL;

    int r = l->store ? 0 : selection_open(o, &l->store, err);
    if (r == 0)
        r = selection_parse(o, l->store, text, &s, err);
    if (r == 0)
        r = o->is_labelled
                ? labelled_read(&s.query, l->set, err)
                : query_explain(&s.query, query_merge_into(&s.query, l->set, &p, err), err);
    selection_tell(&s);
    return r;
}

static int read_one(struct loaded *l, const struct options *o, const struct format *forced,
                    const char *source, const struct format **ret_format, struct error *err)
{
    if (o->is_query || selection_is_source(o, source))
        return read_selection(l, o, source, err);
    if (!o->url && strchr(source, '{') && access(source, F_OK) < 0)
        return error_set(err, -EINVAL,
                         "\"%.200s\" is a selection: say which server to ask with --url URL (or "
                         "VESTA_URL), or use \"vesta query\" with --data DIR",
                         source);
    if (url_is_http(source))
        return read_url(l, o, forced, source, ret_format, err);
    CLEANUP(input_closep) struct input *in = NULL;
    int r = input_open(source, &l->budget, &in, err);
    return r < 0 ? r : format_read(in, forced, l->set, ret_format, err);
}

static int find_format(const char *name, const struct format **ret, struct error *err)
{
    if (!name)
        return 0;
    *ret = format_by_name(name);
    if (!*ret || !(*ret)->decode)
        return error_set(err, -EINVAL, "no format \"%s\" can be read; see \"vesta help formats\"",
                         name);
    return 0;
}

/* pprof's way to name the program: `vesta top PROGRAM PROFILE`. */
static bool is_program(const char *path)
{
    char magic[4];
    CLEANUP(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
           memcmp(magic, "\177ELF", sizeof(magic)) == 0;
}

struct type_list {
    struct value_type all[PROFILE_TYPES_MAX];
    size_t n;
};

static bool type_listed(const struct type_list *list, const struct value_type *t)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->all[i].type == t->type && list->all[i].unit == t->unit)
            return true;
    }
    return false;
}

/* Whether profiles from `second` on count anything that those before it count. Past so many types
 * that the list is full, one may be missed. */
static bool has_common_type(const struct profile_set *set, size_t second)
{
    struct type_list list = {.n = 0};

    for (size_t i = 0; i < set->profiles.len; i++) {
        const struct profile *p = set->profiles.data[i];
        for (uint32_t t = 0; t < p->n_types; t++) {
            bool is_listed = type_listed(&list, &p->types[t]);
            if (i >= second && is_listed)
                return true;
            if (i < second && !is_listed && list.n < PROFILE_TYPES_MAX)
                list.all[list.n++] = p->types[t];
        }
    }
    return list.n == 0 || list.n == PROFILE_TYPES_MAX;
}

int load_set(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
             struct error *err)
{
    const struct format *forced = NULL;

    budget_init(&l->budget, o->max_memory);
    l->set = profile_set_new(&l->budget);
    int r = find_format(o->input_format, &forced, err);
    if (r == 0 && n > 0 && !o->is_query && is_program(sources[0])) {
        if (n == 1)
            return error_set(err, -EINVAL,
                             "\"%s\" is a program; the profile to look at comes behind it",
                             sources[0]);
        l->program = sources[0];
        sources++;
        n--;
    }
    for (size_t i = 0, before = 0; i < n && r == 0; i++) {
        const struct format *f = NULL;
        r = read_one(l, o, forced, sources[i], &f, err);
        if (i == 0)
            l->format = f;
        if (before > 0 && l->set->profiles.len > before && !has_common_type(l->set, before))
            l->stranger = sources[i];
        before = l->set->profiles.len;
    }
    return r;
}

bool load_holds_addresses(const struct format *f)
{
    return f == &format_pprof || f == &format_otlp || f == &format_otlp_json;
}

/* Gives addresses names where the binaries are at hand, and mangled names readable ones. */
int load_names(struct loaded *l, const struct options *o, struct error *err)
{
    char cache[PATH_MAX];

    if (l->to_addresses && !o->symbolize && load_holds_addresses(l->format))
        return 0;
    struct symbolizer_options s = {.binary = l->program,
                                   .search_path = o->binary_path,
                                   .cache_dir = symbolizer_default_cache(cache, sizeof(cache)),
                                   .max_memory = o->max_memory};
    int r = symbolizer_options_parse(&s, o->symbolize, err);

    return r < 0 ? r : symbolize(l->set, &s, NULL, err);
}

/*
 * Merges profiles[from..to) of the set. One alone is taken as it is, as pprof does: `traces` then
 * shows the samples that the file has. Not so when they are single events.
 */
static int merge_range(struct loaded *l, size_t from, size_t to, struct profile **ret,
                       struct error *err)
{
    struct profile **only = &l->set->profiles.data[from];

    if (to - from == 1 && !(*only)->time_ns && !l->always_merge) {
        *ret = *only;
        *only = profile_new(l->set->dict);
        return 0;
    }
    *ret = profile_merge(l->set->dict, l->set->profiles.data + from, to - from,
                         (struct merge_options){.drop_zero = true});
    return *ret ? 0 : budget_error(&l->budget, err);
}

/* Reads the bases behind the sources. */
static int read_base(struct loaded *l, const struct options *o, const struct option_list *list,
                     struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < list->n && r == 0; i++) {
        const struct format *f = NULL;
        r = read_one(l, o, NULL, list->items[i], &f, err);
    }
    return r;
}

static int subtract_base(struct loaded *l, bool is_diff_base, bool normalize, struct error *err)
{
    struct profile *difference;
    struct diff_options d = {.is_diff_base = is_diff_base, .normalize = normalize};
    int r = profile_diff(l->profile, l->base, d, &difference, err);

    if (r < 0)
        return r;
    profile_free(l->profile);
    l->profile = difference;
    return 0;
}

int load_parts(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
               struct error *err)
{
    const struct option_list *bases = o->diff_base.n ? &o->diff_base : &o->base;

    if (o->diff_base.n && o->base.n)
        return error_set(err, -EINVAL, "-base and -diff_base exclude each other");
    if (o->normalize && !bases->n)
        return error_set(err, -EINVAL, "-normalize needs a -base or -diff_base to scale to");
    int r = load_set(l, o, sources, n, err);
    size_t n_main = l->set->profiles.len;
    if (r == 0 && l->stranger)
        r = error_set(err, -EINVAL,
                      "could not merge: %s has no sample type in common with what comes before it",
                      l->stranger);
    if (r == 0)
        r = read_base(l, o, bases, err);
    if (r == 0)
        r = load_names(l, o, err);
    if (r == 0)
        r = merge_range(l, 0, n_main, &l->profile, err);
    if (r == 0 && bases->n)
        r = merge_range(l, n_main, l->set->profiles.len, &l->base, err);
    return r;
}

int load_profile(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
                 struct error *err)
{
    int r = load_parts(l, o, sources, n, err);

    if (r == 0 && l->base)
        r = subtract_base(l, o->diff_base.n > 0, o->normalize, err);
    return r;
}

void load_done(struct loaded *l)
{
    profile_free(l->profile);
    profile_free(l->base);
    profile_set_free(l->set);
    store_close(l->store);
    *l = (struct loaded){0};
}
