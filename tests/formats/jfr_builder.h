#pragma once

#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "formats/format.h"
#include "formats/formats.h"
#include "lib/test.h"
#include "wire/protobuf.h"

/*
 * Writes recordings by hand: types from a table, strings in every encoding in turn, integers
 * compressed or at full width.
 */
struct type {
    int id;
    const char *name;
    const char *super;
    const char *fields; /* "name:type" and marks: * constant, [] array, :UNIT annotation */
};

#define BASIC_TYPES                                                                                \
    {10, "boolean", NULL, ""}, {11, "byte", NULL, ""}, {12, "char", NULL, ""},                     \
        {13, "short", NULL, ""}, {14, "int", NULL, ""}, {15, "long", NULL, ""},                    \
        {16, "float", NULL, ""}, {17, "double", NULL, ""}, {20, "java.lang.String", NULL, ""},     \
        {21, "java.lang.Class", NULL, "classLoader:21* name:31* modifiers:14"},                    \
        {22, "java.lang.Thread", NULL, "osName:20 osThreadId:15 javaName:20 javaThreadId:15"},     \
        {24, "jdk.types.FrameType", NULL, "description:20"},                                       \
        {25, "jdk.types.ThreadState", NULL, "name:20"},                                            \
        {26, "com.oracle.jfr.types.StackTrace", NULL, "truncated:10 frames:27[]"},                 \
        {27, "jdk.types.StackFrame", NULL, "method:28* lineNumber:14 bytecodeIndex:14 type:24*"},  \
        {28, "jdk.types.Method", NULL, "type:21* name:31* descriptor:31* hidden:10"},              \
        {31, "jdk.types.Symbol", NULL, "string:20"},                                               \
        {40, "test.Inner", NULL, "x:14 s:20 refs:21*[]"},                                          \
        {41, "test.Odd", NULL, "a:16 b:17 c:40[] d:13 e:12 f:11[] g:40 h:20*"},                    \
        {101, "jdk.ExecutionSample", "jdk.jfr.Event",                                              \
         "startTime:15:TICKS odd:41 sampledThread:22* stackTrace:26* state:25* contextId:15 "      \
         "spanId:15 spanName:15"},                                                                 \
        {102, "com.oracle.jdk.ThreadPark", "jdk.jfr.Event",                                        \
         "startTime:15 duration:15:MILLISECONDS eventThread:22* stackTrace:26* parkedClass:21*"},  \
        {103, "jdk.ObjectAllocationSample", "jdk.jfr.Event",                                       \
         "startTime:15 eventThread:22* stackTrace:26* objectClass:21* weight:15"},                 \
        {104, "jdk.CPUTimeSample", "jdk.jfr.Event",                                                \
         "startTime:15 stackTrace:26* samplingPeriod:15:TICKS"},                                   \
        {105, "jdk.ActiveSetting", "jdk.jfr.Event", "startTime:15 id:15 name:20 value:20"},        \
        {106, "jdk.CPULoad", "jdk.jfr.Event", "jvmUser:16 jvmSystem:16 machineTotal:16"},          \
        {107, "jdk.JVMInformation", "jdk.jfr.Event", "jvmName:20 jvmVersion:20* pid:15"},          \
        {108, "jdk.OSInformation", "jdk.jfr.Event", "osVersion:20"},                               \
        {109, "test.Unknown", "jdk.jfr.Event", "what:20"},                                         \
        {110, "jdk.NativeMethodSample", "jdk.jfr.Event", "startTime:15 stackTrace:26*"},           \
        {111, "profiler.WallClockSample", "jdk.jfr.Event",                                         \
         "startTime:15 stackTrace:26* state:25* samples:14"},                                      \
        {112, "datadog.ExecutionSample", "jdk.jfr.Event",                                          \
         "startTime:15 stackTrace:26* weight:15 spanId:15 localRootSpanId:15"},                    \
    {                                                                                              \
        113, "jdk.JavaMonitorEnter", "jdk.jfr.Event",                                              \
            "startTime:15 duration:15:TICKS stackTrace:26* monitorClass:21*"                       \
    }

static const struct type basic_types[] = {BASIC_TYPES, {0}};

