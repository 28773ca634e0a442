/*
 * Resources, scopes, profiles and samples. Fields come in any order: whatever must be known before
 * the samples is read by a first walk over its message, the samples by a second.
 */
#include "base/hash.h"
#include "formats/otlp_internal.h"

/* A 1.7 message may have every sample refer to all locations: its size does not bound the work. */
#define SLICE_FRAMES_MAX ((uint64_t)1 << 28)

static uint32_t string_at(struct otlp *o, struct pb_reader *r)
{
    return otlp_get(o, &o->strings, pb_u64(r), "string", r->pos);
}

/* What a sample says, as found on the wire. */
struct raw_sample {
    uint64_t stack, start, length, link;
    bool has_link;
    struct bytes attributes, values, times;
    uint32_t n_attributes, n_values, n_times; /* how often the field came */
    bool is_odd;                              /* lists in pieces, or not packed */
};

/* Keeps the list of a field that ought to come once, packed. */
static void keep_list(struct raw_sample *s, const struct pb_reader *r, struct bytes *list,
                      uint32_t *n)
{
    s->is_odd |= (*n)++ > 0 || r->wire != PB_BYTES;
    *list = r->data;
}

static bool read_raw_sample(struct otlp *o, struct bytes message, struct raw_sample *s)
{
    struct pb_reader r = pb_reader(message);

    while (pb_next(&r)) {
        switch (otlp_field(o->layout->sample, r.field)) {
        case SAMPLE_STACK:
            s->stack = pb_u64(&r);
            break;
        case SAMPLE_ATTRIBUTES:
            keep_list(s, &r, &s->attributes, &s->n_attributes);
            break;
        case SAMPLE_LINK:
            s->link = pb_u64(&r);
            s->has_link = true;
            break;
        case SAMPLE_VALUES:
            keep_list(s, &r, &s->values, &s->n_values);
            break;
        case SAMPLE_TIMES:
            keep_list(s, &r, &s->times, &s->n_times);
            break;
        case SAMPLE_VARINT_TIMES:
            s->is_odd = true;
            s->n_times++;
            break;
        case SAMPLE_START:
            s->start = pb_u64(&r);
            break;
        case SAMPLE_LENGTH:
            s->length = pb_u64(&r);
            break;
        default:
            break;
        }
    }
    return otlp_good(o, &r);
}

/* The same for samples as most senders write them: short tags, lists packed and in one piece. */
static bool read_plain_sample(const uint8_t *fields, struct bytes message, struct raw_sample *s)
{
    const uint8_t *pos = message.data, *end = pos + message.len;

    while (pos < end) {
        uint8_t tag = *pos++;
        struct bytes *list;
        uint64_t v;
        if (tag >= 0x80 || !pb_varint(&pos, end, &v))
            return false;
        switch (fields[tag >> 3] << 3 | (tag & 7)) {
        case SAMPLE_STACK << 3 | PB_VARINT:
            s->stack = v;
            continue;
        case SAMPLE_LINK << 3 | PB_VARINT:
            s->link = v;
            s->has_link = true;
            continue;
        case SAMPLE_ATTRIBUTES << 3 | PB_BYTES:
            list = &s->attributes;
            s->n_attributes++;
            break;
        case SAMPLE_VALUES << 3 | PB_BYTES:
            list = &s->values;
            s->n_values++;
            break;
        case SAMPLE_TIMES << 3 | PB_BYTES:
            list = &s->times;
            s->n_times++;
            break;
        default:
            return false;
        }
        if (v > (size_t)(end - pos) || list->data)
            return false;
        *list = (struct bytes){pos, (size_t)v};
        pos += v;
    }
    return true;
}

static void add_times(struct otlp *o, struct pb_reader *r)
{
    if (r->wire != PB_BYTES) {
        vec_push(o->budget, &o->times, pb_u64(r));
    } else if (r->data.len % 8 != 0) {
        pb_fail(r, "a list of times is not made of 8-byte numbers");
    } else if (vec_reserve(o->budget, &o->times, r->data.len / 8)) {
        vec_copy_(o->times.data + o->times.len, r->data.data, r->data.len);
        o->times.len += r->data.len / 8;
    }
}

