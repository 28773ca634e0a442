#include "profile/filter.h"

#include "profile/filter_internal.h"

void matcher_init(struct matcher *m, const struct regex *re, struct budget *b)
{
    *m = (struct matcher){.re = re, .budget = b};
}

void matcher_done(struct matcher *m)
{
    vec_done(m->budget, &m->memo);
}

/* "f" of "f(int)": up to the first parenthesis that is not part of a name. */
static struct bytes simplified(struct bytes name)
{
    static const struct bytes reserved[] = {BYTES("(anonymous namespace)"), BYTES("operator()")};

    if (name.len > 0 && name.data[0] == '.')
        name = bytes_from(name, 1);
    for (size_t i = 0; i < name.len;) {
        struct bytes rest = bytes_from(name, i);
        if (bytes_start_with(rest, reserved[0]))
            i += reserved[0].len;
        else if (bytes_start_with(rest, reserved[1]))
            i += reserved[1].len;
        else if (name.data[i] == '(')
            return bytes_head(name, i);
        else
            i++;
    }
    return name;
}

static bool matcher_string(struct matcher *m, const struct dict *d, uint32_t string)
{
    if (string >= m->memo.len && !vec_resize(m->budget, &m->memo, d->strings.len))
        return false;
    uint8_t *memo = &m->memo.data[string];
    if (*memo == 0) {
        struct bytes text = dict_text(d, string);
        *memo = regex_matches(m->re, m->simplify ? simplified(text) : text) ? 2 : 1;
    }
    return *memo == 2;
}

bool matcher_function(struct matcher *m, const struct dict *d, const struct line *line)
{
    uint32_t name = d->functions.data[line->function].name;
    return line->function != 0 && name != 0 && matcher_string(m, d, name);
}

bool matcher_line(struct matcher *m, const struct dict *d, const struct line *line)
{
    const struct function *f = &d->functions.data[line->function];
    return matcher_string(m, d, f->name) || matcher_string(m, d, f->file);
}

bool matcher_mapping(struct matcher *m, const struct dict *d, uint32_t location)
{
    uint32_t mapping = d->locations.data[location].mapping;
    return mapping != 0 && matcher_string(m, d, d->mappings.data[mapping].file);
}

/* The location with only these of its lines. */
static uint32_t with_lines(struct dict *d, uint32_t location, const struct line *lines, size_t n)
{
    struct location l = d->locations.data[location];
    return n == l.n_lines ? location : dict_location(d, l, lines, n);
}

uint32_t filter_lines(struct dict *d, uint32_t location, uint32_t from, uint32_t to)
{
    struct location l = d->locations.data[location];
    VEC(struct line) lines = {0}; /* a copy: the table may move */
    uint32_t ret = 0;

    if (vec_append(d->budget, &lines, d->lines.data + l.first_line + from, to - from))
        ret = with_lines(d, location, lines.data, lines.len);
    vec_done(d->budget, &lines);
    return ret;
}

bool stack_pass_run(struct stack_pass *s)
{
    struct dict *d = s->dict = s->p->dict;
    size_t n_nodes = dict_n_nodes(d);
    void *p = NULL;

    s->n_locations = d->locations.len;
    if (!vec_resize(d->budget, &s->state, n_nodes) ||
        !budget_resize(d->budget, &p, 0, s->n_locations * sizeof(*s->locations)))
        return false;
    s->locations = p;
    memset(s->locations, 0, s->n_locations * sizeof(*s->locations));
    for (size_t i = 0; i < s->p->n_samples; i++) {
        for (uint32_t n = s->p->node[i]; n != 0 && !s->state.data[n].is_used;
             n = d->node_parent.data[n])
            s->state.data[n].is_used = true;
    }
    for (uint32_t n = 1; n < n_nodes && !budget_failed(d->budget); n++) {
        if (!s->state.data[n].is_used)
            continue;
        struct seen_location *l = &s->locations[d->node_location.data[n]];
        if (!l->is_known) {
            *l = s->look(s->context, d->node_location.data[n]);
            l->is_known = true;
        }
        s->state.data[n] = s->step(s->context, s->state.data[d->node_parent.data[n]], *l);
        s->state.data[n].is_used = true;
    }
    return !budget_failed(d->budget);
}

void stack_pass_done(struct stack_pass *s)
{
    vec_done(s->dict->budget, &s->state);
    budget_free(s->dict->budget, s->locations, s->n_locations * sizeof(*s->locations));
}

