/*
 * Profiles of Firefox's profiler, in both of its forms: as Gecko writes them (also inside a
 * recording of the old developer tools), and processed, as the profiler and samply save them.
 * Threads and processes become attributes of the samples.
 *
 * Values: "samples" counts them, by weight where the file has weights. "wall" is the time to the
 * thread's next sample or, where weights say how many intervals a sample stands for, that many.
 * "cpu" is what the file says the thread used since the sample before. Markers and counters are
 * left out.
 */
#include "formats/firefox.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "formats/formats.h"

#define DEPTH_MAX 4

static const struct firefox_table_spec specs[T_COUNT] = {
    [T_SAMPLES] = {"samples", {"stack", "time", "timeDeltas", "weight", "threadCPUDelta"}},
    [T_STACKS] = {"stackTable", {"frame", "prefix"}},
    [T_FRAMES] = {"frameTable", {"func", "location", "line", "column", "address"}},
    [T_FUNCS] = {"funcTable", {"name", "resource", "fileName", "lineNumber", "source"}},
    [T_RESOURCES] = {"resourceTable", {"name", "lib"}},
    [T_SOURCES] = {"sources", {"filename"}},
    [T_MARKERS] = {"markers", {"name"}, .is_lax = true},
};

static void read_document(struct firefox *f, struct json_reader *r);

static void thread_done(struct budget *b, struct firefox_thread *t)
{
    for (size_t i = 0; i < T_COUNT; i++)
        firefox_table_done(b, &t->tables[i]);
    vec_done(b, &t->strings);
    vec_done(b, &t->libs);
}

static void process_done(struct budget *b, struct firefox_process *p)
{
    for (size_t i = 0; i < p->threads.len; i++)
        thread_done(b, &p->threads.data[i]);
    vec_done(b, &p->threads);
    thread_done(b, &p->shared);
    arena_done(&p->text);
}

static void out_of_memory(struct json_reader *r)
{
    json_fail(r, "out of memory"); /* the budget's own words replace this in decode() */
}

/* Old versions hold JSON as text within JSON. */
static void read_inner(struct firefox *f, struct json_reader *outer, struct bytes text,
                       void (*read)(struct firefox *, struct json_reader *, void *), void *arg)
{
    CLEANUP(input_closep) struct input *in = input_from_bytes(text, "text", f->budget);
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, f->budget);
    struct error err = {""};

    read(f, r, arg);
    if (json_finish(r, "in a text that holds JSON,", &err) < 0)
        json_fail(outer, "%s", err.text);
}

static void read_strings(struct firefox *f, struct json_reader *r, struct arena *text,
                         firefox_strings *to)
{
    vec_clear(to);
    json_enter_array(r);
    while (json_next_element(r)) {
        struct bytes s = json_get_string_or_empty(r);
        const char *copy = arena_strdup(text, s);
        if (!copy || !vec_push(f->budget, to, (struct bytes){(const uint8_t *)copy, s.len}))
            out_of_memory(r);
    }
}

static void read_lib(struct firefox *f, struct json_reader *r, firefox_libs *to)
{
    struct dict *d = f->dict;
    struct mapping m = {0};
    uint32_t name = 0;
    struct bytes key;

    json_enter_object(r);
    while (json_next_key(r, &key)) {
        if (bytes_are(key, "start") && json_peek(r) == JSON_NUMBER)
            m.start = json_get_u64(r);
        else if (bytes_are(key, "end") && json_peek(r) == JSON_NUMBER)
            m.limit = json_get_u64(r);
        else if (bytes_are(key, "offset") && json_peek(r) == JSON_NUMBER)
            m.offset = json_get_u64(r);
        else if (bytes_are(key, "name"))
            name = dict_string(d, json_get_string_or_empty(r));
        else if (bytes_are(key, "path"))
            m.file = dict_string(d, json_get_string_or_empty(r));
        else if (bytes_are(key, "codeId") && json_peek(r) == JSON_STRING)
            m.build_id = dict_string(d, json_get_string(r));
        else if (bytes_are(key, "breakpadId") && m.build_id == 0)
            m.build_id = dict_string(d, json_get_string_or_empty(r));
        else
            json_skip(r);
    }
    if (m.file == 0)
        m.file = name;
    struct firefox_lib lib = {m.start, m.limit, dict_mapping(d, m)};
    if (!vec_push(f->budget, to, lib))
        out_of_memory(r);
}