/* The values and times of a sample into o->values and o->times. */
static void read_lists(struct otlp *o, struct bytes message)
{
    struct pb_reader r = pb_reader(message);

    vec_clear(&o->values);
    vec_clear(&o->times);
    while (otlp_next(o, &r)) {
        uint32_t field = otlp_field(o->layout->sample, r.field);
        if (field == SAMPLE_TIMES) {
            add_times(o, &r);
        } else if (field == SAMPLE_VALUES || field == SAMPLE_VARINT_TIMES) {
            struct bytes list = pb_packed(&r);
            for (uint64_t v; pb_packed_next(&r, &list, &v);) {
                if (field == SAMPLE_VALUES)
                    vec_push(o->budget, &o->values, (int64_t)v);
                else
                    vec_push(o->budget, &o->times, v);
            }
        }
    }
}

static uint32_t sample_attrs(struct otlp *o, struct bytes message, const struct raw_sample *s)
{
    struct otlp_memo *memo = NULL;

    if (s->n_attributes == 0)
        return 0;
    if (!s->is_odd) {
        uint64_t hash = hash_bytes(s->attributes.data, s->attributes.len);
        memo = &o->attrs_memo[hash >> 32 & (OTLP_MEMO_SLOTS - 1)];
        if (memo->list.data && bytes_equal(memo->list, s->attributes))
            return memo->attrs;
    }
    vec_clear(&o->ids);
    for (struct pb_reader r = pb_reader(message); otlp_next(o, &r);) {
        if (otlp_field(o->layout->sample, r.field) == SAMPLE_ATTRIBUTES)
            otlp_add_labels(o, &r);
    }
    uint32_t attrs = dict_attrs(o->dict, o->ids.data, o->ids.len);
    if (memo)
        *memo = (struct otlp_memo){s->attributes, attrs};
    return attrs;
}

static uint32_t sample_slice(struct otlp *o, const struct raw_sample *s, const uint8_t *at)
{
    if (s->start > o->slice.len || s->length > o->slice.len - s->start) {
        otlp_fail(o, at, "locations %llu to %llu of the profile do not exist: it has %zu",
                  (unsigned long long)s->start, (unsigned long long)s->start + s->length,
                  o->slice.len);
        return 0;
    }
    o->n_slice_frames += s->length;
    if (o->n_slice_frames > SLICE_FRAMES_MAX) {
        otlp_fail(o, at, "its stacks have more than %llu frames together",
                  (unsigned long long)SLICE_FRAMES_MAX);
        return 0;
    }
    return otlp_stack(o, o->slice.data + s->start, s->length);
}

/* Senders do not all keep to the shapes a sample may have: what can be made sense of is kept. */
static void add_odd_rows(struct otlp *o, struct profile *p, struct sample *row, const uint8_t *at)
{
    size_t n_values = o->values.len, n_times = o->times.len;

    if (n_values == 0 && n_times == 0) {
        profile_set_note(o->set, "samples without a value or a time were left out");
        return;
    }
    if (n_values == p->n_types) {
        row->values = o->values.data;
        profile_set_note(o->set, "the times of samples that have fewer values than times were left "
                                 "out");
        profile_add(p, row);
        return;
    }
    if (p->n_types > 1) {
        otlp_fail(o, at, "a sample has %zu values and its profile %u sample types", n_values,
                  p->n_types);
        return;
    }
    uint64_t sum = 0;
    for (size_t i = 0; i < n_values; i++)
        sum += (uint64_t)o->values.data[i];
    profile_set_note(o->set, "samples of several values without as many times were summed up");
    row->values = &(int64_t){(int64_t)sum};
    profile_add(p, row);
}

static void add_rows(struct otlp *o, struct profile *p, struct sample *row, const uint8_t *at)
{
    static const int64_t ones[PROFILE_TYPES_MAX] = {[0 ... PROFILE_TYPES_MAX - 1] = 1};
    size_t n_values = o->values.len, n_times = o->times.len;

    if (n_values == p->n_types && n_times <= 1) {
        row->values = o->values.data;
        row->time_ns = n_times ? o->times.data[0] : 0;
        profile_add(p, row);
    } else if (n_values == 0 && n_times > 0) {
        row->values = ones;
        for (size_t i = 0; i < n_times && !budget_failed(o->budget); i++) {
            row->time_ns = o->times.data[i];
            profile_add(p, row);
        }
    } else if (n_values == n_times && n_values > 0 && p->n_types == 1) {
        for (size_t i = 0; i < n_times && !budget_failed(o->budget); i++) {
            row->values = o->values.data + i;
            row->time_ns = o->times.data[i];
            profile_add(p, row);
        }
    } else {
        add_odd_rows(o, p, row, at);
    }
}

