/*
 * Samples: what an event is worth, in which profile, and with which labels.
 */
#include <stdio.h>

#include "base/hash.h"
#include "formats/jfr.h"
#include "formats/jfr_internal.h"

#define DEFAULT_ASYNC_NS  10000000 /* async-profiler's interval for cpu, itimer, ctimer */
#define DEFAULT_WALL_NS   50000000 /* ... and for wall */
#define DEFAULT_PERIOD_NS 20000000 /* the JDK's default.jfc */

/* Number slots of samples. */
enum slot {
    TIME,
    DURATION,
    THREAD,
    STACK,
    STATE,
    CLASS,
    BYTES_COUNT,
    SAMPLES,
    PERIOD,
    CONTEXT,
    SPAN,
    SPAN_NAME,
    ROOT_SPAN,
};
_Static_assert(ROOT_SPAN < JFR_NUMBERS, "every slot has a number");

static const struct jfr_want sample_numbers[] = {
    {"startTime", TIME},
    {"duration", DURATION},
    {"eventThread", THREAD},
    {"sampledThread", THREAD},
    {"stackTrace", STACK},
    {"state", STATE},
    {"objectClass", CLASS},
    {"monitorClass", CLASS},
    {"parkedClass", CLASS},
    {"samples", SAMPLES},
    {"samplingPeriod", PERIOD},
    {"contextId", CONTEXT},
    {"spanId", SPAN},
    {"spanName", SPAN_NAME},
    {"localRootSpanId", ROOT_SPAN},
    {0},
};

/* The profile of a family: a count and a value; or, without them, time: samples times period. */
static const struct family {
    const char *count, *value, *unit;
    const char *period_type, *period_unit;
} families[JFR_FAMILIES] = {
    [JFR_CPU] = {.period_type = "cpu", .period_unit = "nanoseconds"},
    [JFR_CPU_TIME] = {.period_type = "cpu_time", .period_unit = "nanoseconds"},
    [JFR_WALL] = {.period_type = "wall", .period_unit = "nanoseconds"},
    [JFR_NATIVE] = {.period_type = "native", .period_unit = "nanoseconds"},
    [JFR_ALLOC_IN_TLAB] = {"alloc_in_new_tlab_objects", "alloc_in_new_tlab_bytes", "bytes", "space",
                           "bytes"},
    [JFR_ALLOC_OUTSIDE_TLAB] = {"alloc_outside_tlab_objects", "alloc_outside_tlab_bytes", "bytes",
                                "space", "bytes"},
    [JFR_ALLOC_SAMPLE] = {"alloc_sample_objects", "alloc_sample_bytes", "bytes", "space", "bytes"},
    [JFR_LIVE] = {"live", "live_bytes", "bytes", "objects", "count"},
    [JFR_MUTEX] = {"contentions", "delay", "nanoseconds", "mutex", "count"},
    [JFR_BLOCK] = {"contentions", "delay", "nanoseconds", "block", "count"},
    [JFR_MALLOC] = {"malloc_objects", "malloc_bytes", "bytes", NULL, NULL},
};

int jfr_compile_sample(struct jfr_chunk *c, struct jfr_type *t)
{
    const struct jfr_event_kind *kind = t->event;
    struct jfr_want numbers[ARRAY_SIZE(sample_numbers) + 2];
    size_t n = 0;

    if (kind->bytes)
        numbers[n++] = (struct jfr_want){kind->bytes, BYTES_COUNT};
    if (kind->samples)
        numbers[n++] = (struct jfr_want){kind->samples, SAMPLES};
    memcpy(numbers + n, sample_numbers, sizeof(sample_numbers));
    return jfr_compile(c, t, &(struct jfr_wants){.numbers = numbers});
}

static struct profile *family_profile(struct jfr_file *f, enum jfr_family family)
{
    const struct family *k = &families[family];
    struct profile *p = f->profiles[family];

    if (p || !(p = profile_set_add(f->set)))
        return p;
    if (k->period_type)
        p->period_type = (struct value_type){dict_cstring(f->dict, k->period_type),
                                             dict_cstring(f->dict, k->period_unit)};
    /* async-profiler also counts other things than time, for instance cache-misses. */
    if (family == JFR_CPU && f->settings.event.len > 0)
        p->period_type = (struct value_type){dict_string(f->dict, f->settings.event),
                                             dict_cstring(f->dict, "count")};
    if (k->count) {
        profile_add_ctype(p, k->count, "count");
        profile_add_ctype(p, k->value, k->unit);
    } else {
        profile_add_type(p, p->period_type.type, p->period_type.unit);
    }
    p->default_type = p->types[p->n_types - 1].type;
    f->profiles[family] = p;
    return p;
}

