/*
 * From constants to the dictionary: stack traces, methods, classes, threads. Each is translated
 * when a sample first needs it, and once.
 */
#include "base/hash.h"
#include "formats/jfr_internal.h"

enum { TYPE_JVM, TYPE_NATIVE, TYPE_KERNEL };

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(uint8_t c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* Where `mark` last stands in s with something before it, or s.len. */
static size_t find_last(struct bytes s, struct bytes mark)
{
    for (size_t i = s.len >= mark.len ? s.len - mark.len : 0; i > 0; i--) {
        if (memcmp(s.data + i, mark.data, mark.len) == 0)
            return i;
    }
    return s.len;
}

/* "$12/0x00007f26fc000c28", ".0x0123", "/1234" or "12": what the JVM numbers lambdas with. */
static bool is_lambda_number(struct bytes s)
{
    size_t i = 0;

    while (i < s.len && is_digit(s.data[i]))
        i++;
    if (i > 0 && i == s.len)
        return true;
    i = s.len > 0 && s.data[0] == '$' ? 1 : 0;
    while (i < s.len && is_digit(s.data[i]))
        i++;
    if (i >= s.len || (s.data[i] != '.' && s.data[i] != '/'))
        return false;
    i++;
    if (i + 1 < s.len && s.data[i] == '0' && s.data[i + 1] == 'x')
        i += 2;
    size_t first = i;
    while (i < s.len && is_hex(s.data[i]))
        i++;
    return i > first && i == s.len;
}

/*
 * How much of a class name is the same in every run. The JVM and frameworks number the classes they
 * generate; the rest of the name is replaced by "_", as pyroscope does, so that runs add up. The
 * whole name stays in the function's system name.
 */
static size_t stable_length(struct bytes class)
{
    static const struct bytes accessor = BYTES("jdk/internal/reflect/GeneratedMethodAccessor");
    static const struct bytes lambda = BYTES("$$Lambda");
    static const struct bytes spring = BYTES("$$EnhancerBySpringCGLIB$$");
    size_t at = accessor.len;

    if (class.len > at && bytes_start_with(class, accessor)) {
        while (at < class.len && is_digit(class.data[at]))
            at++;
        return at == class.len ? accessor.len : class.len;
    }
    at = find_last(class, lambda);
    if (at < class.len && is_lambda_number(bytes_from(class, at + lambda.len)))
        return at + lambda.len;
    at = find_last(class, spring);
    return at < class.len ? at + spring.len : class.len;
}

static void add_text(struct jfr_chunk *c, struct bytes s)
{
    if (s.len > 0)
        vec_append(c->file->budget, &c->scratch, s.data, s.len);
}

static uint32_t take_scratch(struct jfr_chunk *c)
{
    return dict_string(c->file->dict, (struct bytes){c->scratch.data, c->scratch.len});
}

static uint32_t java_function(struct jfr_chunk *c, const struct jfr_method *m, struct bytes class)
{
    struct bytes name = jfr_resolve_text(c, m->name);
    size_t stable = stable_length(class);
    struct function f = {0};

    vec_clear(&c->scratch);
    add_text(c, bytes_head(class, stable));
    if (stable < class.len)
        add_text(c, BYTES("_"));
    if (class.len > 0 && name.len > 0)
        add_text(c, BYTES("."));
    add_text(c, name);
    f.name = take_scratch(c);

    vec_clear(&c->scratch);
    add_text(c, class);
    add_text(c, BYTES("."));
    add_text(c, name);
    add_text(c, jfr_resolve_text(c, m->descriptor));
    f.system_name = take_scratch(c);
    return dict_function(c->file->dict, f);
}

/* async-profiler puts the library of native code where Java has the class. */
static uint32_t native_function(struct jfr_chunk *c, struct jfr_method *m, struct bytes library)
{
    struct dict *d = c->file->dict;
    struct function f = {.name = dict_string(d, jfr_resolve_text(c, m->name))};

    if (library.len > 0)
        m->mapping = dict_mapping(
            d, (struct mapping){.file = dict_string(d, library), .has_functions = true});
    return dict_function(d, f);
}

static struct bytes class_name(struct jfr_chunk *c, uint64_t id)
{
    uint32_t i = jfr_ids_find(&c->class_ids, id);
    return i == JFR_NO_ID ? (struct bytes){0} : jfr_resolve_text(c, c->classes.data[i].name);
}

static bool text_is(struct jfr_chunk *c, struct jfr_text t, const char *s)
{
    return bytes_are(jfr_resolve_text(c, t), s);
}

/*
 * The JDK says "Native" of Java's native methods; async-profiler says it of C code, and can be told
 * by the kernel frames it knows.
 */
static void know_frame_types(struct jfr_chunk *c)
{
    bool has_kernel = false;

    for (size_t i = 0; i < c->frame_types.len; i++)
        has_kernel |= text_is(c, c->frame_types.data[i].name, "Kernel");
    for (size_t i = 0; i < c->frame_types.len; i++) {
        struct jfr_frame_type *t = &c->frame_types.data[i];
        bool is_kernel = text_is(c, t->name, "Kernel");
        t->is_native = is_kernel || text_is(c, t->name, "C++") ||
                       (has_kernel && text_is(c, t->name, "Native"));
        t->type = c->file->types[is_kernel ? TYPE_KERNEL : t->is_native ? TYPE_NATIVE : TYPE_JVM];
    }
}

static uint32_t make_location(struct jfr_chunk *c, const struct jfr_frame *frame)
{
    struct dict *d = c->file->dict;
    uint32_t at = jfr_ids_find(&c->method_ids, frame->method);
    uint32_t type_at = jfr_ids_find(&c->frame_type_ids, frame->type);
    struct line line = {.line = frame->line > 0 ? frame->line : 0};
    struct location l = {.type = c->file->types[TYPE_JVM]};
    bool is_native = false;

    if (c->frame_types.len > 0 && !c->frame_types.data[0].type)
        know_frame_types(c);
    if (type_at != JFR_NO_ID) {
        l.type = c->frame_types.data[type_at].type;
        is_native = c->frame_types.data[type_at].is_native;
    }
    if (at == JFR_NO_ID) {
        line.function = dict_function(d, (struct function){.name = dict_cstring(d, "unknown")});
        return dict_location(d, l, &line, 1);
    }
    struct jfr_method *m = &c->methods.data[at];
    if (!m->function[is_native]) {
        struct bytes class = class_name(c, m->type);
        m->function[is_native] =
            is_native ? native_function(c, m, class) : java_function(c, m, class);
    }
    line.function = m->function[is_native];
    if (is_native)
        l.mapping = m->mapping;
    return dict_location(d, l, &line, 1);
}

static uint32_t frame_location(struct jfr_chunk *c, const struct jfr_frame *f)
{
    uint64_t hash = (f->method ^ (uint64_t)(uint32_t)f->line << 20 ^ (uint64_t)f->type << 52) *
                    0x9E3779B97F4A7C15u;
    struct jfr_memo *memo = &c->file->memo.data[hash >> 32 & (JFR_MEMO_SIZE - 1)];

    if (memo->chunk != c->number || memo->frame.method != f->method ||
        memo->frame.line != f->line || memo->frame.type != f->type)
        *memo = (struct jfr_memo){.frame = *f, .location = make_location(c, f), .chunk = c->number};
    return memo->location;
}

uint32_t jfr_trace_node(struct jfr_chunk *c, struct jfr_trace *t)
{
    uint32_t node = 0;

    if (t->is_resolved)
        return t->node;
    if (!vec_resize(c->file->budget, &c->file->memo, JFR_MEMO_SIZE))
        return 0;
    for (uint32_t i = t->n_frames; i-- > 0;)
        node =
            dict_node(c->file->dict, node, frame_location(c, &c->frames.data[t->first_frame + i]));
    c->file->n_frames += t->n_frames;
    t->is_resolved = true;
    t->node = node;
    return node;
}

/* "[[Ljava/lang/String;" -> "java.lang.String[][]", "[B" -> "byte[]", "a/B" -> "a.B" */
static uint32_t java_type_name(struct jfr_chunk *c, struct bytes s)
{
    static const char *const primitives[] = {
        ['B'] = "byte", ['C'] = "char",    ['S'] = "short", ['I'] = "int",
        ['J'] = "long", ['Z'] = "boolean", ['F'] = "float", ['D'] = "double",
    };
    size_t dimensions = 0;

    while (dimensions < s.len && s.data[dimensions] == '[')
        dimensions++;
    vec_clear(&c->scratch);
    struct bytes element = bytes_from(s, dimensions);
    if (dimensions > 0 && element.len > 0) {
        uint8_t first = element.data[0];
        if (first == 'L')
            element = (struct bytes){element.data + 1, element.len - (element.len > 1 ? 2 : 1)};
        else if (first < ARRAY_SIZE(primitives) && primitives[first])
            element = bytes_of(primitives[first]);
    }
    add_text(c, element);
    for (size_t i = 0; i < c->scratch.len; i++) {
        if (c->scratch.data[i] == '/')
            c->scratch.data[i] = '.';
    }
    for (size_t i = 0; i < dimensions; i++)
        add_text(c, BYTES("[]"));
    return take_scratch(c);
}

uint32_t jfr_class_attribute(struct jfr_chunk *c, struct jfr_class *k)
{
    struct dict *d = c->file->dict;

    if (!k->attribute)
        k->attribute = dict_string_attribute(d, dict_cstring(d, "class"),
                                             java_type_name(c, jfr_resolve_text(c, k->name)));
    return k->attribute;
}

uint32_t jfr_state_attribute(struct jfr_chunk *c, struct jfr_state *s)
{
    struct dict *d = c->file->dict;

    if (!s->attribute) {
        struct bytes name = jfr_resolve_text(c, s->name);
        s->is_sleeping = bytes_are(name, "STATE_SLEEPING");
        s->is_runnable = bytes_are(name, "STATE_RUNNABLE");
        s->attribute =
            dict_string_attribute(d, dict_cstring(d, "thread.state"), dict_string(d, name));
    }
    return s->attribute;
}

const uint32_t *jfr_thread_attributes(struct jfr_chunk *c, struct jfr_thread *t)
{
    struct dict *d = c->file->dict;

    if (!t->is_known) {
        struct bytes name = jfr_resolve_text(c, t->java_name);
        uint64_t id = t->os_id ? t->os_id : t->java_id;
        if (name.len == 0)
            name = jfr_resolve_text(c, t->os_name);
        if (name.len > 0)
            t->attributes[0] =
                dict_string_attribute(d, dict_cstring(d, "thread.name"), dict_string(d, name));
        if (id != 0)
            t->attributes[1] = dict_int_attribute(d, dict_cstring(d, "thread.id"), (int64_t)id, 0);
        t->is_known = true;
    }
    return t->attributes;
}
