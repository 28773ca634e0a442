/*
 * Events: which are samples, which tell about the recording, and which are only counted and named
 * in a note. The table `event_kinds` says so.
 */
#include <stdio.h>
#include <stdlib.h>

#include "formats/jfr_internal.h"

#define TALLIES_MAX 256

/* Number slots. */
enum { LOAD_USER, LOAD_SYSTEM, LOAD_TOTAL };
enum { PID };
enum { SETTING };

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
    if (t->plan->has_numbers >> PID & 1 && !f->resource[2])
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
        char *copy = measures_time(value) ? NULL : arena_strdup(&c->file->arena, value);
        s->event = copy ? bytes_of(copy) : (struct bytes){0};
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

static const struct jfr_want load_numbers[] = {
    {"jvmUser", LOAD_USER}, {"jvmSystem", LOAD_SYSTEM}, {"machineTotal", LOAD_TOTAL}, {0}};
static const struct jfr_want jvm_numbers[] = {{"pid", PID}, {0}};
static const struct jfr_want jvm_texts[] = {{"jvmName", 0}, {"jvmVersion", 1}, {0}};
static const struct jfr_want os_texts[] = {{"osVersion", 0}, {0}};
static const struct jfr_want setting_numbers[] = {{"id", SETTING}, {0}};
static const struct jfr_want setting_texts[] = {{"name", 0}, {"value", 1}, {0}};

static const struct jfr_event_kind event_kinds[] = {
    {"jdk.ExecutionSample", jfr_on_execution, .family = JFR_CPU},
    /* Not cpu: a JDK takes both kinds of samples side by side, of the same time. */
    {"jdk.CPUTimeSample", jfr_on_sample, .family = JFR_CPU_TIME},
    {"jdk.NativeMethodSample", jfr_on_sample, .family = JFR_NATIVE},
    {"profiler.WallClockSample", jfr_on_wall, .family = JFR_WALL},
    {"datadog.ExecutionSample", jfr_on_sample, .family = JFR_CPU, .samples = "weight"},
    {"datadog.MethodSample", jfr_on_sample, .family = JFR_WALL, .samples = "weight"},
    {"jdk.ObjectAllocationInNewTLAB", jfr_on_sample, .family = JFR_ALLOC_IN_TLAB,
     .bytes = "tlabSize"},
    {"jdk.ObjectAllocationOutsideTLAB", jfr_on_sample, .family = JFR_ALLOC_OUTSIDE_TLAB,
     .bytes = "allocationSize"},
    {"jdk.ObjectAllocationSample", jfr_on_sample, .family = JFR_ALLOC_SAMPLE, .bytes = "weight"},
    {"profiler.LiveObject", jfr_on_sample, .family = JFR_LIVE, .bytes = "allocationSize"},
    {"jdk.JavaMonitorEnter", jfr_on_sample, .family = JFR_MUTEX},
    {"jdk.ThreadPark", jfr_on_sample, .family = JFR_BLOCK},
    {"profiler.Malloc", jfr_on_sample, .family = JFR_MALLOC, .bytes = "size"},
    {"jdk.CPULoad", on_load, .wants = {.numbers = load_numbers}},
    {"jdk.JVMInformation", on_jvm, .wants = {.numbers = jvm_numbers, .texts = jvm_texts}},
    {"jdk.OSInformation", on_os, .wants = {.texts = os_texts}},
    {"jdk.ActiveSetting", on_setting,
     .wants = {.numbers = setting_numbers, .texts = setting_texts}},
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
    const struct jfr_wants *wants = &t->event->wants;
    return wants->numbers || wants->texts ? jfr_compile(c, t, wants) : jfr_compile_sample(c, t);
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
        if (!t) {
            c->file->n_unknown += !settings;
            continue;
        }
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
    struct bytes short_name = bytes_head(t->name, 100);

    for (size_t i = 0; i < f->tallies.len; i++) {
        if (bytes_equal(f->tallies.data[i].name, short_name)) {
            f->tallies.data[i].n += t->seen;
            return;
        }
    }
    char *name = f->tallies.len < TALLIES_MAX ? arena_strdup(&f->arena, short_name) : NULL;
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
    jfr_make_printable(text);
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
    if (f->n_unknown > 0)
        profile_set_note(f->set, "%llu events are of types that the recording does not define",
                         (unsigned long long)f->n_unknown);
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