/* profile_add() for one type where all is ready: no time, and no column to make. */
static void add_row(struct profile *p, const struct sample *row)
{
    size_t i = p->n_samples;

    if (i == p->cap || (row->attrs && !p->attrs) || (row->link && !p->link) || p->time_ns) {
        profile_add(p, row);
        return;
    }
    p->node[i] = row->node;
    p->values[0][i] = row->values[0];
    if (p->attrs)
        p->attrs[i] = row->attrs;
    if (p->link)
        p->link[i] = row->link;
    p->n_samples++;
}

/* The usual shapes of a profile of one type: one value, or only times. False for any other. */
static bool add_plain_rows(struct otlp *o, struct profile *p, const struct raw_sample *s,
                           struct sample row)
{
    const uint8_t *pos = s->values.data;
    uint64_t v;
    int64_t value = 1;

    if (s->is_odd || p->n_types != 1 || s->n_values + s->n_times != 1)
        return false;
    row.values = &value;
    if (s->n_values) {
        if (!pb_varint(&pos, pos + s->values.len, &v) || pos != s->values.data + s->values.len)
            return false;
        value = (int64_t)v;
        add_row(p, &row);
        return true;
    }
    if (s->times.len == 0 || s->times.len % 8 != 0)
        return false;
    for (size_t i = 0; i < s->times.len && !budget_failed(o->budget); i += 8) {
        memcpy(&row.time_ns, s->times.data + i, 8);
        profile_add(p, &row);
    }
    return true;
}

static __attribute__((flatten)) void read_sample(struct otlp *o, struct profile *p,
                                                 struct bytes message)
{
    struct raw_sample s = {0};
    struct sample row = {0};

    if (!read_plain_sample(o->layout->sample, message, &s)) {
        s = (struct raw_sample){0};
        if (!read_raw_sample(o, message, &s))
            return;
    }
    if (s.length > 0)
        row.node = sample_slice(o, &s, message.data);
    else
        row.node = otlp_get(o, &o->stacks, s.stack, "stack", message.data);
    row.attrs = sample_attrs(o, message, &s);
    if (s.has_link)
        row.link = otlp_get(o, &o->links, s.link, "link", message.data);
    if (o->status < 0 || add_plain_rows(o, p, &s, row))
        return;
    read_lists(o, message);
    if (o->status == 0)
        add_rows(o, p, &row, message.data);
}

static struct value_type read_value_type(struct otlp *o, struct bytes message, bool *is_cumulative)
{
    struct pb_reader r = pb_reader(message);
    struct value_type t = {0};

    while (otlp_next(o, &r)) {
        if (r.field == 1)
            t.type = string_at(o, &r);
        else if (r.field == 2)
            t.unit = string_at(o, &r);
        else if (r.field == 3)
            *is_cumulative |= pb_u64(&r) == 2;
    }
    return t;
}

static void add_sample_type(struct otlp *o, struct profile *p, struct bytes message)
{
    struct value_type t = read_value_type(o, message, &p->is_cumulative);
    uint32_t n = p->n_types;

    if (n == PROFILE_TYPES_MAX)
        otlp_fail(o, message.data, "a profile has more than %d sample types", PROFILE_TYPES_MAX);
    else if (profile_add_type(p, t.type, t.unit) != n && o->status == 0)
        otlp_fail(o, message.data, "a profile has the sample type %s/%s twice",
                  dict_cstr(o->dict, t.type), dict_cstr(o->dict, t.unit));
}

static void add_comment(struct otlp *o, struct profile *p, uint32_t string)
{
    vec_push(o->budget, &p->comments, string);
}

