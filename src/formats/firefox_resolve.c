#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/firefox.h"

/* A thread with the tables it uses: its own or the shared ones. */
struct resolver {
    struct firefox *f;
    const struct firefox_process *process;
    const struct firefox_thread *t;
    const struct firefox_table *tables[T_COUNT];
    const firefox_strings *strings;
    const firefox_libs *libs;
    VEC(uint32_t) locations;    /* per frame; 0 until used */
    VEC(uint32_t) nodes;        /* per stack */
    VEC(uint32_t) lib_by_start; /* libs in order of their start */
    uint32_t native;
    struct error *err;
};

static int bad(struct resolver *s, const char *what, size_t row)
{
    return error_set(s->err, -EBADMSG, "thread \"%s\": %s %zu", dict_cstr(s->f->dict, s->t->name),
                     what, row);
}

static int64_t clamp_i64(double v)
{
    if (!(v > -9e18))
        return isnan(v) ? 0 : INT64_MIN;
    return v > 9e18 ? INT64_MAX : llround(v);
}

static int64_t ms_to_ns(double ms)
{
    return clamp_i64(ms * 1e6);
}

static struct bytes string_at(const struct resolver *s, const struct firefox_table *t,
                              size_t column, size_t row)
{
    uint32_t i;
    if (firefox_table_index(t, column, row, s->strings->len, &i))
        return s->strings->data[i];
    return (struct bytes){0};
}

static bool is_address(struct bytes name, uint64_t *ret)
{
    return bytes_start_with(name, BYTES("0x")) && bytes_to_hex(name, ret);
}

static int compare_starts(const void *a, const void *b, void *libs)
{
    const struct firefox_lib *all = libs;
    uint64_t x = all[*(const uint32_t *)a].start, y = all[*(const uint32_t *)b].start;
    return (x > y) - (x < y);
}

static bool sort_libs(struct resolver *s)
{
    for (uint32_t i = 0; i < s->libs->len; i++) {
        if (s->libs->data[i].end > s->libs->data[i].start &&
            !vec_push(s->f->budget, &s->lib_by_start, i))
            return false;
    }
    if (s->lib_by_start.len > 0)
        qsort_r(s->lib_by_start.data, s->lib_by_start.len, sizeof(*s->lib_by_start.data),
                compare_starts, s->libs->data);
    return true;
}

/* The mapping that an absolute address lies in, or 0. */
static uint32_t mapping_at(const struct resolver *s, uint64_t address)
{
    size_t from = 0, to = s->lib_by_start.len;

    while (from < to) {
        size_t mid = from + (to - from) / 2;
        if (s->libs->data[s->lib_by_start.data[mid]].start <= address)
            from = mid + 1;
        else
            to = mid;
    }
    if (from == 0)
        return 0;
    const struct firefox_lib *lib = &s->libs->data[s->lib_by_start.data[from - 1]];
    return address < lib->end ? lib->mapping : 0;
}

/* Takes ":123" off the end of *text. */
static bool take_number(struct bytes *text, int64_t *ret)
{
    size_t at = text->len;
    uint64_t n;

    while (at > 0 && text->data[at - 1] >= '0' && text->data[at - 1] <= '9')
        at--;
    if (at == text->len || at < 2 || text->data[at - 1] != ':' ||
        !bytes_to_u64(bytes_from(*text, at), &n) || n > INT32_MAX)
        return false;
    *ret = (int64_t)n;
    text->len = at - 1;
    return true;
}

/* "name (file:line)" or "name (file:line:column)": the script's own place of a function. A file may
 * be "loader -> file". */
static bool split_script(struct bytes text, struct bytes *name, struct bytes *file, int64_t *line)
{
    size_t open = text.len;
    int64_t first, second;

    if (text.len < 6 || text.data[text.len - 1] != ')')
        return false;
    while (open > 1 && !(text.data[open - 1] == '(' && text.data[open - 2] == ' '))
        open--;
    if (open <= 1)
        return false;
    struct bytes place = {text.data + open, text.len - 1 - open};
    if (!take_number(&place, &first))
        return false;
    *line = take_number(&place, &second) ? second : first;
    for (const uint8_t *arrow; (arrow = bytes_find(place, BYTES(" -> ")));)
        place = bytes_from(place, (size_t)(arrow - place.data) + 4);
    *name = (struct bytes){text.data, open - 2};
    *file = place;
    return true;
}

