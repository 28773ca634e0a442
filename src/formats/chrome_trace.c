/*
 * Chrome trace events: an array of events, or an object with "traceEvents". Traces are written by
 * Chrome, Node.js, Hermes, clang (-ftime-trace), Bazel and many others. Times are microseconds,
 * with fractions where the writer has them.
 *
 * What a trace becomes:
 * - CPU profiles of V8 where it holds some ("Profile" and "ProfileChunk", or "CpuProfile" events),
 * - else its "samples" over "stackFrames",
 * - else, per thread, the events that have a duration: wall time by self time.
 *
 * The array may end without its bracket: writers that are killed leave it so, and the format allows
 * it. Async, flow, counter and instant events have no place in a stack; a note counts them.
 */
#include <inttypes.h>
#include <math.h>

#include "base/hash.h"
#include "formats/chrome_internal.h"
#include "formats/formats.h"
#include "formats/json_sniff.h"

static int chrome_trace_sniff(struct bytes head)
{
    struct bytes value, event;

    if (json_head_find(head, "traceEvents", &value))
        return 90;
    if (!json_head_first(head, &event))
        return 0;
    if (json_head_find(event, "ph", &value))
        return 85;
    if (json_head_find(event, "args", &value) || json_head_find(event, "pid", &value))
        return 50; /* the rest of a long first event is not in sight */
    return 0;
}

static uint64_t thread_hash(int64_t pid, int64_t tid, bool is_process)
{
    return hash_mix(hash_mix((uint64_t)pid, (uint64_t)tid), is_process);
}

static uint32_t find_thread(const struct chrome_trace *t, int64_t pid, int64_t tid, bool is_process)
{
    const struct chrome_thread *threads = t->threads.data;

    return IDSET_FIND(&t->thread_index, thread_hash(pid, tid, is_process), at,
                      threads[at].pid == pid && threads[at].tid == tid &&
                          threads[at].is_process == is_process);
}

uint32_t chrome_add_thread(struct chrome_trace *t, int64_t pid, int64_t tid, bool is_process)
{
    uint32_t at = find_thread(t, pid, tid, is_process);
    struct chrome_thread new = {.pid = pid, .tid = tid, .is_process = is_process};

    if (at != IDSET_NONE)
        return at;
    at = (uint32_t)t->threads.len;
    if (!vec_push(t->budget, &t->threads, new) ||
        !idset_add(t->budget, &t->thread_index, thread_hash(pid, tid, is_process), at))
        return 0;
    return at;
}

int chrome_compare_threads(const struct chrome_trace *t, uint32_t a, uint32_t b)
{
    const struct chrome_thread *x = &t->threads.data[a], *y = &t->threads.data[b];

    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->tid == y->tid ? 0 : x->tid < y->tid ? -1 : 1;
}

uint32_t chrome_thread_attrs(struct chrome_trace *t, uint32_t thread)
{
    struct dict *d = t->dict;
    int64_t pid = t->threads.data[thread].pid, tid = t->threads.data[thread].tid;
    uint32_t process = find_thread(t, pid, 0, true);
    uint32_t process_name = process != IDSET_NONE ? t->threads.data[process].name : 0;
    uint32_t thread_name = t->threads.data[thread].name;
    uint32_t ids[4] = {dict_int_attribute(d, dict_cstring(d, "process.pid"), pid, 0)};

    if (tid >= 0)
        ids[1] = dict_int_attribute(d, dict_cstring(d, "thread.id"), tid, 0);
    if (thread_name)
        ids[2] = dict_string_attribute(d, dict_cstring(d, "thread.name"),
                                       dict_string(d, dict_text(t->texts, thread_name)));
    if (process_name)
        ids[3] = dict_string_attribute(d, dict_cstring(d, "process.executable.name"),
                                       dict_string(d, dict_text(t->texts, process_name)));
    return dict_attrs(d, ids, 4);
}