struct recording {
    struct buf b;
    bool raw;           /* integers at full width */
    unsigned encodings; /* strings written so far: their encodings take turns */
    size_t chunk, event;
    size_t last_checkpoint;
};

static inline void put_fixed(struct recording *w, uint64_t v, int width)
{
    while (width-- > 0)
        buf_add_byte(&w->b, (uint8_t)(v >> (8 * width)));
}

static inline void put_zeros(struct recording *w, int n)
{
    while (n-- > 0)
        buf_add_byte(&w->b, 0);
}

static inline void put_varint(struct recording *w, uint64_t v)
{
    for (int i = 0; i < 8 && v >= 0x80; i++, v >>= 7)
        buf_add_byte(&w->b, (uint8_t)(v | 0x80));
    buf_add_byte(&w->b, (uint8_t)v);
}

static inline void put_int(struct recording *w, uint64_t v)
{
    w->raw ? put_fixed(w, v, 4) : put_varint(w, v);
}

static inline void put_short(struct recording *w, uint64_t v)
{
    w->raw ? put_fixed(w, v, 2) : put_varint(w, v);
}

static inline void put_long(struct recording *w, uint64_t v)
{
    w->raw ? put_fixed(w, v, 8) : put_varint(w, v);
}

/* ASCII, in one of the three encodings that spell a string out. */
static inline void put_text(struct recording *w, const char *s)
{
    static const uint8_t encodings[] = {3, 4, 5};
    uint8_t encoding = encodings[w->encodings++ % 3];

    buf_add_byte(&w->b, encoding);
    put_int(w, strlen(s));
    for (; *s; s++) {
        if (encoding == 4)
            put_short(w, (uint8_t)*s);
        else
            buf_add_byte(&w->b, (uint8_t)*s);
    }
}

static inline void patch(struct recording *w, size_t at, uint64_t v, int width)
{
    for (int i = 0; i < width; i++)
        w->b.data[at + (size_t)i] = (uint8_t)(v >> (8 * (width - 1 - i)));
}

static inline void begin_event(struct recording *w, uint64_t type)
{
    w->event = w->b.len;
    put_fixed(w, 0, 4);
    put_long(w, type);
}

static inline void end_event(struct recording *w)
{
    uint64_t size = w->b.len - w->event;

    for (int i = 0; i < 4 && !w->raw; i++)
        w->b.data[w->event + (size_t)i] = (uint8_t)((size >> (7 * i) & 0x7f) | (i < 3 ? 0x80 : 0));
    if (w->raw)
        patch(w, w->event, size, 4);
}

/* Header at 1 s after the epoch, 10 s long, ticks of half a nanosecond from 1000 on. */
static inline void begin_chunk(struct recording *w)
{
    w->chunk = w->b.len;
    w->last_checkpoint = 0;
    buf_add(&w->b, "FLR\0\0\2\0\1", 8);
    put_fixed(w, 0, 8);
    put_fixed(w, 0, 8);
    put_fixed(w, 0, 8);
    put_fixed(w, 1000000000, 8);
    put_fixed(w, 10000000000, 8);
    put_fixed(w, 1000, 8);
    put_fixed(w, 2000000000, 8);
    put_fixed(w, w->raw ? 0 : 1, 4);
}

static inline void end_chunk(struct recording *w)
{
    patch(w, w->chunk + 8, w->b.len - w->chunk, 8);
}

/* The string table of metadata being written. */
struct names {
    const char *list[400];
    char store[400][64];
    size_t n;
};

static inline uint64_t name_index(struct names *s, const char *text)
{
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(s->list[i], text) == 0)
            return i;
    }
    snprintf(s->store[s->n], sizeof(s->store[0]), "%s", text);
    s->list[s->n] = s->store[s->n];
    return s->n++;
}

/* An attribute; elements are written to a buffer of their own, since strings go first. */
static inline void put_attribute(struct recording *w, struct names *s, const char *key,
                                 const char *value)
{
    put_int(w, name_index(s, key));
    put_int(w, name_index(s, value));
}