static int64_t number_or_zero(const struct firefox_table *t, size_t column, size_t row)
{
    double v = firefox_table_get(t, column, row);
    return v > 0 && v < INT32_MAX ? (int64_t)v : 0;
}

/* A frame as Gecko writes it: all is in one string. */
static uint32_t raw_location(struct resolver *s, size_t frame)
{
    struct dict *d = s->f->dict;
    const struct firefox_table *frames = s->tables[T_FRAMES];
    struct bytes text = string_at(s, frames, FRAME_LOCATION, frame), name = text, file = {0};
    struct function fn = {0};
    struct location l = {0};

    if (is_address(text, &l.address)) {
        l.mapping = mapping_at(s, l.address);
        l.type = s->native;
        return dict_location(d, l, NULL, 0);
    }
    split_script(text, &name, &file, &fn.start_line);
    fn.name = dict_string(d, name);
    fn.file = dict_string(d, file);
    struct line line = {.line = number_or_zero(frames, FRAME_LINE, frame),
                        .column = number_or_zero(frames, FRAME_COLUMN, frame)};
    if (line.line == 0)
        line.line = fn.start_line;
    line.function = dict_function(d, fn);
    return dict_location(d, l, &line, 1);
}

/* A function's file: its own name, or by way of the list of sources in newer versions. */
static struct bytes file_of(const struct resolver *s, uint32_t func)
{
    const struct firefox_table *sources = s->tables[T_SOURCES];
    uint32_t source;

    if (firefox_table_index(s->tables[T_FUNCS], FUNC_SOURCE, func, firefox_table_rows(sources),
                            &source))
        return string_at(s, sources, SOURCE_FILE, source);
    return string_at(s, s->tables[T_FUNCS], FUNC_FILE, func);
}

static uint32_t processed_location(struct resolver *s, size_t frame, uint32_t func)
{
    struct dict *d = s->f->dict;
    const struct firefox_table *frames = s->tables[T_FRAMES], *funcs = s->tables[T_FUNCS];
    struct bytes name = string_at(s, funcs, FUNC_NAME, func);
    struct location l = {0};
    double address = firefox_table_get(frames, FRAME_ADDRESS, frame);
    uint32_t resource, lib;
    uint64_t ignored;

    if (firefox_table_index(funcs, FUNC_RESOURCE, func, firefox_table_rows(s->tables[T_RESOURCES]),
                            &resource) &&
        firefox_table_index(s->tables[T_RESOURCES], RESOURCE_LIB, resource, s->libs->len, &lib)) {
        l.mapping = s->libs->data[lib].mapping;
        l.address = s->libs->data[lib].start;
    }
    if (address >= 0 && address < 9e15) {
        l.address += (uint64_t)address;
        l.type = s->native;
        if (is_address(name, &ignored))
            return dict_location(d, l, NULL, 0);
    } else {
        l.address = 0;
    }
    struct function fn = {.name = dict_string(d, name),
                          .file = dict_string(d, file_of(s, func)),
                          .start_line = number_or_zero(funcs, FUNC_LINE, func)};
    struct line line = {.function = dict_function(d, fn),
                        .line = number_or_zero(frames, FRAME_LINE, frame),
                        .column = number_or_zero(frames, FRAME_COLUMN, frame)};
    if (line.line == 0)
        line.line = fn.start_line;
    return dict_location(d, l, &line, 1);
}

static int location_of(struct resolver *s, uint32_t frame, uint32_t *ret)
{
    const struct firefox_table *frames = s->tables[T_FRAMES];
    uint32_t *known = &s->locations.data[frame], func;

    if (*known == 0 && frames->columns[FRAME_LOCATION].len > 0) {
        uint32_t string;
        if (!firefox_table_index(frames, FRAME_LOCATION, frame, s->strings->len, &string))
            return bad(s, "no such string for frame", frame);
        *known = raw_location(s, frame);
    } else if (*known == 0) {
        if (!firefox_table_index(frames, FRAME_FUNC, frame, firefox_table_rows(s->tables[T_FUNCS]),
                                 &func))
            return bad(s, "no such function for frame", frame);
        uint32_t string;
        if (!firefox_table_index(s->tables[T_FUNCS], FUNC_NAME, func, s->strings->len, &string))
            return bad(s, "no such string for function", func);
        *known = processed_location(s, frame, func);
    }
    *ret = *known;
    return 0;
}

