#include "cli/load.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/fetch.h"
#include "net/url.h"
#include "profile/merge.h"

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

static int read_one(struct loaded *l, const struct options *o, const struct format *forced,
                    const char *source, const struct format **ret_format, struct error *err)
{
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

int load_set(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
             struct error *err)
{
    const struct format *forced = NULL;

    budget_init(&l->budget, o->max_memory);
    l->set = profile_set_new(&l->budget);
    int r = find_format(o->input_format, &forced, err);
    for (size_t i = 0; i < n && r == 0; i++) {
        const struct format *f = NULL;
        r = read_one(l, o, forced, sources[i], &f, err);
        if (i == 0)
            l->format = f;
    }
    return r;
}

/* Merges profiles[from..) of the set. */
static struct profile *merge_from(struct loaded *l, size_t from)
{
    return profile_merge(l->set->dict, l->set->profiles.data + from, l->set->profiles.len - from,
                         (struct merge_options){.drop_zero = true});
}

int load_profile(struct loaded *l, const struct options *o, const char *const *sources, size_t n,
                 struct error *err)
{
    int r = load_set(l, o, sources, n, err);
    if (r < 0)
        return r;
    l->profile = merge_from(l, 0);
    if (!l->profile)
        return budget_error(&l->budget, err);
    return 0;
}

void load_done(struct loaded *l)
{
    profile_free(l->profile);
    profile_set_free(l->set);
    *l = (struct loaded){0};
}
