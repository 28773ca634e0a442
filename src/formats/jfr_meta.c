/*
 * Metadata: a tree of elements (name, attributes, children) over a table of strings. Only types,
 * their fields and the unit of time spans matter here.
 */
#include <errno.h>

#include "formats/jfr_internal.h"

#define DEPTH_MAX  16   /* of elements, and of structs within structs */
#define FIELDS_MAX 4096 /* of one type, those of its structs counted in */

struct strings {
    VEC(struct bytes) list;
};

/* The attributes of an element that anything is made of. */
struct element {
    struct bytes tag;
    struct bytes id, name, type, super, constant, dimension, value;
};

static struct bytes read_string_index(struct jfr_reader *r, const struct strings *s)
{
    uint64_t i = jfr_int(r);

    if (i < s->list.len)
        return s->list.data[i];
    jfr_stop(r, "the metadata names a string that it does not have");
    return (struct bytes){0};
}

static void read_attributes(struct jfr_reader *r, const struct strings *s, struct element *e)
{
    static const struct {
        const char *name;
        size_t offset;
    } known[] = {
        {"id", offsetof(struct element, id)},
        {"name", offsetof(struct element, name)},
        {"class", offsetof(struct element, type)},
        {"superType", offsetof(struct element, super)},
        {"constantPool", offsetof(struct element, constant)},
        {"dimension", offsetof(struct element, dimension)},
        {"value", offsetof(struct element, value)},
    };
    uint64_t n = jfr_int(r);

    for (uint64_t i = 0; i < n && !r->failure; i++) {
        struct bytes key = read_string_index(r, s);
        struct bytes value = read_string_index(r, s);
        for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
            if (bytes_are(key, known[k].name))
                memcpy((char *)e + known[k].offset, &value, sizeof(value));
        }
    }
}

/* The first public recorders wrote other package names for the same things. */
static struct bytes modern_name(struct arena *a, struct bytes name)
{
    static const struct {
        struct bytes old, now;
    } renamed[] = {
        {BYTES("com.oracle.jdk."), BYTES("jdk.")},
        {BYTES("com.oracle.jfr.types."), BYTES("jdk.types.")},
    };

    for (size_t i = 0; i < sizeof(renamed) / sizeof(renamed[0]); i++) {
        struct bytes now = renamed[i].now;
        if (!bytes_start_with(name, renamed[i].old))
            continue;
        struct bytes rest = bytes_from(name, renamed[i].old.len);
        uint8_t *to = arena_new(a, uint8_t, now.len + rest.len + 1);
        if (!to)
            return name;
        memcpy(to, now.data, now.len);
        memcpy(to + now.len, rest.data, rest.len);
        return (struct bytes){to, now.len + rest.len};
    }
    return name;
}

static enum jfr_kind kind_of(struct bytes name)
{
    static const struct {
        const char *name;
        enum jfr_kind kind;
    } kinds[] = {
        {"boolean", JFR_BYTE}, {"byte", JFR_BYTE},     {"short", JFR_SHORT},
        {"char", JFR_SHORT},   {"int", JFR_INT},       {"long", JFR_LONG},
        {"float", JFR_FLOAT},  {"double", JFR_DOUBLE}, {"java.lang.String", JFR_STRING},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (bytes_are(name, kinds[i].name))
            return kinds[i].kind;
    }
    return JFR_STRUCT;
}

static enum jfr_unit unit_of(struct bytes value)
{
    static const char *const units[] = {
        [JFR_TICKS] = "TICKS",     [JFR_NS] = "NANOSECONDS", [JFR_US] = "MICROSECONDS",
        [JFR_MS] = "MILLISECONDS", [JFR_S] = "SECONDS",
    };

    for (enum jfr_unit u = JFR_TICKS; u <= JFR_S; u++) {
        if (bytes_are(value, units[u]))
            return u;
    }
    return JFR_NO_UNIT;
}

static void add_type(struct jfr_chunk *c, struct jfr_reader *r, const struct element *e)
{
    struct budget *b = c->file->budget;
    int64_t id;

    if (!bytes_to_i64(e->id, &id)) {
        jfr_stop(r, "a type has no id that is a number");
        return;
    }
    struct jfr_type t = {.id = (uint64_t)id, .name = modern_name(&c->arena, e->name)};
    t.kind = kind_of(t.name);
    t.first_field = (uint32_t)c->fields.len;
    t.event = e->super.len > 0 ? jfr_event_kind(t.name) : NULL;
    if (jfr_ids_add(b, &c->type_ids, t.id) == JFR_NO_ID) {
        if (!budget_failed(b))
            jfr_stop(r, "two types have the same id");
        return;
    }
    vec_push(b, &c->types, t);
}

