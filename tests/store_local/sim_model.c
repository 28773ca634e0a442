#include "store_local/sim_model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/le.h"

void sim_fail(struct sim_world *w, const char *fmt, ...)
{
    va_list args;

    if (w->is_failed)
        return;
    w->is_failed = true;
    va_start(args, fmt);
    vsnprintf(w->failure, sizeof(w->failure), fmt, args);
    va_end(args);
    sim_say(w, "FAILED: %s", w->failure);
}

void sim_say(struct sim_world *w, const char *fmt, ...)
{
    va_list args;

    if (!w->trace)
        return;
    fprintf(w->trace, "# step %llu: ", (unsigned long long)w->step);
    va_start(args, fmt);
    vfprintf(w->trace, fmt, args);
    va_end(args);
    fputc('\n', w->trace);
}

const char *sim_tenant(unsigned i)
{
    static const char *const names[SIM_TENANTS] = {"default", "acme", "b-2"};
    return names[i];
}

const char *sim_service(unsigned i)
{
    static const char *const names[SIM_SERVICES] = {"checkout", "cart", "mail"};
    return names[i];
}

const char *sim_pod(unsigned i)
{
    static const char *const names[SIM_PODS] = {"pod-0", "pod-1", "pod-2", "pod-3"};
    return names[i];
}

const char *sim_version(unsigned pod)
{
    return pod % 2 ? "1.1" : "1.0";
}

/* ---- The world */

static void hear(void *ctx, const char *text)
{
    static const char *const bad[] = {"damaged", "lost", "could not", "is kept as", "unreadable"};
    struct sim_world *w = ctx;

    sim_say(w, "log: %s", text);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        w->is_reported |= strstr(text, bad[i]) != NULL;
}

void sim_world_init(struct sim_world *w, uint64_t seed)
{
    FILE *trace = w->trace;

    *w = (struct sim_world){.seed = seed, .trace = trace};
    random_init(&w->random, seed);
    w->sim = sim_fs_new(random_u64(&w->random));
    set_clock_init(&w->clock, SIM_NOW + (int64_t)random_below(&w->random, (uint64_t)SIM_DAY));
    w->clock.monotonic_ns = 1000000000;
    w->entries = calloc(SIM_ENTRIES_MAX, sizeof(*w->entries));
    w->spans = calloc(SIM_ENTRIES_MAX, sizeof(*w->spans));
    w->options = (struct local_options){.clock = &w->clock.clock,
                                        .threads = 1,
                                        .seed = seed + 1,
                                        .disk_reserve = 1,
                                        .max_age_ns = 30 * SIM_DAY,
                                        .max_span_age_ns = 7 * SIM_DAY,
                                        .log = hear,
                                        .log_ctx = w};
    w->min_age_ns = w->options.max_age_ns;
    w->min_span_age_ns = w->options.max_span_age_ns;
    w->max_now_ns = w->clock.wall_ns;
}

void sim_world_done(struct sim_world *w)
{
    sim_close(w);
    sim_fs_free(w->sim);
    free(w->entries);
    free(w->spans);
}

bool sim_is_excused(struct sim_world *w)
{
    return sim_fs_struck(w->sim) != w->struck || sim_fs_is_down(w->sim);
}

bool sim_is_dead(struct sim_world *w)
{
    struct store_stat stat;

    if (!w->store)
        return true;
    store_stat(w->store, &stat);
    w->is_reported |= stat.lost_records > 0;
    return stat.is_read_only;
}

int sim_open(struct sim_world *w)
{
    w->options.fs = sim_fs_fs(w->sim);
    w->err.text[0] = '\0';
    int r = local_open(&w->options, &w->store, &w->err);
    if (r == 0)
        r = store_source_new(w->store, 0, &w->source, &w->err);
    if (w->clock.wall_ns > w->max_now_ns)
        w->max_now_ns = w->clock.wall_ns; /* what it says first is believed */
    sim_say(w, "opened: %d %s", r, r < 0 ? w->err.text : "");
    return r;
}

void sim_close(struct sim_world *w)
{
    store_source_free(w->source);
    store_close(w->store);
    w->source = NULL;
    w->store = NULL;
}

/* ---- What is in a profile */

struct drawn {
    unsigned outer, leaf; /* functions; leaf 1000: one that only this profile has */
    int64_t values[2];
    bool has_attribute, has_link;
    uint8_t trace, span;
    uint64_t time_ns;
};