/* Stacks to nodes. A prefix always comes before what it is a prefix of, so there is no cycle. */
static int resolve_stacks(struct resolver *s)
{
    const struct firefox_table *stacks = s->tables[T_STACKS];
    const struct firefox_table *frames = s->tables[T_FRAMES];
    size_t n_frames = frames->columns[FRAME_LOCATION].len;

    if (n_frames == 0)
        n_frames = firefox_table_rows(frames);
    if (!vec_resize(s->f->budget, &s->locations, n_frames) ||
        !vec_resize(s->f->budget, &s->nodes, firefox_table_rows(stacks)))
        return budget_error(s->f->budget, s->err);
    for (size_t i = 0; i < s->nodes.len; i++) {
        uint32_t frame, location = 0, prefix = 0, parent = 0;
        bool is_root = isnan(firefox_table_get(stacks, STACK_PREFIX, i));
        if (!firefox_table_index(stacks, STACK_FRAME, i, n_frames, &frame))
            return bad(s, "no such frame for stack", i);
        if (!is_root && !firefox_table_index(stacks, STACK_PREFIX, i, i, &prefix))
            return bad(s, "no earlier stack to be the prefix of stack", i);
        if (!is_root)
            parent = s->nodes.data[prefix];
        int r = location_of(s, frame, &location);
        if (r < 0)
            return r;
        s->nodes.data[i] = dict_node(s->f->dict, parent, location);
    }
    return budget_failed(s->f->budget) ? budget_error(s->f->budget, s->err) : 0;
}

static uint32_t thread_attrs(struct resolver *s)
{
    struct dict *d = s->f->dict;
    uint32_t ids[4] = {0};

    if (s->t->name)
        ids[0] = dict_string_attribute(d, dict_cstring(d, "thread.name"), s->t->name);
    if (s->t->tid >= 0)
        ids[1] = dict_int_attribute(d, dict_cstring(d, "thread.id"), s->t->tid, 0);
    if (s->t->pid >= 0)
        ids[2] = dict_int_attribute(d, dict_cstring(d, "process.pid"), s->t->pid, 0);
    if (s->t->process_name)
        ids[3] = dict_string_attribute(d, dict_cstring(d, "process.executable.name"),
                                       s->t->process_name);
    return dict_attrs(d, ids, ARRAY_SIZE(ids));
}

/* What the columns of samples mean in this thread. */
struct meaning {
    uint32_t n; /* columns of the profile */
    uint32_t weight_column, cpu_column;
    double cpu_scale, weight_scale;
    bool counts_samples; /* weights are numbers of samples */
    bool has_weight, has_cpu;
};

static struct meaning meaning_of(struct resolver *s)
{
    struct profile *p = s->f->p;
    struct dict *d = s->f->dict;
    const struct firefox_table *t = s->tables[T_SAMPLES];
    const char *weight = dict_cstr(d, t->string), *unit = dict_cstr(d, s->process->cpu_unit);
    struct meaning m = {.has_weight = t->columns[SAMPLES_WEIGHT].len > 0,
                        .has_cpu = t->columns[SAMPLES_CPU].len > 0,
                        .cpu_scale = 1,
                        .weight_scale = 1};

    if (m.has_weight && strcmp(weight, "bytes") == 0) {
        m.weight_column = profile_add_ctype(p, "space", "bytes");
    } else if (m.has_weight && strcmp(weight, "tracing-ms") == 0) {
        m.weight_column = profile_add_ctype(p, "wall", "nanoseconds");
        m.weight_scale = 1e6;
    } else {
        m.counts_samples = m.has_weight;
    }
    if (m.has_cpu && strcmp(unit, "variable CPU cycles") == 0) {
        m.cpu_column = profile_add_ctype(p, "cycles", "count");
    } else if (m.has_cpu) {
        m.cpu_column = profile_add_ctype(p, "cpu", "nanoseconds");
        m.cpu_scale = strcmp(unit, "ns") == 0 ? 1 : strcmp(unit, "ms") == 0 ? 1e6 : 1e3;
    }
    m.n = p->n_types;
    return m;
}

/* Milliseconds since the process started, which the file gives, or their differences. */
static double time_at(const struct resolver *s, size_t row, double *last)
{
    const struct firefox_table *t = s->tables[T_SAMPLES];
    double delta = firefox_table_get(t, SAMPLES_DELTA, row);

    if (t->columns[SAMPLES_TIME].len > 0)
        return firefox_table_get(t, SAMPLES_TIME, row);
    if (t->columns[SAMPLES_DELTA].len == 0)
        return (double)NAN;
    return *last += isnan(delta) ? 0 : delta;
}

