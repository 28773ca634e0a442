#include "query/name_tag_filters.h"

#include "base/cleanup.h"
#include "base/regex.h"
#include "profile/filter.h"
#include "profile/tag_filter.h"

struct patterns {
    struct regex *focus, *ignore, *hide, *show, *show_from, *prune_from, *tagshow, *taghide;
    struct tag_filter *tagfocus[QUERY_TAGS_MAX], *tagignore[QUERY_TAGS_MAX];
    struct buf *warnings;
};

static void patterns_done(struct patterns *p)
{
    regex_free(p->focus);
    regex_free(p->ignore);
    regex_free(p->hide);
    regex_free(p->show);
    regex_free(p->show_from);
    regex_free(p->prune_from);
    regex_free(p->tagshow);
    regex_free(p->taghide);
    for (size_t i = 0; i < QUERY_TAGS_MAX; i++) {
        tag_filter_free(p->tagfocus[i]);
        tag_filter_free(p->tagignore[i]);
    }
}

static int compile(const char *name, const char *text, struct regex **ret, struct error *err)
{
    if (!text || !*text)
        return 0;
    int rc = regex_new(bytes_of(text), ret, err);
    return rc < 0 ? error_prefix(err, rc, "%s", name) : 0;
}

static int compile_tags(struct patterns *p, const struct label_units *units, const char *name,
                        const char *text, struct tag_filter **ret, struct error *err)
{
    bool is_range = false;

    if (!text || !*text)
        return 0;
    int rc = tag_filter_new(text, units, ret, &is_range, err);
    if (rc < 0)
        return error_prefix(err, rc, "%s", name);
    const char *equals = strchr(text, '=');
    if (is_range && p->warnings)
        buf_addf(p->warnings, "%s:Interpreted '%s' as range, not regexp\n", name,
                 equals ? equals + 1 : text);
    return 0;
}

static int compile_all(const struct query_filters *f, const struct label_units *units,
                       struct patterns *p, struct error *err)
{
    const struct {
        const char *name, *text;
        struct regex **ret;
    } all[] = {
        {"focus", f->focus, &p->focus},
        {"ignore", f->ignore, &p->ignore},
        {"hide", f->hide, &p->hide},
        {"show", f->show, &p->show},
        {"show_from", f->show_from, &p->show_from},
        {"prune_from", f->prune_from, &p->prune_from},
        {"tagshow", f->tagshow, &p->tagshow},
        {"taghide", f->taghide, &p->taghide},
    };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(all) && rc == 0; i++)
        rc = compile(all[i].name, all[i].text, all[i].ret, err);
    for (size_t i = 0; i < ARRAY_SIZE(all) && rc == 0; i++)
        if (*all[i].ret)
            regex_set_cancel(*all[i].ret, f->cancelled);
    for (size_t i = 0; f->tagfocus[i] && rc == 0; i++)
        rc = compile_tags(p, units, "tagfocus", f->tagfocus[i], &p->tagfocus[i], err);
    for (size_t i = 0; f->tagignore[i] && rc == 0; i++)
        rc = compile_tags(p, units, "tagignore", f->tagignore[i], &p->tagignore[i], err);
    return rc;
}

static void warn_unless(const struct patterns *x, bool matched, const void *pattern,
                        const char *name)
{
    if (pattern && !matched && x->warnings)
        buf_addf(x->warnings, "%s expression matched no samples\n", name);
}

static bool apply_names(const struct patterns *x, struct profile *p)
{
    struct name_filter names = {x->focus, x->ignore, x->hide, x->show};
    struct name_matches m;
    bool from = false;

    if (!profile_filter_names(p, &names, &m))
        return false;
    warn_unless(x, m.focus, x->focus, "Focus");
    warn_unless(x, m.ignore, x->ignore, "Ignore");
    warn_unless(x, m.hide, x->hide, "Hide");
    warn_unless(x, m.show, x->show, "Show");
    if (x->show_from && !profile_show_from(p, x->show_from, &from))
        return false;
    warn_unless(x, from, x->show_from, "ShowFrom");
    return true;
}

static bool apply_tags(const struct patterns *x, struct profile *p)
{
    bool shown = true, hidden = true;

    for (size_t i = 0; i < QUERY_TAGS_MAX; i++) {
        bool focused = true, ignored = true;
        if ((x->tagfocus[i] || x->tagignore[i]) &&
            !profile_filter_tags(p, x->tagfocus[i], x->tagignore[i], &focused, &ignored))
            return false;
        warn_unless(x, focused, x->tagfocus[i], "TagFocus");
        warn_unless(x, ignored, x->tagignore[i], "TagIgnore");
    }
    if ((x->tagshow || x->taghide) &&
        !profile_filter_tag_keys(p, x->tagshow, x->taghide, &shown, &hidden))
        return false;
    warn_unless(x, shown, x->tagshow, "TagShow");
    warn_unless(x, hidden, x->taghide, "TagHide");
    return true;
}

bool query_filters_need_labels(const struct query_filters *f)
{
    const char *const keys[] = {f->taghide, f->tagshow};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i] && *keys[i])
            return true;
    for (size_t i = 0; f->tagfocus[i]; i++)
        if (*f->tagfocus[i])
            return true;
    for (size_t i = 0; f->tagignore[i]; i++)
        if (*f->tagignore[i])
            return true;
    return false;
}

int query_filter(const struct query_filters *f, const struct label_units *units, struct profile *p,
                 struct buf *warnings, struct error *err)
{
    CLEANUP(patterns_done) struct patterns x = {.warnings = warnings};
    int rc = compile_all(f, units, &x, err);

    if (rc < 0)
        return rc;
    bool ok = apply_names(&x, p) && apply_tags(&x, p) &&
              (!x.prune_from || profile_prune_from(p, x.prune_from));
    return ok ? 0 : budget_error(p->dict->budget, err);
}
