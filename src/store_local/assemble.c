#include "store_local/assemble.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bisect.h"
#include "profile/translate.h"

/* Of the stacks of an epoch: one in so many is much. Few are ends of samples. */
#define MUCH 10

struct assemble {
    struct ask *a;
    struct scan *s;
    struct store_answer *answer;
    struct dict *dict;
    unsigned n_cols;
    VEC(struct partial *) partials; /* by cell, then by moment */
    struct sums cell, moment;       /* over the answer's nodes */
    uint32_t types[PROFILE_TYPES_MAX], units[PROFILE_TYPES_MAX];
};

static uint32_t cell_of(const struct ask *a, uint32_t bin)
{
    return bin & ASK_AVERAGED ? a->moments.data[bin & ~ASK_AVERAGED].cell : bin;
}

/* ---- Names */

/* The stack of one frame that stands for a function. */
static uint32_t function_node(struct assemble *m, struct translate *t, uint32_t name)
{
    struct function f = {.name = translate_string(t, name)};
    return dict_frame(m->dict, 0, f, 0, 0, 0);
}

static void translate_partial(struct assemble *m, struct translate *t, struct partial *p)
{
    bool of_functions = m->a->plan->what == PLAN_FUNCTIONS;

    for (size_t i = 0; i < p->taken.n; i++) {
        uint32_t key = p->taken.keys[i];
        p->taken.keys[i] = of_functions ? function_node(m, t, key) : translate_node(t, key);
    }
}

static size_t count_keys(const struct assemble *m, uint32_t epoch)
{
    size_t n = 0;

    for (size_t i = 0; i < m->s->n_shares; i++) {
        const struct scan_share *share = &m->s->shares[i];
        for (size_t j = 0; j < share->partials.len; j++)
            n += share->partials.data[j].epoch == epoch ? share->partials.data[j].taken.n : 0;
    }
    return n;
}

/* Where much of an epoch is needed its tables say how large those of the answer will be. */
static void make_room(struct dict *to, const struct dict *view, size_t n_keys)
{
    if (to->node_parent.len > 1 || n_keys < dict_n_nodes(view) / MUCH)
        return;
    dict_reserve(to, (struct dict_room){.strings = view->strings.len,
                                        .functions = view->functions.len,
                                        .locations = view->locations.len,
                                        .lines = view->lines.len});
}

/* Everything of one epoch at a time: its maps are then made once and soon gone. */
static int translate_all(struct assemble *m, struct error *err)
{
    struct snapshot *snap = m->a->snap;

    for (uint32_t e = 0; e < snap->epochs.len; e++) {
        const struct dict *view = &snap->epochs.data[e]->view;
        size_t n_keys = count_keys(m, e);
        struct translate t;

        if (n_keys == 0)
            continue;
        if (m->a->plan->what == PLAN_STACKS)
            make_room(m->dict, view, n_keys);
        (void)translate_init(&t, view, m->dict);
        for (size_t i = 0; i < m->s->n_shares; i++) {
            struct scan_share *share = &m->s->shares[i];
            for (size_t j = 0; j < share->partials.len; j++) {
                if (share->partials.data[j].epoch == e)
                    translate_partial(m, &t, &share->partials.data[j]);
            }
        }
        translate_done(&t);
        if (budget_failed(m->dict->budget))
            return budget_error(m->dict->budget, err);
    }
    return 0;
}

/* ---- Sums */

static int by_cell(const void *x, const void *y, void *arg)
{
    const struct partial *p = *(struct partial *const *)x, *q = *(struct partial *const *)y;
    uint32_t a = cell_of(arg, p->bin), b = cell_of(arg, q->bin);

    if (a != b)
        return a < b ? -1 : 1;
    return p->bin < q->bin ? -1 : p->bin > q->bin;
}

static int sort_partials(struct assemble *m, struct error *err)
{
    struct ask *a = m->a;

    for (size_t i = 0; i < m->s->n_shares; i++) {
        struct scan_share *share = &m->s->shares[i];
        for (size_t j = 0; j < share->partials.len; j++) {
            if (!vec_push(a->budget, &m->partials, &share->partials.data[j]))
                return budget_error(a->budget, err);
        }
    }
    if (m->partials.len > 1)
        qsort_r(m->partials.data, m->partials.len, sizeof(*m->partials.data), by_cell, a);
    return 0;
}

