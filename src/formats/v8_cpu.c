#include "formats/v8_cpu.h"

#include <math.h>
#include <stdlib.h>

#include "base/bisect.h"

void v8_cpu_init(struct v8_cpu *c, struct dict *d)
{
    *c = (struct v8_cpu){0};
    v8_tree_init(&c->tree, d, true);
}

void v8_cpu_done(struct v8_cpu *c)
{
    struct budget *b = c->tree.dict->budget;

    vec_done(b, &c->samples);
    vec_done(b, &c->times);
    vec_done(b, &c->lines);
    vec_done(b, &c->chunks);
    v8_tree_done(&c->tree);
}

/* A time in units of `unit` nanoseconds, as nanoseconds. */
static int64_t read_time(struct json_reader *r, double unit)
{
    double v = json_get_double(r) * unit;

    if (fabs(v) < 0x1p62)
        return llround(v);
    json_fail(r, "a time is out of range");
    return 0;
}

static void read_samples(struct v8_cpu *c, struct json_reader *r)
{
    struct budget *b = c->tree.dict->budget;
    size_t step = 1024, got = step;

    json_enter_array(r);
    c->samples_at = json_offset(r);
    while (got == step && vec_reserve(b, &c->samples, step)) {
        got = json_get_i64_run(r, c->samples.data + c->samples.len, step);
        c->samples.len += got;
    }
}

static void read_times(struct v8_cpu *c, struct json_reader *r)
{
    json_enter_array(r);
    c->times_at = json_offset(r);
    while (json_next_element(r)) {
        int64_t t = read_time(r, 1e3);
        if (json_failed(r) || !vec_push(c->tree.dict->budget, &c->times, t))
            return;
    }
}

static void read_lines(struct v8_cpu *c, struct json_reader *r)
{
    struct budget *b = c->tree.dict->budget;
    size_t step = 1024, got = step;

    json_enter_array(r);
    while (got == step && vec_reserve(b, &c->lines, step)) {
        got = json_get_i64_run(r, c->lines.data + c->lines.len, step);
        c->lines.len += got;
    }
}

void v8_cpu_end_chunk(struct v8_cpu *c, int64_t ts)
{
    struct budget *b = c->tree.dict->budget;

    struct v8_chunk k = {ts, c->samples.len, c->times.len, c->chunks.len};
    vec_resize(b, &c->lines, c->samples.len);
    vec_push(b, &c->chunks, k);
}