static void add_field(struct jfr_chunk *c, struct jfr_reader *r, const struct element *e)
{
    struct jfr_field f = {.name = e->name};
    int64_t type;

    if (!bytes_to_i64(e->type, &type)) {
        jfr_stop(r, "a field has no type id that is a number");
        return;
    }
    f.type = (uint64_t)type;
    f.is_constant = bytes_are(e->constant, "true");
    f.is_array = e->dimension.len > 0 && !bytes_are(e->dimension, "0");
    if (c->fields.len < UINT32_MAX && vec_push(c->file->budget, &c->fields, f))
        vec_last(&c->types).n_fields++;
}

enum inside { IN_NOTHING, IN_TYPE, IN_FIELD };

static void read_element(struct jfr_chunk *c, struct jfr_reader *r, const struct strings *s,
                         enum inside in, unsigned depth)
{
    struct element e = {.tag = read_string_index(r, s)};
    enum inside children = IN_NOTHING;

    if (depth >= DEPTH_MAX) {
        jfr_stop(r, "the elements of the metadata are nested more than 16 deep");
        return;
    }
    read_attributes(r, s, &e);
    if (r->failure)
        return;
    if (bytes_are(e.tag, "class")) {
        add_type(c, r, &e);
        children = IN_TYPE;
    } else if (in == IN_TYPE && bytes_are(e.tag, "field")) {
        add_field(c, r, &e);
        children = IN_FIELD;
    } else if (in == IN_FIELD && bytes_are(e.tag, "annotation")) {
        enum jfr_unit unit = unit_of(e.value);
        if (unit != JFR_NO_UNIT && c->fields.len > 0)
            vec_last(&c->fields).unit = unit;
    }
    uint64_t n = jfr_int(r);
    for (uint64_t i = 0; i < n && !r->failure && !budget_failed(c->file->budget); i++)
        read_element(c, r, s, children, depth + 1);
}

static void read_strings(struct jfr_chunk *c, struct jfr_reader *r, struct strings *s)
{
    uint64_t n = jfr_int(r);

    if (n > jfr_left(r)) {
        jfr_stop(r, "the metadata is too short for its strings");
        return;
    }
    for (uint64_t i = 0; i < n && !r->failure; i++) {
        struct bytes text = jfr_text_utf8(&c->arena, jfr_read_text(r));
        if (!vec_push(c->file->budget, &s->list, text))
            return;
    }
}

int jfr_read_metadata(struct jfr_chunk *c)
{
    struct jfr_reader r = c->all;
    struct strings s = {0};

    r.pos += c->metadata_at;
    const uint8_t *start = r.pos;
    uint64_t size = jfr_int(&r);
    if (!r.failure && (size < (size_t)(r.pos - start) || size > (size_t)(r.end - start)))
        return jfr_fail(c->file, start, "the metadata runs past the end of its chunk");
    if (!r.failure)
        r.end = start + size;
    uint64_t type = jfr_long(&r);
    if (!r.failure && type != 0)
        return jfr_fail(c->file, start, "the header points to an event that is not metadata");
    for (int i = 0; i < 3; i++)
        jfr_long(&r); /* start, duration, metadata id */
    read_strings(c, &r, &s);
    if (!r.failure && !budget_failed(c->file->budget))
        read_element(c, &r, &s, IN_NOTHING, 0);
    vec_done(c->file->budget, &s.list);
    return jfr_check(c->file, &r);
}

struct jfr_type *jfr_find_type(struct jfr_chunk *c, uint64_t id)
{
    uint32_t i = jfr_ids_find(&c->type_ids, id);
    return i == JFR_NO_ID ? NULL : &c->types.data[i];
}

/* Compiling: the fields of a type, those of its structs laid out in place, as one list of steps. */
struct compiler {
    struct jfr_chunk *chunk;
    const struct jfr_type *top;
    const struct jfr_wants *wants;
    VEC(struct jfr_op) ops;
    struct jfr_plan *plan;
    size_t n_fields;
};

