/* The options that choose samples, frames and labels, applied in pprof's order. */
#include "cli/report_internal.h"
#include "profile/filter.h"
#include "profile/tag_filter.h"

struct patterns {
    struct regex *focus, *ignore, *hide, *show, *show_from, *prune_from, *tagshow, *taghide;
    struct tag_filter *tagfocus, *tagignore;
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
    tag_filter_free(p->tagfocus);
    tag_filter_free(p->tagignore);
}

static int compile(const char *name, const char *text, struct regex **ret, struct error *err)
{
    if (!text || !*text)
        return 0;
    int rc = regex_new(bytes_of(text), ret, err);
    return rc < 0 ? error_prefix(err, rc, "%s", name) : 0;
}

static int compile_tags(struct report *r, const char *name, const char *text,
                        struct tag_filter **ret)
{
    bool is_range = false;

    if (!text || !*text)
        return 0;
    int rc = tag_filter_new(text, &r->units, ret, &is_range, r->err);
    if (rc < 0)
        return error_prefix(r->err, rc, "%s", name);
    const char *equals = strchr(text, '=');
    if (is_range && r->o.warnings)
        buf_addf(r->o.warnings, "%s:Interpreted '%s' as range, not regexp\n", name,
                 equals ? equals + 1 : text);
    return 0;
}

static int compile_all(struct report *r, struct patterns *p)
{
    const struct report_options *o = &r->o;
    const struct {
        const char *name, *text;
        struct regex **ret;
    } all[] = {
        {"focus", o->focus, &p->focus},
        {"ignore", o->ignore, &p->ignore},
        {"hide", o->hide, &p->hide},
        {"show", o->show, &p->show},
        {"show_from", o->show_from, &p->show_from},
        {"prune_from", o->prune_from, &p->prune_from},
        {"tagshow", o->tagshow, &p->tagshow},
        {"taghide", o->taghide, &p->taghide},
    };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(all) && rc == 0; i++)
        rc = compile(all[i].name, all[i].text, all[i].ret, r->err);
    if (rc == 0)
        rc = compile_tags(r, "tagfocus", o->tagfocus, &p->tagfocus);
    if (rc == 0)
        rc = compile_tags(r, "tagignore", o->tagignore, &p->tagignore);
    return rc;
}

static void warn_unless(const struct report *r, bool matched, const void *pattern, const char *name)
{
    if (pattern && !matched && r->o.warnings)
        buf_addf(r->o.warnings, "%s expression matched no samples\n", name);
}

static bool apply_names(const struct report *r, const struct patterns *x, struct profile *p)
{
    struct name_filter names = {x->focus, x->ignore, x->hide, x->show};
    struct name_matches m;
    bool from = false;

    if (!profile_filter_names(p, &names, &m))
        return false;
    warn_unless(r, m.focus, x->focus, "Focus");
    warn_unless(r, m.ignore, x->ignore, "Ignore");
    warn_unless(r, m.hide, x->hide, "Hide");
    warn_unless(r, m.show, x->show, "Show");
    if (x->show_from && !profile_show_from(p, x->show_from, &from))
        return false;
    warn_unless(r, from, x->show_from, "ShowFrom");
    return true;
}

static bool apply_tags(const struct report *r, const struct patterns *x, struct profile *p)
{
    bool focused = true, ignored = true, shown = true, hidden = true;

    if ((x->tagfocus || x->tagignore) &&
        !profile_filter_tags(p, x->tagfocus, x->tagignore, &focused, &ignored))
        return false;
    warn_unless(r, focused, x->tagfocus, "TagFocus");
    warn_unless(r, ignored, x->tagignore, "TagIgnore");
    if ((x->tagshow || x->taghide) &&
        !profile_filter_tag_keys(p, x->tagshow, x->taghide, &shown, &hidden))
        return false;
    warn_unless(r, shown, x->tagshow, "TagShow");
    warn_unless(r, hidden, x->taghide, "TagHide");
    return true;
}

int report_filter(struct report *r, struct profile *p)
{
    CLEANUP(patterns_done) struct patterns x = {0};
    int rc = compile_all(r, &x);

    if (rc < 0)
        return rc;
    bool ok = apply_names(r, &x, p) && apply_tags(r, &x, p) &&
              (!x.prune_from || profile_prune_from(p, x.prune_from));
    return ok ? 0 : budget_error(r->dict->budget, r->err);
}
