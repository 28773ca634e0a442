/*
 * Constant pools. Checkpoint events hold them; each points back to the one before it, and the
 * header to the last. Ids are unique within a chunk, so a constant that comes again is the same.
 */
#include "formats/jfr_internal.h"

/* The JVM's own limit. Without one, a huge name that everything refers to is copied all day. */
#define NAME_MAX_BYTES 65535

/* Number slots: */
enum { TRUNCATED, METHOD, LINE, FRAME_TYPE };
enum { METHOD_CLASS };
enum { OS_ID, JAVA_ID };

static const struct jfr_want trace_numbers[] = {
    {"truncated", TRUNCATED}, {"method", METHOD}, {"lineNumber", LINE}, {"type", FRAME_TYPE}, {0}};
static const struct jfr_want method_numbers[] = {{"type", METHOD_CLASS}, {0}};
static const struct jfr_want method_texts[] = {{"name", 0}, {"descriptor", 1}, {0}};
static const struct jfr_want class_texts[] = {{"name", 0}, {0}};
static const struct jfr_want symbol_texts[] = {{"string", 0}, {0}};
static const struct jfr_want state_texts[] = {{"name", 0}, {0}};
static const struct jfr_want frame_type_texts[] = {{"description", 0}, {0}};
static const struct jfr_want thread_numbers[] = {
    {"osThreadId", OS_ID}, {"javaThreadId", JAVA_ID}, {0}};
static const struct jfr_want thread_texts[] = {{"osName", 0}, {"javaName", 1}, {0}};

static void add_frame(struct jfr_values *v)
{
    struct jfr_chunk *c = v->context;
    uint64_t type = v->numbers[FRAME_TYPE];

    vec_push(c->file->budget, &c->frames,
             (struct jfr_frame){.method = v->numbers[METHOD],
                                .line = (int32_t)v->numbers[LINE],
                                .type = type < UINT32_MAX ? (uint32_t)type : UINT32_MAX});
}

/* The constant's fields are in `v`; traces have pushed their frames behind first_frame. */
static void add_trace(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v,
                      size_t first_frame)
{
    struct budget *b = c->file->budget;

    if (jfr_ids_add(b, &c->trace_ids, id) == JFR_NO_ID) {
        c->frames.len = first_frame;
        return;
    }
    vec_push(b, &c->traces,
             (struct jfr_trace){.first_frame = first_frame,
                                .n_frames = (uint32_t)(c->frames.len - first_frame),
                                .is_truncated = (v->numbers[TRUNCATED] & 0xff) != 0});
}

static void add_method(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v, size_t first)
{
    (void)first;
    if (jfr_ids_add(c->file->budget, &c->method_ids, id) != JFR_NO_ID)
        vec_push(c->file->budget, &c->methods,
                 (struct jfr_method){.type = v->numbers[METHOD_CLASS],
                                     .name = v->texts[0],
                                     .descriptor = v->texts[1]});
}

static void add_class(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v, size_t first)
{
    (void)first;
    if (jfr_ids_add(c->file->budget, &c->class_ids, id) != JFR_NO_ID)
        vec_push(c->file->budget, &c->classes, (struct jfr_class){.name = v->texts[0]});
}

/* Converted once, however often it is referred to. */
static struct jfr_text as_utf8(struct jfr_chunk *c, struct jfr_text t)
{
    if (t.encoding == JFR_TEXT_STRING)
        return t;
    return (struct jfr_text){
        .encoding = JFR_TEXT_UTF8, .is_clean = true, .raw = jfr_text_utf8(&c->arena, t)};
}

static void add_symbol(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v, size_t first)
{
    (void)first;
    if (jfr_ids_add(c->file->budget, &c->symbol_ids, id) != JFR_NO_ID)
        vec_push(c->file->budget, &c->symbols, as_utf8(c, v->texts[0]));
}

static void add_string(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v, size_t first)
{
    (void)first;
    if (jfr_ids_add(c->file->budget, &c->string_ids, id) != JFR_NO_ID)
        vec_push(c->file->budget, &c->strings, as_utf8(c, v->texts[0]));
}

static void add_thread(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v, size_t first)
{
    (void)first;
    if (jfr_ids_add(c->file->budget, &c->thread_ids, id) != JFR_NO_ID)
        vec_push(c->file->budget, &c->threads,
                 (struct jfr_thread){.os_name = v->texts[0],
                                     .java_name = v->texts[1],
                                     .os_id = v->numbers[OS_ID],
                                     .java_id = v->numbers[JAVA_ID]});
}

static void add_state(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v, size_t first)
{
    (void)first;
    if (jfr_ids_add(c->file->budget, &c->state_ids, id) != JFR_NO_ID)
        vec_push(c->file->budget, &c->states, (struct jfr_state){.name = v->texts[0]});
}

static void add_frame_type(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v,
                           size_t first)
{
    (void)first;
    if (jfr_ids_add(c->file->budget, &c->frame_type_ids, id) != JFR_NO_ID)
        vec_push(c->file->budget, &c->frame_types, (struct jfr_frame_type){.name = v->texts[0]});
}