static inline void put_field(struct recording *w, struct names *s, const char *text, int len)
{
    char field[64], *type, *unit;
    snprintf(field, sizeof(field), "%.*s", len, text);
    type = strchr(field, ':');
    *type++ = '\0';
    unit = strchr(type, ':');
    if (unit)
        *unit++ = '\0';
    bool is_constant = strchr(type, '*'), is_array = strchr(type, '[');
    type[strcspn(type, "*[")] = '\0';

    put_int(w, name_index(s, "field"));
    put_int(w, 2u + is_constant + is_array);
    put_attribute(w, s, "name", field);
    put_attribute(w, s, "class", type);
    if (is_constant)
        put_attribute(w, s, "constantPool", "true");
    if (is_array)
        put_attribute(w, s, "dimension", "1");
    put_int(w, unit ? 1 : 0);
    if (unit) {
        put_int(w, name_index(s, "annotation"));
        put_int(w, 1);
        put_attribute(w, s, "value", unit);
        put_int(w, 0);
    }
}

static inline void put_type(struct recording *w, struct names *s, const struct type *t)
{
    char id[16];
    size_t n_fields = 0;

    snprintf(id, sizeof(id), "%d", t->id);
    for (const char *f = t->fields; *f; f += strcspn(f, " "), f += strspn(f, " "))
        n_fields++;
    put_int(w, name_index(s, "class"));
    put_int(w, t->super ? 3 : 2);
    put_attribute(w, s, "id", id);
    put_attribute(w, s, "name", t->name);
    if (t->super)
        put_attribute(w, s, "superType", t->super);
    put_int(w, n_fields);
    for (const char *f = t->fields; *f; f += strcspn(f, " "), f += strspn(f, " "))
        put_field(w, s, f, (int)strcspn(f, " "));
}

static inline void begin_metadata(struct recording *w)
{
    patch(w, w->chunk + 24, w->b.len - w->chunk, 8);
    begin_event(w, 0);
    put_long(w, 0);
    put_long(w, 0);
    put_long(w, 1);
}

static inline void put_metadata(struct recording *w, const struct type *types)
{
    static struct names s;
    struct recording e = {.raw = w->raw};
    size_t n = 0;

    s.n = 0;
    while (types[n].name)
        n++;
    put_int(&e, name_index(&s, "root"));
    put_int(&e, 0);
    put_int(&e, 1);
    put_int(&e, name_index(&s, "metadata"));
    put_int(&e, 0);
    put_int(&e, n);
    for (size_t i = 0; i < n; i++)
        put_type(&e, &s, &types[i]);
    begin_metadata(w);
    put_int(w, s.n);
    for (size_t i = 0; i < s.n; i++)
        put_text(w, s.list[i]);
    buf_add_bytes(&w->b, buf_bytes(&e.b));
    buf_done(&e.b);
    end_event(w);
}

static inline void begin_checkpoint(struct recording *w, uint64_t n_pools)
{
    size_t at = w->b.len - w->chunk;

    begin_event(w, 1);
    put_long(w, 0);
    put_long(w, 0);
    put_long(w, w->last_checkpoint ? w->last_checkpoint - at : 0);
    buf_add_byte(&w->b, 0);
    put_int(w, n_pools);
    w->last_checkpoint = at;
    patch(w, w->chunk + 16, at, 8);
}

static inline void begin_pool(struct recording *w, uint64_t type, uint64_t n)
{
    put_long(w, type);
    put_int(w, n);
}

static inline void put_symbol(struct recording *w, uint64_t id, const char *text)
{
    put_long(w, id);
    put_text(w, text);
}

static inline void put_frame(struct recording *w, uint64_t method, uint64_t line, uint64_t type)
{
    put_long(w, method);
    put_int(w, line);
    put_int(w, 7);
    put_long(w, type);
}

static inline void put_method(struct recording *w, uint64_t id, uint64_t class, uint64_t name)
{
    put_long(w, id);
    put_long(w, class);
    put_long(w, name);
    put_long(w, 503);
    buf_add_byte(&w->b, 0);
}

