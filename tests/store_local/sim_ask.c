#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/le.h"
#include "store_local/sim_model.h"

uint64_t sim_content(const struct profile *p, uint32_t column)
{
    const struct dict *d = p->dict;
    uint64_t sum = 0;

    for (size_t i = 0; i < p->n_samples; i++) {
        uint64_t hash = 1;
        for (uint32_t node = p->node[i]; node != 0; node = d->node_parent.data[node]) {
            const struct location *l = &d->locations.data[d->node_location.data[node]];
            struct bytes name = {0};
            if (l->n_lines > 0)
                name = dict_text(d, d->functions.data[d->lines.data[l->first_line].function].name);
            hash = checksum64_seeded(name.data, name.len, hash);
        }
        sum += hash * (uint64_t)p->values[column][i];
    }
    return sum;
}

/* ---- Single profiles */

static uint64_t linked_content(const struct profile *p)
{
    uint64_t sum = 0, more[2];

    for (size_t i = 0; i < p->n_samples; i++) {
        const struct link *l = &p->dict->links.data[profile_link(p, i)];
        more[0] = profile_time_ns(p, i);
        more[1] = (uint64_t)l->trace_id[0] << 8 | l->span_id[0];
        if (more[1])
            sum += checksum64(more, sizeof(more)) * (uint64_t)p->values[0][i];
    }
    return sum;
}

struct seeker {
    struct sim_world *w;
    unsigned tenant;
    uint64_t n;
};

static struct sim_entry *find_entry(struct seeker *s, const struct store_found *f)
{
    struct sim_world *w = s->w;

    for (size_t i = 0; i < w->n_entries; i++) {
        struct sim_entry *e = &w->entries[i];
        if (e->start_ns == f->start_ns && e->tenant == s->tenant && e->has_id == f->has_id &&
            (!e->has_id || memcmp(e->id, f->id, 16) == 0))
            return e;
    }
    return NULL;
}

/* NULL, or what differs. Names that a damaged dictionary has lost may be missing, and so may
 * labels, when the store has said so. */
static const char *difference(const struct sim_entry *e, const struct store_found *f, bool is_told)
{
    const struct store_series *s = f->series;
    const struct profile *p = f->profile;
    uint64_t content = 0;

    if (is_told &&
        (s->n_types == 0 || label_value(s->labels, s->n_labels, bytes_of("vesta.lost")).len))
        return NULL;
    if (!bytes_are(label_value(s->labels, s->n_labels, bytes_of("pod")), sim_pod(e->pod)) ||
        !bytes_are(label_value(s->labels, s->n_labels, bytes_of(LABEL_SERVICE)),
                   sim_service(e->service)))
        return "its labels";
    if (s->is_instant != (e->kind == SIM_HEAP) || s->n_types != 1u + (e->kind != SIM_CPU) || !p ||
        p->n_types != s->n_types)
        return "its types";
    for (uint32_t t = 0; t < s->n_types; t++) {
        if (f->totals[t] != e->totals[t])
            return "its totals";
        if (!is_told && profile_total(p, t) != e->totals[t])
            return "the total of its samples";
        content += sim_content(p, t) * (2 * t + 1);
    }
    if (is_told)
        return NULL;
    return content != e->content            ? "its samples"
           : linked_content(p) != e->linked ? "its links"
                                            : NULL;
}

static int see(void *ctx, const struct store_found *f)
{
    struct seeker *s = ctx;
    struct sim_entry *e = find_entry(s, f);
    const char *what = e ? difference(e, f, s->w->is_lossy && s->w->is_reported) : NULL;

    s->n++;
    if (!e)
        sim_fail(s->w, "a profile was found that nobody stored: start %lld",
                 (long long)f->start_ns);
    else if (what)
        sim_fail(s->w, "of a profile, %s changed: start %lld", what, (long long)f->start_ns);
    else
        e->n_found++;
    return 0;
}

static int see_span(void *ctx, const struct store_span *span)
{
    struct seeker *s = ctx;
    struct sim_world *w = s->w;
    uint64_t id = le64_get(span->span_id);

    for (size_t i = 0; i < w->n_spans; i++) {
        struct sim_span *x = &w->spans[i];
        if (x->id != id || x->tenant != s->tenant)
            continue;
        if (x->start_ns != span->start_ns || !bytes_are(span->service, sim_service(x->service)) ||
            !bytes_are(span->name, "GET /") || span->n_attributes != x->id % 2)
            sim_fail(w, "span %llu has changed", (unsigned long long)id);
        x->n_found++;
        return 0;
    }
    sim_fail(w, "a span was found that nobody stored: %llu", (unsigned long long)id);
    return 0;
}

/* Of something lost: fine when the disk did it and the store told. */
static bool is_loss_told(struct sim_world *w)
{
    return w->is_lossy && (w->is_reported || sim_is_dead(w));
}