#define DRAWN_MAX 40

static size_t draw_samples(const struct sim_entry *e, struct drawn *out)
{
    struct random r;

    random_init(&r, e->shape);
    size_t n = random_below(&r, 8);
    if (random_below(&r, 16) == 0)
        n = DRAWN_MAX;
    for (size_t i = 0; i < n; i++) {
        struct drawn *d = &out[i];
        *d = (struct drawn){.outer = (unsigned)random_below(&r, 6),
                            .leaf = (unsigned)random_below(&r, 20)};
        if (random_below(&r, 12) == 0)
            d->leaf = 1000;
        d->values[0] = (int64_t)random_below(&r, 1000) + 1;
        d->values[1] = (int64_t)random_below(&r, 1u << (1 + random_below(&r, 30)));
        d->has_attribute = random_below(&r, 4) == 0;
        if (random_below(&r, 6) == 0) {
            d->has_link = true;
            d->trace = (uint8_t)(1 + random_below(&r, 20));
            d->span = (uint8_t)(1 + random_below(&r, 5));
            d->time_ns = (uint64_t)e->start_ns + random_below(&r, 1000000000);
        }
    }
    return n;
}

static void leaf_name(const struct sim_entry *e, const struct drawn *d, char *ret, size_t size)
{
    if (d->leaf == 1000)
        snprintf(ret, size, "jit_%u", e->shape);
    else
        snprintf(ret, size, "step%u", d->leaf);
}

static uint32_t add_types(struct profile *p, const struct sim_entry *e)
{
    struct dict *d = p->dict;

    if (e->kind == SIM_HEAP) {
        profile_add_ctype(p, "inuse_objects", "count");
        profile_add_ctype(p, "inuse_space", "bytes");
        p->period_type = (struct value_type){dict_cstring(d, "space"), dict_cstring(d, "bytes")};
        return 2;
    }
    if (e->kind == SIM_CPU_AND_COUNT)
        profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = (struct value_type){dict_cstring(d, "cpu"), dict_cstring(d, "nanoseconds")};
    return e->kind == SIM_CPU_AND_COUNT ? 2 : 1;
}

static struct profile *make(struct store_source *source, const struct sim_entry *e)
{
    struct drawn drawn[DRAWN_MAX];
    struct profile *p = profile_set_add(source->set);
    struct dict *d = p->dict;
    size_t n = draw_samples(e, drawn);
    char name[32];

    add_types(p, e);
    p->time_unix_ns = e->start_ns;
    p->duration_ns = 10 * (int64_t)1000000000;
    p->period = 10000000;
    uint32_t root = dict_frame(d, 0, (struct function){.name = dict_cstring(d, "main")}, 1, 0, 0);
    uint32_t thread =
        dict_string_attribute(d, dict_cstring(d, "thread.name"), dict_cstring(d, "worker"));
    for (size_t i = 0; i < n; i++) {
        const struct drawn *x = &drawn[i];
        struct sample s = {.values = x->values, .time_ns = x->time_ns};
        snprintf(name, sizeof(name), "work%u", x->outer);
        struct function f = {.name = dict_cstring(d, name), .file = dict_cstring(d, "w.c")};
        s.node = dict_frame(d, root, f, x->outer, 0, 0);
        leaf_name(e, x, name, sizeof(name));
        f.name = dict_cstring(d, name);
        s.node = dict_frame(d, s.node, f, 7, 0, 0);
        if (x->has_attribute)
            s.attrs = dict_attrs(d, (uint32_t[]){thread}, 1);
        if (x->has_link)
            s.link = dict_link(d, (struct link){{x->trace}, {x->span}});
        profile_add(p, &s);
    }
    return p;
}

/* ---- Drawing */

static void finish_entry(struct sim_world *w, struct sim_entry *e)
{
    struct budget budget;
    budget_init(&budget, BUDGET_DEFAULT_BYTES);
    struct store_source source = {.set = profile_set_new(&budget)};
    const struct profile *p = make(&source, e);
    uint64_t more[2];

    (void)w;
    for (uint32_t t = 0; t < p->n_types; t++) {
        e->totals[t] = profile_total(p, t);
        e->content += sim_content(p, t) * (2 * t + 1);
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        const struct link *l = &p->dict->links.data[profile_link(p, i)];
        more[0] = profile_time_ns(p, i);
        more[1] = (uint64_t)l->trace_id[0] << 8 | l->span_id[0];
        if (more[1])
            e->linked += checksum64(more, sizeof(more)) * (uint64_t)p->values[0][i];
    }
    profile_set_free(source.set);
}