/* Names and threads. `class` is the name of class 1, whose method 1 is `run`. */
static inline void put_names(struct recording *w, const char *class)
{
    begin_checkpoint(w, 6);
    begin_pool(w, 31, 6);
    put_symbol(w, 500, class);
    put_symbol(w, 501, "run");
    put_symbol(w, 1ull << 60, "libc.so");
    put_symbol(w, 503, "()V");
    put_symbol(w, 504, "[[Ljava/lang/String;");
    put_symbol(w, 505, "[J");
    begin_pool(w, 21, 4);
    for (uint64_t i = 1; i <= 4; i++) {
        static const uint64_t names[] = {0, 500, 1ull << 60, 504, 505};
        put_long(w, i);
        put_long(w, 0);
        put_long(w, names[i]);
        put_int(w, 1);
    }
    begin_pool(w, 28, 2);
    put_method(w, 1, 1, 501);
    put_method(w, 2, 2, 501);
    begin_pool(w, 22, 2);
    put_long(w, 1);
    put_text(w, "os-name");
    put_long(w, 77);
    put_text(w, "java-name");
    put_long(w, 5);
    put_long(w, 2);
    buf_add_byte(&w->b, 2); /* a string of the pool */
    put_long(w, 900);
    put_long(w, 0);
    buf_add_byte(&w->b, 0); /* null */
    put_long(w, 6);
    begin_pool(w, 20, 2);
    put_symbol(w, 900, "pooled");
    put_long(w, 901);
    buf_add_byte(&w->b, 2); /* a string that refers to itself */
    put_long(w, 901);
    begin_pool(w, 41, 1); /* a pool of no interest */
    put_long(w, 1);
    put_zeros(w, 12);
    put_int(w, 0);
    put_short(w, 1);
    put_short(w, 2);
    put_int(w, 3);
    put_fixed(w, 0, 3);
    put_int(w, 1);
    buf_add_byte(&w->b, 1);
    put_int(w, 0);
    put_long(w, 900);
    end_event(w);
}

/* Stacks: 1 is method 1 at line 12 calling native code, 2 is cut off and of lines unknown. */
static inline void put_stacks(struct recording *w)
{
    begin_checkpoint(w, 3);
    begin_pool(w, 24, 4);
    put_symbol(w, 1, "Interpreted");
    put_symbol(w, 2, "Native");
    put_symbol(w, 3, "Kernel");
    put_symbol(w, 4, "C++");
    begin_pool(w, 25, 2);
    put_symbol(w, 1, "STATE_RUNNABLE");
    put_symbol(w, 2, "STATE_SLEEPING");
    begin_pool(w, 26, 4);
    put_long(w, 1);
    buf_add_byte(&w->b, 0);
    put_int(w, 2);
    put_frame(w, 2, 0, 2);
    put_frame(w, 1, 12, 1);
    put_long(w, 2);
    buf_add_byte(&w->b, 1);
    put_int(w, 3);
    put_frame(w, 9999, 3, 99); /* neither is known */
    put_frame(w, 2, 0, 3);
    put_frame(w, 1, 0xffffffff, 1);
    put_long(w, 3);
    buf_add_byte(&w->b, 0);
    put_int(w, 0);
    put_long(w, 1); /* again: the first counts */
    buf_add_byte(&w->b, 0);
    put_int(w, 0);
    end_event(w);
}

/* One of each pool entry and of each kind of odd field. */
static inline void put_execution(struct recording *w, uint64_t stack, uint64_t state,
                                 uint64_t context)
{
    begin_event(w, 101);
    put_long(w, 1000 + 2000);
    put_zeros(w, 12);
    put_int(w, 2);
    for (int i = 0; i < 2; i++) {
        put_int(w, 300);
        put_text(w, "inner");
        put_int(w, 2);
        put_long(w, 1);
        put_long(w, 1ull << 63);
    }
    put_short(w, 5);
    put_short(w, 6);
    put_int(w, 3);
    put_fixed(w, 0, 3);
    put_int(w, 1);
    put_text(w, "g");
    put_int(w, 0);
    put_long(w, 900);
    put_long(w, 1);
    put_long(w, stack);
    put_long(w, state);
    put_long(w, context);
    put_long(w, context ? 0xabc : 0);
    put_long(w, context ? 8 : 0);
    end_event(w);
}