static void profile_attribute(struct otlp *o, struct profile *p, uint32_t id, enum otlp_role role)
{
    uint32_t text = o->dict->attributes.data[id].text;

    switch (role) {
    case ROLE_COMMENT:
        add_comment(o, p, text);
        break;
    case ROLE_COMMENT_LIST: {
        struct pb_reader array = otlp_array(dict_text(o->dict, text));
        for (struct bytes s; otlp_next_string(&array, &s);)
            add_comment(o, p, dict_string(o->dict, s));
        break;
    }
    case ROLE_DROP_FRAMES:
        p->drop_frames = text;
        break;
    case ROLE_KEEP_FRAMES:
        p->keep_frames = text;
        break;
    case ROLE_DOC_URL:
        p->doc_url = text;
        break;
    default:
        vec_push(o->budget, &o->ids, id);
        break;
    }
}

static void profile_attributes(struct otlp *o, struct profile *p, struct pb_reader *r)
{
    struct bytes list = pb_packed(r);

    for (uint64_t v; pb_packed_next(r, &list, &v);) {
        uint32_t id = otlp_get(o, &o->attributes, v, "attribute", r->pos);
        if (id != 0)
            profile_attribute(o, p, id, o->roles.data[v]);
    }
}

static void profile_comments(struct otlp *o, struct profile *p, struct pb_reader *r)
{
    struct bytes list = pb_packed(r);

    for (uint64_t v; pb_packed_next(r, &list, &v);)
        add_comment(o, p, otlp_get(o, &o->strings, v, "string", r->pos));
}

static void read_slice(struct otlp *o, struct pb_reader *r)
{
    struct bytes list = pb_packed(r);

    if (!vec_reserve(o->budget, &o->slice, list.len))
        return;
    for (uint64_t v; pb_packed_next(r, &list, &v);)
        o->slice.data[o->slice.len++] = otlp_get(o, &o->locations, v, "location", r->pos);
}

static void profile_set_id(struct otlp *o, struct profile *p, struct bytes id)
{
    if (id.len == sizeof(p->profile_id))
        memcpy(p->profile_id, id.data, id.len);
    else if (id.len > 0)
        profile_set_note(o->set, "a profile id of %zu bytes was read as none", id.len);
}

/* One field of a profile; `default_type` is the index that 1.7 has. */
static void profile_field(struct otlp *o, struct profile *p, struct pb_reader *r,
                          uint64_t *default_type)
{
    bool ignored = false;

    switch (otlp_field(o->layout->profile, r->field)) {
    case PROFILE_SAMPLE_TYPE:
        add_sample_type(o, p, pb_bytes(r));
        break;
    case PROFILE_TIME:
        p->time_unix_ns = pb_i64(r);
        break;
    case PROFILE_DURATION:
        p->duration_ns = pb_i64(r);
        break;
    case PROFILE_PERIOD_TYPE:
        p->period_type = read_value_type(o, pb_bytes(r), &ignored);
        break;
    case PROFILE_PERIOD:
        p->period = pb_i64(r);
        break;
    case PROFILE_ID:
        profile_set_id(o, p, pb_bytes(r));
        break;
    case PROFILE_DROPPED:
        p->dropped_attributes = (uint32_t)pb_u64(r);
        break;
    case PROFILE_FORMAT:
        p->original_format = dict_string(o->dict, pb_bytes(r));
        break;
    case PROFILE_PAYLOAD:
        p->original_payload = dict_string(o->dict, pb_bytes(r));
        break;
    case PROFILE_ATTRIBUTES:
        profile_attributes(o, p, r);
        break;
    case PROFILE_COMMENTS:
        profile_comments(o, p, r);
        break;
    case PROFILE_DEFAULT_TYPE:
        *default_type = pb_u64(r);
        break;
    case PROFILE_LOCATION_INDICES:
        read_slice(o, r);
        break;
    default:
        break;
    }
}

static void read_profile(struct otlp *o, struct bytes message)
{
    struct profile *p = profile_set_add(o->set);
    struct pb_reader r = pb_reader(message);
    uint64_t default_type = 0;
    size_t n_samples = 0;

    if (!p)
        return;
    vec_clear(&o->ids);
    vec_clear(&o->slice);
    while (n_samples += otlp_skip_samples(&r), otlp_next(o, &r)) {
        if (r.field == PROFILE_SAMPLES)
            n_samples++;
        else
            profile_field(o, p, &r, &default_type);
    }
    p->profile_attrs = dict_attrs(o->dict, o->ids.data, o->ids.len);
    if (p->n_types == 0)
        profile_add_type(p, 0, 0);
    if (o->status == 0 && default_type >= p->n_types && default_type > 0)
        otlp_fail(o, message.data, "sample type %llu does not exist: the profile has %u",
                  (unsigned long long)default_type, p->n_types);
    else if (p->n_types > 1)
        p->default_type = p->types[default_type].type;
    if (o->status < 0 || !profile_reserve(p, n_samples))
        return;
    r = pb_reader(message);
    while (o->status == 0 && pb_next(&r)) {
        if (r.field == PROFILE_SAMPLES)
            read_sample(o, p, pb_bytes(&r));
    }
    otlp_good(o, &r);
}