static uint8_t find_want(const struct jfr_want *w, struct bytes name)
{
    for (; w && w->name; w++) {
        if (bytes_are(name, w->name))
            return w->slot;
    }
    return JFR_NO_SLOT;
}

static struct jfr_op integer_op(const struct compiler *k, unsigned width, uint8_t slot)
{
    if (k->chunk->all.compressed && width > 1)
        return (struct jfr_op){.code = JFR_OP_VARINT, .slot = slot};
    return (struct jfr_op){.code = JFR_OP_FIXED, .slot = slot, .width = (uint8_t)width};
}

static uint8_t number_slot(struct compiler *k, const struct jfr_field *f, bool is_wanted)
{
    uint8_t slot = is_wanted && f ? find_want(k->wants->numbers, f->name) : JFR_NO_SLOT;

    if (slot != JFR_NO_SLOT) {
        k->plan->units[slot] = f->unit;
        k->plan->has_numbers |= 1u << slot;
    }
    return slot;
}

static struct jfr_op constant_op(struct compiler *k, const struct jfr_field *f,
                                 const struct jfr_type *t, bool is_wanted)
{
    bool is_symbol = t && bytes_are(t->name, "jdk.types.Symbol");

    if (is_symbol || (t && t->kind == JFR_STRING)) {
        uint8_t slot = is_wanted ? find_want(k->wants->texts, f->name) : JFR_NO_SLOT;
        return (struct jfr_op){.code = JFR_OP_REF,
                               .slot = slot,
                               .encoding = is_symbol ? JFR_TEXT_SYMBOL : JFR_TEXT_STRING};
    }
    return integer_op(k, 8, number_slot(k, f, is_wanted));
}

static struct jfr_op scalar_op(struct compiler *k, const struct jfr_field *f, enum jfr_kind kind,
                               bool is_wanted)
{
    static const uint8_t widths[] = {
        [JFR_BYTE] = 1, [JFR_SHORT] = 2, [JFR_INT] = 4,
        [JFR_LONG] = 8, [JFR_FLOAT] = 4, [JFR_DOUBLE] = 8,
    };

    if (kind == JFR_STRING) {
        uint8_t slot = is_wanted && f ? find_want(k->wants->texts, f->name) : JFR_NO_SLOT;
        return (struct jfr_op){.code = JFR_OP_TEXT, .slot = slot};
    }
    uint8_t slot = number_slot(k, f, is_wanted);
    if (kind == JFR_FLOAT || kind == JFR_DOUBLE)
        return (struct jfr_op){.code = JFR_OP_FIXED, .slot = slot, .width = widths[kind]};
    return integer_op(k, widths[kind], slot);
}

static int compile_fields(struct compiler *k, const struct jfr_type *t, bool is_wanted,
                          unsigned depth);

static int compile_field(struct compiler *k, const struct jfr_field *f, bool is_wanted,
                         unsigned depth)
{
    struct jfr_chunk *c = k->chunk;
    struct budget *b = c->file->budget;
    const struct jfr_type *t = jfr_find_type(c, f->type);
    size_t array_at = k->ops.len;
    int r = 0;

    if (++k->n_fields > FIELDS_MAX)
        return jfr_fail(c->file, c->all.pos + c->metadata_at,
                        "type \"%.*s\" has more than %d fields, those of its structs counted in",
                        (int)bytes_head(k->top->name, 100).len, k->top->name.data, FIELDS_MAX);
    if (!t && !f->is_constant)
        return jfr_fail(c->file, c->all.pos + c->metadata_at,
                        "type \"%.*s\" has a field \"%.*s\" of a type that is not defined",
                        (int)bytes_head(k->top->name, 100).len, k->top->name.data,
                        (int)bytes_head(f->name, 100).len, f->name.data);
    if (f->is_array) {
        if (!vec_push(b, &k->ops, (struct jfr_op){.code = JFR_OP_ARRAY, .slot = JFR_NO_SLOT}))
            return budget_error(b, c->file->err);
        is_wanted = false;
    }
    if (f->is_constant)
        vec_push(b, &k->ops, constant_op(k, f, t, is_wanted));
    else if (t->kind != JFR_STRUCT)
        vec_push(b, &k->ops, scalar_op(k, f, t->kind, is_wanted));
    else
        r = compile_fields(k, t, f->is_array && depth == 0 && k->wants->in_arrays, depth + 1);
    if (r < 0)
        return r;
    if (budget_failed(b))
        return budget_error(b, c->file->err);
    if (f->is_array)
        k->ops.data[array_at].body = (uint32_t)(k->ops.len - array_at - 1);
    return 0;
}