static int64_t ticks_to_ns(const struct jfr_chunk *c, uint64_t ticks)
{
    double ns = (double)(int64_t)ticks * c->ns_per_tick;

    /* Whole nanoseconds as they are; a double is only good for 53 bits. */
    if (c->ns_per_tick == 1.0)
        return (int64_t)ticks;
    return ns >= 9e18 ? INT64_MAX : ns <= -9e18 ? INT64_MIN : (int64_t)ns;
}

static int64_t span_to_ns(const struct jfr_chunk *c, uint64_t v, enum jfr_unit unit)
{
    static const int64_t factors[] = {
        [JFR_NS] = 1, [JFR_US] = 1000, [JFR_MS] = 1000000, [JFR_S] = 1000000000};
    int64_t ns;

    if (unit == JFR_TICKS || unit == JFR_NO_UNIT)
        return ticks_to_ns(c, v);
    return __builtin_mul_overflow((int64_t)v, factors[unit], &ns) ? INT64_MAX : ns;
}

static uint64_t time_of(const struct jfr_chunk *c, uint64_t ticks)
{
    return (uint64_t)c->start_ns + (uint64_t)ticks_to_ns(c, ticks - c->start_ticks);
}

static uint32_t hex_attribute(struct dict *d, const char *key, uint64_t v)
{
    char text[17];
    snprintf(text, sizeof(text), "%016llx", (unsigned long long)v);
    return dict_string_attribute(d, dict_cstring(d, key), dict_cstring(d, text));
}

/* The attributes of a sample whose labels were not met before. */
static uint32_t make_attrs(struct jfr_chunk *c, const uint64_t *key)
{
    struct dict *d = c->file->dict;
    uint32_t ids[9] = {0};
    size_t n = 0;
    uint32_t thread = jfr_ids_find(&c->thread_ids, key[0]);
    uint32_t state = jfr_ids_find(&c->state_ids, key[1]);
    uint32_t class = jfr_ids_find(&c->class_ids, key[2]);

    if (thread != JFR_NO_ID) {
        const uint32_t *attributes = jfr_thread_attributes(c, &c->threads.data[thread]);
        ids[n++] = attributes[0];
        ids[n++] = attributes[1];
    }
    if (state != JFR_NO_ID)
        ids[n++] = jfr_state_attribute(c, &c->states.data[state]);
    if (class != JFR_NO_ID)
        ids[n++] = jfr_class_attribute(c, &c->classes.data[class]);
    if (key[3])
        ids[n++] = dict_int_attribute(d, dict_cstring(d, JFR_CONTEXT_KEY), (int64_t)key[3], 0);
    if (key[6]) {
        ids[n++] = dict_int_attribute(d, dict_cstring(d, "local root span id"), (int64_t)key[6], 0);
        ids[n++] = dict_int_attribute(d, dict_cstring(d, "span id"), (int64_t)key[4], 0);
    } else if (key[4]) {
        ids[n++] = hex_attribute(d, "profile_id", key[4]);
    }
    if (key[5])
        ids[n++] = dict_int_attribute(d, dict_cstring(d, JFR_SPAN_NAME_KEY), (int64_t)key[5], 0);
    return dict_attrs(d, ids, n);
}

static uint32_t sample_attrs(struct jfr_chunk *c, const struct jfr_values *v)
{
    struct budget *b = c->file->budget;
    struct jfr_label label = {.key = {v->numbers[THREAD], v->numbers[STATE], v->numbers[CLASS],
                                      v->numbers[CONTEXT], v->numbers[SPAN], v->numbers[SPAN_NAME],
                                      v->numbers[ROOT_SPAN]}};
    uint64_t hash = hash_bytes(label.key, sizeof(label.key));
    uint32_t at = IDSET_FIND(&c->label_index, hash, i,
                             memcmp(c->labels.data[i].key, label.key, sizeof(label.key)) == 0);

    if (at != IDSET_NONE)
        return c->labels.data[at].attrs;
    label.attrs = make_attrs(c, label.key);
    if (c->labels.len < IDSET_NONE - 1 && vec_push(b, &c->labels, label))
        idset_add(b, &c->label_index, hash, (uint32_t)c->labels.len - 1);
    return label.attrs;
}