/* Attributes, dropped count and names of a resource or a scope. */
struct owner {
    uint32_t name, version, schema_url, attrs, dropped, entities;
};

/* Entity references are kept as they came: the model has no use for them, another reader may. */
static uint32_t read_entities(struct otlp *o, struct bytes resource)
{
    struct pb_reader r = pb_reader(resource);

    buf_clear(&o->value);
    for (const uint8_t *start = r.pos; otlp_next(o, &r); start = r.pos) {
        if (r.field == 3)
            buf_add(&o->value, start, (size_t)(r.pos - start));
    }
    return otlp_charge(o) ? dict_string(o->dict, buf_bytes(&o->value)) : 0;
}

/* A Resource, or an InstrumentationScope: the same at other numbers. */
static void read_owner(struct otlp *o, struct bytes message, bool is_scope, struct owner *w)
{
    struct pb_reader r = pb_reader(message);
    uint32_t attributes = is_scope ? 3 : 1, dropped = is_scope ? 4 : 2;

    while (otlp_next(o, &r)) {
        if (r.field == attributes) {
            vec_push(o->budget, &o->ids, otlp_key_value(o, pb_bytes(&r)));
        } else if (r.field == dropped) {
            w->dropped = (uint32_t)pb_u64(&r);
        } else if (is_scope && r.field == 1) {
            w->name = dict_string(o->dict, pb_bytes(&r));
        } else if (is_scope && r.field == 2) {
            w->version = dict_string(o->dict, pb_bytes(&r));
        }
    }
}

/* The owner in field 1 of a message of resource or scope profiles, and its schema in field 3. */
static struct owner read_envelope(struct otlp *o, struct bytes message, bool is_scope)
{
    struct pb_reader r = pb_reader(message);
    struct owner w = {0};

    vec_clear(&o->ids);
    while (otlp_next(o, &r)) {
        if (r.field == 1) {
            read_owner(o, pb_bytes(&r), is_scope, &w);
            if (!is_scope)
                w.entities = read_entities(o, pb_bytes(&r));
        }
        if (r.field == 3)
            w.schema_url = dict_string(o->dict, pb_bytes(&r));
    }
    w.attrs = dict_attrs(o->dict, o->ids.data, o->ids.len);
    return w;
}

static void read_scope(struct otlp *o, struct bytes message)
{
    struct owner scope = read_envelope(o, message, true);
    size_t first = o->set->profiles.len;

    for (struct pb_reader r = pb_reader(message); otlp_next(o, &r);) {
        if (r.field == 2)
            read_profile(o, pb_bytes(&r));
    }
    for (size_t i = first; i < o->set->profiles.len; i++) {
        struct profile *p = o->set->profiles.data[i];
        p->scope_index = o->scope_index;
        p->scope_name = scope.name;
        p->scope_version = scope.version;
        p->scope_schema_url = scope.schema_url;
        p->scope_attrs = scope.attrs;
        p->scope_dropped_attributes = scope.dropped;
    }
    if (o->status == 0)
        otlp_join_scope(o, first);
    o->scope_index++;
}

void otlp_read_resource(struct otlp *o, struct bytes message)
{
    struct owner resource = read_envelope(o, message, false);
    size_t first = o->set->profiles.len;

    o->scope_index = 0;
    for (struct pb_reader r = pb_reader(message); otlp_next(o, &r);) {
        if (r.field == 2)
            read_scope(o, pb_bytes(&r));
    }
    for (size_t i = first; i < o->set->profiles.len; i++) {
        struct profile *p = o->set->profiles.data[i];
        p->resource_index = o->resource_index;
        p->resource_schema_url = resource.schema_url;
        p->resource_attrs = resource.attrs;
        p->resource_dropped_attributes = resource.dropped;
        p->resource_entities = resource.entities;
    }
    o->resource_index++;
}