static void judge(struct sim_world *w, struct sim_entry *e, bool is_fresh)
{
    int there = sim_is_there(w, e);
    long long start = (long long)e->start_ns;

    /* A retry may find its series, or its file, damaged. */
    if (e->n_found > 1 && !e->may_be_double && !is_loss_told(w))
        sim_fail(w, "a profile is there %u times: start %lld", e->n_found, start);
    else if (there > 0 && e->n_found == 0) {
        if (!is_loss_told(w))
            sim_fail(w, "an acknowledged profile is lost%s: start %lld",
                     w->is_lossy ? " and nobody told" : "", start);
        e->state = SIM_LOST;
    } else if (there == 0 && e->n_found > 0 && e->state == SIM_DOUBT && !is_fresh)
        sim_fail(w, "a profile shows whose append failed: start %lld", start);
    else if (there == 0 && e->n_found > 0 && e->state != SIM_DOUBT && !w->is_lossy)
        sim_fail(w, "a profile is there that was %s: start %lld",
                 e->state == SIM_ERASED ? "erased" : "never taken", start);
    if (is_fresh && e->state == SIM_DOUBT)
        e->state = e->n_found > 0 ? SIM_ACKED : SIM_ABSENT;
    if (is_fresh && e->is_erase_in_doubt && e->state == SIM_ACKED) {
        e->is_erase_in_doubt = false;
        if (e->n_found == 0)
            e->state = SIM_ERASED;
    }
}

static void judge_span(struct sim_world *w, struct sim_span *s, bool is_fresh)
{
    bool may_be_gone = s->start_ns < w->max_now_ns - w->min_span_age_ns;

    if (s->n_found > 1)
        sim_fail(w, "span %llu is there %u times", (unsigned long long)s->id, s->n_found);
    else if (s->state == SIM_ACKED && s->n_found == 0 && !may_be_gone) {
        if (!is_loss_told(w))
            sim_fail(w, "an acknowledged span is lost: %llu", (unsigned long long)s->id);
        s->state = SIM_LOST;
    } else if (s->n_found > 0 && (s->state == SIM_ABSENT || (s->state == SIM_DOUBT && !is_fresh)) &&
               !w->is_lossy)
        sim_fail(w, "span %llu is there, though it was not taken", (unsigned long long)s->id);
    if (is_fresh && s->state == SIM_DOUBT)
        s->state = s->n_found > 0 ? SIM_ACKED : SIM_ABSENT;
}

/* False when it could not be asked, for a reason that is fine. */
static bool ask_tenant(struct sim_world *w, unsigned tenant)
{
    struct seeker s = {.w = w, .tenant = tenant};
    struct store_find find = {
        .tenant = bytes_of(sim_tenant(tenant)), .to_ns = INT64_MAX, .with_samples = true};
    struct store_span_find spans = {.tenant = find.tenant, .to_ns = INT64_MAX};

    int r = store_profiles(w->store, &find, see, &s, &w->err);
    if (r == 0 && !w->has_no_spans)
        r = store_spans(w->store, &spans, see_span, &s, &w->err);
    if (r == -EOPNOTSUPP)
        r = 0;
    if (r == 0)
        return true;
    sim_say(w, "looking for everything: %d %s", r, w->err.text);
    w->is_reported = true;
    if (!sim_is_excused(w) && !w->is_lossy)
        sim_fail(w, "could not look for profiles: %s", w->err.text);
    return w->is_lossy && !sim_is_excused(w);
}

void sim_check_all(struct sim_world *w, bool is_fresh)
{
    bool was_asked = true;

    for (size_t i = 0; i < w->n_entries; i++)
        w->entries[i].n_found = 0;
    for (size_t i = 0; i < w->n_spans; i++)
        w->spans[i].n_found = 0;
    for (unsigned i = 0; i < SIM_TENANTS && was_asked && !w->is_failed; i++)
        was_asked = ask_tenant(w, i);
    if (!was_asked || w->is_failed)
        return;
    (void)sim_is_dead(w); /* hears of lost records */
    for (size_t i = 0; i < w->n_entries; i++)
        judge(w, &w->entries[i], is_fresh);
    for (size_t i = 0; i < w->n_spans; i++)
        judge_span(w, &w->spans[i], is_fresh);
}

/* ---- Sums */

struct question {
    struct store_plan plan;
    const char *type;
    int service, pod; /* -1: any */
    bool by_service, by_pod;
    unsigned tenant;
};

struct expected {
    int service, pod;
    int64_t step, value;
    uint64_t content, n_profiles;
    int64_t last_ns[SIM_SERVICES][SIM_PODS], best[SIM_SERVICES][SIM_PODS];
    bool has[SIM_SERVICES][SIM_PODS];
    bool is_seen;
};

