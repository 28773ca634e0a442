/*
 * Attribute values. Plain ones become attributes of the model; arrays and lists are kept as the
 * message they came in, with every string written out, so that they mean the same elsewhere.
 */
#include "formats/otlp_internal.h"

#define DEPTH_MAX 32

enum any_value_field {
    ANY_STRING = 1,
    ANY_BOOL = 2,
    ANY_INT = 3,
    ANY_DOUBLE = 4,
    ANY_ARRAY = 5,
    ANY_LIST = 6,
    ANY_BYTES = 7,
    ANY_STRING_INDEX = 8,
};

/* The value of an AnyValue is its last field. */
struct any_value {
    uint32_t field;
    uint64_t number;
    struct bytes data;
};

static struct any_value read_any(struct otlp *o, struct bytes message)
{
    struct pb_reader r = pb_reader(message);
    struct any_value v = {0};

    while (otlp_next(o, &r)) {
        switch (r.field) {
        case ANY_STRING:
        case ANY_ARRAY:
        case ANY_LIST:
        case ANY_BYTES:
            v = (struct any_value){.field = r.field, .data = pb_bytes(&r)};
            break;
        case ANY_BOOL:
        case ANY_INT:
        case ANY_DOUBLE:
            v = (struct any_value){.field = r.field, .number = pb_u64(&r)};
            break;
        case ANY_STRING_INDEX:
            v = (struct any_value){.field = ANY_STRING};
            v.data = dict_text(o->dict, otlp_get(o, &o->strings, pb_u64(&r), "string", r.pos));
            break;
        default:
            break;
        }
    }
    return v;
}

/* The key of a KeyValue: written out, or an index. */
static struct bytes read_key(struct otlp *o, struct bytes message, struct bytes *ret_value)
{
    struct pb_reader r = pb_reader(message);
    struct bytes key = {0}, value = BYTES("");
    uint32_t index_key = 0;

    while (otlp_next(o, &r)) {
        if (r.field == 1)
            key = pb_bytes(&r);
        else if (r.field == 2)
            value = pb_bytes(&r);
        else if (r.field == 3)
            index_key = otlp_get(o, &o->strings, pb_u64(&r), "string", r.pos);
    }
    *ret_value = value;
    return key.len > 0 ? key : dict_text(o->dict, index_key);
}

bool otlp_charge(struct otlp *o)
{
    if (o->value.cap > o->value_charged) {
        if (budget_take(o->budget, o->value.cap - o->value_charged))
            o->value_charged = o->value.cap;
        else if (o->status == 0)
            o->status = budget_error(o->budget, o->err);
    }
    return o->status == 0;
}

static void write_any(struct otlp *o, struct bytes message, int depth);

static void write_elements(struct otlp *o, struct any_value v, int depth)
{
    struct buf *out = &o->value;
    size_t outer = pb_begin(out, v.field);

    for (struct pb_reader r = pb_reader(v.data); otlp_next(o, &r);) {
        if (r.field != 1)
            continue;
        struct bytes value = pb_bytes(&r);
        size_t inner = pb_begin(out, 1);
        if (v.field == ANY_LIST) {
            struct bytes key = read_key(o, value, &value);
            pb_put_bytes_opt(out, 1, key);
            size_t at = pb_begin(out, 2);
            write_any(o, value, depth);
            pb_end(out, at);
        } else {
            write_any(o, value, depth);
        }
        pb_end(out, inner);
    }
    pb_end(out, outer);
}

static void write_any(struct otlp *o, struct bytes message, int depth)
{
    struct buf *out = &o->value;

    if (depth == DEPTH_MAX) {
        otlp_fail(o, message.data, "an attribute value is nested more than %d deep", DEPTH_MAX);
        return;
    }
    struct any_value v = read_any(o, message);
    switch (v.field) {
    case ANY_STRING:
    case ANY_BYTES:
        pb_put_bytes(out, v.field, v.data);
        break;
    case ANY_BOOL:
    case ANY_INT:
        pb_put_u64(out, v.field, v.number);
        break;
    case ANY_DOUBLE:
        pb_put_fixed64(out, v.field, v.number);
        break;
    case ANY_ARRAY:
    case ANY_LIST:
        write_elements(o, v, depth + 1);
        break;
    default:
        break;
    }
    otlp_charge(o);
}

