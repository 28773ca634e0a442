#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store_data.h"

#define L_SEED         UINT64_C(0x5EED0002)
#define DEPLOYS        3
#define TICK_NS        DATA_WINDOW_NS
#define OTHERS         6 /* ticks in a window of the other services */
#define NAME_MAX_BYTES 64
#define PERIOD_NS      INT64_C(10000000)

/* The first one is what the first service runs. */
static const char *const files[] = {
    "pprof/misc/go-compile-default.pgo",
    "pprof/bench/cpu_go_truncated_1.pb.gz.fixed",
    "pprof/parca/alloc_objects.pb.gz",
    "pprof/pyroscope/profile_ruby.pb.gz",
    "pprof/delta/stress-failure.3.after.pprof",
    "pprof/pyroscope/heap.pb.gz",
    "pprof/parca/profile-with-labels.pb.gz",
    "pprof/pyroscope/profile_python2.pb.gz",
    "pprof/pyroscope/profile_java.pb.gz",
    "pprof/parca/many/1644509299337903000.pb.gz",
    "pprof/go119/cpu-997hz.pb.gz",
    "pprof/explore-profiles/go-alloc_space-memory-5m.pb.gz",
    "pprof/delta/heap.pprof",
};

struct service {
    uint32_t *stacks; /* nodes of the source's dictionary */
    uint32_t *odds;   /* of being in a window, of 2^16 */
    uint32_t n_stacks;
    bool is_compiled_late;     /* addresses change every hour */
    uint32_t deploys[DEPLOYS]; /* ticks, ascending */
    struct data_random random;

    /* The stacks in the dictionary of the set that is filled, valid for this state: */
    uint32_t *nodes;
    uint64_t generation;
    uint32_t version, hour;
};

struct source {
    struct profile_set *set;
    struct profile *profile;
};

struct data_l {
    struct data_l_options options;
    struct budget budget;
    struct source sources[ARRAY_SIZE(files)];
    struct service *services;
    bool is_synthetic;

    uint32_t tick, next_service, next_pod;
    uint32_t *moved; /* scratch: where locations of a source went, by id; 0 is not yet */
    size_t n_moved;
    char service_name[NAME_MAX_BYTES], pod[NAME_MAX_BYTES], version[NAME_MAX_BYTES];
};

void data_l_describe(const struct data_l_options *o, bool is_synthetic, char text[DATA_L_TEXT_MAX])
{
    snprintf(text, DATA_L_TEXT_MAX,
             "set L%s: %u services over %u h: one whole (%u pods, 10 s windows), the others scaled "
             "to 1 pod and 60 s; %d deploys each, a fifth compiled at run time, 1 %% linked",
             is_synthetic ? " (made up: no corpus)" : "", o->services, o->hours, o->pods, DEPLOYS);
}

static int load_sources(struct data_l *l, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
        CLEANUP(freep) char *path = data_corpus_path(files[i]);
        struct source *s = &l->sources[i];
        s->set = profile_set_new(&l->budget);
        int rc = data_read_pprof(path, s->set, err);
        if (rc == -ENOENT) {
            l->is_synthetic = true;
            data_make_profile(s->set, L_SEED + i);
        } else if (rc < 0) {
            return rc;
        }
        s->profile = s->set->profiles.data[0];
        if (s->set->dict->locations.len > l->n_moved)
            l->n_moved = s->set->dict->locations.len;
    }
    return 0;
}

/* Different stacks of a source, n of them at most, in random order. */
static void choose_stacks(struct service *v, const struct source *s, uint32_t n)
{
    const struct profile *p = s->profile;
    CLEANUP(freep) uint32_t *all = calloc(p->n_samples + 1, sizeof(*all));
    CLEANUP(freep) bool *seen = calloc(dict_n_nodes(s->set->dict), sizeof(*seen));
    uint32_t n_all = 0;

    v->stacks = calloc(n, sizeof(*v->stacks));
    v->nodes = calloc(n, sizeof(*v->nodes));
    if (!all || !seen || !v->stacks || !v->nodes)
        abort();
    for (size_t i = 0; i < p->n_samples; i++) {
        if (!seen[p->node[i]])
            all[n_all++] = p->node[i];
        seen[p->node[i]] = true;
    }
    for (uint32_t i = 0; i < n_all && v->n_stacks < n; i++) {
        uint32_t k = i + data_random_below(&v->random, n_all - i), chosen = all[k];
        all[k] = all[i];
        v->stacks[v->n_stacks++] = chosen;
    }
}