static int compare_chunks(const void *a, const void *b)
{
    const struct v8_chunk *x = a, *y = b;
    if (x->ts != y->ts)
        return x->ts < y->ts ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

/* Puts the columns of out-of-order chunks in order, if the budget allows. */
static void order_chunks(struct v8_cpu *c)
{
    struct budget *b = c->tree.dict->budget;
    struct v8_cpu to = {.tree = c->tree};
    VEC(struct v8_chunk) sorted = {0};
    size_t i = 1;

    while (i < c->chunks.len && c->chunks.data[i - 1].ts <= c->chunks.data[i].ts)
        i++;
    if (i >= c->chunks.len || !vec_append(b, &sorted, c->chunks.data, c->chunks.len))
        return;
    qsort(sorted.data, sorted.len, sizeof(sorted.data[0]), compare_chunks);
    for (i = 0; i < sorted.len; i++) {
        const struct v8_chunk *k = &sorted.data[i];
        const struct v8_chunk *before = k->index > 0 ? &c->chunks.data[k->index - 1] : NULL;
        size_t s = before ? before->samples_end : 0, t = before ? before->times_end : 0;
        vec_append(b, &to.samples, c->samples.data + s, k->samples_end - s);
        vec_append(b, &to.lines, c->lines.data + s, k->samples_end - s);
        vec_append(b, &to.times, c->times.data + t, k->times_end - t);
    }
    vec_done(b, &sorted);
    vec_done(b, &c->samples);
    vec_done(b, &c->lines);
    vec_done(b, &c->times);
    memcpy(&c->samples, &to.samples, sizeof(c->samples));
    memcpy(&c->lines, &to.lines, sizeof(c->lines));
    memcpy(&c->times, &to.times, sizeof(c->times));
}

bool v8_cpu_read_field(struct v8_cpu *c, struct json_reader *r, struct bytes key)
{
    if (bytes_are(key, "startTime")) {
        c->start_ns = read_time(r, 1e3);
        c->has_start = true;
    } else if (bytes_are(key, "endTime")) {
        c->end_ns = read_time(r, 1e3);
        c->has_end = true;
    } else if (bytes_are(key, "nodes")) {
        v8_tree_read_nodes(&c->tree, r);
    } else if (bytes_are(key, "head")) {
        v8_tree_read_node(&c->tree, r);
        c->is_old = true;
    } else if (bytes_are(key, "samples")) {
        read_samples(c, r);
    } else if (bytes_are(key, "timeDeltas")) {
        read_times(c, r);
    } else if (bytes_are(key, "timestamps")) {
        read_times(c, r);
        c->has_timestamps = true;
    } else if (bytes_are(key, "lines")) {
        read_lines(c, r);
    } else {
        return false;
    }
    return true;
}

/* Seconds were read as microseconds. */
static bool scale_window(struct v8_cpu *c)
{
    return !__builtin_mul_overflow(c->start_ns, 1000000, &c->start_ns) &&
           !__builtin_mul_overflow(c->end_ns, 1000000, &c->end_ns);
}

/* Deltas become times. */
static void settle_times(struct v8_cpu *c, struct json_reader *r)
{
    bool fits = !c->is_old || scale_window(c);
    int64_t *times = c->times.data, now = c->start_ns;

    for (size_t i = 0; i < c->times.len && fits; i++) {
        if (!c->has_timestamps)
            fits = !__builtin_add_overflow(now, times[i], &times[i]);
        now = times[i];
        fits = fits && now < INT64_MAX / 2 && now > INT64_MIN / 2;
    }
    if (!fits)
        json_fail_at(r, c->times_at, "the times of the samples are out of range");
}

/* Time never runs backwards: a sample of another node than the one before it begins when it says,
 * or when that one began; those in between fit themselves in. */
static void straighten_times(struct v8_cpu *c)
{
    size_t n = c->samples.len < c->times.len ? c->samples.len : c->times.len;
    int64_t *times = c->times.data, begun = INT64_MIN;

    for (size_t i = 0; i < n; i++) {
        times[i] = times[i] < begun ? begun : times[i];
        if (i == 0 || i == n - 1 || c->samples.data[i] != c->samples.data[i - 1])
            begun = times[i];
    }
    for (size_t i = n; i-- > 1;)
        times[i - 1] = times[i - 1] > times[i] ? times[i] : times[i - 1];
}

static void check_lengths(struct v8_cpu *c, struct json_reader *r, struct profile_set *out)
{
    const char *what = c->has_timestamps ? "timestamps" : "time deltas";

    if (c->times.len > 0 && c->times.len < c->samples.len)
        json_fail_at(r, c->samples_at, "%zu samples have only %zu %s", c->samples.len, c->times.len,
                     what);
    if (c->times.len > c->samples.len)
        profile_set_note(out, "%zu %s behind the last sample were left out",
                         c->times.len - c->samples.len, what);
}

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The line that tick number `tick` of a node fell on. */
static uint32_t stack_of_tick(const struct v8_tree *t, const struct v8_node *n, int64_t tick)
{
    const struct v8_tick *ticks = t->ticks.data + n->first_tick;

    return ticks[BISECT(n->n_ticks - 1, i, ticks[i].until <= tick)].stack;
}

/*
 * The stack of the next sample of a node. Which line it was on is not known, only how many were:
 * taking the ticks in steps of about the golden section gives each line its share of every stretch
 * of samples, and of the whole exactly when there are as many samples as ticks.
 */
static uint32_t next_stack(const struct v8_tree *t, struct v8_node *n)
{
    if (n->n_ticks == 0)
        return n->stack;
    uint64_t total = (uint64_t)t->ticks.data[n->first_tick + n->n_ticks - 1].until;
    if (n->tick_step == 0) {
        n->tick_step = total * 618 / 1000 + 1;
        while (greatest_common_divisor(n->tick_step, total) != 1)
            n->tick_step++;
    }
    n->tick += n->tick_step;
    while (n->tick >= total)
        n->tick -= total;
    return stack_of_tick(t, n, (int64_t)n->tick);
}

static void add_samples(struct v8_cpu *c, struct json_reader *r, struct profile *p)
{
    struct v8_tree *t = &c->tree;
    bool has_times = c->times.len > 0;
    int64_t values[2] = {1, 0};
    uint32_t at = V8_NO_NODE;

    profile_reserve(p, c->samples.len);
    for (size_t i = 0; i < c->samples.len; i++) {
        int64_t id = c->samples.data[i];
        if (i == 0 || id != c->samples.data[i - 1])
            at = v8_tree_find(t, id);
        if (at == V8_NO_NODE) {
            json_fail_at(r, c->samples_at, "sample %zu names node %lld, which does not exist", i,
                         (long long)id);
            return;
        }
        int64_t line = i < c->lines.len ? c->lines.data[i] : 0;
        struct sample s = {.values = values, .attrs = c->attrs};
        s.node = line > 0 ? v8_tree_stack_at_line(t, at, line) : next_stack(t, &t->nodes.data[at]);
        if (has_times) {
            s.time_ns = c->times.data[i] > 0 ? (uint64_t)c->times.data[i] : 0;
            values[1] = i + 1 < c->samples.len ? c->times.data[i + 1] - c->times.data[i] : 0;
        }
        if (!profile_add(p, &s))
            return;
    }
}

/* Without samples there are still the hit counts of the nodes. */
static void add_hits(struct v8_cpu *c, struct profile *p)
{
    for (size_t i = 0; i < c->tree.nodes.len; i++) {
        const struct v8_node *n = &c->tree.nodes.data[i];
        int64_t left = n->weight, before = 0;
        for (uint32_t k = 0; k < n->n_ticks && left > 0; k++) {
            const struct v8_tick *tick = &c->tree.ticks.data[n->first_tick + k];
            int64_t hits = tick->until - before < left ? tick->until - before : left;
            profile_add_value(p, tick->stack, hits);
            before = tick->until;
            left -= hits;
        }
        if (left > 0)
            profile_add_value(p, n->stack, left);
    }
}

int64_t v8_calendar_time(int64_t time_ns, struct profile_set *out)
{
    const int64_t year_2000 = 946684800 * (int64_t)1000000000;

    if (time_ns >= year_2000)
        return time_ns;
    profile_set_note(out, "times are those of a clock of the process, not of the calendar");
    return 0;
}

/* From the start to the end, or to the last sample where the end is earlier: old profiles have both
 * in whole seconds. */
static void set_window(struct v8_cpu *c, struct profile *p, struct profile_set *out)
{
    int64_t end = c->has_end ? c->end_ns : 0;
    size_t n = c->samples.len < c->times.len ? c->samples.len : c->times.len;

    if (n > 0 && end < c->times.data[n - 1])
        end = c->times.data[n - 1];
    if (!c->has_start && n > 0)
        c->start_ns = c->times.data[0];
    p->time_unix_ns = v8_calendar_time(c->start_ns, out);
    p->duration_ns = end > c->start_ns ? end - c->start_ns : 0;
}

struct profile *v8_cpu_finish(struct v8_cpu *c, struct json_reader *r, struct profile_set *out)
{
    order_chunks(c);
    v8_tree_resolve(&c->tree, r);
    settle_times(c, r);
    straighten_times(c);
    check_lengths(c, r, out);
    struct profile *p = json_failed(r) ? NULL : profile_set_add(out);
    if (!p)
        return NULL;
    profile_add_ctype(p, "samples", "count");
    if (c->samples.len == 0) {
        add_hits(c, p);
    } else {
        if (c->times.len > 0)
            profile_add_ctype(p, "cpu", "nanoseconds");
        add_samples(c, r, p);
    }
    p->profile_attrs = c->attrs;
    set_window(c, p, out);
    return json_failed(r) ? NULL : p;
}