static void read_lib_list(struct firefox *f, struct json_reader *r, void *to)
{
    json_enter_array(r);
    while (json_next_element(r))
        read_lib(f, r, to);
}

static void read_libs(struct firefox *f, struct firefox_process *p, struct json_reader *r,
                      firefox_libs *to)
{
    if (json_peek(r) != JSON_STRING) {
        read_lib_list(f, r, to);
        return;
    }
    struct bytes text = json_get_string(r);
    const char *copy = arena_strdup(&p->text, text);
    if (!copy)
        out_of_memory(r);
    else
        read_inner(f, r, (struct bytes){(const uint8_t *)copy, text.len}, read_lib_list, to);
}

/* A process or thread id: a number, or a number in a string; -1 for anything else. */
static int64_t read_id(struct json_reader *r)
{
    uint64_t id;

    switch (json_peek(r)) {
    case JSON_NUMBER:
        return json_get_i64(r);
    case JSON_STRING:
        return bytes_to_u64(json_get_string(r), &id) && id <= INT64_MAX ? (int64_t)id : -1;
    default:
        json_skip(r);
        return -1;
    }
}

/* The tables of a thread, or those that threads share. */
static bool read_common(struct firefox *f, struct firefox_process *p, struct json_reader *r,
                        struct bytes key, struct firefox_thread *t)
{
    for (size_t i = 0; i < T_COUNT; i++) {
        if (!bytes_are(key, specs[i].name) || json_peek(r) != JSON_OBJECT)
            continue;
        firefox_table_read(r, f->dict, &specs[i], &t->tables[i]);
        return true;
    }
    if ((bytes_are(key, "stringTable") || bytes_are(key, "stringArray")) &&
        json_peek(r) == JSON_ARRAY) {
        read_strings(f, r, &p->text, &t->strings);
        return true;
    }
    if (bytes_are(key, "libs")) {
        read_libs(f, p, r, &t->libs);
        return true;
    }
    return false;
}

static void read_shared(struct firefox *f, struct firefox_process *p, struct json_reader *r)
{
    struct bytes key;

    json_enter_object(r);
    while (json_next_key(r, &key)) {
        if (!read_common(f, p, r, key, &p->shared))
            json_skip(r);
    }
}

static void read_thread(struct firefox *f, struct firefox_process *p, struct json_reader *r)
{
    struct bytes key;

    if (!vec_push(f->budget, &p->threads, (struct firefox_thread){.tid = -1, .pid = -1})) {
        out_of_memory(r);
        return;
    }
    struct firefox_thread *t = &vec_last(&p->threads);
    json_enter_object(r);
    while (json_next_key(r, &key)) {
        if (read_common(f, p, r, key, t))
            continue;
        if (bytes_are(key, "name"))
            t->name = dict_string(f->dict, json_get_string_or_empty(r));
        else if (bytes_are(key, "processName"))
            t->process_name = dict_string(f->dict, json_get_string_or_empty(r));
        else if (bytes_are(key, "tid"))
            t->tid = read_id(r);
        else if (bytes_are(key, "pid"))
            t->pid = read_id(r);
        else
            json_skip(r);
    }
}

static void read_whole(struct firefox *f, struct json_reader *r, void *unused)
{
    (void)unused;
    read_document(f, r);
}

/* A thread, or in old versions the text of a whole other process. */
static void read_threads(struct firefox *f, struct firefox_process *p, struct json_reader *r)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        if (json_peek(r) != JSON_STRING) {
            read_thread(f, p, r);
            continue;
        }
        struct bytes text = json_get_string(r);
        const char *copy = arena_strdup(&p->text, text);
        if (!copy)
            out_of_memory(r);
        else
            read_inner(f, r, (struct bytes){(const uint8_t *)copy, text.len}, read_whole, NULL);
    }
}

static void read_units(struct firefox *f, struct firefox_process *p, struct json_reader *r)
{
    struct bytes key;

    if (json_peek(r) != JSON_OBJECT) {
        json_skip(r);
        return;
    }
    json_enter_object(r);
    while (json_next_key(r, &key)) {
        if (bytes_are(key, "threadCPUDelta"))
            p->cpu_unit = dict_string(f->dict, json_get_string_or_empty(r));
        else
            json_skip(r);
    }
}