struct sim_entry *sim_draw(struct sim_world *w, int64_t start_ns)
{
    struct random *r = &w->random;

    if (w->n_entries == SIM_ENTRIES_MAX)
        return NULL;
    struct sim_entry *e = &w->entries[w->n_entries++];
    *e = (struct sim_entry){
        .tenant = (uint8_t)(random_below(r, 4) ? 0 : random_below(r, SIM_TENANTS)),
        .service = (uint8_t)random_below(r, SIM_SERVICES),
        .pod = (uint8_t)random_below(r, SIM_PODS),
        .kind = random_below(r, 4) ? (random_below(r, 3) ? SIM_CPU : SIM_CPU_AND_COUNT) : SIM_HEAP,
        .has_id = random_below(r, 2),
        .shape = (uint32_t)random_u64(r),
    };
    /* The last microsecond tells entries apart. */
    e->start_ns = start_ns - start_ns % 100000 + w->n_made++;
    le64_put(e->id, random_u64(r));
    le64_put(e->id + 8, w->n_made);
    finish_entry(w, e);
    return e;
}

int sim_is_there(const struct sim_world *w, const struct sim_entry *e)
{
    if (e->state != SIM_ACKED)
        return e->state == SIM_LOST ? -1 : 0;
    if (e->is_erase_in_doubt || e->may_be_double || e->start_ns < w->max_now_ns - w->min_age_ns)
        return -1;
    return 1;
}

/* ---- Doing */

/* Whether it must be taken: not too far in the future, and not older than what was ever expired. */
static bool is_in_time(const struct sim_world *w, const struct sim_entry *e)
{
    return e->start_ns - w->clock.wall_ns <= SIM_HOUR &&
           w->clock.wall_ns - e->start_ns <= w->min_age_ns &&
           w->max_now_ns - e->start_ns <= w->min_age_ns;
}

static void note_outcome(struct sim_world *w, struct sim_entry *e, const struct store_outcome *out)
{
    int there = sim_is_there(w, e);
    bool may_be_either = there < 0 || e->state == SIM_DOUBT || e->state == SIM_ERASED;

    sim_say(w, "  %s %s/%s/%s kind %d start %lld %s: %d %s", e->has_id ? "id" : "no id",
            sim_tenant(e->tenant), sim_service(e->service), sim_pod(e->pod), (int)e->kind,
            (long long)e->start_ns, there > 0 ? "(again)" : "", (int)out->verdict, out->why.text);
    if (out->verdict == STORE_REJECTED) {
        if (is_in_time(w, e) && !sim_is_excused(w))
            sim_fail(w, "rejected: %s", out->why.text);
        return;
    }
    if (out->verdict == STORE_STORED && there > 0) {
        if (!sim_is_excused(w) && !w->is_lossy)
            sim_fail(w, "stored a second time: start %lld", (long long)e->start_ns);
        e->may_be_double = true;
        return;
    }
    if (out->verdict == STORE_DUPLICATE && !there && !may_be_either)
        sim_fail(w, "taken for a duplicate, but is none: start %lld", (long long)e->start_ns);
    if (out->verdict == STORE_DUPLICATE && e->state == SIM_ERASED)
        return; /* still in a file, and hidden */
    if (out->verdict == STORE_DUPLICATE && e->is_erase_in_doubt)
        return;
    e->is_erase_in_doubt &= out->verdict == STORE_DUPLICATE;
    e->state = SIM_ACKED;
}