/* Stack i is seen with odds like 1 / i^0.7, so many of them per window on average as `mean`. */
static void choose_odds(struct service *v, uint32_t mean)
{
    double scale = 1, sum;

    v->odds = calloc(v->n_stacks, sizeof(*v->odds));
    if (!v->odds)
        abort();
    for (int round = 0; round < 30; round++) {
        sum = 0;
        for (uint32_t i = 0; i < v->n_stacks; i++) {
            double p = scale * pow(i + 1, -0.7);
            v->odds[i] = (uint32_t)((p > 0.95 ? 0.95 : p) * 65536);
            sum += v->odds[i] / 65536.0;
        }
        scale *= mean / sum;
    }
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void make_service(struct data_l *l, uint32_t n)
{
    const struct data_l_options *o = &l->options;
    struct service *v = &l->services[n];
    uint32_t ticks = o->hours * 360;

    v->random.state = L_SEED + (uint64_t)n * 0x10001;
    v->is_compiled_late = n % 5 == 4;
    v->generation = UINT64_MAX;
    choose_stacks(v, &l->sources[n % ARRAY_SIZE(files)], n ? o->others_stacks : o->first_stacks);
    choose_odds(v, n ? o->others_mean : o->first_mean);
    for (size_t i = 0; i < DEPLOYS; i++)
        v->deploys[i] = data_random_below(&v->random, ticks);
    qsort(v->deploys, DEPLOYS, sizeof(v->deploys[0]), compare_u32);
}

int data_l_new(struct data_l_options options, struct data_l **ret, struct error *err)
{
    CLEANUP(data_l_freep) struct data_l *l = calloc(1, sizeof(*l));
    if (!l)
        abort();
    l->options = options;
    budget_init(&l->budget, SIZE_MAX / 2);
    int rc = load_sources(l, err);
    if (rc < 0)
        return rc;
    l->moved = calloc(l->n_moved, sizeof(*l->moved));
    l->services = calloc(options.services, sizeof(*l->services));
    if (!l->moved || !l->services)
        abort();
    for (uint32_t i = 0; i < options.services; i++)
        make_service(l, i);
    *ret = TAKE_PTR(l);
    return 0;
}

void data_l_free(struct data_l *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; l->services && i < l->options.services; i++) {
        free(l->services[i].stacks);
        free(l->services[i].odds);
        free(l->services[i].nodes);
    }
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        profile_set_free(l->sources[i].set);
    free(l->services);
    free(l->moved);
    free(l);
}

bool data_l_is_synthetic(const struct data_l *l)
{
    return l->is_synthetic;
}

/* A number that depends on the arguments alone. */
static uint32_t mixed(uint32_t a, uint32_t b, uint32_t c)
{
    struct data_random r = {(uint64_t)a << 32 ^ (uint64_t)b << 16 ^ c};
    return (uint32_t)(data_random64(&r) >> 32);
}

/* What a service's locations become in a version and an hour, and where they go. */
struct move {
    const struct dict *from;
    struct dict *to;
    uint32_t service, version, hour;
    bool is_compiled_late;
};

static uint32_t move_string(const struct move *m, uint32_t id)
{
    return dict_string(m->to, dict_text(m->from, id));
}

/* One function in thirty gets another name with each version. */
static uint32_t move_function(const struct move *m, uint32_t id)
{
    const struct function *f = &m->from->functions.data[id];
    struct function g = {.file = move_string(m, f->file), .start_line = f->start_line};

    if (mixed(id, m->version, 1) % 30 == 0) {
        char name[512];
        int n = snprintf(name, sizeof(name), "%.480s.v%u", dict_cstr(m->from, f->name), m->version);
        g.name = dict_string(m->to, (struct bytes){(const uint8_t *)name, (size_t)n});
    } else {
        g.name = move_string(m, f->name);
    }
    g.system_name = f->system_name ? g.name : 0;
    return dict_function(m->to, g);
}

/* Each version of a service is a binary of its own. */
static uint32_t move_mapping(const struct move *m, uint32_t id)
{
    const struct mapping *f = &m->from->mappings.data[id];
    struct mapping g = *f;
    char build_id[41];

    if (id == 0)
        return 0;
    snprintf(build_id, sizeof(build_id), "%08x%08x%08x%016x", m->service, m->version, id,
             mixed(m->service, m->version, id));
    g.file = move_string(m, f->file);
    g.build_id = dict_cstring(m->to, build_id);
    g.attrs = 0;
    return dict_mapping(m->to, g);
}

#define LINES_MAX 64

static uint32_t move_location(const struct move *m, uint32_t id)
{
    const struct location *f = &m->from->locations.data[id];
    struct location g = {.address = f->address, .is_folded = f->is_folded};
    struct line lines[LINES_MAX];
    uint32_t n = f->n_lines < LINES_MAX ? f->n_lines : LINES_MAX;

    for (uint32_t i = 0; i < n; i++) {
        lines[i] = m->from->lines.data[f->first_line + i];
        uint32_t function = lines[i].function;
        lines[i].function = move_function(m, function);
        if (mixed(function, m->version, 2) % 5 == 0)
            lines[i].line += m->version;
    }
    if (m->is_compiled_late && mixed(id, 0, 3) % 2)
        g.address = UINT64_C(0x7f0000000000) + mixed(id, m->hour, m->service);
    else
        g.mapping = move_mapping(m, f->mapping);
    return dict_location(m->to, g, lines, n);
}