static uint32_t sample_node(struct jfr_chunk *c, uint64_t trace)
{
    uint32_t at = jfr_ids_find(&c->trace_ids, trace);

    if (at == JFR_NO_ID) {
        c->file->n_without_trace += trace != 0;
        return 0;
    }
    struct jfr_trace *t = &c->traces.data[at];
    c->file->n_truncated += t->is_truncated;
    return jfr_trace_node(c, t);
}

static int add_sample(struct jfr_chunk *c, enum jfr_family family, const int64_t *values,
                      const struct jfr_values *v)
{
    struct profile *p = family_profile(c->file, family);
    struct sample s = {.values = values};

    if (!p)
        return budget_error(c->file->budget, c->file->err);
    s.node = sample_node(c, v->numbers[STACK]);
    s.attrs = sample_attrs(c, v);
    s.time_ns = time_of(c, v->numbers[TIME]);
    return profile_add(p, &s) ? 0 : budget_error(c->file->budget, c->file->err);
}

static uint64_t period_of(struct jfr_file *f, enum jfr_family family)
{
    const struct jfr_settings *s = &f->settings;

    if (family == JFR_WALL || (family == JFR_CPU && s->event_is_wall)) {
        if (s->wall_ns)
            return s->wall_ns;
        if (s->event_is_wall && s->interval_ns)
            return s->interval_ns;
        return DEFAULT_WALL_NS;
    }
    if (family == JFR_NATIVE)
        return s->native_ns ? s->native_ns : DEFAULT_PERIOD_NS;
    if (s->event.len > 0)
        return s->interval_ns ? s->interval_ns : 1;
    if (s->is_async)
        return s->interval_ns ? s->interval_ns : DEFAULT_ASYNC_NS;
    if (!s->period_ns)
        f->period_is_guessed = true;
    return s->period_ns ? s->period_ns : DEFAULT_PERIOD_NS;
}

static int add_time(struct jfr_chunk *c, enum jfr_family family, uint64_t samples, uint64_t period,
                    const struct jfr_values *v)
{
    int64_t value;

    if (__builtin_mul_overflow(samples, period, &value))
        value = INT64_MAX;
    int r = add_sample(c, family, &value, v);
    if (r == 0)
        c->file->profiles[family]->period = (int64_t)period;
    return r;
}

static bool has(const struct jfr_type *t, enum slot slot)
{
    return t->plan->has_numbers >> slot & 1;
}

int jfr_on_sample(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    enum jfr_family family = t->event->family;
    int64_t values[2] = {1, (int64_t)v->numbers[BYTES_COUNT]};

    if (!families[family].count) {
        uint64_t samples = has(t, SAMPLES) ? v->numbers[SAMPLES] : 1;
        uint64_t period = has(t, PERIOD)
                              ? (uint64_t)span_to_ns(c, v->numbers[PERIOD], t->plan->units[PERIOD])
                              : period_of(c->file, family);
        return add_time(c, family, samples, period, v);
    }
    if (!t->event->bytes)
        values[1] = span_to_ns(c, v->numbers[DURATION], t->plan->units[DURATION]);
    return add_sample(c, family, values, v);
}

static const struct jfr_state *state_of(struct jfr_chunk *c, const struct jfr_values *v)
{
    uint32_t at = jfr_ids_find(&c->state_ids, v->numbers[STATE]);

    if (at == JFR_NO_ID)
        return NULL;
    jfr_state_attribute(c, &c->states.data[at]);
    return &c->states.data[at];
}

/* A thread that sleeps burns no CPU. With event=wall all samples are of wall clock time, and those
 * of threads that run are of CPU time as well. */
int jfr_on_execution(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    const struct jfr_state *state = has(t, STATE) ? state_of(c, v) : NULL;
    bool is_sleeping = state && state->is_sleeping;
    bool is_wall = c->file->settings.event_is_wall;
    int r = is_sleeping ? 0 : add_time(c, JFR_CPU, 1, period_of(c->file, JFR_CPU), v);

    if (r == 0 && (is_sleeping || is_wall))
        r = add_time(c, JFR_WALL, 1, period_of(c->file, JFR_WALL), v);
    return r;
}

int jfr_on_wall(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    const struct jfr_state *state = state_of(c, v);
    uint64_t samples = has(t, SAMPLES) ? v->numbers[SAMPLES] : 1;
    int r = 0;

    if (state && state->is_runnable && c->file->settings.event_is_wall)
        r = add_time(c, JFR_CPU, samples, period_of(c->file, JFR_CPU), v);
    return r < 0 ? r : add_time(c, JFR_WALL, samples, period_of(c->file, JFR_WALL), v);
}