int sim_append(struct sim_world *w, struct sim_entry *const *entries, size_t n)
{
    struct store_incoming in[8] = {0};
    struct store_outcome out[8];
    struct label labels[8][3];

    for (size_t i = 0; i < n; i++) {
        const struct sim_entry *e = entries[i];
        labels[i][0] = (struct label){bytes_of("pod"), bytes_of(sim_pod(e->pod))};
        labels[i][1] = (struct label){bytes_of(LABEL_SERVICE), bytes_of(sim_service(e->service))};
        labels[i][2] = (struct label){bytes_of(LABEL_VERSION), bytes_of(sim_version(e->pod))};
        in[i] = (struct store_incoming){.profile = make(w->source, e),
                                        .labels = labels[i],
                                        .n_labels = 3,
                                        .is_instant = e->kind == SIM_HEAP,
                                        .has_id = e->has_id};
        memcpy(in[i].id, e->id, 16);
    }
    int r = store_append(w->source, bytes_of(sim_tenant(entries[0]->tenant)), in, n, out, &w->err);
    sim_say(w, "append of %zu: %d %s", n, r, r < 0 ? w->err.text : "");
    for (size_t i = 0; i < n; i++) {
        if (r == 0)
            note_outcome(w, entries[i], &out[i]);
        else if (entries[i]->state == SIM_ABSENT)
            entries[i]->state = SIM_DOUBT;
    }
    store_source_reset(w->source);
    return r;
}

int sim_append_spans(struct sim_world *w, unsigned n)
{
    struct store_span in[8];
    unsigned tenant = (unsigned)random_below(&w->random, SIM_TENANTS);
    struct label attribute = {bytes_of("http.route"), bytes_of("/cart")};

    if (w->n_spans + n > SIM_ENTRIES_MAX || w->has_no_spans)
        return 0;
    struct sim_span *spans = &w->spans[w->n_spans];
    for (unsigned i = 0; i < n; i++) {
        struct sim_span *s = &spans[i];
        *s = (struct sim_span){.tenant = (uint8_t)tenant,
                               .service = (uint8_t)random_below(&w->random, SIM_SERVICES),
                               .start_ns = w->clock.wall_ns -
                                           (int64_t)random_below(&w->random, (uint64_t)SIM_HOUR),
                               .id = ++w->n_made};
        in[i] = (struct store_span){.service = bytes_of(sim_service(s->service)),
                                    .name = bytes_of("GET /"),
                                    .trace_id = {1 + (uint8_t)random_below(&w->random, 20)},
                                    .start_ns = s->start_ns,
                                    .duration_ns = 1000,
                                    .kind = 2,
                                    .attributes = &attribute,
                                    .n_attributes = s->id % 2};
        le64_put(in[i].span_id, s->id);
    }
    int r = store_append_spans(w->store, bytes_of(sim_tenant(tenant)), in, n, &w->err);
    sim_say(w, "append of %u spans: %d %s", n, r, r < 0 ? w->err.text : "");
    w->has_no_spans = r == -EOPNOTSUPP;
    if (w->has_no_spans)
        return 0;
    for (unsigned i = 0; i < n; i++)
        spans[i].state = r == 0 ? SIM_ACKED : SIM_DOUBT;
    w->n_spans += n;
    return r;
}

static bool is_selected(const struct selector *s, const struct sim_entry *e)
{
    struct label labels[] = {
        {bytes_of("pod"), bytes_of(sim_pod(e->pod))},
        {bytes_of(LABEL_SERVICE), bytes_of(sim_service(e->service))},
        {bytes_of(LABEL_VERSION), bytes_of(sim_version(e->pod))},
    };
    return selector_matches(s, labels, 3);
}

int sim_erase(struct sim_world *w, unsigned tenant, const char *selector, int64_t from_ns,
              int64_t to_ns)
{
    CLEANUP(selector_freep) struct selector *s = NULL;

    int r = selector_parse(bytes_of(selector), &s, &w->err);
    if (r < 0) {
        sim_fail(w, "%s", w->err.text);
        return r;
    }
    r = store_erase(
        w->store, &(struct store_scope){bytes_of(sim_tenant(tenant)), s, from_ns, to_ns}, &w->err);
    sim_say(w, "erase %s %s %lld..%lld: %d %s", sim_tenant(tenant), selector, (long long)from_ns,
            (long long)to_ns, r, r < 0 ? w->err.text : "");
    for (size_t i = 0; i < w->n_entries; i++) {
        struct sim_entry *e = &w->entries[i];
        if (e->tenant != tenant || e->start_ns < from_ns || e->start_ns >= to_ns ||
            !is_selected(s, e))
            continue;
        if (e->state == SIM_ACKED && r == 0)
            e->state = SIM_ERASED;
        else if (e->state == SIM_ACKED)
            e->is_erase_in_doubt = true;
        if (r == 0)
            e->is_erase_in_doubt = e->may_be_double = false;
    }
    return r;
}
