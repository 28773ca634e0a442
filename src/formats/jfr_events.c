/*
 * Events -> samples. Which event types are kept, which of their fields count, and in what profile
 * they end up is the table `event_kinds`; everything else is counted and named in a note.
 */
#include <stdio.h>

#include "base/hash.h"
#include "formats/jfr.h"
#include "formats/jfr_internal.h"

#define DEFAULT_ASYNC_NS  10000000 /* async-profiler's interval for cpu, itimer, ctimer */
#define DEFAULT_WALL_NS   50000000 /* ... and for wall */
#define DEFAULT_PERIOD_NS 20000000 /* the JDK's default.jfc */
#define TALLIES_MAX       256

/* Number slots of events. */
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
    LOAD_USER, /* of jdk.CPULoad */
    LOAD_SYSTEM,
    LOAD_TOTAL,
    PID = LOAD_USER,     /* of jdk.JVMInformation */
    SETTING = LOAD_USER, /* of jdk.ActiveSetting: the type that is set */
};
_Static_assert(LOAD_TOTAL < JFR_NUMBERS, "every slot has a number");

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

static int on_sample(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
static int on_execution(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
static int on_wall(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
static int on_load(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
static int on_jvm(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
static int on_os(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
static int on_setting(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);

struct jfr_event_kind {
    const char *type;
    int (*on)(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v);
    enum jfr_family family;
    const char *bytes; /* the field that says how many bytes */
    const char *count; /* the field that says how many samples, where it is not "samples" */
};

static const struct jfr_event_kind event_kinds[] = {
    {"jdk.ExecutionSample", on_execution, JFR_CPU, NULL, NULL},
    {"jdk.CPUTimeSample", on_sample, JFR_CPU, NULL, NULL},
    {"jdk.NativeMethodSample", on_sample, JFR_NATIVE, NULL, NULL},
    {"profiler.WallClockSample", on_wall, JFR_WALL, NULL, NULL},
    {"datadog.ExecutionSample", on_sample, JFR_CPU, NULL, "weight"},
    {"datadog.MethodSample", on_sample, JFR_WALL, NULL, "weight"},
    {"jdk.ObjectAllocationInNewTLAB", on_sample, JFR_ALLOC_IN_TLAB, "tlabSize", NULL},
    {"jdk.ObjectAllocationOutsideTLAB", on_sample, JFR_ALLOC_OUTSIDE_TLAB, "allocationSize", NULL},
    {"jdk.ObjectAllocationSample", on_sample, JFR_ALLOC_SAMPLE, "weight", NULL},
    {"profiler.LiveObject", on_sample, JFR_LIVE, "allocationSize", NULL},
    {"jdk.JavaMonitorEnter", on_sample, JFR_MUTEX, NULL, NULL},
    {"jdk.ThreadPark", on_sample, JFR_BLOCK, NULL, NULL},
    {"profiler.Malloc", on_sample, JFR_MALLOC, "size", NULL},
    {"jdk.CPULoad", on_load, JFR_FAMILIES, NULL, NULL},
    {"jdk.JVMInformation", on_jvm, JFR_FAMILIES, NULL, NULL},
    {"jdk.OSInformation", on_os, JFR_FAMILIES, NULL, NULL},
    {"jdk.ActiveSetting", on_setting, JFR_FAMILIES, NULL, NULL},
};

/* The profile of a family. A sample of time is worth the period it was taken at. */
static const struct family {
    const char *types[2], *units[2];
    const char *period_type, *period_unit;
    bool is_time;  /* one value, of the period's type: samples times period */
    bool is_delay; /* the second value is the duration, else bytes */
} families[JFR_FAMILIES] = {
    [JFR_CPU] = {{0}, {0}, "cpu", "nanoseconds", true, false},
    [JFR_WALL] = {{0}, {0}, "wall", "nanoseconds", true, false},
    [JFR_NATIVE] = {{0}, {0}, "native", "nanoseconds", true, false},
    [JFR_ALLOC_IN_TLAB] = {{"alloc_in_new_tlab_objects", "alloc_in_new_tlab_bytes"},
                           {"count", "bytes"},
                           "space",
                           "bytes",
                           false,
                           false},
    [JFR_ALLOC_OUTSIDE_TLAB] = {{"alloc_outside_tlab_objects", "alloc_outside_tlab_bytes"},
                                {"count", "bytes"},
                                "space",
                                "bytes",
                                false,
                                false},
    [JFR_ALLOC_SAMPLE] = {{"alloc_sample_objects", "alloc_sample_bytes"},
                          {"count", "bytes"},
                          "space",
                          "bytes",
                          false,
                          false},
    [JFR_LIVE] = {{"live", "live_bytes"}, {"count", "bytes"}, "objects", "count", false, false},
    [JFR_MUTEX] =
        {{"contentions", "delay"}, {"count", "nanoseconds"}, "mutex", "count", false, true},
    [JFR_BLOCK] =
        {{"contentions", "delay"}, {"count", "nanoseconds"}, "block", "count", false, true},
    [JFR_MALLOC] =
        {{"malloc_objects", "malloc_bytes"}, {"count", "bytes"}, NULL, NULL, false, false},
};

const struct jfr_event_kind *jfr_event_kind(struct bytes type_name)
{
    for (size_t i = 0; i < ARRAY_SIZE(event_kinds); i++) {
        if (bytes_are(type_name, event_kinds[i].type))
            return &event_kinds[i];
    }
    return NULL;
}

static int compile_event(struct jfr_chunk *c, struct jfr_type *t)
{
    static const struct jfr_want load_numbers[] = {
        {"jvmUser", LOAD_USER}, {"jvmSystem", LOAD_SYSTEM}, {"machineTotal", LOAD_TOTAL}, {0}};
    static const struct jfr_want jvm_numbers[] = {{"pid", PID}, {0}};
    static const struct jfr_want jvm_texts[] = {{"jvmName", 0}, {"jvmVersion", 1}, {0}};
    static const struct jfr_want os_texts[] = {{"osVersion", 0}, {0}};
    static const struct jfr_want setting_numbers[] = {{"id", SETTING}, {0}};
    static const struct jfr_want setting_texts[] = {{"name", 0}, {"value", 1}, {0}};
    const struct jfr_event_kind *kind = t->event;
    struct jfr_want numbers[ARRAY_SIZE(sample_numbers) + 2];
    size_t n = 0;

    if (kind->on == on_load)
        return jfr_compile(c, t, &(struct jfr_wants){.numbers = load_numbers});
    if (kind->on == on_jvm)
        return jfr_compile(c, t, &(struct jfr_wants){.numbers = jvm_numbers, .texts = jvm_texts});
    if (kind->on == on_os)
        return jfr_compile(c, t, &(struct jfr_wants){.texts = os_texts});
    if (kind->on == on_setting)
        return jfr_compile(c, t,
                           &(struct jfr_wants){.numbers = setting_numbers, .texts = setting_texts});
    if (kind->bytes)
        numbers[n++] = (struct jfr_want){kind->bytes, BYTES_COUNT};
    if (kind->count)
        numbers[n++] = (struct jfr_want){kind->count, SAMPLES};
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
    if (k->is_time)
        profile_add_type(p, p->period_type.type, p->period_type.unit);
    for (size_t i = 0; !k->is_time && i < ARRAY_SIZE(k->types); i++)
        profile_add_ctype(p, k->types[i], k->units[i]);
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

static int add_time(struct jfr_chunk *c, enum jfr_family family, uint64_t samples,
                    const struct jfr_values *v)
{
    uint64_t period = period_of(c->file, family);
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

static int on_sample(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    enum jfr_family family = t->event->family;
    const struct family *k = &families[family];
    int64_t values[2] = {1, (int64_t)v->numbers[BYTES_COUNT]};

    if (k->is_time && has(t, PERIOD)) {
        values[0] = span_to_ns(c, v->numbers[PERIOD], t->plan->units[PERIOD]);
        return add_sample(c, family, values, v);
    }
    if (k->is_time)
        return add_time(c, family, has(t, SAMPLES) ? v->numbers[SAMPLES] : 1, v);
    if (k->is_delay)
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
static int on_execution(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    const struct jfr_state *state = has(t, STATE) ? state_of(c, v) : NULL;
    bool is_sleeping = state && state->is_sleeping;
    bool is_wall = c->file->settings.event_is_wall;
    int r = is_sleeping ? 0 : add_time(c, JFR_CPU, 1, v);

    if (r == 0 && (is_sleeping || is_wall))
        r = add_time(c, JFR_WALL, 1, v);
    return r;
}

static int on_wall(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    const struct jfr_state *state = state_of(c, v);
    uint64_t samples = has(t, SAMPLES) ? v->numbers[SAMPLES] : 1;
    int r = 0;

    if (state && state->is_runnable && c->file->settings.event_is_wall)
        r = add_time(c, JFR_CPU, samples, v);
    return r < 0 ? r : add_time(c, JFR_WALL, samples, v);
}

static int on_load(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    (void)t;
    for (int i = 0; i < 3; i++) {
        uint32_t bits = (uint32_t)v->numbers[LOAD_USER + i];
        float load;
        memcpy(&load, &bits, sizeof(load));
        c->file->load[i] += load >= 0 && load <= 1000 ? (double)load : 0;
    }
    c->file->n_load++;
    return 0;
}

static void set_resource(struct jfr_chunk *c, size_t i, const char *key, struct bytes value)
{
    struct jfr_file *f = c->file;

    if (value.len > 0 && !f->resource[i])
        f->resource[i] =
            dict_string_attribute(f->dict, dict_cstring(f->dict, key), dict_string(f->dict, value));
}

static int on_jvm(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    struct jfr_file *f = c->file;

    set_resource(c, 0, "process.runtime.name", jfr_resolve_text(c, v->texts[0]));
    set_resource(c, 1, "process.runtime.description", jfr_resolve_text(c, v->texts[1]));
    if (has(t, PID) && !f->resource[2])
        f->resource[2] = dict_int_attribute(f->dict, dict_cstring(f->dict, "process.pid"),
                                            (int64_t)v->numbers[PID], 0);
    return 0;
}

static int on_os(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    (void)t;
    set_resource(c, 3, "os.description", bytes_trim(jfr_resolve_text(c, v->texts[0])));
    return 0;
}

/* "20 ms" -> nanoseconds; 0 for what is no time ("everyChunk"). */
static uint64_t parse_period(struct bytes s)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"ns", 1},          {"us", 1000},         {"ms", 1000000},      {"s", 1000000000},
                 {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}};
    const uint8_t *space = bytes_find_byte(s, ' ');
    uint64_t n, ns;

    if (!space || !bytes_to_u64(bytes_head(s, (size_t)(space - s.data)), &n))
        return 0;
    struct bytes unit = bytes_from(s, (size_t)(space - s.data) + 1);
    for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
        if (bytes_are(unit, units[i].unit) && !__builtin_mul_overflow(n, units[i].ns, &ns))
            return ns;
    }
    return 0;
}

static bool measures_time(struct bytes event)
{
    static const char *const names[] = {"",          "cpu",        "itimer", "ctimer", "wall",
                                        "cpu-clock", "task-clock", "alloc",  "lock",   "nativemem"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (bytes_are(event, names[i]))
            return true;
    }
    return false;
}

static int on_setting(struct jfr_chunk *c, const struct jfr_type *t, struct jfr_values *v)
{
    struct jfr_settings *s = &c->file->settings;
    struct bytes name = jfr_resolve_text(c, v->texts[0]);
    struct bytes value = jfr_resolve_text(c, v->texts[1]);
    uint64_t n = 0;

    (void)t;
    if (bytes_are(name, "event")) {
        s->is_async = true;
        s->event_is_wall = bytes_are(value, "wall");
        if (!measures_time(value)) {
            char *copy = arena_strdup(&c->file->arena, value);
            s->event = copy ? bytes_of(copy) : (struct bytes){0};
        }
    } else if (bytes_are(name, "interval") && bytes_to_u64(value, &n)) {
        s->is_async = true;
        s->interval_ns = n;
    } else if (bytes_are(name, "wall") && bytes_to_u64(value, &n)) {
        s->wall_ns = n;
    } else if (bytes_are(name, "period")) {
        const struct jfr_type *of = jfr_find_type(c, v->numbers[SETTING]);
        if (of && bytes_are(of->name, "jdk.ExecutionSample"))
            s->period_ns = parse_period(value);
        if (of && bytes_are(of->name, "jdk.NativeMethodSample"))
            s->native_ns = parse_period(value);
    }
    return 0;
}

static int read_event(struct jfr_chunk *c, struct jfr_type *t, struct jfr_reader *r)
{
    struct jfr_values v;

    if (!t->plan) {
        int e = compile_event(c, t);
        if (e < 0)
            return e;
    }
    memset(v.numbers, 0, sizeof(v.numbers));
    memset(v.texts, 0, sizeof(v.texts));
    v.each = NULL;
    jfr_run(t->plan, r, &v);
    return r->failure ? jfr_check(c->file, r) : t->event->on(c, t, &v);
}

/* Walks all events and reads those that are settings, or all others. */
static int walk_events(struct jfr_chunk *c, bool settings)
{
    struct jfr_reader all = c->all;

    all.pos += JFR_HEADER_BYTES;
    while (all.pos < all.end) {
        struct jfr_reader r = all;
        uint64_t size = jfr_int(&r);
        uint64_t type_id = jfr_long(&r);
        if (r.failure)
            return jfr_check(c->file, &r);
        if (size < (size_t)(r.pos - all.pos) || size > jfr_left(&all))
            return jfr_fail(c->file, all.pos, "an event of %llu bytes does not fit its chunk",
                            (unsigned long long)size);
        r.end = all.pos + size;
        all.pos = r.end;
        if (type_id <= 1) /* metadata and checkpoints: read before */
            continue;
        struct jfr_type *t = jfr_find_type(c, type_id);
        if (!t)
            return jfr_fail(c->file, r.pos, "an event is of type %llu, which the metadata lacks",
                            (unsigned long long)type_id);
        if (settings != (t->event && t->event->on == on_setting))
            continue;
        t->seen++;
        int e = t->event ? read_event(c, t, &r) : 0;
        if (e < 0)
            return e;
    }
    return 0;
}

static void tally(struct jfr_file *f, const struct jfr_type *t)
{
    for (size_t i = 0; i < f->tallies.len; i++) {
        if (bytes_equal(f->tallies.data[i].name, t->name)) {
            f->tallies.data[i].n += t->seen;
            return;
        }
    }
    char *name =
        f->tallies.len < TALLIES_MAX ? arena_strdup(&f->arena, bytes_head(t->name, 100)) : NULL;
    if (name)
        vec_push(f->budget, &f->tallies, (struct jfr_tally){bytes_of(name), t->seen});
    else
        f->n_more += t->seen;
}

int jfr_read_events(struct jfr_chunk *c)
{
    int r = walk_events(c, true);

    if (r == 0)
        r = walk_events(c, false);
    for (size_t i = 0; r == 0 && i < c->types.len; i++) {
        if (c->types.data[i].seen > 0 && !c->types.data[i].event)
            tally(c->file, &c->types.data[i]);
    }
    return r;
}

static int by_count(const void *a, const void *b)
{
    const struct jfr_tally *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1)
                        : strcmp((const char *)x->name.data, (const char *)y->name.data);
}

static void note_rest(struct jfr_file *f)
{
    char text[400];
    size_t n = 0;
    uint64_t events = f->n_more;

    if (f->tallies.len == 0)
        return;
    qsort(f->tallies.data, f->tallies.len, sizeof(*f->tallies.data), by_count);
    for (size_t i = 0; i < f->tallies.len; i++) {
        const struct jfr_tally *t = &f->tallies.data[i];
        events += t->n;
        if (i < 8 && n + t->name.len + 32 < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llu %s", i > 0 ? ", " : "",
                                  (unsigned long long)t->n, (const char *)t->name.data);
    }
    profile_set_note(f->set, "%llu events of %zu kinds that are no samples were not kept: %s%s",
                     (unsigned long long)events, f->tallies.len, text,
                     f->tallies.len > 8 ? "..." : "");
}

void jfr_finish(struct jfr_file *f)
{
    uint32_t resource = dict_attrs(f->dict, f->resource, ARRAY_SIZE(f->resource));

    for (size_t i = 0; i < JFR_FAMILIES; i++) {
        struct profile *p = f->profiles[i];
        if (!p)
            continue;
        p->time_unix_ns = f->start_ns;
        p->duration_ns = f->end_ns - f->start_ns;
        p->resource_attrs = resource;
    }
    if (f->period_is_guessed)
        profile_set_note(f->set,
                         "the recording does not say how often it sampled: every 20 ms, the "
                         "JDK's default, was assumed");
    if (f->n_frames > 0)
        profile_set_note(f->set, "bytecode positions and how frames were compiled were not kept");
    if (f->n_truncated > 0)
        profile_set_note(f->set, "the recorder cut off the outer frames of %llu samples",
                         (unsigned long long)f->n_truncated);
    if (f->n_without_trace > 0)
        profile_set_note(f->set, "%llu samples refer to stacks that the recording does not hold",
                         (unsigned long long)f->n_without_trace);
    if (f->n_load > 0) {
        double n = (double)f->n_load / 100;
        profile_set_note(f->set,
                         "CPU load, mean of %llu readings: JVM user %.1f %%, JVM system %.1f %%, "
                         "machine %.1f %%",
                         (unsigned long long)f->n_load, f->load[0] / n, f->load[1] / n,
                         f->load[2] / n);
    }
    note_rest(f);
}