int64_t chrome_get_time(struct json_reader *r)
{
    double v = json_get_double(r) * 1e3;

    if (fabs(v) < 0x1p61)
        return llround(v);
    json_fail(r, "a time is out of range");
    return 0;
}

/* Some writers have names here. They get ids that no system gives, and keep their name. */
int64_t chrome_get_thread_id(struct chrome_trace *t, struct json_reader *r, uint32_t *ret_name)
{
    int64_t id;

    if (json_peek(r) != JSON_STRING)
        return json_get_i64(r);
    struct bytes text = json_get_string(r);
    if (bytes_to_i64(text, &id))
        return id;
    *ret_name = dict_string(t->texts, text);
    return INT64_MIN + *ret_name;
}

static void read_args(struct chrome_trace *t, struct json_reader *r, struct chrome_event *e)
{
    if (json_peek(r) != JSON_OBJECT) {
        json_skip(r);
        return;
    }
    struct bytes raw = json_get_raw(r);
    vec_clear(&t->args_text);
    if (json_failed(r) || !vec_append(t->budget, &t->args_text, raw.data, raw.len))
        return;
    e->has_args = true;
    e->args_at = json_offset(r) - raw.len;
}

static void read_event_field(struct chrome_trace *t, struct json_reader *r, struct bytes key,
                             struct chrome_event *e)
{
    uint32_t ignored = 0;

    if (bytes_are(key, "ph")) {
        struct bytes phase = json_get_string(r);
        e->phase = '?';
        if (phase.len == 1)
            e->phase = (char)phase.data[0];
    } else if (bytes_are(key, "name")) {
        e->name = dict_string(t->texts, json_get_string_or_empty(r));
    } else if (bytes_are(key, "ts")) {
        e->ts = chrome_get_time(r);
        e->has_ts = true;
    } else if (bytes_are(key, "dur")) {
        e->dur = chrome_get_time(r);
        e->has_dur = true;
    } else if (bytes_are(key, "tdur")) {
        e->tdur = chrome_get_time(r);
        e->has_tdur = true;
    } else if (bytes_are(key, "pid")) {
        e->pid = chrome_get_thread_id(t, r, &ignored);
    } else if (bytes_are(key, "tid")) {
        e->tid = chrome_get_thread_id(t, r, &e->tid_name);
    } else if (bytes_are(key, "id") || bytes_are(key, "id2")) {
        e->id = dict_string(t->texts, json_get_raw(r));
    } else if (bytes_are(key, "args")) {
        read_args(t, r, e);
    } else {
        json_skip(r);
    }
}

/* {"name": "..."} of a "process_name" or "thread_name" event. */
static void read_name(struct chrome_trace *t, const struct chrome_event *e)
{
    bool is_process = bytes_are(dict_text(t->texts, e->name), "process_name");
    uint32_t name = 0;

    if (!e->has_args || (!is_process && !bytes_are(dict_text(t->texts, e->name), "thread_name")))
        return;
    json_reader_set_text(t->args, (struct bytes){t->args_text.data, t->args_text.len}, e->args_at);
    json_enter_object(t->args);
    for (struct bytes key; json_next_key(t->args, &key);) {
        if (bytes_are(key, "name"))
            name = dict_string(t->texts, json_get_string_or_empty(t->args));
        else
            json_skip(t->args);
    }
    uint32_t thread = chrome_add_thread(t, e->pid, is_process ? 0 : e->tid, is_process);
    if (name && !budget_failed(t->budget))
        t->threads.data[thread].name = name;
}

static void read_event(struct chrome_trace *t, struct json_reader *r)
{
    struct chrome_event e = {.offset = json_offset(r)};

    json_enter_object(r);
    for (struct bytes key; json_next_key(r, &key);)
        read_event_field(t, r, key, &e);
    if (json_failed(r) || budget_failed(t->budget))
        return;
    bool is_span = e.phase == 'B' || e.phase == 'E' || e.phase == 'X';
    if (is_span && !e.has_ts)
        json_fail_at(r, e.offset, "an event of phase %c has no \"ts\"", e.phase);
    else if (is_span)
        chrome_add_span(t, &e);
    else if (e.phase == 'M')
        read_name(t, &e);
    else if (!chrome_read_cpu_event(t, &e))
        t->n_other++;
}