void stack_pass_apply(struct stack_pass *s, bool (*keep)(const struct stack_state *s))
{
    struct profile *p = s->p;
    size_t kept = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        const struct stack_state *state = &s->state.data[p->node[i]];
        if (!keep(state))
            continue;
        profile_move_row(p, i, kept);
        p->node[kept++] = state->node;
    }
    p->n_samples = kept;
}

/* focus, ignore, hide and show. */
enum { FOCUSED = 1, IGNORED = 2, HAS_HIDDEN = 4 };

struct names {
    struct dict *dict;
    const struct name_filter *f;
    struct matcher focus, ignore, hide, show;
    struct name_matches matches;
    VEC(struct line) lines;
};

static bool matches_location(struct matcher *m, const struct dict *d, uint32_t location)
{
    const struct location *l = &d->locations.data[location];

    for (uint32_t i = 0; i < l->n_lines; i++) {
        if (matcher_line(m, d, &d->lines.data[l->first_line + i]))
            return true;
    }
    return matcher_mapping(m, d, location);
}

/* Keeps the lines that do (or do not) match. */
static void keep_lines(struct names *n, struct matcher *m, bool wanted)
{
    size_t kept = 0;

    for (size_t i = 0; i < n->lines.len; i++) {
        struct line line = n->lines.data[i];
        if (matcher_line(m, n->dict, &line) == wanted)
            n->lines.data[kept++] = line;
    }
    n->lines.len = kept;
}

/* What hide and show leave of a location: itself, another one, or 0. */
static uint32_t shown_location(struct names *n, uint32_t location)
{
    struct dict *d = n->dict;
    struct location l = d->locations.data[location];
    bool is_hidden = false;

    vec_clear(&n->lines);
    if (!vec_append(d->budget, &n->lines, d->lines.data + l.first_line, l.n_lines))
        return 0;
    if (n->f->hide && matches_location(&n->hide, d, location)) {
        n->matches.hide = true;
        if (matcher_mapping(&n->hide, d, location))
            vec_clear(&n->lines);
        keep_lines(n, &n->hide, false);
        is_hidden = n->lines.len == 0;
    }
    if (n->f->show) {
        if (!matcher_mapping(&n->show, d, location))
            keep_lines(n, &n->show, true);
        is_hidden |= n->lines.len == 0;
        n->matches.show |= n->lines.len > 0;
    }
    return is_hidden ? 0 : with_lines(d, location, n->lines.data, n->lines.len);
}

static struct seen_location look_names(void *context, uint32_t location)
{
    struct names *n = context;
    struct seen_location ret = {.to = location};

    if (n->f->ignore && matches_location(&n->ignore, n->dict, location)) {
        n->matches.ignore = true;
        ret.flags = IGNORED;
    } else if (!n->f->focus || matches_location(&n->focus, n->dict, location)) {
        n->matches.focus = true;
        ret.flags = FOCUSED;
    }
    if (n->f->hide || n->f->show)
        ret.to = shown_location(n, location);
    return ret;
}

static struct stack_state step_names(void *context, struct stack_state above,
                                     struct seen_location l)
{
    struct names *n = context;
    return (struct stack_state){.node = dict_node(n->dict, above.node, l.to),
                                .flags = above.flags | l.flags | (l.to ? 0 : HAS_HIDDEN)};
}

static bool keep_named(const struct stack_state *s)
{
    if (!(s->flags & FOCUSED) || s->flags & IGNORED)
        return false;
    return !(s->flags & HAS_HIDDEN) || s->node != 0;
}

bool profile_filter_names(struct profile *p, const struct name_filter *f, struct name_matches *ret)
{
    struct budget *b = p->dict->budget;
    struct names n = {.dict = p->dict, .f = f};
    struct stack_pass pass = {.p = p, .context = &n, .look = look_names, .step = step_names};

    *ret = (struct name_matches){.focus = true};
    if (!f->focus && !f->ignore && !f->hide && !f->show)
        return true;
    matcher_init(&n.focus, f->focus, b);
    matcher_init(&n.ignore, f->ignore, b);
    matcher_init(&n.hide, f->hide, b);
    matcher_init(&n.show, f->show, b);
    bool ok = stack_pass_run(&pass);
    if (ok)
        stack_pass_apply(&pass, keep_named);
    *ret = n.matches;
    stack_pass_done(&pass);
    matcher_done(&n.focus);
    matcher_done(&n.ignore);
    matcher_done(&n.hide);
    matcher_done(&n.show);
    vec_done(b, &n.lines);
    return ok;
}