static void fill_values(const struct resolver *s, const struct meaning *m, size_t row,
                        double gap_ms, int64_t *values)
{
    const struct firefox_table *t = s->tables[T_SAMPLES];
    double weight = firefox_table_get(t, SAMPLES_WEIGHT, row);
    double cpu = firefox_table_get(t, SAMPLES_CPU, row);

    memset(values, 0, m->n * sizeof(*values));
    values[0] = m->counts_samples && !isnan(weight) ? clamp_i64(weight) : 1;
    if (m->counts_samples)
        values[1] = ms_to_ns(s->process->interval_ms * (double)values[0]);
    else if (!m->has_weight)
        values[1] = ms_to_ns(gap_ms);
    if (m->has_weight && !m->counts_samples && !isnan(weight))
        values[m->weight_column] = clamp_i64(weight * m->weight_scale);
    if (m->has_cpu && !isnan(cpu))
        values[m->cpu_column] = clamp_i64(cpu * m->cpu_scale);
}

/* The profile lasts from its first sample to its last. */
static void note_time(struct firefox *f, int64_t at)
{
    if (at <= 0)
        return;
    if (f->first_ns == 0 || at < f->first_ns)
        f->first_ns = at;
    if (at > f->last_ns)
        f->last_ns = at;
    f->p->duration_ns = f->last_ns - f->first_ns;
}

static int add_samples(struct resolver *s)
{
    const struct firefox_table *t = s->tables[T_SAMPLES];
    struct meaning m = meaning_of(s);
    struct sample sample = {.attrs = thread_attrs(s)};
    size_t n = firefox_table_rows(t);
    int64_t values[PROFILE_TYPES_MAX];
    double sum = 0, time = n > 0 ? time_at(s, 0, &sum) : 0;

    sample.values = values;
    for (size_t i = 0; i < n; i++) {
        double next = i + 1 < n ? time_at(s, i + 1, &sum) : (double)NAN;
        double gap = next - time;
        uint32_t stack = 0;
        bool is_empty = isnan(firefox_table_get(t, SAMPLES_STACK, i));
        if (!is_empty && !firefox_table_index(t, SAMPLES_STACK, i, s->nodes.len, &stack))
            return bad(s, "no such stack for sample", i);
        sample.node = is_empty ? 0 : s->nodes.data[stack];
        fill_values(s, &m, i, isnan(gap) ? s->process->interval_ms : gap > 0 ? gap : 0, values);
        int64_t at = isnan(time) ? 0 : ms_to_ns(s->process->start_ms + time);
        sample.time_ns = at > 0 ? (uint64_t)at : 0;
        note_time(s->f, at);
        if (!profile_add(s->f->p, &sample))
            return budget_error(s->f->budget, s->err);
        time = next;
    }
    return 0;
}

static int resolve_thread(struct resolver *s)
{
    for (size_t i = 0; i < T_COUNT; i++) {
        bool own = false;
        for (size_t c = 0; c < FIREFOX_COLUMNS_MAX; c++)
            own |= s->t->tables[i].columns[c].len > 0;
        s->tables[i] = own || i == T_SAMPLES ? &s->t->tables[i] : &s->process->shared.tables[i];
    }
    s->strings = s->t->strings.len ? &s->t->strings : &s->process->shared.strings;
    s->libs = s->t->libs.len ? &s->t->libs : &s->process->shared.libs;
    if (firefox_table_rows(&s->t->tables[T_MARKERS]) > 0)
        profile_set_note(s->f->out, "firefox: markers are not kept");
    if (!sort_libs(s))
        return budget_error(s->f->budget, s->err);
    int r = resolve_stacks(s);
    return r < 0 ? r : add_samples(s);
}

static void set_times(struct profile *p, const struct firefox_process *process)
{
    if (p->time_unix_ns != 0)
        return;
    p->time_unix_ns = ms_to_ns(process->start_ms);
    p->period_type = p->types[1];
    p->period = ms_to_ns(process->interval_ms);
}

int firefox_resolve(struct firefox *f, struct firefox_process *process, struct error *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < process->threads.len; i++) {
        struct resolver s = {.f = f,
                             .process = process,
                             .t = &process->threads.data[i],
                             .native = dict_cstring(f->dict, "native"),
                             .err = err};
        r = resolve_thread(&s);
        vec_done(f->budget, &s.locations);
        vec_done(f->budget, &s.nodes);
        vec_done(f->budget, &s.lib_by_start);
    }
    if (process->threads.len > 0)
        set_times(f->p, process);
    return r;
}