uint32_t otlp_attribute(struct otlp *o, uint32_t key, uint32_t unit, struct bytes value)
{
    static const enum attribute_kind kinds[] = {
        [ANY_STRING] = ATTRIBUTE_STRING, [ANY_BOOL] = ATTRIBUTE_BOOL,
        [ANY_INT] = ATTRIBUTE_INT,       [ANY_DOUBLE] = ATTRIBUTE_DOUBLE,
        [ANY_ARRAY] = ATTRIBUTE_OTHER,   [ANY_LIST] = ATTRIBUTE_OTHER,
        [ANY_BYTES] = ATTRIBUTE_BYTES,
    };
    struct any_value v = read_any(o, value);
    struct attribute a = {.key = key, .unit = unit, .kind = kinds[v.field]};

    if (a.kind == ATTRIBUTE_OTHER) {
        buf_clear(&o->value);
        write_any(o, value, 0);
        a.text = dict_string(o->dict, buf_bytes(&o->value));
    } else if (a.kind == ATTRIBUTE_STRING || a.kind == ATTRIBUTE_BYTES) {
        a.text = dict_string(o->dict, v.data);
    } else {
        a.number = a.kind == ATTRIBUTE_BOOL ? v.number != 0 : (int64_t)v.number;
    }
    return o->status == 0 ? dict_attribute(o->dict, a) : 0;
}

uint32_t otlp_key_value(struct otlp *o, struct bytes message)
{
    struct bytes value, key = read_key(o, message, &value);

    return otlp_attribute(o, dict_string(o->dict, key), 0, value);
}

struct pb_reader otlp_array(struct bytes any_value)
{
    struct pb_reader r = pb_reader(any_value);

    if (pb_next(&r) && r.field == ANY_ARRAY && r.wire == PB_BYTES)
        return pb_reader(r.data);
    return pb_reader(BYTES(""));
}

/* One element of an array that write_any() made: its only field. */
static bool next_value(struct pb_reader *array, struct any_value *ret)
{
    if (!pb_next(array))
        return false;
    struct pb_reader r = pb_reader(array->data);
    *ret = (struct any_value){0};
    if (pb_next(&r))
        *ret = (struct any_value){.field = r.field, .number = r.value, .data = r.data};
    return true;
}

bool otlp_next_string(struct pb_reader *array, struct bytes *ret)
{
    struct any_value v;

    if (!next_value(array, &v) || v.field != ANY_STRING)
        return false;
    *ret = v.data;
    return true;
}

int otlp_int_array(struct bytes any_value, int64_t *to, int max)
{
    struct pb_reader array = otlp_array(any_value);
    struct any_value v;
    int n = 0;

    while (next_value(&array, &v)) {
        if (v.field != ANY_INT || n == max)
            return -1;
        to[n++] = (int64_t)v.number;
    }
    return n;
}

static bool all_strings(struct bytes any_value)
{
    struct pb_reader array = otlp_array(any_value);
    struct bytes s;
    size_t n = 0;

    while (otlp_next_string(&array, &s))
        n++;
    return n > 0 && array.pos == array.end && !array.failure;
}

static int compare(const struct any_value *a, const struct any_value *b)
{
    if (a->field != b->field)
        return a->field < b->field ? -1 : 1;
    if (a->field == ANY_INT)
        return (int64_t)a->number < (int64_t)b->number ? -1 : a->number != b->number;
    size_t n = a->data.len < b->data.len ? a->data.len : b->data.len;
    int c = n > 0 ? memcmp(a->data.data, b->data.data, n) : 0;
    return c ? c : a->data.len < b->data.len ? -1 : a->data.len > b->data.len;
}