static int64_t floor_to(int64_t t, int64_t step)
{
    return step > 0 ? t - t % step : 0;
}

static int column_of(const struct sim_entry *e, const char *type)
{
    if (strcmp(type, "inuse_space") == 0)
        return e->kind == SIM_HEAP ? 1 : -1;
    if (strcmp(type, "samples") == 0)
        return e->kind == SIM_CPU_AND_COUNT ? 0 : -1;
    return e->kind == SIM_CPU ? 0 : e->kind == SIM_CPU_AND_COUNT ? 1 : -1;
}

/* Instant values of one series in one cell: those before this one count no more. */
static void add_instant(struct expected *x, const struct sim_entry *e, int64_t value,
                        enum plan_instant what)
{
    int64_t *last = &x->last_ns[e->service][e->pod], *best = &x->best[e->service][e->pod];
    bool *has = &x->has[e->service][e->pod];
    bool wins = !*has || (what == INSTANT_LAST ? e->start_ns > *last : value > *best);

    if (wins) {
        x->value += value - (*has ? *best : 0);
        *best = value;
        *last = e->start_ns;
    }
    *has = true;
}

struct sums {
    struct expected *cells;
    size_t n, cap;
    bool is_doubtful;
};

static struct expected *cell_of(struct sums *s, int service, int pod, int64_t step)
{
    for (size_t i = 0; i < s->n; i++) {
        struct expected *x = &s->cells[i];
        if (x->service == service && x->pod == pod && x->step == step)
            return x;
    }
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 16;
        s->cells = realloc(s->cells, s->cap * sizeof(*s->cells));
    }
    s->cells[s->n] = (struct expected){.service = service, .pod = pod, .step = step};
    return &s->cells[s->n++];
}

static void add_up(const struct sim_world *w, const struct question *q, struct sums *ret)
{
    for (size_t i = 0; i < w->n_entries; i++) {
        const struct sim_entry *e = &w->entries[i];
        int column = column_of(e, q->type), there = sim_is_there(w, e);
        if (column < 0 || there == 0 || e->tenant != q->tenant || e->start_ns < q->plan.from_ns ||
            e->start_ns >= q->plan.to_ns || (q->service >= 0 && e->service != q->service) ||
            (q->pod >= 0 && e->pod != q->pod))
            continue;
        ret->is_doubtful |= there < 0;
        struct expected *x = cell_of(ret, q->by_service ? e->service : -1, q->by_pod ? e->pod : -1,
                                     floor_to(e->start_ns, q->plan.step_ns));
        if (e->kind == SIM_HEAP && q->plan.instant != INSTANT_SUM)
            add_instant(x, e, e->totals[column], q->plan.instant);
        else
            x->value += e->totals[column];
        x->n_profiles++;
    }
}

static int number_of(struct bytes value, const char *(*name)(unsigned), unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        if (bytes_are(value, name(i)))
            return (int)i;
    }
    return -2;
}

static void compare(struct sim_world *w, const struct question *q, struct sums *want,
                    const struct store_answer *got)
{
    for (size_t i = 0; i < got->cells.len && !w->is_failed; i++) {
        const struct store_cell *c = &got->cells.data[i];
        const struct label *group = q->plan.n_group_by ? got->groups.data[c->group] : NULL;
        size_t g = 0;
        int service = q->by_service ? number_of(group[g++].value, sim_service, SIM_SERVICES) : -1;
        int pod = q->by_pod ? number_of(group[g++].value, sim_pod, SIM_PODS) : -1;
        struct expected *x = cell_of(want, service, pod, floor_to(c->start_ns, q->plan.step_ns));
        int64_t value = c->value;
        if (q->plan.what == PLAN_STACKS)
            value = c->profile ? profile_total(c->profile, 0) : 0;
        bool is_picked = q->plan.instant != INSTANT_SUM && strcmp(q->type, "inuse_space") == 0;
        if (value != x->value || (!is_picked && x->n_profiles != c->n_profiles))
            sim_fail(w, "a sum is %lld of %llu profiles, not %lld of %llu", (long long)value,
                     (unsigned long long)c->n_profiles, (long long)x->value,
                     (unsigned long long)x->n_profiles);
        if (x->is_seen)
            sim_fail(w, "an answer has a cell twice");
        x->is_seen = true;
    }
    for (size_t i = 0; i < want->n && !w->is_failed; i++) {
        if (!want->cells[i].is_seen && want->cells[i].value != 0)
            sim_fail(w, "a sum of %lld is missing", (long long)want->cells[i].value);
    }
}

