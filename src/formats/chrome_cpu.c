#include <stdlib.h>

#include "base/hash.h"
#include "formats/chrome_internal.h"

/* The profile of a process by its id, or by its thread where it has none; new when there is none.
 * NULL when the budget is spent. */
static struct chrome_profile *add_profile(struct chrome_trace *t, const struct chrome_event *e)
{
    int64_t tid = e->id ? 0 : e->tid;
    uint64_t hash = hash_mix(hash_mix((uint64_t)e->pid, (uint64_t)tid), e->id);
    uint32_t at = IDSET_FIND(&t->profile_index, hash, i,
                             t->profiles.data[i].pid == e->pid && t->profiles.data[i].tid == tid &&
                                 t->profiles.data[i].id == e->id);
    if (at != IDSET_NONE)
        return &t->profiles.data[at];
    at = (uint32_t)t->profiles.len;
    if (!vec_push(t->budget, &t->profiles,
                  (struct chrome_profile){.pid = e->pid, .tid = tid, .id = e->id}))
        return NULL;
    v8_cpu_init(&t->profiles.data[at].cpu, t->dict);
    if (!idset_add(t->budget, &t->profile_index, hash, at))
        return NULL;
    return &t->profiles.data[at];
}

static void read_cpu_profile(struct v8_cpu *c, struct json_reader *r)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (!v8_cpu_read_field(c, r, key))
            json_skip(r);
    }
}

/* {"cpuProfile": {nodes, samples...}, "timeDeltas": [...], "lines": [...], "startTime": ...} */
static void read_data(struct v8_cpu *c, struct json_reader *r)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "cpuProfile") && json_peek(r) == JSON_OBJECT)
            read_cpu_profile(c, r);
        else if (!v8_cpu_read_field(c, r, key))
            json_skip(r);
    }
}

static void read_profile_args(struct chrome_trace *t, const struct chrome_event *e,
                              struct v8_cpu *c)
{
    struct json_reader *r = t->args;

    if (!e->has_args)
        return;
    json_reader_set_text(r, (struct bytes){t->args_text.data, t->args_text.len}, e->args_at);
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "data") && json_peek(r) == JSON_OBJECT)
            read_data(c, r);
        else
            json_skip(r);
    }
    if (!json_failed(r))
        v8_cpu_end_chunk(c, e->ts);
}

bool chrome_read_cpu_event(struct chrome_trace *t, const struct chrome_event *e)
{
    struct bytes name = dict_text(t->texts, e->name);
    bool is_whole = bytes_are(name, "CpuProfile"), is_start = bytes_are(name, "Profile");

    if (!is_whole && !is_start && !bytes_are(name, "ProfileChunk"))
        return false;
    struct chrome_profile *p = add_profile(t, e);
    if (!p)
        return true;
    if (is_whole || is_start) {
        p->is_declared = true;
        p->thread = chrome_add_thread(t, e->pid, e->tid, false);
    }
    read_profile_args(t, e, &p->cpu);
    return true;
}

void chrome_finish_cpu(struct chrome_trace *t, struct json_reader *r)
{
    size_t n_lost = 0;

    for (size_t i = 0; i < t->profiles.len && !json_failed(r); i++) {
        struct chrome_profile *p = &t->profiles.data[i];
        if (!p->is_declared) {
            n_lost += p->cpu.samples.len;
            continue;
        }
        p->cpu.attrs = chrome_thread_attrs(t, p->thread);
        v8_cpu_finish(&p->cpu, r, t->out);
    }
    if (n_lost > 0)
        profile_set_note(t->out, "%zu samples of profiles that were never begun were left out",
                         n_lost);
}

/* "samples": [{"ts", "pid", "tid", "sf": a stack frame, "weight"}] */
void chrome_read_samples(struct chrome_trace *t, struct json_reader *r)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        struct chrome_sample s = {.offset = json_offset(r), .weight = 1};
        int64_t pid = 0, tid = 0;
        uint32_t ignored = 0, tid_name = 0;
        json_enter_object(r);
        for (struct bytes key; json_next_key(r, &key);) {
            if (bytes_are(key, "ts"))
                s.time_ns = chrome_get_time(r);
            else if (bytes_are(key, "sf"))
                s.frame = json_get_i64(r);
            else if (bytes_are(key, "weight"))
                s.weight = json_get_i64(r);
            else if (bytes_are(key, "pid"))
                pid = chrome_get_thread_id(t, r, &ignored);
            else if (bytes_are(key, "tid"))
                tid = chrome_get_thread_id(t, r, &tid_name);
            else
                json_skip(r);
        }
        s.thread = chrome_add_thread(t, pid, tid, false);
        if (json_failed(r) || !vec_push(t->budget, &t->samples, s))
            return;
    }
}