static void add_taken(struct sums *to, const struct sums_taken *taken)
{
    for (unsigned c = 0; c < taken->n_cols; c++) {
        for (size_t i = 0; i < taken->n; i++)
            (void)sums_add(to, taken->keys[i], c, taken->values[c * taken->n + i]);
    }
}

/* Divides what was summed up of one series and adds it to the cell. */
static bool average_moment(struct assemble *m, uint32_t moment)
{
    struct sums_taken taken;

    if (!sums_take(&m->moment, &taken))
        return false;
    for (size_t i = 0; i < taken.n * taken.n_cols; i++)
        taken.values[i] = ask_average(taken.values[i], m->a->moments.data[moment].n);
    add_taken(&m->cell, &taken);
    sums_taken_done(m->moment.budget, &taken);
    return true;
}

/* Adds partials [from, to), all of one cell, up into m->cell. */
static bool add_partials(struct assemble *m, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct partial *p = m->partials.data[i];
        if (!(p->bin & ASK_AVERAGED)) {
            add_taken(&m->cell, &p->taken);
            continue;
        }
        add_taken(&m->moment, &p->taken);
        bool is_last = i + 1 == to || m->partials.data[i + 1]->bin != p->bin;
        if (is_last && !average_moment(m, p->bin & ~ASK_AVERAGED))
            return false;
    }
    return true;
}

/* ---- Cells and profiles */

static void set_types(struct assemble *m)
{
    const struct ask *a = m->a;

    for (size_t c = 0; c < a->columns.len; c++) {
        m->types[c] = dict_string(m->dict, a->columns.data[c].name);
        m->units[c] = dict_string(m->dict, a->columns.data[c].unit);
    }
    m->n_cols = (unsigned)a->columns.len;
    if (a->plan->what == PLAN_FUNCTIONS) {
        m->types[0] = dict_cstring(m->dict, "flat");
        m->types[1] = dict_cstring(m->dict, "cum");
        m->units[1] = m->units[0];
        m->n_cols = 2;
    }
}

static struct profile *new_profile(struct assemble *m, const struct ask_cell *cell)
{
    struct profile *p = profile_set_add(m->answer->set);

    if (!p)
        return NULL;
    for (unsigned c = 0; c < m->n_cols; c++)
        profile_add_type(p, m->types[c], m->units[c]);
    p->time_unix_ns = cell->start_ns;
    p->duration_ns = cell->duration_ns;
    p->period = cell->period;
    p->period_type.type = dict_string(m->dict, m->a->period_type.name);
    p->period_type.unit = dict_string(m->dict, m->a->period_type.unit);
    return p;
}

static bool fill_profile(struct profile *p, const struct sums_taken *taken)
{
    if (!profile_reserve(p, taken->n) || p->n_types < taken->n_cols)
        return false;
    if (taken->n == 0)
        return true;
    memcpy(p->node, taken->keys, taken->n * sizeof(uint32_t));
    for (unsigned c = 0; c < taken->n_cols; c++)
        memcpy(p->values[c], taken->values + c * taken->n, taken->n * sizeof(int64_t));
    p->n_samples = taken->n;
    return true;
}

/* The profile of a cell from its partials; one alone is copied as it is. */
static int make_profile(struct assemble *m, const struct ask_cell *cell, size_t from, size_t to,
                        struct profile **ret, struct error *err)
{
    struct profile *p = new_profile(m, cell);
    struct sums_taken taken = {0};
    bool ok = p != NULL;

    if (ok && to - from == 1 && !(m->partials.data[from]->bin & ASK_AVERAGED)) {
        ok = fill_profile(p, &m->partials.data[from]->taken);
    } else if (ok && to > from) {
        if (!add_partials(m, from, to) || !sums_take(&m->cell, &taken))
            return budget_error(m->a->budget, err);
        ok = fill_profile(p, &taken);
        sums_taken_done(m->a->budget, &taken);
    }
    if (!ok)
        return budget_error(m->dict->budget, err);
    *ret = p;
    return 0;
}