static const struct pool_kind {
    const char *type;
    struct jfr_wants wants;
    void (*add)(struct jfr_chunk *c, uint64_t id, const struct jfr_values *v, size_t first_frame);
} pool_kinds[] = {
    {"jdk.types.StackTrace", {.numbers = trace_numbers, .in_arrays = true}, add_trace},
    {"jdk.types.Method", {.numbers = method_numbers, .texts = method_texts}, add_method},
    {"java.lang.Class", {.texts = class_texts}, add_class},
    {"jdk.types.Symbol", {.texts = symbol_texts}, add_symbol},
    {"java.lang.String", {0}, add_string},
    {"java.lang.Thread", {.numbers = thread_numbers, .texts = thread_texts}, add_thread},
    {"jdk.types.ThreadState", {.texts = state_texts}, add_state},
    {"jdk.types.FrameType", {.texts = frame_type_texts}, add_frame_type},
    {NULL, {0}, NULL}, /* any other: stepped over */
};

static int read_pool(struct jfr_chunk *c, struct jfr_reader *r)
{
    const uint8_t *at = r->pos;
    uint64_t type_id = jfr_long(r);
    uint64_t n = jfr_int(r);
    struct jfr_type *t = jfr_find_type(c, type_id);
    const struct pool_kind *kind = pool_kinds;
    struct jfr_values v = {.each = add_frame, .context = c};

    if (r->failure)
        return jfr_check(c->file, r);
    if (!t)
        return jfr_fail(c->file, at, "a constant pool is of a type that the metadata lacks");
    while (kind->type && !bytes_are(t->name, kind->type))
        kind++;
    if (kind->add != add_trace)
        v.each = NULL;
    if (!t->plan) {
        int e = jfr_compile(c, t, &kind->wants);
        if (e < 0)
            return e;
    }
    for (uint64_t i = 0; i < n && !r->failure && !budget_failed(c->file->budget); i++) {
        uint64_t id = jfr_long(r);
        size_t first_frame = c->frames.len;
        jfr_run(t->plan, r, &v);
        if (kind->add && !r->failure)
            kind->add(c, id, &v, first_frame);
    }
    return jfr_check(c->file, r);
}

/* One checkpoint; *ret_delta is the way to the one before it, 0 at the first. */
static int read_checkpoint(struct jfr_chunk *c, const uint8_t *start, const uint8_t *limit,
                           int64_t *ret_delta)
{
    struct jfr_reader r = c->all;

    r.pos = start;
    uint64_t size = jfr_int(&r);
    if (!r.failure && (size < (size_t)(r.pos - start) || size > (size_t)(limit - start)))
        return jfr_fail(c->file, start, "a checkpoint overlaps what follows it");
    if (!r.failure)
        r.end = start + size;
    uint64_t type = jfr_long(&r);
    if (!r.failure && type != 1)
        return jfr_fail(c->file, start, "a checkpoint was expected and an event of type %llu found",
                        (unsigned long long)type);
    jfr_long(&r); /* start */
    jfr_long(&r); /* duration */
    *ret_delta = (int64_t)jfr_long(&r);
    jfr_fixed(&r, 1); /* flags */
    uint64_t n = jfr_int(&r);
    for (uint64_t i = 0; i < n && !r.failure; i++) {
        int e = read_pool(c, &r);
        if (e < 0)
            return e;
    }
    return jfr_check(c->file, &r);
}

int jfr_read_pools(struct jfr_chunk *c)
{
    const uint8_t *at = c->all.pos + c->checkpoint_at, *limit = c->all.end;

    /* Each lies wholly before the one it was reached from, so nothing is read twice. */
    for (;;) {
        int64_t delta = 0;
        int e = read_checkpoint(c, at, limit, &delta);
        if (e < 0 || delta == 0)
            return e;
        if (delta > 0 || delta < -(int64_t)(at - c->all.pos))
            return jfr_fail(c->file, at, "the checkpoint before this one is outside of the chunk");
        limit = at;
        at += delta;
    }
}

struct bytes jfr_resolve_text(struct jfr_chunk *c, struct jfr_text t)
{
    uint32_t i;

    if (t.encoding == JFR_TEXT_SYMBOL) {
        i = jfr_ids_find(&c->symbol_ids, t.ref);
        t = i == JFR_NO_ID ? (struct jfr_text){0} : c->symbols.data[i];
    }
    if (t.encoding == JFR_TEXT_STRING) {
        i = jfr_ids_find(&c->string_ids, t.ref);
        t = i == JFR_NO_ID ? (struct jfr_text){0} : c->strings.data[i];
    }
    /* A string that refers to a string is empty. */
    struct bytes text = jfr_text_utf8(&c->arena, t);
    if (text.len > NAME_MAX_BYTES) {
        text.len = NAME_MAX_BYTES;
        while ((text.data[text.len] & 0xc0) == 0x80) /* not within a character */
            text.len--;
    }
    return text;
}