static uint32_t move_stack(struct data_l *l, const struct move *m, uint32_t node)
{
    uint32_t locations[1024];
    size_t n = 0;

    for (; node && n < ARRAY_SIZE(locations); node = m->from->node_parent.data[node]) {
        uint32_t id = m->from->node_location.data[node];
        if (!l->moved[id])
            l->moved[id] = move_location(m, id);
        locations[n++] = l->moved[id];
    }
    return dict_stack(m->to, locations, n);
}

/* Brings the stacks of a service into the set's dictionary, unless they are there already. */
static void intern_stacks(struct data_l *l, uint32_t service, struct dict *to, uint64_t generation)
{
    struct service *v = &l->services[service];
    uint32_t hour = v->is_compiled_late ? l->tick / 360 : 0, version = 1;

    while (version <= DEPLOYS && l->tick >= v->deploys[version - 1])
        version++;
    if (v->generation == generation && v->version == version && v->hour == hour)
        return;
    v->generation = generation;
    v->version = version;
    v->hour = hour;
    const struct move m = {.from = l->sources[service % ARRAY_SIZE(files)].set->dict,
                           .to = to,
                           .service = service,
                           .version = version,
                           .hour = hour,
                           .is_compiled_late = v->is_compiled_late};
    memset(l->moved, 0, l->n_moved * sizeof(*l->moved));
    for (uint32_t i = 0; i < v->n_stacks; i++)
        v->nodes[i] = move_stack(l, &m, v->stacks[i]);
}

static uint32_t random_link(struct data_random *r, struct dict *d)
{
    struct link k;
    uint64_t part[3] = {data_random64(r), data_random64(r), data_random64(r) | 1};

    memcpy(k.trace_id, part, sizeof(k.trace_id));
    memcpy(k.span_id, part + 2, sizeof(k.span_id));
    return dict_link(d, k);
}

/* What a pod saw in a window. Even services send one column, as OTLP does, odd ones two. */
static void fill(struct service *v, struct profile *p, bool has_counts)
{
    struct data_random *r = &v->random;
    uint64_t id[2] = {data_random64(r), data_random64(r)}, draws = 0;

    memcpy(p->profile_id, id, sizeof(p->profile_id));
    if (has_counts)
        profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    p->period_type = p->types[p->n_types - 1];
    p->period = PERIOD_NS;
    for (uint32_t i = 0; i < v->n_stacks; i++, draws >>= 16) {
        if (i % 4 == 0)
            draws = data_random64(r);
        if ((draws & 0xffff) >= v->odds[i])
            continue;
        int64_t count = data_random_geometric(r);
        int64_t values[2] = {has_counts ? count : count * PERIOD_NS, count * PERIOD_NS};
        struct sample s = {.node = v->nodes[i], .values = values};
        if (data_random_below(r, 100) == 0)
            s.link = random_link(r, p->dict);
        profile_add(p, &s);
    }
}

/* Whose turn it is: in each tick all pods of the first service, then those of the others whose
 * window begins. False at the end. */
static bool next_turn(struct data_l *l, uint32_t *ret_service, uint32_t *ret_pod)
{
    const struct data_l_options *o = &l->options;

    for (; l->tick < o->hours * 360; l->tick++, l->next_service = l->next_pod = 0) {
        if (l->next_service == 0 && l->next_pod < o->pods) {
            *ret_service = 0;
            *ret_pod = l->next_pod++;
            return true;
        }
        while (++l->next_service < o->services) {
            if (l->next_service % OTHERS != l->tick % OTHERS)
                continue;
            *ret_service = l->next_service;
            *ret_pod = 0;
            return true;
        }
    }
    return false;
}

int data_l_next(struct data_l *l, struct profile_set *set, uint64_t generation,
                struct data_l_profile *ret)
{
    uint32_t service, pod;

    if (!next_turn(l, &service, &pod))
        return 0;
    intern_stacks(l, service, set->dict, generation);
    struct profile *p = profile_set_add(set);
    if (!p)
        return -ENOBUFS;
    p->time_unix_ns = DATA_START_NS + l->tick * TICK_NS;
    p->duration_ns = service == 0 ? TICK_NS : TICK_NS * OTHERS;
    fill(&l->services[service], p, service % 2);
    if (budget_failed(set->budget))
        return -ENOBUFS;

    uint32_t version = l->services[service].version;
    snprintf(l->service_name, sizeof(l->service_name), "service-%03u", service);
    snprintf(l->version, sizeof(l->version), "1.%u.0", version);
    snprintf(l->pod, sizeof(l->pod), "service-%03u-%08x-%u", service, mixed(service, version, 4),
             pod);
    *ret = (struct data_l_profile){
        .service = service,
        .labels = {{BYTES("k8s.pod.name"), bytes_of(l->pod)},
                   {BYTES(LABEL_SERVICE), bytes_of(l->service_name)},
                   {BYTES(LABEL_VERSION), bytes_of(l->version)}},
        .profile = p,
    };
    return 1;
}