static int compile_fields(struct compiler *k, const struct jfr_type *t, bool is_wanted,
                          unsigned depth)
{
    struct jfr_chunk *c = k->chunk;

    if (depth >= DEPTH_MAX)
        return jfr_fail(c->file, c->all.pos + c->metadata_at,
                        "type \"%.*s\" has structs nested %d deep, or contains itself",
                        (int)bytes_head(k->top->name, 100).len, k->top->name.data, DEPTH_MAX);
    for (uint32_t i = 0; i < t->n_fields; i++) {
        int r = compile_field(k, &c->fields.data[t->first_field + i], is_wanted, depth);
        if (r < 0)
            return r;
    }
    return 0;
}

int jfr_compile(struct jfr_chunk *c, struct jfr_type *t, const struct jfr_wants *wants)
{
    struct budget *b = c->file->budget;
    struct compiler k = {.chunk = c, .top = t, .wants = wants};
    int r = 0;

    k.plan = arena_new(&c->arena, struct jfr_plan, 1);
    if (!k.plan)
        return budget_error(b, c->file->err);
    if (t->kind == JFR_STRUCT) {
        r = compile_fields(&k, t, true, 0);
    } else {
        /* A constant that is a plain value: the one field, without a name, of its own pool. */
        struct jfr_op op = scalar_op(&k, NULL, t->kind, false);
        if (t->kind == JFR_STRING)
            op.slot = 0;
        vec_push(b, &k.ops, op);
    }
    struct jfr_op *ops = r < 0 ? NULL : arena_new(&c->arena, struct jfr_op, k.ops.len);
    if (ops && k.ops.len > 0)
        memcpy(ops, k.ops.data, k.ops.len * sizeof(*ops));
    k.plan->ops = ops;
    k.plan->n_ops = k.ops.len;
    vec_done(b, &k.ops);
    if (r == 0 && budget_failed(b))
        r = budget_error(b, c->file->err);
    if (r == 0)
        t->plan = k.plan;
    return r;
}

static void run(const struct jfr_op *ops, size_t n, struct jfr_reader *r, struct jfr_values *v,
                bool is_outermost);

static void run_array(const struct jfr_op *op, struct jfr_reader *r, struct jfr_values *v,
                      bool is_outermost)
{
    uint64_t n = jfr_int(r);

    if (op->body == 0)
        return;
    if (n > jfr_left(r))
        jfr_stop(r, "an array runs past the end of what holds it");
    for (uint64_t i = 0; i < n && !r->failure; i++) {
        run(op + 1, op->body, r, v, false);
        if (is_outermost && v->each && !r->failure)
            v->each(v);
    }
}

static void run(const struct jfr_op *ops, size_t n, struct jfr_reader *r, struct jfr_values *v,
                bool is_outermost)
{
    for (size_t i = 0; i < n; i++) {
        const struct jfr_op *op = &ops[i];
        bool is_kept = op->slot != JFR_NO_SLOT;

        switch (op->code) {
        case JFR_OP_VARINT:
        case JFR_OP_FIXED: {
            uint64_t number = op->code == JFR_OP_VARINT ? jfr_varint(r) : jfr_fixed(r, op->width);
            if (is_kept)
                v->numbers[op->slot] = number;
            break;
        }
        case JFR_OP_REF: {
            struct jfr_text text = {.encoding = (enum jfr_encoding)op->encoding,
                                    .ref = jfr_long(r)};
            if (is_kept)
                v->texts[op->slot] = text;
            break;
        }
        case JFR_OP_TEXT: {
            struct jfr_text text = jfr_read_text(r);
            if (is_kept)
                v->texts[op->slot] = text;
            break;
        }
        case JFR_OP_ARRAY:
        default:
            run_array(op, r, v, is_outermost);
            i += op->body;
            break;
        }
    }
}

void jfr_run(const struct jfr_plan *plan, struct jfr_reader *r, struct jfr_values *v)
{
    run(plan->ops, plan->n_ops, r, v, true);
}