static int add_group(struct assemble *m, const struct ask_group *group, struct error *err)
{
    const struct store_plan *plan = m->a->plan;
    struct label *labels = arena_new(&m->dict->text, struct label, plan->n_group_by);

    for (size_t i = 0; labels && i < plan->n_group_by; i++) {
        labels[i].name = dict_text(m->dict, dict_string(m->dict, plan->group_by[i]));
        labels[i].value = dict_text(m->dict, dict_string(m->dict, group->values[i]));
    }
    if (!labels || !vec_push(&m->answer->budget, &m->answer->groups, labels))
        return budget_error(&m->answer->budget, err);
    return 0;
}

static bool has_profile(const struct ask *a)
{
    return a->plan->what == PLAN_STACKS || a->plan->what == PLAN_FUNCTIONS;
}

/* Whether a cell is part of the answer: some row was in it and, where samples were filtered, some
 * sample passed. */
static bool is_there(const struct ask *a, const struct ask_cell *c, bool has_sums)
{
    if (a->reads_times)
        return c->n_profiles > 0 || c->has_samples;
    return c->n_profiles > 0 && (!a->has_filter || has_sums || c->has_samples);
}

static int add_cells(struct assemble *m, const struct ask_group *group, struct error *err)
{
    struct ask *a = m->a;
    bool is_new = true;
    size_t at = BISECT(m->partials.len, i, cell_of(a, m->partials.data[i]->bin) < group->cells);
    int r = 0;

    for (uint32_t step = 0; step < a->n_steps && r == 0; step++) {
        uint32_t number = group->cells + step;
        const struct ask_cell *c = &a->cells.data[number];
        size_t end = at;

        while (end < m->partials.len && cell_of(a, m->partials.data[end]->bin) == number)
            end++;
        if (is_there(a, c, end > at)) {
            if (is_new)
                r = add_group(m, group, err);
            is_new = false;
            struct store_cell cell = {.group = (uint32_t)m->answer->groups.len - 1,
                                      .start_ns = ask_step_start(a, step),
                                      .value = c->value,
                                      .flat = c->flat,
                                      .n_profiles = c->n_profiles};
            if (r == 0 && has_profile(a))
                r = make_profile(m, c, at, end, &cell.profile, err);
            if (r == 0 && !vec_push(&m->answer->budget, &m->answer->cells, cell))
                r = budget_error(&m->answer->budget, err);
        }
        at = end;
    }
    return r;
}

/* Averages of numbers; those of stacks are made with their profiles. */
static void average_numbers(struct ask *a)
{
    if (a->plan->instant != INSTANT_AVERAGE || has_profile(a))
        return;
    for (size_t i = 0; i < a->moments.len; i++) {
        const struct ask_moment *m = &a->moments.data[i];
        if (!m->has)
            continue;
        struct ask_cell *c = &a->cells.data[m->cell];
        c->value += ask_average(m->value, m->n);
        c->flat += ask_average(m->flat, m->n);
    }
}

static int make_sums(struct assemble *m, struct error *err)
{
    size_t n = dict_n_nodes(m->dict);

    if (m->partials.len < 2 && m->a->moments.len == 0)
        return 0;
    if (!sums_init(&m->cell, m->a->budget, n, m->n_cols) ||
        (m->a->moments.len > 0 && !sums_init(&m->moment, m->a->budget, n, m->n_cols)))
        return budget_error(m->a->budget, err);
    m->cell.is_marked = m->moment.is_marked = true;
    return 0;
}

int assemble(struct ask *a, struct scan *s, struct store_answer *answer, struct error *err)
{
    struct assemble m = {.a = a, .s = s, .answer = answer, .dict = answer->set->dict};
    int r = 0;

    average_numbers(a);
    if (has_profile(a)) {
        set_types(&m);
        r = translate_all(&m, err);
        if (r == 0)
            r = sort_partials(&m, err);
        if (r == 0)
            r = make_sums(&m, err);
    }
    for (size_t i = 0; i < a->groups.len && r == 0; i++) {
        if (a->groups.data[i].cells != ASK_NONE)
            r = add_cells(&m, &a->groups.data[i], err);
    }
    sums_done(&m.cell);
    sums_done(&m.moment);
    vec_done(a->budget, &m.partials);
    if (r == 0 && budget_failed(&answer->budget))
        r = budget_error(&answer->budget, err);
    return r;
}