static void read_events(struct chrome_trace *t, struct json_reader *r, bool is_whole_document)
{
    json_enter_array(r);
    while (is_whole_document ? json_next_element_or_end(r, &t->is_cut) : json_next_element(r)) {
        read_event(t, r);
        if (json_failed(t->args))
            return;
    }
}

static void read_document(struct chrome_trace *t, struct json_reader *r)
{
    if (json_peek(r) == JSON_ARRAY) {
        read_events(t, r, true);
        return;
    }
    json_enter_object(r);
    for (struct bytes key; !json_failed(t->args) && json_next_key(r, &key);) {
        if (bytes_are(key, "traceEvents"))
            read_events(t, r, false);
        else if (bytes_are(key, "samples") && json_peek(r) == JSON_ARRAY)
            chrome_read_samples(t, r);
        else if (bytes_are(key, "stackFrames") && json_peek(r) == JSON_OBJECT)
            chrome_read_stack_frames(t, r);
        else
            json_skip(r);
    }
}

static void add_notes(struct chrome_trace *t)
{
    struct profile_set *out = t->out;

    if (t->is_cut)
        profile_set_note(out, "the trace ends without a closing bracket");
    if (t->n_other > 0)
        profile_set_note(out,
                         "%" PRIu64 " events without a duration (instant, async, flow, "
                         "counter...) were left out",
                         t->n_other);
    if (t->n_long_args > 0 && t->profiles.len == 0 && t->samples.len == 0)
        profile_set_note(out, "the arguments of %" PRIu64 " events are too long and were left out",
                         t->n_long_args);
    if (t->n_lost_ends > 0)
        profile_set_note(out, "%" PRIu64 " ends of events match no begin and were left out",
                         t->n_lost_ends);
    if (t->n_open > 0)
        profile_set_note(out, "%" PRIu64 " events never end and were ended with their thread",
                         t->n_open);
}

static void finish(struct chrome_trace *t, struct json_reader *r)
{
    if (t->profiles.len > 0)
        chrome_finish_cpu(t, r);
    else if (t->samples.len > 0)
        chrome_finish_samples(t, r);
    else
        chrome_finish_spans(t);
    if (t->n_spans > 0 && (t->profiles.len > 0 || t->samples.len > 0))
        profile_set_note(
            t->out, "%" PRIu64 " events with a duration were left out: the trace holds samples",
            t->n_spans);
    add_notes(t);
}

static void chrome_trace_done(struct chrome_trace *t)
{
    json_reader_free(t->args);
    vec_done(t->budget, &t->args_text);
    buf_done(&t->scratch);
    vec_done(t->budget, &t->threads);
    idset_done(t->budget, &t->thread_index);
    vec_done(t->budget, &t->spans);
    chrome_cpu_done(t);
    dict_free(t->texts);
}

static int chrome_trace_decode(struct input *in, struct profile_set *out, struct error *err)
{
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, out->budget);
    CLEANUP(chrome_trace_done)
    struct chrome_trace t = {.out = out, .dict = out->dict, .budget = out->budget};

    t.args = json_reader_new(NULL, out->budget);
    t.texts = dict_new(out->budget);
    v8_tree_init(&t.frames, out->dict, false);
    t.frames.frame_type = 0;
    read_document(&t, r);
    if (json_failed(t.args))
        return json_result(t.args, "chrome-trace", err);
    int result = json_finish(r, "chrome-trace", err);
    if (result < 0)
        return result;
    finish(&t, r);
    return json_result(r, "chrome-trace", err);
}

const struct format format_chrome_trace = {
    .name = "chrome-trace",
    .title = "Chrome trace events",
    .extension = NULL,
    .sniff = chrome_trace_sniff,
    .decode = chrome_trace_decode,
};
