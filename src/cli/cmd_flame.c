#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/flame.h"
#include "cli/load.h"
#include "formats/flame_svg.h"
#include "server/viewer_page.h"

/* A file without its folders, which are nobody's business; a selection as it is. */
static const char *short_name(const char *source)
{
    const char *slash = strchr(source, '{') ? NULL : strrchr(source, '/');
    return slash && slash[1] ? slash + 1 : source;
}

/* "a.pb.gz and 2 more": what the picture is of. */
static void make_title(const struct options *o, struct buf *title)
{
    buf_add_str(title, short_name(o->args[0]));
    if (o->n_args > 1)
        buf_addf(title, " and %zu more", o->n_args - 1);
}

struct picture {
    struct flame_options flame;
    struct significance significance; /* where there are two sides */
};

/* Adds one side's rows to a profile of two columns. */
static bool add_side(struct profile *to, const struct profile *from, uint32_t type, int side,
                     double scale)
{
    bool ok = profile_reserve(to, from->n_samples);

    for (size_t i = 0; ok && i < from->n_samples; i++) {
        int64_t values[2] = {0, 0};
        values[side] = (int64_t)((double)from->values[type][i] * scale);
        if (scale == 1)
            values[side] = from->values[type][i];
        ok = profile_add(to, &(struct sample){.node = from->node[i], .values = values});
    }
    return ok;
}

/* Both sides as two columns over the same stacks: what a flame graph of changes is drawn from. */
static int join_sides(const struct loaded *l, const struct options *o, struct profile **ret,
                      struct picture *picture, struct error *err)
{
    struct flame_options *flame = &picture->flame;
    CLEANUP(profile_freep) struct profile *after = NULL;
    CLEANUP(profile_freep) struct profile *before = NULL;
    CLEANUP(profile_freep) struct profile *both = profile_new(l->set->dict);
    uint32_t after_type = 0, before_type = 0;

    int r = report_prepare(l->profile, &o->report, &after, &after_type, err);
    if (r == 0)
        r = report_prepare(l->base, &o->report, &before, &before_type, err);
    if (r < 0)
        return r;
    both->time_unix_ns = after->time_unix_ns;
    flame->type =
        profile_add_type(both, after->types[after_type].type, after->types[after_type].unit);
    flame->base_type = (int32_t)profile_add_type(both, dict_cstring(l->set->dict, "base"),
                                                 before->types[before_type].unit);
    double before_total = (double)profile_total(before, before_type), scale = 1;
    if (o->normalize && before_total != 0)
        scale = (double)profile_total(after, after_type) / before_total;
    picture->significance = significance_of(&(struct merged_pair){.before = before, .after = after},
                                            (const uint32_t[]){before_type, after_type});
    picture->significance.weight[0] *= scale;
    if (!add_side(both, after, after_type, 0, 1) || !add_side(both, before, before_type, 1, scale))
        return budget_error(both->dict->budget, err);
    *ret = TAKE_PTR(both);
    return 0;
}

static bool has_ending(const char *name, const char *ending)
{
    size_t n = name ? strlen(name) : 0, m = strlen(ending);
    return n > m && strcmp(name + n - m, ending) == 0;
}

static bool is_page(const char *name)
{
    return has_ending(name, ".html") || has_ending(name, ".htm");
}

bool flame_is_picture(const char *name)
{
    return has_ending(name, ".svg") || is_page(name);
}

static int choose_format(const struct options *o, bool *ret_is_page, struct error *err)
{
    if (o->to && strcmp(o->to, "svg") != 0 && strcmp(o->to, "html") != 0)
        return error_set(err, -EINVAL, "flame graphs are svg or html, not \"%s\"", o->to);
    *ret_is_page = o->to ? strcmp(o->to, "html") == 0 : is_page(o->output);
    return 0;
}

/* "a.pb.gz, b.pb.gz since -1h": what was asked, in the words it was asked with. */
static void name_sources(const struct options *o, struct buf *out)
{
    for (size_t i = 0; i < o->n_args; i++)
        buf_addf(out, "%s%s", i ? ", " : "", short_name(o->args[i]));
    if (o->base.n + o->diff_base.n > 0)
        buf_addf(out, " compared with %s%s",
                 short_name(o->base.n ? o->base.items[0] : o->diff_base.items[0]),
                 o->base.n + o->diff_base.n > 1 ? "..." : "");
    if (o->from)
        buf_addf(out, " from %s", o->from);
    if (o->until)
        buf_addf(out, " until %s", o->until);
}

static int make_page(const struct profile *p, const struct picture *picture,
                     const struct options *o, struct buf *out, struct error *err)
{
    const struct flame_options *flame = &picture->flame;
    CLEANUP(buf_done) struct buf sources = {0};
    struct flame_cut_options cut = {
        .type = flame->type,
        .compares = flame->base_type >= 0,
        .base_type = flame->base_type >= 0 ? (uint32_t)flame->base_type : 0,
        .frames = flame->frames,
        .invert = flame->invert,
    };

    name_sources(o, &sources);
    struct viewer_about about = {.title = flame->title,
                                 .selection = buf_cstr(&sources),
                                 .time_ns = p->time_unix_ns,
                                 .significance = &picture->significance};
    return viewer_page_write(p, &cut, &about, out, err);
}

int flame_draw(const struct loaded *l, const struct options *o, const char *title, struct buf *out,
               struct error *err)
{
    CLEANUP(profile_freep) struct profile *shown = NULL;
    struct picture picture = {
        .flame = {.base_type = -1,
                  .invert = o->invert,
                  .title = title,
                  .frames = {.granularity = o->report.granularity,
                             .no_inlines = o->report.noinlines,
                             .trim_path = o->report.trim_path,
                             .name_unknown = true}},
    };
    bool is_page = false;
    int r = choose_format(o, &is_page, err);

    if (r < 0)
        return r;
    r = l->base ? join_sides(l, o, &shown, &picture, err)
                : report_prepare(l->profile, &o->report, &shown, &picture.flame.type, err);
    if (r == 0)
        r = is_page ? make_page(shown, &picture, o, out, err)
                    : flame_svg(shown, &picture.flame, out, err);
    if (r == 0 && shown->n_samples == 0)
        return error_set(err, -ENODATA, "no data: %s",
                         l->profile->n_samples == 0 ? "the profile has no samples"
                                                    : "no sample passes the filters");
    return r;
}

int cmd_flame(const struct command *self, struct options *o)
{
    CLEANUP(load_done) struct loaded l = {0};
    CLEANUP(buf_done) struct buf out = {.budget = &l.budget};
    CLEANUP(buf_done) struct buf title = {0};
    struct error err = {""};

    if (o->n_args == 0)
        return command_usage(self, "flame needs a profile");
    make_title(o, &title);
    int r = load_parts(&l, o, o->args, o->n_args, &err);
    if (r == 0)
        r = flame_draw(&l, o, o->title ? o->title : buf_cstr(&title), &out, &err);
    if (r == 0 && buf_full(&out))
        r = buf_error(&out, &err);
    if (r < 0 && r != -ENODATA)
        return command_fail(r, &err);
    int code = out.len ? command_write(o, buf_bytes(&out), true) : VESTA_EXIT_OK;
    return r < 0 && code == VESTA_EXIT_OK ? command_fail(r, &err) : code;
}