static void draw_range(struct sim_world *w, struct store_plan *p)
{
    static const int64_t steps[] = {0, 0, SIM_HOUR / 60, SIM_HOUR, SIM_DAY, 7 * SIM_HOUR / 60};
    struct random *r = &w->random;
    int64_t now = w->clock.wall_ns, len = SIM_HOUR / 60;

    len *= (int64_t)1 << random_below(r, 14);
    p->to_ns = now + SIM_HOUR + 1 - (int64_t)random_below(r, 3) * (len / 3);
    p->from_ns = p->to_ns - len;
    if (random_below(r, 2)) { /* as rollups like it */
        int64_t unit = random_below(r, 2) ? SIM_HOUR : SIM_DAY;
        p->from_ns -= p->from_ns % unit;
        p->to_ns -= p->to_ns % unit;
    }
    if (random_below(r, 4) == 0) {
        p->from_ns = 1;
        p->to_ns = INT64_MAX;
    }
    if (p->to_ns <= p->from_ns)
        p->to_ns = p->from_ns + SIM_DAY;
    p->step_ns = steps[random_below(r, sizeof(steps) / sizeof(*steps))];
    /* A month in minutes is more cells than anybody wants. */
    uint64_t range = (uint64_t)p->to_ns - (uint64_t)p->from_ns;
    if (range > (uint64_t)(400 * SIM_DAY))
        p->step_ns = 0;
    else if (p->step_ns && range > (uint64_t)(2 * SIM_DAY))
        p->step_ns = SIM_DAY;
}

static void draw_question(struct sim_world *w, struct question *q, char *selector, size_t size)
{
    static const char *const types[] = {"cpu", "cpu", "samples", "inuse_space"};
    struct random *r = &w->random;

    q->type = types[random_below(r, 4)];
    q->tenant = random_below(r, 3) ? 0 : (unsigned)random_below(r, SIM_TENANTS);
    q->service = random_below(r, 2) ? (int)random_below(r, SIM_SERVICES) : -1;
    q->pod = random_below(r, 3) ? -1 : (int)random_below(r, SIM_PODS);
    q->by_service = random_below(r, 3) == 0;
    q->by_pod = random_below(r, 3) == 0;
    int n = snprintf(selector, size, "%s{", q->type);
    if (q->service >= 0)
        n += snprintf(selector + n, size - (size_t)n, "service.name=\"%s\"%s",
                      sim_service((unsigned)q->service), q->pod >= 0 ? ", " : "");
    if (q->pod >= 0)
        n += snprintf(selector + n, size - (size_t)n, "pod=\"%s\"", sim_pod((unsigned)q->pod));
    snprintf(selector + n, size - (size_t)n, "}");
    draw_range(w, &q->plan);
    q->plan.tenant = bytes_of(sim_tenant(q->tenant));
    q->plan.instant = random_below(r, 2)   ? INSTANT_SUM
                      : random_below(r, 2) ? INSTANT_LAST
                                           : INSTANT_PEAK;
    q->plan.what = random_below(r, 3) ? PLAN_TOTALS : PLAN_STACKS;
    if (q->plan.what == PLAN_STACKS)
        q->plan.instant = INSTANT_SUM;
    q->plan.raw_only = random_below(r, 8) == 0;
    q->plan.threads = 1;
}

void sim_check_sums(struct sim_world *w)
{
    struct question q = {0};
    struct sums want = {0};
    CLEANUP(selector_freep) struct selector *s = NULL;
    char text[256];
    struct bytes group_by[2];

    draw_question(w, &q, text, sizeof(text));
    if (q.by_service)
        group_by[q.plan.n_group_by++] = bytes_of(LABEL_SERVICE);
    if (q.by_pod)
        group_by[q.plan.n_group_by++] = bytes_of("pod");
    q.plan.group_by = group_by;
    if (selector_parse(bytes_of(text), &s, &w->err) < 0)
        sim_fail(w, "%s", w->err.text);
    q.plan.selector = s;
    add_up(w, &q, &want);
    CLEANUP(store_answer_freep) struct store_answer *answer = store_answer_new((size_t)64 << 20);
    int r = store_aggregate(w->store, &q.plan, answer, &w->err);
    sim_say(w, "%s of %s %s %lld..%lld step %lld instant %d: %d, %zu cells%s",
            q.plan.what == PLAN_TOTALS ? "totals" : "stacks", sim_tenant(q.tenant), text,
            (long long)q.plan.from_ns, (long long)q.plan.to_ns, (long long)q.plan.step_ns,
            (int)q.plan.instant, r, answer->cells.len, answer->is_incomplete ? ", incomplete" : "");
    w->is_reported |= answer->is_incomplete;
    if (r < 0 || answer->is_incomplete) {
        if (!sim_is_excused(w) && !w->is_lossy)
            sim_fail(w, "could not answer: %s", r < 0 ? w->err.text : answer->trouble.text);
    } else if (!want.is_doubtful && !(w->is_lossy && w->is_reported)) {
        compare(w, &q, &want, answer);
    }
    free(want.cells);
}