static void read_meta(struct firefox *f, struct firefox_process *p, struct json_reader *r)
{
    struct bytes key;

    json_enter_object(r);
    while (json_next_key(r, &key)) {
        if (bytes_are(key, "startTime") && json_peek(r) == JSON_NUMBER)
            p->start_ms = json_get_double(r);
        else if (bytes_are(key, "interval") && json_peek(r) == JSON_NUMBER)
            p->interval_ms = json_get_double(r);
        else if (bytes_are(key, "sampleUnits"))
            read_units(f, p, r);
        else if (bytes_are(key, "product") && f->p->comments.len == 0)
            vec_push(f->budget, &f->p->comments, dict_string(f->dict, json_get_string_or_empty(r)));
        else
            json_skip(r);
    }
}

static void read_processes(struct firefox *f, struct json_reader *r)
{
    json_enter_array(r);
    while (json_next_element(r))
        read_document(f, r);
}

static void skip_counters(struct firefox *f, struct json_reader *r)
{
    json_enter_array(r);
    while (json_next_element(r)) {
        json_skip(r);
        profile_set_note(f->out, "firefox: counters are not kept");
    }
}

static void read_process(struct firefox *f, struct firefox_process *p, struct json_reader *r)
{
    struct bytes key;
    struct error err = {""};

    json_enter_object(r);
    while (json_next_key(r, &key)) {
        enum json_kind kind = json_peek(r);
        if (bytes_are(key, "meta") && kind == JSON_OBJECT)
            read_meta(f, p, r);
        else if (bytes_are(key, "libs"))
            read_libs(f, p, r, &p->shared.libs);
        else if (bytes_are(key, "threads") && kind == JSON_ARRAY)
            read_threads(f, p, r);
        else if (bytes_are(key, "shared") && kind == JSON_OBJECT)
            read_shared(f, p, r);
        else if (bytes_are(key, "profile") && kind == JSON_OBJECT)
            read_document(f, r);
        else if (bytes_are(key, "processes") && kind == JSON_ARRAY)
            read_processes(f, r);
        else if (bytes_are(key, "counters") && kind == JSON_ARRAY)
            skip_counters(f, r);
        else
            json_skip(r);
    }
    if (!json_failed(r) && firefox_resolve(f, p, &err) < 0)
        json_fail(r, "%s", err.text);
}

/* One process with all that is in it. */
static void read_document(struct firefox *f, struct json_reader *r)
{
    struct firefox_process p = {.interval_ms = 1};

    if (f->depth == DEPTH_MAX) {
        json_fail(r, "processes within processes, more than %d deep", DEPTH_MAX);
        return;
    }
    f->depth++;
    arena_init(&p.text, f->budget);
    read_process(f, &p, r);
    process_done(f->budget, &p);
    f->depth--;
}

static int decode(struct input *in, struct profile_set *out, struct error *err)
{
    struct firefox f = {.out = out, .dict = out->dict, .budget = out->budget};
    CLEANUP(json_reader_freep) struct json_reader *r = json_reader_new(in, out->budget);

    f.p = profile_set_add(out);
    if (!f.p)
        return budget_error(out->budget, err);
    profile_add_ctype(f.p, "samples", "count");
    profile_add_ctype(f.p, "wall", "nanoseconds");
    f.p->default_type = dict_cstring(f.dict, "wall");
    read_document(&f, r);
    int result = json_finish(r, "firefox", err);
    if (budget_failed(out->budget))
        return budget_error(out->budget, err);
    return result;
}

/* The tables may lie far behind a long list of binaries, so any of several signs will do. */
static int sniff(struct bytes head)
{
    struct bytes rest = bytes_trim(head);
    static const char *const signs[][2] = {
        {"\"preprocessedProfileVersion\"", "\"meta\""},
        {"\"stackwalk\"", "\"meta\""},
        {"\"breakpadId\"", "\"libs\""},
        {"\"stackTable\"", "\"frameTable\""},
        {"\"gcpoison\"", "\"meta\""},
    };

    if (rest.len == 0 || rest.data[0] != '{')
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
        if (bytes_find(rest, bytes_of(signs[i][0])) && bytes_find(rest, bytes_of(signs[i][1])))
            return 80;
    }
    return 0;
}

const struct format format_firefox = {
    .name = "firefox",
    .title = "Firefox profiler",
    .sniff = sniff,
    .decode = decode,
};