/*
 * A pprof sample may have several labels of one key, an OTLP owner may not. They are written as one
 * array: strings, then numbers, each ascending and without repetition. Only an array of exactly
 * this form is read as several labels; so any other keeps its order and comes back as it was.
 */
static bool is_label_list(struct bytes any_value)
{
    struct pb_reader array = otlp_array(any_value);
    struct any_value v, last = {0};
    size_t n = 0;

    for (; next_value(&array, &v); last = v, n++) {
        if (v.field != ANY_STRING && v.field != ANY_INT)
            return false;
        if (n > 0 && compare(&last, &v) >= 0)
            return false;
    }
    return n > 1;
}

void otlp_expand_list(struct otlp *o, uint32_t attribute)
{
    struct attribute a = o->dict->attributes.data[attribute];
    struct pb_reader array = otlp_array(dict_text(o->dict, a.text));

    for (struct any_value v; next_value(&array, &v);) {
        a.kind = v.field == ANY_INT ? ATTRIBUTE_INT : ATTRIBUTE_STRING;
        a.number = v.field == ANY_INT ? (int64_t)v.number : 0;
        a.text = v.field == ANY_INT ? 0 : dict_string(o->dict, v.data);
        vec_push(o->budget, &o->ids, dict_attribute(o->dict, a));
    }
}

static enum otlp_role role_of_string(struct bytes key)
{
    static const struct {
        const char *key;
        enum otlp_role role;
    } roles[] = {
        {"profile.frame.type", ROLE_FRAME_TYPE},
        {"process.executable.build_id.gnu", ROLE_BUILD_ID},
        {"pprof.profile.comment", ROLE_COMMENT},
        {"pprof.profile.drop_frames", ROLE_DROP_FRAMES},
        {"pprof.profile.keep_frames", ROLE_KEEP_FRAMES},
        {"pprof.profile.doc_url", ROLE_DOC_URL},
    };

    for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
        if (bytes_are(key, roles[i].key))
            return roles[i].role;
    }
    /* The Collector's translator numbers comments. */
    return bytes_start_with(key, BYTES("pprof.profile.comment.")) ? ROLE_COMMENT : ROLE_NONE;
}

static enum otlp_role role_of_flag(struct bytes key)
{
    static const struct {
        const char *key;
        enum otlp_role role;
    } roles[] = {
        {"pprof.location.is_folded", ROLE_FOLDED},
        {"pprof.mapping.has_functions", ROLE_HAS_FUNCTIONS},
        {"pprof.mapping.has_filenames", ROLE_HAS_FILENAMES},
        {"pprof.mapping.has_line_numbers", ROLE_HAS_LINE_NUMBERS},
        {"pprof.mapping.has_inline_frames", ROLE_HAS_INLINE_FRAMES},
    };

    for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
        if (bytes_are(key, roles[i].key))
            return roles[i].role;
    }
    return ROLE_NONE;
}

enum otlp_role otlp_role_of(const struct otlp *o, uint32_t attribute)
{
    const struct attribute *a = &o->dict->attributes.data[attribute];
    struct bytes key = dict_text(o->dict, a->key);

    if (a->kind == ATTRIBUTE_OTHER) {
        struct bytes text = dict_text(o->dict, a->text);
        if (bytes_are(key, "pprof.profile.comment") && all_strings(text))
            return ROLE_COMMENT_LIST;
        return is_label_list(text) ? ROLE_LIST : ROLE_NONE;
    }
    if (a->unit != 0 || key.len == 0 || key.data[0] != 'p')
        return ROLE_NONE;
    if (a->kind == ATTRIBUTE_STRING && a->text != 0)
        return role_of_string(key);
    return a->kind == ATTRIBUTE_BOOL && a->number ? role_of_flag(key) : ROLE_NONE;
}