static void read_stack_frame(struct chrome_trace *t, struct json_reader *r, int64_t id)
{
    struct v8_node n = {.id = id, .offset = json_offset(r)};
    struct v8_frame f = {0};

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        if (bytes_are(key, "name")) {
            f.name = dict_string(t->dict, json_get_string_or_empty(r));
        } else if (bytes_are(key, "parent") && json_peek(r) != JSON_NULL) {
            n.parent_id = json_get_i64(r);
            n.has_parent_id = n.parent_id != 0;
        } else if (bytes_are(key, "url") || bytes_are(key, "file")) {
            f.url = dict_string(t->dict, json_get_string_or_empty(r));
        } else if (bytes_are(key, "line") && json_peek(r) != JSON_NULL) {
            f.line = json_get_i64(r);
        } else if (bytes_are(key, "column") && json_peek(r) != JSON_NULL) {
            f.column = json_get_i64(r);
        } else {
            json_skip(r);
        }
    }
    v8_tree_add(&t->frames, r, n, f);
}

/* "stackFrames": {"1": {"name", "category", "parent": another's key}} */
void chrome_read_stack_frames(struct chrome_trace *t, struct json_reader *r)
{
    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);) {
        int64_t id;
        if (bytes_to_i64(key, &id))
            read_stack_frame(t, r, id);
        else
            json_fail(r, "the key of a stack frame is not a number");
    }
}

static int compare_samples(const void *a, const void *b, void *trace)
{
    const struct chrome_sample *x = a, *y = b;
    int order = chrome_compare_threads(trace, x->thread, y->thread);
    if (order != 0)
        return order;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->offset < y->offset ? -1 : 1;
}

/* The samples [first, end) of one thread. As in a .cpuprofile, a sample lasts until the next. */
static void add_sampled_thread(struct chrome_trace *t, struct json_reader *r, size_t first,
                               size_t end)
{
    struct profile *p = profile_set_add(t->out);
    if (!p)
        return;
    const struct chrome_sample *s = t->samples.data;
    uint32_t attrs = chrome_thread_attrs(t, s[first].thread);
    p->profile_attrs = attrs;
    p->time_unix_ns = v8_calendar_time(s[first].time_ns, t->out);
    p->duration_ns = s[end - 1].time_ns - s[first].time_ns;
    profile_add_ctype(p, "samples", "count");
    profile_add_ctype(p, "cpu", "nanoseconds");
    for (size_t i = first; i < end; i++) {
        uint32_t node = v8_tree_find(&t->frames, s[i].frame);
        if (node == V8_NO_NODE && s[i].frame != 0) {
            json_fail_at(r, s[i].offset, "a sample names stack frame %lld, which does not exist",
                         (long long)s[i].frame);
            return;
        }
        int64_t values[] = {s[i].weight, i + 1 < end ? s[i + 1].time_ns - s[i].time_ns : 0};
        profile_add(
            p, &(struct sample){.node = node == V8_NO_NODE ? 0 : t->frames.nodes.data[node].stack,
                                .attrs = attrs,
                                .time_ns = s[i].time_ns > 0 ? (uint64_t)s[i].time_ns : 0,
                                .values = values});
    }
}

void chrome_finish_samples(struct chrome_trace *t, struct json_reader *r)
{
    size_t n = t->samples.len;

    v8_tree_resolve(&t->frames, r);
    qsort_r(t->samples.data, n, sizeof(t->samples.data[0]), compare_samples, t);
    for (size_t i = 0, end; i < n && !json_failed(r) && !budget_failed(t->budget); i = end) {
        end = i + 1;
        while (end < n && t->samples.data[end].thread == t->samples.data[i].thread)
            end++;
        add_sampled_thread(t, r, i, end);
    }
}

void chrome_cpu_done(struct chrome_trace *t)
{
    for (size_t i = 0; i < t->profiles.len; i++)
        v8_cpu_done(&t->profiles.data[i].cpu);
    vec_done(t->budget, &t->profiles);
    idset_done(t->budget, &t->profile_index);
    vec_done(t->budget, &t->samples);
    v8_tree_done(&t->frames);
}
