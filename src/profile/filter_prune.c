/* Cutting stacks off above or below a frame. */
#include <errno.h>

#include "base/buf.h"
#include "profile/filter_internal.h"

struct cut {
    struct dict *dict;
    struct matcher match, keep;
    bool has_keep;
    bool matched;
};

/* show_from: everything above the outermost match goes. */
enum { STARTED = 1 };

static struct seen_location look_from(void *context, uint32_t location)
{
    struct cut *c = context;
    struct location l = c->dict->locations.data[location];
    struct seen_location ret = {.to = location};

    if (matcher_mapping(&c->match, c->dict, location)) {
        ret.flags = STARTED;
    } else {
        uint32_t n = l.n_lines;
        while (n > 0 &&
               !matcher_line(&c->match, c->dict, &c->dict->lines.data[l.first_line + n - 1]))
            n--;
        if (n > 0) {
            ret.flags = STARTED;
            ret.to = filter_lines(c->dict, location, 0, n);
        }
    }
    c->matched |= ret.flags != 0;
    return ret;
}

static struct stack_state step_from(void *context, struct stack_state above, struct seen_location l)
{
    struct cut *c = context;
    uint32_t flags = above.flags | l.flags;
    uint32_t node = flags & STARTED ? dict_node(c->dict, above.node, l.to) : 0;

    return (struct stack_state){.node = node, .flags = flags};
}

static bool keep_started(const struct stack_state *s)
{
    return s->flags & STARTED;
}

bool profile_show_from(struct profile *p, const struct regex *re, bool *ret_matched)
{
    struct cut c = {.dict = p->dict};
    struct stack_pass pass = {.p = p, .context = &c, .look = look_from, .step = step_from};

    matcher_init(&c.match, re, p->dict->budget);
    bool ok = stack_pass_run(&pass);
    if (ok)
        stack_pass_apply(&pass, keep_started);
    *ret_matched = c.matched;
    stack_pass_done(&pass);
    matcher_done(&c.match);
    return ok;
}

/* prune_from: everything below the innermost match goes. While the pass goes down, `node` is the
 * whole stack; CUT_HERE says that a row ending here or below ends at this frame. */
enum { CUT_HERE = 1 };

static struct seen_location look_prune_from(void *context, uint32_t location)
{
    struct cut *c = context;
    struct location l = c->dict->locations.data[location];
    uint32_t i = 0;

    while (i < l.n_lines &&
           !matcher_function(&c->match, c->dict, &c->dict->lines.data[l.first_line + i]))
        i++;
    if (i == l.n_lines)
        return (struct seen_location){.to = location};
    return (struct seen_location){.to = filter_lines(c->dict, location, i, l.n_lines),
                                  .flags = CUT_HERE};
}

static struct stack_state step_whole(void *context, struct stack_state above,
                                     struct seen_location l)
{
    struct cut *c = context;
    return (struct stack_state){.node = dict_node(c->dict, above.node, l.to), .flags = l.flags};
}

static bool keep_all(const struct stack_state *s)
{
    (void)s;
    return true;
}

bool profile_prune_from(struct profile *p, const struct regex *re)
{
    struct cut c = {.dict = p->dict};
    struct stack_pass pass = {.p = p, .context = &c, .look = look_prune_from, .step = step_whole};

    matcher_init(&c.match, re, p->dict->budget);
    c.match.simplify = true;
    size_t n_nodes = dict_n_nodes(p->dict);
    bool ok = stack_pass_run(&pass);
    if (ok) {
        /* Callers first: a stack without a match of its own ends where its caller's does. */
        for (uint32_t n = 1; n < n_nodes; n++) {
            struct stack_state *s = &pass.state.data[n];
            const struct stack_state *above = &pass.state.data[p->dict->node_parent.data[n]];
            if (s->is_used && !(s->flags & CUT_HERE) && above->flags & CUT_HERE)
                *s = *above;
        }
        stack_pass_apply(&pass, keep_all);
    }
    stack_pass_done(&pass);
    matcher_done(&c.match);
    return ok;
}

/* drop_frames: from the outermost match on everything goes, unless nothing would be left. */
enum { DROP_WHOLE = 1, DROP_BELOW = 2, FOUND_USER = 4, IS_CUT = 8 };

static struct seen_location look_drop(void *context, uint32_t location)
{
    struct cut *c = context;
    struct dict *d = c->dict;
    struct location l = d->locations.data[location];
    uint32_t n = l.n_lines;

    while (n > 0) {
        const struct line *line = &d->lines.data[l.first_line + n - 1];
        if (matcher_function(&c->match, d, line) &&
            !(c->has_keep && matcher_function(&c->keep, d, line)))
            break;
        n--;
    }
    if (n == 0)
        return (struct seen_location){.to = location};
    if (n == l.n_lines)
        return (struct seen_location){.to = location, .flags = DROP_WHOLE};
    return (struct seen_location){.to = filter_lines(d, location, n, l.n_lines),
                                  .flags = DROP_BELOW};
}

static struct stack_state step_drop(void *context, struct stack_state above, struct seen_location l)
{
    struct cut *c = context;

    if (above.flags & IS_CUT)
        return above;
    if (l.flags & DROP_WHOLE && above.flags & FOUND_USER)
        return (struct stack_state){.node = above.node, .flags = IS_CUT};
    uint32_t node = dict_node(c->dict, above.node, l.to);
    uint32_t flags = above.flags;
    if (l.flags & DROP_BELOW && above.flags & FOUND_USER)
        flags = IS_CUT;
    else if (l.flags == 0)
        flags |= FOUND_USER;
    return (struct stack_state){.node = node, .flags = flags};
}

static int compile_whole(const struct dict *d, uint32_t pattern, struct regex **ret,
                         struct error *err)
{
    struct buf text = {0};

    buf_add_str(&text, "^(");
    buf_add_bytes(&text, dict_text(d, pattern));
    buf_add_str(&text, ")$");
    int r = regex_new(buf_bytes(&text), ret, err);
    buf_done(&text);
    return r;
}

int profile_drop_frames(struct profile *p, const atomic_bool *cancelled, struct error *err)
{
    struct budget *b = p->dict->budget;
    CLEANUP(regex_freep) struct regex *drop = NULL, *keep = NULL;
    struct cut c = {.dict = p->dict, .has_keep = p->keep_frames != 0};
    struct stack_pass pass = {.p = p, .context = &c, .look = look_drop, .step = step_drop};

    if (p->drop_frames == 0)
        return 0;
    int r = compile_whole(p->dict, p->drop_frames, &drop, err);
    if (r == 0 && c.has_keep)
        r = compile_whole(p->dict, p->keep_frames, &keep, err);
    if (r < 0)
        return r;
    regex_set_cancel(drop, cancelled);
    if (keep)
        regex_set_cancel(keep, cancelled);
    matcher_init(&c.match, drop, b);
    matcher_init(&c.keep, keep, b);
    c.match.simplify = c.keep.simplify = true;
    bool ok = stack_pass_run(&pass);
    if (ok)
        stack_pass_apply(&pass, keep_all);
    stack_pass_done(&pass);
    matcher_done(&c.match);
    matcher_done(&c.keep);
    return ok ? 0 : budget_error(b, err);
}