static inline void put_setting(struct recording *w, uint64_t type, const char *name,
                               const char *value)
{
    begin_event(w, 105);
    put_long(w, 1000);
    put_long(w, type);
    put_text(w, name);
    put_text(w, value);
    end_event(w);
}

static inline void put_tables(struct recording *w, const struct type *types, const char *class)
{
    begin_chunk(w);
    put_metadata(w, types);
    put_names(w, class);
    put_stacks(w);
}

static inline void put_park(struct recording *w)
{
    begin_event(w, 102);
    put_long(w, 1000);
    put_long(w, 3);
    put_long(w, 2);
    put_long(w, 2);
    put_long(w, 3);
    end_event(w);
}

/* A chunk with some of everything. */
static inline void put_everything(struct recording *w)
{
    put_tables(w, basic_types, "test/Main");
    put_execution(w, 1, 1, 0);
    put_execution(w, 1, 1, 4);
    put_execution(w, 7777, 2, 0);
    put_setting(w, 101, "period", "30 ms");
    put_setting(w, 110, "period", "everyChunk");
    put_park(w);
    begin_event(w, 103);
    put_long(w, 1000);
    put_long(w, 99);
    put_long(w, 3);
    put_long(w, 4);
    put_long(w, 1ull << 40);
    end_event(w);
    begin_event(w, 104);
    put_long(w, 1000);
    put_long(w, 1);
    put_long(w, 5000);
    end_event(w);
    begin_event(w, 106);
    put_fixed(w, 0x3f000000, 4);
    put_fixed(w, 0x3e800000, 4);
    put_fixed(w, 0x7fc00000, 4); /* not a number */
    end_event(w);
    begin_event(w, 107);
    put_text(w, "TestVM");
    put_long(w, 901);
    put_long(w, 4321);
    end_event(w);
    begin_event(w, 108);
    put_text(w, " an os\n");
    end_event(w);
    begin_event(w, 109);
    put_text(w, "who knows");
    end_event(w);
    begin_event(w, 999);
    end_event(w);
    begin_event(w, 110);
    put_long(w, 1000);
    put_long(w, 2);
    end_event(w);
    end_chunk(w);
}

static inline int read_bytes(struct bytes content, struct profile_set *set, struct error *err)
{
    CLEANUP(input_closep) struct input *in = input_from_bytes(content, "t", set->budget);
    return format_read(in, &format_jfr, set, NULL, err);
}

/* Reads a recording that is given up, with a budget of its own in *b. */
static inline struct profile_set *read_all(struct test *t, struct recording *w, struct budget *b)
{
    struct error err = {""};
    budget_init(b, 64 << 20);
    struct profile_set *set = profile_set_new(b);
    CHECK_INT(t, read_bytes(buf_bytes(&w->b), set, &err), 0);
    CHECK_STR(t, err.text, "");
    buf_done(&w->b);
    return set;
}

/* A snapshot: context 4 is color=red and a label without a name; string 8 is a span's name. */
static inline struct buf make_snapshot(size_t n_labels)
{
    struct buf b = {0};
    size_t entry = pb_begin(&b, 1);
    pb_put_u64(&b, 1, 4);
    size_t context = pb_begin(&b, 2);
    for (size_t i = 0; i < n_labels; i++) {
        size_t label = pb_begin(&b, 1);
        pb_put_u64(&b, 1, i == 0 ? 1 : 99);
        pb_put_u64(&b, 2, 2);
        pb_end(&b, label);
    }
    pb_put_u64(&b, 9, 9); /* a field of no interest */
    pb_end(&b, context);
    pb_end(&b, entry);
    static const struct {
        uint64_t id;
        const char *text;
    } strings[] = {{1, "color"}, {2, "red"}, {8, "GET /"}};
    for (size_t i = 0; i < ARRAY_SIZE(strings); i++) {
        entry = pb_begin(&b, 2);
        pb_put_u64(&b, 1, strings[i].id);
        pb_put_bytes(&b, 2, bytes_of(strings[i].text));
        pb_end(&b, entry);
    }
    return b;
}
